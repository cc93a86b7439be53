"""Counts over the tokens of each text."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ragged import Ragged


def structural_counts(parts: Ragged, letters: Tensor, flags: Tensor, n_parts: int) -> Tensor:
    """See `gtr_gpu.ops.counts.structural_counts`."""
    n_texts, device = len(parts), parts.device
    texts = parts.segment_ids()
    words = ~flags[:, 0]
    sums = torch.zeros(n_texts, 2 + flags.shape[1], dtype=torch.int64, device=device)
    of_tokens = torch.cat([torch.stack([words, words * letters], dim=1), flags], dim=1).long()
    sums.index_add_(0, texts, of_tokens)
    means = sums[:, 1].double() / sums[:, 0].clamp_min(1)
    tagged = parts.values >= 0
    bins = texts[tagged] * n_parts + parts.values[tagged]
    of_parts = torch.bincount(bins, minlength=n_texts * n_parts).view(n_texts, n_parts)
    columns = [parts.lengths[:, None].float(), means[:, None].float(), sums[:, 2:].float(), of_parts.float()]
    return torch.cat(columns, dim=1)
