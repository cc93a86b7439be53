"""K-means on dense rows by kernels; called by `gtr_gpu.ops.kmeans`, which has checked the arguments."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ops.halves import halve, multiplies_bf16
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ragged import INDEX_DTYPE, offsets_from_lengths

_SUFFIXES = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16"}
ASSIGN_KERNELS = ("nearest_f32", "nearest_f64", "halve_rows", "nearest_of_few")
DISTANCE_KERNELS = tuple(f"row_distances_{kind}" for kind in _SUFFIXES.values())
UPDATE_KERNELS = tuple(f"{name}_{kind}" for name in ("row_sums", "add_rows") for kind in _SUFFIXES.values())

# Rows and products of a tile: both stay in the last cache of a CPU.
_TILE_ROWS = 4_096
_TILE_SCORES = 1 << 20
_GPU_TILE_SCORES = 1 << 26
# Rows are moved by the mean of the centroids where that is this many times as long as what the centroids differ by:
# there, products of rows as they are would lose digits.
_FAR = 4.0
# Columns that a team of a GPU sums, for there to be many teams; sums don't depend on it.
_COLUMNS = 128
# With fewer clusters, products are not what most of the time goes into.
_WORTH_HALVING = 32
# Sums of all clusters that stay in a core's second-level cache.
_CACHED_SUMS = 1 << 16


def nearest(rows: Tensor, centroids: Tensor, distances: Tensor | None) -> Tensor:
    """As `gtr_gpu.ops.kmeans.assign`, for centroids `[S, K, d]`; puts distances where they are wanted."""
    n_starts, n_clusters, dim = centroids.shape
    n_rows, width = rows.shape[0], n_starts * n_clusters
    device, dtype = centroids.device, centroids.dtype
    flat = centroids.flatten(0, 1).contiguous()
    mean = flat.mean(0)
    moved = flat - mean
    far = bool(mean.square().sum() > _FAR**2 * moved.square().sum(1).mean())
    against = moved if far else flat
    halves = against.double().square().sum(1).mul_(0.5).to(dtype)
    labels = torch.empty((n_starts, n_rows), dtype=INDEX_DTYPE, device=device)
    most = _GPU_TILE_SCORES if device.type == "cuda" else _TILE_SCORES
    step = max(64, min(n_rows, most // width, n_rows if device.type == "cuda" else _TILE_ROWS))
    halved = dtype == torch.float32 and width >= _WORTH_HALVING and multiplies_bf16(device)
    if halved:
        halves_of = halve(against)
        factor, longest, rounding = halves_of.rows, halves_of.longest, halves_of.rounding
        halved_tile = torch.empty((min(step, n_rows), dim), dtype=torch.bfloat16, device=device)
        slacks = torch.empty(min(step, n_rows), dtype=torch.float32, device=device)
    else:
        factor = against
    buffer = torch.empty((min(step, n_rows), width), dtype=factor.dtype, device=device)
    places = (dim, n_starts, n_clusters, n_rows)
    for start in range(0, n_rows, step):
        tile = rows[start : start + step].to(dtype).contiguous()
        shifted = tile - mean if far else tile
        size = tile.shape[0]
        products = buffer[:size]
        if halved:
            launch("halve_rows", size, [shifted, dim, longest, rounding, halved_tile[:size], slacks])
            torch.mm(halved_tile[:size], factor.T, out=products)
            launch(
                "nearest_of_few",
                size,
                [products, halves, shifted, against, tile, flat, slacks, *places, start, labels, distances],
            )
        else:
            torch.mm(shifted, factor.T, out=products)
            launch(
                f"nearest_{_SUFFIXES[dtype]}",
                size,
                [products, halves, tile, flat, *places, start, labels, distances],
            )
    return labels


def distances_to(rows: Tensor, centroids: Tensor, labels: Tensor) -> Tensor:
    """As `gtr_gpu.ops.kmeans.distances_to`, for labels of int32."""
    half = rows.dtype in (torch.bfloat16, torch.float16) and centroids.dtype == torch.float32
    distances = torch.empty(rows.shape[0], dtype=centroids.dtype, device=centroids.device)
    centroids, labels = centroids.contiguous(), labels.contiguous()
    step = max(1, rows.shape[0] if half or rows.dtype == centroids.dtype else _TILE_ROWS)
    for start in range(0, rows.shape[0], step):
        tile = rows[start : start + step]
        tile = (tile if half else tile.to(centroids.dtype)).contiguous()
        part = slice(start, start + step)
        launch(
            f"row_distances_{_SUFFIXES[tile.dtype]}",
            tile.shape[0],
            [tile, centroids, labels[part], tile.shape[1], distances[part]],
        )
    return distances


def update(rows: Tensor, labels: Tensor, n_clusters: int, block_rows: int) -> tuple[Tensor, Tensor]:
    """As `gtr_gpu.ops.kmeans.update`, for labels `[S, N]` of int32."""
    n_starts, n_rows = labels.shape
    n_bins, dim = n_starts * n_clusters, rows.shape[1]
    rows, labels = rows.contiguous(), labels.contiguous()
    counts = torch.stack([torch.bincount(own, minlength=n_clusters) for own in labels])
    sums = torch.zeros((n_starts, n_clusters, dim), dtype=torch.float64, device=labels.device)
    kind, on_cpu = _SUFFIXES[rows.dtype], labels.device.type == "cpu"
    if on_cpu and sums.numel() <= _CACHED_SUMS:
        for start in range(0, n_rows, block_rows):
            size = min(block_rows, n_rows - start)
            parts = sums.new_empty((-(-size // _TILE_ROWS), *sums.shape))
            places = (size, _TILE_ROWS, n_starts, n_rows, n_clusters, dim)
            launch(f"add_rows_{kind}", parts.shape[0], [rows[start:], labels.view(-1)[start:], *places, parts])
            block = parts[0]
            for part in parts[1:]:
                block += part
            sums += block
        return sums, counts.double()
    members = torch.argsort(labels, dim=1, stable=True).to(INDEX_DTYPE)
    columns = max(dim, 1) if on_cpu else _COLUMNS
    n_parts = -(-dim // columns)
    launch(
        f"row_sums_{kind}",
        n_bins * n_parts,
        [rows, offsets_from_lengths(counts.view(-1)), members, dim, columns, n_parts, block_rows, sums],
        scratch_bytes((columns, 8)),
    )
    return sums, counts.double()
