"""Heuristic features: term counts of tables and questions, document frequencies, TF-IDF (x^heur)."""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from gtr_gpu.features.language import language_of
from gtr_gpu.features.stems import Stem
from gtr_gpu.features.tokens import Numbers, terms
from gtr_gpu.ops.lexical import term_counts
from gtr_gpu.ragged import INDEX_DTYPE, OFFSET_DTYPE, Ragged, SparseMatrix, stack_sparse

# Tokens that are counted at once; bounds the memory of a count to some hundred megabytes whatever the corpus.
_BLOCK_TOKENS = 1 << 22


class Vocabulary:
    """Terms numbered in the order in which they were first seen; it only grows, so ids of old segments stay valid.

    Attributes:
        ids: The id of each term.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        """Numbers known terms 0, 1, …; repeats are ignored."""
        self.ids: dict[str, int] = {}
        self.add(known)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, term: str) -> bool:
        return term in self.ids

    def add(self, found: Iterable[str]) -> list[int]:
        """The ids of terms, new ones being numbered on."""
        ids = self.ids
        return [ids.setdefault(term, len(ids)) for term in found]

    def known(self, found: Iterable[str]) -> list[int]:
        """The ids of those terms that have one."""
        ids = self.ids
        return [ids[term] for term in found if term in ids]

    def to_list(self, start: int = 0) -> list[str]:
        """The terms from id `start` on, by id: all of them, or those added since there were `start`."""
        return list(self.ids)[start:]


@dataclass(frozen=True)
class TermCounts:
    """How often each term stands in each table.

    Attributes:
        counts: Occurrences in the schema (caption, description, header) and the cells, `[N, V]`, int32.
        cell_counts: How many of each entry's occurrences are in cells, `[nnz]`, int32.
    """

    counts: SparseMatrix
    cell_counts: Tensor

    @property
    def lengths(self) -> Tensor:
        """The number of tokens of each table, `[N]`, int64."""
        total = torch.zeros(len(self.counts.columns), dtype=torch.int64, device=self.counts.device)
        return total.index_add_(0, self.counts.row_ids(), self.counts.weights.long())

    def select(self, rows: Tensor) -> TermCounts:
        """The counts of the given tables `[R]`, in that order."""
        positions, _ = self.counts.columns.positions(rows)
        return TermCounts(self.counts.select(rows), self.cell_counts[positions])

    def cell_terms(self) -> Ragged:
        """The distinct terms in each table's cells, rising, N rows, int32: the evidence of edges of kind `cells`."""
        in_cells = self.cell_counts > 0
        lengths = torch.bincount(self.counts.row_ids()[in_cells], minlength=len(self.counts.columns))
        return Ragged.from_lengths(self.counts.columns.values[in_cells], lengths)


def count_terms(
    fields: Iterable[tuple[str, str]], vocabulary: Vocabulary, numbers: Numbers = "short", stem: Stem = list
) -> TermCounts:
    """Counts the terms of tables, one pass over each text.

    Args:
        fields: Each table's schema text (caption, description, header) and its cells' text.
        vocabulary: The numbering of terms; new terms are added to it.
        numbers: What numbers become; see `tokens.terms`.
        stem: What makes stems of words, see `stems.stem_of`.
    """
    tokens, schema_lengths, all_lengths = array("i"), array("q"), array("q")
    blocks: list[tuple[SparseMatrix, Tensor]] = []

    def flush() -> None:
        schema, lengths = _tensor(schema_lengths, OFFSET_DTYPE), _tensor(all_lengths, OFFSET_DTYPE)
        rows = Ragged.from_lengths(_tensor(tokens, INDEX_DTYPE), lengths)
        place = torch.arange(rows.values.numel()) - torch.repeat_interleave(rows.offsets[:-1], lengths)
        blocks.append(term_counts(rows, len(vocabulary), place >= torch.repeat_interleave(schema, lengths)))
        for buffer in (tokens, schema_lengths, all_lengths):
            del buffer[:]

    for schema_text, cell_text in fields:
        schema_ids, cell_ids = (vocabulary.add(stem(terms(text, numbers))) for text in (schema_text, cell_text))
        tokens.extend(schema_ids)
        tokens.extend(cell_ids)
        schema_lengths.append(len(schema_ids))
        all_lengths.append(len(schema_ids) + len(cell_ids))
        if len(tokens) >= _BLOCK_TOKENS:
            flush()
    flush()
    counts = stack_sparse([block for block, _ in blocks])
    return TermCounts(counts, torch.cat([in_cells for _, in_cells in blocks]))


def count_queries(
    queries: Sequence[str],
    vocabulary: Vocabulary,
    numbers: Numbers = "short",
    stop_words: frozenset[str] = frozenset(),
    stem: Stem = list,
) -> SparseMatrix:
    """Counts the known terms of questions.

    Words that only make a sentence a question ("which", "did") are rare in tables, so their idf is high. Stop words are
    left out unless the question has no other word.

    Args:
        queries: The questions.
        vocabulary: The terms of the tables.
        numbers: What numbers became in the tables; see `tokens.terms`.
        stop_words: Words that aren't looked up, before stems are made.
        stem: What made the tables' stems, see `stems.stem_of`.

    Returns:
        Occurrences `[B, V]`, int32.
    """
    found: list[list[int]] = []
    for query in queries:
        words = terms(query, numbers)
        words = [word for word in words if word not in stop_words] or words
        found.append(vocabulary.known(stem(words)))
    counts, _ = term_counts(Ragged.from_rows(found), len(vocabulary))
    return counts


@lru_cache
def stop_words_of(spacy_model: str) -> frozenset[str]:
    """The function words that spaCy lists for a pipeline's language; none for an unlisted language or a path.

    Args:
        spacy_model: `auto`, which is English, a pipeline's name such as `de_core_news_sm`, or `blank:de`.
    """
    code = language_of(spacy_model)
    if not code:
        return frozenset()
    try:
        words: set[str] = importlib.import_module(f"spacy.lang.{code}.stop_words").STOP_WORDS
    except ModuleNotFoundError:
        return frozenset()
    return frozenset(word for phrase in words for word in terms(phrase))


def tfidf(counts: SparseMatrix, document_frequency: Tensor, n_documents: int, sublinear: bool = True) -> SparseMatrix:
    """TF-IDF with rows of unit length: tf · (ln((1 + n) / (1 + df)) + 1), scikit-learn's smooth idf.

    Args:
        counts: Occurrences `[N, V]`, int32.
        document_frequency: Tables that hold each term `[V]`, int64; at least V numbers.
        n_documents: The number of tables n that `document_frequency` counts.
        sublinear: Whether tf is 1 + ln(count) rather than the count, so that a column that repeats one word on every
            row doesn't drown the others.

    Returns:
        The features x^heur `[N, V]`, float32; rows without terms are all zero.
    """
    idf = torch.log((1 + n_documents) / (1 + document_frequency.double())) + 1
    tf = counts.weights.double()
    if sublinear:
        tf = 1 + tf.log()
    rows = counts.with_weights(tf * idf[counts.columns.values]).normalized()
    return rows.with_weights(rows.weights.float())


def _tensor(buffer: array[int], dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.array(buffer)).to(dtype)
