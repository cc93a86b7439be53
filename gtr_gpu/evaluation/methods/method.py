"""What a retrieval method is: it indexes tables and ranks them for questions. It is shown nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from gtr_gpu.evaluation.encodings import Encodings
from gtr_gpu.ops.segments import segment_top_k
from gtr_gpu.progress import Progress
from gtr_gpu.ragged import INDEX_DTYPE, Ragged
from gtr_gpu.tables import Table

# Scores of questions with all tables that are held at once: few enough to stay in a processor's cache.
_SCORES_TOGETHER = 1 << 21


class Ranking(NamedTuple):
    """The tables that a method ranks for Q questions.

    Attributes:
        ids: Numbers of the tables as they were indexed, best first, `[Q, k]`, int64; -1 where there are fewer.
        scores: Their scores, `[Q, k]`, float32, never rising in a row; -inf where there are fewer.
    """

    ids: Tensor
    scores: Tensor


class Method(Protocol):
    """A retrieval method.

    Attributes:
        name: What reports call it.
        label_used: Whether it is told the gold tables, so that its figures are none that a user would get.
        settings: All that its results depend on beside tables and questions, as plain values.
        facts: What is worth telling of its index once there is one, as plain values.
    """

    name: str
    label_used: bool

    @property
    def settings(self) -> Mapping[str, object]:
        """What results depend on."""

    @property
    def facts(self) -> Mapping[str, object]:
        """What is worth telling."""

    def index(self, tables: Sequence[Table]) -> None:
        """Takes the corpus: tables with a caption, a header and rows, whose ids and order tell nothing."""

    def rank(self, queries: Sequence[str], k: int) -> Ranking:
        """Ranks the best k tables for each question."""


@runtime_checkable
class Labelled(Protocol):
    """A method that reproduces a protocol in which the label was used. Its only way to the label is this one."""

    def rank_with_gold(self, queries: Sequence[str], gold: Ragged, k: int) -> Ranking:
        """Ranks the best k tables for each question, given its gold tables."""


@dataclass(frozen=True)
class Resources:
    """What the methods of a run share.

    Attributes:
        encodings: Encoders, with a folder of known vectors.
        indexes: The folder of GTR indexes, which are kept for later runs.
        progress: Where to report.
    """

    encodings: Encodings
    indexes: Path
    progress: Progress


class Scorer:
    """A method that scores all tables of a block of questions; the others are made of several of these."""

    name = ""
    label_used = False
    floor = -torch.inf
    """Tables that score no more than this were not found at all, as those that share no word with the question."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self.n_tables = 0

    @property
    def settings(self) -> Mapping[str, object]:
        """All that the results depend on."""
        return {}

    @property
    def facts(self) -> Mapping[str, object]:
        """What is worth telling."""
        return {}

    def index(self, tables: Sequence[Table]) -> None:
        """Takes the corpus."""
        raise NotImplementedError

    def prepare(self, queries: Sequence[str]) -> None:
        """Sees all questions before they are scored block by block."""

    def score(self, queries: Sequence[str]) -> Tensor:
        """The score of each question with each table, `[B, N]`, float32."""
        raise NotImplementedError

    def rank(self, queries: Sequence[str], k: int) -> Ranking:
        """Ranks the best k tables for each question, ties by the smaller number."""
        self.prepare(queries)
        step = max(1, _SCORES_TOGETHER // max(self.n_tables, 1))
        parts = []
        with self.resources.progress.stage(f"Ranking, {self.name}", len(queries)) as stage:
            for start in range(0, len(queries), step):
                block = queries[start : start + step]
                parts.append(self.ranked(self.score(block), k))
                stage.advance(len(block))
        if not parts:
            return Ranking(torch.zeros(0, k, dtype=torch.int64), torch.zeros(0, k))
        return Ranking(torch.cat([part.ids for part in parts]), torch.cat([part.scores for part in parts]))

    def ranked(self, scores: Tensor, k: int) -> Ranking:
        """The ranking that scores `[B, N]` make."""
        return best(scores, k, self.floor)


def best(scores: Tensor, k: int, floor: float = -torch.inf) -> Ranking:
    """The k best tables of each question.

    Args:
        scores: `[B, N]`, float32.
        k: How many; ties go to the smaller number.
        floor: Tables that score no more than this are left out.
    """
    n_queries, n_tables = scores.shape
    ids = torch.arange(n_tables, dtype=INDEX_DTYPE).repeat(n_queries)
    offsets = torch.arange(n_queries + 1) * n_tables
    found, values, _ = segment_top_k(scores.flatten(), ids, offsets, k)
    low = values <= floor
    return Ranking(found.long().masked_fill(low, -1), values.masked_fill(low, -torch.inf))


def padded(ranking: Ranking, k: int) -> Ranking:
    """The same ranking with places for k tables."""
    missing = k - ranking.ids.shape[1]
    pad = torch.nn.functional.pad
    return Ranking(pad(ranking.ids, (0, missing), value=-1), pad(ranking.scores, (0, missing), value=-torch.inf))
