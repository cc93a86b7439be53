"""K-means on sparse rows by kernels; called by `gtr_gpu.ops.kmeans`, which has checked the arguments."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ragged import INDEX_DTYPE, SparseMatrix

ASSIGN_KERNELS = ("sparse_assign_f32", "sparse_assign_f64", "column_squares_f32", "column_squares_f64")
DISTANCE_KERNELS = ("sparse_distances_f32", "sparse_distances_f64", "column_squares_f32", "column_squares_f64")
UPDATE_KERNELS = ("range_places", "sparse_sums_f32", "sparse_sums_f64")
PRODUCT_KERNELS = ("sparse_product_f32", "sparse_product_f64")

# Columns whose squares are added up at once: enough work for a team, few partial sums.
_SQUARES_TOGETHER = 512
# Sums that a team of the CPU holds at once: they stay near its second-level cache.
_SUMS_TOGETHER = 1 << 18
_MAX_RANGES = 64
_PLACES = 1 << 24


def nearest(rows: SparseMatrix, centroids: Tensor, distances: Tensor | None) -> Tensor:
    """As `gtr_gpu.ops.kmeans.assign`, for centroids `[S, K, V]`; puts distances where they are wanted."""
    n_starts, n_clusters, _ = centroids.shape
    n_rows, width = rows.shape[0], n_starts * n_clusters
    kind = _kind(centroids)
    by_column = centroids.flatten(0, 1).T.contiguous()
    labels = torch.empty((n_starts, n_rows), dtype=INDEX_DTYPE, device=centroids.device)
    launch(
        f"sparse_assign_{kind}",
        n_rows,
        [
            *(*_entries(rows, centroids.dtype), by_column, _squares(by_column)),
            *(n_rows, n_starts, n_clusters, labels, distances),
        ],
        scratch_bytes((width, centroids.element_size())),
    )
    return labels


def distances_to(rows: SparseMatrix, centroids: Tensor, labels: Tensor) -> Tensor:
    """As `gtr_gpu.ops.kmeans.distances_to`, for labels of int32."""
    if not (centroids.is_contiguous() or centroids.T.is_contiguous()):
        centroids = centroids.contiguous()
    # The kernel reads the centroids by their strides, whichever way they lie.
    lying = centroids if centroids.is_contiguous() else centroids.T
    distances = torch.empty(rows.shape[0], dtype=centroids.dtype, device=centroids.device)
    squares = _squares(centroids.T) if centroids.T.is_contiguous() else _row_squares(centroids)
    launch(
        f"sparse_distances_{_kind(centroids)}",
        rows.shape[0],
        [*_entries(rows, centroids.dtype), lying, squares, *centroids.stride(), labels.contiguous(), distances],
    )
    return distances


def update(
    rows: SparseMatrix, labels: Tensor, n_clusters: int, block_rows: int, room: Tensor | None
) -> tuple[Tensor, Tensor]:
    """As `gtr_gpu.ops.kmeans.update`, for labels `[S, N]` of int32; the sums lie column by column."""
    n_starts = labels.shape[0]
    n_rows, n_columns = rows.shape
    width = n_starts * n_clusters
    dtype = torch.float64 if rows.weights.dtype == torch.float64 else torch.float32
    sums = None if room is None else room.reshape(-1, room.shape[-1]).T
    if sums is None or sums.shape != (n_columns, width) or not sums.is_contiguous():
        sums = torch.empty((n_columns, width), dtype=torch.float64, device=labels.device)
    # A GPU wants many teams; the table of where ranges begin bounds them.
    n_ranges = max(_MAX_RANGES, _PLACES // max(n_rows, 1)) if labels.device.type == "cuda" else _MAX_RANGES
    together = max(-(-n_columns // n_ranges), _SUMS_TOGETHER // width if labels.device.type == "cpu" else 1)
    n_ranges = -(-n_columns // together)
    entries = _entries(rows, dtype)
    places = torch.empty((n_ranges + 1, n_rows), dtype=INDEX_DTYPE, device=labels.device)
    wrong = torch.empty(n_rows, dtype=torch.bool, device=labels.device)
    launch("range_places", n_rows, [*entries[:2], n_rows, n_ranges, together, places, wrong])
    if bool(wrong.any()):
        raise GTRError("rows.columns must rise within each row and be distinct, some don't")
    launch(
        f"sparse_sums_{'f64' if dtype == torch.float64 else 'f32'}",
        n_ranges,
        [
            *(*entries, places, labels.contiguous(), n_rows, n_starts, n_clusters),
            *(n_columns, together, block_rows, sums),
        ],
        scratch_bytes((together * width if n_rows > block_rows else 0, 8)),
    )
    bins = labels.long() + torch.arange(n_starts, device=labels.device)[:, None] * n_clusters
    counts = torch.bincount(bins.flatten(), minlength=width).double().view(n_starts, n_clusters)
    return sums.T.view(n_starts, n_clusters, n_columns), counts


def sparse_product(rows: SparseMatrix, dense: Tensor) -> Tensor:
    """As `gtr_gpu.ops.kmeans.sparse_product`, for a dense matrix of float32 or float64."""
    n_rows, width = rows.shape[0], dense.shape[1]
    products = torch.empty((n_rows, width), dtype=dense.dtype, device=dense.device)
    launch(
        f"sparse_product_{_kind(dense)}",
        n_rows,
        [*_entries(rows, dense.dtype), dense.contiguous(), width, products],
    )
    return products


def _kind(numbers: Tensor) -> str:
    return "f64" if numbers.dtype == torch.float64 else "f32"


def _entries(rows: SparseMatrix, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    columns = rows.columns
    return columns.offsets.contiguous(), columns.values.contiguous(), rows.weights.to(dtype).contiguous()


def _squares(by_column: Tensor) -> Tensor:
    """The squared lengths in float64 of centroids that lie column by column, `[V, M]`."""
    n_columns, width = by_column.shape
    n_parts = -(-n_columns // _SQUARES_TOGETHER)
    parts = torch.zeros((max(n_parts, 1), width), dtype=torch.float64, device=by_column.device)
    launch(
        f"column_squares_{_kind(by_column)}",
        n_parts,
        [by_column.contiguous(), n_columns, width, _SQUARES_TOGETHER, parts],
    )
    return parts.sum(0)


def _row_squares(centroids: Tensor) -> Tensor:
    """The squared lengths in float64 of centroids that lie row by row; a few at a time, which are copied for it."""
    return torch.cat([part.double().square().sum(1) for part in torch.split(centroids, 16)])
