"""The typed edges of tables and the graph that they add up to."""

import pytest
import torch
from sklearn.metrics.pairwise import cosine_similarity

from gtr_gpu.config import Config
from gtr_gpu.features.evidence import evidence, key_column
from gtr_gpu.neighbors import (
    OutEdges,
    Relation,
    SemanticClusters,
    evidence_edges,
    out_edges,
    relations,
    semantic_edges,
)
from gtr_gpu.ragged import Ragged
from gtr_gpu.tables.table import Table

NONE = -torch.inf


def unit_rows(n_rows: int, width: int, seed: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(n_rows, width, generator=torch.Generator().manual_seed(seed)))


def random_evidence(n_rows: int, n_pieces: int, seed: int) -> Ragged:
    generator = torch.Generator().manual_seed(seed)
    pieces = torch.randint(0, 2**31 - 1, (n_pieces,), generator=generator).sort().values
    # Pieces differ in how common they are.
    held = torch.rand(n_rows, n_pieces, generator=generator) < torch.linspace(0.01, 0.3, n_pieces)
    return Ragged.from_rows([pieces[row] for row in held])


def test_evidence_of_tables():
    tables = [
        Table(
            "a",
            "Cities of Europe, 2003",
            ["Rank", "City ", "", "city"],
            [["1", "Berlin", "x", "y"], ["2", "Rome", "", ""]],
        ),
        Table("b", "", ["%", "CITY"], []),
        Table("c", "europe", [], []),
    ]
    found = evidence(tables, Config())
    assert set(found) == {"header", "key", "column", "caption"}
    assert [len(row) for row in found["header"].to_lists()] == [2, 2, 0]
    assert [len(row) for row in found["key"].to_lists()] == [2, 0, 0]
    assert [len(row) for row in found["column"].to_lists()] == [1, 0, 0]
    assert [len(row) for row in found["caption"].to_lists()] == [4, 0, 1]
    header = found["header"].to_lists()
    assert len(set(header[0]) & set(header[1])) == 1
    assert set(found["caption"].to_lists()[2]) < set(found["caption"].to_lists()[0])
    for rows in found.values():
        assert rows.values.dtype == torch.int32
        assert all(row == sorted(set(row)) and min(row, default=0) >= 0 for row in rows.to_lists())


def test_the_first_column_is_one_piece():
    """Parts of a table that was split by columns have it, even where it only counts; rows in another order don't."""
    rows = [["1", "Ayr"], ["2", "Bute"], ["3", "Coll"]]
    tables = [
        Table("a", "", ["no", "place"], rows),
        Table("b", "", ["No.", "height"], [["1", "9"], ["2", "8"], ["3", "7"]]),
        Table("c", "", ["no", "place"], rows[::-1]),
        Table("d", "", ["no", "place"], rows[:1]),
        Table("e", "", ["no", "place"], [["", "Ayr"], [" ", "Bute"]]),
        Table("f", "", ["no", "place"], [["1 2", "x"], ["3", "y"]]),
    ]
    found = evidence(tables, Config())["column"].to_lists()
    assert found[0] == found[1]
    assert len({tuple(row) for row in (found[0], found[2], found[5])}) == 3
    # One row is nothing to tell tables by, and neither are empty cells.
    assert found[3] == found[4] == []


def test_evidence_only_of_the_kinds_that_are_wanted():
    assert list(evidence([], Config(edge_kinds=("semantic", "key")))) == ["key"]
    assert len(evidence([], Config())["caption"]) == 0


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([["x", "a"], ["y", "b"], ["x", "c"]], 0),
        ([["1", "a"], ["2", "b"], ["4", "c"]], 1),
        ([["0", "a", "p"], ["1", "a", "q"], ["2", "a", "r"]], 2),
        ([["1990", "a"], ["1991", "b"], ["1992", "c"]], 0),
        ([["1", "a"], ["2" * 5000, "b"], ["3", "c"]], 0),
        ([["x", "a"], ["x", "b"], ["x", "c"]], 1),
        ([["", "a"], ["", "b"], ["z", "c"]], 1),
        ([["1", "2.5"], ["2", "7"]], None),
        ([["1", "2.5"], ["1", "7"]], None),
        ([["m", "3"], ["f", "4"]] * 6, None),
        ([["m", f"name {letter}"] for letter in "abcdefgh"], 1),
        ([["a", "b"]], 0),
        ([], None),
    ],
)
def test_key_column(rows, column):
    assert key_column(["p", "q", "r"][: len(rows[0]) if rows else 2], rows) == column


def test_semantic_neighbours_of_the_living():
    features = unit_rows(60, 5, seed=1)
    alive = torch.rand(60, generator=torch.Generator().manual_seed(2)) < 0.7
    found = semantic_edges(features, 4, first_new=10, alive=alive)
    cosines = cosine_similarity(features[10:], features)
    cosines[:, ~alive.numpy()] = -9
    cosines[range(50), range(10, 60)] = -9
    wanted = (-cosines).argsort(1, kind="stable")[:, :4]
    assert found.ids.tolist() == wanted.tolist()
    torch.testing.assert_close(
        found.similarities.double(),
        torch.as_tensor(-(-cosines).copy()).double().gather(1, torch.as_tensor(wanted)),
        atol=1e-6,
        rtol=0,
    )


def test_probing_all_clusters_changes_nothing():
    features = unit_rows(90, 6, seed=3)
    centroids = unit_rows(7, 6, seed=4)
    assignments = (features @ centroids.T).argmax(1).int()
    alive = torch.arange(90) % 5 != 0
    exact = semantic_edges(features, 3, first_new=20, alive=alive)
    probed = semantic_edges(features, 3, 20, alive, SemanticClusters(assignments, centroids, n_probe=7))
    assert torch.equal(probed.ids, exact.ids)
    torch.testing.assert_close(probed.similarities, exact.similarities, atol=1e-6, rtol=0)
    nearest = semantic_edges(features, 3, clusters=SemanticClusters(assignments, centroids, n_probe=1))
    for row, ids in enumerate(nearest.ids.tolist()):
        assert all(assignments[i] == assignments[row] for i in ids if i >= 0)


def test_a_table_is_compared_with_its_own_cluster():
    """Centroids are means, the wider the cluster the shorter; the nearest one has not always the largest product."""
    features = unit_rows(200, 6, seed=5)
    centroids = torch.stack([part.mean(0) for part in torch.split(features, [100, 50, 20, 10, 8, 6, 4, 2])])
    assignments = torch.cdist(features, centroids).argmin(1).int()
    assert bool((assignments != (features @ centroids.T).argmax(1)).any())
    found = semantic_edges(features, 1, clusters=SemanticClusters(assignments, centroids, n_probe=1)).ids[:, 0]
    cosines = (features @ features.T).fill_diagonal_(-9)
    cosines[assignments[:, None] != assignments] = -9
    alone = torch.bincount(assignments)[assignments] == 1
    assert torch.equal(found, torch.where(alone, -1, cosines.argmax(1)).int())


def test_evidence_edges_are_cosines_of_idf_weights():
    rows = random_evidence(80, 40, seed=5)
    found = evidence_edges(rows, 3, max_common=15)
    pieces, columns = torch.unique(rows.values, return_inverse=True)
    held = torch.zeros(80, pieces.numel())
    held[rows.segment_ids(), columns] = 1
    frequency = held.sum(0)
    weights = held * torch.log1p(80 / frequency)
    unit = torch.nn.functional.normalize(weights.double()) * (frequency <= 15)
    products = (unit @ unit.T).fill_diagonal_(0)
    wanted = products.topk(3, 1).values
    wanted[wanted < 1e-9] = NONE
    torch.testing.assert_close(found.similarities.double(), wanted, atol=2e-6, rtol=0)
    chosen = found.ids >= 0
    picked = products.gather(1, found.ids.long().clamp_min(0))
    torch.testing.assert_close(picked[chosen], found.similarities.double()[chosen], atol=2e-6, rtol=0)
    assert 0.3 < chosen.float().mean() < 1


def test_new_tables_find_what_a_whole_build_finds():
    rows, features = random_evidence(50, 30, seed=6), unit_rows(50, 4, seed=7)
    whole = out_edges("key", features, rows, 3, 20)
    new = out_edges("key", features, rows, 3, 20, first_new=35)
    assert torch.equal(whole.ids[35:], new.ids)
    assert torch.equal(whole.similarities[35:], new.similarities)


def test_the_dead_are_nobodys_neighbours():
    rows = Ragged.from_rows([[1, 5], [1, 5], [1, 5], [5, 9]])
    alive = torch.tensor([True, False, True, True])
    found = evidence_edges(rows, 2, 10, alive=alive)
    assert found.ids[0].tolist() == [2, 3]
    assert found.ids[1].tolist() == [-1, -1]
    without = evidence_edges(Ragged.from_rows([[1, 5], [1, 5], [5, 9]]), 2, 10)
    torch.testing.assert_close(found.similarities[[0, 2, 3]], without.similarities, atol=1e-6, rtol=0)


def test_what_too_many_share_makes_no_edge():
    rows = Ragged.from_rows([[1, 10], [1, 10], [1], [1]])
    assert evidence_edges(rows, 2, max_common=3).ids.tolist() == [[1, -1], [0, -1], [-1, -1], [-1, -1]]


def test_equal_tables_have_no_hubs():
    features = unit_rows(200, 8, seed=8)
    found = out_edges("header", features, Ragged.from_rows([[4, 7]] * 200), 3, 500)
    assert (found.similarities == 1).all()
    assert torch.equal(found.ids, semantic_edges(features, 3).ids)


def test_another_order_of_tables_gives_the_same_edges():
    rows, features = random_evidence(70, 20, seed=9), unit_rows(70, 6, seed=10)
    order = torch.randperm(70, generator=torch.Generator().manual_seed(11))
    for kind in ("semantic", "cells"):
        plain = out_edges(kind, features, rows, 3, 30)
        shuffled = out_edges(kind, features[order], rows.select(order), 3, 30)
        back = torch.where(shuffled.ids < 0, -1, order[shuffled.ids.long().clamp_min(0)])
        assert torch.equal(plain.ids[order].long(), back)


def hand_edges() -> dict[str, OutEdges]:
    return {
        "semantic": OutEdges(
            torch.tensor([[1, 2], [0, -1], [0, 1], [3, -1]], dtype=torch.int32),
            torch.tensor([[0.8, 0.4], [0.8, NONE], [0.6, -0.2], [0.9, NONE]]),
        ),
        "key": OutEdges(
            torch.tensor([[1, -1], [-1, -1], [-1, -1], [2, -1]], dtype=torch.int32),
            torch.tensor([[0.5, NONE], [NONE, NONE], [NONE, NONE], [1.0, NONE]]),
        ),
    }


def test_kinds_need_their_evidence():
    with pytest.raises(ValueError, match="need the evidence"):
        out_edges("key", unit_rows(2, 2, seed=0), None, 1, 2)


def test_relations_among_some_tables():
    found = relations([2, 0, -1, 1], hand_edges())
    expected = [(0, 1, "semantic", 0.6), (0, 3, "semantic", -0.2), (1, 3, "semantic", 0.8), (1, 3, "key", 0.5)]
    assert found == [Relation(*r[:3], pytest.approx(r[3])) for r in expected]
    assert relations(torch.tensor([3]), hand_edges()) == []


def test_no_tables_and_one():
    empty = torch.zeros(0, 4)
    assert semantic_edges(empty, 3).ids.shape == (0, 3)
    assert evidence_edges(Ragged.from_rows([]), 3, 9).ids.shape == (0, 3)
    one = {"semantic": semantic_edges(torch.ones(1, 4) / 2, 3), "key": evidence_edges(Ragged.from_rows([[5]]), 3, 9)}
    assert all(found.ids.tolist() == [[-1] * 3] for found in one.values())
    dead = semantic_edges(torch.ones(2, 4) / 2, 1, alive=torch.zeros(2, dtype=torch.bool))
    assert dead.ids.tolist() == [[-1], [-1]]
