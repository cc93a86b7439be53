"""What is to be asked, and the ablations of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.model import DEFAULT_NEW_TOKENS
from gtr_gpu.prompts.examples import packaged_examples
from gtr_gpu.prompts.settings import ANSWER_KINDS, AnswerKind, PromptSettings

if TYPE_CHECKING:
    from gtr_gpu.evaluation.corpus import QuestionSet, Split

VariantName = Literal["full", "no-relations", "no-reasoning"]

VARIANTS: tuple[VariantName, ...] = get_args(VariantName)
"""The ablations of the paper: the whole prompt, one without relations, one without the reasoning steps."""

MOST_TABLES = 1000


@dataclass(frozen=True)
class AnswerPlan:
    """What is to be asked of each task.

    Attributes:
        cuts: How many tables are found for each question, each in a run of its own.
        variants: Names of `VARIANTS`.
        prompt: The settings of prompts; the kind of answer is the task's, and the variants change their own.
        few_shot: Shows so many of the packaged examples of the task's kind, in place of those of `prompt`.
        max_new_tokens: The most tokens of a completion.
        split: Whose questions are asked.
        questions: Those that were built, or those that were released.
        sample: Asks only so many of the questions that have a public answer.
        seed: Of orders, ids, samples and intervals.
    """

    cuts: Sequence[int] = (10, 20, 50)
    variants: Sequence[VariantName] = VARIANTS
    prompt: PromptSettings = field(default_factory=PromptSettings)
    few_shot: int = 0
    max_new_tokens: int = DEFAULT_NEW_TOKENS
    split: Split = "report"
    questions: QuestionSet = "built"
    sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for cut in self.cuts:
            if not 1 <= cut <= MOST_TABLES:
                raise GTRError(f"k must be from 1 to {MOST_TABLES} tables, got {cut}")
        for name in self.variants:
            if name not in VARIANTS:
                raise GTRError(f"there is no variant {name!r}; there are {', '.join(VARIANTS)}")
        if self.sample is not None and self.sample < 1:
            raise GTRError(f"sample must be at least 1 question, got {self.sample}")
        most = min(len(packaged_examples(kind)) for kind in ANSWER_KINDS)
        if not 0 <= self.few_shot <= most:
            raise GTRError(f"few_shot must be from 0 to {most} packaged examples, got {self.few_shot}")
        if self.few_shot and self.prompt.examples:
            raise GTRError("examples come either from a file or, by few_shot, from the package; leave one out")
        if self.max_new_tokens < 1:
            raise GTRError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")

    def prompt_of(self, variant: VariantName, kind: AnswerKind) -> PromptSettings:
        """The settings of a variant's prompts for one kind of answer."""
        examples = packaged_examples(kind)[: self.few_shot] if self.few_shot else self.prompt.examples
        return replace(
            self.prompt,
            answer_kind=kind,
            examples=examples,
            relations=variant != "no-relations",
            reasoning=variant != "no-reasoning",
        )


def kind_of(task: str) -> AnswerKind:
    """What a task asks for, by its name alone: a label would tell how many items an answer has.

    Questions on tables have one item or several, and merged ones an item for each part, so all are asked for lists.
    """
    return "verification" if task.startswith("tfv") else "list"
