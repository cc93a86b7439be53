"""The questions of a task whose answers can be scored."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation.answering.measures import score
from gtr_gpu.evaluation.corpus import Asked
from gtr_gpu.multitableqa.task import Question, Task
from gtr_gpu.prompts.settings import AnswerKind
from gtr_gpu.ragged import Ragged


@dataclass(frozen=True)
class Answerable:
    """The Q questions of a run that have a public answer, in the harness's order.

    Attributes:
        texts: The questions: all that retrieval, prompts and models are given.
        numbers: Which of the task's questions each is, `[Q]`, int64.
        gold_tables: The gold tables of each, as numbers of `Corpus.tables`, Q rows.
        groups: A number for the source table of each, `[Q]`, int64.
        answers: The gold items of each; never empty.
        n_answerable: How many have a public answer, before a sample was drawn.
        n_skipped: How many have none.
        fingerprint: A hash of which questions these are and of their gold; runs that share it can be compared.
    """

    texts: list[str]
    numbers: npt.NDArray[np.int64]
    gold_tables: Ragged
    groups: npt.NDArray[np.int64]
    answers: list[tuple[str, ...]]
    n_answerable: int
    n_skipped: int
    fingerprint: str

    def __len__(self) -> int:
        return len(self.texts)


def answerable(
    task: Task, asked: Asked, pool: tuple[Question, ...], kind: AnswerKind, sample: int | None
) -> Answerable:
    """Leaves out the questions without a public answer, and draws a sample of the others.

    Args:
        task: The task, for messages.
        asked: All questions of a set and split, in the harness's order.
        pool: The set that `asked.numbers` counts in.
        kind: The kind of the task's answers.
        sample: Keeps only so many; a smaller sample is a part of a larger one of the same seed.

    Raises:
        GTRError: No question has a public answer, or one has an answer that can't be scored.
    """
    answers = [gold_items(pool[number]) for number in asked.numbers.tolist()]
    rows = [row for row, items in enumerate(answers) if items]
    if not rows:
        raise GTRError(
            f"{task.name}/{task.protocol}: none of its {len(answers):,} questions has a public answer, so that no "
            "answer can be scored; choose another split or another task"
        )
    for row in rows:  # before hours of asking
        try:
            score(kind, answers[row], None)
        except GTRError as error:
            raise GTRError(f"{task.name}/{task.protocol}, question {asked.numbers[row] + 1}: {error}") from None
    n_answerable = len(rows)
    rows = rows[:sample]
    digest = hashlib.blake2b(asked.fingerprint.encode(), digest_size=16)
    for row in rows:
        digest.update(f"{asked.numbers[row]}\n{answers[row]}\n".encode("utf-8", "surrogatepass"))
    return Answerable(
        [asked.texts[row] for row in rows],
        asked.numbers[rows],
        asked.gold.select(torch.tensor(rows)),
        asked.groups[rows],
        [answers[row] for row in rows],
        n_answerable,
        len(answers) - n_answerable,
        digest.hexdigest(),
    )


def gold_items(question: Question) -> tuple[str, ...]:
    """The items of a question's public answer; a blank cell is nothing that an answer could name."""
    return tuple(item for item in question.label if item.strip())
