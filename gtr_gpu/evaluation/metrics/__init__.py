"""Metrics of rankings, one a file: batched functions of ranked ids `[Q, n]` and gold tables (Ragged), `[Q]` each."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gtr_gpu.evaluation.metrics.acc_at_k import acc, acc_at_k
from gtr_gpu.evaluation.metrics.hits import gold_counts, hits
from gtr_gpu.evaluation.metrics.mrr import mrr, reciprocal_rank
from gtr_gpu.evaluation.metrics.ndcg_at_k import ndcg, ndcg_at_k
from gtr_gpu.evaluation.metrics.recall_at_k import recall, recall_at_k
from gtr_gpu.ragged import Ragged

__all__ = ["AT_K", "acc_at_k", "measure", "mrr", "ndcg_at_k", "recall_at_k"]

AT_K = ("Acc", "Recall", "nDCG")
"""The metrics with a cut, as reports call them."""


def measure(ids: Tensor, gold: Ragged, cuts: Sequence[int]) -> dict[str, Tensor]:
    """All metrics of each question, `[Q]` float64 each, by names such as `Acc@10`; `MRR` looks at all places given."""
    found, counts = hits(ids, gold, max(ids.shape[1], 1)), gold_counts(gold)
    values = {"MRR": reciprocal_rank(found)}
    for k in cuts:
        first = found[:, :k]
        values |= {f"Acc@{k}": acc(first, counts), f"Recall@{k}": recall(first, counts)}
        values[f"nDCG@{k}"] = ndcg(first, counts, k)
    return {name: values[name] for name in [*(f"{name}@{k}" for name in AT_K for k in cuts), "MRR"]}
