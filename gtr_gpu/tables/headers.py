"""Which of a table's first rows name its columns, for formats that do not say so."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

SAMPLE_ROWS = 100

_NUMBER = re.compile(
    r"[-+(]?[$€£¥]?\s?\d[\d.,'\u202f\xa0 ]*(e[-+]?\d+)?\s?[%)]?"
    r"|\d{4}-\d\d?-\d\d?([ T][\d:.]+)?"
    r"|\d\d?[./]\d\d?[./]\d{2,4}",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(1[5-9]|20|21)\d\d")


def has_header(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether the first row of a table names its columns.

    Each column votes: a name above numbers is a vote for, a number above numbers one against, and so is a word that
    comes again below. Years as names (`Country, 1990, 2000`) are not numbers unless years stand below them too. With as
    many votes for as against, it is a header, as it is by custom in such files. A row without any text is none.

    Args:
        first: The first row.
        body: Some of the rows below it.
    """
    if not any(cell.strip() for cell in first):
        return False
    if not body:
        return not any(is_number(cell) for cell in first)
    columns = [[row[i].strip() for row in body if i < len(row) and row[i].strip()] for i in range(len(first))]
    return sum(_vote(cell.strip(), column) for cell, column in zip(first, columns, strict=True) if cell.strip()) >= 0


def _vote(first: str, column: list[str]) -> int:
    if not column:
        return 0
    if _YEAR.fullmatch(first) and sum(_YEAR.fullmatch(cell) is not None for cell in column) < len(column) / 2:
        return 0
    if sum(map(is_number, column)) >= 0.8 * len(column):
        return -1 if is_number(first) else 1
    return -1 if first in column else 0


def is_number(text: str) -> bool:
    """Whether a cell is a number, an amount, a share or a date in digits."""
    return _NUMBER.fullmatch(text.strip()) is not None


def count_title_rows(rows: Sequence[Sequence[str]]) -> int:
    """How many leading rows hold a title over the table instead of names or values.

    That is a row with text in its first cell only, above a table of at least two columns; where the row has all its
    (empty) cells, of at least three. Rows without any text between and after such rows count with them.
    """
    width = common_width(rows)
    titles = 0
    for number, row in enumerate(rows[:10]):
        filled = [i for i, cell in enumerate(row) if cell.strip()]
        if not filled:
            continue
        if filled != [0] or width < (2 if len(row) == 1 else 3):
            return number if titles else 0
        titles += 1
    return 0


def common_width(rows: Sequence[Sequence[str]]) -> int:
    """The most frequent number of cells of a row; the greater of equally frequent ones."""
    counts = Counter(len(row) for row in rows)
    return max(counts, key=lambda width: (counts[width], width), default=0)


def join_header_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Names of columns from several header rows: what stands in a column from top to bottom, without repeats."""
    width = max(map(len, rows), default=0)
    parts = ([row[i] for row in rows if i < len(row) and row[i]] for i in range(width))
    return [" ".join(dict.fromkeys(column)) for column in parts]
