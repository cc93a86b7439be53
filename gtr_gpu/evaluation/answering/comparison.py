"""Runs of one group side by side: their figures, and each ablation beside the full prompt at the same k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gtr_gpu.evaluation.answering.plan import VARIANTS
from gtr_gpu.evaluation.answering.runs import Outcome, Run
from gtr_gpu.evaluation.bootstrap import Comparison, compare, confidence_intervals
from gtr_gpu.evaluation.comparison import Figure
from gtr_gpu.evaluation.results import Record

GROUP = ("task", "protocol", "questions", "split", "model", "settings")
_SHARED = ("asked", "corpus", "code")


@dataclass(frozen=True)
class Row:
    """One run of a group.

    Attributes:
        record: Its settings and figures.
        figures: Each metric's mean with its 95 % interval, the headline first.
        versus_full: Each metric compared with the full prompt's at the same k, question by question; empty for that
            one, and where it isn't there.
    """

    record: Record
    figures: dict[str, Figure]
    versus_full: dict[str, Comparison]

    @property
    def variant(self) -> str:
        """The variant's name."""
        return str(self.record["variant"])

    @property
    def k(self) -> int:
        """How many tables were found for each question."""
        return int(self.record["k"])


@dataclass(frozen=True)
class Group:
    """All runs on the same questions of a task with one model and one setting of prompts.

    Attributes:
        rows: The runs, by k and then by variant.
        superseded: Runs that were left out since the newest one of the group is on other tables or questions, or of
            other code.
    """

    rows: list[Row]
    superseded: int

    @property
    def record(self) -> Record:
        """A record that tells what all of the runs share."""
        return self.rows[0].record


def groups_of(runs: Sequence[Run], seed: int = 0) -> list[Group]:
    """All groups, sorted by what they are of.

    Args:
        runs: The runs, the newest last.
        seed: Of the intervals and tests.
    """
    by_name: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        by_name.setdefault(tuple(str(run.record[part]) for part in GROUP), []).append(run)
    return [_group(found, seed) for _, found in sorted(by_name.items())]


def _group(runs: list[Run], seed: int) -> Group:
    same = [run for run in runs if all(run.record[part] == runs[-1].record[part] for part in _SHARED)]
    newest = {(int(run.record["k"]), run.record["variant"]): run for run in same}
    keys = sorted(newest, key=lambda key: (key[0], [*VARIANTS].index(key[1])))
    rows = []
    for k, variant in keys:
        full = newest.get((k, "full"))
        run = newest[k, variant]
        beside = {} if full is None or full is run else _beside(run.outcomes, full.outcomes, seed)
        rows.append(Row(run.record, figures_of(run.outcomes, seed), beside))
    return Group(rows, len(runs) - len(newest))


def figures_of(outcomes: Sequence[Outcome], seed: int) -> dict[str, Figure]:
    """Each metric's mean over questions, with its interval by the bootstrap over source tables."""
    names, values, groups = _arrays(outcomes)
    columns = zip(values.mean(0), *confidence_intervals(values, groups, seed), strict=True)
    return {name: Figure(*map(float, column)) for name, column in zip(names, columns, strict=True)}


def _beside(first: Sequence[Outcome], second: Sequence[Outcome], seed: int) -> dict[str, Comparison]:
    names, values, groups = _arrays(first)
    found = compare(values, _arrays(second)[1], groups, seed)
    return dict(zip(names, found, strict=True))


def _arrays(outcomes: Sequence[Outcome]) -> tuple[list[str], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The names of M metrics, their values `[Q, M]`, and the groups `[Q]`, by the questions' numbers."""
    outcomes = sorted(outcomes, key=lambda one: one.number)
    names = list(outcomes[0].scores)
    values = np.array([[one.scores[name] for name in names] for one in outcomes], dtype=np.float64)
    return names, values, np.array([one.group for one in outcomes], dtype=np.int64)


def to_json(group: Group) -> dict[str, Any]:
    """A group as plain values."""
    return {
        **{part: group.record[part] for part in GROUP},
        "superseded": group.superseded,
        "runs": [
            {
                **row.record,
                "metrics": {name: vars(figure) for name, figure in row.figures.items()},
                "versus_full": {name: found._asdict() for name, found in row.versus_full.items()},
            }
            for row in group.rows
        ],
    }
