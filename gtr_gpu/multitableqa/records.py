"""What every source is read into: tables and questions as their authors released them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A whole table of a source.

    Attributes:
        source_id: Its name within the data set, unique there.
        caption: Its title, or the empty string.
        header: The K column names.
        rows: The cells, each row exactly K texts.
        dataset: The data set that it comes from: tabfact, wtq, sqa, hybridqa, tatqa.
        same_as: The name in WikiTableQuestions of the table that this one is a copy of, where the source tells (SQA).
    """

    source_id: str
    caption: str
    header: list[str]
    rows: list[list[str]]
    dataset: str
    same_as: str | None = None


@dataclass(frozen=True, slots=True)
class SourceQuestion:
    """A question, or a statement to verify, about one table.

    Attributes:
        question_id: Its name within the data set, unique there.
        text: The question as released.
        table_id: The `source_id` of its table.
        answers: All answers; "1" or "0" for a statement; () where they are not public.
        coordinates: The cells of the answer as (row, column), both from 0, where the source tells.
        history: The questions before it in its sequence, in order.
        sequence: The name of its sequence, where it is one of several that build on each other (SQA).
        position: Its place in the sequence, from 0.
        kind: "question" or "statement".
        evidence_from: Where the answer stands, where the source tells (TAT-QA): "table", "text" or "table-text".
        dataset: The data set that it comes from, as in `SourceTable`.
    """

    question_id: str
    text: str
    table_id: str
    answers: tuple[str, ...]
    coordinates: tuple[tuple[int, int], ...] | None = None
    history: tuple[str, ...] = ()
    sequence: str | None = None
    position: int = 0
    kind: str = "question"
    evidence_from: str | None = None
    dataset: str = ""
