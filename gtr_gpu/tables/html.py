"""Web pages: each `<table>` that holds data is a table."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.tables.headers import SAMPLE_ROWS, has_header, join_header_rows
from gtr_gpu.tables.naming import readable_name
from gtr_gpu.tables.normalize import clean_text, make_table
from gtr_gpu.tables.report import Reading
from gtr_gpu.tables.streams import find_encoding, open_binary
from gtr_gpu.tables.table import Table

MAX_PAGE = 256 << 20
# The limits of the HTML standard; beyond the width, spans are no longer spread out.
MAX_COLSPAN = 1000
MAX_ROWSPAN = 65_534
MAX_WIDTH = 20_000

_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.I)
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_HIDDEN = ("script", "style", "template", "noscript", "table")
_BLOCKS = (
    "address",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "ul",
)
# What hangs down from the rows above: a column, its text, and for how many rows more.
_Hanging = dict[int, tuple[str, int]]
_ROWS = "./tr|./thead/tr|./tbody/tr|./tfoot/tr"


def read_html(path: Path, name: str, reading: Reading) -> Iterator[Table]:
    """Reads the tables of a page in order; the n-th has the id `name#n`.

    Cells that span rows or columns are repeated in each place. The header is what stands in `<thead>`, else the leading
    rows of `<th>` only, several joined from top to bottom; where there are neither, `has_header` says whether the first
    row is it. A table inside a cell is a table of its own, and its text not a part of that cell. A table with fewer
    than two cells that hold text is layout: it is counted and left out. The caption is `<caption>`, else the nearest
    heading above, else the page's `<title>`, else the file's name.

    Args:
        path: The file; plain, gzip or zstandard.
        name: Its name, for ids and captions.
        reading: Limits and report.

    Raises:
        UnreadableSourceError: The file is empty, not text, or larger than 256 MB.
    """
    root = _parse(path)
    heading, number = "", 0
    title = _text(root.find(".//title"))
    for element in root.iter("table", *_HEADINGS):
        if element.tag != "table":
            heading = _text(element) or heading
            continue
        number += 1
        rows = element.xpath(_ROWS)
        if _count_filled(rows) < 2:
            reading.report.layout_tables += 1
            continue
        caption = _text(element.find("./caption")) or heading or title or readable_name(name)
        yield _to_table(rows, f"{name}#{number}", caption, reading)


def _parse(path: Path) -> Any:  # noqa: ANN401 (a type of an optional package)
    import lxml.html
    from lxml.etree import LxmlError

    with open_binary(path) as stream:
        page = stream.read(MAX_PAGE + 1)
    if len(page) > MAX_PAGE:
        raise UnreadableSourceError(f"it is larger than {MAX_PAGE >> 20} MB")
    text = page.decode(_encoding(path, page), "replace").replace("\0", "")
    # As UTF-8, so that no declaration inside can contradict; and nothing is fetched.
    parser = lxml.html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    try:
        return lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except LxmlError as error:
        raise UnreadableSourceError(f"it holds no HTML ({error})") from None


def _encoding(path: Path, page: bytes) -> str:
    with open_binary(path) as stream:
        found = find_encoding(stream)
    declared = _CHARSET.search(page[:4096])
    if found.startswith("utf") or declared is None:
        return found
    try:
        return codecs.lookup(declared.group(1).decode("ascii", "replace")).name
    except LookupError:
        return found


def _to_table(rows: Sequence[Any], table_id: str, caption: str, reading: Reading) -> Table:
    grid = _spread(rows, reading)
    n_header = _count_header_rows(rows)
    if n_header == 0 and has_header(grid[0], grid[1:SAMPLE_ROWS]):
        n_header = 1
    return make_table(
        table_id,
        join_header_rows(grid[:n_header]),
        grid[n_header:],
        reading.limits,
        caption=caption,
        source=reading.place(table_id),
        n_rows=len(rows) - n_header,
    )


def _count_header_rows(rows: Sequence[Any]) -> int:
    in_head = sum(1 for row in rows if row.getparent().tag == "thead")
    if in_head:
        # A head that stands somewhere else than at the top is read where it stands, as rows.
        return in_head if all(row.getparent().tag == "thead" for row in rows[:in_head]) else 0
    count = 0
    for row in rows:
        tags = [cell.tag for cell in row if cell.tag in ("td", "th")]
        if not tags or "td" in tags:
            break
        count += 1
    # A table of <th> alone: only its first row is the header.
    return 1 if count == len(rows) else count


def _spread(rows: Sequence[Any], reading: Reading) -> list[list[str]]:
    """The texts of the kept rows, with cells repeated where they span rows or columns."""
    width = 0
    grid: list[list[str]] = []
    hanging: _Hanging = {}
    for row in rows:
        if len(grid) >= reading.limits.rows(width) + SAMPLE_ROWS:
            break
        cells, hanging = _spread_row(row, hanging)
        grid.append(cells)
        width = max(width, len(cells))
    return grid


def _spread_row(row: Any, above: _Hanging) -> tuple[list[str], _Hanging]:  # noqa: ANN401 (a type of an optional package)
    cells: list[str] = []
    below: _Hanging = {}

    def place(text: str, more: int) -> None:
        if more > 0:
            below[len(cells)] = (text, more)
        cells.append(text)

    def fall() -> None:
        while len(cells) in above:
            text, more = above.pop(len(cells))
            place(text, more - 1)

    for cell in row:
        if cell.tag not in ("td", "th"):
            continue
        fall()
        text, more = _text(cell), _span(cell, "rowspan", MAX_ROWSPAN) - 1
        for copy in range(_span(cell, "colspan", MAX_COLSPAN)):
            if copy and (len(cells) >= MAX_WIDTH or len(cells) in above):
                break
            place(text, more)
    fall()
    for column in sorted(above):
        # What hangs to the right of a short row.
        cells.extend([""] * (column - len(cells)))
        fall()
    return cells, below


def _span(cell: Any, name: str, limit: int) -> int:  # noqa: ANN401 (a type of an optional package)
    digits = re.match(r"\s*(\d{1,9})", cell.get(name, ""))
    if digits is None:
        return 1
    span = int(digits.group(1))
    # 0 rows means down to the end.
    return limit if name == "rowspan" and span == 0 else max(1, min(span, limit))


def _count_filled(rows: Sequence[Any]) -> int:
    count = 0
    for row in rows:
        for cell in row:
            count += cell.tag in ("td", "th") and bool(_text(cell))
            if count == 2:
                return count
    return count


def _text(element: Any) -> str:  # noqa: ANN401 (a type of an optional package)
    """The visible text of an element, without tables inside it; blocks and `<br>` begin new lines."""
    if element is None:
        return ""
    parts: list[str] = []
    _collect(element, parts)
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    return clean_text("\n".join(line for line in lines if line))


def _collect(element: Any, parts: list[str]) -> None:  # noqa: ANN401 (a type of an optional package)
    if element.text:
        parts.append(" ".join(re.split(r"\s+", element.text)))
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _HIDDEN:
            block = child.tag in _BLOCKS
            parts.append("\n" if block else "")
            _collect(child, parts)
            parts.append("\n" if block else "")
        if child.tail:
            parts.append(" ".join(re.split(r"\s+", child.tail)))
