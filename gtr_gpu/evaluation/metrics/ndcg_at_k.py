"""nDCG@k: the gold tables among the first k, early ones counting more."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.evaluation.metrics.hits import gold_counts, hits
from gtr_gpu.ragged import Ragged


def ndcg(found: Tensor, counts: Tensor, k: int) -> Tensor:
    """nDCG@k from the places that hold a gold table, `[Q, ≤ k]` bool, and the number of gold tables, `[Q]`."""
    best = counts.long().clamp_max(k)
    longest = max(found.shape[1], int(best.max()) if best.numel() else 0)
    discounts = 1 / torch.log2(torch.arange(2, longest + 2, dtype=torch.float64, device=found.device))
    return (found * discounts[: found.shape[1]]).sum(1) / discounts.cumsum(0)[best - 1]


def ndcg_at_k(ids: Tensor, gold: Ragged, k: int) -> Tensor:
    """The discounted gain of the first k results, divided by the best that is possible.

    DCG@k(q) = Σ_{i ≤ k} [r_i ∈ G_q] / log2(i + 1) and nDCG@k = DCG@k / Σ_{i ≤ min(k, |G_q|)} 1 / log2(i + 1), with G_q
    the gold tables of question q and r_i its i-th result. Every gold table gains 1.

    Args:
        ids: Ranked tables r, best first, `[Q, n]`; -1 where there are fewer.
        gold: The gold tables G, Q rows.
        k: The cut.

    Returns:
        `[Q]`, float64, from 0 to 1.

    Raises:
        ValueError: k is below 1, or a question has no gold table.
    """
    return ndcg(hits(ids, gold, k), gold_counts(gold), k)
