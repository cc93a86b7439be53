"""Personalised PageRank of a batch of queries, each on its own candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ops.reference.segments import segment_normalize, segment_sum
from gtr_gpu.ops.types import Ranks, Transfer
from gtr_gpu.ragged import Ragged


def personalized_pagerank(
    transfer: Transfer, personalization: Tensor, *, damping: float, tolerance: float, max_iterations: int
) -> Ranks:
    """See `gtr_gpu.ops.pagerank.personalized_pagerank`, for checked arguments; all in float64."""
    offsets = transfer.offsets
    owner = torch.repeat_interleave(offsets.diff())
    weights = transfer.weights.with_weights(transfer.weights.weights.double()).to_torch()
    dangling = Ragged.from_segments(*_dangling(transfer, owner), offsets.numel() - 1)
    inverse = torch.where(transfer.degrees > 0, 1 / transfer.degrees.double(), 0)
    h = segment_normalize(personalization.double(), offsets)
    x = h
    active = offsets.diff() > 0
    iterations = torch.zeros_like(offsets[1:])
    for _ in range(max_iterations):
        if not bool(active.any()):
            break
        moved = (weights @ (x * inverse)).mul_(damping)
        lost = segment_sum(x[dangling.values], dangling.offsets)
        moved.addcmul_((1 - damping + damping * lost)[owner], h)
        change = segment_sum((moved - x).abs_(), offsets)
        x = moved if bool(active.all()) else torch.where(active[owner], moved, x)
        iterations += active
        active = active & (change >= tolerance)
    return Ranks(x.float(), iterations, ~active)


def _dangling(transfer: Transfer, owner: Tensor) -> tuple[Tensor, Tensor]:
    """The candidates without an edge, and the queries that they belong to."""
    places = (transfer.degrees <= 0).nonzero()[:, 0]
    return places, owner[places]
