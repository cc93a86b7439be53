"""Counts over the tokens of each text."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.ragged import Ragged


def structural_counts(parts: Ragged, letters: Tensor, flags: Tensor, n_parts: int) -> Tensor:
    """Counts tokens, letters and kinds of tokens, text by text.

    Args:
        parts: The part of speech of each token of B texts, a number below `n_parts` or -1 for none; values int32 `[T]`.
        letters: The length of each token in characters, int32 `[T]`.
        flags: F properties of each token, bool `[T, F]`; the first says that it is punctuation.
        n_parts: The number of parts of speech P, which may be 0.

    Returns:
        Float32 `[B, 2 + F + P]` on the same device: the number of tokens; the mean length of those that
        aren't punctuation (0 where there are none); the number of tokens with each flag; the number of tokens of each
        part of speech.
    """
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
