"""Acc@k: whether all gold tables are among the first k."""

from __future__ import annotations

from torch import Tensor

from gtr_gpu.evaluation.metrics.hits import gold_counts, hits
from gtr_gpu.ragged import Ragged


def acc(found: Tensor, counts: Tensor) -> Tensor:
    """Acc@k from the places that hold a gold table, `[Q, k]` bool, and the number of gold tables, `[Q]`."""
    return (found.sum(1) == counts).double()


def acc_at_k(ids: Tensor, gold: Ragged, k: int) -> Tensor:
    """1 where all gold tables of a question are among its first k results, else 0.

    Acc@k(q) = [G_q ⊆ {r_1, …, r_k}], with G_q the gold tables of question q and r_i its i-th result. A question with
    more than k gold tables can't get it.

    Args:
        ids: Ranked tables r, best first, `[Q, n]`; -1 where there are fewer.
        gold: The gold tables G, Q rows.
        k: The cut.

    Returns:
        `[Q]`, float64, 0 or 1.

    Raises:
        ValueError: k is below 1, or a question has no gold table.
    """
    return acc(hits(ids, gold, k), gold_counts(gold))
