"""What a search returns: arrays, and on demand the relations among the tables found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor


class Edge(NamedTuple):
    """A relation between two tables of one result.

    Attributes:
        source: Rank of one table in the result, from 0.
        target: Rank of the other one, greater than `source`.
        kind: What the tables share: semantic, header, key, column, cells or caption.
        score: Their similarity in that respect, from 0 to 1.
    """

    source: int
    target: int
    kind: str
    score: float


@dataclass(frozen=True)
class SearchResult:
    """The ranked tables of Q questions.

    Attributes:
        ids: Numbers of the tables in the index, best first, `[Q, k]`, int64; -1 where there are fewer than k.
        scores: Their scores, `[Q, k]`, float32; -inf where there are fewer than k.
        table_ids: The tables' names, for each question as many as there are.
        iterations: Steps of the walk for each question, `[Q]`, int64.
        converged: Whether the walk came to rest within its limit, `[Q]`, bool.
        candidates: How many tables were ranked for each question, `[Q]`, int64.
        edges: For each question the relations among its tables, where they were asked for.
        notes: What the caller should know, such as a question that was cut.
    """

    ids: Tensor
    scores: Tensor
    table_ids: list[list[str]]
    iterations: Tensor
    converged: Tensor
    candidates: Tensor
    edges: list[list[Edge]] | None = None
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return int(self.ids.shape[0])

    @classmethod
    def merge(cls, results: Sequence[SearchResult]) -> SearchResult:
        """The results of several batches of questions, one batch after the other; all with the same k."""
        relations = [result.edges for result in results if result.edges is not None]
        return cls(
            ids=torch.cat([result.ids for result in results]),
            scores=torch.cat([result.scores for result in results]),
            table_ids=[names for result in results for names in result.table_ids],
            iterations=torch.cat([result.iterations for result in results]),
            converged=torch.cat([result.converged for result in results]),
            candidates=torch.cat([result.candidates for result in results]),
            edges=[edges for batch in relations for edges in batch] if len(relations) == len(results) else None,
            notes=list(dict.fromkeys(note for result in results for note in result.notes)),
        )
