"""Products of rows of bf16, which processors that have them make at twice the rate, with a bound on what is lost.

They choose what is worth computing exactly; they are never a result themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops.checks import check_count, check_kind, check_tensor, device_of
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch

# What a sum of d products in float32 may lose, for each of them, as a share of the rows' lengths.
_SUM_ERROR = 1.2e-7


# Queries up to which a product of matrices would cost more than to read the rows.
_FEW = 3
_TILE_ROWS = 512
_FEATURES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Halves:
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

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    check_tensor("rows", rows, (None, None), _FEATURES, device_of("rows", rows, Tensor))
    check_count("block", block, 1)
    halves = torch.empty(rows.shape, dtype=torch.bfloat16, device=rows.device)
    longest, rounding = rows.new_zeros(1, dtype=torch.float32), rows.new_zeros(1, dtype=torch.float32)
    for start in range(0, rows.shape[0], block):
        part = rows[start : start + block].float()
        halves[start : start + block] = part
        longest = torch.maximum(longest, torch.linalg.vector_norm(part, dim=1).max())
        lost = part - halves[start : start + block].float()
        rounding = torch.maximum(rounding, torch.linalg.vector_norm(lost, dim=1).max())
    return Halves(halves, float(longest), float(rounding))


@operation("few_products")
def halved_products(queries: Tensor, halves: Halves, out: Tensor) -> Tensor:
    """The products of queries with rows, roughly.

    A kernel reads the rows for a few queries on a CPU; products of more, and those on a GPU, are torch's.

    Args:
        queries: `[B, d]`, float32.
        halves: N rows.
        out: Where the products go, `[B, N]`, bfloat16, contiguous.

    Returns:
        How far a product is from the exact one at most, before it was itself rounded to bf16, `[B]`, float32: of
        lengths, (q' - q) r' + q (r' - r), and what sums of d products may lose.

    Raises:
        GTRError: Arguments of wrong types or shapes.
    """
    device = device_of("queries", queries, Tensor)
    check_tensor("queries", queries, (None, None), (torch.float32,), device)
    n_queries, dim = queries.shape
    check_kind("halves", halves, Halves)
    check_tensor("halves.rows", halves.rows, (None, dim), (torch.bfloat16,), device)
    n_rows = halves.rows.shape[0]
    check_tensor("out", out, (n_queries, n_rows), (torch.bfloat16,), device)
    if not out.is_contiguous():
        raise GTRError(f"out must be contiguous, got the strides {list(out.stride())}")
    rounded = queries.bfloat16()
    if device.type == "cpu" and n_queries <= _FEW and serves("halved_products", device):
        n_tiles = -(-n_rows // _TILE_ROWS)
        launch("few_products", n_tiles, [queries, halves.rows, n_queries, n_rows, dim, _TILE_ROWS, out])
    else:
        torch.mm(rounded, halves.rows.T, out=out)
    lengths = torch.linalg.vector_norm(queries, dim=1)
    lost = torch.linalg.vector_norm(queries - rounded.float(), dim=1)
    sums = _SUM_ERROR * queries.shape[1] * halves.longest
    errors: Tensor = lost * (halves.longest + halves.rounding) + lengths * (halves.rounding + sums)
    return errors
