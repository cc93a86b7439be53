"""A graph-aware prompt: what it says, which tables and rows are in it, and what had to be left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from gtr_gpu.tables.table import Table

RelationType = Literal["similarity", "same_schema", "same_caption", "shared_key"]


class PromptRelation(NamedTuple):
    """That two tables of a prompt are related.

    Attributes:
        source: The number of one table in the prompt, from 1.
        target: The number of the other one, greater than `source`.
        type: What relates them.
        score: How strongly, from 0 to 1.
    """

    source: int
    target: int
    type: RelationType
    score: float


@dataclass(frozen=True)
class PromptTable:
    """One table as a prompt shows it.

    Attributes:
        number: Its number in the prompt, from 1, which is its rank.
        table: The whole table.
        rows: The numbers of its rows that are shown, rising, from 0.
        cut_cells: How many of its cells and column names are shown in part only.
        left_out_columns: How many of its columns are not shown, of a table of very many.
    """

    number: int
    table: Table
    rows: tuple[int, ...]
    cut_cells: int = 0
    left_out_columns: int = 0

    @property
    def left_out_rows(self) -> int:
        """How many of its rows are not shown, those included that the index doesn't hold."""
        return self.table.n_rows - len(self.rows)


@dataclass(frozen=True)
class Prompt:
    """The prompt of one question.

    Attributes:
        question: The question as it was asked.
        text: The whole prompt.
        tables: The tables that are in it, best first; their numbers are 1, 2, ….
        relations: The relations that are in it, the strongest first.
        left_out_tables: How many of the tables that were given are not in it at all.
        n_tokens: Its length in tokens as the model is given it, chat template included.
        counted_by: What counted them: the name of a tokenizer, or `estimate`.
    """

    question: str
    text: str
    tables: tuple[PromptTable, ...]
    relations: tuple[PromptRelation, ...]
    left_out_tables: int
    n_tokens: int
    counted_by: str

    def to_json(self) -> dict[str, Any]:
        """The prompt as plain values."""
        return {
            "query": self.question,
            "prompt": self.text,
            "tables": [
                {
                    "number": shown.number,
                    "table_id": shown.table.table_id,
                    "caption": shown.table.caption,
                    "rows_shown": len(shown.rows),
                    "rows": shown.table.n_rows,
                    "cut_cells": shown.cut_cells,
                    "left_out_columns": shown.left_out_columns,
                }
                for shown in self.tables
            ],
            "left_out_tables": self.left_out_tables,
            "relations": [
                {"source": one.source, "target": one.target, "type": one.type, "score": round(one.score, 3)}
                for one in self.relations
            ],
            "prompt_tokens": self.n_tokens,
            "counted_by": self.counted_by,
        }
