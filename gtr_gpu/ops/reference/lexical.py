"""Counting terms, and what questions' terms weigh in tables by BM25 over postings."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix


def term_counts(tokens: Ragged, n_terms: int, marked: Tensor | None = None) -> tuple[SparseMatrix, Tensor]:
    """See `gtr_gpu.ops.lexical.term_counts`."""
    width = max(n_terms, 1)
    keys = (tokens.segment_ids() * width + tokens.values) * 2
    if marked is not None:
        keys += marked
    keys, repeats = torch.unique(keys, return_counts=True)
    places, entry = torch.unique_consecutive(keys // 2, return_inverse=True)
    counts = torch.zeros(places.numel(), dtype=INDEX_DTYPE, device=keys.device)
    marks = torch.zeros_like(counts)
    counts.index_add_(0, entry, repeats.to(INDEX_DTYPE))
    marks.index_add_(0, entry, (repeats * (keys % 2)).to(INDEX_DTYPE))
    lengths = torch.bincount(places // width, minlength=len(tokens))
    columns = Ragged.from_lengths((places % width).to(INDEX_DTYPE), lengths)
    return SparseMatrix(columns, counts, n_terms), marks


def bm25_idf(document_frequency: Tensor, n_documents: int) -> Tensor:
    """Lucene's idf, ln(1 + (n - df + 0.5) / (df + 0.5)), never negative; `[V]`, float64."""
    df = document_frequency.double()
    return torch.log1p((n_documents - df + 0.5).clamp_min(0) / (df + 0.5))


def bm25_discounts(lengths: Tensor, average_length: float, k1: float, b: float) -> Tensor:
    """What tf is divided by beside itself, k1 · (1 - b + b · length / average length); `[N]`, float32."""
    return k1 * (1 - b + b * lengths.float() / max(average_length, 1e-9))


def bm25_weights(postings: SparseMatrix, lengths: Tensor, average_length: float, k1: float, b: float) -> SparseMatrix:
    """See `gtr_gpu.ops.lexical.bm25_weights`."""
    tf = postings.weights.float()
    discounts = bm25_discounts(lengths, average_length, k1, b)
    return postings.with_weights(tf / (tf + discounts[postings.columns.values]))


def posting_scores(
    query_terms: SparseMatrix,
    weighted: SparseMatrix,
    document_frequency: Tensor,
    n_documents: int,
    max_expanded: int,
) -> Tensor:
    """See `gtr_gpu.ops.lexical.posting_scores`.

    Terms in more than a 32nd of the tables become rows of a small dense matrix and one matrix product; the others are
    added posting by posting. So a stop word costs N per batch and not N per question.
    """
    n_queries, n_tables = query_terms.shape[0], weighted.n_columns
    scores = torch.zeros(n_queries, n_tables, device=weighted.device)
    # The batch's own terms, numbered 0 to T - 1.
    known = query_terms.columns.values < weighted.shape[0]
    query_rows = query_terms.row_ids()[known]
    batch_terms, local = torch.unique(query_terms.columns.values[known].long(), return_inverse=True)
    if batch_terms.numel() == 0 or n_tables == 0:
        return scores
    own = weighted.select(batch_terms)
    weights = own.weights
    idf = bm25_idf(document_frequency[batch_terms], n_documents)
    query_weights = (query_terms.weights[known] * idf[local]).float()

    common = own.columns.lengths * 32 > n_tables
    common_number = common.cumsum(0) - 1
    common_terms = common.nonzero().flatten()
    # Groups of common terms bound the dense matrix as well.
    group = max(1, max_expanded // n_tables)
    for start in range(0, common_terms.numel(), group):
        chosen = common_terms[start : start + group]
        dense = torch.zeros(chosen.numel(), n_tables, device=scores.device)
        positions, offsets = own.columns.positions(chosen)
        rows = torch.repeat_interleave(torch.arange(chosen.numel(), device=scores.device), offsets.diff())
        dense[rows, own.columns.values[positions].long()] = weights[positions]
        mine = common[local] & (common_number[local] >= start) & (common_number[local] < start + group)
        left = torch.zeros(n_queries, chosen.numel(), device=scores.device)
        left[query_rows[mine], common_number[local[mine]] - start] = query_weights[mine]
        scores.addmm_(left, dense)

    rare = (~common[local]).nonzero().flatten()
    flat, work = scores.view(-1), own.columns.lengths[local[rare]].cumsum(0)
    start = 0
    while start < rare.numel():
        done = int(work[start - 1]) if start else 0
        stop = max(start + 1, int(torch.searchsorted(work, done + max_expanded, right=True)))
        entries = rare[start:stop]
        positions, offsets = own.columns.positions(local[entries])
        repeats = offsets.diff()
        targets = torch.repeat_interleave(query_rows[entries] * n_tables, repeats) + own.columns.values[positions]
        added = torch.repeat_interleave(query_weights[entries], repeats) * weights[positions]
        flat.index_add_(0, targets, added)
        start = stop
    return scores


def term_weights(
    query_terms: SparseMatrix, tables: Ragged, weighted: SparseMatrix, first_table: int, starts: Tensor, out: Tensor
) -> None:
    """See `gtr_gpu.ops.lexical.term_weights`; `starts` is where blocks do so in `out`.

    Of one query after the other, so that no more is held than the postings of its own terms.
    """
    n_terms, n_tables = weighted.shape
    for query, (start, stop) in enumerate(pairwise(starts.tolist())):
        terms, candidates = query_terms.columns[query].long(), tables[query].long() - first_table
        inside = (candidates >= 0) & (candidates < n_tables)
        candidates = candidates[inside]
        known = terms < n_terms
        positions, offsets = weighted.columns.positions(terms[known])
        # Terms one after the other, and tables rise within each: so do these numbers.
        numbers = torch.arange(offsets.numel() - 1, device=out.device) * n_tables
        held = torch.repeat_interleave(numbers, offsets.diff()) + weighted.columns.values[positions]
        found = torch.zeros(candidates.numel(), terms.numel(), device=out.device)
        if held.numel():
            wanted = candidates[:, None] + numbers
            places = torch.searchsorted(held, wanted).clamp_max_(held.numel() - 1)
            found[:, known] = torch.where(held[places] == wanted, weighted.weights[positions[places]], 0)
        if stop > start:
            out[start:stop].view(-1, terms.numel())[inside] = found
