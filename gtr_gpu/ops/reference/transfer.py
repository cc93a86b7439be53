"""The sparse transfer matrix of each query's candidates, as one block-diagonal matrix for the whole batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gtr_gpu.ops.reference.segments import segment_sum
from gtr_gpu.ops.types import Transfer
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix

_TILE_ENTRIES = 1 << 24


def induced_transfer(candidates: Ragged, graph: SparseMatrix) -> Transfer:
    """Takes from the neighbour graph the edges among each query's candidates.

    Args:
        candidates: Table numbers of each query, int32, rising within a query and distinct; values `[T]`.
        graph: Symmetric weights between tables, `[N, N]`, float32. A map of `[B, N]` numbers is held meanwhile.

    Returns:
        W holds the graph's weight wherever both ends are candidates of the same query.
    """
    positions, offsets = graph.columns.positions(candidates.values)
    sources = torch.repeat_interleave(offsets.diff(), output_size=positions.numel())
    base = candidates.segment_ids() * graph.n_columns
    # Where each table stands among the candidates of each query, -1 where it doesn't.
    place = torch.full((len(candidates) * graph.n_columns,), -1, dtype=INDEX_DTYPE, device=candidates.device)
    place[base + candidates.values] = torch.arange(base.numel(), dtype=INDEX_DTYPE, device=candidates.device)
    columns = place[base[sources] + graph.columns.values[positions]]
    found = columns >= 0
    lengths = torch.bincount(sources[found], minlength=base.numel())
    return _transfer(Ragged.from_lengths(columns[found], lengths), graph.weights[positions[found]], candidates.offsets)


def similarity_transfer(candidates: Ragged, gather: Callable[[Tensor], Tensor], floor: float) -> Transfer:
    """Compares all pairs of each query's candidates, keeping similarities of at least the floor (the paper's S).

    Works by tiles: what is kept grows with the pairs above the floor, never with the square of the candidates.

    Args:
        candidates: Table numbers of each query, int32; values `[T]`.
        gather: Returns the unit features `[n, d]`, float32, of table numbers `[n]`.
        floor: τ; smaller similarities count as 0. The diagonal is kept, as in the paper.
    """
    columns: list[Tensor] = []
    weights: list[Tensor] = []
    lengths: list[Tensor] = []
    for query in range(len(candidates)):
        rows = gather(candidates[query])
        start = int(candidates.offsets[query])
        tile = max(1, _TILE_ENTRIES // max(len(rows), 1))
        for first in range(0, len(rows), tile):
            similarity = rows[first : first + tile] @ rows.T
            # A negative weight is no probability, so a floor below 0 keeps only what is above 0.
            kept = (similarity >= floor) & (similarity > 0)
            lengths.append(kept.sum(1))
            columns.append((kept.nonzero()[:, 1] + start).to(INDEX_DTYPE))
            weights.append(similarity[kept])
    device = candidates.device
    joined = Ragged.from_lengths(
        torch.cat([torch.empty(0, dtype=INDEX_DTYPE, device=device), *columns]),
        torch.cat([torch.empty(0, dtype=torch.int64, device=device), *lengths]),
    )
    return _transfer(joined, torch.cat([torch.empty(0, device=device), *weights]), candidates.offsets)


def _transfer(columns: Ragged, weights: Tensor, offsets: Tensor) -> Transfer:
    degrees = segment_sum(weights, columns.offsets)
    return Transfer(SparseMatrix(columns, weights, len(columns)), degrees, offsets)


def widen(candidates: Ragged, graph: SparseMatrix) -> Ragged:
    """The candidates and all their neighbours: one hop along the graph.

    Args:
        candidates: Table numbers of each query, int32, values `[T]`.
        graph: Weights between tables, `[N, N]`. A map of `[B, N]` flags is held meanwhile.

    Returns:
        Table numbers of each query, int32, rising and distinct.
    """
    positions, offsets = graph.columns.positions(candidates.values)
    base = candidates.segment_ids() * graph.n_columns
    reached = torch.zeros(len(candidates), graph.n_columns, dtype=torch.bool, device=candidates.device)
    flat = reached.view(-1)
    flat[base + candidates.values] = True
    flat[torch.repeat_interleave(base, offsets.diff()) + graph.columns.values[positions]] = True
    return Ragged.from_lengths(reached.nonzero()[:, 1].to(INDEX_DTYPE), reached.sum(1))
