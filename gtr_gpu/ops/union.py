"""The union of ragged batches of ids, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import check_kind, check_ragged, check_range, device_of
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, offsets_from_lengths

# Greater ids are sorted: to clear a map of so many bits, for each row and twice, takes longer.
MAPPED_IDS = 1 << 24


@operation("union_count", "union_fill")
def union(batches: Sequence[Ragged]) -> Ragged:
    """The union of several batches row by row.

    Kernels hold a bit for each id, so that where there are ids from 2^24 on, torch's own sort does the work instead.

    Args:
        batches: Batches of the same number of rows B, at least one batch; their values are ids, int32, not negative,
            in any order, repeats allowed.

    Returns:
        For each row the ids that any of the batches has there, int32, rising and distinct.

    Raises:
        GTRError: There is no batch, their numbers of rows differ, or they have wrong types, shapes or ranges.
    """
    check_kind("batches", batches, Sequence)
    if not batches:
        raise GTRError("batches must hold at least one batch, got none")
    device = device_of("batches[0]", batches[0], Ragged)
    span = 0
    for number, batch in enumerate(batches):
        check_ragged(f"batches[{number}]", batch, device)
        span = max(span, 1 + check_range(f"batches[{number}].values", batch.values, 2**31))
    sizes = {len(batch) for batch in batches}
    if len(sizes) != 1:
        raise GTRError(f"batches must have one number of rows, got {sorted(sizes)}")
    if not serves("union", device) or span > MAPPED_IDS:
        return reference.union.union(batches)
    ids = batches[0].values if len(batches) == 1 else torch.cat([batch.values for batch in batches])
    before = 0
    starts, ends = [], []
    for batch in batches:
        starts.append(batch.offsets[:-1] + before)
        ends.append(batch.offsets[1:] + before)
        before += batch.values.numel()
    runs = torch.arange(sizes.pop() + 1, device=device) * len(batches)
    return unite(runs, torch.stack(starts, 1), torch.stack(ends, 1), ids, span)


def unite(offsets: Tensor, starts: Tensor, ends: Tensor, ids: Tensor, span: int) -> Ragged:
    """Launches the kernels: each row's union of runs of ids.

    Args:
        offsets: Where each row's runs start, `[B + 1]`, int64.
        starts: Where each run starts in `ids`, int64.
        ends: Where it ends, int64.
        ids: The ids of all runs, int32, from 0 to below `span`.
        span: As many bits as a row's map has.
    """
    n_rows = offsets.numel() - 1
    n_words = -(-span // 64)
    runs = (offsets.contiguous(), starts.contiguous(), ends.contiguous(), ids.contiguous(), n_words)
    lengths = torch.empty(n_rows, dtype=torch.int64, device=ids.device)
    scratch = scratch_bytes((n_words, 8))
    launch("union_count", n_rows, [*runs, lengths], scratch)
    united_offsets = offsets_from_lengths(lengths)
    united = torch.empty(int(united_offsets[-1]), dtype=INDEX_DTYPE, device=ids.device)
    launch("union_fill", n_rows, [*runs, united_offsets, united], scratch)
    return Ragged(united, united_offsets)
