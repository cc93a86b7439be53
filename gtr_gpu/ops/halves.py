"""Products of rows of bf16, which processors that have them make at twice the rate, with a bound on what is lost.

They choose what is worth computing exactly; they are never a result themselves.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

# What a sum of d products in float32 may lose, for each of them, as a share of the rows' lengths.
_SUM_ERROR = 1.2e-7


class Halves(NamedTuple):
    """Rows as bf16.

    Attributes:
        rows: `[N, d]`, bfloat16.
        longest: The greatest length of a row, as it was.
        rounding: The greatest length of what a row lost.
    """

    rows: Tensor
    longest: float
    rounding: float


@cache
def multiplies_bf16(device: torch.device) -> bool:
    """Whether the processor multiplies bf16 twice as fast as float32, or faster."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return bool(torch.backends.mkldnn.is_available() and torch.cpu._is_avx512_bf16_supported())  # type: ignore[no-untyped-call]


def halve(rows: Tensor, block: int = 1 << 16) -> Halves:
    """Rounds rows `[N, d]` to bf16; `block` rows at a time take memory beyond the result.

    `longest` is not finite where a row holds numbers that are not.
    """
    halves = torch.empty(rows.shape, dtype=torch.bfloat16, device=rows.device)
    longest, rounding = rows.new_zeros(1, dtype=torch.float32), rows.new_zeros(1, dtype=torch.float32)
    for start in range(0, rows.shape[0], block):
        part = rows[start : start + block].float()
        halves[start : start + block] = part
        longest = torch.maximum(longest, torch.linalg.vector_norm(part, dim=1).max())
        lost = part - halves[start : start + block].float()
        rounding = torch.maximum(rounding, torch.linalg.vector_norm(lost, dim=1).max())
    return Halves(halves, float(longest), float(rounding))


def halved_products(queries: Tensor, halves: Halves, out: Tensor) -> Tensor:
    """The products of queries with rows, roughly.

    Args:
        queries: `[B, d]`, float32.
        halves: N rows.
        out: Where the products go, `[B, N]`, bfloat16.

    Returns:
        How far a product is from the exact one at most, before it was itself rounded to bf16, `[B]`, float32: of
        lengths, (q' - q) r' + q (r' - r), and what sums of d products may lose.
    """
    rounded = queries.bfloat16()
    torch.mm(rounded, halves.rows.T, out=out)
    lengths = torch.linalg.vector_norm(queries, dim=1)
    lost = torch.linalg.vector_norm(queries - rounded.float(), dim=1)
    sums = _SUM_ERROR * queries.shape[1] * halves.longest
    errors: Tensor = lost * (halves.longest + halves.rounding) + lengths * (halves.rounding + sums)
    return errors
