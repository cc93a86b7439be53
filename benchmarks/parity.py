"""Do the stages give what scikit-learn, SciPy, NetworkX, bm25s and FAISS give?

A few hundred real tables go through the product's own stages, and each stage is computed once more by a library that
someone else wrote, from the same input. The largest difference of each stage must be at most 1e-5; status 1 otherwise.
Where a stage orders things, the values that it orders by are compared at the same places.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _common as common
import networkx as nx
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler, normalize

from gtr_gpu.clustering import kmeans
from gtr_gpu.coarse import find_candidates
from gtr_gpu.config import MODALITIES, Config
from gtr_gpu.features.heuristic import count_queries, stop_words_of, tfidf
from gtr_gpu.features.stems import stem_of
from gtr_gpu.features.tokens import terms
from gtr_gpu.fine import personalize, rank
from gtr_gpu.index import GTRIndex
from gtr_gpu.linearize import heuristic_fields
from gtr_gpu.ops.pagerank import personalized_pagerank
from gtr_gpu.ops.transfer import induced_transfer, similarity_transfer
from gtr_gpu.questions import QueryFeatures
from gtr_gpu.ragged import SparseMatrix
from gtr_gpu.snapshot import Snapshot
from gtr_gpu.storage import IndexFolder

BOUND = 1e-5
N_QUESTIONS = 60
K = 10

Array = npt.NDArray[np.float64]
# A stage, the library that computed it again, how many numbers were compared, the largest difference.
Row = tuple[str, str, int, float]


def scipy_of(matrix: SparseMatrix) -> sp.csr_matrix:
    """The same matrix as SciPy's, in float64."""
    columns = matrix.columns
    parts = (matrix.weights.double().numpy(), columns.values.numpy(), columns.offsets.numpy())
    return sp.csr_matrix(parts, shape=matrix.shape)


def difference(ours: Any, theirs: Any) -> tuple[int, float]:  # noqa: ANN401 (arrays, dense or sparse)
    """How many numbers two arrays hold, and their largest absolute difference; infinite for different shapes."""
    if ours.shape != theirs.shape:
        return 0, float("inf")
    if sp.issparse(ours) or sp.issparse(theirs):
        return int(max(ours.nnz, theirs.nnz)), float(abs(sp.csr_matrix(ours) - sp.csr_matrix(theirs)).max())
    ours, theirs = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if not (np.isfinite(ours) == np.isfinite(theirs)).all():
        return ours.size, float("inf")
    finite = np.isfinite(ours)
    return ours.size, float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0))


class Corpus:
    """An index, its features as NumPy and SciPy see them, and some questions in the same features."""

    def __init__(self, folder: Path, queries: list[str]) -> None:
        files = IndexFolder(folder)
        self.snapshot = files.open_snapshot(lambda manifest: Snapshot.open(files, manifest, torch.device("cpu")))
        self.config: Config = self.snapshot.config
        (self.segment,) = self.snapshot.segments
        self.semantic: Array = self.segment.semantic.double().numpy()
        self.counts = scipy_of(self.segment.terms.counts)
        self.n_tables = self.snapshot.n_tables
        with GTRIndex.load(folder) as index:
            vectors, _ = index.encoder.encode_queries(queries)
            self.fields = [heuristic_fields(table, self.config) for table in index]
        words = stop_words_of(self.config.spacy_model)
        self.stem = stem_of(self.config.stemming, self.config.spacy_model)
        counted = count_queries(queries, self.snapshot.vocabulary, self.config.numbers, words, self.stem)  # type: ignore[arg-type]
        structural = torch.zeros(len(queries), self.snapshot.clusters.mean.numel())
        self.questions = QueryFeatures(vectors, structural, counted)

    def words_of(self, text: str) -> list[str]:
        """The terms of a text, as the index counts them."""
        return self.stem(terms(text, self.config.numbers))  # type: ignore[arg-type]


def count_stage(corpus: Corpus) -> Iterator[Row]:
    """Term counts and TF-IDF, from the tables' texts."""
    names = corpus.snapshot.vocabulary.to_list()
    counter = CountVectorizer(analyzer=corpus.words_of, vocabulary=names)
    counts = counter.transform(["\n".join(fields) for fields in corpus.fields])
    yield "term counts", "scikit-learn CountVectorizer", *difference(corpus.counts, counts)
    frequency = torch.from_numpy(counts.getnnz(axis=0)).long()
    for sublinear in (True, False):
        ours = scipy_of(tfidf(corpus.segment.terms.counts, frequency, corpus.n_tables, sublinear))
        theirs = TfidfTransformer(sublinear_tf=sublinear).fit_transform(counts.astype(np.float64))
        name = "TF-IDF" if sublinear else "TF-IDF, tf not logarithmic"
        yield name, "scikit-learn TfidfTransformer", *difference(ours, theirs)


def lexical_stage(corpus: Corpus) -> Iterator[Row]:
    """BM25 of the questions with all tables."""
    import bm25s

    config = corpus.config
    scorer = bm25s.BM25(method="lucene", k1=config.bm25_k1, b=config.bm25_b, dtype="float64")
    counts = corpus.counts
    tokens = np.repeat(counts.indices, counts.data.astype(int))
    lists = [part.tolist() for part in np.split(tokens, np.cumsum(counts.sum(1).A1.astype(int))[:-1])]
    vocabulary = {str(term): term for term in range(corpus.counts.shape[1])}
    scorer.index(bm25s.tokenization.Tokenized(ids=lists, vocab=vocabulary), show_progress=False)
    asked = scipy_of(corpus.questions.terms)
    theirs = np.zeros((asked.shape[0], corpus.n_tables))
    questions = asked.tocoo()
    for question, term, count in zip(questions.row, questions.col, questions.data, strict=True):
        theirs[question] += count * scorer.get_scores_from_ids([int(term)])
    ours = corpus.snapshot.flat.lexical(corpus.questions.terms, config)
    # BM25 has no unit: both are divided by a question's best score, as a search does.
    best = np.maximum(theirs.max(1, keepdims=True), 1e-30)
    yield "BM25, the best table = 1", "bm25s", *difference(ours.double().numpy() / best, theirs / best)


def dense_stage(corpus: Corpus) -> Iterator[Row]:
    """Cosines of the questions with all tables, and the semantic neighbours of all tables."""
    import faiss

    theirs = cosine_similarity(corpus.questions.semantic.double().numpy(), corpus.semantic)
    ours = corpus.snapshot.flat.dense(corpus.questions.semantic)
    yield "cosines of questions with tables", "scikit-learn cosine_similarity", *difference(ours, theirs)
    flat = faiss.IndexFlatIP(corpus.semantic.shape[1])
    flat.add(corpus.semantic.astype(np.float32))
    best, _ = flat.search(corpus.questions.semantic.numpy(), 10)
    yield "the 10 best cosines", "FAISS IndexFlatIP", *difference(ours.topk(10).values, best)
    edges = corpus.snapshot.out_edges["semantic"]
    m = edges.ids.shape[1]
    distances, _ = NearestNeighbors(n_neighbors=m, metric="cosine", algorithm="brute").fit(corpus.semantic).kneighbors()
    yield "semantic neighbours", "scikit-learn NearestNeighbors", *difference(edges.similarities, 1 - distances)


def evidence_stage(corpus: Corpus) -> Iterator[Row]:
    """The neighbours by header names, key values, cell words and caption words."""
    for kind, edges in corpus.snapshot.out_edges.items():
        if kind == "semantic":
            continue
        held = corpus.segment.evidence(kind)
        if not held.values.numel():  # such as captions, where no table has one
            assert bool((edges.ids < 0).all())
            continue
        pieces, columns = np.unique(held.values.numpy(), return_inverse=True)
        shape = (corpus.n_tables, len(pieces))
        incidence = sp.csr_matrix((np.ones(len(columns)), columns, held.offsets.numpy()), shape=shape)
        frequency = np.asarray(incidence.sum(0)).ravel()
        weighted = normalize(incidence @ sp.diags(np.log1p(corpus.n_tables / np.maximum(frequency, 1))))
        common_ones = sp.diags(((frequency > 1) & (frequency <= corpus.config.max_common)).astype(float))
        weighted = weighted @ common_ones
        similarity = (weighted @ weighted.T).toarray()
        np.fill_diagonal(similarity, 0)
        m = edges.ids.shape[1]
        theirs = -np.sort(-similarity, 1)[:, :m]
        ours = edges.similarities.double().clamp_min(0).numpy()
        yield f"neighbours by {kind}", "SciPy, scikit-learn normalize", *difference(ours, theirs)
        found, places = edges.ids.numpy(), np.arange(corpus.n_tables)[:, None]
        same = np.where(found >= 0, similarity[places, np.maximum(found, 0)], 0)
        yield f"neighbours by {kind}, their own pairs", "SciPy, scikit-learn normalize", *difference(ours, same)


def cluster_stage(corpus: Corpus, features: dict[str, Any]) -> Iterator[Row]:
    """K-means of each modality from the same start, in float64, and the representative scores of the index."""
    n_clusters = len(corpus.snapshot.clusters.semantic)
    for modality, rows in features.items():
        sparse = isinstance(rows, SparseMatrix)
        whole = scipy_of(rows) if sparse else rows.double().numpy()
        ours_rows = rows.with_weights(rows.weights.double()) if sparse else rows.double()
        dense = whole.toarray() if sparse else whole
        # From distinct rows: two equal centroids leave a cluster empty, and ours is repaired otherwise, by a row that
        # equals no other centroid.
        distinct = np.unique(dense, axis=0, return_index=True)[1]
        start = dense[np.random.default_rng(0).choice(distinct, n_clusters, replace=False)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = KMeans(n_clusters, init=start, n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(whole)
        ours = kmeans(
            ours_rows, n_clusters, n_starts=1, max_iterations=300, tolerance=0, init=torch.from_numpy(start.copy()),
            sample_per_cluster=0,
        )  # fmt: skip
        label = f"k-means, {modality}"
        count, apart = difference(ours.labels.numpy(), theirs.labels_)
        yield f"{label}: labels", "scikit-learn KMeans", count, apart
        yield f"{label}: centroids", "scikit-learn KMeans", *difference(ours.centroids, theirs.cluster_centers_)
        yield f"{label}: inertia, relative", "scikit-learn KMeans", 1, abs(ours.inertia / theirs.inertia_ - 1)
        labels = corpus.segment.relations.labels[modality].numpy()
        cosines = cosine_similarity(whole, corpus.snapshot.clusters.centroids(modality).double().numpy())
        stored = corpus.segment.relations.scores[modality]
        joined = cosines[np.arange(corpus.n_tables), labels]
        yield f"representative scores, {modality}", "scikit-learn cosine_similarity", *difference(stored, joined)


def structural_stage(corpus: Corpus) -> Iterator[Row]:
    """Structural features, standardised."""
    ours = corpus.snapshot.clusters.standardize(corpus.segment.structural)
    theirs = StandardScaler().fit_transform(corpus.segment.structural.double().numpy())
    yield "structural features, standardised", "scikit-learn StandardScaler", *difference(ours, theirs)


def personalization_of(scores: Array, temperature: float) -> Array:
    """The shares h of one question: a softmax of its scores, or the clamped scores as shares."""
    if temperature:
        return np.asarray(softmax(scores / temperature))
    clamped = np.maximum(scores, 0)
    return clamped / clamped.sum() if clamped.sum() else np.full(len(scores), 1 / len(scores))


def pagerank_of(weights: sp.csr_matrix, shares: Array, damping: float) -> Array:
    """Personalised PageRank whose dangling nodes give their mass to h."""
    graph = nx.from_scipy_sparse_array(weights, create_using=nx.DiGraph)
    h = dict(enumerate(shares.tolist()))
    visits = nx.pagerank(graph, alpha=damping, personalization=h, dangling=h, tol=1e-13, max_iter=1000)
    return np.array([visits[node] for node in range(len(shares))])


class Worst:
    """The largest difference over all questions."""

    def __init__(self) -> None:
        self.count, self.apart = 0, 0.0

    def add(self, ours: Any, theirs: Any) -> None:  # noqa: ANN401 (arrays, dense or sparse)
        """Compares the arrays of one question."""
        count, apart = difference(ours, theirs)
        self.count, self.apart = self.count + count, max(self.apart, apart)


def walk_stage(corpus: Corpus, name: str, config: Config) -> Iterator[Row]:
    """Each question's transfer matrix, personalisation, walk, and the tables that the search returns."""
    snapshot = corpus.snapshot
    candidates = find_candidates(corpus.questions, snapshot, config, K)
    tables = candidates.tables
    if config.transfer == "graph":
        transfer = induced_transfer(tables, snapshot.graph(config))
    else:
        transfer = similarity_transfer(tables, snapshot.semantic, config.similarity_floor)
    h = personalize(candidates, config.temperature)
    ranks = personalized_pagerank(
        transfer, h, damping=config.damping, tolerance=config.tolerance, max_iterations=config.max_iterations
    )
    ranking = rank(corpus.questions, candidates, snapshot, config, K)
    weights, graph = scipy_of(transfer.weights), scipy_of(snapshot.graph(config))
    matrix, shares, walk, found = Worst(), Worst(), Worst(), Worst()
    n_dangling = 0
    for query in range(len(corpus.questions)):
        own, span = tables[query].numpy(), slice(int(tables.offsets[query]), int(tables.offsets[query + 1]))
        if config.transfer == "graph":
            similarity = graph[own][:, own]
        else:
            dense = cosine_similarity(corpus.semantic[own])
            similarity = sp.csr_matrix(np.where((dense >= config.similarity_floor) & (dense > 0), dense, 0))
        n_dangling += int((np.diff(similarity.indptr) == 0).sum())
        matrix.add(weights[span, span], similarity)
        personal = personalization_of(candidates.scores[span].double().numpy(), config.temperature)
        shares.add(h[span], personal)
        visits = pagerank_of(similarity, personal, config.damping)
        walk.add(ranks.values[span], visits)
        ids = ranking.ids[query].numpy()
        ids = ids[ids >= 0]
        scores = ranking.scores[query][: len(ids)]
        found.add(scores, visits[np.searchsorted(own, ids)])
        found.add(scores, -np.sort(-visits)[: len(ids)])
    library = "SciPy" if config.transfer == "graph" else "scikit-learn cosine_similarity"
    yield f"transfer matrix, {name}", library, matrix.count, matrix.apart
    yield f"personalisation h, {name}", "SciPy softmax" if config.temperature else "NumPy", shares.count, shares.apart
    dangling = f"{n_dangling:,} dangling of {tables.values.numel():,} candidates"
    yield f"personalised PageRank, {name} ({dangling})", "NetworkX pagerank", walk.count, walk.apart
    yield f"the {K} best of a search, {name}", "NetworkX pagerank", found.count, found.apart


def mix_stage(corpus: Corpus) -> Iterator[Row]:
    """The mixed scores of the tables that the walk starts from."""
    config = corpus.config.override({"hops": 0})
    candidates = find_candidates(corpus.questions, corpus.snapshot, config, K)
    cosines = np.maximum(cosine_similarity(corpus.questions.semantic.double().numpy(), corpus.semantic), 0)
    words = corpus.snapshot.flat.lexical(corpus.questions.terms, config).double().numpy()
    mixed = config.mix * normalize(cosines, "max") + (1 - config.mix) * normalize(words, "max")
    worst = Worst()
    for query in range(len(corpus.questions)):
        ours = -np.sort(-candidates.scores[slice(*candidates.tables.offsets[query : query + 2].tolist())].numpy())
        worst.add(ours, -np.sort(-mixed[query])[: len(ours)])
    yield "mixed scores of the seeds", "scikit-learn normalize", worst.count, worst.apart


def stages(corpus: Corpus) -> Iterator[Row]:
    """All comparisons of one set."""
    snapshot, config = corpus.snapshot, corpus.config
    yield from count_stage(corpus)
    yield from structural_stage(corpus)
    yield from lexical_stage(corpus)
    yield from dense_stage(corpus)
    yield from evidence_stage(corpus)
    every = torch.arange(corpus.n_tables)
    yield from cluster_stage(corpus, {modality: snapshot.rows_of(modality, every) for modality in MODALITIES})
    yield from mix_stage(corpus)
    # What pooled scores are is worked by hand in the tests; the walk is the same over any scores.
    mixed = config.override({"personalization": "mixed"})
    yield from walk_stage(corpus, "default", mixed)
    yield from walk_stage(corpus, "10 seeds and no hop", mixed.override({"n_seeds": K, "hops": 0}))
    paper = config.searching_as(Config.preset("paper")).override({"keep": ()})
    yield from walk_stage(corpus, "paper", paper)


def report(measured: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    parts = []
    for one in measured:
        parts.append(f"{one['set']}: {one['tables']:,} tables, {one['questions']} questions")
        rows = [
            [row["stage"], row["library"], f"{row['numbers']:,}", f"{row['difference']:.1e}", row["verdict"]]
            for row in one["stages"]
        ]
        parts.append(common.markdown_table(["stage", "computed again by", "numbers", "largest difference", ""], rows))
    return "\n\n".join(parts)


def main() -> int:
    """Runs the comparison; status 1 where a stage differs."""
    parser = common.parser(__doc__, sets=("wtq", "tatqa"))
    parser.set_defaults(limit=300)
    options = parser.parse_args()
    measured = []
    for name in options.sets:
        folder = common.index_of(options.data, options.indexes, name, options.limit)
        corpus = Corpus(folder, common.sampled_questions(options.data, name, N_QUESTIONS))
        rows = []
        for stage, library, numbers, apart in stages(corpus):
            common.say(f"{name}: {stage}: {apart:.1e}")
            verdict = "" if apart <= BOUND and numbers else "DIFFERS"
            rows.append(
                {"stage": stage, "library": library, "numbers": numbers, "difference": apart, "verdict": verdict}
            )
        measured.append({"set": name, "tables": corpus.n_tables, "questions": len(corpus.questions), "stages": rows})
    common.write_results(options.results, "parity", __doc__, options.limit, {"sets": measured}, report(measured))
    return 1 if any(row["verdict"] for one in measured for row in one["stages"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
