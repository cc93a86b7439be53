"""The two presets recomputed from end to end: the paper's in plain NumPy, the default one with NetworkX and bm25s."""

from collections import Counter

import bm25s
import networkx
import numpy as np
import pytest
import torch
from index_fakes import make_queries, make_tables, text_vector

from gtr_gpu.coarse import Candidates
from gtr_gpu.config import MODALITIES, Config
from gtr_gpu.features.structural import StructuralFeaturizer
from gtr_gpu.features.tokens import terms
from gtr_gpu.fine import personalize
from gtr_gpu.index import GTRIndex
from gtr_gpu.ragged import Ragged
from gtr_gpu.tables import Table

pytestmark = pytest.mark.usefixtures("fake_encoder")

TABLES = make_tables(60)
QUERIES = make_queries(TABLES, 10)


def paper_text(table):
    return f"Caption: {table.caption}; Headers: [{', '.join(table.header)}]"


# The preset `paper`


def paper_config(**knobs):
    return Config.preset("paper").override({"spacy_model": "blank:en", **knobs})


@pytest.fixture(scope="module")
def paper(fake_encoder, tmp_path_factory):
    return GTRIndex.build(TABLES, tmp_path_factory.mktemp("paper") / "index", config=paper_config())


def paper_features(index):
    """The features of the three modalities, from the texts; semantic ones of the encoder's own."""
    texts = [paper_text(table) for table in TABLES]
    semantic = np.stack([text_vector(text).numpy() for text in texts]).astype(np.float64)
    structural = StructuralFeaturizer(index.config).features(texts).numpy().astype(np.float64)
    words = [terms(text) for text in texts]
    vocabulary = sorted({word for row in words for word in row})
    counts = np.array([[row.count(word) for word in vocabulary] for row in words], dtype=np.float64)
    idf = np.log((1 + len(texts)) / (1 + (counts > 0).sum(0))) + 1
    heuristic = counts * idf
    heuristic /= np.linalg.norm(heuristic, axis=1, keepdims=True)
    return {"semantic": semantic, "structural": structural, "heuristic": heuristic}


def cosine(left, right):
    return left @ right / (np.linalg.norm(left) * np.linalg.norm(right))


def paper_search(index, query, k, n_typical=100, damping=0.85, rounds=(50,)):
    """One question, step by step as in the paper; returns ids, scores and how many tables were candidates."""
    features = paper_features(index)
    labels = {m: index._snapshot.segments[0].relations.labels[m].numpy() for m in MODALITIES}
    q = text_vector(query).numpy().astype(np.float64)
    candidates = set()
    for modality in MODALITIES:
        rows, best = features[modality], (-np.inf, None)
        for cluster in range(10):
            members = np.flatnonzero(labels[modality] == cluster)
            if not len(members):
                continue
            centroid = rows[members].mean(0)
            near = sorted(members, key=lambda t: -cosine(rows[t], centroid))[:n_typical]
            score = np.mean([features["semantic"][t] @ q for t in near])
            if score > best[0] + 1e-9:
                best = (score, members)
        candidates |= set(best[1].tolist())
    candidates = np.array(sorted(candidates))
    n_candidates = len(candidates)
    for keep in (*rounds, k):
        x = paper_walk(features["semantic"][candidates], q, damping)
        order = np.argsort(-x, kind="stable")[: max(keep, k)]
        if keep is not k:
            candidates = candidates[np.sort(order)]
    return candidates[order][:k], x[order][:k], n_candidates


def paper_walk(rows, q, damping):
    similarity = rows @ rows.T
    similarity = np.where(similarity < 0.3, 0, similarity)
    transfer = similarity / similarity.sum(1, keepdims=True)
    h = (rows @ q).clip(0)
    h = h / h.sum() if h.sum() else np.full(len(h), 1 / len(h))
    x = h
    for _ in range(50):
        moved = (1 - damping) * h + damping * transfer.T @ x
        change, x = np.abs(moved - x).sum(), moved
        if change < 1e-6:
            break
    return x


@pytest.mark.parametrize("k", [5, 60])
def test_the_paper_preset_is_the_paper(paper, k):
    result = paper.search(QUERIES, k)
    for row, query in enumerate(QUERIES):
        ids, scores, n_candidates = paper_search(paper, query, k)
        assert result.candidates[row] == n_candidates
        assert result.ids[row, : len(ids)].tolist() == ids.tolist()
        np.testing.assert_allclose(result.scores[row, : len(ids)], scores, rtol=0, atol=1e-5)
    # The filter has to do something, or this test would not see it.
    assert bool((result.candidates < len(TABLES)).all())


def test_the_paper_preset_with_small_typical_sets_and_rounds(fake_encoder, tmp_path):
    index = GTRIndex.build(TABLES, tmp_path / "index", config=paper_config(n_typical=2, keep=(9, 6)))
    result = index.search(QUERIES, 4)
    for row, query in enumerate(QUERIES):
        ids, scores, n_candidates = paper_search(index, query, 4, n_typical=2, rounds=(9, 6))
        assert result.candidates[row] == n_candidates
        assert result.ids[row].tolist() == ids.tolist()
        np.testing.assert_allclose(result.scores[row], scores, rtol=0, atol=1e-5)
        assert result.scores[row].sum() > 0.5  # shares among the last six
    assert (result.candidates > 9).sum() >= 5


def test_the_paper_preset_says_what_the_design_says():
    """The published setting, spelled out a second time so that a slip in one place shows."""
    preset = Config.preset("paper")
    assert (preset.text_style, preset.encode_rows, preset.structural_features, preset.standardize) == (
        "paper", False, "paper", False,
    )  # fmt: skip
    assert (preset.n_clusters, preset.kmeans_starts, preset.n_typical, preset.n_probe) == (10, 10, 100, 1)
    assert (preset.cluster_score, preset.query_features, preset.modalities) == ("mean", "semantic", MODALITIES)
    assert (preset.transfer, preset.similarity_floor, preset.personalization) == ("dense", 0.3, "semantic")
    assert (preset.damping, preset.tolerance, preset.max_iterations, preset.keep) == (0.85, 1e-6, 50, (50,))
    assert (preset.temperature, preset.hops, preset.n_seeds, preset.coarse) == (0.0, 0, 0, "clusters")


# The preset `default`


def default_config(**knobs):
    return Config(**{"spacy_model": "blank:en", "stop_words": "none", "stemming": "none", "n_seeds": 8, **knobs})


@pytest.fixture(scope="module")
def index(fake_encoder, tmp_path_factory):
    return GTRIndex.build(TABLES, tmp_path_factory.mktemp("default") / "index", config=default_config())


@pytest.fixture
def trusting(monkeypatch):
    """These tables resemble each other less than parts of one do, and would have no edge."""
    monkeypatch.setattr("gtr_gpu.graph.BIAS", -1.0)


def table_words(table):
    return [
        word for text in (table.caption, *table.header, *(c for row in table.rows for c in row)) for word in terms(text)
    ]


def mixed_scores(index, query):
    """Half the cosine, half BM25, each divided by its best."""
    retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.75, dtype="float64")
    retriever.index([table_words(table) for table in TABLES], show_progress=False)
    known = [word for word in terms(query) if word in index._snapshot.vocabulary]
    lexical = retriever.get_scores(known) if known else np.zeros(len(TABLES))
    semantic = (index._snapshot.segments[0].semantic.double() @ text_vector(query).double()).numpy().clip(0)
    return 0.5 * semantic / semantic.max() + 0.5 * lexical / lexical.max()


def whole_graph(index, config):
    """The believed edges as a graph of NetworkX; `test_graph.py` works them by hand."""
    graph, edges = networkx.Graph(), index._snapshot.graph(config)
    graph.add_nodes_from(range(len(TABLES)))
    graph.add_weighted_edges_from(
        zip(edges.row_ids().tolist(), edges.columns.values.tolist(), edges.weights.tolist(), strict=True)
    )
    return graph


def pooled_by_hand(index, query, candidates, graph, config):
    """Word by word: the most that a candidate or a candidate next to it has, by how far the edge is believed."""
    words = {n: Counter(table_words(TABLES[n])) for n in range(len(TABLES))}
    average = np.mean([sum(counts.values()) for counts in words.values()])
    asked = Counter(word for word in terms(query) if word in index._snapshot.vocabulary)
    holders = {word: sum(word in counts for counts in words.values()) for word in asked}
    idf = {word: np.log(1 + (len(TABLES) - df + 0.5) / (df + 0.5)) for word, df in holders.items()}

    def weight(n, word):
        tf, length = words[n][word], sum(words[n].values())
        return tf / (tf + 1.2 * (0.25 + 0.75 * length / average)) if tf else 0.0

    q, semantic = text_vector(query).double(), index._snapshot.segments[0].semantic.double()
    said = terms(query)
    runs = {tuple(said[i:j]) for i in range(len(said)) for j in range(i + 1, min(i + 8, len(said)) + 1)}
    texts = [[table.caption, *table.header, *(cell for row in table.rows for cell in row)] for table in TABLES]
    cells = {n: {tuple(terms(text)) for text in found} - {()} for n, found in enumerate(texts)}
    common = Counter(cell for found in cells.values() for cell in found)
    rarity = {cell: np.log(1 + (len(TABLES) - df + 0.5) / (df + 0.5)) for cell, df in common.items()}
    bm25, held, phrases, cosine = {}, {}, {}, {}
    for n in candidates:
        near = {n: 1.0} | {u: graph.edges[n, u]["weight"] for u in graph.neighbors(n) if u in candidates and u != n}
        bm25[n] = sum(asked[w] * idf[w] * max(belief * weight(u, w) for u, belief in near.items()) for w in asked)
        found = sum(idf[w] * max(belief * (w in words[u]) for u, belief in near.items()) for w in asked)
        held[n] = found / sum(idf.values()) if asked else 0.0
        phrases[n] = sum(
            rarity[c] * max(belief * (c in cells[u]) for u, belief in near.items()) for c in runs & set(rarity)
        )
        phrases[n] /= sum(idf.values()) if asked else max(1e-9, sum(rarity[c] for c in runs & set(rarity)))
        cosine[n] = max(belief * max(float(semantic[u] @ q), 0.0) for u, belief in near.items())
    best = max(bm25.values()) or 1.0
    shares = config.pooled_bm25, config.pooled_words, config.pooled_phrases, config.pooled_cosine
    return {n: np.dot(shares, (bm25[n] / best, held[n], phrases[n], cosine[n])) for n in candidates}


def default_search(index, query, k, config):
    mixed = mixed_scores(index, query)
    seeds = np.argsort(-mixed, kind="stable")[: max(8, k)].tolist()
    graph = whole_graph(index, config)
    candidates = sorted(set(seeds).union(*(graph.neighbors(n) for n in seeds)))
    if config.personalization == "pooled":
        scores = pooled_by_hand(index, query, candidates, graph, config)
    else:
        scores = {n: mixed[n] if n in seeds else -np.inf for n in candidates}
    best = max(scores.values())
    sharpened = {n: np.exp((scores[n] - best) / config.temperature) for n in candidates}
    total = sum(sharpened.values())
    h = {n: value / total for n, value in sharpened.items()}
    ranks = networkx.pagerank(
        graph.subgraph(candidates), alpha=config.damping, personalization=h, dangling=h, tol=1e-12, max_iter=1000
    )
    best = sorted(candidates, key=lambda n: (-ranks[n], n))[:k]
    return best, [ranks[n] for n in best], len(candidates)


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"weight_header": 0.0, "weight_key": 2.5, "pooled_bm25": 1.0, "pooled_cosine": 0.1},
        {"damping": 0.9, "temperature": 0.3, "pooled_words": 2.0},
        {"personalization": "mixed", "temperature": 0.05},
    ],
)
def test_the_default_preset_by_networkx_and_bm25s(index, knobs, trusting):
    config = default_config(**knobs, tolerance=1e-9, weight_caption=0.0)
    result = index.search(QUERIES, 6, config=config)
    assert index._snapshot.graph(config).weights.numel() > 2 * len(TABLES)
    for row, query in enumerate(QUERIES):
        ids, scores, n_candidates = default_search(index, query, 6, config)
        assert result.candidates[row] == n_candidates
        assert n_candidates < len(TABLES)
        np.testing.assert_allclose(result.scores[row], scores, rtol=0, atol=1e-5)
        near = np.abs(np.diff(scores)) < 2e-5
        assert near.any() or result.ids[row].tolist() == ids


def test_questions_of_which_only_phrases_are_known(tmp_path):
    """Stop words aren't looked up, but cells may be: they count as far as a table has them."""
    said = ["who", "the", "of", "is", "and", "what", "to", "from", "with", "by", "for", "was", "were"]
    tables = [*TABLES, Table("all", "", ["q"], [[word] for word in said]), Table("one", "", ["p"], [["who"]])]
    config = default_config(stop_words="auto", tolerance=1e-9, pooled_cosine=0.0, damping=0.0, n_seeds=0)
    index = GTRIndex.build(tables, tmp_path / "index", config=config)
    result = index.search([" ".join(["zzzz", *said]), "zzzz who", "zzzz", "zzzz yyyy who"], len(tables))
    rarity = {word: np.log(1 + (62 - df + 0.5) / (df + 0.5)) for word in said if (df := 1 + (word == "who"))}
    shares = np.array([1, rarity["who"] / sum(rarity.values()), *[0.0] * 60])
    for row, found in ((0, shares), (1, [1, 1, *[0] * 60]), (2, [0] * 62), (3, [1, 1, *[0] * 60])):
        expected = np.exp(config.pooled_phrases * np.array(found) / config.temperature)
        np.testing.assert_allclose(result.scores[row], expected / expected.sum(), rtol=0, atol=1e-6)
    assert [names[:2] for names in result.table_ids] == [["all", "one"]] * 2 + [["t0", "t1"], ["all", "one"]]


def test_the_similarity_floor_cuts_edges(index):
    """A floor that no similarity reaches, save those of the same header and column, leaves the other kinds no edge."""
    same = {"weight_header": 0.0, "weight_column": 0.0, "tolerance": 1e-9}
    expected = index.search(QUERIES, 6, config=default_config(damping=0.0, **same, weight_semantic=0.0,
        weight_key=0.0, weight_cells=0.0, weight_caption=0.0))  # fmt: skip
    found = index.search(QUERIES, 6, config=default_config(similarity_floor=1.0, hops=0, **same))
    kinds = {kind: int((edges.similarities >= 1.0).sum()) for kind, edges in index._snapshot.out_edges.items()}
    assert sum(kinds[kind] for kind in ("semantic", "key", "cells", "caption")) == 0
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=1e-5)
    assert found.table_ids == expected.table_ids


# The personalisation


def candidates_of(*rows):
    tables = Ragged.from_rows([list(range(len(row))) for row in rows])
    return Candidates(tables, torch.tensor([score for row in rows for score in row]))


def test_personalisation_by_shares():
    h = personalize(candidates_of([0.5, 0.25, -1.0, 0.25], [-0.5, -torch.inf], []), 0.0)
    torch.testing.assert_close(h, torch.tensor([0.5, 0.25, 0.0, 0.25, 0.5, 0.5]))


def test_personalisation_by_softmax():
    h = personalize(candidates_of([0.8, 0.75, -torch.inf], [-torch.inf], []), 0.05)
    torch.testing.assert_close(h, torch.tensor([np.e / (1 + np.e), 1 / (1 + np.e), 0.0, 1.0], dtype=torch.float32))


def test_iterations_and_convergence(index, trusting):
    few = index.search(QUERIES, 5, config=default_config(max_iterations=3, weight_caption=0.0))
    assert (few.iterations == 3).all() and not few.converged.any()
    many = index.search(QUERIES, 5, config=default_config(max_iterations=200, weight_caption=0.0))
    assert (many.iterations < 200).all() and many.converged.all()
    none = index.search(QUERIES, 5, config=default_config(damping=0.0))
    assert (none.iterations == 1).all() and none.converged.all()
