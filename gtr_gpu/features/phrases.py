"""Phrases: cells, column names and captions that a question says word for word.

Words alone don't tell "new york" in one cell from "new" in one and "york" in another. So each cell is one number, a
hash of its words in order, and so is each run of words of a question; a table has a phrase where the numbers are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import torch

from gtr_gpu.features.stems import Stem
from gtr_gpu.features.tokens import terms
from gtr_gpu.ragged import Ragged

# Longer ones are texts, which no question says in full.
MAX_PHRASE = 8


def table_phrases(texts_of: Iterable[Iterable[str]], stem: Stem = list) -> Ragged:
    """The phrases that the texts of each table are.

    Args:
        texts_of: Of each of N tables the texts that may be phrases, see `linearize.phrase_texts`.
        stem: What makes stems of words, see `stems.stem_of`.

    Returns:
        The hashes of each table's distinct phrases, rising in each row, N rows; values int64. Two phrases in a billion
        share one by accident with p < 1/30.
    """
    known: dict[str, int] = {}
    tables = []
    for texts in map(set, texts_of):
        for text in texts - known.keys():
            words = stem(terms(text, "keep"))
            known[text] = _hash(words) if 0 < len(words) <= MAX_PHRASE else 0
        tables.append({known[text] for text in texts} - {0})
    return Ragged.from_rows(map(sorted, tables), torch.int64)


def question_phrases(queries: Iterable[str], stem: Stem = list) -> Ragged:
    """The runs of words in each question, of up to `MAX_PHRASE` words.

    Args:
        queries: The B questions.
        stem: What made the stems of the tables' words.

    Returns:
        Their hashes, distinct and rising in each row, B rows; values int64.
    """
    found = []
    for query in queries:
        words = stem(terms(query, "keep"))
        starts = range(len(words))
        found.append({_hash(words[i:j]) for i in starts for j in range(i + 1, min(i + MAX_PHRASE, len(words)) + 1)})
    return Ragged.from_rows(map(sorted, found), torch.int64)


def _hash(words: Sequence[str]) -> int:
    text = " ".join(words).encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)
