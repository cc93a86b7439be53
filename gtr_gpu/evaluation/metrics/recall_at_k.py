"""Recall@k: the share of the gold tables that are among the first k."""

from __future__ import annotations

from torch import Tensor

from gtr_gpu.evaluation.metrics.hits import gold_counts, hits
from gtr_gpu.ragged import Ragged


def recall(found: Tensor, counts: Tensor) -> Tensor:
    """Recall@k from the places that hold a gold table, `[Q, k]` bool, and the number of gold tables, `[Q]`."""
    return found.sum(1) / counts


def recall_at_k(ids: Tensor, gold: Ragged, k: int) -> Tensor:
    """The share of a question's gold tables that are among its first k results.

    Recall@k(q) = |G_q ∩ {r_1, …, r_k}| / |G_q|, with G_q the gold tables of question q and r_i its i-th result.

    Args:
        ids: Ranked tables r, best first, `[Q, n]`; -1 where there are fewer.
        gold: The gold tables G, Q rows.
        k: The cut.

    Returns:
        `[Q]`, float64, from 0 to 1.

    Raises:
        ValueError: k is below 1, or a question has no gold table.
    """
    return recall(hits(ids, gold, k), gold_counts(gold))
