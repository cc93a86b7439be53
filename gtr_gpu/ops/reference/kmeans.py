"""The two halves of a round of k-means: rows to their nearest centroids, and the sums of each cluster's rows.

Rows are dense `[N, d]` (float16, float32 or float64) or sparse; centroids are dense. Work runs in tiles, so that memory
beyond the result is bounded, and several starts are one batch `[S, K, d]`. Sparse rows are never made dense: their
product with the centroids gathers the centroids' values at each row's columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from gtr_gpu.ops.reference.segments import segment_sum
from gtr_gpu.ops.types import Rows
from gtr_gpu.ragged import INDEX_DTYPE, SparseMatrix, offsets_from_lengths

SUM_BLOCK = 65_536  # rows whose float64 sums are added up before they join those of other blocks
_MOVED_NUMBERS = 1 << 18
_TILE_ROWS = 8_192
_TILE_SCORES = 1 << 22
# Below this share of |x|² + |c|², the distance |x|² - 2xc + |c|² is mostly rounding; it is then computed by difference.
_CANCELLED = 1e-4


def assign(rows: Rows, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Finds the nearest centroid of each row; ties go to the smaller cluster.

    Args:
        rows: N rows of d numbers, dense or sparse.
        centroids: `[K, d]`, or `[S, K, d]` for S starts at once.

    Returns:
        Labels int32 and squared Euclidean distances (in the type of the centroids), `[N]` or `[S, N]`.
    """
    batch = centroids if centroids.dim() == 3 else centroids[None]
    n_starts, n_clusters, _ = batch.shape
    n_rows = rows.shape[0]
    labels = torch.empty((n_starts, n_rows), dtype=INDEX_DTYPE, device=centroids.device)
    distances = torch.empty((n_starts, n_rows), dtype=centroids.dtype, device=centroids.device)
    scorer = _SparseScorer(batch) if isinstance(rows, SparseMatrix) else _DenseScorer(batch)
    tile_rows = min(_TILE_ROWS, max(64, _TILE_SCORES // (n_starts * n_clusters)))
    for start, stop in _ranges(n_rows, tile_rows):
        tile = rows.slice(start, stop) if isinstance(rows, SparseMatrix) else rows[start:stop]
        scores, squares = scorer.scores(tile)
        nearest = scores.view(-1, n_starts, n_clusters).argmin(-1)
        flat = nearest + torch.arange(n_starts, device=centroids.device) * n_clusters
        found = (scores.gather(1, flat) + squares[:, None]).clamp_min(0)
        doubtful, which = (found <= _CANCELLED * (squares[:, None] + scorer.squares[flat])).nonzero(as_tuple=True)
        if doubtful.numel():
            chosen = tile.select(doubtful) if isinstance(tile, SparseMatrix) else tile[doubtful]
            found[doubtful, which] = _differences(chosen, batch.flatten(0, 1), flat[doubtful, which], scorer.squares)
        labels[:, start:stop] = nearest.T
        distances[:, start:stop] = found.T
    return (labels, distances) if centroids.dim() == 3 else (labels[0], distances[0])


def distances_to(rows: Rows, centroids: Tensor, labels: Tensor) -> Tensor:
    """The squared distance of each row to one given centroid, by difference; 0 exactly where they are equal.

    Args:
        rows: N rows of d numbers, dense or sparse.
        centroids: `[K, d]`.
        labels: The centroid of each row `[N]`, any integer type.

    Returns:
        Squared Euclidean distances `[N]` in the type of the centroids.
    """
    squares = _squares(centroids) if isinstance(rows, SparseMatrix) else centroids
    result = torch.empty(rows.shape[0], dtype=centroids.dtype, device=centroids.device)
    for start, stop in _ranges(rows.shape[0], _TILE_ROWS):
        tile = rows.slice(start, stop) if isinstance(rows, SparseMatrix) else rows[start:stop]
        result[start:stop] = _differences(tile, centroids, labels[start:stop].long(), squares)
    return result


def update(rows: Rows, labels: Tensor, n_clusters: int) -> tuple[Tensor, Tensor]:
    """Sums the rows of each cluster, in float64 and in the order of the rows.

    Blocks of 65,536 rows are summed each on their own and then added in their order, so that a caller who adds up such
    blocks elsewhere gets the same numbers. Dense rows are gathered by sorted label; the entries of sparse rows are
    added in order on a CPU and by sorted places elsewhere, so there are no atomics.

    Args:
        rows: N rows of d numbers, dense or sparse.
        labels: The cluster of each row, `[N]`, or `[S, N]` for S starts at once; any integer type.
        n_clusters: K.

    Returns:
        Sums `[K, d]` and counts `[K]`, both float64; `[S, K, d]` and `[S, K]` for S starts.
    """
    batch = labels if labels.dim() == 2 else labels[None]
    n_starts = batch.shape[0]
    n_rows, n_columns = rows.shape
    bins = batch.long() + torch.arange(n_starts, device=labels.device)[:, None] * n_clusters
    n_bins = n_starts * n_clusters
    counts = torch.bincount(bins.flatten(), minlength=n_bins).double()
    # Sparse sums lie column by column, as `assign` reads the centroids: nothing is transposed between the two.
    shape = (n_columns, n_bins) if isinstance(rows, SparseMatrix) else (n_bins, n_columns)
    sums = torch.zeros(shape, dtype=torch.float64, device=labels.device)
    for start, stop in _ranges(n_rows, SUM_BLOCK):
        block: Tensor = sums if n_rows <= SUM_BLOCK else torch.zeros_like(sums)
        here = bins[:, start:stop]
        if isinstance(rows, SparseMatrix):
            _add_sparse(block, rows.slice(start, stop), here)
        else:
            _add_dense(block, rows[start:stop], here)
        if block is not sums:
            sums += block
    if isinstance(rows, SparseMatrix):
        sums = sums.T
    if labels.dim() == 2:
        return sums.view(n_starts, n_clusters, n_columns), counts.view(n_starts, n_clusters)
    return sums, counts


def _squares(centroids: Tensor) -> Tensor:
    """The squared lengths of the centroids, in float64."""
    # A few at a time: they may lie column by column.
    return torch.cat([part.double().square().sum(1) for part in torch.split(centroids, 16)])


def _differences(tile: Rows, centroids: Tensor, labels: Tensor, squares: Tensor) -> Tensor:
    """As `distances_to`, for one tile; sparse rows need the squared lengths of the centroids, in float32 or float64."""
    if not isinstance(tile, SparseMatrix):
        return (tile.to(centroids.dtype) - centroids[labels]).square().sum(1)
    offsets = tile.columns.offsets
    at = centroids[labels[tile.row_ids()], tile.columns.values.long()].double()
    here = segment_sum((tile.weights.double() - at).square(), offsets)
    # What is left of the centroid outside of the row's columns; less than the rounding of two sums is nothing.
    whole = squares[labels].double()
    outside = whole - segment_sum(at.square(), offsets)
    return (here + torch.where(outside > 16 * torch.finfo(squares.dtype).eps * whole, outside, 0.0)).to(centroids.dtype)


def fold_columns(rows: SparseMatrix) -> SparseMatrix:
    """Rows with the same products among each other, and thus the same clusters, in far fewer columns.

    Columns of no row are left out. Those of one row alone (most words, in a text) become one column for that row, which
    holds the Euclidean length of what it had there.

    Args:
        rows: Sparse rows `[N, V]`.

    Returns:
        Sparse rows `[N, V']`, V' <= min(V, columns of at least two rows + N).
    """
    columns, row_ids = rows.columns.values.long(), rows.row_ids()
    frequency = torch.bincount(columns, minlength=rows.n_columns)
    shared = (frequency > 1)[columns]
    n_shared = int((frequency > 1).sum())
    place_of = (frequency > 1).cumsum(0) - 1
    own = segment_sum(torch.where(shared, 0.0, rows.weights.double()).square(), rows.columns.offsets).sqrt()
    owners = own.nonzero()[:, 0]
    own_places = torch.arange(owners.numel(), device=rows.device) + n_shared
    return SparseMatrix.from_entries(
        torch.cat([row_ids[shared], owners]),
        torch.cat([place_of[columns[shared]], own_places]),
        torch.cat([rows.weights[shared], own[owners].to(rows.weights.dtype)]),
        (rows.shape[0], max(n_shared + owners.numel(), 1)),
    )


class _DenseScorer:
    """`|c|² - 2xc` for tiles of dense rows, from the centroids' mean on, so that far-off data keep their digits."""

    def __init__(self, centroids: Tensor) -> None:
        self._centre = centroids.mean((0, 1))
        self._centroids = centroids.flatten(0, 1) - self._centre
        self.squares = self._centroids.square().sum(1)

    def scores(self, tile: Rows) -> tuple[Tensor, Tensor]:
        assert isinstance(tile, Tensor)
        moved = tile.to(self._centre.dtype) - self._centre
        return torch.addmm(self.squares, moved, self._centroids.T, alpha=-2), moved.square().sum(1)


class _SparseScorer:
    """`|c|² - 2xc` for tiles of sparse rows."""

    def __init__(self, centroids: Tensor) -> None:
        self._columns = centroids.flatten(0, 1).T.contiguous()
        self.squares = self._columns.square().sum(0)

    def scores(self, tile: Rows) -> tuple[Tensor, Tensor]:
        assert isinstance(tile, SparseMatrix)
        products = sparse_product(tile, self._columns)
        squares = tile.weights.to(products.dtype).square()
        return products.mul_(-2).add_(self.squares), segment_sum(squares, tile.columns.offsets)


def means(sums: Tensor, counts: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """See `gtr_gpu.ops.kmeans.means`."""
    found = (sums / counts.clamp_min(1)[..., None]).to(centroids.dtype)
    found = torch.where(counts[..., None] > 0, found, centroids)
    moves = torch.zeros(sums.shape[0], dtype=torch.float64, device=sums.device)
    # In parts that stay in a cache, along the dimension that is farthest apart in memory.
    along = 1 if found.is_contiguous() else 2
    step = max(1, _MOVED_NUMBERS // max(found.numel() // max(found.shape[along], 1), 1))
    for new, old in zip(torch.split(found, step, along), torch.split(centroids, step, along), strict=True):
        moves += (new.double() - old).square_().sum((1, 2))
    return found, moves


def sparse_product(rows: SparseMatrix, dense: Tensor) -> Tensor:
    """`rows @ dense`: sparse rows `[N, V]` by a dense matrix `[V, M]`, each row's entries in order; `[N, M]`."""
    # Two to four times as fast as the product of torch's own CSR tensors on a CPU, and deterministic on a GPU.
    return functional.embedding_bag(
        rows.columns.values.long(),
        dense,
        rows.columns.offsets,
        mode="sum",
        per_sample_weights=rows.weights.to(dense.dtype),
        include_last_offset=True,
    )


def _add_dense(sums: Tensor, rows: Tensor, bins: Tensor) -> None:
    """Adds each row of a block to its bins (`[S, n]`, all different) of `sums` `[bins, d]`."""
    for start, stop in _ranges(rows.shape[0], _TILE_ROWS):
        tile = rows[start:stop].double()
        keys = bins[:, start:stop].flatten()
        order = torch.argsort(keys, stable=True)
        offsets = offsets_from_lengths(torch.bincount(keys, minlength=sums.shape[0]))
        sums += functional.embedding_bag(order % (stop - start), tile, offsets, mode="sum", include_last_offset=True)


def _add_sparse(sums: Tensor, rows: SparseMatrix, bins: Tensor) -> None:
    """Adds the entries of a block's rows to their bins (`[S, n]`) of `sums` `[d, bins]`."""
    row_ids = rows.row_ids()
    entries = rows.weights.double()
    first = rows.columns.values.long() * sums.shape[1]
    for start in bins:
        places = first + start[row_ids]
        if sums.device.type == "cpu":
            sums.view(-1).index_add_(0, places, entries)
            continue
        places, order = torch.sort(places, stable=True)
        places, lengths = torch.unique_consecutive(places, return_counts=True)
        offsets = offsets_from_lengths(lengths)
        sums.view(-1)[places] += segment_sum(entries[order], offsets)


def _ranges(total: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, total, step):
        yield start, min(start + step, total)
