"""Ragged batches against lists, sparse matrices against SciPy."""

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import normalize

from gtr_gpu.ragged import Ragged, SparseMatrix, cat_ragged, offsets_from_lengths, stack_sparse

ROWS = st.lists(st.lists(st.integers(-5, 9), max_size=5), max_size=6)
FILLED_ROWS = st.lists(st.lists(st.integers(-5, 9), max_size=5), min_size=1, max_size=6)


@st.composite
def matrices(draw, min_rows=0, min_columns=0):
    shape = draw(st.tuples(st.integers(min_rows, 6), st.integers(min_columns, 5)))
    entries = st.sampled_from([0.0, 0.0, 1.0, -2.0, 0.5])
    numbers = draw(st.lists(entries, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    return scipy.sparse.csr_matrix(np.array(numbers, "f4").reshape(shape))


def ours(matrix):
    columns = Ragged(torch.from_numpy(matrix.indices.astype("i4")), torch.from_numpy(matrix.indptr.astype("i8")))
    return SparseMatrix(columns, torch.from_numpy(matrix.data), matrix.shape[1])


def assert_same(found, expected):
    expected = scipy.sparse.csr_matrix(expected)
    expected.sort_indices()
    assert found.shape == expected.shape
    assert (found.columns.values.dtype, found.columns.offsets.dtype) == (torch.int32, torch.int64)
    assert found.columns.offsets.tolist() == expected.indptr.tolist()
    assert found.columns.values.tolist() == expected.indices.tolist()
    np.testing.assert_allclose(found.weights, expected.data, rtol=1e-6)


@given(rows=ROWS)
def test_rows_come_back(rows):
    batch = Ragged.from_rows(rows)
    assert (batch.values.dtype, batch.offsets.dtype) == (torch.int32, torch.int64)
    assert (len(batch), batch.to_lists()) == (len(rows), rows)
    assert batch.lengths.tolist() == [len(row) for row in rows]
    assert batch.segment_ids().tolist() == [place for place, row in enumerate(rows) for _ in row]
    for place in range(-len(rows), len(rows)):
        assert batch[place].tolist() == rows[place]
    for place in (len(rows), -len(rows) - 1):
        with pytest.raises(IndexError):
            batch[place]


@given(rows=FILLED_ROWS, data=st.data())
def test_select_and_slice_are_those_of_a_list(rows, data):
    batch = Ragged.from_rows(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    selection = batch.select(torch.tensor(chosen, dtype=torch.int32))
    assert selection.to_lists() == [rows[place] for place in chosen]
    positions, offsets = batch.positions(torch.tensor(chosen, dtype=torch.int64))
    assert batch.values[positions].tolist() == selection.values.tolist()
    assert offsets.tolist() == selection.offsets.tolist()
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    part = batch.slice(start, stop)
    assert part.to_lists() == rows[start:stop]
    assert part.offsets[0] == 0
    assert (
        part.values.numel() == 0
        or part.values.untyped_storage().data_ptr() == batch.values.untyped_storage().data_ptr()
    )


@given(items=st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=12))
def test_from_segments_groups_and_keeps_the_order(items):
    values, segments = (torch.tensor([item[part] for item in items], dtype=torch.int64) for part in (1, 0))
    batch = Ragged.from_segments(values, segments, 6)
    assert batch.to_lists() == [[value for segment, value in items if segment == row] for row in range(6)]


@given(batches=st.lists(ROWS, min_size=1, max_size=3))
def test_cat_is_that_of_lists(batches):
    found = cat_ragged([Ragged.from_rows(rows) for rows in batches])
    assert found.to_lists() == [row for rows in batches for row in rows]


def test_items_may_be_vectors():
    batch = Ragged.from_lengths(torch.arange(12.0).view(4, 3), torch.tensor([1, 0, 3]))
    assert batch.select(torch.tensor([2, 1])).values.tolist() == batch.values[1:].tolist()
    assert batch[0].tolist() == [[0.0, 1.0, 2.0]]
    assert offsets_from_lengths(torch.tensor([True, False, True])).tolist() == [0, 1, 1, 2]


@given(data=st.data(), shape=st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_entries_are_put_together_as_scipy_does(data, shape):
    places = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1), st.integers(1, 5))
    entries = data.draw(st.lists(places, max_size=10)) if min(shape) else []
    rows, columns, weights = (torch.tensor([e[part] for e in entries], dtype=torch.int64) for part in range(3))
    found = SparseMatrix.from_entries(rows, columns, weights.float(), shape)
    assert_same(found, scipy.sparse.coo_matrix((weights.float(), (rows, columns)), shape=shape).tocsr())


@given(matrix=matrices())
def test_transpose_and_normalization_are_scipys_and_scikit_learns(matrix):
    assert_same(ours(matrix).transpose(), matrix.T)
    assert_same(ours(matrix).transpose().transpose(), matrix)
    if min(matrix.shape):
        assert_same(ours(matrix).normalized(), normalize(matrix))


@given(matrix=matrices(min_rows=1), data=st.data())
def test_rows_of_a_sparse_matrix(matrix, data):
    n_rows = matrix.shape[0]
    chosen = data.draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=8))
    assert_same(ours(matrix).select(torch.tensor(chosen)), matrix[chosen])
    start = data.draw(st.integers(0, n_rows - 1))
    stop = data.draw(st.integers(start + 1, n_rows))
    assert_same(ours(matrix).slice(start, stop), matrix[start:stop])
    assert ours(matrix).row_ids().tolist() == matrix.tocoo().row.tolist()
    assert_same(ours(matrix).with_weights(torch.from_numpy(matrix.data * 3)), matrix * 3)


@given(matrix=matrices(min_rows=1, min_columns=1))
def test_products_of_the_torch_tensor(matrix):
    dense = torch.arange(matrix.shape[1] * 2.0).view(-1, 2)
    np.testing.assert_allclose(ours(matrix).to_torch() @ dense, matrix @ dense.numpy(), rtol=1e-6)


@given(upper=matrices(), lower=matrices())
def test_stacking_takes_the_wider_one(upper, lower):
    width = max(upper.shape[1], lower.shape[1])
    upper_wide, lower_wide = upper.copy(), lower.copy()
    upper_wide.resize(upper.shape[0], width)
    lower_wide.resize(lower.shape[0], width)
    assert_same(stack_sparse([ours(upper), ours(lower)]), scipy.sparse.vstack([upper_wide, lower_wide]))


def test_integer_counts_stay_exact():
    rows = torch.tensor([0, 0, 1])
    counts = torch.tensor([2**30, 1, 5], dtype=torch.int64)
    matrix = SparseMatrix.from_entries(rows, torch.tensor([1, 1, 0]), counts, (2, 3))
    assert matrix.weights.tolist() == [2**30 + 1, 5]
    assert matrix.to("cpu").weights.dtype == torch.int64
