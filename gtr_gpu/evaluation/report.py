"""Results for a person: Markdown tables, the same as JSON, and plots."""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from gtr_gpu.evaluation.comparison import Figure, Group, Row, groups_of, to_json
from gtr_gpu.evaluation.results import Results

REPORT_NAME, SUMMARY_NAME, PLOTS_NAME = "report.md", "report.json", "plots"

_LABEL_MARK = "LABEL USED"

logger = logging.getLogger(__name__)


def write_report(
    results: Results, cuts: Sequence[int] | None = None, seed: int = 0, newest: Collection[str] = ()
) -> list[Path]:
    """Writes the report of all runs of a folder.

    Args:
        results: The folder.
        cuts: Where metrics cut rankings; None takes 10, 20, 50, and 1, 5, 10 on whole tables.
        seed: Of the intervals and tests.
        newest: Keys of runs that count as newer than all others.

    Returns:
        The files that were written, the Markdown first.
    """
    groups = groups_of(results, cuts, seed, newest)
    paths = [results.folder / REPORT_NAME, results.folder / SUMMARY_NAME]
    plots: dict[tuple[str, str, str, str], list[Path]] = {}
    if importlib.util.find_spec("matplotlib") is None:
        logger.warning('there are no plots without matplotlib; `pip install "gtr-gpu[bench]"` brings it')
    else:
        from gtr_gpu.evaluation.plots import draw

        plots = {group.name: draw(group, results.folder / PLOTS_NAME) for group in groups}
    beside = {name: [str(path.relative_to(results.folder)) for path in drawn] for name, drawn in plots.items()}
    text = markdown(groups, beside)
    paths[0].write_text(text, encoding="utf-8")
    paths[1].write_text(json.dumps([to_json(group) for group in groups], indent=1) + "\n", encoding="utf-8")
    return paths + [path for drawn in plots.values() for path in drawn]


def markdown(groups: Iterable[Group], plots: dict[tuple[str, str, str, str], list[str]] | None = None) -> str:
    """The report of some groups.

    Args:
        groups: The groups.
        plots: The plots of each, as paths beside the report.
    """
    parts = ["# Retrieval results", _LEGEND]
    for group in groups:
        task, protocol, questions, split = group.name
        any_row = group.rows[0].record
        asked = max(row.record["asked_questions"] for row in group.rows)
        parts.append(f"## {task}, {protocol}: {questions} questions, split {split}")
        parts.append(
            f"{any_row['tables']:,} tables, {asked:,} of {any_row['all_questions']:,} questions, encoder "
            f"`{any_row['encoder']}`."
        )
        parts.append(_quality(group))
        if any(row.versus for row in group.rows):
            parts.append("Beside the best baseline of each metric, on the questions that both were asked, in points:")
            parts.append(_versus(group))
        parts.append(_cost(group))
        coverage = _coverage(group)
        if coverage:
            parts.append("Coarse stage: questions with all gold tables among the candidates, and candidates kept:")
            parts.append(coverage)
        parts.extend(f"![{Path(path).stem}]({path})" for path in (plots or {}).get(group.name, []))
        if group.superseded:
            parts.append(
                f"{group.superseded} older run(s) of changed methods, tables, questions or encoders are not shown."
            )
    return "\n\n".join(parts) + "\n"


_LEGEND = f"""Figures in percent, ± half of the 95 % interval (bootstrap by source table), sorted by the first column.
**Bold**: the best baseline of a column. *Italics*: GTR. `~N`: asked a seeded sample of N questions only.
{_LABEL_MARK}: told the gold tables, as in the authors' protocol; its figures are none that a user would get."""


def _quality(group: Group) -> str:
    metrics = [*(f"{name}@{cut}" for name in ("Acc", "Recall", "nDCG") for cut in group.cuts), "MRR"]
    rows = []
    for row in group.rows:
        cells = []
        for metric in metrics:
            text = _percent(row.figures[metric], metric.startswith("Acc"))
            cells.append(f"**{text}**" if group.best.get(metric) == row.method else text)
        rows.append([_title(row, group), *cells])
    return _table(["method", *metrics], rows)


def _versus(group: Group) -> str:
    metrics = [f"{name}@{cut}" for name in ("Acc", "Recall") for cut in group.cuts]
    rows = []
    for row in group.rows:
        if not row.versus:
            continue
        cells = []
        for metric in metrics:
            rival, found = row.versus[metric]
            p_value = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.3f}"
            cells.append(
                f"{100 * found.difference:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}] {p_value} ({rival})"
            )
        rows.append([_title(row, group), *cells])
    return _table(["method", *metrics], rows)


def _cost(group: Group) -> str:
    rows = []
    for row in group.rows:
        record, seconds = row.record, row.record["seconds"]
        own = next((one for one in record["coverage"] if one["own"]), None)
        index = record["index"].get("build_seconds", seconds["index"])
        rows.append(
            [
                _title(row, group),
                f"{index:,.1f}",
                f"{seconds['encode_tables']:,.1f}",
                f"{seconds['encode_questions']:,.1f}",
                f"{seconds['rank']:,.2f}",
                f"{record['queries_per_second']:,.0f}",
                f"{record['peak_bytes'] / 1e6:,.0f}",
                f"{own['candidates']:,.0f}" if own else "",
            ]
        )
    heads = ["index, s", "encode tables, s", "encode questions, s", "rank, s", "questions/s", "peak MB", "candidates"]
    note = "Seconds of encoding are those of this run: what was encoded before is read from disk."
    return _table(["method", *heads], rows) + f"\n\n{note}"


def _coverage(group: Group) -> str:
    rows = [
        [
            _title(row, group),
            f"`{one['knob']}`{' (own)' if one['own'] else ''}",
            f"{100 * one['all_gold']:.1f}",
            f"{100 * one['recall']:.1f}",
            f"{one['candidates']:,.0f}",
            f"{100 * one['kept']:.1f}",
        ]
        for row in group.rows
        for one in row.record["coverage"]
    ]
    heads = ["method", "size", "all gold, %", "gold, %", "candidates", "of the corpus, %"]
    return _table(heads, rows) if rows else ""


def _title(row: Row, group: Group) -> str:
    name = row.method
    if row.record["kind"] == "gtr":
        name = f"*{name}*"
    elif group.best.get(group.main) == row.method:
        name = f"**{name}** (best baseline)"
    if row.record["label_used"]:
        name += f" ({_LABEL_MARK})"
    if row.record["sampled"]:
        name += f" ~{row.record['asked_questions']:,}"
    return name


def _percent(figure: Figure, interval: bool) -> str:
    text = f"{100 * figure.mean:.1f}"
    return f"{text} ± {50 * (figure.high - figure.low):.1f}" if interval else text


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
