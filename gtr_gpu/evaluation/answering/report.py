"""Results of answers for a person, in Markdown, and the same as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gtr_gpu.evaluation.answering.comparison import Group, Row, groups_of, to_json
from gtr_gpu.evaluation.answering.runs import FOLDER_NAME, JOURNALS_NAME, Runs
from gtr_gpu.evaluation.bootstrap import Comparison
from gtr_gpu.evaluation.comparison import Figure
from gtr_gpu.evaluation.runner import LEAST_SAMPLE

REPORT_NAME, SUMMARY_NAME = "answers.md", "answers.json"


def write_report(results: Path, seed: int = 0) -> list[Path]:
    """Writes the report of all runs of answers in a folder of results.

    Args:
        results: The folder.
        seed: Of the intervals and tests.

    Returns:
        The files that were written, the Markdown first.
    """
    groups = groups_of(Runs(results).all(), seed)
    paths = [results / REPORT_NAME, results / SUMMARY_NAME]
    results.mkdir(parents=True, exist_ok=True)
    paths[0].write_text(markdown(groups), encoding="utf-8")
    paths[1].write_text(json.dumps([to_json(group) for group in groups], indent=1) + "\n", encoding="utf-8")
    return paths


def markdown(groups: Iterable[Group]) -> str:
    """The report of some groups."""
    parts = ["# Answers", _LEGEND]
    for group in groups:
        parts.append(_title(group))
        parts.append(_what_was_asked(group))
        parts.append(_quality(group.rows))
        if any(row.versus_full for row in group.rows):
            parts.append("Beside the full prompt at the same k, question by question, in points:")
            parts.append(_versus(group.rows))
        parts.append("What the prompts held, and what came back:")
        parts.append(_manner(group.rows))
        errors = {row.record["first_error"]: row for row in group.rows if row.record["first_error"]}
        parts.extend(f"{row.variant}, k = {row.k}: the first error: {_plain(error)}" for error, row in errors.items())
        if group.superseded:
            older = f"{group.superseded} older run(s) on other questions or tables, or of other code,"
            parts.append(f"{older} are not shown.")
    return "\n\n".join(parts) + "\n"


_LEGEND = f"""Figures in percent, with 95 % intervals (bootstrap by source table). k: the tables that GTR found for each
question. A question that failed counts as wrong; the same command asks it again. No answer counts as wrong.

- `full`: the prompt as the method has it. `no-relations`: without the graph-related information. `no-reasoning`:
  without the reasoning steps; such answers need not cite a table.
- label accuracy: whether a statement is true; a merged statement is where all of its parts are.
- EM, F1: SQuAD's exact match and token F1; items are compared with items whatever their order, and where either side is
  one text, with the joined items.
- denotation: as WikiTableQuestions' official evaluator has it, texts, numbers and dates compared by what they are. That
  one knows from CoreNLP which gold items are numbers and dates; here both sides are read by rules of our own.

What became of each question stands in `{FOLDER_NAME}/`, all that the models said in `{FOLDER_NAME}/{JOURNALS_NAME}/`.

`~N` marks a sample of N questions. One of fewer than {LEAST_SAMPLE} shows that things work, and is too small to tell
variants apart."""


def _title(group: Group) -> str:
    record = group.record
    about = f"{record['task']}, {record['protocol']}: {record['questions']} questions, split {record['split']}"
    return f"## {about}: {_plain(record['model'])}"


def _what_was_asked(group: Group) -> str:
    record, settings = group.record, group.record["settings"]
    n, of, skipped = (record[f"{name}_questions"] for name in ("asked", "answerable", "skipped"))
    estimated = "" if settings["counted_exactly"] else " by estimate"
    sentences = [
        f"{n:,} of {of:,} questions with a public answer were asked; {skipped:,} without one were skipped.",
        f"Model `{_plain(record['model'])}`, prompts of at most {settings['prompt_tokens']:,} tokens{estimated}, "
        f"tables as {settings['table_format']}, {settings['examples']} examples, answers of at most "
        f"{settings['max_new_tokens']:,} tokens; encoder `{_plain(record['encoder'])}`.",
    ]
    if n < LEAST_SAMPLE:
        sentences.insert(0, f"**Only {n:,} questions: no result, a trial.**")
    return " ".join(sentences)


def _quality(rows: Sequence[Row]) -> str:
    metrics = list(rows[0].figures)
    heads = ["variant", "k", *metrics, "questions", "failed", "no answer"]
    return _table(
        heads,
        (
            [
                _name(row),
                str(row.k),
                *(_interval(row.figures[metric]) for metric in metrics),
                f"{row.record['asked_questions']:,}",
                f"{row.record['failed']:,}",
                _percent(row.record["no_answer"]),
            ]
            for row in rows
        ),
    )


def _versus(rows: Sequence[Row]) -> str:
    beside = [row for row in rows if row.versus_full]
    metrics = list(beside[0].versus_full)
    lines = ([_name(row), str(row.k), *(_difference(row.versus_full[metric]) for metric in metrics)] for row in beside)
    return _table(["variant", "k", *metrics], lines)


_MANNER = (
    ("gold found (Acc@k)", "acc_at_k", True),
    ("gold found (Recall@k)", "recall_at_k", True),
    ("all gold in the prompt", "gold_in_prompt", True),
    ("answered", "answered", True),
    ("cites a gold table", "cites_gold", True),
    ("citations of no table", "unknown_citations", False),
    ("cut short", "cut_short", True),
    ("prompt tokens", "prompt_tokens", False),
    ("tokens written", "completion_tokens", False),
)


def _manner(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        cells = []
        for _, field, share in _MANNER:
            value = row.record[field]
            cells.append("" if value is None else _percent(value) if share else f"{value:,.0f}")
        seconds = row.record["seconds"]
        lines.append([_name(row), str(row.k), *cells, "" if seconds is None else f"{seconds:,.2f}"])
    return _table(["variant", "k", *(head for head, *_ in _MANNER), "latency, s"], lines)


def _name(row: Row) -> str:
    return row.variant + (f" ~{row.record['asked_questions']:,}" if row.record["sampled"] else "")


def _interval(figure: Figure) -> str:
    return f"{100 * figure.mean:.1f} [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"


def _difference(found: Comparison) -> str:
    p_value = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.3f}"
    return f"{100 * found.difference:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}] {p_value}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _plain(text: Any) -> str:  # noqa: ANN401 (a name or a message)
    """A name or an error on one line, which can't end a table's cell or begin markup."""
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|").replace("`", "'").replace("<", "&lt;")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
