"""Sums, maxima, softmax, top-k and unions over the rows of ragged batches.

Every function takes items `[T]` with the offsets `[B + 1]` (int64) of the rows that they belong to, as in
[Ragged][gtr_gpu.ragged.Ragged], on any device. Empty rows are fine. Sums run in float64, each row's items in a fixed
order (`torch.segment_reduce`: one worker a row, no atomics), and are returned in the type of the values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ragged import INDEX_DTYPE, Ragged


def segment_sum(values: Tensor, offsets: Tensor) -> Tensor:
    """Sums the items of each row.

    Args:
        values: Items `[T]` or `[T, d]`, float32 or float64.
        offsets: Row boundaries `[B + 1]`, int64.

    Returns:
        The sums `[B]` or `[B, d]` in the type of `values`; 0 for an empty row.
    """
    return _sums(values, offsets).to(values.dtype)


def segment_max(values: Tensor, offsets: Tensor) -> Tensor:
    """The greatest item of each row, `[B]` or `[B, d]` in the type of `values`; -inf for an empty row."""
    if offsets.numel() == 1:
        return values.new_empty((0, *values.shape[1:]))
    return torch.segment_reduce(values, "max", offsets=offsets, axis=0, initial=float("-inf"))


def segment_mean(values: Tensor, offsets: Tensor) -> Tensor:
    """The mean item of each row, `[B]` or `[B, d]` in the type of `values`; 0 for an empty row."""
    lengths = offsets.diff().clamp_min(1)
    return (_sums(values, offsets) / lengths.view(-1, *[1] * (values.dim() - 1))).to(values.dtype)


def segment_normalize(values: Tensor, offsets: Tensor) -> Tensor:
    """Divides the items of each row by their sum; a row of zeros becomes uniform.

    Args:
        values: Items `[T]`, not negative, float32 or float64.
        offsets: Row boundaries `[B + 1]`, int64.

    Returns:
        The shares `[T]` in the type of `values`; those of a row add up to 1.
    """
    rows = _segment_ids(values, offsets)
    sums = _sums(values, offsets)
    shares = values / sums.clamp_min(torch.finfo(torch.float64).tiny)[rows]
    uniform = 1.0 / offsets.diff().double()
    return torch.where((sums > 0)[rows], shares, uniform[rows]).to(values.dtype)


def segment_softmax(values: Tensor, offsets: Tensor, temperature: float = 1.0) -> Tensor:
    """The softmax of each row, `exp(v / T) / sum(exp(v / T))`.

    Args:
        values: Items `[T]`, float32 or float64; -inf gets nothing, a row of -inf becomes uniform.
        offsets: Row boundaries `[B + 1]`, int64.
        temperature: T > 0; the smaller, the more the greatest item gets.

    Returns:
        The shares `[T]` in the type of `values`; those of a row add up to 1.

    Raises:
        GTRError: `temperature` is not above 0.
    """
    if not temperature > 0:
        raise GTRError(f"temperature must be above 0, got {temperature}")
    greatest = segment_max(values, offsets)
    greatest = torch.where(greatest.isneginf(), 0.0, greatest)
    shifted = (values - greatest[_segment_ids(values, offsets)]).double() / temperature
    return segment_normalize(shifted.exp(), offsets).to(values.dtype)


def segment_top_k(values: Tensor, ids: Tensor, offsets: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k items of each row with the greatest values, best first; ties go to the smaller id.

    Args:
        values: Scores `[T]`, no NaN.
        ids: The items' ids `[T]`, int32, not negative, distinct within a row, in any order.
        offsets: Row boundaries `[B + 1]`, int64.
        k: How many are kept, at least 1.

    Returns:
        Ids `[B, k]` int32, padded with -1; values `[B, k]`, padded with -inf; positions in `values` `[B, k]` int64,
        padded with -1.

    Raises:
        GTRError: `k` is below 1.
    """
    positions, kept_offsets = _top_positions(values, ids, offsets, k)
    n_rows = offsets.numel() - 1
    rows = _segment_ids(positions, kept_offsets)
    places = torch.arange(positions.numel(), device=positions.device) - kept_offsets[rows]
    top_ids = torch.full((n_rows, k), -1, dtype=INDEX_DTYPE, device=values.device)
    top_values = values.new_full((n_rows, k), float("-inf"))
    top_positions = torch.full((n_rows, k), -1, dtype=torch.int64, device=values.device)
    top_ids[rows, places] = ids[positions].to(INDEX_DTYPE)
    top_values[rows, places] = values[positions]
    top_positions[rows, places] = positions
    return top_ids, top_values, top_positions


def segment_top_k_ragged(values: Tensor, ids: Tensor, offsets: Tensor, k: int) -> tuple[Ragged, Tensor]:
    """As `segment_top_k`, without padding.

    Returns:
        The ids of each row, best first, at most k of them, int32; and their positions in `values`, int64.

    Raises:
        GTRError: `k` is below 1.
    """
    positions, kept_offsets = _top_positions(values, ids, offsets, k)
    return Ragged(ids[positions].to(INDEX_DTYPE), kept_offsets), positions


def union(batches: Sequence[Ragged]) -> Ragged:
    """The union of several batches row by row.

    Args:
        batches: Batches of the same number of rows, whose values are ids (not negative, one integer type).

    Returns:
        For each row the ids that any of the batches has there, rising and distinct.

    Raises:
        GTRError: There is no batch, or their numbers of rows differ.
    """
    sizes = {len(batch) for batch in batches}
    if len(sizes) != 1:
        raise GTRError(f"union needs batches of one number of rows, got {sorted(sizes) or 'no batch'}")
    (n_rows,) = sizes
    values = torch.cat([batch.values for batch in batches])
    if not values.numel():
        return batches[0]
    span = int(values.max()) + 1
    rows = torch.cat([batch.segment_ids() for batch in batches])
    keys = torch.unique(rows * span + values)
    return Ragged.from_lengths((keys % span).to(values.dtype), torch.bincount(keys // span, minlength=n_rows))


def _sums(values: Tensor, offsets: Tensor) -> Tensor:
    """The sums of the rows in float64."""
    if offsets.numel() == 1:
        return values.new_empty((0, *values.shape[1:]), dtype=torch.float64)
    return torch.segment_reduce(values.double(), "sum", offsets=offsets, axis=0, initial=0.0)


def _segment_ids(values: Tensor, offsets: Tensor) -> Tensor:
    return Ragged(values, offsets).segment_ids()


def _top_positions(values: Tensor, ids: Tensor, offsets: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The positions of the best k items of each row, row after row, and the offsets of that selection."""
    if k < 1:
        raise GTRError(f"k must be at least 1, got {k}")
    rows = _segment_ids(values, offsets)
    # Stable sorts from the least important key to the most important one.
    if bool(((ids[1:] < ids[:-1]) & (rows[1:] == rows[:-1])).any()):
        order = torch.argsort(ids, stable=True)
        order = order[torch.argsort(values[order], descending=True, stable=True)]
    else:
        order = torch.argsort(values, descending=True, stable=True)
    order = order[torch.argsort(rows[order], stable=True)]
    # Rows are contiguous again after the last sort, so that a row's best items follow its offset.
    places = torch.arange(order.numel(), device=values.device) - offsets[rows]
    return order[places < k], Ragged.from_lengths(order, offsets.diff().clamp_max(k)).offsets
