"""Counts over the tokens of each text."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import MOST_ITEMS, check_count, check_ragged, check_range, check_tensor, device_of
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch
from gtr_gpu.ragged import Ragged


@operation("structural_counts")
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

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = device_of("parts", parts, Ragged)
    check_count("n_parts", n_parts, 0, MOST_ITEMS)
    check_ragged("parts", parts, device)
    check_range("parts.values", parts.values, n_parts, lower=-1)
    n_tokens = parts.values.numel()
    check_tensor("letters", letters, (n_tokens,), (torch.int32,), device)
    check_tensor("flags", flags, (n_tokens, None), (torch.bool,), device)
    if flags.shape[1] < 1:
        raise GTRError("flags must have at least one column (punctuation), got none")
    if not serves("structural_counts", device):
        return reference.counts.structural_counts(parts, letters, flags, n_parts)
    n_flags = flags.shape[1]
    counts = torch.empty(len(parts), 2 + n_flags + n_parts, device=device)
    launch(
        "structural_counts",
        len(parts),
        [
            *(parts.offsets.contiguous(), parts.values.contiguous(), letters.contiguous(), flags.contiguous()),
            *(n_flags, n_parts, counts),
        ],
    )
    return counts
