"""Which sub-tables of a table hold the evidence of a question, where its source tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gtr_gpu.multitableqa.decompose import SubTable
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable

Cells = Mapping[str, Sequence[tuple[int, int]]]


def index_cells(table: SourceTable) -> dict[str, list[tuple[int, int]]]:
    """The places (row, column) of each text of a table, as `find_evidence` compares texts."""
    places: dict[str, list[tuple[int, int]]] = {}
    for row, cells in enumerate(table.rows):
        for column, cell in enumerate(cells):
            places.setdefault(_folded(cell), []).append((row, column))
    return places


def find_evidence(question: SourceQuestion, parts: Sequence[SubTable], cells: Cells) -> tuple[int, ...] | None:
    """The parts that hold the cells of a question's answers.

    Coordinates that the source gives are taken as they are. Else every answer is looked for as the whole text of a
    cell, upper and lower case alike, and tells where to look only if all the cells that hold it are in the same parts.
    Numbers of one or two digits tell nothing, since a count is often found in some cell by chance; nor do statements,
    nor answers that stand in the text around the table.

    Args:
        question: The question.
        parts: The sub-tables of its table.
        cells: The places of the table's texts.

    Returns:
        The numbers of the parts, rising, or None where the source does not tell.
    """
    found: set[int] = set()
    if question.coordinates is not None:
        for row, column in question.coordinates:
            found |= _holders(row, column, parts)
        return tuple(sorted(found)) or None
    if question.kind == "statement" or question.evidence_from == "text" or not question.answers:
        return None
    for answer in question.answers:
        text = _folded(answer)
        places = cells.get(text, ())
        if not places or (text.isdigit() and len(text) < 3):
            return None
        holders = {frozenset(_holders(row, column, parts)) for row, column in places}
        if len(holders) > 1:
            return None
        found |= holders.pop()
    return tuple(sorted(found))


def _holders(row: int, column: int, parts: Sequence[SubTable]) -> set[int]:
    return {number for number, part in enumerate(parts) if row in part.row_ids and column in part.column_ids}


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
