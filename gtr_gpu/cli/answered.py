"""What came of a question, on a terminal and in a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from gtr_gpu.answers.record import Answered, ReadTable, Unanswered
from gtr_gpu.answers.values import unescaped
from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import duration
from gtr_gpu.cli.text import counted, visible
from gtr_gpu.cli.view import View

_INDENT = (0, 0, 0, 2)
_TAG = re.compile(
    r"<\s{0,3}([/\\]?)\s{0,3}(?:final[\s_-]?)?(answer|reasoning|think(?:ing)?)\b[^<>\n]{0,40}>", re.IGNORECASE
)
_BLANK_LINES = re.compile(r"\n\s*\n")
# A tag, or an escaped sign, that may come in several pieces is held back so long.
_HELD = re.compile(r"<[^<>\n]{0,60}$|&[#\w]{0,8}$")


def why_nothing(one: Answered, most_tokens: int) -> str:
    """Why a model's output gives no answer, in words."""
    if not one.tables:
        return "no table was found"
    if one.reached_limit:
        return f"the model wrote {most_tokens:,} tokens without coming to one; --max-new-tokens allows more"
    if not one.raw.strip():
        return "the model wrote nothing"
    return "the model gave none"


def put_plain(one: Answered | Unanswered, most_tokens: int) -> None:
    """Prints what came of a question for a pipe: lines of tab-separated fields, the first of which says what it is."""
    put(f"# {visible(one.query)}")
    if isinstance(one, Unanswered):
        put(f"failed\t{visible(one.error)}")
        return
    for item in _items(one):
        put(f"answer\t{visible(item)}")
    if one.answer is None:
        put(f"no answer\t{why_nothing(one, most_tokens)}")
    for table in _cited(one):
        put(f"table\t{table.number}\t{visible(table.caption)}\t{visible(table.table_id)}")
    for number in one.unknown_tables:
        put(f"unknown table\t{number}")
    for cell in one.cells:
        put(f"cell\t{cell.table}\t{cell.row + 1}\t{visible(cell.column)}\t{visible(cell.text)}")
    for line in one.reasoning.splitlines():
        if line.strip():
            put(f"reasoning\t{visible(line)}")


def put_on_terminal(one: Answered | Unanswered, most_tokens: int, view: View, streamed: bool = False) -> None:
    """Prints what came of a question on a terminal.

    Args:
        one: What came.
        most_tokens: How much the model was allowed to write.
        view: The terminal.
        streamed: Whether question and reasoning have been shown already.
    """
    if not streamed:
        view.show(Text(visible(one.query), style="bold"))
    if isinstance(one, Unanswered):
        view.show(Padding(Text(visible(one.error), style="red"), _INDENT))
        put()
        return
    if not streamed and one.reasoning:
        lines = Text("\n".join(map(visible, one.reasoning.splitlines())), style="dim")
        view.show(Padding(lines, _INDENT))
        put()
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, thing in _facts(one, most_tokens):
        grid.add_row(label, thing)
    view.show(Padding(grid, _INDENT))
    put()


def _facts(one: Answered, most_tokens: int) -> Iterator[tuple[str, Text]]:
    if one.answer is None:
        yield "Answer", Text.assemble(("no answer", "bold yellow"), (f" - {why_nothing(one, most_tokens)}", "dim"))
    for place, item in enumerate(_items(one)):
        yield "" if place else "Answer", Text(visible(item), style="bold green")
    cited = _cited(one)
    if one.tables and not cited:
        yield "Tables", Text(f"it cites none of the {counted(len(one.tables), 'table')} that it was given", style="dim")
    for place, table in enumerate(cited):
        yield "" if place else "Tables", _table(table)
    if one.unknown_tables:
        names = ", ".join(map(str, one.unknown_tables[:5]))
        yield "", Text(f"it also cites what it was not given: Table {names}", style="yellow")
    for place, cell in enumerate(one.cells):
        where = f"Table {cell.table}, row {cell.row + 1}, "
        text = Text.assemble(where, (visible(cell.column), "magenta"), ": ", (visible(cell.text), "bold"))
        yield "" if place else "Cells", text
    yield "Model", Text(_usage(one), style="dim")


def _items(one: Answered) -> tuple[str, ...]:
    return (one.answer,) if isinstance(one.answer, str) else one.answer or ()


def _cited(one: Answered) -> list[ReadTable]:
    return [table for table in one.tables if table.cited]


def _table(table: ReadTable) -> Text:
    rows = f"{table.rows_shown:,} of {counted(table.rows, 'row')}" if table.rows_shown < table.rows else ""
    caption = visible(table.caption).strip()
    name = visible(table.table_id)
    place = Text(", ".join(filter(None, (name if caption else "", rows))), style="dim")
    title = Text.assemble((f"Table {table.number}", "bold"), f" {caption or name}")
    return Text.assemble(title, "\n", place) if place else title


def _usage(one: Answered) -> str:
    given = f" of {counted(len(one.tables), 'table')}" if one.tables else ""
    read = "" if one.prompt_tokens is None else f"{one.prompt_tokens:,} tokens{given} read"
    wrote = "" if one.completion_tokens is None else f"{one.completion_tokens:,} written"
    stopped = "stopped at its limit" if one.reached_limit else ""
    left_out = f"{counted(one.left_out_tables, 'table')} had no room" if one.left_out_tables else ""
    return ", ".join(filter(None, (visible(one.model), read, wrote, duration(one.seconds), stopped, left_out)))


class Streamed:
    """Shows a model's output as it comes, its tags and its answer left out; the answer is shown afterwards.

    Args:
        view: The terminal.
        first: Is called before the first piece is shown.
    """

    def __init__(self, view: View, first: Callable[[], None] = lambda: None) -> None:
        self._view = view
        self._first = first
        self._held = ""
        self._in_answer = False
        self._begun = False
        self._blanks = ""

    def __call__(self, piece: str) -> None:
        """Takes the next piece."""
        text = self._held + piece
        held = _HELD.search(text)
        self._held = held.group() if held else ""
        self._take(text[: len(text) - len(self._held)])

    def end(self) -> None:
        """Shows what was held back, and ends the line."""
        self._take(self._held)
        self._held = ""
        if self._begun:
            put()
            put()
        self._begun = False

    def _take(self, text: str) -> None:
        end = 0
        for tag in _TAG.finditer(text):
            self._show(text[end : tag.start()])
            if tag.group(2).lower() == "answer":
                self._in_answer = not tag.group(1)
            end = tag.end()
        self._show(text[end:])

    def _show(self, text: str) -> None:
        if self._in_answer:
            return
        # Blank lines, as they stand around tags, are shown once something follows them, and as one.
        text = _BLANK_LINES.sub("\n\n", self._blanks + text if self._begun else text.lstrip())
        shown = text.rstrip()
        self._blanks = text[len(shown) :]
        if shown:
            if not self._begun:
                self._first()
            self._begun = True
            self._view.part(Text("\n".join(visible(line) for line in unescaped(shown).split("\n")), style="dim"))
