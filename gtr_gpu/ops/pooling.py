"""What candidates hold of a question's words together with their neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import (
    JOINS_QUERIES,
    check_kind,
    check_offsets,
    check_ragged,
    check_sparse,
    check_tensor,
    device_of,
)
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ops.lexical import weight_offsets
from gtr_gpu.ops.types import Transfer
from gtr_gpu.ragged import SparseMatrix

# The kernel's: terms that it looks at side by side.
_LANES = 16


@operation("pooled_terms")
def pooled_terms(weights: Tensor, query_terms: SparseMatrix, idf: Tensor, transfer: Transfer) -> tuple[Tensor, Tensor]:
    """How much of a question a table and its neighbours hold together, word by word.

    A table that was split is several candidates, and each part holds some of the question's words: none scores well by
    itself, though the parts answer the question together. So a term that a neighbour holds counts for the table too, as
    far as the edge between them is believed; of the table and its neighbours, whoever has most of a term counts.

    For candidate t and term j, with the weights w and the edges W:

    - p(t, j) is the greatest of w(t, j) and W(t, u) · w(u, j) over the neighbours u of t;
    - c(t, j) is the greatest of 1, if t holds the term, and W(t, u) over those neighbours u that hold it, else 0.

    Args:
        weights: What each term weighs in each candidate, `[S]`, float32, at least 0, see
            [term_weights][gtr_gpu.ops.lexical.term_weights]: for each query a block of candidates by terms.
        query_terms: Occurrences of terms in the questions `[B, V]`, int32.
        idf: What each term counts, float32, at least 0, `[V]` or more.
        transfer: W, from 0 to 1, of the batch's T candidates; its degrees are not read.

    Returns:
        BM25 with the neighbours' words, `[T]`, float32: the sum over terms j of occurrences · idf · p(t, j).
        The share of the question's words that t and its neighbours hold, `[T]`, float32: the sum of idf · c(t, j),
        divided by the sum of idf; 0 where that is 0, as for a query without terms.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges, or W joins candidates of two queries.
    """
    device = device_of("weights", weights, Tensor)
    check_sparse("query_terms", query_terms, device, (torch.int32,))
    check_tensor("idf", idf, (None,), (torch.float32,), device)
    if idf.numel() < query_terms.n_columns:
        raise GTRError(f"idf must have one number for each of {query_terms.n_columns} terms, got {idf.numel()}")
    check_kind("transfer", transfer, Transfer)
    matrix = transfer.weights
    device_of("transfer.weights", matrix, SparseMatrix)
    n_candidates = len(matrix.columns)
    if matrix.n_columns != n_candidates:
        raise GTRError(f"transfer.weights must have as many columns as rows, got {matrix.shape}")
    check_offsets("transfer.offsets", transfer.offsets, n_candidates, device)
    if transfer.offsets.numel() != len(query_terms.columns) + 1:
        raise GTRError(
            f"transfer.offsets must have one number more than the {len(query_terms.columns)} rows of query_terms, got "
            f"{transfer.offsets.numel()}"
        )
    check_ragged("transfer.weights.columns", matrix.columns, device)
    check_tensor("transfer.weights.weights", matrix.weights, (matrix.columns.values.numel(),), (torch.float32,), device)
    starts = weight_offsets(transfer.offsets, query_terms)
    check_tensor("weights", weights, (int(starts[-1]),), (torch.float32,), device)
    if not serves("pooled_terms", device):
        if reference.pagerank.joins_queries(transfer):
            raise GTRError(JOINS_QUERIES)
        return reference.pooling.pooled_terms(weights, query_terms, idf, transfer, starts)
    scores, shares = torch.empty(2, n_candidates, device=device)
    n_queries = len(query_terms.columns)
    wrong = torch.empty(n_queries, dtype=torch.bool, device=device)
    launch(
        "pooled_terms",
        n_queries,
        [
            *(transfer.offsets, matrix.columns.offsets, matrix.columns.values, matrix.weights),
            *(query_terms.columns.offsets, query_terms.columns.values, query_terms.weights, idf),
            *(starts, weights, scores, shares, wrong),
        ],
        _scratch(transfer, query_terms),
    )
    if bool(wrong.any()):
        raise GTRError(JOINS_QUERIES)
    return scores, shares


def _scratch(transfer: Transfer, query_terms: SparseMatrix) -> int:
    """What the kernel holds of a query: its weights in rows of whole vectors, three times, and two numbers a term."""
    if transfer.offsets.numel() <= 2:
        widest = -(-query_terms.weights.numel() // _LANES) * _LANES
        most = widest * transfer.weights.n_columns
    else:
        widths = (query_terms.columns.lengths + (_LANES - 1)) // _LANES * _LANES
        widest, most = int(widths.max()), int((widths * transfer.offsets.diff()).max())
    return scratch_bytes(*[(most, 4)] * 3, *[(widest, 4)] * 2)
