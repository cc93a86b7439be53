"""How a table is written: a text before its rows, one for each row, and one after them, so that rows can be chosen."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gtr_gpu.prompts.cleaning import escaped
from gtr_gpu.prompts.settings import TableFormat

# What a line of CSV must not begin with: a section's heading, a tag, a fence, a relation, "Table 2", "1. ", "User:".
_BEGINNING = re.compile(
    r"\s*(?:[#<>{}\[\]`~|&]|[-=_*]{3}|[-*+]\s|table\s*\d|\d+\s*[.)](?![0-9])|[^\W\d_]\w*(?:\s\w+)?\s*:)", re.IGNORECASE
)
_LOOKED_AT = 80


@dataclass(frozen=True)
class Writer:
    """Writes the cells of tables, each on one line already, in one format.

    Attributes:
        head: The text before the rows, of the column names.
        row: The text of one row.
        separator: What stands between two rows.
        tail: The text after the rows, or the empty string.
    """

    head: Callable[[Sequence[str]], str]
    row: Callable[[Sequence[str]], str]
    separator: str = "\n"
    tail: str = ""

    def body(self, head: str, rows: Sequence[str]) -> str:
        """A whole table of its written parts."""
        return "\n".join(filter(None, (head, self.separator.join(rows), self.tail)))


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escaped(cell).replace('|', chr(92) + '|') for cell in cells)} |" if cells else ""


def _markdown_head(names: Sequence[str]) -> str:
    return f"{_markdown_row(names)}\n|{'---|' * len(names)}" if names else ""


def _csv_row(cells: Sequence[str]) -> str:
    cells = [escaped(cell) for cell in cells]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    line = buffer.getvalue()
    if _BEGINNING.match(unicodedata.normalize("NFKC", line[:_LOOKED_AT])):
        # A cell that the writer has put in quotes begins with one, so the first cell stands there as it is.
        line = f'"{cells[0]}"{line[len(cells[0]) :]}'
    return line


def _json(cells: Sequence[str]) -> str:
    text = json.dumps(list(cells), ensure_ascii=False, separators=(",", ":"))
    # Within JSON's own quotes; its own brackets are followed by a quote and open no token.
    return escaped(text, r"\u003c", r"\u005b")


def _html_row(cells: Sequence[str], tag: str = "td") -> str:
    texts = (escaped(html.escape(cell, quote=False)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"


WRITERS: dict[TableFormat, Writer] = {
    "markdown": Writer(_markdown_head, _markdown_row),
    "csv": Writer(_csv_row, _csv_row),
    "json": Writer(lambda names: f'{{"columns":{_json(names)},"rows":[', _json, ",\n", "]}"),
    "html": Writer(lambda names: f"<table>\n{_html_row(names, 'th')}", _html_row, "\n", "</table>"),
}
