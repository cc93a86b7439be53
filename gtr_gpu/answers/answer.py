"""An answer: what was said, why, and by which tables and cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

AnswerValue = str | tuple[str, ...]
"""What an answer says: a text, or the items of a list."""


class CitedCell(NamedTuple):
    """A cell that an answer rests on.

    Attributes:
        table: The table's number in the prompt, from 1.
        row: The row's number in the table, from 0.
        column: The column's number in the table, from 0.
        text: The cell's text.
    """

    table: int
    row: int
    column: int
    text: str


@dataclass(frozen=True)
class Answer:
    """What a model's output says.

    Attributes:
        value: The answer: a text, the items of a list, or None where the model gave none.
        reasoning: Its reasoning, or the empty string.
        tables: Numbers of the prompt's tables that it cites, in order of their first mention.
        unknown_tables: Numbers that it cites of tables that were not in the prompt.
        cells: The cells of the cited tables, or of all where none is cited, that its answer and its reasoning quote.
        raw: The model's output, as it came.
    """

    value: AnswerValue | None
    reasoning: str
    tables: tuple[int, ...]
    unknown_tables: tuple[int, ...]
    cells: tuple[CitedCell, ...]
    raw: str
