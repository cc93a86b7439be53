"""What every metric starts from: which places of a ranking hold a gold table."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ragged import Ragged


def gold_counts(gold: Ragged) -> Tensor:
    """How many gold tables each question has, `[Q]`, float64.

    Raises:
        ValueError: A question has none, so that nothing could be found.
    """
    counts = gold.lengths
    if bool((counts == 0).any()):
        raise ValueError(f"question {int((counts == 0).nonzero()[0])} has no gold table; leave it out")
    return counts.double()


def hits(ids: Tensor, gold: Ragged, k: int) -> Tensor:
    """Which of the first k places hold a gold table.

    Args:
        ids: Ranked tables, best first, `[Q, n]`, any integers; -1 where there are fewer. No table twice in a row.
        gold: The gold tables of each question, Q rows of distinct ids.
        k: Places that are looked at; those beyond n count as empty.

    Returns:
        `[Q, min(k, n)]`, bool.

    Raises:
        ValueError: k is below 1, or there are not as many rankings as rows of gold.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if len(ids) != len(gold):
        raise ValueError(f"there must be one ranking for each of {len(gold)} questions, got {len(ids)}")
    ids = ids[:, :k].long()
    span = 1 + max(int(ids.max()) if ids.numel() else 0, int(gold.values.max()) if gold.values.numel() else 0)
    wanted = gold.segment_ids() * span + gold.values.long()
    found = torch.arange(len(ids), device=ids.device)[:, None] * span + ids
    return torch.isin(found, wanted) & (ids >= 0)
