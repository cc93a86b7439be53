"""Counting terms, and what questions' terms weigh in tables by BM25 over postings."""

from __future__ import annotations

import torch
from torch import Tensor

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import reference
from gtr_gpu.ops.checks import (
    MOST_ITEMS,
    check_count,
    check_ragged,
    check_range,
    check_real,
    check_rising,
    check_sparse,
    check_tensor,
    device_of,
)
from gtr_gpu.ops.dispatch import operation, serves
from gtr_gpu.ops.kernels import launch, scratch_bytes
from gtr_gpu.ops.reference.lexical import bm25_idf
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix, offsets_from_lengths

__all__ = [
    "bm25_idf",
    "bm25_scores",
    "bm25_weights",
    "posting_scores",
    "term_counts",
    "term_weights",
    "weight_offsets",
]

# With more tables than this, candidates are searched for in all postings: to clear a map of bits would take longer.
_MAPPED_TABLES = 1 << 18


@operation("count_tokens", "gather_counts")
def term_counts(tokens: Ragged, n_terms: int, marked: Tensor | None = None) -> tuple[SparseMatrix, Tensor]:
    """Counts each row's tokens.

    Args:
        tokens: Term ids of each row, any order; values int32 `[T]`, each below `n_terms`.
        n_terms: The number of terms V.
        marked: Which tokens to count apart as well, `[T]`, bool.

    Returns:
        The counts `[B, V]`, int32, and how many of each entry's tokens are marked, `[nnz]`, int32 (0 without `marked`).

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = device_of("tokens", tokens, Ragged)
    check_count("n_terms", n_terms, 0, MOST_ITEMS)
    check_ragged("tokens", tokens, device, upper=n_terms)
    n_tokens, n_rows = tokens.values.numel(), len(tokens)
    if marked is not None:
        check_tensor("marked", marked, (n_tokens,), (torch.bool,), device)
    if not serves("term_counts", device):
        return reference.lexical.term_counts(tokens, n_terms, marked)
    found = torch.empty(3, n_tokens, dtype=INDEX_DTYPE, device=device)
    lengths = torch.empty(n_rows, dtype=torch.int64, device=device)
    longest = int(tokens.offsets.diff().max()) if n_rows else 0
    sources = tokens.offsets.contiguous()
    launch(
        "count_tokens",
        n_rows,
        [
            *(sources, tokens.values.contiguous(), None if marked is None else marked.contiguous()),
            *(*found, lengths),
        ],
        scratch_bytes((1 << max(longest - 1, 0).bit_length(), 4), (longest + 1, 4)),
    )
    offsets = offsets_from_lengths(lengths)
    kept = torch.empty(3, int(offsets[-1]), dtype=INDEX_DTYPE, device=device)
    launch("gather_counts", n_rows, [sources, offsets, *found, *kept])
    return SparseMatrix(Ragged(kept[0], offsets), kept[1], n_terms), kept[2]


@operation("bm25_weights")
def bm25_weights(
    postings: SparseMatrix, lengths: Tensor, average_length: float, k1: float = 1.2, b: float = 0.75
) -> SparseMatrix:
    """What a term's occurrences in a table count: tf / (tf + k1 · (1 - b + b · length / average length)).

    They depend on no question, so an index keeps them for all searches.

    Args:
        postings: The tables of each term with its occurrences, `[V, N]`, int32: the counts transposed.
        lengths: Tokens of each table `[N]`.
        average_length: The mean number of tokens of the whole index's tables.
        k1: How soon a repeated term stops counting.
        b: How much long tables are discounted.

    Returns:
        The postings with these weights, `[V, N]`, float32, over the same arrays of tables.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = device_of("postings", postings, SparseMatrix)
    check_sparse("postings", postings, device, (torch.int32,))
    check_real("average_length", average_length, 0)
    check_real("k1", k1, 0)
    check_real("b", b, 0, 1)
    check_tensor("lengths", lengths, (postings.n_columns,), (torch.float32, torch.float64, torch.int64), device)
    if not serves("bm25_weights", device):
        return reference.lexical.bm25_weights(postings, lengths, average_length, k1, b)
    weights = torch.empty(postings.weights.numel(), device=device)
    columns = postings.columns
    discounts = reference.lexical.bm25_discounts(lengths, average_length, k1, b)
    launch(
        "bm25_weights",
        len(columns),
        [columns.offsets, columns.values, postings.weights, discounts, weights],
    )
    return postings.with_weights(weights)


@operation("posting_scores")
def posting_scores(
    query_terms: SparseMatrix,
    weighted: SparseMatrix,
    document_frequency: Tensor,
    n_documents: int,
    max_expanded: int = 1 << 22,
    out: Tensor | None = None,
    first_column: int = 0,
) -> Tensor:
    """Adds up the weights of each query's terms, each times the term's idf and its occurrences in the query.

    Only the postings of a query's own terms are touched.

    Args:
        query_terms: Occurrences of terms in the questions `[B, V]`, int32.
        weighted: The tables of each term with their weights, `[V, N]`, float32, see `bm25_weights`. Where an index has
            segments, those of one segment, whose V may be smaller: it has none of the later terms.
        document_frequency: Tables of the whole index that hold each term `[V]`, int64.
        n_documents: The tables of the whole index.
        max_expanded: Postings that plain torch holds at once beyond the result; kernels hold none.
        out: Where the scores go, `[B, C]`, float32, contiguous; the columns of other tables stay as they are.
        first_column: The column of `out` for the first table.

    Returns:
        `out`, or the scores `[B, N]`, float32; 0 where no term is shared.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    device = device_of("weighted", weighted, SparseMatrix)
    check_sparse("query_terms", query_terms, device, (torch.int32,))
    check_sparse("weighted", weighted, device)
    check_count("n_documents", n_documents, 0)
    check_count("max_expanded", max_expanded, 1)
    check_count("first_column", first_column, 0)
    n_queries, n_tables = len(query_terms.columns), weighted.n_columns
    check_tensor("document_frequency", document_frequency, (None,), (torch.int64,), device)
    if document_frequency.numel() < query_terms.n_columns:
        raise GTRError(
            f"document_frequency must have one number for each of {query_terms.n_columns} terms, got "
            f"{document_frequency.numel()}"
        )
    if out is None:
        out, first_column = torch.empty(n_queries, n_tables, device=device), 0
    check_tensor("out", out, (n_queries, None), (torch.float32,), device)
    if first_column + n_tables > out.shape[1] or not out.is_contiguous():
        raise GTRError(
            f"out must be contiguous and have {n_tables} columns from first_column={first_column} on, got the shape "
            f"{list(out.shape)} with strides {list(out.stride())}"
        )
    if not serves("posting_scores", device):
        scores = reference.lexical.posting_scores(query_terms, weighted, document_frequency, n_documents, max_expanded)
        out[:, first_column : first_column + n_tables] = scores
        return out
    queries, columns = query_terms.columns, weighted.columns
    launch(
        "posting_scores",
        n_queries,
        [
            *(queries.offsets.contiguous(), queries.values.contiguous(), query_terms.weights.contiguous()),
            *(len(columns), columns.offsets, columns.values, weighted.weights, document_frequency, n_documents),
            *(n_tables, first_column, out.shape[1], out),
        ],
    )
    return out


@operation("term_weights")
def term_weights(
    query_terms: SparseMatrix,
    tables: Ragged,
    weighted: SparseMatrix,
    first_table: int = 0,
    out: Tensor | None = None,
) -> Tensor:
    """Looks up what each of a query's terms weighs in each of its candidate tables.

    A score says how much of a question a table holds, and not which words: of a table that was split, one part holds
    some of them and another part the rest. These are the weights word by word, from which
    [pooled_terms][gtr_gpu.ops.pooling.pooled_terms] tells what a table holds together with its neighbours.

    Args:
        query_terms: Occurrences of terms in the questions `[B, V]`, int32.
        tables: The candidates of each query, numbers of the whole index, int32, rising and distinct within a query.
        weighted: The tables of each term with their weights, `[V, N]`, float32, see `bm25_weights`. Where an index has
            segments, those of one segment, whose V may be smaller: it has none of the later terms.
        first_table: The whole index's number of the segment's first table.
        out: Where the weights go, `[S]`, float32, contiguous; those of tables of other segments stay as they are. So
            one segment after the other fills the same array.

    Returns:
        `out`, or the weights `[S]`, float32, where S is the sum of candidates times terms over all queries: a block for
        each query, see `weight_offsets`, with a row for each of its candidates and in it a number for each of its
        terms, both in their order. 0 where a table lacks the term, and without `out` for tables of other segments.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges, or candidates that don't rise.
    """
    device = device_of("tables", tables, Ragged)
    check_sparse("query_terms", query_terms, device, (torch.int32,))
    check_ragged("tables", tables, device, n_rows=len(query_terms.columns))
    check_sparse("weighted", weighted, device)
    # Numbers of tables are int32 in the whole index as well.
    check_count("first_table", first_table, 0, max(0, MOST_ITEMS + 1 - weighted.n_columns))
    starts = weight_offsets(tables.offsets, query_terms)
    n_weights = int(starts[-1])
    if out is None:
        out = torch.zeros(n_weights, device=device)
    check_tensor("out", out, (n_weights,), (torch.float32,), device)
    if not out.is_contiguous():
        raise GTRError(f"out must be contiguous, got the strides {list(out.stride())}")
    if not serves("term_weights", device):
        _check_candidates(tables)
        reference.lexical.term_weights(query_terms, tables, weighted, first_table, starts, out)
        return out
    queries, columns = query_terms.columns, weighted.columns
    wrong = torch.empty(len(queries), dtype=torch.bool, device=device)
    longest = int(tables.lengths.max()) if len(queries) > 1 else tables.values.numel()
    n_words = -(-weighted.n_columns // 64) if weighted.n_columns <= _MAPPED_TABLES else 0
    launch(
        "term_weights",
        len(queries),
        [
            *(queries.offsets, queries.values, tables.offsets, tables.values, starts),
            *(len(columns), columns.offsets, columns.values, weighted.weights, first_table, weighted.n_columns),
            *(n_words, out, wrong),
        ],
        scratch_bytes((longest, 4), (n_words, 8), (n_words, 4)),
    )
    if bool(wrong.any()):
        _check_candidates(tables)
    return out


def weight_offsets(table_offsets: Tensor, query_terms: SparseMatrix) -> Tensor:
    """Where each query's block of weights starts in what `term_weights` gives, and the last one ends.

    Args:
        table_offsets: Where each query's candidates start, `[B + 1]`, int64.
        query_terms: Occurrences of terms in the questions `[B, V]`.

    Returns:
        The offsets `[B + 1]`, int64.
    """
    if table_offsets.numel() == 2:
        return table_offsets * query_terms.weights.numel()
    return offsets_from_lengths(table_offsets.diff() * query_terms.columns.lengths)


def _check_candidates(tables: Ragged) -> None:
    check_range("tables.values", tables.values, MOST_ITEMS + 1)
    check_rising("tables", tables)


def bm25_scores(
    query_terms: SparseMatrix,
    postings: SparseMatrix,
    lengths: Tensor,
    document_frequency: Tensor,
    n_documents: int,
    average_length: float,
    k1: float = 1.2,
    b: float = 0.75,
    max_expanded: int = 1 << 22,
) -> Tensor:
    """BM25 as Lucene computes it.

    A score is the sum over query terms of count · idf · tf / (tf + k1 · (1 - b + b · length / average length)). Who
    scores again over the same postings keeps what `bm25_weights` gives and calls `posting_scores` alone.

    Args:
        query_terms: Occurrences of terms in the questions `[B, V]`, int32.
        postings: The tables of each term with its occurrences, `[V, N]`, int32: the counts transposed. Where an index
            has segments, those of one segment, whose V may be smaller: it has none of the later terms.
        lengths: Tokens of each of these tables `[N]`.
        document_frequency: Tables of the whole index that hold each term `[V]`, int64.
        n_documents: The tables of the whole index.
        average_length: Their mean number of tokens.
        k1: How soon a repeated term stops counting.
        b: How much long tables are discounted.
        max_expanded: Postings that plain torch holds at once beyond the result; bounds the memory.

    Returns:
        The scores `[B, N]`, float32; 0 where no term is shared.

    Raises:
        GTRError: Arguments of wrong types, shapes or ranges.
    """
    weighted = bm25_weights(postings, lengths, average_length, k1, b)
    return posting_scores(query_terms, weighted, document_frequency, n_documents, max_expanded)
