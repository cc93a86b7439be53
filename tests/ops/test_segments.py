"""Segment operations against loops over NumPy and SciPy."""

import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import segments
from gtr_gpu.ragged import Ragged

LENGTHS = st.lists(st.integers(0, 6), min_size=0, max_size=8)
FINITE = st.floats(-100, 100, width=32)


@st.composite
def batches(draw, elements=FINITE, shape=()):
    lengths = draw(LENGTHS)
    values = draw(hnp.arrays(np.float32, (sum(lengths), *shape), elements=elements))
    return torch.from_numpy(values), Ragged.from_lengths(
        torch.empty(0), torch.tensor(lengths, dtype=torch.int64)
    ).offsets


def rows_of(values, offsets):
    return [values[a:b].double().numpy() for a, b in zip(offsets.tolist(), offsets.tolist()[1:], strict=False)]


def assert_rows(result, expected, shape=()):
    assert result.shape == (len(expected), *shape)
    np.testing.assert_allclose(result.numpy(), np.array(expected).reshape(len(expected), *shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(batch=batches(shape=(3,)))
def test_sum_mean_and_max_are_numpys(dtype, batch):
    values, offsets = batch[0].to(dtype), batch[1]
    rows = rows_of(values, offsets)
    for items, shape in ((values, (3,)), (values[:, 0], ())):
        rows = rows_of(items, offsets)
        assert segments.segment_sum(items, offsets).dtype == dtype
        assert_rows(segments.segment_sum(items, offsets), [row.sum(0) for row in rows], shape)
        assert_rows(segments.segment_mean(items, offsets), [row.sum(0) / max(len(row), 1) for row in rows], shape)
        assert_rows(segments.segment_max(items, offsets), [row.max(0, initial=-np.inf) for row in rows], shape)


def test_sum_is_reduceat_on_long_rows_and_keeps_small_items():
    values = torch.rand(100_000, generator=torch.Generator().manual_seed(0))
    offsets = torch.tensor([0, 40_000, 99_999, 100_000])
    expected = np.add.reduceat(values.double().numpy(), offsets[:-1].numpy())
    np.testing.assert_allclose(segments.segment_sum(values, offsets).numpy(), expected, rtol=1e-7)
    # A running float32 sum would lose every one of the small items.
    values = torch.tensor([2.0**24] + [1.0] * 1000)
    assert segments.segment_sum(values, torch.tensor([0, 1001])).tolist() == [2.0**24 + 1000]


@given(batch=batches(elements=st.floats(0, 100, width=32)))
def test_normalize_divides_by_the_sum(batch):
    result = rows_of(segments.segment_normalize(*batch), batch[1])
    for shares, row in zip(result, rows_of(*batch), strict=True):
        expected = row / row.sum() if row.sum() > 0 else np.full(len(row), 1 / max(len(row), 1))
        np.testing.assert_allclose(shares, expected, rtol=1e-6, atol=1e-30)


@given(batch=batches(), temperature=st.sampled_from([0.05, 1.0, 7.0]))
def test_softmax_is_scipys(batch, temperature):
    result = rows_of(segments.segment_softmax(*batch, temperature), batch[1])
    for shares, row in zip(result, rows_of(*batch), strict=True):
        if len(row):
            np.testing.assert_allclose(shares, scipy.special.softmax(row / temperature), rtol=1e-5, atol=1e-30)


def test_softmax_of_missing_scores_is_uniform():
    values = torch.tensor([float("-inf"), float("-inf"), 0.0, float("-inf")])
    assert segments.segment_softmax(values, torch.tensor([0, 2, 4]), 0.1).tolist() == [0.5, 0.5, 1.0, 0.0]


@given(data=st.data(), k=st.integers(1, 7))
def test_top_k_is_a_sort_by_value_and_id(data, k):
    lengths = data.draw(LENGTHS)
    values = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=sum(lengths), max_size=sum(lengths)))
    row_ids = [data.draw(st.permutations(range(length))) for length in lengths]
    ids = Ragged.from_rows(row_ids)
    scores = torch.tensor(values)
    top_ids, top_values, positions = segments.segment_top_k(scores, ids.values, ids.offsets, k)
    ragged, ragged_positions = segments.segment_top_k_ragged(scores, ids.values, ids.offsets, k)
    assert top_ids.shape == top_values.shape == positions.shape == (len(lengths), k)
    assert top_ids.dtype == ragged.values.dtype == torch.int32
    for row, offset in enumerate(ids.offsets.tolist()[:-1]):
        pairs = sorted((-values[offset + i], item) for i, item in enumerate(row_ids[row]))[:k]
        padding = k - len(pairs)
        assert top_ids[row].tolist() == [item for _, item in pairs] + [-1] * padding
        assert top_values[row].tolist() == [-value for value, _ in pairs] + [float("-inf")] * padding
        assert ragged[row].tolist() == [item for _, item in pairs]
        kept = positions[row, : len(pairs)]
        assert ids.values[kept].tolist() == [item for _, item in pairs]
        assert positions[row, len(pairs) :].tolist() == [-1] * padding
    assert positions[positions >= 0].tolist() == ragged_positions.tolist()


@given(
    st.integers(0, 5).flatmap(
        lambda n: st.lists(st.lists(st.sets(st.integers(0, 9)), min_size=n, max_size=n), min_size=1, max_size=3)
    )
)
def test_union_is_the_union_of_sets(batches):
    result = segments.union([Ragged.from_rows([sorted(row) for row in batch]) for batch in batches])
    assert result.values.dtype == torch.int32
    assert result.to_lists() == [sorted(set().union(*rows)) for rows in zip(*batches, strict=True)]


def test_wrong_arguments_are_named():
    empty = Ragged.from_rows([])
    with pytest.raises(GTRError, match="k must be at least 1, got 0"):
        segments.segment_top_k(torch.empty(0), empty.values, empty.offsets, 0)
    with pytest.raises(GTRError, match="temperature must be above 0"):
        segments.segment_softmax(torch.ones(1), torch.tensor([0, 1]), 0.0)
    with pytest.raises(GTRError, match="one number of rows"):
        segments.union([empty, Ragged.from_rows([[1]])])
