"""The best tables of each query by its semantic and lexical scores."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ragged import INDEX_DTYPE, Ragged


def best_mixed(
    semantic: Tensor | None, lexical: Tensor | None, alive: Tensor | None, mix: float, n: int
) -> tuple[Ragged, Tensor]:
    """See [gtr_gpu.ops.seeds.best_mixed][]."""
    if lexical is None:
        assert semantic is not None
        scores = semantic
    else:
        scores = _relative(lexical, alive)
        if semantic is not None:
            scores = mix * _relative(semantic, alive) + (1 - mix) * scores
    if alive is not None:
        scores = scores.masked_fill(~alive, -torch.inf)
    n = min(n, scores.shape[1])
    if n == 0:
        return Ragged.from_rows([[]] * len(scores)).to(scores.device), scores.new_empty(0)
    threshold = torch.topk(scores, n, dim=1).values[:, -1:]
    above = scores > threshold
    tied = scores == threshold
    taken = above | (tied & (tied.cumsum(1, dtype=torch.int32) <= n - above.sum(1, keepdim=True)))
    taken &= scores > -torch.inf
    return Ragged.from_lengths(taken.nonzero()[:, 1].to(INDEX_DTYPE), taken.sum(1)), scores[taken]


def best_refined(
    queries: Tensor, features: Tensor, lexical: Tensor | None, alive: Tensor | None, mix: float, n: int
) -> tuple[Ragged, Tensor]:
    """See [gtr_gpu.ops.seeds.best_refined][]; computes all scores exactly."""
    return best_mixed(queries @ features.float().T, lexical, alive, mix, n)


def _relative(scores: Tensor, alive: Tensor | None) -> Tensor:
    """Scores `[B, N]` clamped at 0 and divided by the best of each row."""
    scores = scores.clamp_min(0)
    if alive is not None:
        scores = scores.masked_fill(~alive, 0)
    if not scores.shape[1]:
        return scores
    return scores / scores.amax(1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
