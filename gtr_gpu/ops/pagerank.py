"""Personalised PageRank of a batch of queries, each on its own candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import check_offsets, check_sparse, check_tensor
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ops.types import Ranks, Transfer

# Below this tolerance the rounding of float32 is larger than the changes that the walk waits for.
_LEAST_FLOAT32_TOLERANCE = 1e-6


@operation("pagerank_f32", "pagerank_f64")
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

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = personalization.device
    n_candidates, n_queries = personalization.numel(), transfer.offsets.numel() - 1
    check_tensor("personalization", personalization, (None,), (torch.float32,), device)
    check_offsets("transfer.offsets", transfer.offsets, n_candidates, device)
    check_sparse("transfer.weights", transfer.weights, device)
    check_tensor("transfer.degrees", transfer.degrees, (n_candidates,), (torch.float32,), device)
    if transfer.weights.shape != (n_candidates, n_candidates):
        raise GTRError(f"transfer.weights must be {n_candidates} by {n_candidates}, got {transfer.weights.shape}")
    if not serves("personalized_pagerank", device):
        return reference.pagerank.personalized_pagerank(
            transfer, personalization, damping=damping, tolerance=tolerance, max_iterations=max_iterations
        )
    kind = "f32" if tolerance >= _LEAST_FLOAT32_TOLERANCE else "f64"
    ranks = torch.empty(n_candidates, device=device)
    iterations = torch.empty(n_queries, dtype=torch.int64, device=device)
    converged = torch.empty(n_queries, dtype=torch.bool, device=device)
    longest = int(transfer.offsets.diff().max()) if n_queries else 0
    matrix = transfer.weights
    launch(
        f"pagerank_{kind}",
        n_queries,
        [
            *(transfer.offsets, matrix.columns.offsets, matrix.columns.values, matrix.weights, transfer.degrees),
            *(personalization, damping, tolerance, max_iterations),
            *(ranks, iterations, converged),
        ],
        scratch_bytes(*[(longest, 4 if kind == "f32" else 8)] * 3),
    )
    return Ranks(ranks, iterations, converged)
