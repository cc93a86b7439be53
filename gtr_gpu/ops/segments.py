"""Sums, maxima, softmax and top-k over the rows of ragged batches.

Every function takes items `[T]` with the offsets `[B + 1]` (int64) of the rows that they belong to, as in
[Ragged][gtr_gpu.ragged.Ragged], on any device. Empty rows are fine; items are numbers, not NaN. Sums run in float64,
each row's items in a fixed order, and are returned in the type of the values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import MOST_ITEMS, check_count, check_offsets, check_range, check_real, check_tensor, device_of
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, offsets_from_lengths

_REALS = (torch.float32, torch.float64)
_SUFFIXES = {torch.float32: "f32", torch.float64: "f64"}


@operation("segment_sum_f32", "segment_sum_f64")
def segment_sum(values: Tensor, offsets: Tensor) -> Tensor:
    """Sums the items of each row.

    Args:
        values: Items `[T]` or `[T, d]`, float32 or float64.
        offsets: Row boundaries `[B + 1]`, int64.

    Returns:
        The sums `[B]` or `[B, d]` in the type of `values`; 0 for an empty row.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    _check_items(values, offsets, wide=True)
    if not serves("segment_sum", values.device):
        return reference.segments.segment_sum(values, offsets)
    return _sums(values, offsets, mean=False)


@operation("segment_sum_f32", "segment_sum_f64")
def segment_mean(values: Tensor, offsets: Tensor) -> Tensor:
    """The mean item of each row.

    Args:
        values: Items `[T]` or `[T, d]`, float32 or float64.
        offsets: Row boundaries `[B + 1]`, int64.

    Returns:
        The means `[B]` or `[B, d]` in the type of `values`; 0 for an empty row.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    _check_items(values, offsets, wide=True)
    if not serves("segment_mean", values.device):
        return reference.segments.segment_mean(values, offsets)
    return _sums(values, offsets, mean=True)


@operation("segment_max_f32", "segment_max_f64")
def segment_max(values: Tensor, offsets: Tensor) -> Tensor:
    """The greatest item of each row.

    Args:
        values: Items `[T]` or `[T, d]`, float32 or float64.
        offsets: Row boundaries `[B + 1]`, int64.

    Returns:
        The maxima `[B]` or `[B, d]` in the type of `values`; -inf for an empty row.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    _check_items(values, offsets, wide=True)
    if not serves("segment_max", values.device):
        return reference.segments.segment_max(values, offsets)
    greatest = _rows_like(values, offsets)
    width = values.shape[1] if values.dim() == 2 else 1
    _launch("segment_max", values, offsets, (width,), greatest)
    return greatest


@operation("segment_normalize_f32", "segment_normalize_f64")
def segment_normalize(values: Tensor, offsets: Tensor) -> Tensor:
    """Divides the items of each row by their sum; a row of zeros becomes uniform.

    Args:
        values: Items `[T]`, not negative, float32 or float64.
        offsets: Row boundaries `[B + 1]`, int64.

    Returns:
        The shares `[T]` in the type of `values`; those of a row add up to 1.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    _check_items(values, offsets)
    if not serves("segment_normalize", values.device):
        return reference.segments.segment_normalize(values, offsets)
    shares = torch.empty_like(values, memory_format=torch.contiguous_format)
    _launch("segment_normalize", values, offsets, (), shares)
    return shares


@operation("segment_softmax_f32", "segment_softmax_f64")
def segment_softmax(values: Tensor, offsets: Tensor, temperature: float = 1.0) -> Tensor:
    """The softmax of each row, `exp(v / T) / sum(exp(v / T))`.

    Args:
        values: Items `[T]`, float32 or float64; -inf gets nothing, a row of -inf becomes uniform.
        offsets: Row boundaries `[B + 1]`, int64.
        temperature: T > 0; the smaller, the more the greatest item gets.

    Returns:
        The shares `[T]` in the type of `values`; those of a row add up to 1.

    Raises:
        GTRError: Arguments of wrong types or shapes, or `temperature` is not above 0.
    """
    check_real("temperature", temperature)
    if temperature <= 0:
        raise GTRError(f"temperature must be above 0, got {temperature}")
    _check_items(values, offsets)
    if not serves("segment_softmax", values.device):
        return reference.segments.segment_softmax(values, offsets, temperature)
    shares = torch.empty_like(values, memory_format=torch.contiguous_format)
    _launch("segment_softmax", values, offsets, (float(temperature),), shares)
    return shares


@operation("segment_top_k")
def segment_top_k(values: Tensor, ids: Tensor, offsets: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k items of each row with the greatest values, best first; ties go to the smaller id.

    Args:
        values: Scores `[T]`, float32.
        ids: The items' ids `[T]`, int32, not negative, distinct within a row, in any order.
        offsets: Row boundaries `[B + 1]`, int64.
        k: How many are kept, at least 1.

    Returns:
        Ids `[B, k]` int32, padded with -1; values `[B, k]`, padded with -inf; positions in `values` `[B, k]` int64,
        padded with -1.

    Raises:
        GTRError: Arguments of wrong types or shapes, or `k` is below 1.
    """
    check_count("k", k, 1, MOST_ITEMS)
    _check_scored(values, ids, offsets)
    if not serves("segment_top_k", values.device):
        return reference.segments.segment_top_k(values, ids, offsets, k)
    shape, device = (offsets.numel() - 1, k), values.device
    top_ids = torch.empty(shape, dtype=INDEX_DTYPE, device=device)
    top_values = torch.empty(shape, device=device)
    positions = torch.empty(shape, dtype=torch.int64, device=device)
    _launch_top_k(values, ids, offsets, k, None, (top_ids, top_values, positions))
    return top_ids, top_values, positions


@operation("segment_top_k")
def segment_top_k_ragged(values: Tensor, ids: Tensor, offsets: Tensor, k: int) -> tuple[Ragged, Tensor]:
    """As `segment_top_k`, without padding.

    Returns:
        The ids of each row, best first, at most k of them, int32; and their positions in `values`, int64.

    Raises:
        GTRError: Arguments of wrong types or shapes, or `k` is below 1.
    """
    check_count("k", k, 1)
    _check_scored(values, ids, offsets)
    if not serves("segment_top_k_ragged", values.device):
        return reference.segments.segment_top_k_ragged(values, ids, offsets, k)
    kept_offsets = offsets_from_lengths(offsets.diff().clamp_max_(k))
    n_kept = int(kept_offsets[-1])
    top_ids = torch.empty(n_kept, dtype=INDEX_DTYPE, device=values.device)
    positions = torch.empty(n_kept, dtype=torch.int64, device=values.device)
    _launch_top_k(values, ids, offsets, k, kept_offsets, (top_ids, None, positions))
    return Ragged(top_ids, kept_offsets), positions


def _check_items(values: Tensor, offsets: Tensor, wide: bool = False) -> None:
    device = device_of("offsets", offsets, Tensor)
    several = wide and isinstance(values, Tensor) and values.dim() == 2
    check_tensor("values", values, (None, None) if several else (None,), _REALS, device)
    check_offsets("offsets", offsets, values.shape[0], values.device)


def _check_scored(values: Tensor, ids: Tensor, offsets: Tensor) -> None:
    check_tensor("values", values, (None,), (torch.float32,), device_of("offsets", offsets, Tensor))
    check_tensor("ids", ids, (values.numel(),), (INDEX_DTYPE,), values.device)
    check_offsets("offsets", offsets, values.numel(), values.device)
    check_range("ids", ids, 2**31)


def _rows_like(values: Tensor, offsets: Tensor) -> Tensor:
    """An array for one item of each row."""
    return values.new_empty((offsets.numel() - 1, *values.shape[1:]))


def _sums(values: Tensor, offsets: Tensor, mean: bool) -> Tensor:
    sums = _rows_like(values, offsets)
    width = values.shape[1] if values.dim() == 2 else 1
    _launch("segment_sum", values, offsets, (width, int(mean)), sums, scratch_bytes((width, 8)))
    return sums


def _launch(
    name: str, values: Tensor, offsets: Tensor, options: tuple[float, ...], result: Tensor, scratch: int = 0
) -> None:
    arrays = (values.contiguous(), result)
    launch(
        f"{name}_{_SUFFIXES[values.dtype]}",
        offsets.numel() - 1,
        [offsets.contiguous(), *options, *arrays],
        scratch,
    )


def _launch_top_k(
    values: Tensor,
    ids: Tensor,
    offsets: Tensor,
    k: int,
    kept_offsets: Tensor | None,
    results: tuple[Tensor, Tensor | None, Tensor],
) -> None:
    n_rows = offsets.numel() - 1
    longest = int(offsets.diff().max()) if n_rows else 0
    length = 1 << (max(min(k, longest), 1) - 1).bit_length()
    launch(
        "segment_top_k",
        n_rows,
        [
            *(offsets.contiguous(), values.contiguous(), ids.contiguous(), k, int(kept_offsets is None), kept_offsets),
            *results,
        ],
        scratch_bytes((length, 8), (length, 4)),
    )
