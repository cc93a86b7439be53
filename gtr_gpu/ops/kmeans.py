"""The two halves of a round of k-means: rows to their nearest centroids, and the sums of each cluster's rows.

Rows are dense `[N, d]` (float16, bfloat16, float32 or float64) or sparse; centroids are dense. Work runs in tiles, so
that memory beyond the result is bounded, and several starts are one batch `[S, K, d]`. Sparse rows are never made
dense: their product with the centroids gathers the centroids' values at each row's columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import _kmeans_dense, _kmeans_sparse, reference
from gtr_gpu.ops.checks import (
    MOST_ITEMS,
    check_count,
    check_kind,
    check_range,
    check_rising,
    check_sparse,
    check_tensor,
    device_of,
)
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch
from gtr_gpu.ops.reference.kmeans import SUM_BLOCK, fold_columns
from gtr_gpu.ops.types import Rows
from gtr_gpu.ragged import SparseMatrix

__all__ = ["SUM_BLOCK", "assign", "distances_to", "fold_columns", "means", "nearest", "sparse_product", "update"]

# Numbers of the means that a team makes at a time.
_MEANS_TOGETHER = 1 << 14
_REALS = (torch.float32, torch.float64)
_FEATURES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


@operation(*_kmeans_dense.ASSIGN_KERNELS, *_kmeans_sparse.ASSIGN_KERNELS)
def assign(rows: Rows, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Finds the nearest centroid of each row; ties go to the smaller cluster.

    Args:
        rows: N rows of d numbers, dense or sparse.
        centroids: `[K, d]`, or `[S, K, d]` for S starts at once; float32 or float64, K at least 1.

    Returns:
        Labels int32 and squared Euclidean distances (in the type of the centroids), `[N]` or `[S, N]`.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    batch = _checked(rows, centroids)
    if not serves("assign", centroids.device):
        labels, distances = reference.kmeans.assign(rows, batch)
    else:
        distances = torch.empty((batch.shape[0], rows.shape[0]), dtype=batch.dtype, device=batch.device)
        labels = _nearest(rows, batch, distances)
    return (labels, distances) if centroids.dim() == 3 else (labels[0], distances[0])


@operation(*_kmeans_dense.ASSIGN_KERNELS, *_kmeans_sparse.ASSIGN_KERNELS)
def nearest(rows: Rows, centroids: Tensor) -> Tensor:
    """The labels that `assign` finds, in less time than with the distances.

    Args:
        rows: As for `assign`.
        centroids: As for `assign`.

    Returns:
        Labels int32, `[N]` or `[S, N]`.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    batch = _checked(rows, centroids)
    if not serves("nearest", centroids.device):
        labels, _ = reference.kmeans.assign(rows, batch)
    else:
        labels = _nearest(rows, batch, None)
    return labels if centroids.dim() == 3 else labels[0]


@operation(*_kmeans_dense.DISTANCE_KERNELS, *_kmeans_sparse.DISTANCE_KERNELS)
def distances_to(rows: Rows, centroids: Tensor, labels: Tensor) -> Tensor:
    """The squared distance of each row to one given centroid, by difference; 0 exactly where they are equal.

    Args:
        rows: N rows of d numbers, dense or sparse.
        centroids: `[K, d]`, float32 or float64.
        labels: The centroid of each row `[N]`, any integer type.

    Returns:
        Squared Euclidean distances `[N]` in the type of the centroids.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = device_of("centroids", centroids, Tensor)
    check_tensor("centroids", centroids, (None, None), _REALS, device)
    _check_rows(rows, centroids.shape[1], device)
    check_tensor("labels", labels, (rows.shape[0],), _INTEGERS, device)
    check_range("labels", labels, centroids.shape[0])
    if not serves("distances_to", device):
        return reference.kmeans.distances_to(rows, centroids, labels)
    if isinstance(rows, SparseMatrix):
        return _kmeans_sparse.distances_to(rows, centroids, labels.to(torch.int32))
    return _kmeans_dense.distances_to(rows, centroids, labels.to(torch.int32))


@operation(*_kmeans_dense.UPDATE_KERNELS, *_kmeans_sparse.UPDATE_KERNELS)
def update(rows: Rows, labels: Tensor, n_clusters: int, room: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Sums the rows of each cluster, in float64 and in an order that depends on the arguments alone.

    Blocks of 65,536 rows are summed each on their own and then added in their order, so that a caller who adds up such
    blocks elsewhere gets the same numbers. There are no atomics.

    Args:
        rows: N rows of d numbers, dense or sparse.
        labels: The cluster of each row, `[N]`, or `[S, N]` for S starts at once; any integer type.
        n_clusters: K.
        room: Sums of an earlier call that nobody needs any more: their memory is taken where it fits, since fresh
            memory costs more than the sums of sparse rows that fill it.

    Returns:
        Sums `[K, d]` and counts `[K]`, both float64; `[S, K, d]` and `[S, K]` for S starts.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    _check_rows(rows, None, device_of("labels", labels, Tensor))
    check_count("n_clusters", n_clusters, 1, MOST_ITEMS)
    if room is not None:
        device_of("room", room, Tensor)
        check_tensor("room", room, (None,) * room.dim(), (torch.float64,), labels.device)
    batch = _starts("labels", labels, (rows.shape[0],), _INTEGERS)
    check_range("labels", labels, n_clusters)
    if not serves("update", labels.device):
        if isinstance(rows, SparseMatrix):
            check_rising("rows.columns", rows.columns)
        sums, counts = reference.kmeans.update(rows, batch, n_clusters)
    elif isinstance(rows, SparseMatrix):
        sums, counts = _kmeans_sparse.update(rows, batch.to(torch.int32), n_clusters, SUM_BLOCK, room)
    else:
        sums, counts = _kmeans_dense.update(rows, batch.to(torch.int32), n_clusters, SUM_BLOCK)
    return (sums, counts) if labels.dim() == 2 else (sums[0], counts[0])


@operation("cluster_means_f32", "cluster_means_f64")
def means(sums: Tensor, counts: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The means of clusters, and how far they are from the centroids before; a cluster without rows stays there.

    Args:
        sums: Of the rows of each cluster `[S, K, d]`, float64, see `update`.
        counts: Rows of each cluster `[S, K]`, float64.
        centroids: The centroids before `[S, K, d]`, float32 or float64.

    Returns:
        The means `[S, K, d]`, in the type of the centroids and laid out as the sums are, and the squared moves added up
        over each start `[S]`, float64.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    device = device_of("sums", sums, Tensor)
    check_tensor("sums", sums, (None, None, None), (torch.float64,), device)
    n_starts, n_clusters, dim = sums.shape
    check_tensor("counts", counts, (n_starts, n_clusters), (torch.float64,), device)
    check_tensor("centroids", centroids, (n_starts, n_clusters, dim), _REALS, device)
    if not serves("means", device):
        return reference.kmeans.means(sums, counts, centroids)
    flat = sums.flatten(0, 1)
    # Those of sparse rows lie column by column.
    by_column = flat.T.is_contiguous() and not flat.is_contiguous()
    sources = [part.T if by_column else part for part in (flat, centroids.flatten(0, 1))]
    found = torch.empty(sources[0].shape, dtype=centroids.dtype, device=device)
    width = n_starts * n_clusters
    together = max(1, _MEANS_TOGETHER // max(width, 1))
    n_parts = -(-dim // together)
    moves = torch.zeros((n_parts, width), dtype=torch.float64, device=device)
    strides = (1, width) if by_column else (dim, 1)
    launch(
        f"cluster_means_{'f64' if centroids.dtype == torch.float64 else 'f32'}",
        n_parts,
        [sources[0], counts, sources[1], width, dim, together, *strides, found, moves],
    )
    found = (found.T if by_column else found).view(n_starts, n_clusters, dim)
    return found, moves.sum(0).view(n_starts, n_clusters).sum(1)


@operation(*_kmeans_sparse.PRODUCT_KERNELS)
def sparse_product(rows: SparseMatrix, dense: Tensor) -> Tensor:
    """Sparse rows by a dense matrix, each row's entries in order.

    Args:
        rows: `[N, V]`.
        dense: `[V, M]`, float32 or float64.

    Returns:
        `rows @ dense`, `[N, M]`, in the type of the dense matrix.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    check_tensor("dense", dense, (None, None), _REALS, device_of("dense", dense, Tensor))
    check_kind("rows", rows, SparseMatrix)
    _check_rows(rows, dense.shape[0], dense.device)
    if not serves("sparse_product", dense.device):
        return reference.kmeans.sparse_product(rows, dense)
    return _kmeans_sparse.sparse_product(rows, dense)


def _nearest(rows: Rows, centroids: Tensor, distances: Tensor | None) -> Tensor:
    """The labels `[S, N]` by kernels; puts the distances into an array for them, if there is one."""
    if isinstance(rows, SparseMatrix):
        return _kmeans_sparse.nearest(rows, centroids, distances)
    return _kmeans_dense.nearest(rows, centroids, distances)


def _checked(rows: Rows, centroids: Tensor) -> Tensor:
    """The centroids with a dimension for starts in front, checked along with the rows."""
    batch = _starts("centroids", centroids, (None, None), _REALS)
    if batch.shape[1] == 0:
        raise GTRError("centroids must hold at least one centroid, got none")
    _check_rows(rows, batch.shape[2], centroids.device)
    return batch


def _starts(name: str, tensor: Tensor, shape: tuple[int | None, ...], dtypes: tuple[torch.dtype, ...]) -> Tensor:
    """The tensor with a dimension for starts in front, checked."""
    device = device_of(name, tensor, Tensor)
    batch = tensor[None] if tensor.dim() == len(shape) else tensor
    check_tensor(name, batch, (None, *shape), dtypes, device)
    if batch.shape[0] == 0:
        raise GTRError(f"{name} must hold at least one start, got none")
    return batch


def _check_rows(rows: Rows, width: int | None, device: torch.device) -> None:
    check_kind("rows", rows, Tensor, SparseMatrix)
    if isinstance(rows, SparseMatrix):
        check_sparse("rows", rows, device, _FEATURES)
        if width is not None and rows.n_columns != width:
            raise GTRError(f"rows must have {width} columns like the centroids, got {rows.n_columns}")
    else:
        check_tensor("rows", rows, (None, width), _FEATURES, device)
