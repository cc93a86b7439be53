"""Metrics of rankings, one a file: batched functions of ranked ids `[Q, n]` and gold tables (Ragged), `[Q]` each."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gtr_gpu.evaluation.metrics.acc_at_k import acc_at_k
from gtr_gpu.evaluation.metrics.mrr import mrr
from gtr_gpu.evaluation.metrics.ndcg_at_k import ndcg_at_k
from gtr_gpu.evaluation.metrics.recall_at_k import recall_at_k
from gtr_gpu.ragged import Ragged

__all__ = ["AT_K", "acc_at_k", "measure", "mrr", "ndcg_at_k", "recall_at_k"]

AT_K = {"Acc": acc_at_k, "Recall": recall_at_k, "nDCG": ndcg_at_k}
"""The metrics with a cut, by the name that reports give them."""


def measure(ids: Tensor, gold: Ragged, cuts: Sequence[int]) -> dict[str, Tensor]:
    """All metrics of each question, `[Q]` float64 each, by names such as `Acc@10`; `MRR` looks at all places given."""
    found = {f"{name}@{k}": metric(ids, gold, k) for name, metric in AT_K.items() for k in cuts}
    return found | {"MRR": mrr(ids, gold, max(ids.shape[1], 1))}
