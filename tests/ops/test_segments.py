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
    values = values.cpu()
    return [values[a:b].double().numpy() for a, b in zip(offsets.tolist(), offsets.tolist()[1:], strict=False)]


def on(device, batch):
    return batch[0].to(device), batch[1].to(device)


def assert_rows(result, expected, shape=()):
    result = result.cpu()
    assert result.shape == (len(expected), *shape)
    np.testing.assert_allclose(result.numpy(), np.array(expected).reshape(len(expected), *shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(batch=batches(shape=(3,)))
def test_sum_mean_and_max_are_numpys(device, dtype, batch):
    values, offsets = on(device, (batch[0].to(dtype), batch[1]))
    for items, shape in ((values, (3,)), (values[:, 0], ())):
        rows = rows_of(items, offsets)
        assert segments.segment_sum(items, offsets).dtype == dtype
        assert_rows(segments.segment_sum(items, offsets), [row.sum(0) for row in rows], shape)
        assert_rows(segments.segment_mean(items, offsets), [row.sum(0) / max(len(row), 1) for row in rows], shape)
        assert_rows(segments.segment_max(items, offsets), [row.max(0, initial=-np.inf) for row in rows], shape)


def test_sum_is_reduceat_on_long_rows_and_keeps_small_items(device):
    values = torch.rand(100_000, generator=torch.Generator().manual_seed(0))
    offsets = torch.tensor([0, 40_000, 99_999, 100_000])
    expected = np.add.reduceat(values.double().numpy(), offsets[:-1].numpy())
    found = segments.segment_sum(values.to(device), offsets.to(device))
    np.testing.assert_allclose(found.cpu(), expected, rtol=1e-6)
    # A running float32 sum would lose every one of the small items.
    values = torch.tensor([2.0**24] + [1.0] * 1000, device=device)
    assert segments.segment_sum(values, torch.tensor([0, 1001], device=device)).tolist() == [2.0**24 + 1000]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(batch=batches(elements=st.floats(0, 100, width=32)))
def test_normalize_divides_by_the_sum(device, dtype, batch):
    values, offsets = on(device, (batch[0].to(dtype), batch[1]))
    result = rows_of(segments.segment_normalize(values, offsets), batch[1])
    for shares, row in zip(result, rows_of(*batch), strict=True):
        expected = row / row.sum() if row.sum() > 0 else np.full(len(row), 1 / max(len(row), 1))
        np.testing.assert_allclose(shares, expected, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(batch=batches(), temperature=st.sampled_from([0.05, 1.0, 7.0]))
def test_softmax_is_scipys(device, dtype, batch, temperature):
    values, offsets = on(device, (batch[0].to(dtype), batch[1]))
    result = rows_of(segments.segment_softmax(values, offsets, temperature), batch[1])
    for shares, row in zip(result, rows_of(*batch), strict=True):
        if len(row):
            np.testing.assert_allclose(shares, scipy.special.softmax(row / temperature), rtol=1e-5, atol=1e-30)


def test_softmax_of_missing_scores_is_uniform(device):
    values = torch.tensor([float("-inf"), float("-inf"), 0.0, float("-inf")], device=device)
    assert segments.segment_softmax(values, torch.tensor([0, 2, 4], device=device), 0.1).tolist() == [
        0.5,
        0.5,
        1.0,
        0.0,
    ]


@given(data=st.data(), k=st.integers(1, 7))
def test_top_k_is_a_sort_by_value_and_id(device, data, k):
    lengths = data.draw(LENGTHS)
    values = data.draw(
        st.lists(st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 2.0]), min_size=sum(lengths), max_size=sum(lengths))
    )
    row_ids = [data.draw(st.permutations(range(length))) for length in lengths]
    ids = Ragged.from_rows(row_ids).to(device)
    scores = torch.tensor(values, device=device)
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


WIDTHS = [1, 6, 17, 100, 384, 768, 1500]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_width_equals_numpy_whatever_the_threads(device, dtype, width):
    lengths = torch.tensor([0, 1, 300, 0, 7, 64, 65, 0])
    offsets = Ragged.from_lengths(torch.empty(0), lengths).offsets
    values = torch.randn(int(lengths.sum()), width, generator=torch.Generator().manual_seed(width)).to(dtype)
    rows = rows_of(values, offsets)
    for operation, expected in (
        (segments.segment_sum, [row.sum(0) for row in rows]),
        (segments.segment_mean, [row.sum(0) / max(len(row), 1) for row in rows]),
        (segments.segment_max, [row.max(0, initial=-np.inf) for row in rows]),
    ):
        found = []
        for n_threads in (1, 2):
            usual = torch.get_num_threads()
            torch.set_num_threads(n_threads)
            found.append(operation(*on(device, (values, offsets))))
            torch.set_num_threads(usual)
        assert torch.equal(*found)
        assert_rows(found[0], expected, (width,))


@pytest.mark.parametrize(("length", "k"), [(1, 1), (33, 40), (1000, 50), (5000, 257), (30_000, 300)])
@pytest.mark.parametrize("distinct", [3, 1000, 10**9])
def test_top_k_of_long_rows_is_lexsort(device, length, k, distinct):
    random = np.random.default_rng(length + distinct)
    scores = (random.integers(0, distinct, length) / distinct - 0.5).astype(np.float32)
    ids = random.permutation(length * 2)[:length].astype(np.int32)
    order = np.lexsort((ids, -scores))[:k]
    offsets = torch.tensor([0, 0, length, length], device=device)
    arguments = (torch.from_numpy(scores).to(device), torch.from_numpy(ids).to(device), offsets, k)
    found, positions = segments.segment_top_k_ragged(*arguments)
    np.testing.assert_array_equal(found[1].cpu(), ids[order])
    np.testing.assert_array_equal(positions.cpu(), order)
    padded, values, _ = segments.segment_top_k(*arguments)
    np.testing.assert_array_equal(padded[1, : len(order)].cpu(), ids[order])
    np.testing.assert_array_equal(values[1, : len(order)].cpu(), scores[order])
    assert (padded[[0, 2]] == -1).all()


def test_strided_items_and_no_rows(device):
    wide = torch.arange(12.0, device=device).view(6, 2)
    offsets = torch.tensor([0, 2, 6], device=device)
    assert segments.segment_sum(wide[:, 1], offsets).tolist() == [4, 32]
    assert segments.segment_softmax(wide[:, 1], offsets).shape == (6,)
    assert segments.segment_top_k(wide[:, 1], torch.arange(12, device=device).int()[::2], offsets, 1)[0].tolist() == [
        [2],
        [10],
    ]
    none = torch.zeros(1, dtype=torch.int64, device=device)
    assert segments.segment_sum(wide[:0], none).shape == (0, 2)
    assert segments.segment_max(wide[:0, 0], none).shape == (0,)
    assert segments.segment_normalize(wide[:0, 0], none).shape == (0,)
    assert segments.segment_top_k(wide[:0, 0], torch.empty(0, device=device).int(), none, 2)[0].shape == (0, 2)


def test_wrong_arguments_are_named(device):
    values, ids = torch.ones(3, device=device), torch.arange(3, device=device).int()
    offsets = torch.tensor([0, 1, 3], device=device)
    for top_k in (segments.segment_top_k, segments.segment_top_k_ragged):
        with pytest.raises(GTRError, match="k must be at least 1, got 0"):
            top_k(values, ids, offsets, 0)
        with pytest.raises(GTRError, match="values must be float32"):
            top_k(values.double(), ids, offsets, 1)
        with pytest.raises(GTRError, match="ids must be int32"):
            top_k(values, ids.long(), offsets, 1)
        with pytest.raises(GTRError, match=r"ids must have the shape \[3\]"):
            top_k(values, ids[1:], offsets, 1)
        with pytest.raises(GTRError, match="ids must be from 0"):
            top_k(values, ids - 1, offsets, 1)
        with pytest.raises(GTRError, match="offsets must go from 0 to 3"):
            top_k(values, ids, offsets[1:], 1)
    with pytest.raises(GTRError, match="temperature must be above 0"):
        segments.segment_softmax(values, offsets, 0.0)
    reductions = (segments.segment_sum, segments.segment_mean, segments.segment_max)
    for operation in (*reductions, segments.segment_normalize, segments.segment_softmax):
        with pytest.raises(GTRError, match="values must be float32 or float64"):
            operation(values.int(), offsets)
        with pytest.raises(GTRError, match="values must have the shape"):
            operation(values.view(3, 1, 1), offsets)
        with pytest.raises(GTRError, match="offsets must never fall"):
            operation(values, torch.tensor([0, 2, 1, 3], device=device))
        with pytest.raises(GTRError, match="offsets must be int64"):
            operation(values, offsets.int())
