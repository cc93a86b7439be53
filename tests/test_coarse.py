"""Candidates, recomputed by hand from the features of an index, way by way."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from index_fakes import fast_config, make_queries, make_tables, text_vector

from gtr_gpu.coarse import find_candidates, uses_clusters
from gtr_gpu.config import MODALITIES
from gtr_gpu.features.heuristic import count_queries, tfidf
from gtr_gpu.features.structural import StructuralFeaturizer
from gtr_gpu.index import GTRIndex
from gtr_gpu.questions import QueryFeatures

pytestmark = pytest.mark.usefixtures("fake_encoder")

TABLES = make_tables(60)
QUERIES = make_queries(TABLES, 8)
REMOVED = [7, 11, 52]


@pytest.fixture(scope="module")
def index(fake_encoder, tmp_path_factory):
    config = fast_config(n_clusters=6, n_typical=4)
    index = GTRIndex.build(TABLES[:45], tmp_path_factory.mktemp("coarse") / "index", config=config)
    index.add(TABLES[45:])
    index.remove([f"t{number}" for number in REMOVED])
    return index


@pytest.fixture(scope="module")
def snapshot(index):
    return index._snapshot


@pytest.fixture(scope="module")
def queries(snapshot):
    return QueryFeatures(
        torch.stack([text_vector(query) for query in QUERIES]),
        StructuralFeaturizer(fast_config()).features(QUERIES),
        count_queries(QUERIES, snapshot.vocabulary),
    )


def dense_features(snapshot, modality):
    """Features of all tables of one modality as a NumPy matrix, from the parts that the index stores."""
    if modality == "semantic":
        return torch.cat([segment.semantic for segment in snapshot.segments]).numpy()
    clusters = snapshot.clusters
    if modality == "structural":
        raw = torch.cat([segment.structural for segment in snapshot.segments])
        return ((raw - clusters.mean) / clusters.scale).numpy()
    return np.concatenate([weigh(segment.terms.counts, clusters) for segment in snapshot.segments])


def weigh(counts, clusters):
    """TF-IDF of the terms that the clusters know, from dense counts."""
    columns = counts.to_torch().to_dense()[:, clusters.terms.long()].double()
    idf = torch.log((1 + clusters.n_documents) / (1 + clusters.document_frequency.double())) + 1
    rows = torch.where(columns > 0, 1 + columns.clamp_min(1).log(), 0) * idf
    return torch.nn.functional.normalize(rows, dim=1).float().numpy()


def dense_queries(queries, snapshot, modality):
    if modality == "semantic":
        return queries.semantic.numpy()
    if modality == "structural":
        return ((queries.structural - snapshot.clusters.mean) / snapshot.clusters.scale).numpy()
    return weigh(queries.terms, snapshot.clusters)


def cosines(left, right):
    left, right = left.astype(np.float64), right.astype(np.float64)
    lengths = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(right, axis=1)[None]
    return left @ right.T / np.where(lengths > 0, lengths, 1)


def labels_of(snapshot, modality):
    labels = torch.cat([segment.relations.labels[modality] for segment in snapshot.segments]).numpy()
    return np.where(snapshot.alive.numpy(), labels, -1)


def best_clusters(queries, snapshot, modality, how, native, n_probe, n_typical):
    """Each query's best clusters by definition, and their members."""
    rows, labels = dense_features(snapshot, modality), labels_of(snapshot, modality)
    centroids = snapshot.clusters.centroids(modality).numpy()
    mine = dense_queries(queries, snapshot, modality if native else "semantic")
    compared = rows if native else dense_features(snapshot, "semantic")
    to_tables, to_centroids = cosines(mine, compared), cosines(rows, centroids)
    scores = np.full((len(queries), len(centroids)), -np.inf)
    for cluster in range(len(centroids)):
        members = np.flatnonzero(labels == cluster)
        if not len(members):
            continue
        typical = members[np.argsort(-to_centroids[members, cluster], kind="stable")[:n_typical]]
        if how == "centroid":
            scores[:, cluster] = cosines(mine, centroids[cluster : cluster + 1])[:, 0]
        else:
            reduce = np.mean if how == "mean" else np.max
            scores[:, cluster] = reduce(to_tables[:, typical], axis=1)
    chosen = np.argsort(-scores, axis=1, kind="stable")[:, :n_probe]
    return [{t for cluster in row for t in np.flatnonzero(labels == cluster)} for row in chosen]


def as_sets(candidates):
    return [set(row) for row in candidates.tables.to_lists()]


def test_clusters_are_the_nearest_centroids(snapshot):
    for modality in MODALITIES:
        rows, centroids = dense_features(snapshot, modality), snapshot.clusters.centroids(modality).numpy()
        distances = ((rows[:, None] - centroids[None]) ** 2).sum(2)
        labels = torch.cat([segment.relations.labels[modality] for segment in snapshot.segments]).numpy()
        chosen = distances[np.arange(len(rows)), labels]
        np.testing.assert_allclose(chosen, distances.min(1), atol=1e-5)


@pytest.mark.parametrize("modality", MODALITIES)
@pytest.mark.parametrize(
    ("how", "native"), [("mean", True), ("best", True), ("centroid", True), ("mean", False), ("best", False)]
)
@pytest.mark.parametrize("n_probe", [1, 3, 100])
def test_probed_clusters(snapshot, queries, modality, how, native, n_probe):
    config = fast_config(
        coarse="clusters", modalities=(modality,), cluster_score=how, n_probe=n_probe, n_seeds=0, hops=0, n_typical=4,
        query_features="native" if native else "semantic", personalization="semantic",
    )  # fmt: skip
    found = find_candidates(queries, snapshot, config, 5)
    expected = best_clusters(queries, snapshot, modality, how, native, n_probe, 4)
    assert as_sets(found) == expected
    assert all(row == sorted(row) for row in found.tables.to_lists())
    if n_probe == 100:
        assert as_sets(found) == [set(snapshot.alive.nonzero()[:, 0].tolist())] * len(queries)
    # Semantic scores alone are the plain cosines.
    everything = cosines(queries.semantic.numpy(), dense_features(snapshot, "semantic"))
    for row in range(len(queries)):
        np.testing.assert_allclose(
            found.scores[found.tables.segment_ids() == row], everything[row, found.tables[row].numpy()], atol=1e-5
        )


def test_candidates_are_the_union_of_the_modalities(snapshot, queries):
    config = fast_config(
        coarse="clusters", modalities=MODALITIES, cluster_score="mean", n_probe=1, n_seeds=0, hops=0,
        query_features="semantic", personalization="semantic",
    )  # fmt: skip
    parts = [best_clusters(queries, snapshot, modality, "mean", False, 1, 4) for modality in MODALITIES]
    found = find_candidates(queries, snapshot, config, 5)
    assert as_sets(found) == [set.union(*sets) for sets in zip(*parts, strict=True)]


def bm25(queries, snapshot, k1, b):
    """Lucene's BM25 from dense counts of the tables that are alive."""
    n_terms = len(snapshot.vocabulary)
    parts = [segment.terms.counts.to_torch().to_dense() for segment in snapshot.segments]
    counts = torch.cat([torch.nn.functional.pad(part, (0, n_terms - part.shape[1])) for part in parts]).double().numpy()
    alive = snapshot.alive.numpy()
    lengths, df, n = counts.sum(1), (counts[alive] > 0).sum(0), alive.sum()
    idf = np.log1p((n - df + 0.5) / (df + 0.5))
    tf = counts / (counts + k1 * (1 - b + b * lengths / lengths[alive].mean())[:, None])
    scores = queries.terms.to_torch().to_dense().double().numpy() @ (tf * idf).T
    return np.where(alive, scores, -np.inf)


def mixed(queries, snapshot, share):
    semantic = cosines(queries.semantic.numpy(), dense_features(snapshot, "semantic")).clip(0)
    lexical = bm25(queries, snapshot, 1.2, 0.75)
    alive = snapshot.alive.numpy()
    relative = [scores / scores[:, alive].max(1, keepdims=True) for scores in (semantic, lexical)]
    return np.where(alive, share * relative[0] + (1 - share) * relative[1], -np.inf)


@pytest.mark.parametrize("personalization", ["semantic", "lexical", "mixed"])
@pytest.mark.parametrize(("n_seeds", "k"), [(10, 5), (5, 10), (0, 5)])
def test_flat_candidates_are_the_best_of_all(snapshot, queries, personalization, n_seeds, k):
    config = fast_config(coarse="flat", personalization=personalization, n_seeds=n_seeds, hops=0, mix=0.3)
    scores = {
        "semantic": np.where(
            snapshot.alive.numpy(), cosines(queries.semantic.numpy(), dense_features(snapshot, "semantic")), -np.inf
        ),
        "lexical": bm25(queries, snapshot, 1.2, 0.75),
        "mixed": mixed(queries, snapshot, 0.3),
    }[personalization]
    if personalization == "lexical":
        scores = scores / scores.max(1, keepdims=True)
    n = max(n_seeds, k) if n_seeds else len(TABLES) - len(REMOVED)
    found = find_candidates(queries, snapshot, config, k)
    assert found.tables.lengths.tolist() == [n] * len(queries)
    for row in range(len(queries)):
        tables = found.tables[row].numpy()
        assert (np.diff(tables) > 0).all()
        np.testing.assert_allclose(found.scores[found.tables.segment_ids() == row], scores[row, tables], atol=1e-5)
        # Float32 may swap tables that tie at the edge; none outside is better than the worst inside.
        outside = np.setdiff1d(np.flatnonzero(snapshot.alive.numpy()), tables)
        assert not len(outside) or scores[row, outside].max() <= scores[row, tables].min() + 1e-5


def test_ties_go_to_the_smaller_table(snapshot, queries):
    nothing = replace(queries, terms=count_queries(["qwertz"] * len(queries), snapshot.vocabulary))
    config = fast_config(coarse="flat", personalization="lexical", n_seeds=9, hops=0)
    found = find_candidates(nothing, snapshot, config, 1)
    expected = [n for n in range(len(TABLES)) if n not in REMOVED][:9]
    assert found.tables.to_lists() == [expected] * len(queries)


def test_words_bring_tables_that_no_probed_cluster_holds(snapshot, queries):
    config = fast_config(coarse="clusters", modalities=("semantic", "heuristic"), n_probe=1, n_seeds=8, hops=0)
    found = as_sets(find_candidates(queries, snapshot, config, 5))
    lexical = bm25(queries, snapshot, 1.2, 0.75)
    alone = [set.union(*sets) for sets in zip(
        *(best_clusters(queries, snapshot, m, "centroid", True, 1, 4) for m in config.modalities), strict=True
    )]  # fmt: skip
    pool = [inside | set(np.argsort(-lexical[row], kind="stable")[:8]) for row, inside in enumerate(alone)]
    assert all(tables <= pool[row] for row, tables in enumerate(found))
    assert any(tables - alone[row] for row, tables in enumerate(found))


@pytest.mark.parametrize("hops", [1, 2])
def test_hops_add_the_neighbours(snapshot, queries, hops, monkeypatch):
    # All edges are believed.
    monkeypatch.setattr("gtr_gpu.graph.BIAS", 50.0)
    config = fast_config(coarse="flat", n_seeds=4, hops=hops, weight_key=0.9)
    seeds = find_candidates(queries, snapshot, config.override({"hops": 0}), 1)
    edges = [(a, b) for found in snapshot.out_edges.values() for a in range(len(found)) for b in found.ids[a].tolist()]
    alive = snapshot.alive.tolist()
    around = {n: set() for n in range(len(TABLES))}
    for first, second in edges:
        if second >= 0 and alive[first] and alive[second]:
            around[first].add(second)
            around[second].add(first)
    found = find_candidates(queries, snapshot, config, 1)
    for row in range(len(queries)):
        expected = set(seeds.tables[row].tolist())
        for _ in range(hops):
            expected |= {n for table in expected for n in around[table]}
        assert found.tables[row].tolist() == sorted(expected)
        scores = found.scores[found.tables.segment_ids() == row]
        kept = scores > -torch.inf
        assert found.tables[row][kept].tolist() == seeds.tables[row].tolist()
        torch.testing.assert_close(scores[kept], seeds.scores[seeds.tables.segment_ids() == row])


def test_when_clusters_are_used(index, snapshot):
    assert not uses_clusters(snapshot, fast_config())
    assert not uses_clusters(snapshot, fast_config(flat_limit=57))
    assert uses_clusters(snapshot, fast_config(flat_limit=56))
    assert uses_clusters(snapshot, fast_config(coarse="clusters"))
    assert not uses_clusters(snapshot, fast_config(coarse="flat", flat_limit=0))
    assert index.info()["search"] == "flat"


def test_standardised_and_folded_features_agree_with_the_index(snapshot):
    """`rows_of` gives any tables, in any order, repeated or not, in the features that were clustered."""
    rows = torch.tensor([3, 59, 0, 47, 3, 12])
    for modality in MODALITIES:
        found = snapshot.rows_of(modality, rows)
        found = found if isinstance(found, torch.Tensor) else found.to_torch().to_dense()
        np.testing.assert_allclose(found, dense_features(snapshot, modality)[rows], atol=1e-6)
    counts = snapshot.segments[0].terms.counts
    columns = snapshot.clusters.weigh(counts)
    known = tfidf(counts, snapshot.clusters.document_frequency, snapshot.clusters.n_documents)
    torch.testing.assert_close(columns.weights, known.weights)
