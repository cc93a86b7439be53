"""How sure a mean over questions is: confidence intervals, and a paired test of two methods.

Questions on one table are found or missed together, so both draw source tables with all their questions, not single
questions: with ten questions a table, intervals that ignore it are up to three times too narrow. What is drawn depends
on the groups and the seed alone, so it is drawn once for all metrics and methods.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
N_RESAMPLES = 2000
N_FLIPS = 10_000
# Groups whose signs are flipped in all ways, 4,096 of them, rather than by chance.
_ALL_WAYS = 12
# Draws that are multiplied at once, as numbers in float32.
_DRAWN_TOGETHER = 1 << 22

Floats = npt.NDArray[np.float64]


class Comparison(NamedTuple):
    """Two methods on the same questions.

    Attributes:
        difference: Mean of the first less mean of the second.
        low: The lower end of its confidence interval.
        high: The upper end.
        p_value: How often a difference at least so large (of either sign) comes when signs are flipped by chance.
    """

    difference: float
    low: float
    high: float
    p_value: float


def confidence_intervals(values: Floats, groups: npt.NDArray[np.int64], seed: int = 0) -> Floats:
    """The 95 % intervals of means over questions, by the percentile bootstrap over groups.

    Args:
        values: M numbers for each question, `[Q, M]`.
        groups: The group (source table) of each question, `[Q]`, from 0 on; drawn as a whole.
        seed: Of the draws.

    Returns:
        The lower and the upper ends, `[2, M]`; NaN where there is no question.
    """
    if not len(values):
        return np.full((2, values.shape[1]), np.nan)
    sums = _by_group(np.column_stack([values, np.ones(len(values))]), groups)
    drawn = _products(_multiplicities(len(sums), seed), sums)
    ends = 100 * np.array([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return np.asarray(np.percentile(drawn[:, :-1] / drawn[:, -1:], ends, axis=0))


def compare(first: Floats, second: Floats, groups: npt.NDArray[np.int64], seed: int = 0) -> list[Comparison]:
    """Compares two methods on the same questions by a paired randomisation test over groups.

    Args:
        first: The first method's M numbers for each of Q ≥ 1 questions, `[Q, M]`.
        second: The second one's, `[Q, M]`.
        groups: The group (source table) of each question, `[Q]`, from 0 on; flipped as a whole.
        seed: Of the draws.

    Returns:
        M comparisons.
    """
    differences = first - second
    lows, highs = confidence_intervals(differences, groups, seed)
    sums = _by_group(differences, groups)
    totals, flipped = np.abs(sums.sum(0)), np.abs(_products(_signs(len(sums), seed), sums))
    as_extreme = (flipped >= totals * (1 - 1e-9) - 1e-9).sum(0)
    # The signs as they are count as one way, which is among them only where they are all tried.
    seen = int(len(sums) > _ALL_WAYS)
    p_values = (as_extreme + seen) / (len(flipped) + seen)
    columns = zip(differences.mean(0), lows, highs, p_values, strict=True)
    return [Comparison(*(float(number) for number in column)) for column in columns]


def _by_group(values: Floats, groups: npt.NDArray[np.int64]) -> Floats:
    """The sums `[G, M]` over each group that has any question."""
    _, numbers = np.unique(groups, return_inverse=True)
    return np.column_stack([np.bincount(numbers, weights=column) for column in values.T])


@lru_cache(maxsize=4)
def _multiplicities(n_groups: int, seed: int) -> npt.NDArray[np.uint8]:
    """How often each group is drawn in each resample, `[R, G]`."""
    rng = np.random.default_rng(seed)
    draws = np.empty((N_RESAMPLES, n_groups), dtype=np.uint8)
    for row in draws:
        row[:] = np.bincount(rng.integers(n_groups, size=n_groups), minlength=n_groups)
    return draws


@lru_cache(maxsize=4)
def _signs(n_groups: int, seed: int) -> npt.NDArray[np.int8]:
    """Signs of each group in each flip, `[F, G]`; all ways where there are few."""
    if n_groups <= _ALL_WAYS:
        ways = np.arange(1 << n_groups)[:, None] >> np.arange(n_groups)
        return (1 - 2 * (ways & 1)).astype(np.int8)
    rng = np.random.default_rng(seed)
    return (1 - 2 * rng.integers(2, size=(N_FLIPS, n_groups), dtype=np.int8)).astype(np.int8)


def _products(draws: npt.NDArray[np.uint8] | npt.NDArray[np.int8], sums: Floats) -> Floats:
    """Draws `[R, G]` times sums `[G, M]`, in float64, some draws at a time."""
    step = max(1, _DRAWN_TOGETHER // max(draws.shape[1], 1))
    parts = [draws[start : start + step].astype(np.float64) @ sums for start in range(0, len(draws), step)]
    return np.concatenate(parts)
