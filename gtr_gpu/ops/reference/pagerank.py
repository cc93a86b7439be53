"""Personalised PageRank of a batch of queries, each on its own candidates."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gtr_gpu.ops.reference.segments import segment_normalize, segment_sum
from gtr_gpu.ops.types import Ranks, Transfer


def personalized_pagerank(
    transfer: Transfer, personalization: Tensor, *, damping: float, tolerance: float, max_iterations: int
) -> Ranks:
    """See `gtr_gpu.ops.pagerank.personalized_pagerank`, for checked arguments; all in float64."""
    offsets = transfer.offsets
    owner = torch.repeat_interleave(offsets.diff())
    weights = transfer.weights.with_weights(transfer.weights.weights.double()).to_torch()
    linked = transfer.degrees > 0
    inverse = torch.where(linked, damping / transfer.degrees.double(), 0)
    h = segment_normalize(personalization.double(), offsets)
    # What dangling candidates have is known beforehand, so that the walk goes over the others only.
    start = h / (1 - damping * segment_sum(h * ~linked, offsets))[owner]
    # The residual, which is all of x to begin with, and the rest of x; both with that of the step before.
    state = torch.stack([start * linked, start * linked, torch.zeros_like(h), torch.zeros_like(h)])
    active = offsets.diff() > 0
    iterations = torch.zeros_like(offsets[1:])
    for step, stride in zip(range(max_iterations), _strides(damping), strict=False):
        if not bool(active.any()):
            break
        residual, before, x, x_before = state
        # The first step turns x into its residual.
        kept = 1 - stride if step else -damping
        moved = stride * (weights @ (residual * inverse)) + kept * before
        rest = x + stride * residual + (stride - 1) * (x - x_before)
        state = torch.where(active[owner], torch.stack([moved, residual, rest, x]), state)
        iterations += active
        active = active & (segment_sum(moved.abs(), offsets) >= tolerance)
    ranks = torch.where(linked, state[0] + state[2], (1 - damping) * start)
    return Ranks((ranks / segment_sum(ranks, offsets)[owner]).float(), iterations, ~active)


def _strides(damping: float) -> Iterator[float]:
    """How far each step of Chebyshev's iteration goes, for eigenvalues within ±damping."""
    yield from (1, 1)
    stride = 2.0
    while True:
        stride = 1 / (1 - damping**2 / 4 * stride)
        yield stride


def joins_queries(transfer: Transfer) -> bool:
    """Whether an entry of W joins candidates of two queries, or a number that is no candidate's."""
    offsets, columns = transfer.offsets, transfer.weights.columns.values
    query = torch.repeat_interleave(offsets.diff())[transfer.weights.row_ids()]
    return bool(((columns < offsets[query]) | (columns >= offsets[query + 1])).any())
