"""GTR as a user of its index has it: the tables that are found, and how they are related."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gtr_gpu.evaluation.methods.gtr import GTR
from gtr_gpu.results import Edge
from gtr_gpu.tables import Table

_TOGETHER = 512


@dataclass(frozen=True)
class Found:
    """What a search found for Q questions.

    Attributes:
        ids: Numbers of the tables as they were indexed, best first, `[Q, k]`, int64; -1 where there are fewer.
        edges: The relations among each question's tables, by rank from 0.
    """

    ids: Tensor
    edges: list[list[Edge]]


class Retriever(GTR):
    """GTR with a config; its index is the one of `gtr benchmark run` for the same tables, encoder and code."""

    def search(self, queries: Sequence[str], k: int) -> Found:
        """Finds the best k tables for each question, with their relations."""
        self.resources.encodings.of(self.config).encode_queries(queries)
        ids, edges = [torch.zeros(0, k, dtype=torch.int64)], []
        with self.resources.progress.stage(f"Finding {k} tables a question", len(queries)) as stage:
            for start in range(0, len(queries), _TOGETHER):
                block = queries[start : start + _TOGETHER]
                result = self._index.search(block, k, config=self.config, edges=True)
                ids.append(result.ids)
                edges.extend(result.edges or [])
                stage.advance(len(block))
        return Found(torch.cat(ids), edges)

    def tables(self, ids: Tensor) -> list[Table]:
        """The tables of one question, `[k]`, best first."""
        return [self._index.table(int(number)) for number in ids if number >= 0]
