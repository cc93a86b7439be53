"""One table as it may stand in a prompt: whole or cut, with some of its rows or all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gtr_gpu.prompts.cleaning import escaped, one_line, shortened
from gtr_gpu.prompts.formats import Writer
from gtr_gpu.tables.table import Table

# Characters: captions and names are longer by accident alone; of a description the beginning says what the table is.
_LONGEST_CAPTION = 300
_LONGEST_NAME = 200
_LONGEST_DESCRIPTION = 240


class Sheet:
    """A table in the format of a prompt.

    Attributes:
        number: Its number in the prompt, from 1.
        table: The table.
        columns: The numbers of the columns that are shown, rising.
        description: Its description, shortened; empty where it says no more than the caption.
    """

    def __init__(self, number: int, table: Table, writer: Writer, columns: Sequence[int]) -> None:
        self.number = number
        self.table = table
        self.columns = columns
        self._writer = writer
        self._caption = one_line(table.caption)
        self._names = [one_line(table.header[column]) for column in columns]
        description = one_line(table.description)
        self.description = escaped(shortened(description, _LONGEST_DESCRIPTION))
        if description.casefold() == self._caption.casefold():
            self.description = ""
        self._cells: dict[int, list[str]] = {}

    def caption(self, limit: int | None) -> str:
        """The caption; where columns are cut to so many characters, cut to four times as many."""
        return escaped(shortened(self._caption, _LONGEST_CAPTION if limit is None else 4 * limit - 3))

    def title(self, limit: int | None, described: bool) -> str:
        """The caption and, where it is wanted, the description."""
        return " - ".join(filter(None, (self.caption(limit), self.description if described else "")))

    def head(self, limit: int | None) -> str:
        """The column names as they stand before the rows, each of at most so many characters."""
        return self._writer.head([shortened(name, limit or _LONGEST_NAME) for name in self._names])

    def row(self, number: int, limit: int | None = None) -> str:
        """A row, its cells whole or of at most so many characters."""
        cells = self._row(number)
        return self._writer.row(cells if limit is None else [shortened(cell, limit) for cell in cells])

    def body(self, limit: int | None, rows: Mapping[int, int | None]) -> str:
        """The table as it stands in the prompt.

        Args:
            limit: The most characters of a column name.
            rows: The rows that are shown, each with the most characters of a cell.
        """
        return self._writer.body(self.head(limit), [self.row(row, rows[row]) for row in sorted(rows)])

    def longest(self, row: int | None) -> int:
        """The characters of the longest cell of a row, or of the longest name where it is None."""
        return max(map(len, self._names if row is None else self._row(row)), default=1)

    def cut_cells(self, limit: int | None, rows: Mapping[int, int | None]) -> int:
        """How many cells and names are shown in part."""
        names = _longer(self._names, limit or _LONGEST_NAME)
        return names + sum(_longer(self._row(row), most) for row, most in rows.items() if most is not None)

    def skeleton(self, limit: int | None) -> str:
        """All that a table has beside its rows and its description, to be counted."""
        note = f"Table {self.number}: {self.caption(limit)} ({len(self.table.rows)} of {self.table.n_rows} rows)"
        return f"<table{self.number}>{note}\n{self._writer.body(self.head(limit), [''])}\n</table{self.number}>\n"

    def _row(self, number: int) -> list[str]:
        cells = self._cells.get(number)
        if cells is None:
            row = self.table.rows[number]
            cells = self._cells[number] = [one_line(row[column]) for column in self.columns]
        return cells


def _longer(texts: Sequence[str], limit: int) -> int:
    return sum(len(text) > limit for text in texts)
