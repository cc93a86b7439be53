"""What operations take and give beside tensors, Ragged and SparseMatrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from gtr_gpu.ragged import SparseMatrix

Rows = Tensor | SparseMatrix
"""Features of N tables: dense `[N, d]` (float16, bfloat16, float32 or float64) or sparse."""


@dataclass(frozen=True)
class Transfer:
    """Symmetric weights W and degrees d over the candidates of a batch; the paper's P is W with each row divided by d.

    Attributes:
        weights: W, `[T, T]`: row and column t stand for the t-th of all candidates of the batch, in the order of the
            candidates' `values`; entries join candidates of one query only.
        degrees: Sums of the rows of W, `[T]`, float32; 0 marks a dangling candidate.
        offsets: Where each query's candidates start, `[B + 1]`, int64.
    """

    weights: SparseMatrix
    degrees: Tensor
    offsets: Tensor


class Ranks(NamedTuple):
    """The stationary visits of a batch.

    Attributes:
        values: The share of visits of each candidate, `[T]`, float32; each query's sum to 1.
        iterations: Steps made for each query, `[B]`, int64.
        converged: Whether each query's residual fell below the tolerance, `[B]`, bool.
    """

    values: Tensor
    iterations: Tensor
    converged: Tensor
