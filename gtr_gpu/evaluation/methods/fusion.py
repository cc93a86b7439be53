"""Fusions of a lexical and a dense method: by ranks, and as a convex mix of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gtr_gpu.evaluation.methods.method import Resources, Scorer, best
from gtr_gpu.tables import Table

# The constant of reciprocal rank fusion, and how much of each ranking it looks at (Cormack, Clarke, Büttcher 2009).
_RANK_CONSTANT = 60
_DEPTH = 1000
_SHARE = 0.5


class Fusion(Scorer):
    """A method made of several others.

    Args:
        name: What reports call it.
        parts: The methods.
        resources: What methods share.
    """

    def __init__(self, name: str, parts: Sequence[Scorer], resources: Resources) -> None:
        super().__init__(resources)
        self.name = name
        self.parts = list(parts)

    def index(self, tables: Sequence[Table]) -> None:
        """Indexes each part."""
        self.n_tables = len(tables)
        for part in self.parts:
            part.index(tables)

    def prepare(self, queries: Sequence[str]) -> None:
        """Prepares each part."""
        for part in self.parts:
            part.prepare(queries)


class RankFusion(Fusion):
    """Reciprocal rank fusion: Σ over methods of 1 / (60 + rank), of the first 1,000 of each."""

    floor = 0.0

    @property
    def settings(self) -> Mapping[str, object]:
        """Those of the parts, and the constants."""
        return {"rrf": _RANK_CONSTANT, "depth": _DEPTH, "parts": [dict(part.settings) for part in self.parts]}

    def score(self, queries: Sequence[str]) -> Tensor:
        """Fused scores, `[B, N]`; 0 for tables that no part ranks."""
        total = torch.zeros(len(queries), self.n_tables)
        depth = min(_DEPTH, self.n_tables)
        for part in self.parts:
            ranking = best(part.score(queries), depth, part.floor)
            gains = (1 / (_RANK_CONSTANT + torch.arange(1, depth + 1.0))).expand_as(ranking.scores)
            total.scatter_add_(1, ranking.ids.clamp_min(0), gains.masked_fill(ranking.ids < 0, 0))
        return total


class Mix(Fusion):
    """A convex mix, half and half, of scores that are scaled to 0 … 1 for each question by their least and largest."""

    @property
    def settings(self) -> Mapping[str, object]:
        """Those of the parts, and the share."""
        return {"mix": _SHARE, "parts": [dict(part.settings) for part in self.parts]}

    def score(self, queries: Sequence[str]) -> Tensor:
        """Mixed scores, `[B, N]`."""
        first, second = (_scaled(part.score(queries)) for part in self.parts)
        return _SHARE * first + (1 - _SHARE) * second


def _scaled(scores: Tensor) -> Tensor:
    low, high = scores.amin(1, keepdim=True), scores.amax(1, keepdim=True)
    return (scores - low) / (high - low).clamp_min(torch.finfo(torch.float32).tiny)
