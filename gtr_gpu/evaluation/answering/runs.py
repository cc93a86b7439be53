"""What runs of answers leave in a folder: for each a file with its figures and what became of every question."""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gtr_gpu.answers.answer import AnswerValue
from gtr_gpu.evaluation.results import Record

FOLDER_NAME, JOURNALS_NAME = "answers", "journals"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What became of one question.

    Attributes:
        number: Which of the task's questions it is.
        question: Its text.
        group: A number for its source table.
        gold: The gold items.
        answer: The answer, or None where the model gave none.
        error: Why there is no completion; None where there is one.
        scores: Each metric.
        found: Whether all of its gold tables were found.
        shown: Whether all of them were in the prompt.
        cites_gold: Whether the answer cites one of them.
        unknown_tables: How many tables it cites that were not in the prompt.
        prompt_tokens: Tokens that the model read, as it told, or as they were counted for the prompt.
        completion_tokens: Tokens that it wrote, where that was told.
        seconds: From the request to the last token, where there is a completion.
        cut_short: Whether the model came to its limit of tokens.
    """

    number: int
    question: str
    group: int
    gold: tuple[str, ...]
    answer: AnswerValue | None
    error: str | None
    scores: Mapping[str, float]
    found: bool
    shown: bool
    cites_gold: bool
    unknown_tables: int
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float | None
    cut_short: bool

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Outcome:
        """What `to_json` gave."""
        answer = fields["answer"]
        lists = {"gold": tuple(fields["gold"]), "answer": tuple(answer) if isinstance(answer, list) else answer}
        return cls(**{**fields, **lists})


@dataclass(frozen=True)
class Run:
    """One run: a task's questions, a variant and a k.

    Attributes:
        record: Its settings and figures.
        outcomes: What became of each question.
    """

    record: Record
    outcomes: list[Outcome]


class Runs:
    """A folder of runs.

    Attributes:
        folder: Where their files are; made by the first run.
    """

    def __init__(self, results: Path) -> None:
        self.folder = results / FOLDER_NAME

    def save(self, run: Run) -> None:
        """Writes a run at once or not at all, in place of an earlier one of its key."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{run.record['key']}.json"
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        lines = [json.dumps(run.record), *(json.dumps(one.to_json(), ensure_ascii=True) for one in run.outcomes)]
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write("[" + ",\n".join(lines) + "]\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def all(self) -> list[Run]:
        """All runs, the newest last. A file that is damaged is told and left out."""
        runs = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                record, *outcomes = json.loads(path.read_text(encoding="utf-8"))
                runs.append((str(record["finished"]), Run(record, [Outcome.from_json(one) for one in outcomes])))
            except (ValueError, KeyError, TypeError) as error:
                reason = f"{type(error).__name__}: {error}"
                logger.warning("%s is left out (%s); the same command scores it anew", path, reason)
        return [run for _, run in sorted(runs, key=lambda one: one[0])]
