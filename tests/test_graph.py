"""The graph of believed edges, worked by hand and against SciPy's root finder and NetworkX."""

import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, logit

from gtr_gpu import graph
from gtr_gpu.graph import BIAS, LOG_ODDS, SHARE, believed_graph, pair_evidence, signatures_of
from gtr_gpu.neighbors import OutEdges
from gtr_gpu.ragged import Ragged

NONE = -torch.inf
ALIVE = torch.ones(4, dtype=torch.bool)


def hand_edges():
    """By header 0 and 1 chose each other and 0 chose 2, which has room; by key 3 chose 2, 0 itself, 1 one unlike it."""
    return {
        "header": OutEdges(
            torch.tensor([[1, 2], [0, -1], [-1, -1], [-1, -1]], dtype=torch.int32),
            torch.tensor([[1.0, 0.5], [1.0, NONE], [NONE, NONE], [NONE, NONE]]),
        ),
        "key": OutEdges(
            torch.tensor([[0], [3], [-1], [2]], dtype=torch.int32), torch.tensor([[1.0], [-0.2], [NONE], [0.7]])
        ),
    }


SIGNATURES = {"header": torch.tensor([5, 5, 6, 0]), "caption": torch.tensor([9, 9, 8, 0])}


def dense(matrix):
    found = torch.zeros(matrix.shape)
    found[matrix.row_ids(), matrix.columns.values.long()] = matrix.weights
    return found


def test_evidence_of_pairs_by_hand():
    pairs, found = pair_evidence(hand_edges(), SIGNATURES, ALIVE)
    assert pairs.tolist() == [1, 2, 11]  # 0-1, 0-2, 2-3
    assert {name: holds.tolist() for name, holds in found.items()} == {
        ("header", "mutual"): [True, True, False],
        ("header", "equal"): [True, False, False],
        ("caption", "equal"): [True, False, False],
        ("caption", "different"): [False, True, False],
    }


def test_a_table_would_have_chosen_a_later_one_that_is_nearer_than_its_last_choice():
    """Table 2 came later: 0's choice is farther than it, 1's is nearer, and 3 had fewer than it may have."""
    ids = torch.tensor([[1, -1], [0, 3], [0, 1], [1, -1]], dtype=torch.int32)
    similarities = torch.tensor([[0.5, 0.5], [0.9, 0.8], [0.7, 0.6], [0.8, NONE]])
    later = {"header": OutEdges(ids, similarities)}
    pairs, found = pair_evidence(later, {}, ALIVE)
    assert pairs.tolist() == [1, 2, 6, 7]  # 0-1, 0-2, 1-2, 1-3
    assert found["header", "mutual"].tolist() == [True, True, False, True]


def test_beliefs_by_hand(monkeypatch):
    """The probabilities of a logistic model; what is believed too little is left out."""
    monkeypatch.setattr(graph, "_SHARE_ROUNDS", 0)
    monkeypatch.setattr(graph, "_LEAST_BELIEF", 1e-9)
    found = dense(believed_graph(hand_edges(), SIGNATURES, {}, ALIVE))
    expected = torch.eye(4)
    both = BIAS + sum(LOG_ODDS[name] for name in (("header", "mutual"), ("header", "equal"), ("caption", "equal")))
    other = BIAS + LOG_ODDS["header", "mutual"] + LOG_ODDS["caption", "different"]
    for (low, high), odds in {(0, 1): both, (0, 2): other, (2, 3): BIAS}.items():
        expected[low, high] = expected[high, low] = float(expit(odds))
    torch.testing.assert_close(found, expected)
    monkeypatch.setattr(graph, "_LEAST_BELIEF", 0.5)
    assert dense(believed_graph(hand_edges(), SIGNATURES, {}, ALIVE)).count_nonzero() == 6


def test_weights_scale_the_evidence_of_a_kind(monkeypatch):
    monkeypatch.setattr(graph, "_SHARE_ROUNDS", 0)
    monkeypatch.setattr(graph, "_LEAST_BELIEF", 0.0)
    odds = BIAS + LOG_ODDS["caption", "equal"]
    odds += 0.5 * (LOG_ODDS["header", "mutual"] + LOG_ODDS["header", "equal"])
    half = believed_graph(hand_edges(), SIGNATURES, {"header": 0.5}, ALIVE)
    assert float(dense(half)[0, 1]) == pytest.approx(float(expit(odds)))
    # Without any weight, the kind's edges are left out as well.
    without = dense(believed_graph(hand_edges(), SIGNATURES, {"header": 0.0}, ALIVE))
    assert without.count_nonzero() == 4 + 2
    assert float(without[2, 3]) == pytest.approx(float(expit(BIAS)))


def test_tables_that_are_gone_have_no_edges():
    alive = torch.tensor([False, True, True, True])
    found = dense(believed_graph(hand_edges(), SIGNATURES, {}, alive))
    assert torch.equal(found, torch.diag(alive.float()))
    nothing = believed_graph({}, {}, {}, torch.zeros(0, dtype=torch.bool))
    assert nothing.shape == (0, 0)
    assert dense(believed_graph({}, {}, {}, ALIVE)).equal(torch.eye(4))


def test_the_share_of_a_corpus_is_the_one_that_its_beliefs_add_up_to():
    """The fixed point by SciPy's root finder."""
    draw = np.random.default_rng(0)
    parts, others = draw.normal(4, 2, 3_000), draw.normal(-5, 2, 57_000)
    odds = np.concatenate([parts, others])

    def surplus(share):
        beliefs = expit(odds + logit(share) - logit(SHARE))
        return beliefs.sum() + SHARE * graph._SHARE_WEIGHT - share * (len(odds) + graph._SHARE_WEIGHT)

    share = brentq(surplus, 1e-6, 0.9)
    found = graph._for_this_corpus(torch.from_numpy(odds))
    np.testing.assert_allclose(found, expit(odds + logit(share) - logit(SHARE)), atol=2e-3)
    # 5 % of the pairs are parts of one table, and that is found without being told.
    assert float(found.mean()) == pytest.approx(0.05, abs=0.01)


def test_a_corpus_of_whole_tables_believes_less():
    """Where weak evidence is all there is, it is what tables have in common that aren't parts of one."""
    weak = torch.full((1000,), -3.0, dtype=torch.float64)
    strong = torch.full((300,), 5.0, dtype=torch.float64)
    assert float(graph._for_this_corpus(weak).max()) < 0.01
    assert float(graph._for_this_corpus(torch.cat([weak, strong]))[-1]) > 0.9
    # Evidence that all pairs have says nothing, and is believed no more for it.
    common = torch.full((1000,), 2.0, dtype=torch.float64)
    assert torch.equal(graph._for_this_corpus(common), torch.sigmoid(common))
    # A handful of pairs tells little of a corpus.
    assert float(graph._for_this_corpus(weak[:3])[0]) == pytest.approx(float(torch.sigmoid(weak[0])), abs=0.05)
    assert graph._for_this_corpus(weak[:0]).numel() == 0


def random_edges(n_tables, m, seed):
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(-1, n_tables, (n_tables, m), generator=draw, dtype=torch.int32)
    for row in ids:  # a neighbour comes once
        seen = set()
        for place, value in enumerate(row.tolist()):
            row[place] = -1 if value in seen else value
            seen.add(value)
    return OutEdges(ids, torch.rand(n_tables, m, generator=draw).masked_fill(ids < 0, NONE))


def test_the_graph_is_the_union_of_networkx(monkeypatch):
    monkeypatch.setattr(graph, "_LEAST_BELIEF", 0.0)
    kinds = {"semantic": random_edges(60, 3, 1), "key": random_edges(60, 2, 2)}
    found = believed_graph(kinds, {}, {}, torch.ones(60, dtype=torch.bool))
    union = nx.Graph([(n, n) for n in range(60)])
    for edges in kinds.values():
        for row, ids in enumerate(edges.ids.tolist()):
            union.add_edges_from((row, i) for i in ids if i >= 0)
    mine = nx.Graph(list(zip(found.row_ids().tolist(), found.columns.values.tolist(), strict=True)))
    assert {frozenset(edge) for edge in mine.edges} == {frozenset(edge) for edge in union.edges}
    back = found.transpose()
    assert torch.equal(back.columns.values, found.columns.values)
    assert torch.equal(back.weights, found.weights)
    assert float(found.weights.max()) <= 1


def test_edges_of_another_number_of_tables_are_refused():
    with pytest.raises(ValueError, match="must be those of 5 tables, got 4"):
        believed_graph(hand_edges(), {}, {}, torch.ones(5, dtype=torch.bool))


PIECES = st.lists(st.sets(st.integers(0, 2**31 - 1), max_size=6).map(sorted), max_size=12)


@given(PIECES)
def test_signatures_are_equal_where_evidence_is(rows):
    found = signatures_of(Ragged.from_rows(rows)).tolist()
    assert len(found) == len(rows)
    for row, signature in zip(rows, found, strict=True):
        assert (signature == 0) == (not row)
        assert [row == other for other in rows] == [signature == other for other in found]


def test_signatures_tell_small_numbers_apart():
    """Sums of unspread numbers would not: 1 + 4 is 2 + 3."""
    rows = [[a, b] for a in range(60) for b in range(a + 1, 60)]
    found = signatures_of(Ragged.from_rows(rows))
    assert torch.unique(found).numel() == len(rows)
    assert math.comb(60, 2) == len(rows)
