"""Scores of questions with all tables at once, the best tables by them, and scores with some tables."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gtr_gpu.config import Config
from gtr_gpu.ops.dispatch import serves
from gtr_gpu.ops.halves import Halves, halve, halved_products, multiplies_bf16
from gtr_gpu.ops.lexical import bm25_idf, bm25_weights, posting_scores, term_weights, weight_offsets
from gtr_gpu.ops.seeds import best_mixed, best_refined
from gtr_gpu.ragged import INDEX_DTYPE, Ragged, SparseMatrix

if TYPE_CHECKING:
    from gtr_gpu.questions import QueryFeatures
    from gtr_gpu.snapshot import Snapshot

# Weights of postings that are kept, one set for each k1 and b: four bytes for each term of each table.
_KEPT_WEIGHTS = 2
# Tables whose features are made float32 at once where they are stored as float16.
_TOGETHER = 1 << 16
# Rough scores pay where so many times fewer tables are wanted than there are.
_FEWER = 8


class FlatScores:
    """Scores of questions with all N tables of a snapshot. Thread-safe.

    What searches read again and again is kept: features in one array where there are several segments, their bf16
    halves where the processor multiplies those faster, postings with their weights, and room for the scores.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._device = snapshot.device
        self._weights: dict[tuple[float, float], list[SparseMatrix]] = {}
        self._room: Tensor | None = None
        self._lock = threading.Lock()

    def best(self, queries: QueryFeatures, config: Config, n: int) -> tuple[Ragged, Tensor]:
        """The n best tables of each of B questions by `config.personalization`, see `gtr_gpu.ops.seeds.best_mixed`.

        Raises:
            IndexFormatError: Features of a segment are damaged, so that a score is no number.
        """
        alive, mix = self._snapshot.takeable, config.mix
        with self._buffers(len(queries)) as (first, second):
            lexical = None
            if config.personalization != "semantic":
                lexical = self.lexical(queries.terms, config, second)
            if config.personalization == "lexical":
                return best_mixed(None, lexical, alive, mix, n)
            if n * _FEWER > self._snapshot.n_tables or not self._refines:
                return best_mixed(self.dense(queries.semantic, first), lexical, alive, mix, n)
            rough = first.view(-1).view(torch.bfloat16)[: first.numel()].view(first.shape)
            errors = halved_products(queries.semantic, self._halves, rough)
            return best_refined(rough, errors, queries.semantic, self._features, lexical, alive, mix, n)

    def dense(self, queries: Tensor, out: Tensor | None = None) -> Tensor:
        """Cosine of each query `[B, d]` with every table: `[B, N]`, float32, in `out` where that is given.

        Raises:
            IndexFormatError: Features of a segment are damaged, so that a score is no number.
        """
        if out is None:
            out = torch.empty(len(queries), self._snapshot.n_tables, device=self._device)
        for start in range(0, out.shape[1], _TOGETHER):
            part = slice(start, start + _TOGETHER)
            torch.mm(queries, self._features[part].float().T, out=out[:, part])
        # A feature that is no number makes a table's score none for any query, so one query's scores tell.
        if not out[:1].sum().isfinite():
            self._check_finite(out[0])
        return out

    def lexical(self, terms: SparseMatrix, config: Config, out: Tensor | None = None) -> Tensor:
        """BM25 of each query's terms `[B, V]` with every table: `[B, N]`, float32, in `out` where that is given."""
        snapshot = self._snapshot
        scores = torch.empty(len(terms.columns), snapshot.n_tables, device=self._device) if out is None else out
        terms = terms.to(self._device)
        weights = self._posting_weights(config.bm25_k1, config.bm25_b)
        for segment, weighted in zip(snapshot.segments, weights, strict=True):
            posting_scores(
                terms, weighted, self._document_frequency, snapshot.n_alive, out=scores, first_column=segment.start
            )
        return scores

    def term_weights(self, terms: SparseMatrix, tables: Ragged, config: Config) -> Tensor:
        """What each of a query's terms `[B, V]` weighs in each of its tables, as `ops.lexical.term_weights` says."""
        return self._looked_up(terms, tables, self._posting_weights(config.bm25_k1, config.bm25_b))

    def phrase_weights(self, phrases: Ragged, tables: Ragged) -> tuple[Tensor, SparseMatrix, Tensor]:
        """Which of a query's phrases each of its tables has.

        Args:
            phrases: The hashed phrases of B queries, int64.
            tables: The tables of each, int32, rising; B rows.

        Returns:
            Weights as `term_weights` gives them, 1 for a phrase that a table has; the phrases that some table of the
            corpus has, numbered through the batch, `[B, U]`, int32; and their idf as BM25 counts it, `[U]`, float32.
        """
        snapshot = self._snapshot
        wanted = torch.unique(phrases.values)
        frequency = torch.zeros(wanted.numel(), dtype=torch.int64)
        holders = []
        for segment in snapshot.segments:
            hashes, postings = segment.phrase_postings
            places = torch.searchsorted(hashes, wanted).clamp_max_(max(hashes.numel() - 1, 0))
            found = (hashes[places] == wanted).nonzero().flatten() if hashes.numel() else wanted.new_empty(0)
            held = postings.select(places[found])
            tables_of, lengths_of = held.values, held.lengths
            if snapshot.takeable is not None:
                alive = snapshot.alive[segment.start + tables_of.long()]
                tables_of = tables_of[alive]
                lengths_of = torch.bincount(held.segment_ids()[alive], minlength=len(held))
            lengths = torch.zeros_like(frequency)
            lengths[found] = lengths_of
            frequency += lengths
            holders.append((tables_of, lengths))
        known = (frequency > 0).nonzero().flatten()
        number = torch.full_like(frequency, -1)
        number[known] = torch.arange(known.numel())
        columns = number[torch.searchsorted(wanted, phrases.values)]
        asked = columns >= 0
        lengths = torch.bincount(phrases.segment_ids()[asked], minlength=len(phrases))
        matrix = SparseMatrix(
            Ragged.from_lengths(columns[asked].to(INDEX_DTYPE), lengths),
            torch.ones(int(asked.sum()), dtype=torch.int32),
            known.numel(),
        ).to(self._device)
        weighted = (
            SparseMatrix(
                Ragged.from_lengths(tables_of, lengths[known]), torch.ones(tables_of.numel()), len(segment)
            ).to(self._device)
            for segment, (tables_of, lengths) in zip(snapshot.segments, holders, strict=True)
        )
        return (
            self._looked_up(matrix, tables, weighted),
            matrix,
            bm25_idf(frequency[known], snapshot.n_alive).float().to(self._device),
        )

    def cosines(self, queries: Tensor, tables: Ragged) -> Tensor:
        """The cosine of each query `[B, d]` with each of its tables, `[T]`, float32.

        Raises:
            IndexFormatError: Features of a segment are damaged, so that a score is no number.
        """
        if len(tables) == 0:
            return torch.empty(0, device=self._device)
        found = torch.cat([self._features_of(tables[row]) @ query for row, query in enumerate(queries)])
        if not found.sum().isfinite():
            self._check_finite(self._features)
        return found

    @cached_property
    def idf(self) -> Tensor:
        """BM25's idf of all terms, `[V]`, float32."""
        return bm25_idf(self._document_frequency, self._snapshot.n_alive).float()

    def _looked_up(self, terms: SparseMatrix, tables: Ragged, weighted: Iterable[SparseMatrix]) -> Tensor:
        """The weights of terms in tables, by each segment's postings in turn."""
        out = torch.zeros(int(weight_offsets(tables.offsets, terms)[-1]), device=self._device)
        for segment, postings in zip(self._snapshot.segments, weighted, strict=True):
            term_weights(terms, tables, postings, segment.start, out)
        return out

    @contextmanager
    def _buffers(self, n_queries: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Room for two scores of each query with each table, `[B, N]` float32 each, with any numbers in it.

        One pair is kept for searches to come, since fresh memory costs about as much as the scores that fill it.
        """
        n_tables = self._snapshot.n_tables
        n = n_queries * n_tables
        with self._lock:
            room, self._room = self._room, None
        if room is None or room.shape[1] < n:
            room = torch.empty(2, n, device=self._device)
        first, second = (part[:n].view(n_queries, n_tables) for part in room)
        yield first, second
        with self._lock:
            if self._room is None or self._room.shape[1] < room.shape[1]:
                self._room = room

    def _check_finite(self, numbers: Tensor) -> None:
        """Names the first segment with tables whose numbers `[N, ...]` are not finite."""
        for segment in self._snapshot.segments:
            if not numbers[segment.start : segment.stop].sum(dtype=torch.float32).isfinite():
                raise segment.not_finite()

    def _posting_weights(self, k1: float, b: float) -> list[SparseMatrix]:
        """Each segment's postings with their BM25 weights, `[V, n]`, where searches compute."""
        with self._lock:
            if (k1, b) not in self._weights:
                found = [
                    bm25_weights(
                        segment.postings(segment.n_terms).to(self._device),
                        segment.lengths.to(self._device),
                        self._snapshot.average_length,
                        k1,
                        b,
                    )
                    for segment in self._snapshot.segments
                ]
                while len(self._weights) >= _KEPT_WEIGHTS:
                    del self._weights[next(iter(self._weights))]
                self._weights[k1, b] = found
            return self._weights[k1, b]

    @cached_property
    def _document_frequency(self) -> Tensor:
        return self._snapshot.document_frequency.to(self._device)

    @cached_property
    def _features(self) -> Tensor:
        """All semantic features `[N, d]`: mapped where one segment is read by a CPU, else in memory."""
        parts = [segment.semantic for segment in self._snapshot.segments]
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).to(self._device)

    def _features_of(self, tables: Tensor) -> Tensor:
        """The semantic features of some tables, float32."""
        # An index that is searched by clusters may be larger than memory; all features of several segments lie there.
        whole = "_features" in self.__dict__ or len(self._snapshot.segments) == 1 or self._device.type != "cpu"
        return self._features[tables.long()].float() if whole else self._snapshot.semantic(tables)

    @cached_property
    def _halves(self) -> Halves:
        halves = halve(self._features)
        if not math.isfinite(halves.longest):
            self._check_finite(self._features)
        return halves

    @property
    def _refines(self) -> bool:
        """Whether rough scores are cheaper, and kernels make them exact where it matters."""
        return multiplies_bf16(self._device) and serves("best_refined", self._device)
