"""K-means over any source of rows: dense, sparse, or streamed from memory-mapped segments.

One round assigns the rows to their nearest centroids (`ops.kmeans.assign`), then moves the centroids to the means of
their rows (`ops.kmeans.update`). Several starts run as one batch as far as memory permits, and the best one is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops.kmeans import fold_columns, means
from gtr_gpu.ops.types import Rows
from gtr_gpu.ragged import SparseMatrix
from gtr_gpu.row_source import PartedRows, RowSource, as_source
from gtr_gpu.seeding import dense_rows, parallel, plus_plus

Init = Literal["k-means++", "k-means||"]


@dataclass(frozen=True)
class KMeansResult:
    """What k-means found.

    Attributes:
        centroids: `[K', d]`, float32 (float64 for rows of float64); each the nearest one of at least one row.
        labels: The cluster of each row, `[N]`, int32.
        inertia: The sum of squared distances of all rows to their centroids.
        iterations: Rounds of the best start.
        converged: Whether the best start stopped by itself before the limit of rounds.
        note: One sentence where K' < K, as the rows have too few distinct values; else None.
    """

    centroids: Tensor
    labels: Tensor
    inertia: float
    iterations: int
    converged: bool
    note: str | None


def kmeans(
    rows: Rows | Iterable[Rows] | RowSource,
    n_clusters: int,
    *,
    n_starts: int = 3,
    max_iterations: int = 25,
    tolerance: float = 1e-4,
    seed: int = 0,
    init: Init | Tensor = "k-means||",
    sample_per_cluster: int = 256,
    memory_megabytes: int = 512,
) -> KMeansResult:
    """Clusters rows by Lloyd's algorithm.

    Empty clusters are taken over by the row farthest from its centroid. The result is the same for the same seed,
    however the rows are divided into parts.

    Args:
        rows: A dense matrix `[N, d]`, a sparse one, several of one kind (the segments of an index), or a source.
        n_clusters: K, at least 1.
        n_starts: Starts, of which the one with the smallest inertia is kept.
        max_iterations: Rounds at most.
        tolerance: A start stops when the squared moves of its centroids add up to at most this times the mean
            variance of the columns, as in scikit-learn.
        seed: Where the random numbers come from.
        init: How the first centroids are chosen, or the centroids themselves, `[K, d]` or `[S, K, d]` for S starts.
        sample_per_cluster: The centroids are trained on a random sample of at most this many rows for each cluster; all
            rows are then assigned once. 0 trains on all rows.
        memory_megabytes: Memory for the centroids of the starts that run at once.

    Raises:
        GTRError: No rows, numbers that are not finite, arguments out of range, or `init` of another shape.
    """
    source = as_source(rows)
    starts = _given_centroids(init, n_clusters, source) if isinstance(init, Tensor) else None
    _check(source, n_clusters, n_starts, max_iterations, tolerance, init)
    column_sums, squares = source.moments()
    if not np.isfinite(squares):
        raise GTRError("rows must hold finite numbers, got NaN or infinity; leave such rows out or fill them")
    variance = max(squares / source.count - float((column_sums / source.count).square().sum()), 0.0) / source.dim
    first = torch.Generator().manual_seed(seed)
    seeds = torch.randint(2**62, (n_starts + 1,), generator=first).tolist()
    limit = sample_per_cluster * n_clusters
    training = sample = source if not limit or source.count <= limit else _sample(source, limit, seeds[0])
    if sample is not source and starts is None:
        training = _folded(sample)
    if starts is None:
        starts = _first_centroids(training, min(n_clusters, training.count), init, seeds[1:])

    # A start holds its centroids in the rows' type, twice, and their sums in float64.
    megabytes = starts.shape[1] * source.dim * (16 if source.dtype == torch.float32 else 24) / 2**20
    at_once = max(1, int(memory_megabytes / max(megabytes, 1e-9)))
    threshold = tolerance * variance
    runs: list[_Run] = []
    for place in range(0, starts.shape[0], at_once):
        runs += _lloyd(training, starts[place : place + at_once], max_iterations, threshold)
    best = min(runs, key=lambda run: run.inertia)
    centroids, labels, inertia = best.centroids, best.labels, best.inertia
    if sample is not source:
        sums, counts = sample.update(labels[None], centroids.shape[0])
        filled = counts[0] > 0
        centroids = sums[0].div_(counts[0].clamp_min(1)[:, None]).to(source.dtype)[filled]
        del sums
        labels = source.nearest_to(centroids[None])[0]
    before = centroids.shape[0]
    centroids, labels = _without_empty(centroids, labels)
    found = centroids.shape[0]
    if sample is not source or found < before:
        inertia = source.inertia(centroids, labels)
    note = None
    if found < n_clusters:
        note = (
            f"k-means found {found} clusters where {n_clusters} were asked for: the rows have too few distinct values"
        )
    return KMeansResult(centroids, labels, inertia, best.iterations, best.converged, note)


@dataclass(frozen=True)
class _Run:
    centroids: Tensor
    labels: Tensor
    inertia: float
    iterations: int
    converged: bool


def _lloyd(source: RowSource, centroids: Tensor, max_iterations: int, threshold: float) -> list[_Run]:
    """Runs S starts from centroids `[S, K, d]`; a start that has converged leaves the batch."""
    done: dict[int, _Run] = {}
    active = list(range(centroids.shape[0]))
    previous: Tensor | None = None
    sums: Tensor | None = None
    for iteration in range(1, max_iterations + 1):
        labels = source.nearest_to(centroids)
        sums, counts = source.update(labels, centroids.shape[1], sums)
        repaired = _repaired(source, sums, counts, labels, centroids)
        moved, moves = means(sums, counts, centroids)
        settled = torch.zeros_like(repaired) if previous is None else (labels == previous).all(1) & ~repaired
        stopped = settled | (moves <= threshold) & ~repaired
        last = iteration == max_iterations
        for place, start in enumerate(active):
            if bool(stopped[place]) or last:
                ends = labels[place] if bool(settled[place]) else source.nearest_to(moved[place][None])[0]
                inertia = source.inertia(moved[place], ends)
                done[start] = _Run(moved[place].clone(), ends, inertia, iteration, bool(stopped[place]))
        keep = (~stopped).nonzero()[:, 0]
        if last or not keep.numel():
            break
        whole = keep.numel() == len(active)
        active = [active[place] for place in keep.tolist()]
        centroids, previous = (moved, labels) if whole else (_pick(moved, keep), labels[keep])
    return [done[start] for start in sorted(done)]


def _repaired(source: RowSource, sums: Tensor, counts: Tensor, labels: Tensor, centroids: Tensor) -> Tensor:
    """Gives empty clusters rows, in `sums` and `counts`; which starts had one `[S]`."""
    repaired = torch.zeros(len(centroids), dtype=torch.bool, device=labels.device)
    for start in (counts == 0).any(1).nonzero()[:, 0].tolist():
        distances = source.assign_to(centroids[start : start + 1])[1][0]
        repaired[start] = _repair(source, sums[start], counts[start], labels[start], distances)
    return repaired


def _repair(source: RowSource, sums: Tensor, counts: Tensor, labels: Tensor, distances: Tensor) -> bool:
    """Gives each empty cluster the row farthest from its centroid, as scikit-learn does; ties go to the smaller row.

    A row equal to one that was taken is passed over, and so is one that is alone in its cluster. Changes `sums` and
    `counts`.
    """
    changed = False
    for cluster in (counts == 0).nonzero()[:, 0].tolist():
        free = torch.where(counts[labels.long()] > 1, distances, 0)
        row = free.argmax()
        if not bool(free[row] > 0):
            break
        taken = source.take(row[None])
        values = dense_rows(taken, torch.float64)[0]
        owner = int(labels[row])
        sums[cluster] = values
        sums[owner] -= values
        counts[cluster] += 1
        counts[owner] -= 1
        changed = True
        same = source.assign_to(dense_rows(taken, source.dtype)[None])[1][0] == 0
        distances[same] = 0
    return changed


def _pick(centroids: Tensor, starts: Tensor) -> Tensor:
    """Some starts of a batch, in the same layout (that of sparse rows is column by column)."""
    if centroids.is_contiguous():
        return centroids[starts]
    return centroids.permute(2, 0, 1)[:, starts].permute(1, 2, 0)


def _without_empty(centroids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Leaves out clusters without rows, and equal ones but the first; the labels are numbered anew."""
    # Equal ones have equal maxima, which are cheaper to compare.
    maxima = centroids.amax(1)
    group = torch.arange(maxima.numel(), device=maxima.device)
    if bool((maxima.sort().values.diff() == 0).any()):
        _, group = torch.unique(centroids, dim=0, return_inverse=True)
    ids = torch.arange(group.numel(), device=group.device)
    first = torch.full_like(group, group.numel()).scatter_reduce_(0, group, ids, "amin")[group]
    merged = first[labels.long()]
    kept, numbered = torch.unique(merged, return_inverse=True)
    return centroids[kept].contiguous(), numbered.to(torch.int32)


def _sample(source: RowSource, size: int, seed: int) -> RowSource:
    """A random sample of rows without replacement, in their order."""
    # NumPy's choice needs memory for the sample alone where torch.randperm needs it for all rows.
    chosen = np.random.default_rng(seed).choice(source.count, size, replace=False, shuffle=False)
    return PartedRows([source.take(torch.from_numpy(np.sort(chosen)).to(source.device))])


def _folded(source: RowSource) -> RowSource:
    """Sparse rows in fewer columns, in which they have the same clusters; dense rows as they are."""
    rows = source.take(torch.arange(source.count, device=source.device))
    return PartedRows([fold_columns(rows)]) if isinstance(rows, SparseMatrix) else source


def _first_centroids(source: RowSource, n_clusters: int, init: Init | Tensor, seeds: list[int]) -> Tensor:
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    picks = (plus_plus if init == "k-means++" else parallel)(source, n_clusters, generators)
    dense = dense_rows(source.take(picks.flatten()), source.dtype)
    return dense.view(*picks.shape, source.dim)


def _given_centroids(init: Tensor, n_clusters: int, source: RowSource) -> Tensor:
    starts = init if init.dim() == 3 else init[None]
    if starts.dim() != 3 or starts.shape[1:] != (n_clusters, source.dim):
        expected = f"[{n_clusters}, {source.dim}] or [S, {n_clusters}, {source.dim}]"
        raise GTRError(f"init must have the shape {expected}, got {list(init.shape)}")
    if not bool(torch.isfinite(starts).all()):
        raise GTRError("init must hold finite numbers, got NaN or infinity")
    return starts.to(source.device, source.dtype)


def _check(
    source: RowSource, n_clusters: int, n_starts: int, max_iterations: int, tolerance: float, init: Init | Tensor
) -> None:
    for name, value in (("n_clusters", n_clusters), ("n_starts", n_starts), ("max_iterations", max_iterations)):
        if value < 1:
            raise GTRError(f"{name} must be at least 1, got {value}")
    if not tolerance >= 0:
        raise GTRError(f"tolerance must be at least 0, got {tolerance}")
    if not source.count or not source.dim:
        raise GTRError(
            f"rows must be at least one row of one column, got {source.count} x {source.dim}; add tables first"
        )
    if not isinstance(init, Tensor) and init not in ("k-means++", "k-means||"):
        raise GTRError(f"init must be k-means++, k-means|| or a tensor of centroids, got {init!r}")
