"""MRR: how early the first gold table comes."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.evaluation.metrics.hits import gold_counts, hits
from gtr_gpu.ragged import Ragged


def reciprocal_rank(found: Tensor) -> Tensor:
    """The reciprocal rank from the places that hold a gold table, `[Q, k]` bool."""
    places = torch.arange(1, found.shape[1] + 1, dtype=torch.float64, device=found.device)
    return (found / places).amax(1) if found.shape[1] else torch.zeros(len(found), dtype=torch.float64)


def mrr(ids: Tensor, gold: Ragged, k: int) -> Tensor:
    """1 divided by the place of the first gold table among the first k results; 0 where there is none.

    RR(q) = 1 / min{i ≤ k : r_i ∈ G_q}, with G_q the gold tables of question q and r_i its i-th result. MRR is the mean.

    Args:
        ids: Ranked tables r, best first, `[Q, n]`; -1 where there are fewer.
        gold: The gold tables G, Q rows.
        k: The cut.

    Returns:
        `[Q]`, float64, from 0 to 1.

    Raises:
        ValueError: k is below 1, or a question has no gold table.
    """
    gold_counts(gold)
    return reciprocal_rank(hits(ids, gold, k))
