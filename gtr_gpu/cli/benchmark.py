"""`gtr benchmark`: MultiTableQA from its sources, and what is in it. `app` is the group that its commands belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from gtr_gpu.cli import common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import drawn, duration
from gtr_gpu.cli.text import counted, visible
from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.question_settings import QuestionSettings

app = typer.Typer(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})

_KNOWN = "tabfact, wtq, sqa, hybridqa, tatqa"
_SWITCH = {"true": True, "false": False}
_QUESTION_KNOBS = [knob.name for knob in fields(QuestionSettings) if knob.name != "seed"]
_COLUMNS = (
    ("sources", "source_tables"),
    ("unasked", "distractors"),
    ("tables", "tables"),
    ("rows", "rows_per_table"),
    ("columns", "columns_per_table"),
    ("questions", "questions"),
    ("to tune", "questions_to_tune"),
    ("evidence", "questions_with_evidence"),
    ("released", "raw_questions"),
)


@app.callback(invoke_without_command=True)
def group(context: typer.Context) -> None:
    """Build the MultiTableQA benchmark and measure methods on it."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command()
def build(
    sources: Annotated[
        list[str],
        typer.Option(
            "--source",
            metavar="NAME=DIR",
            help=f"A data set and its folder: {_KNOWN}, as released or as JSON lines; another name as JSON lines. "
            "Repeatable.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="The folder of the benchmark.", show_default=False, parser=common.given_path
        ),
    ],
    protocols: Annotated[
        list[str] | None,
        typer.Option(
            "--protocol",
            metavar="published|withheld|mixed|whole",
            help="Which sub-tables keep the caption: all, none, one of each source; or whole tables. Repeatable; the "
            "first three by default.",
        ),
    ] = None,
    no_decompose: Annotated[
        bool, typer.Option("--no-decompose", help="Keep the tables whole; the same as --protocol whole.")
    ] = False,
    samples: Annotated[
        list[str] | None,
        typer.Option("--sample", metavar="TASK=N", help="Also draw a smaller task of about N sub-tables. Repeatable."),
    ] = None,
    parts: Annotated[int, typer.Option("--parts", metavar="N", help="Sub-tables of a table that is large enough.")] = 3,
    min_rows: Annotated[int, typer.Option("--min-rows", help="Tables with fewer rows are not cut but left out.")] = 3,
    min_columns: Annotated[int, typer.Option("--min-columns", help="So are those with fewer columns,")] = 2,
    min_distinct: Annotated[int, typer.Option("--min-distinct", help="with fewer different cells,")] = 8,
    max_empty: Annotated[float, typer.Option("--max-empty", help="or with a larger share of empty cells.")] = 0.5,
    questions: Annotated[
        list[str] | None,
        typer.Option(
            "--question",
            metavar="NAME=VALUE",
            help=f"Sets how questions are built: {', '.join(_QUESTION_KNOBS)}. Repeatable.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all random choices.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a benchmark that is there.")] = False,
    as_json: common.Json = False,
    quiet: common.Quiet = False,
) -> None:
    """Build a benchmark from table question-answering data sets."""
    from gtr_gpu.multitableqa.builder import build as build_benchmark
    from gtr_gpu.multitableqa.settings import Settings

    settings = Settings(
        protocols=_protocols(protocols, no_decompose),
        seed=seed,
        n_parts=parts,
        min_rows=min_rows,
        min_columns=min_columns,
        min_distinct=min_distinct,
        max_empty=max_empty,
        samples=_samples(samples or ()),
        questions=_questions(questions or ()),
    )
    with drawn(quiet or as_json) as progress:
        manifest = build_benchmark(_sources(sources), out, settings, overwrite=overwrite, progress=progress)
    if as_json:
        common.put_json({"tasks": manifest.tasks, "files": manifest.files})
        return
    _put_steps(manifest.tasks)
    _put_numbers(out)
    put()
    put(f"Built in {duration(sum(progress.seconds.values()))}; {out / 'manifest.json'} has all counts and checksums.")


@app.command()
def stats(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a benchmark.", show_default=False)],
    check: Annotated[bool, typer.Option("--check", help="Compare all files with their checksums.")] = False,
    as_json: common.Json = False,
) -> None:
    """Show how many tables and questions a benchmark holds.

    For each task and protocol: the source tables and those of them that no question is about; the tables that they
    were cut into, with rows and columns on average; the questions, those to tune on, those that tell which tables hold
    the evidence, and the released ones that they were made of.
    """
    from gtr_gpu.multitableqa.stats import numbers_of, verify

    if check:
        verify(folder)
    if as_json:
        common.put_json([{"task": name, "protocol": protocol, **some} for name, protocol, some in numbers_of(folder)])
    else:
        _put_numbers(folder)
        if check:
            put()
            put("All files are as they were built.")


def _sources(given: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or not name or not folder:
            raise GTRError(f"--source must be NAME=DIR, as in tabfact=data/tabfact, got {text!r}")
        if name in found:
            raise GTRError(f"--source names {name!r} twice; give each data set once")
        found[name] = Path(folder)
    return found


def _protocols(given: Sequence[str] | None, no_decompose: bool) -> tuple[str, ...]:
    from gtr_gpu.multitableqa.settings import Settings

    if not no_decompose:
        return tuple(dict.fromkeys(given)) if given else Settings().protocols
    if given and set(given) != {"whole"}:
        raise GTRError("--no-decompose keeps tables whole, and the other protocols cut them; give one or the other")
    return ("whole",)


def _samples(given: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in given:
        task, _, number = text.partition("=")
        if not task or not number.isdecimal():
            raise GTRError(f"--sample must be TASK=N, as in multi_hop=5523, got {text!r}")
        if task in found:
            raise GTRError(f"--sample names the task {task!r} twice; build it once for each size")
        found[task] = int(number)
    return found


def _questions(given: Sequence[str]) -> QuestionSettings:
    """The settings of the questions, each value read as what its default is."""
    values: dict[str, Any] = {}
    for text in given:
        name, _, value = (part.strip() for part in text.partition("="))
        if name not in _QUESTION_KNOBS:
            raise GTRError(f"--question must be NAME=VALUE with one of {', '.join(_QUESTION_KNOBS)}, got {text!r}")
        default = getattr(QuestionSettings(), name)
        try:
            values[name] = _SWITCH[value.lower()] if isinstance(default, bool) else type(default)(value)
        except (KeyError, ValueError):
            kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(default)]
            raise GTRError(f"--question {name} must be {kind}, got {value!r}") from None
    return QuestionSettings(**values)


def _put_steps(tasks: Mapping[str, Mapping[str, Any]]) -> None:
    """One line a task: what was read, and what was taken out."""
    for name, counts in tasks.items():
        if "sample_of" in counts:
            continue
        removed = [
            f"{counted(counts['copies_removed'], 'copy', 'copies')}",
            f"{counted(counts['duplicates_removed'], 'duplicate')}",
            f"{counted(sum(counts.get('too_simple', {}).values()), 'table')} too simple to be cut",
        ]
        read = counted(counts["tables_read"], "table"), counted(counts["questions_released"], "question")
        put(visible(f"{name}: {' and '.join(read)} read; without {', '.join(removed)}"))
    put()


def _put_numbers(folder: Path) -> None:
    from gtr_gpu.multitableqa.stats import numbers_of

    lines = [["task", "protocol", *(heading for heading, _ in _COLUMNS)]]
    for name, protocol, numbers in numbers_of(folder):
        values = [numbers[key] for _, key in _COLUMNS]
        lines.append([visible(name), protocol, *(f"{value:,}" for value in values)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        names = (text.ljust(width) for text, width in zip(line[:2], widths[:2], strict=True))
        numbers_text = (text.rjust(width) for text, width in zip(line[2:], widths[2:], strict=True))
        put("  ".join([*names, *numbers_text]))
