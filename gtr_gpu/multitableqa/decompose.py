"""Cuts a table into sub-tables, along its rows or along its columns, and puts them together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.records import SourceTable
from gtr_gpu.multitableqa.settings import draw, shuffled

Kind = Literal["rows", "columns", "whole"]

# A sub-table of one row is a record and no table.
_MIN_ROWS = 2


@dataclass(frozen=True)
class SubTable:
    """A sub-table.

    Attributes:
        kind: How its table was cut.
        row_ids: Which rows of the table these are, rising.
        column_ids: Which columns, rising.
        header: The K names of those columns.
        rows: The cells, each row K texts.
    """

    kind: Kind
    row_ids: tuple[int, ...]
    column_ids: tuple[int, ...]
    header: list[str]
    rows: list[list[str]]


def decompose(table: SourceTable, seed: int, n_parts: int = 3) -> list[SubTable]:
    """Cuts a table into about `n_parts` sub-tables of nearly equal size.

    Along the rows, the parts are disjoint sets of at least two rows, all with the whole header. Along the columns,
    the first column, which is mostly the key, is in every part and each other column in exactly one. Which of the two
    is drawn among those that give the most parts, and a table that neither cuts in two stays whole.

    Which rows and columns go together is drawn as well, and their order kept. Blocks of neighbours would follow how
    the table is sorted: one part would have all early years or all top ranks, so that a question would name its part
    by its range, and parts of one table would have nothing in common.

    Args:
        table: The table.
        seed: Decides the choices, together with the table's name.
        n_parts: The number of parts where the table is large enough.

    Returns:
        The parts, by their first row or column.
    """
    n_rows, n_columns = len(table.rows), len(table.header)
    reach: dict[Kind, int] = {
        "rows": min(n_parts, n_rows // _MIN_ROWS),
        "columns": min(n_parts, n_columns - 1) if n_rows else 0,
    }
    most = max(reach.values())
    if most < 2:
        return whole(table)
    kinds = [kind for kind, count in reach.items() if count == most]
    kind = kinds[draw(seed, "kind", table.source_id) % len(kinds)]
    if kind == "rows":
        every = tuple(range(n_columns))
        return [_part(table, kind, ids, every) for ids in _deal(n_rows, most, seed, table.source_id)]
    dealt = _deal(n_columns - 1, most, seed, table.source_id)
    return [_part(table, kind, tuple(range(n_rows)), (0, *(column + 1 for column in ids))) for ids in dealt]


def whole(table: SourceTable) -> list[SubTable]:
    """The table as its own only part."""
    return [_part(table, "whole", tuple(range(len(table.rows))), tuple(range(len(table.header))))]


def recompose(parts: Sequence[SubTable]) -> tuple[list[str], list[list[str]]]:
    """Puts the parts of one table together again, in any order.

    Returns:
        The header and the rows of the table.

    Raises:
        GTRError: A part is missing, or parts disagree about a cell or a name.
    """
    n_rows = 1 + max((row for part in parts for row in part.row_ids), default=-1)
    n_columns = 1 + max((column for part in parts for column in part.column_ids), default=-1)
    header: list[str | None] = [None] * n_columns
    cells: list[list[str | None]] = [[None] * n_columns for _ in range(n_rows)]
    for part in parts:
        _fill(header, part.column_ids, part.header)
        for row, texts in zip(part.row_ids, part.rows, strict=True):
            _fill(cells[row], part.column_ids, texts)
    return _complete(header), [_complete(row) for row in cells]


def _deal(count: int, hands: int, seed: int, name: str) -> list[tuple[int, ...]]:
    """Deals the numbers below `count` into hands whose sizes differ by one at most, each sorted."""
    order = shuffled(count, seed, "deal", name)
    return sorted(tuple(sorted(order[hand::hands])) for hand in range(hands))


def _part(table: SourceTable, kind: Kind, row_ids: tuple[int, ...], column_ids: tuple[int, ...]) -> SubTable:
    header = [table.header[column] for column in column_ids]
    rows = [[table.rows[row][column] for column in column_ids] for row in row_ids]
    return SubTable(kind, row_ids, column_ids, header, rows)


def _fill(target: list[str | None], places: Sequence[int], texts: Sequence[str]) -> None:
    for place, text in zip(places, texts, strict=True):
        if target[place] not in (None, text):
            raise GTRError(f"the parts are not of one table: one has {text!r} where another has {target[place]!r}")
        target[place] = text


def _complete(texts: Sequence[str | None]) -> list[str]:
    found = [text for text in texts if text is not None]
    if len(found) < len(texts):
        raise GTRError("a part of the table is missing: some cells are in none of those that are there")
    return found
