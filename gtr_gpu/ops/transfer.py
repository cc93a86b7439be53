"""The sparse transfer matrix of each query's candidates, as one block-diagonal matrix for the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import check_ragged, check_real, check_sparse, check_tensor, device_of
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ops.types import Transfer
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix, offsets_from_lengths

# With more tables than this, a candidate is found by a binary search: to clear a map of bits would take longer.
_MAPPED_TABLES = 1 << 22
# Similarities that are computed and looked through at once: they stay in a processor's cache.
_TILE_ENTRIES = 1 << 18
_TILE_ENTRIES_CUDA = 1 << 24


@operation("induced_count", "induced_fill")
def induced_transfer(candidates: Ragged, graph: SparseMatrix) -> Transfer:
    """Takes from the neighbour graph the edges among each query's candidates.

    Args:
        candidates: Table numbers of each query, int32, rising within a query and distinct; values `[T]`.
        graph: Symmetric weights between tables, `[N, N]`, float32.

    Returns:
        W holds the graph's weight wherever both ends are candidates of the same query.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges, or candidates that don't rise.
    """
    device = _check(candidates, graph)
    if not serves("induced_transfer", device):
        _check_rising(candidates, graph.n_columns)
        return reference.transfer.induced_transfer(candidates, graph)
    n_queries, n_tables = len(candidates), graph.n_columns
    n_words = -(-n_tables // 64) if n_tables <= _MAPPED_TABLES else 0
    lengths = torch.empty_like(candidates.values, dtype=torch.int64)
    wrong = torch.empty(n_queries, dtype=torch.bool, device=device)
    scratch = scratch_bytes((n_words, 8), (n_words, 4))
    edges = (graph.columns.offsets, graph.columns.values)
    batch = (candidates.offsets, candidates.values)
    launch("induced_count", n_queries, [*batch, *edges, n_tables, n_words, lengths, wrong], scratch)
    _refuse(wrong, n_tables)
    offsets = offsets_from_lengths(lengths)
    n_entries = int(offsets[-1])
    columns = torch.empty(n_entries, dtype=INDEX_DTYPE, device=device)
    weights = torch.empty(n_entries, device=device)
    degrees = torch.empty(lengths.numel(), device=device)
    outputs = (columns, weights, degrees)
    launch("induced_fill", n_queries, [*batch, *edges, graph.weights, n_words, offsets, *outputs], scratch)
    return Transfer(SparseMatrix(Ragged(columns, offsets), weights, lengths.numel()), degrees, candidates.offsets)


@operation("similarity_count", "similarity_fill")
def similarity_transfer(candidates: Ragged, gather: Callable[[Tensor], Tensor], floor: float) -> Transfer:
    """Compares all pairs of each query's candidates, keeping similarities of at least the floor (the paper's S).

    Works by tiles: what is kept grows with the pairs above the floor, never with the square of the candidates.

    Args:
        candidates: Table numbers of each query, int32; values `[T]`.
        gather: Returns the unit features `[n, d]`, float32, of table numbers `[n]`.
        floor: τ; smaller similarities count as 0. The diagonal is kept, as in the paper.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    device = device_of("candidates", candidates, Ragged)
    check_ragged("candidates", candidates, device)
    if not callable(gather):
        raise GTRError(f"gather must be a function, got {type(gather).__name__}")
    check_real("floor", floor)
    if not serves("similarity_transfer", device):
        return reference.transfer.similarity_transfer(candidates, gather, floor)
    starts = candidates.offsets.tolist()
    n_candidates = candidates.values.numel()
    lengths = torch.empty(n_candidates, dtype=torch.int64, device=device)
    degrees = torch.empty(n_candidates, device=device)
    most = _TILE_ENTRIES_CUDA if device.type == "cuda" else _TILE_ENTRIES
    longest = max((last - first for first, last in pairwise(starts)), default=0)
    buffer = torch.empty(min(max(most, longest), longest * longest), device=device)
    columns, weights = [torch.empty(0, dtype=INDEX_DTYPE, device=device)], [torch.empty(0, device=device)]
    for start, stop in pairwise(starts):
        if start == stop:
            continue
        n = stop - start
        rows = gather(candidates.values[start:stop])
        check_tensor("gather(tables)", rows, (n, None), (torch.float32,), device)
        height = max(1, min(n, most // n))
        for first in range(start, stop, height):
            last = min(first + height, stop)
            tile = buffer[: (last - first) * n].view(last - first, n)
            torch.mm(rows[first - start : last - start], rows.T, out=tile)
            launch("similarity_count", last - first, [tile, n, floor, lengths[first:last]])
            offsets = offsets_from_lengths(lengths[first:last])
            columns.append(torch.empty(int(offsets[-1]), dtype=INDEX_DTYPE, device=device))
            weights.append(torch.empty(columns[-1].numel(), device=device))
            outputs = (columns[-1], weights[-1], degrees[first:last])
            launch("similarity_fill", last - first, [tile, n, floor, start, offsets, *outputs])
    joined = Ragged.from_lengths(torch.cat(columns), lengths)
    return Transfer(SparseMatrix(joined, torch.cat(weights), n_candidates), degrees, candidates.offsets)


@operation("widen_count", "widen_fill")
def widen(candidates: Ragged, graph: SparseMatrix) -> Ragged:
    """The candidates and all their neighbours: one hop along the graph.

    Args:
        candidates: Table numbers of each query, int32, rising within a query and distinct; values `[T]`.
        graph: Weights between tables, `[N, N]`.

    Returns:
        Table numbers of each query, int32, rising and distinct.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges, or candidates that don't rise.
    """
    device = _check(candidates, graph)
    if not serves("widen", device):
        _check_rising(candidates, graph.n_columns)
        return reference.transfer.widen(candidates, graph)
    n_queries, n_tables = len(candidates), graph.n_columns
    n_words = -(-n_tables // 64)
    lengths = torch.empty(n_queries, dtype=torch.int64, device=device)
    wrong = torch.empty(n_queries, dtype=torch.bool, device=device)
    batch = (candidates.offsets, candidates.values, graph.columns.offsets, graph.columns.values)
    scratch = scratch_bytes((n_words, 8))
    launch("widen_count", n_queries, [*batch, n_tables, n_words, lengths, wrong], scratch)
    _refuse(wrong, n_tables)
    offsets = offsets_from_lengths(lengths)
    tables = torch.empty(int(offsets[-1]), dtype=INDEX_DTYPE, device=device)
    launch("widen_fill", n_queries, [*batch, n_words, offsets, tables], scratch)
    return Ragged(tables, offsets)


def _check(candidates: Ragged, graph: SparseMatrix) -> torch.device:
    """Checks all but that candidates rise; gives their device."""
    device = device_of("candidates", candidates, Ragged)
    check_ragged("candidates", candidates, device)
    check_sparse("graph", graph, device)
    if len(graph.columns) != graph.n_columns:
        raise GTRError(f"graph must have as many rows as columns, got {graph.shape[0]} by {graph.shape[1]}")
    return device


def _check_rising(candidates: Ragged, n_tables: int) -> None:
    values, owner = candidates.values, candidates.segment_ids()
    falls = (values[1:] <= values[:-1]) & (owner[1:] == owner[:-1])
    _refuse(torch.cat([falls, (values < 0) | (values >= n_tables)]), n_tables)


def _refuse(wrong: Tensor, n_tables: int) -> None:
    if bool(wrong.any()):
        raise GTRError(f"candidates must be from 0 to {n_tables - 1}, rising and distinct within a query; some are not")
