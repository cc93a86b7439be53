"""Exact top-m, beside full products of NumPy and SciPy, sorted with ties to the smaller id."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import random as random_sparse

from gtr_gpu.ops import top_m
from gtr_gpu.ops.top_m import dense_top_m, merge_top_m, sparse_top_m
from gtr_gpu.ragged import Ragged, SparseMatrix

STEP = 2.0**-20


def expected_top(products, m, exclude=None, above=-np.inf, tie=None):
    """The m best columns of each row of a full matrix, by (product, tie break, smaller id), and their products."""
    ids = np.full((len(products), m), -1)
    best = np.full((len(products), m), -np.inf, dtype=np.float32)
    for row, line in enumerate(products):
        second = np.zeros(len(line)) if tie is None else -tie[row]
        order = np.lexsort((np.arange(len(line)), second, -line))
        kept = [c for c in order if line[c] > above and (exclude is None or c != exclude[row])][:m]
        ids[row, : len(kept)], best[row, : len(kept)] = kept, line[kept]
    return torch.as_tensor(ids, dtype=torch.int32), torch.as_tensor(best)


def whole_numbers(shape, seed, high=3):
    """Features whose products are exact in float32, with many ties."""
    return torch.as_tensor(np.random.default_rng(seed).integers(-high, high + 1, shape)).float()


@settings(max_examples=40, deadline=None)
@given(
    n_queries=st.integers(1, 30),
    n_rows=st.integers(1, 300),
    m=st.integers(1, 9),
    max_tile=st.sampled_from([1, 1 << 13, 1 << 24]),
    seed=st.integers(0, 99),
)
def test_dense_is_the_sorted_product(n_queries, n_rows, m, max_tile, seed):
    queries, rows = whole_numbers((n_queries, 4), seed), whole_numbers((n_rows, 4), seed + 1)
    exclude = torch.as_tensor(np.random.default_rng(seed).integers(-1, n_rows, n_queries))
    ids, best = dense_top_m(queries, rows, m, exclude, max_tile)
    wanted_ids, wanted = expected_top((queries @ rows.T).numpy(), m, exclude.numpy())
    assert torch.equal(ids, wanted_ids)
    assert torch.equal(best, wanted)
    assert ids.dtype == torch.int32


def test_dense_over_several_tiles_of_rows(monkeypatch):
    monkeypatch.setattr(top_m, "_BLOCK", 4)
    queries, rows = whole_numbers((50, 3), 1, high=1), whole_numbers((333, 3), 2, high=1)
    for max_tile in (1, 4 * 256, 40 * 256):
        ids, best = dense_top_m(queries, rows, 5, max_tile=max_tile)
        wanted_ids, wanted = expected_top((queries @ rows.T).numpy(), 5)
        assert torch.equal(ids, wanted_ids)
        assert torch.equal(best, wanted)


def test_dense_of_equal_rows_takes_the_smaller_ids():
    same = torch.ones(5, 3)
    ids, _ = dense_top_m(same, same, 2, torch.arange(5))
    assert ids.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]


def test_dense_takes_half_precision():
    queries = whole_numbers((4, 3), 3)
    assert torch.equal(dense_top_m(queries.half(), queries.half(), 2)[0], dense_top_m(queries, queries, 2)[0])


@pytest.mark.parametrize(("n_queries", "n_rows", "m"), [(0, 3, 2), (3, 0, 2), (2, 2, 0)])
def test_dense_of_nothing(n_queries, n_rows, m):
    ids, best = dense_top_m(torch.zeros(n_queries, 2), torch.zeros(n_rows, 2), m)
    assert ids.shape == best.shape == (n_queries, m)
    assert (ids == -1).all()


def test_merge_pads_and_breaks_ties():
    ids = torch.tensor([[7, 3], [4, -1]], dtype=torch.int32)
    scores = torch.tensor([[0.9, 0.5], [0.2, -torch.inf]])
    more_ids, more = torch.tensor([[2, 9, 1], [8, 6, 5]]), torch.tensor([[0.5, 0.9, 0.1], [-torch.inf] * 3])
    merged, best = merge_top_m(ids, scores, more_ids, more)
    assert merged.tolist() == [[7, 9], [4, -1]]
    assert best.tolist()[0] == pytest.approx([0.9, 0.9])


def sparse_rows(n_rows, n_columns, density, seed):
    """Rows of unit length of few distinct weights, so that ties happen, with every seventh row empty."""
    matrix = random_sparse(n_rows, n_columns, density, "csr", rng=np.random.default_rng(seed))
    matrix.data = np.ones_like(matrix.data)
    matrix = matrix.tolil()
    matrix[::7] = 0
    matrix = matrix.tocsr()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    lengths = torch.as_tensor(np.diff(matrix.indptr)).long()
    columns = Ragged.from_lengths(torch.as_tensor(matrix.indices, dtype=torch.int32), lengths)
    own = SparseMatrix(columns, torch.ones(matrix.nnz), n_columns).normalized()
    matrix.data = own.weights.double().numpy()
    return own, matrix


@pytest.mark.parametrize("dense_share", [1, 10**9])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 99), m=st.integers(1, 7), max_tile=st.sampled_from([8, 4000, 1 << 22]), ties=st.booleans())
def test_sparse_is_the_sorted_product(dense_share, seed, m, max_tile, ties):
    rows, matrix = sparse_rows(150, 60, 0.03 if seed % 2 else 0.1, seed)
    queries = rows.slice(20, 90)
    exclude = torch.arange(20, 90)
    features = whole_numbers((150, 4), seed)
    tie_break = (features[20:90], features) if ties else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_m, "_DENSE_SHARE", dense_share)
        ids, best = sparse_top_m(queries, rows.transpose(), m, exclude, tie_break, max_tile)
    products = np.round((matrix[20:90] @ matrix.T).toarray() / STEP) * STEP
    tie = (features[20:90] @ features.T).numpy() if ties else None
    wanted_ids, wanted = expected_top(products, m, exclude.numpy(), above=0, tie=tie)
    # Rounding may part two products that meet a step's edge: ids may then differ where products are a step apart.
    torch.testing.assert_close(best, wanted, atol=2 * STEP, rtol=0)
    parted = ids != wanted_ids
    assert parted.float().mean() < 0.02


def test_both_ways_to_add_agree(monkeypatch):
    rows, _ = sparse_rows(400, 100, 0.05, 3)
    found = []
    for share in (1, 10**9):
        monkeypatch.setattr(top_m, "_DENSE_SHARE", share)
        found.append(sparse_top_m(rows, rows.transpose(), 4, torch.arange(400)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert (found[0][0] >= 0).float().mean() > 0.5


def test_equal_rows_are_ordered_by_the_tie_break():
    columns = Ragged.from_rows([[0, 1]] * 100 + [[2]])
    rows = SparseMatrix(columns, torch.ones(201), 3).normalized()
    angles = torch.arange(101) * 37 % 101 * 0.01
    features = torch.stack([angles.cos(), angles.sin()], 1)
    ids, best = sparse_top_m(rows, rows.transpose(), 2, torch.arange(101), (features, features))
    nearest = (angles[:100, None] - angles[None, :100]).abs().fill_diagonal_(9).argsort(dim=1, stable=True)[:, :2]
    gap = (angles[ids[:100].long()] - angles[:100, None]).abs()
    torch.testing.assert_close(gap, (angles[nearest] - angles[:100, None]).abs(), atol=1e-4, rtol=0)
    assert best[:100].tolist() == [[1, 1]] * 100
    assert ids[100].tolist() == [-1, -1]
    assert int(torch.bincount(ids[:100].flatten()).max()) <= 4


def test_sparse_of_nothing():
    empty = SparseMatrix(Ragged.from_rows([[], []]), torch.zeros(0), 0)
    ids, best = sparse_top_m(empty, empty.transpose(), 3)
    assert ids.tolist() == [[-1] * 3] * 2
    assert torch.isneginf(best).all()
