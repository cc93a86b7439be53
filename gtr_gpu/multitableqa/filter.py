"""Which tables go into a benchmark: copies and duplicates go out with their questions kept, and what is too simple."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.settings import Settings


def find_copies(tables: Sequence[SourceTable]) -> dict[str, str]:
    """Tables that say themselves which other table of the pool they are a copy of.

    Returns:
        By the name of each copy, that of its original.
    """
    known = {table.source_id for table in tables}
    return {
        table.source_id: table.same_as
        for table in tables
        if table.same_as is not None and table.same_as in known and table.same_as != table.source_id
    }


def find_duplicates(tables: Sequence[SourceTable]) -> dict[str, str]:
    """Tables whose header and rows are those of another one, whatever their captions.

    Two such tables can't be told apart where captions are withheld. The first with a caption is kept, or the first.

    Returns:
        By the name of each table to remove, that of the one to keep.
    """
    alike: dict[bytes, list[SourceTable]] = {}
    for table in tables:
        content = json.dumps([table.header, table.rows]).encode()
        alike.setdefault(hashlib.blake2b(content, digest_size=16).digest(), []).append(table)
    found: dict[str, str] = {}
    for group in alike.values():
        kept = next((table for table in group if table.caption), group[0])
        found.update({table.source_id: kept.source_id for table in group if table is not kept})
    return found


def remove(
    tables: Sequence[SourceTable], questions: Sequence[SourceQuestion], moved: Mapping[str, str]
) -> tuple[list[SourceTable], list[SourceQuestion]]:
    """Removes tables; their questions move to the tables that stand for them.

    The cells of an answer are kept only where both tables are of one shape.

    Args:
        tables: The tables.
        questions: The questions.
        moved: By the name of each table to remove, that of the one that stands for it.
    """
    shapes = {table.source_id: (len(table.rows), len(table.header)) for table in tables}

    def move(question: SourceQuestion) -> SourceQuestion:
        target = moved.get(question.table_id)
        if target is None:
            return question
        same = shapes[question.table_id] == shapes[target]
        return replace(question, table_id=target, coordinates=question.coordinates if same else None)

    return [table for table in tables if table.source_id not in moved], [move(question) for question in questions]


def too_simple(table: SourceTable, settings: Settings) -> str | None:
    """Why a table is too simple to be cut: "rows", "columns", "distinct" or "empty", the first that holds; or None."""
    if len(table.rows) < settings.min_rows:
        return "rows"
    if len(table.header) < settings.min_columns:
        return "columns"
    cells = [cell for row in table.rows for cell in row]
    filled = [cell for cell in cells if cell.strip()]
    if len(set(filled)) < settings.min_distinct:
        return "distinct"
    if len(cells) - len(filled) > settings.max_empty * len(cells):
        return "empty"
    return None
