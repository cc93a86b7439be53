"""Sums, maxima, softmax and top-k over the rows of ragged batches.

Every function takes items `[T]` with the offsets `[B + 1]` (int64) of the rows that they belong to, as in
[Ragged][gtr_gpu.ragged.Ragged], on any device. Empty rows are fine. Sums run in float64, each row's items in a fixed
order (`torch.segment_reduce`: one worker a row, no atomics), and are returned in the type of the values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ragged import INDEX_DTYPE, Ragged


def segment_sum(values: Tensor, offsets: Tensor) -> Tensor:
    """See `gtr_gpu.ops.segments.segment_sum`."""
    return _sums(values, offsets).to(values.dtype)


def segment_max(values: Tensor, offsets: Tensor) -> Tensor:
    """See `gtr_gpu.ops.segments.segment_max`."""
    if offsets.numel() == 1:
        return values.new_empty((0, *values.shape[1:]))
    return torch.segment_reduce(values, "max", offsets=offsets, axis=0, initial=float("-inf"))


def segment_mean(values: Tensor, offsets: Tensor) -> Tensor:
    """See `gtr_gpu.ops.segments.segment_mean`."""
    lengths = offsets.diff().clamp_min(1)
    return (_sums(values, offsets) / lengths.view(-1, *[1] * (values.dim() - 1))).to(values.dtype)


def segment_normalize(values: Tensor, offsets: Tensor) -> Tensor:
    """See `gtr_gpu.ops.segments.segment_normalize`."""
    rows = _segment_ids(values, offsets)
    sums = _sums(values, offsets)
    shares = values / sums.clamp_min(torch.finfo(torch.float64).tiny)[rows]
    uniform = 1.0 / offsets.diff().double()
    return torch.where((sums > 0)[rows], shares, uniform[rows]).to(values.dtype)


def segment_softmax(values: Tensor, offsets: Tensor, temperature: float = 1.0) -> Tensor:
    """See `gtr_gpu.ops.segments.segment_softmax`."""
    greatest = segment_max(values, offsets)
    greatest = torch.where(greatest.isneginf(), 0.0, greatest)
    shifted = (values - greatest[_segment_ids(values, offsets)]).double() / temperature
    return segment_normalize(shifted.exp(), offsets).to(values.dtype)


def segment_top_k(values: Tensor, ids: Tensor, offsets: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """See `gtr_gpu.ops.segments.segment_top_k`."""
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
    """See `gtr_gpu.ops.segments.segment_top_k_ragged`."""
    positions, kept_offsets = _top_positions(values, ids, offsets, k)
    return Ragged(ids[positions].to(INDEX_DTYPE), kept_offsets), positions


def _sums(values: Tensor, offsets: Tensor) -> Tensor:
    """The sums of the rows in float64."""
    if offsets.numel() == 1:
        return values.new_empty((0, *values.shape[1:]), dtype=torch.float64)
    return torch.segment_reduce(values.double(), "sum", offsets=offsets, axis=0, initial=0.0)


def _segment_ids(values: Tensor, offsets: Tensor) -> Tensor:
    return Ragged(values, offsets).segment_ids()


def _top_positions(values: Tensor, ids: Tensor, offsets: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The positions of the best k items of each row, row after row, and the offsets of that selection."""
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
