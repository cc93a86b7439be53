"""What runs leave in a folder: a line of JSON for each, and its rankings, so that none is ever done twice."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation.corpus import Asked, Corpus
from gtr_gpu.evaluation.methods.method import Ranking
from gtr_gpu.ragged import Ragged

RECORDS_NAME = "results.jsonl"
RANKINGS_NAME = "rankings"

Record = dict[str, Any]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ranked:
    """The rankings of one run, in the task's own numbers.

    Attributes:
        numbers: Which of the task's questions were asked, `[Q]`, int64.
        groups: The source table of each, as a number, `[Q]`, int64.
        ids: Rows of the task's tables, best first, `[Q, k]`, int32; -1 where there are fewer.
        scores: Their scores, `[Q, k]`, float32.
        gold: The gold rows of each question, Q rows.
    """

    numbers: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    ids: Tensor
    scores: Tensor
    gold: Ragged

    @classmethod
    def of(cls, ranking: Ranking, asked: Asked, corpus: Corpus) -> Ranked:
        """A method's ranking, translated from the numbers that it was shown."""
        ids = corpus.places[ranking.ids.clamp_min(0)].masked_fill(ranking.ids < 0, -1).int()
        gold = Ragged(corpus.places[asked.gold.values.long()].int(), asked.gold.offsets)
        return cls(asked.numbers, asked.groups, ids, ranking.scores, gold)

    def save(self, path: Path) -> None:
        """Writes all of it at once or nothing."""
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            with temporary.open("wb") as file:
                np.savez_compressed(
                    file,
                    numbers=self.numbers,
                    groups=self.groups,
                    ids=self.ids.numpy(),
                    scores=self.scores.numpy(),
                    gold=self.gold.values.numpy(),
                    gold_offsets=self.gold.offsets.numpy(),
                )
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> Ranked:
        """Reads what `save` wrote.

        Raises:
            GTRError: The file is missing or damaged.
        """
        try:
            with np.load(path, allow_pickle=False) as arrays:
                gold = Ragged(torch.from_numpy(arrays["gold"]), torch.from_numpy(arrays["gold_offsets"]))
                ids, scores = torch.from_numpy(arrays["ids"]), torch.from_numpy(arrays["scores"])
                return cls(arrays["numbers"], arrays["groups"], ids, scores, gold)
        except (OSError, ValueError, KeyError, EOFError):
            raise GTRError(f"the rankings {path} are damaged; delete the file and run again") from None


class Results:
    """A folder of records and rankings, to which any number of runs add.

    Attributes:
        folder: Where it is; made by the first run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def records(self) -> list[Record]:
        """All records whose rankings are there, in order. A line that was cut off by a crash is told and left out."""
        return list(self._records())

    def _records(self) -> Iterator[Record]:
        path = self.folder / RECORDS_NAME
        if not path.exists():
            return
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if not isinstance(record, dict) or not self.ranking_path(record["key"]).exists():
                    raise ValueError("its rankings are missing")
            except (ValueError, KeyError) as error:
                logger.warning("%s:%d is left out (%s); the run that it is of can be done again", path, number, error)
                continue
            yield record

    def ranking_path(self, key: str) -> Path:
        """Where the rankings of a record are."""
        return self.folder / RANKINGS_NAME / f"{key}.npz"

    def ranked(self, record: Mapping[str, Any]) -> Ranked:
        """The rankings of a record.

        Raises:
            GTRError: They are damaged.
        """
        return Ranked.load(self.ranking_path(record["key"]))

    def append(self, record: Record, ranked: Ranked) -> None:
        """Adds a run: first its rankings, then its line in one write, so that a crash leaves no half of it."""
        path = self.ranking_path(record["key"])
        path.parent.mkdir(parents=True, exist_ok=True)
        ranked.save(path)
        line = json.dumps(record).encode() + b"\n"
        file = os.open(self.folder / RECORDS_NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.lseek(file, 0, os.SEEK_END)
            if size and os.pread(file, 1, size - 1) != b"\n":
                line = b"\n" + line
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)


def key_of(facts: Mapping[str, object]) -> str:
    """A name for all that a run's results depend on."""
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=12).hexdigest()
