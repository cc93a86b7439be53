"""Representative scores S_rep of questions against clusters, and the tables of the best clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from gtr_gpu.ops.reference.kmeans import sparse_product
from gtr_gpu.ops.reference.segments import segment_max, segment_mean
from gtr_gpu.ops.reference.union import union
from gtr_gpu.ops.types import Rows
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix, offsets_from_lengths

_TILE_NUMBERS = 1 << 23


def cluster_scores(queries: Rows, rows: Rows, typical: Ragged, how: Literal["mean", "best"] = "mean") -> Tensor:
    """See `gtr_gpu.ops.representative.cluster_scores`."""
    n_queries = queries.shape[0]
    scores = torch.full((n_queries, len(typical)), float("-inf"), device=queries.device)
    for first, last in _cluster_tiles(typical, rows):
        nodes = typical.slice(first, last)
        chosen = unit(rows.select(nodes.values) if isinstance(rows, SparseMatrix) else rows[nodes.values.long()])
        step = max(1, _TILE_NUMBERS // max(chosen.shape[0], 1))
        for start in range(0, n_queries, step):
            stop = min(start + step, n_queries)
            part = queries.slice(start, stop) if isinstance(queries, SparseMatrix) else queries[start:stop]
            cosines = products(chosen, unit(part))
            found = segment_mean(cosines, nodes.offsets) if how == "mean" else segment_max(cosines, nodes.offsets)
            scores[start:stop, first:last] = torch.where(nodes.lengths[:, None] > 0, found, float("-inf")).T
    return scores


def centroid_scores(queries: Rows, centroids: Tensor) -> Tensor:
    """See `gtr_gpu.ops.representative.centroid_scores`."""
    centroids = centroids.float()
    lengths = torch.linalg.vector_norm(centroids, dim=1)
    asking = unit(queries)
    if isinstance(asking, SparseMatrix):
        columns, places = torch.unique(asking.columns.values, return_inverse=True)
        narrow = SparseMatrix(Ragged(places.to(INDEX_DTYPE), asking.columns.offsets), asking.weights, columns.numel())
        cosines = sparse_product(narrow, centroids[:, columns.long()].T.contiguous())
    else:
        cosines = asking @ centroids.T
    cosines /= lengths.clamp_min(torch.finfo(torch.float32).tiny)
    return cosines


def probe(scores: Tensor, ranges: Sequence[range], n_probe: int) -> Ragged:
    """See `gtr_gpu.ops.representative.probe`."""
    chosen = [torch.empty((scores.shape[0], 0), dtype=INDEX_DTYPE, device=scores.device)]
    for clusters in ranges:
        own = scores[:, clusters.start : clusters.stop]
        values, order = torch.sort(own, dim=1, descending=True, stable=True)
        best = (order[:, :n_probe] + clusters.start).to(INDEX_DTYPE)
        chosen.append(torch.where(values[:, :n_probe].isneginf(), -1, best))
    clusters_of = torch.cat(chosen, 1)
    kept = clusters_of >= 0
    return Ragged.from_lengths(clusters_of[kept], kept.sum(1))


def members_of(probed: Ragged, members: Ragged) -> Ragged:
    """See `gtr_gpu.ops.representative.members_of`."""
    chosen = members.select(probed.values)
    return union([Ragged(chosen.values, chosen.offsets[probed.offsets])])


def _cluster_tiles(typical: Ragged, rows: Rows) -> Iterator[tuple[int, int]]:
    """Cuts the clusters into runs whose typical rows fit into a tile; a single cluster is never cut."""
    width = max(rows.shape[1], 1)
    if isinstance(rows, SparseMatrix):
        width = 1 + rows.weights.numel() // max(rows.shape[0], 1)
    limit = max(1, _TILE_NUMBERS // width)
    offsets = typical.offsets.tolist()
    first = 0
    for cluster in range(1, len(typical) + 1):
        if cluster == len(typical) or offsets[cluster + 1] - offsets[first] > limit:
            yield first, cluster
            first = cluster


def unit(rows: Rows) -> Rows:
    """Rows of length 1 in float32; rows of zeros stay zero."""
    if isinstance(rows, SparseMatrix):
        return rows.with_weights(rows.weights.float()).normalized()
    return torch.nn.functional.normalize(rows.float(), dim=1, eps=torch.finfo(torch.float32).tiny)


def products(rows: Rows, queries: Rows) -> Tensor:
    """The products of rows with queries, `[R, B]`; of sparse rows only the columns that a query has are read."""
    if isinstance(rows, SparseMatrix):
        assert isinstance(queries, SparseMatrix)
        columns, places = torch.unique(queries.columns.values, return_inverse=True)
        dense = torch.zeros((columns.numel(), queries.shape[0]), device=rows.device)
        dense[places, queries.row_ids()] = queries.weights
        place_of = torch.full((rows.n_columns,), -1, dtype=INDEX_DTYPE, device=rows.device)
        place_of[columns.long()] = torch.arange(columns.numel(), dtype=INDEX_DTYPE, device=rows.device)
        found = place_of[rows.columns.values.long()]
        offsets = offsets_from_lengths(found >= 0)[rows.columns.offsets]
        kept = found >= 0
        narrow = SparseMatrix(Ragged(found[kept], offsets), rows.weights[kept], columns.numel())
        return sparse_product(narrow, dense)
    assert isinstance(queries, Tensor)
    return rows @ queries.T
