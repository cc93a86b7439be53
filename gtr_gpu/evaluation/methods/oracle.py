"""The authors' protocol, in which the label prunes the candidates. Its figures are none that a user would get."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gtr_gpu.coarse import Candidates, find_candidates
from gtr_gpu.evaluation.coarse_stage import CoarseStage, gold_held
from gtr_gpu.evaluation.methods.gtr import GTR
from gtr_gpu.evaluation.methods.method import Ranking, padded
from gtr_gpu.fine import rank
from gtr_gpu.ops.union import union
from gtr_gpu.questions import QueryFeatures
from gtr_gpu.ragged import Ragged


class OraclePruned(GTR):
    """GTR as published, with candidates that the label has pruned as in the authors' released code.

    Of each modality the best cluster is kept only where it is the one that holds all gold tables; where no modality's
    is, all of them are kept. (Their code makes further clusters of released example questions, which are labels as
    well; those are never read here.) It is ranked through `rank_with_gold` alone.
    """

    label_used = True

    def rank(self, queries: Sequence[str], k: int) -> Ranking:
        """Refuses: there is no such method without the label."""
        raise NotImplementedError(f"{self.name} has to be told the gold tables; use rank_with_gold")

    @torch.no_grad()
    def rank_with_gold(self, queries: Sequence[str], gold: Ragged, k: int) -> Ranking:
        """Ranks the best k tables for each question, given its gold tables."""
        stage = self.coarse_stage()
        asked = min([k, *self.config.keep])
        self.resources.encodings.of(self.config).encode_queries(queries)
        parts = []
        start = 0
        with self.resources.progress.stage(f"Ranking, {self.name}", len(queries)) as progress:
            for block in stage.read(queries, self.config, asked):
                stop = start + len(block)
                candidates = self._pruned(stage, block, gold.slice(start, stop))
                found = rank(block, candidates, stage.snapshot, self.config, asked)
                parts.append(Ranking(found.ids.cpu().long(), found.scores.cpu()))
                progress.advance(len(block))
                start = stop
        return padded(Ranking(*(torch.cat(columns) for columns in zip(*parts, strict=True))), k)

    def _pruned(self, stage: CoarseStage, block: QueryFeatures, gold: Ragged) -> Candidates:
        n_tables = stage.snapshot.n_tables
        pools, right = [], []
        for modality in self.config.modalities:
            config = self.config.override({"modalities": (modality,)})
            pool = find_candidates(block, stage.snapshot, config, 1).tables.to("cpu")
            pools.append(pool)
            right.append(gold_held(pool, gold, n_tables) == gold.lengths)
        agreed = torch.stack(right)
        kept = agreed | ~agreed.any(0)
        tables = union([_only(pool, mask) for pool, mask in zip(pools, kept, strict=True)]).to(stage.snapshot.device)
        scores = torch.cat([stage.snapshot.semantic(tables[row]) @ block.semantic[row] for row in range(len(tables))])
        return Candidates(tables, scores)


def _only(pool: Ragged, rows: Tensor) -> Ragged:
    """The pool with the other rows empty."""
    lengths = pool.lengths * rows
    return Ragged.from_lengths(pool.values[rows[pool.segment_ids()]], lengths)
