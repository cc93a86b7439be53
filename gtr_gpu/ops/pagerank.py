"""Personalised PageRank of a batch of queries, each on its own candidates."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gtr_gpu.ops.segments import segment_normalize, segment_sum
from gtr_gpu.ops.transfer import Transfer
from gtr_gpu.ragged import Ragged


class Ranks(NamedTuple):
    """The stationary visits of a batch.

    Attributes:
        values: The share of visits of each candidate, `[T]`, float32; each query's sum to 1.
        iterations: Steps made for each query, `[B]`, int64.
        converged: Whether each query's last step changed less than the tolerance, `[B]`, bool.
    """

    values: Tensor
    iterations: Tensor
    converged: Tensor


def personalized_pagerank(
    transfer: Transfer, personalization: Tensor, *, damping: float, tolerance: float, max_iterations: int
) -> Ranks:
    """Iterates `x ← (1-α)·h + α·Pᵀx` for each query until `‖Δx‖₁ < ε`.

    Candidates without an edge give their mass to h, so that no mass is lost. A query that has converged stands still
    while others of its batch go on, so a batch gives what its queries give one by one.

    Args:
        transfer: W and d of the batch's candidates.
        personalization: h, `[T]`, float32, at least 0, each query's sum 1.
        damping: α, the share of the walk that follows edges.
        tolerance: ε, in the sum of absolute changes.
        max_iterations: Steps at most.
    """
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
