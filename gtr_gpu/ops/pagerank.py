"""Personalised PageRank of a batch of queries, each on its own candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import (
    JOINS_QUERIES,
    check_count,
    check_kind,
    check_offsets,
    check_ragged,
    check_real,
    check_tensor,
    check_weights,
    device_of,
)
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ops.types import Ranks, Transfer
from gtr_gpu.ragged import SparseMatrix

# On a GPU a query with more candidates is walked by all blocks together.
_MANY_CANDIDATES = 1 << 15
# The kernel's: rows of a tile, and the runs and classes that it sorts rows by.
_TILE_ROWS, _RUNS, _CLASSES = 16, 32, 384


@operation("pagerank", "pagerank_grid")
def personalized_pagerank(
    transfer: Transfer, personalization: Tensor, *, damping: float, tolerance: float, max_iterations: int
) -> Ranks:
    """Solves `x = (1-α)·h + α·Pᵀx` for each query, until the residual `‖(1-α)·h + α·Pᵀx - x‖₁ < ε`.

    That residual is what a step of the power iteration would change, and the ranks are those after one such step more.
    Chebyshev's iteration gets there in about half of the steps: W is symmetric, so the eigenvalues of α·P are real and
    within ±α.

    Candidates without an edge give their mass to h, so that no mass is lost. A query that has converged stands still
    while others of its batch go on, so a batch gives what its queries give one by one.

    Args:
        transfer: W, symmetric, and its row sums d, of the batch's candidates; finite and at least 0. The iteration may
            not converge where W isn't symmetric.
        personalization: h, `[T]`, float32, at least 0, each query's sum 1.
        damping: α, the share of the walk that follows edges, from 0 to below 1.
        tolerance: ε, in the sum of the absolute residuals.
        max_iterations: Steps at most.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    check_real("damping", damping, 0, 1)
    if damping == 1:
        raise GTRError("damping must be below 1, got 1")
    check_real("tolerance", tolerance, 0)
    check_count("max_iterations", max_iterations, 0)
    device = device_of("personalization", personalization, Tensor)
    check_kind("transfer", transfer, Transfer)
    matrix = transfer.weights
    device_of("transfer.weights", matrix, SparseMatrix)
    n_candidates, n_entries = personalization.numel(), matrix.columns.values.numel()
    check_tensor("personalization", personalization, (None,), (torch.float32,), device)
    check_offsets("transfer.offsets", transfer.offsets, n_candidates, device)
    check_ragged("transfer.weights.columns", matrix.columns, device)
    check_tensor("transfer.weights.weights", matrix.weights, (n_entries,), (torch.float32,), device)
    check_tensor("transfer.degrees", transfer.degrees, (n_candidates,), (torch.float32,), device)
    if matrix.shape != (n_candidates, n_candidates):
        raise GTRError(f"transfer.weights must be {n_candidates} by {n_candidates}, got {matrix.shape}")
    check_weights("personalization", personalization)
    check_weights("transfer.weights.weights", matrix.weights)
    check_weights("transfer.degrees", transfer.degrees)
    n_queries = transfer.offsets.numel() - 1
    if not serves("personalized_pagerank", device):
        if reference.pagerank.joins_queries(transfer):
            raise GTRError(JOINS_QUERIES)
        return reference.pagerank.personalized_pagerank(
            transfer, personalization, damping=damping, tolerance=tolerance, max_iterations=max_iterations
        )
    ranks = torch.empty(n_candidates, device=device)
    iterations = torch.empty(n_queries, dtype=torch.int64, device=device)
    converged = torch.empty(n_queries, dtype=torch.bool, device=device)
    if n_queries > 1:
        longest = int(transfer.offsets.diff().max())
        most_entries = int(matrix.columns.offsets[transfer.offsets].diff().max())
    else:
        longest, most_entries = n_candidates, n_entries
    launch(
        "pagerank_grid" if device.type == "cuda" and longest > _MANY_CANDIDATES else "pagerank",
        n_queries,
        [
            *(transfer.offsets, matrix.columns.offsets, matrix.columns.values, matrix.weights, transfer.degrees),
            *(personalization, damping, tolerance, max_iterations),
            *(ranks, iterations, converged),
        ],
        _scratch(longest, most_entries),
    )
    if bool((iterations < 0).any()):
        raise GTRError(JOINS_QUERIES)
    return Ranks(ranks, iterations, converged)


def _scratch(n_candidates: int, n_entries: int) -> int:
    """What the walk of one query takes: numbers of rows, what rows are sorted by, and entries in tiles."""
    rows = n_candidates + _TILE_ROWS
    # Tiles are as wide as their longest row: 1/16 more than the shortest, but for the first ones.
    tiled = n_entries + n_entries // 16 + _TILE_ROWS * (min(n_candidates, n_entries) + 1)
    return scratch_bytes(*[(rows, 4)] * 8, (_RUNS * _CLASSES, 4), (rows, 8), *[(tiled, 4)] * 2)
