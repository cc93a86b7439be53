"""Where the rows to be clustered come from: memory, memory-mapped segments, dense or sparse, behind a few methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import kmeans as ops
from gtr_gpu.ops.kmeans import SUM_BLOCK
from gtr_gpu.ops.types import Rows
from gtr_gpu.ragged import SparseMatrix, stack_sparse


@runtime_checkable
class RowSource(Protocol):
    """N rows of d numbers that k-means can be run on; a sharded one may answer each method in several processes."""

    count: int
    dim: int
    sparse: bool
    dtype: torch.dtype
    device: torch.device

    def take(self, rows: Tensor) -> Rows:
        """The rows of the given numbers `[R]`, in that order, in memory."""

    def assign_to(self, centroids: Tensor) -> tuple[Tensor, Tensor]:
        """Labels int32 and squared distances `[S, N]` of all rows against centroids `[S, K, d]`."""

    def nearest_to(self, centroids: Tensor) -> Tensor:
        """The labels of `assign_to` alone, in less time."""

    def update(self, labels: Tensor, n_clusters: int, room: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Sums `[S, K, d]` and counts `[S, K]` in float64 of the clusters that labels `[S, N]` make.

        `room` are sums of an earlier call that nobody needs any more; their memory may be used again.
        """

    def moments(self) -> tuple[Tensor, float]:
        """The column sums `[d]` and the sum of all squares, in float64."""

    def inertia(self, centroids: Tensor, labels: Tensor) -> float:
        """The sum of squared distances of all rows to their centroids (`[K, d]`, labels `[N]`), in float64."""


class PartedRows:
    """Rows that lie in one part or several, one after the other, such as the segments of an index.

    Parts may be memory-mapped: no more than 65,536 rows are read at a time. These blocks are the same however the rows
    are divided into parts, and so are all results.
    """

    def __init__(self, parts: Sequence[Rows]) -> None:
        """Takes dense parts `[n, d]` or sparse ones, not both; sparse ones may differ in width.

        Raises:
            GTRError: Parts of different kinds or widths.
        """
        self._parts = [part for part in parts if part.shape[0]] or list(parts[:1])
        self.sparse = bool(self._parts) and isinstance(self._parts[0], SparseMatrix)
        widths = {part.shape[1] for part in self._parts}
        if any(isinstance(part, SparseMatrix) != self.sparse for part in self._parts):
            raise GTRError("rows must be either all dense or all sparse, got both")
        if not self.sparse and len(widths) > 1:
            raise GTRError(f"rows must all have the same width, got parts of widths {sorted(widths)}")
        self._starts = [0]
        for part in self._parts:
            self._starts.append(self._starts[-1] + part.shape[0])
        self.count = self._starts[-1]
        self.dim = max(widths, default=0)
        first = self._parts[0] if self._parts else torch.empty(0, 0)
        self.device = first.device
        dtype = first.weights.dtype if isinstance(first, SparseMatrix) else first.dtype
        self.dtype = torch.float64 if dtype == torch.float64 else torch.float32

    def slice(self, start: int, stop: int) -> Rows:
        """The rows from `start` up to `stop`; a view where one part holds them all."""
        pieces: list[Rows] = []
        for part, (first, last) in zip(self._parts, pairwise(self._starts), strict=True):
            low, high = max(start, first) - first, min(stop, last) - first
            if low < high:
                pieces.append(part.slice(low, high) if isinstance(part, SparseMatrix) else part[low:high])
        return self._join(pieces)

    def take(self, rows: Tensor) -> Rows:
        """The rows of the given numbers `[R]`, in that order, in memory."""
        order = torch.argsort(rows, stable=True)
        rising = rows[order]
        bounds = torch.searchsorted(rising, torch.tensor(self._starts, device=rising.device)).tolist()
        pieces: list[Rows] = []
        for part, first, (low, high) in zip(self._parts, self._starts, pairwise(bounds), strict=False):
            if low < high:
                wanted = rising[low:high] - first
                pieces.append(part.select(wanted) if isinstance(part, SparseMatrix) else part[wanted])
        back = torch.empty_like(order)
        back[order] = torch.arange(order.numel(), device=order.device)
        found = self._join(pieces)
        return found.select(back) if isinstance(found, SparseMatrix) else found[back].to(self.dtype)

    def assign_to(self, centroids: Tensor) -> tuple[Tensor, Tensor]:
        """Labels int32 and squared distances `[S, N]` of all rows against centroids `[S, K, d]`."""
        found = [ops.assign(block, centroids) for _, block in self._blocks()]
        return torch.cat([labels for labels, _ in found], 1), torch.cat([distances for _, distances in found], 1)

    def nearest_to(self, centroids: Tensor) -> Tensor:
        """The labels of `assign_to` alone, in less time."""
        return torch.cat([ops.nearest(block, centroids) for _, block in self._blocks()], 1)

    def update(self, labels: Tensor, n_clusters: int, room: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Sums `[S, K, d]` and counts `[S, K]` in float64 of the clusters that labels `[S, N]` make.

        `room` are sums of an earlier call that nobody needs any more; their memory may be used again.
        """
        blocks = iter(self._blocks())
        start, block = next(blocks)
        sums, counts = ops.update(block, labels[:, start : start + block.shape[0]], n_clusters, room)
        for start, block in blocks:
            more = ops.update(block, labels[:, start : start + block.shape[0]], n_clusters)
            sums += more[0]
            counts += more[1]
        return sums, counts

    def moments(self) -> tuple[Tensor, float]:
        """The column sums `[d]` and the sum of all squares, in float64."""
        sums = torch.zeros(self.dim, dtype=torch.float64, device=self.device)
        squares = 0.0
        for _, block in self._blocks():
            one = torch.zeros(block.shape[0], dtype=torch.int64, device=self.device)
            sums += ops.update(block, one, 1)[0][0]
            if isinstance(block, SparseMatrix):
                squares += float(torch.linalg.vector_norm(block.weights, dtype=torch.float64) ** 2)
            else:
                # Many times as fast as torch's norm of float32 in float64.
                origin = torch.zeros((1, self.dim), dtype=self.dtype, device=self.device)
                squares += float(ops.distances_to(block, origin, one).sum(dtype=torch.float64))
        return sums, squares

    def inertia(self, centroids: Tensor, labels: Tensor) -> float:
        """The sum of squared distances of all rows to their centroids (`[K, d]`, labels `[N]`), in float64."""
        total = 0.0
        for start, block in self._blocks():
            found = ops.distances_to(block, centroids, labels[start : start + block.shape[0]])
            total += float(found.sum(dtype=torch.float64))
        return total

    def _blocks(self) -> Iterator[tuple[int, Rows]]:
        for start in range(0, self.count, SUM_BLOCK):
            yield start, self.slice(start, min(start + SUM_BLOCK, self.count))

    def _join(self, pieces: list[Rows]) -> Rows:
        if self.sparse:
            sparse = [piece for piece in pieces if isinstance(piece, SparseMatrix)]
            whole = sparse[0] if len(sparse) == 1 else stack_sparse(sparse)
            return SparseMatrix(whole.columns, whole.weights, self.dim)
        dense = [piece for piece in pieces if isinstance(piece, Tensor)]
        return dense[0] if len(dense) == 1 else torch.cat(dense)


def as_source(rows: Rows | Iterable[Rows] | RowSource) -> RowSource:
    """Makes a source of a dense tensor `[N, d]`, a sparse matrix, or several of one kind, such as mapped segments.

    Raises:
        GTRError: Rows that are not a matrix, or parts of different kinds or widths.
    """
    if isinstance(rows, RowSource):
        return rows
    parts = [rows] if isinstance(rows, Tensor | SparseMatrix) else list(rows)
    for part in parts:
        if isinstance(part, Tensor) and (part.dim() != 2 or not part.is_floating_point()):
            raise GTRError(f"rows must be a matrix [N, d] of floats, got {part.dtype} of shape {list(part.shape)}")
    return PartedRows(parts)
