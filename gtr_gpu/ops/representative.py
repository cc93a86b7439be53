"""Representative scores S_rep of questions against clusters, and the tables of the best clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import (
    check_count,
    check_kind,
    check_ragged,
    check_range,
    check_sparse,
    check_tensor,
    device_of,
)
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch
from gtr_gpu.ops.segments import segment_top_k
from gtr_gpu.ops.types import Rows
from gtr_gpu.ops.union import MAPPED_IDS, unite
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix

# Numbers that a tile of gathered rows, or of their products with queries, may hold: it stays in a CPU's last cache.
TILE_NUMBERS = 1 << 20
TILE_NUMBERS_CUDA = 1 << 24
# Clusters that a team of the kernel takes at a time.
_TOGETHER = 32
_SUFFIXES = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16"}
_UNIT_KERNELS = tuple(f"unit_rows_{suffix}" for suffix in _SUFFIXES.values())


@operation("cluster_scores", *_UNIT_KERNELS)
def cluster_scores(queries: Rows, rows: Rows, typical: Ragged, how: Literal["mean", "best"] = "mean") -> Tensor:
    """Scores each query against each cluster by its cosines with the cluster's typical nodes.

    Works by tiles: beside the scores, memory doesn't grow with the product of queries and typical nodes. Products of
    sparse rows are torch's own.

    Args:
        queries: Features of B queries, dense `[B, d]`, or sparse like `rows`.
        rows: Features of N tables, dense `[N, d]` or sparse `[N, d]`; only typical rows are read.
        typical: The typical nodes of E clusters, int32.
        how: Whether a cluster's score is the mean of the cosines or the best of them.

    Returns:
        Scores `[B, E]`, float32; -inf for clusters without typical nodes. A row of zeros has the cosine 0.

    Raises:
        GTRError: `how` is neither, only one of `queries` and `rows` is sparse, or arguments have wrong types, shapes
            or ranges.
    """
    if how not in ("mean", "best"):
        raise GTRError(f"how must be mean or best, got {how!r}")
    device = device_of("queries", queries, Tensor, SparseMatrix)
    check_kind("rows", rows, Tensor, SparseMatrix)
    if isinstance(queries, SparseMatrix) != isinstance(rows, SparseMatrix):
        raise GTRError("queries and rows must be both dense or both sparse, got one of each")
    _check_rows("queries", queries, None, device)
    _check_rows("rows", rows, queries.shape[1], device)
    check_ragged("typical", typical, device, upper=rows.shape[0])
    if not serves("cluster_scores", device):
        return reference.representative.cluster_scores(queries, rows, typical, how)
    n_queries, n_clusters = queries.shape[0], len(typical)
    scores = torch.empty((n_queries, n_clusters), device=device)
    most = TILE_NUMBERS_CUDA if device.type == "cuda" else TILE_NUMBERS
    width = rows.shape[1]
    if isinstance(rows, SparseMatrix):
        width = rows.weights.numel() // max(rows.shape[0], 1)
    offsets = typical.offsets.contiguous()
    asking = None if isinstance(queries, SparseMatrix) else _unit_rows(queries)
    for first, last, start, stop in _cluster_tiles(offsets, max(1, most // max(width, 1))):
        nodes = typical.values[start:stop]
        chosen = (
            _unit_rows(rows, nodes) if isinstance(rows, Tensor) else reference.representative.unit(rows.select(nodes))
        )
        height = max(1, most // max(stop - start, 1))
        for query in range(0, n_queries, height):
            until = min(query + height, n_queries)
            if asking is not None:
                assert isinstance(chosen, Tensor)
                products = asking[query:until] @ chosen.T
            else:
                assert isinstance(queries, SparseMatrix)
                part = reference.representative.unit(queries.slice(query, until))
                products = reference.representative.products(chosen, part).T.contiguous()
            launch(
                "cluster_scores",
                (until - query) * -(-(last - first) // _TOGETHER),
                [products, stop - start, offsets, first, last, n_clusters, int(how == "best"), scores[query:until]],
            )
    return scores


@operation()
def centroid_scores(queries: Rows, centroids: Tensor) -> Tensor:
    """The cosines of queries with centroids: torch's own work on every device, with no kernel beside its products.

    Args:
        queries: Features of B queries, dense `[B, d]` or sparse.
        centroids: `[K, d]`, any floating type.

    Returns:
        Cosines `[B, K]`, float32; 0 where either is a row of zeros.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    device = device_of("queries", queries, Tensor, SparseMatrix)
    _check_rows("queries", queries, None, device)
    check_tensor("centroids", centroids, (None, queries.shape[1]), tuple(_SUFFIXES), device)
    return reference.representative.centroid_scores(queries, centroids)


@operation("segment_top_k")
def probe(scores: Tensor, ranges: Sequence[range], n_probe: int) -> Ragged:
    """Chooses the best clusters of each modality.

    Args:
        scores: S_rep `[B, E]`, float32.
        ranges: The clusters of each modality that is probed.
        n_probe: Clusters of each modality at most.

    Returns:
        For each query, modality after modality, its clusters from the best on, int32; ties go to the smaller cluster,
        and those of score -inf are left out.

    Raises:
        GTRError: `n_probe` is below 1, `scores` has a wrong type or shape, or a range is not one of clusters in turn.
    """
    check_count("n_probe", n_probe, 1)
    check_tensor("scores", scores, (None, None), (torch.float32,), device_of("scores", scores, Tensor))
    check_kind("ranges", ranges, Sequence)
    n_queries, n_clusters = scores.shape
    for number, clusters in enumerate(ranges):
        check_kind(f"ranges[{number}]", clusters, range)
        if clusters.step != 1 or clusters.start < 0 or clusters.stop > n_clusters:
            raise GTRError(f"ranges[{number}] must count clusters from 0 to {n_clusters} one by one, got {clusters}")
    if not serves("probe", scores.device):
        return reference.representative.probe(scores, ranges, n_probe)
    chosen = [torch.empty((n_queries, 0), dtype=INDEX_DTYPE, device=scores.device)]
    for clusters in ranges:
        ids = torch.arange(clusters.start, clusters.start + len(clusters), dtype=INDEX_DTYPE, device=scores.device)
        offsets = torch.arange(n_queries + 1, device=scores.device) * len(clusters)
        own = scores[:, clusters.start : clusters.start + len(clusters)].reshape(-1)
        k = min(n_probe, max(len(clusters), 1))
        best, values, _ = segment_top_k(own, ids.repeat(n_queries), offsets, k)
        chosen.append(best.masked_fill_(values.isneginf(), -1))
    clusters_of = torch.cat(chosen, 1)
    kept = clusters_of >= 0
    return Ragged.from_lengths(clusters_of[kept], kept.sum(1))


@operation("union_count", "union_fill")
def members_of(probed: Ragged, members: Ragged) -> Ragged:
    """The tables of each query's clusters.

    Kernels hold a bit for each table, so that where there are more than 2^24, torch's own sort does the work instead.

    Args:
        probed: Clusters of B queries, int32.
        members: Tables of E clusters, int32.

    Returns:
        The union of the members for each query, rising and distinct, int32.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = device_of("probed", probed, Ragged)
    check_ragged("members", members, device)
    check_ragged("probed", probed, device, upper=len(members))
    span = 1 + check_range("members.values", members.values, 2**31)
    if not serves("members_of", device) or span > MAPPED_IDS:
        return reference.representative.members_of(probed, members)
    clusters = probed.values.long()
    return unite(probed.offsets, members.offsets[clusters], members.offsets[clusters + 1], members.values, span)


def _check_rows(name: str, rows: Rows, width: int | None, device: torch.device) -> None:
    if isinstance(rows, SparseMatrix):
        check_sparse(name, rows, device, tuple(_SUFFIXES))
        if width is not None and rows.n_columns != width:
            raise GTRError(f"{name} must have {width} columns, got {rows.n_columns}")
    else:
        check_tensor(name, rows, (None, width), tuple(_SUFFIXES), device)


def _unit_rows(rows: Tensor, numbers: Tensor | None = None) -> Tensor:
    """Rows, or the numbered ones, of length 1 in float32; rows of zeros stay zero."""
    n = rows.shape[0] if numbers is None else numbers.numel()
    units = torch.empty((n, rows.shape[1]), device=rows.device)
    own = None if numbers is None else numbers.contiguous()
    launch(f"unit_rows_{_SUFFIXES[rows.dtype]}", n, [rows.contiguous(), own, rows.shape[1], units])
    return units


def _cluster_tiles(offsets: Tensor, limit: int) -> Iterator[tuple[int, int, int, int]]:
    """Cuts clusters into runs of at most `limit` typical rows; a single cluster is never cut.

    Yields:
        The run's first cluster, the one after its last, and where its typical rows start and end.
    """
    bounds = offsets.tolist()
    first = 0
    for cluster in range(1, len(bounds)):
        if cluster == len(bounds) - 1 or bounds[cluster + 1] - bounds[first] > limit:
            yield first, cluster, bounds[first], bounds[cluster]
            first = cluster
