"""Runs of one group side by side: their figures at the cuts asked for, and each beside the best baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gtr_gpu.evaluation.bootstrap import Comparison, compare, confidence_intervals
from gtr_gpu.evaluation.metrics import AT_K, measure
from gtr_gpu.evaluation.results import Ranked, Record, Results

GROUP = ("task", "protocol", "questions", "split")
_SHARED = ("asked", "encoder")


@dataclass(frozen=True)
class Figure:
    """A metric's mean over questions, with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One run of a group.

    Attributes:
        record: What the run left.
        figures: Each metric's mean and interval.
        versus: For each metric the best baseline's name, and the paired comparison with it on the questions that both
            were asked; empty for baselines.
    """

    record: Record
    figures: Mapping[str, Figure]
    versus: Mapping[str, tuple[str, Comparison]]

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.record["method"])


@dataclass(frozen=True)
class Group:
    """All runs on one task, protocol, question set and split.

    Attributes:
        name: These four, in order.
        cuts: Where metrics cut rankings.
        rows: The runs, best first by Acc at the first cut, then by recall.
        best: For each metric the name of the best baseline.
        superseded: Runs that were left out since a newer one of the method is there, or since the newest of the
            group is on other tables, on other questions or with another encoder.
    """

    name: tuple[str, str, str, str]
    cuts: tuple[int, ...]
    rows: list[Row]
    best: Mapping[str, str]
    superseded: int

    @property
    def main(self) -> str:
        """The metric that rows are sorted by."""
        return f"Acc@{self.cuts[0]}"


def groups_of(results: Results, cuts: Sequence[int] | None, seed: int = 0, newest: Collection[str] = ()) -> list[Group]:
    """All groups of a folder of results, sorted by name.

    Args:
        results: The folder.
        cuts: Where metrics cut rankings; None takes 10, 20, 50, and 1, 5, 10 on whole tables.
        seed: Of the intervals and tests.
        newest: Keys of runs that count as newer than all others, which are the last ones of the folder else.
    """
    by_name: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in sorted(results.records(), key=lambda record: record["key"] in newest):
        task, protocol, questions, split = (str(record[part]) for part in GROUP)
        by_name.setdefault((task, protocol, questions, split), []).append(record)
    return [
        _group(name, records, tuple(cuts) if cuts else default_cuts(name[1]), results, seed)
        for name, records in sorted(by_name.items())
    ]


def default_cuts(protocol: str) -> tuple[int, ...]:
    """Where metrics cut the rankings of a protocol."""
    return (1, 5, 10) if protocol == "whole" else (10, 20, 50)


def _group(
    name: tuple[str, str, str, str], records: list[Record], cuts: tuple[int, ...], results: Results, seed: int
) -> Group:
    # Only runs on the tables and questions of the newest one, and with its encoder, can be compared with it.
    same = [record for record in records if all(record[part] == records[-1][part] for part in _SHARED)]
    newest = {record["method"]: record for record in same}
    measured = {method: _Measured.of(results.ranked(record), cuts) for method, record in newest.items()}
    figures = {method: one.figures(seed) for method, one in measured.items()}
    baselines = [method for method, record in newest.items() if record["kind"] == "baseline"]
    metrics = list(next(iter(figures.values())))
    best = {}
    if baselines:
        best = {metric: max(baselines, key=lambda name: figures[name][metric].mean) for metric in metrics}
    rows = []
    for method, record in newest.items():
        versus: dict[str, tuple[str, Comparison]] = {}
        if record["kind"] != "baseline":
            for rival in dict.fromkeys(best.values()):
                beside = measured[method].beside(measured[rival], seed)
                versus |= {metric: (rival, found) for metric, found in beside.items() if best[metric] == rival}
        rows.append(Row(record, figures[method], {metric: versus[metric] for metric in metrics if metric in versus}))
    order = [f"{metric}@{cuts[0]}" for metric in AT_K]
    rows.sort(key=lambda row: ([-row.figures[metric].mean for metric in order], row.method))
    return Group(name, cuts, rows, best, len(records) - len(newest))


@dataclass(frozen=True)
class _Measured:
    """The metrics of each question of a run: M names, and numbers `[Q, M]`."""

    names: list[str]
    values: npt.NDArray[np.float64]
    numbers: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]

    @classmethod
    def of(cls, ranked: Ranked, cuts: Sequence[int]) -> _Measured:
        found = measure(ranked.ids, ranked.gold, cuts)
        values = torch.stack(list(found.values()), 1).numpy()
        return cls(list(found), values, ranked.numbers, ranked.groups)

    def figures(self, seed: int) -> dict[str, Figure]:
        """Each metric's mean and interval."""
        columns = zip(self.values.mean(0), *confidence_intervals(self.values, self.groups, seed), strict=True)
        return {name: Figure(*map(float, column)) for name, column in zip(self.names, columns, strict=True)}

    def beside(self, other: _Measured, seed: int) -> dict[str, Comparison]:
        """Each metric compared on the questions that both were asked; nothing where there is none."""
        _, mine, theirs = np.intersect1d(self.numbers, other.numbers, return_indices=True)
        if not len(mine):
            return {}
        found = compare(self.values[mine], other.values[theirs], self.groups[mine], seed)
        return dict(zip(self.names, found, strict=True))


def to_json(group: Group) -> dict[str, Any]:
    """A group as plain values."""
    return {
        **dict(zip(GROUP, group.name, strict=True)),
        "cuts": list(group.cuts),
        "best_baseline": dict(group.best),
        "methods": [
            {
                "method": row.method,
                "kind": row.record["kind"],
                "label_used": row.record["label_used"],
                "sampled": row.record["sampled"],
                "key": row.record["key"],
                "metrics": {metric: vars(figure) for metric, figure in row.figures.items()},
                "versus_best_baseline": {
                    metric: {"baseline": rival, **comparison._asdict()}
                    for metric, (rival, comparison) in row.versus.items()
                },
            }
            for row in group.rows
        ],
    }
