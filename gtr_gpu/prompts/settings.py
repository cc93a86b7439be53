"""What a prompt is to look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gtr_gpu.errors import GTRError

TableFormat = Literal["markdown", "csv", "json", "html"]
AnswerKind = Literal["short", "list", "verification"]

TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
ANSWER_KINDS: tuple[AnswerKind, ...] = get_args(AnswerKind)


@dataclass(frozen=True)
class Example:
    """A question with a good output, which a prompt shows before it asks its own.

    Attributes:
        question: The question.
        reasoning: The steps, as one text.
        answer: The answer, or the items of a list.
    """

    question: str
    reasoning: str
    answer: str | Sequence[str]


@dataclass(frozen=True)
class PromptSettings:
    """The settings of all prompts of a run.

    Attributes:
        prompt_tokens: The most tokens of a prompt, chat template included.
        table_format: How tables are written.
        answer_kind: What is asked for: a `short` answer, a `list`, or whether a statement is true (`verification`).
        relations: Whether the relations among the tables are told.
        max_relations: The most relations that are told, the strongest first.
        reasoning: Whether the reasoning steps are asked for; otherwise the answer alone is.
        examples: Few-shot examples.
        templates: A folder whose templates stand in for those of the same name here; None takes ours.
    """

    prompt_tokens: int = 4096
    table_format: TableFormat = "markdown"
    answer_kind: AnswerKind = "short"
    relations: bool = True
    max_relations: int = 20
    reasoning: bool = True
    examples: tuple[Example, ...] = ()
    templates: Path | None = None

    def __post_init__(self) -> None:
        for name, known in (("table_format", TABLE_FORMATS), ("answer_kind", ANSWER_KINDS)):
            if getattr(self, name) not in known:
                raise GTRError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if self.prompt_tokens < 1:
            raise GTRError(f"prompt_tokens must be at least 1, got {self.prompt_tokens}")
        if self.max_relations < 0:
            raise GTRError(f"max_relations must be at least 0, got {self.max_relations}")
