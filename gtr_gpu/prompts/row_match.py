"""How well rows and columns match a question: words in common, rare ones more, and cells that it says word for word."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from gtr_gpu.features.heuristic import stop_words_of
from gtr_gpu.features.phrases import MAX_PHRASE
from gtr_gpu.features.stems import Stem, stem_of
from gtr_gpu.features.tokens import terms
from gtr_gpu.tables.table import Table

# Rows of a table that are read word by word; of longer tables those that have most of the question's words.
_MOST_ROWS = 2000
# Characters of a cell that are read: words further on say little about the row.
_READ = 1000
# Cells of a row that are read.
_READ_CELLS = 500
# First rows of a long table, and columns of a wide one, that are looked at in any case.
_FIRST = 3
_ENGLISH = "auto"
# What a stop word weighs of a content word: lists of them have "first", "last", "us" and the numbers up to a hundred.
_STOP_WORD = 0.2


class Matcher:
    """Matches tables with one question.

    Attributes:
        words: The stems of the question's content words, or of all of them where it has no other.
    """

    def __init__(self, question: str) -> None:
        self._stem: Stem = stem_of("auto", _ENGLISH)
        said = terms(question, "keep")
        stop_words = stop_words_of(_ENGLISH)
        content = [word for word in said if word not in stop_words] or said
        self.words = frozenset(self._stem(content))
        # What any form of a word begins with, for a first look.
        self._beginnings = sorted({_beginning(word) for word in self.words})
        self._said = frozenset(self._stem(said))
        self._phrases = frozenset(_runs(self._stem(said)))

    def rows_to_read(self, table: Table) -> list[int]:
        """The numbers of the rows that are worth reading, rising: all of them, unless there are very many."""
        if len(table.rows) <= _MOST_ROWS:
            return list(range(len(table.rows)))
        best = heapq.nsmallest(_MOST_ROWS, ((-self._glance(row), number) for number, row in enumerate(table.rows)))
        return sorted({number for _, number in best} | set(range(_FIRST)))

    def columns_to_show(self, header: Sequence[str], most: int) -> list[int]:
        """The numbers of the columns to show, rising: all of them, or the first ones and those that the question names.

        Args:
            header: The column names.
            most: The most columns to show, at least as many as are looked at in any case.
        """
        if len(header) <= most:
            return list(range(len(header)))
        named = [number for number, name in enumerate(header) if self.words & set(self._stem(terms(name[:_READ])))]
        order = dict.fromkeys([*range(_FIRST), *named, *range(len(header))])
        return sorted(list(order)[:most])

    def _glance(self, row: Sequence[str]) -> int:
        text = "\n".join(row).lower()
        return sum(word in text for word in self._beginnings)

    def matches(self, tables: Sequence[Table], rows: Sequence[Sequence[int]]) -> list[list[float]]:
        """How well rows of several tables match, from 0: a word weighs ln(1 + n / df) over all rows of these tables.

        Args:
            tables: The tables.
            rows: The numbers of each table's rows that are read; the others are taken to have no word of the question.

        Returns:
            For each table one number for each of these rows, at most 1 for words, and at most as much for phrases.
        """
        found = [[self._found(table.rows[row]) for row in numbers] for table, numbers in zip(tables, rows, strict=True)]
        n_rows = sum(len(table.rows) for table in tables)
        frequency = Counter(word for words, _ in chain.from_iterable(found) for word in words)
        weights = {
            word: math.log(1 + n_rows / count) * (1 if word in self.words else _STOP_WORD)
            for word, count in frequency.items()
        }
        whole = sum(weights.values()) or 1.0

        def score(words: frozenset[str], phrases: frozenset[str]) -> float:
            return (sum(map(weights.__getitem__, words)) + sum(map(weights.__getitem__, phrases))) / whole

        return [[score(*one) for one in of_table] for of_table in found]

    def _found(self, row: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
        """The question's words in a row, and those of them in cells that it says as a whole."""
        cells = [cell[:_READ] for cell in row[:_READ_CELLS]]
        words = self._said.intersection(self._stem(terms(" \n ".join(cells), "keep")))
        if not words:
            return words, words
        said = [phrase for phrase in map(self._phrase, cells) if phrase in self._phrases]
        return words, words.intersection(chain.from_iterable(said))

    def _phrase(self, cell: str) -> tuple[str, ...]:
        return tuple(self._stem(terms(cell, "keep"))) if len(cell) <= _READ // 4 else ()


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(len(words)):
        for stop in range(start + 1, min(start + MAX_PHRASE, len(words)) + 1):
            yield tuple(words[start:stop])


def _beginning(word: str) -> str:
    # The last letter of a stem may be none of the word's: "citi" is the stem of "city".
    return word if word.isdecimal() or len(word) <= 4 else word[:-1]
