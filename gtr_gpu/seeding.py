"""First centroids of k-means: k-means++ and k-means||.

Random numbers are drawn on the CPU, from one generator for each start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gtr_gpu.ops.types import Rows
from gtr_gpu.ragged import SparseMatrix
from gtr_gpu.row_source import PartedRows, RowSource

_ROUNDS = 5
_OVERSAMPLING = 1.0
_DENSE_NUMBERS = 1 << 24  # of sparse rows made dense at a time as candidates


def plus_plus(
    source: RowSource, n_clusters: int, generators: Sequence[torch.Generator], weights: Tensor | None = None
) -> Tensor:
    """Greedy k-means++ as in scikit-learn, all starts as one batch.

    A row is drawn with a probability in proportion to its squared distance to the nearest row drawn before; of
    2 + log(K) such rows the one that leaves the smallest sum of distances is kept.

    Args:
        source: The rows.
        n_clusters: K.
        generators: One for each of S starts.
        weights: How much each row counts, `[N]`; 1 by default.

    Returns:
        Row numbers `[S, K']`, int64. K' < K where the rows have only K' distinct values (of weight above 0). A start
        that is done sooner than another repeats its last row.
    """
    n_starts, n_trials = len(generators), 2 + int(math.log(n_clusters))
    device = source.device
    weight = torch.ones(1, dtype=torch.float64, device=device) if weights is None else weights.double()
    masses = weight.expand(n_starts, source.count)
    picks = _draw(masses, generators, 1)[:, 0]
    chosen = [picks]
    closest = _distances(source, picks).double()
    while len(chosen) < n_clusters:
        masses = closest * weight
        if not bool((masses > 0).any()):
            break
        trials = _draw(masses, generators, n_trials)
        distances = _distances(source, trials.flatten()).view(n_starts, n_trials, -1)
        nearer = torch.minimum(distances.double(), closest[:, None])
        best = (nearer * weight).sum(-1).argmin(-1)
        each = torch.arange(n_starts, device=device)
        # A start without any distance left drew nothing new.
        spent = masses.sum(1) <= 0
        picks = torch.where(spent, picks, trials[each, best])
        closest = torch.where(spent[:, None], closest, nearer[each, best])
        chosen.append(picks)
    return torch.stack(chosen, 1)


def parallel(source: RowSource, n_clusters: int, generators: Sequence[torch.Generator]) -> Tensor:
    """K-means|| (Bahmani et al. 2012): a few passes over the rows instead of one for each cluster.

    Each of 5 rounds draws every row independently, about K of them in proportion to their squared distance to those
    drawn so far. A weighted k-means++ then picks K of all that were drawn, each weighing the rows that are nearest to
    it. The rows are drawn once, with the first generator; the starts differ in what they pick.

    Args:
        source: The rows.
        n_clusters: K.
        generators: One for each of S starts.

    Returns:
        Row numbers `[S, K']`, int64; K' < K where the rows have only K' distinct values.
    """
    device, generator = source.device, generators[0]
    first = torch.randint(source.count, (1,), generator=generator).to(device)
    drawn = [first]
    closest, nearest = _nearest(source, first, 0)
    for _ in range(_ROUNDS):
        potential = closest.sum(dtype=torch.float64)
        if not bool(potential > 0):
            break
        chances = _OVERSAMPLING * n_clusters * closest.double() / potential
        dice = torch.rand(source.count, generator=generator, dtype=torch.float64).to(device)
        _join(source, drawn, (dice < chances).nonzero()[:, 0], closest, nearest)
    missing = n_clusters - sum(part.numel() for part in drawn)
    if missing > 0:
        # Few rows and an unlucky draw: the rest are drawn without replacement, each by its distance.
        dice = torch.rand(source.count, generator=generator, dtype=torch.float64).to(device)
        keys = torch.where(closest > 0, -torch.log1p(-dice) / closest.double(), torch.inf)
        order = torch.argsort(keys, stable=True)[:missing]
        _join(source, drawn, order[keys[order] < torch.inf], closest, nearest)
    candidates = torch.cat(drawn)
    weights = torch.bincount(nearest, minlength=candidates.numel())
    return candidates[plus_plus(PartedRows([source.take(candidates)]), n_clusters, generators, weights)]


def dense_rows(rows: Rows, dtype: torch.dtype) -> Tensor:
    """Rows as a dense matrix `[R, d]`, for the few that are centroids; those of sparse rows lie column by column."""
    if isinstance(rows, SparseMatrix):
        columns = torch.zeros((rows.n_columns, len(rows.columns)), dtype=dtype, device=rows.device)
        columns[rows.columns.values.long(), rows.row_ids()] = rows.weights.to(dtype)
        return columns.T
    return rows.to(dtype)


def _draw(masses: Tensor, generators: Sequence[torch.Generator], n_draws: int) -> Tensor:
    """Draws row numbers `[S, n_draws]` in proportion to masses `[S, N]`, with replacement."""
    dice = torch.stack([torch.rand(n_draws, generator=one, dtype=torch.float64) for one in generators])
    totals = masses.cumsum(1)
    # `right` passes over rows of mass 0; the last row with any mass bounds the rounding of the product.
    found = torch.searchsorted(totals, dice.to(masses.device) * totals[:, -1:], right=True)
    last = torch.searchsorted(totals, totals[:, -1:].contiguous())
    return torch.minimum(found, last)


def _distances(source: RowSource, rows: Tensor) -> Tensor:
    """The squared distances of all rows to each of the given ones, `[R, N]`."""
    return source.assign_to(dense_rows(source.take(rows), source.dtype)[:, None])[1]


def _nearest(source: RowSource, rows: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """The squared distance of each row to the nearest of the given ones, and which one that is, from `first` on."""
    labels, distances = source.assign_to(dense_rows(source.take(rows), source.dtype)[None])
    return distances[0], labels[0].long() + first


def _join(source: RowSource, drawn: list[Tensor], rows: Tensor, closest: Tensor, nearest: Tensor) -> None:
    """Adds newly drawn rows, and updates in place which drawn row is the nearest of each row."""
    step = max(1, _DENSE_NUMBERS // max(source.dim, 1)) if source.sparse else max(rows.numel(), 1)
    for start in range(0, rows.numel(), step):
        part = rows[start : start + step]
        distances, labels = _nearest(source, part, sum(one.numel() for one in drawn))
        nearer = distances < closest
        closest[nearer] = distances[nearer]
        nearest[nearer] = labels[nearer]
        drawn.append(part)
