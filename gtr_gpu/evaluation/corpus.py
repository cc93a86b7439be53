"""What a method is shown of a task: tables and questions without anything that tells the answer.

A method gets the caption, the header and the rows of each table, under an id and in an order that neither the task's
ids nor its order of lines have a part in: tables are sorted by a keyed hash of what they hold. So another file with the
same tables in another order, under other ids, gives every method the same input, and nothing leaks through either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.task import Question, Task
from gtr_gpu.ragged import Ragged
from gtr_gpu.tables import Table

QuestionSet = Literal["built", "raw"]
Split = Literal["tune", "report", "all"]


@dataclass(frozen=True)
class Corpus:
    """The tables of a task as a method sees them.

    Attributes:
        tables: Copies of the tables' caption, header and rows under opaque ids, in the harness's order.
        places: Where each of them stands in the task, `[N]`, int64.
        fingerprint: A hash of what the tables hold, in order.
    """

    tables: tuple[Table, ...]
    places: Tensor
    fingerprint: str


@dataclass(frozen=True)
class Asked:
    """The questions of a run, in the harness's order, with what only the harness knows of them.

    Attributes:
        texts: The Q questions: all that a method is given.
        numbers: Which of the task's questions each is, `[Q]`, int64.
        gold: The gold tables of each, as numbers of `Corpus.tables`, Q rows.
        groups: A number for the source table of each, `[Q]`, int64.
        n_all: How many there were before a sample was drawn.
        fingerprint: A hash of the questions before a sample was drawn, of their gold tables, and of where both stand
            in the task. Runs that share it can be compared question by question.
    """

    texts: list[str]
    numbers: npt.NDArray[np.int64]
    gold: Ragged
    groups: npt.NDArray[np.int64]
    n_all: int
    fingerprint: str

    def __len__(self) -> int:
        return len(self.texts)


def blind(task: Task, seed: int = 0) -> Corpus:
    """The tables of a task as a method may see them.

    Args:
        task: The task; of its tables only caption, header and rows are read.
        seed: Of the order and the ids.
    """
    hashes = [_hash(seed, _content(table)) for table in task.tables]
    # Tables that hold the same stay in the task's order, which makes no difference to anyone.
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    tables = []
    digest = hashlib.blake2b(digest_size=16)
    for number, place in enumerate(order):
        table = task.tables[place]
        name = _hash(seed, f"id {number}".encode())[:6].hex()
        tables.append(Table(name, table.caption, list(table.header), [list(row) for row in table.rows]))
        digest.update(hashes[place])
    return Corpus(tuple(tables), torch.tensor(order, dtype=torch.int64), digest.hexdigest())


def questions_of(task: Task, questions: QuestionSet, split: Split) -> list[tuple[int, Question]]:
    """The questions of one set and split, each with its number in the set.

    Raises:
        GTRError: There are none.
    """
    pool: Sequence[Question] = task.questions if questions == "built" else task.raw
    chosen = [(number, question) for number, question in enumerate(pool) if split in ("all", question.split)]
    if not chosen:
        has = ", ".join(sorted({question.split for question in pool})) or "none at all"
        raise GTRError(
            f"{task.name}/{task.protocol} has no {questions} questions of split {split} (it has: {has}); choose "
            "another set of questions or another split"
        )
    return chosen


def ask(
    task: Task, corpus: Corpus, questions: QuestionSet, split: Split, sample: int | None = None, seed: int = 0
) -> Asked:
    """The questions of one set and split, in an order that tells nothing.

    Args:
        task: The task.
        corpus: Its tables as a method sees them.
        questions: Those that were built, or those that the source released.
        split: Which split's questions; the corpus is always whole.
        sample: Asks only so many; a smaller sample is a part of a larger one of the same seed.
        seed: Of the order and so of the sample.

    Raises:
        GTRError: There are no such questions.
    """
    chosen = questions_of(task, questions, split)
    chosen.sort(key=lambda one: _hash(seed, f"{one[1].text}\n{json.dumps(_captions(task, one[1]))}".encode()))
    seen_as = torch.empty_like(corpus.places)
    seen_as[corpus.places] = torch.arange(len(corpus.places))
    gold = [seen_as[task.gold(question)].sort().values for _, question in chosen]
    digest = hashlib.blake2b(corpus.fingerprint.encode() + corpus.places.numpy().tobytes(), digest_size=16)
    for (number, question), rows in zip(chosen, gold, strict=True):
        digest.update(f"{number}\n{question.text}\n{rows.tolist()}\n".encode("utf-8", "surrogatepass"))
    n_all = len(chosen)
    chosen = chosen[:sample]
    groups = {source: number for number, source in enumerate(dict.fromkeys(one.source for _, one in chosen))}
    return Asked(
        [question.text for _, question in chosen],
        np.array([number for number, _ in chosen], dtype=np.int64),
        Ragged.from_rows(gold[:sample]),
        np.array([groups[question.source] for _, question in chosen], dtype=np.int64),
        n_all,
        digest.hexdigest(),
    )


def _captions(task: Task, question: Question) -> list[str]:
    """Tells questions with one text apart by what they are about rather than by where they stand."""
    return sorted(_hash(0, _content(task.tables[row])).hex() for row in task.gold(question))


def _content(table: Table) -> bytes:
    return json.dumps([table.caption, table.header, table.rows]).encode()


def _hash(seed: int, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, key=str(seed).encode()).digest()
