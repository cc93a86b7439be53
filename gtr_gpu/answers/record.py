"""What came of a question: its answer with all that it rests on, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gtr_gpu.answers.answer import Answer, AnswerValue
from gtr_gpu.language_models.model import Completion
from gtr_gpu.prompts.prompt import Prompt


@dataclass(frozen=True)
class ReadTable:
    """A table that the model was given.

    Attributes:
        number: Its number in the prompt, from 1, which is its rank.
        table_id: Its name in the index.
        caption: Its caption, or the empty string.
        cited: Whether the answer or its reasoning cites it.
        rows_shown: How many of its rows were in the prompt.
        rows: How many it has.
    """

    number: int
    table_id: str
    caption: str
    cited: bool
    rows_shown: int
    rows: int


@dataclass(frozen=True)
class UsedCell:
    """A cell that an answer rests on.

    Attributes:
        table: The table's number in the prompt, from 1.
        table_id: The table's name in the index.
        row: The row's number in the table, from 0.
        column: The name of the column, or its number from 1 where it has no name.
        text: The cell's text.
    """

    table: int
    table_id: str
    row: int
    column: str
    text: str


@dataclass(frozen=True)
class Answered:
    """A question that a model was asked.

    Attributes:
        query_id: The question's name.
        query: The question.
        answer: A text, the items of a list, or None where there is no answer.
        reasoning: Why, or the empty string.
        tables: The tables of the prompt.
        cells: The cells that answer and reasoning quote.
        unknown_tables: Numbers that the model cites of tables that it was not given.
        left_out_tables: How many of the tables found had no room in the prompt.
        model: The model's name.
        prompt_tokens: How long the prompt was.
        completion_tokens: How much the model wrote, where it is told.
        finish_reason: Why it stopped: `stop`, `length` at its limit, or a word of the server's; `no tables` where none
            was found, so that the model was not asked.
        seconds: How long the model took.
        raw: Its output, as it came.
        earlier: Whether the answer is one of an earlier run; no part of the JSON.
    """

    query_id: str | int
    query: str
    answer: AnswerValue | None
    reasoning: str
    tables: tuple[ReadTable, ...]
    cells: tuple[UsedCell, ...]
    unknown_tables: tuple[int, ...]
    left_out_tables: int
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    finish_reason: str | None
    seconds: float
    raw: str
    earlier: bool = False

    @property
    def reached_limit(self) -> bool:
        """Whether the model stopped at its limit of tokens."""
        return reached_limit(self.finish_reason)

    @classmethod
    def of(cls, query_id: str | int, prompt: Prompt, answer: Answer, completion: Completion, model: str) -> Answered:
        """Puts together what is known of a question."""
        tables = tuple(
            ReadTable(
                number=shown.number,
                table_id=shown.table.table_id,
                caption=shown.table.caption,
                cited=shown.number in answer.tables,
                rows_shown=len(shown.rows),
                rows=shown.table.n_rows,
            )
            for shown in prompt.tables
        )
        cells = tuple(
            UsedCell(
                table=cell.table,
                table_id=prompt.tables[cell.table - 1].table.table_id,
                row=cell.row,
                column=prompt.tables[cell.table - 1].table.header[cell.column].strip() or str(cell.column + 1),
                text=cell.text,
            )
            for cell in answer.cells
        )
        return cls(
            query_id=query_id,
            query=prompt.question,
            answer=answer.value,
            reasoning=answer.reasoning,
            tables=tables,
            cells=cells,
            unknown_tables=answer.unknown_tables,
            left_out_tables=prompt.left_out_tables,
            model=model,
            prompt_tokens=prompt.n_tokens if completion.prompt_tokens is None else completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            finish_reason=completion.finish_reason,
            seconds=completion.seconds,
            raw=answer.raw,
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "query_id": self.query_id,
            "query": self.query,
            "answer": list(self.answer) if isinstance(self.answer, tuple) else self.answer,
            "reasoning": self.reasoning,
            "tables": [vars(table).copy() for table in self.tables],
            "cells": [vars(cell).copy() for cell in self.cells],
            "unknown_tables": list(self.unknown_tables),
            "left_out_tables": self.left_out_tables,
            "model": self.model,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "finish_reason": self.finish_reason,
            "seconds": round(self.seconds, 3),
            "raw": self.raw,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Answered:
        """The inverse of `to_json`, for an answer of an earlier run.

        Raises:
            KeyError: A field is missing.
        """
        answer = fields["answer"]
        names = ("query_id", "query", "reasoning", "left_out_tables", "model", "prompt_tokens", "completion_tokens")
        return cls(
            **{name: fields[name] for name in (*names, "finish_reason", "seconds", "raw")},
            answer=tuple(answer) if isinstance(answer, list) else answer,
            tables=tuple(ReadTable(**table) for table in fields["tables"]),
            cells=tuple(UsedCell(**cell) for cell in fields["cells"]),
            unknown_tables=tuple(fields["unknown_tables"]),
            earlier=True,
        )


@dataclass(frozen=True)
class Unanswered:
    """A question of which no completion came; asking again is the remedy.

    Attributes:
        query_id: The question's name.
        query: The question.
        error: Why, in one sentence.
    """

    query_id: str | int
    query: str
    error: str

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"query_id": self.query_id, "query": self.query, "error": self.error}


def reached_limit(finish_reason: str | None) -> bool:
    """Whether a model stopped at its limit of tokens, in the words of several servers."""
    return finish_reason in ("length", "max_tokens", "model_length")


def was_cut(finish_reason: str | None) -> bool:
    """Whether an output ends where a limit or a filter cut it, so that its end may be half a word."""
    return reached_limit(finish_reason) or finish_reason == "content_filter"
