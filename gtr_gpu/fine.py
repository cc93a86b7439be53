"""From candidates to ranked tables: the sparse transfer matrix and personalised PageRank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gtr_gpu.coarse import Candidates
from gtr_gpu.config import Config
from gtr_gpu.ops.pagerank import personalized_pagerank
from gtr_gpu.ops.pooling import pooled_terms
from gtr_gpu.ops.segments import (
    segment_max,
    segment_normalize,
    segment_softmax,
    segment_sum,
    segment_top_k,
    segment_top_k_ragged,
)
from gtr_gpu.ops.transfer import induced_transfer, similarity_transfer
from gtr_gpu.ops.types import Ranks, Transfer
from gtr_gpu.questions import QueryFeatures
from gtr_gpu.ragged import Ragged
from gtr_gpu.snapshot import Snapshot

_TINY = torch.finfo(torch.float32).tiny
# What an edge takes while the transfer matrix is made: positions, ends and weights, some of them twice.
_EDGE_BYTES = 64


class Ranking(NamedTuple):
    """The ranked tables of a batch of B queries.

    Attributes:
        ids: Table numbers, best first, `[B, k]`, int32; -1 where there are fewer.
        scores: Their PageRank, `[B, k]`, float32; -inf where there are fewer.
        iterations: Steps of the last walk, `[B]`, int64.
        converged: Whether that walk came to rest, `[B]`, bool.
        n_candidates: How many tables were ranked in the first walk, `[B]`, int64.
    """

    ids: Tensor
    scores: Tensor
    iterations: Tensor
    converged: Tensor
    n_candidates: Tensor


def rank(queries: QueryFeatures, candidates: Candidates, snapshot: Snapshot, config: Config, k: int) -> Ranking:
    """Walks over each query's candidates and takes the k most visited ones.

    Each number in `keep` adds a round: the so many best tables (k at least) are kept and ranked anew among themselves.
    The batch is cut by its edges into parts that `batch_megabytes` is enough for.
    """
    parts = [
        _rank(queries.slice(start, stop), part, snapshot, config, k)
        for start, stop, part in _cut(queries, candidates, snapshot, config)
    ]
    return Ranking(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def _rank(queries: QueryFeatures, candidates: Candidates, snapshot: Snapshot, config: Config, k: int) -> Ranking:
    n_candidates = candidates.tables.lengths
    transfer = _transfer(candidates.tables, snapshot, config)
    if config.personalization == "pooled":
        scores = pooled_scores(queries, candidates.tables, transfer, snapshot, config)
        candidates = Candidates(candidates.tables, scores)
    ranks = _walk(candidates, transfer, config)
    for size in config.keep:
        tables = candidates.tables
        kept, positions = segment_top_k_ragged(ranks.values, tables.values, tables.offsets, max(size, k))
        positions = torch.sort(positions).values
        candidates = Candidates(Ragged(tables.values[positions], kept.offsets), candidates.scores[positions])
        ranks = _walk(candidates, _transfer(candidates.tables, snapshot, config), config)
    tables = candidates.tables
    ids, scores, _ = segment_top_k(ranks.values, tables.values, tables.offsets, k)
    return Ranking(ids, scores, ranks.iterations, ranks.converged, n_candidates)


def pooled_scores(
    queries: QueryFeatures, tables: Ragged, transfer: Transfer, snapshot: Snapshot, config: Config
) -> Tensor:
    """What each candidate has of a question together with its neighbours, as far as the edges to them are believed.

    The score adds up, in the shares that the config gives, BM25 of a table and its neighbours, divided by the query's
    best; the part of the question's words, by idf, that they hold; the idf of the phrases that they have whole,
    beside that of all words, or of all phrases where no word is known; and the best of their cosines. A neighbour
    counts for a table by W, so a part of a table that was split has the words of the other parts, and one that merely
    resembles others keeps its own.

    Args:
        queries: B questions.
        tables: Their candidates; values `[T]`.
        transfer: W of the candidates.
        snapshot: The corpus.
        config: `pooled_bm25`, `pooled_words`, `pooled_phrases`, `pooled_cosine` and BM25's own.

    Returns:
        The scores `[T]`, float32, at least 0.
    """
    flat, owner = snapshot.flat, tables.segment_ids()
    terms = queries.terms.to(snapshot.device)
    bm25, words = pooled_terms(flat.term_weights(terms, tables, config), terms, flat.idf, transfer)
    best = segment_max(bm25, tables.offsets)[owner].clamp_min(_TINY)
    assert queries.phrases is not None  # read where scores are pooled
    weights, known, idf = flat.phrase_weights(queries.phrases, tables)
    phrases, _ = pooled_terms(weights, known, idf, transfer)
    said = segment_sum(flat.idf[terms.columns.values.long()], terms.columns.offsets)
    # Where tables know none of a question's words that are looked up, its phrases are all that it says.
    said = torch.where(said > 0, said, segment_sum(idf[known.columns.values.long()], known.columns.offsets))
    said = said[owner].clamp_min(_TINY)
    cosines = flat.cosines(queries.semantic, tables).clamp_min(0)
    edges = transfer.weights
    near = segment_max(edges.weights * cosines[edges.columns.values.long()], edges.columns.offsets)
    cosine = torch.maximum(cosines, near)
    lexical = config.pooled_bm25 * bm25 / best + config.pooled_words * words + config.pooled_phrases * phrases / said
    return lexical + config.pooled_cosine * cosine


def _cut(
    queries: QueryFeatures, candidates: Candidates, snapshot: Snapshot, config: Config
) -> Iterator[tuple[int, int, Candidates]]:
    """Consecutive queries whose edges and words fit into memory together; one query at least."""
    tables = candidates.tables
    limit = config.batch_megabytes * 2**20 / _EDGE_BYTES
    if config.transfer == "graph":
        graph = snapshot.graph(config).columns
        degrees = graph.offsets[tables.values + 1] - graph.offsets[tables.values]
        held = segment_sum(degrees.double(), tables.offsets)
    else:
        held = tables.lengths.double().square()
    if config.personalization == "pooled":
        held += tables.lengths.double() * queries.terms.columns.lengths.to(held.device)
    running = torch.cat([held.new_zeros(1), held.cumsum(0)]).cpu()
    start = 0
    while start < len(tables):
        stop = max(start + 1, int(torch.searchsorted(running, running[start] + limit, right=True)) - 1)
        first, last = int(tables.offsets[start]), int(tables.offsets[stop])
        yield start, stop, Candidates(tables.slice(start, stop), candidates.scores[first:last])
        start = stop


def personalize(candidates: Candidates, temperature: float) -> Tensor:
    """The personalisation h of each query: what it gives each candidate, as shares.

    Args:
        candidates: Tables with scores; those at `-inf` get nothing.
        temperature: Of the softmax; at 0 the scores are clamped at 0 and divided by their sum instead, or uniform where
            all are 0.

    Returns:
        h, `[T]`, float32; each query's shares sum to 1.
    """
    offsets = candidates.tables.offsets
    if temperature:
        return segment_softmax(candidates.scores, offsets, temperature)
    return segment_normalize(candidates.scores.clamp_min(0), offsets)


def _walk(candidates: Candidates, transfer: Transfer, config: Config) -> Ranks:
    return personalized_pagerank(
        transfer,
        personalize(candidates, config.temperature),
        damping=config.damping,
        tolerance=config.tolerance,
        max_iterations=config.max_iterations,
    )


def _transfer(tables: Ragged, snapshot: Snapshot, config: Config) -> Transfer:
    if config.transfer == "graph":
        return induced_transfer(tables, snapshot.graph(config))
    return similarity_transfer(tables, snapshot.semantic, config.similarity_floor)
