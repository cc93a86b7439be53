"""The union of ragged batches row by row."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gtr_gpu.ragged import Ragged


def union(batches: Sequence[Ragged]) -> Ragged:
    """See `gtr_gpu.ops.union.union`."""
    n_rows = len(batches[0])
    values = torch.cat([batch.values for batch in batches])
    if not values.numel():
        return batches[0]
    span = int(values.max()) + 1
    rows = torch.cat([batch.segment_ids() for batch in batches])
    keys = torch.unique(rows * span + values)
    return Ragged.from_lengths((keys % span).to(values.dtype), torch.bincount(keys // span, minlength=n_rows))
