"""Exact top-m of sparse rows, beside full products of SciPy, sorted with ties to the tie break and the smaller id."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import dispatch
from gtr_gpu.ops.reference import sparse_top_m as reference
from gtr_gpu.ops.sparse_top_m import sparse_top_m
from gtr_gpu.ragged import Ragged, SparseMatrix

STEP = 2.0**-20


def sparse_rows(n_rows, n_columns, density, seed, few_weights=True):
    """Rows of unit length whose columns are as unequal as words are, with every seventh row empty."""
    generator = np.random.default_rng(seed)
    shares = np.minimum(1, density * n_columns / (1 + np.arange(n_columns)) / 2)
    held = generator.random((n_rows, n_columns)) < shares[generator.permutation(n_columns)]
    held[::7] = False
    dense = held * (1 if few_weights else generator.random(held.shape) + 0.1)
    matrix = csr_matrix(dense, dtype=np.float32)
    columns = Ragged(torch.as_tensor(matrix.indices, dtype=torch.int32), torch.as_tensor(matrix.indptr).long())
    return SparseMatrix(columns, torch.as_tensor(matrix.data), n_columns).normalized()


def products_of(queries, rows):
    def scipy_of(matrix):
        columns = matrix.columns
        entries = (matrix.weights.double().numpy(), columns.values.numpy(), columns.offsets.numpy())
        return csr_matrix(entries, shape=matrix.shape)

    return (scipy_of(queries) @ scipy_of(rows).T).toarray()


def check_top(found, products, m, exclude=None, tie=None):
    """Compares with sorted products; a product may be a step off, which also parts ties: all others must agree."""
    ids, best = found[0].cpu(), found[1].cpu()
    assert (ids.dtype, best.dtype) == (torch.int32, torch.float32)
    if exclude is not None:
        products = products.copy()
        inside = exclude >= 0
        products[np.flatnonzero(inside), exclude[inside]] = 0
    steps = np.round(products / STEP)
    parted = 0
    for row, line in enumerate(steps):
        second = np.zeros(len(line)) if tie is None else -tie[row]
        order = np.lexsort((np.arange(len(line)), second, -line))
        kept = [c for c in order if line[c] > 0][:m]
        wanted = np.full(m, -np.inf)
        wanted[: len(kept)] = line[kept] * STEP
        np.testing.assert_allclose(best[row].numpy(), wanted, atol=2 * STEP, rtol=0)
        chosen = [c for c in ids[row].tolist() if c >= 0]
        assert len(chosen) == len(kept) == len(set(chosen))
        np.testing.assert_allclose(products[row, chosen], best[row, : len(chosen)], atol=2 * STEP, rtol=0)
        parted += chosen != kept
    assert parted <= 0.03 * len(steps) + 1


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 99),
    m=st.sampled_from([1, 3, 7, 200]),
    max_tile=st.sampled_from([1, 64, 100, 1 << 16]),
    ties=st.booleans(),
    few_weights=st.booleans(),
)
def test_is_the_sorted_product(device, seed, m, max_tile, ties, few_weights):
    rows = sparse_rows(150, 60, 0.3 if seed % 2 else 0.1, seed, few_weights)
    queries = rows.slice(20, 90)
    exclude = torch.arange(20, 90)
    exclude[::5] = -1
    features = torch.as_tensor(np.random.default_rng(seed).integers(-3, 4, (150, 4))).float()
    tie_break = (features[20:90].to(device), features.to(device)) if ties else None
    found = sparse_top_m(queries.to(device), rows.to(device), m, exclude.to(device), tie_break, max_tile)
    tie = (features[20:90] @ features.T).numpy() if ties else None
    check_top(found, products_of(queries, rows), m, exclude.numpy(), tie)


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 5000])
def test_rows_of_words_where_common_ones_are_looked_up(device, n_rows):
    rows = sparse_rows(n_rows, 300, 0.2, n_rows, few_weights=False)
    queries = rows.slice(0, min(n_rows, 100))
    found = sparse_top_m(queries.to(device), rows.to(device), 3)
    check_top(found, products_of(queries, rows), 3)


def test_equals_the_reference_and_tiles_and_threads_change_nothing(device):
    rows = sparse_rows(3000, 400, 0.1, 3, few_weights=False)
    queries, own = rows.slice(0, 200), torch.arange(200)
    found = sparse_top_m(queries.to(device), rows.to(device), 4, own.to(device))
    with dispatch.use("reference"):
        expected = sparse_top_m(queries, rows, 4, own)
    torch.testing.assert_close(found[1].cpu(), expected[1], atol=2 * STEP, rtol=0)
    assert (found[0].cpu() != expected[0]).float().mean() < 0.01
    threads = torch.get_num_threads()
    for max_tile, n_threads in ((640, 1), (1 << 20, 2)):
        torch.set_num_threads(n_threads)
        again = sparse_top_m(queries.to(device), rows.to(device), 4, own.to(device), max_tile=max_tile)
        torch.set_num_threads(threads)
        torch.testing.assert_close(again[1], found[1], atol=2 * STEP, rtol=0)
        assert (again[0] != found[0]).float().mean() < 0.01


def test_both_ways_to_add_of_the_reference_agree(monkeypatch):
    rows = sparse_rows(400, 100, 0.2, 3)
    found = []
    for share in (1, 10**9):
        monkeypatch.setattr(reference, "_DENSE_SHARE", share)
        found.append(reference.sparse_top_m(rows, rows, 4, torch.arange(400), None, 1 << 16))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert (found[0][0] >= 0).float().mean() > 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_equal_rows_are_ordered_by_the_tie_break(device, dtype):
    columns = Ragged.from_rows([[0, 1]] * 100 + [[2]])
    rows = SparseMatrix(columns, torch.ones(201), 3).normalized().to(device)
    values = (torch.arange(101) * 37 % 101).to(dtype)[:, None].to(device)
    ones = torch.ones(101, 1, dtype=dtype, device=device)
    ids, best = sparse_top_m(rows, rows, 2, torch.arange(101, device=device), (ones, values))
    order = torch.argsort(values[:100, 0].float(), descending=True).tolist()
    for row in range(100):
        assert ids[row].tolist() == [other for other in order if other != row][:2]
    assert best[:100].tolist() == [[1, 1]] * 100
    assert ids[100].tolist() == [-1, -1]


def test_of_nothing(device):
    empty = SparseMatrix(Ragged.from_rows([[], []]), torch.zeros(0), 0).to(device)
    ids, best = sparse_top_m(empty, empty, 3)
    assert ids.tolist() == [[-1] * 3] * 2
    assert torch.isneginf(best).all()
    rows = sparse_rows(9, 5, 0.5, 0).to(device)
    assert sparse_top_m(rows.slice(0, 0), rows, 3)[0].shape == (0, 3)
    assert sparse_top_m(rows, rows, 0)[0].shape == (9, 0)
    assert (sparse_top_m(rows, rows.slice(0, 0), 2)[0] == -1).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": SparseMatrix(Ragged.from_rows([[0]]), torch.ones(1), 4)}, "queries must have 3 columns"),
        ({"queries": SparseMatrix(Ragged.from_rows([[3]]), torch.ones(1), 3)}, "queries.columns.values must be"),
        ({"rows": SparseMatrix(Ragged.from_rows([[0]]), torch.ones(1).double(), 3)}, "rows.weights must be float32"),
        ({"m": -1}, "m must be at least 0"),
        ({"max_tile": 0}, "max_tile must be at least 1"),
        ({"exclude": torch.zeros(2, dtype=torch.int64)}, "exclude must have the shape"),
        ({"exclude": torch.zeros(1, dtype=torch.int32)}, "exclude must be int64"),
        ({"tie_break": (torch.ones(2, 3), torch.ones(1, 3))}, r"tie_break\[0\] must have the shape"),
        ({"tie_break": (torch.ones(1, 3), torch.ones(1, 2))}, r"tie_break\[1\] must have the shape"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    one = SparseMatrix(Ragged.from_rows([[0]]), torch.ones(1), 3)
    with pytest.raises(GTRError, match=message):
        sparse_top_m(**({"queries": one, "rows": one, "m": 2} | change))
