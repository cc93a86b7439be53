"""The tables that an answer cites, and the cells that it quotes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from gtr_gpu.answers.answer import CitedCell
from gtr_gpu.prompts.prompt import Prompt

MOST_CELLS = 20
_MOST_OF_A_TEXT = 3

_GAP = r"(?:[ \t\xa0*_#(\[-]{0,4}|\s)"
_FIRST = rf"\b(table(s?)){_GAP}(?:(?:no|nr|number|num)\b[.\s#]{{0,3}})?(\d{{1,9}})(?!\.?\d)"
_CITED = re.compile(_FIRST, re.IGNORECASE)
_NEXT = re.compile(
    r"[*\])\s]{0,4}(,\s*(?:and|or)?|&|and|or|/|to|through|-|–|—)\s*#?(?:table\s*)?(\d{1,9})(?!\.?\d)",
    re.IGNORECASE,
)
_RANGE = ("-", "–", "—", "to", "through")
# No prompt holds so many tables: `Table 2011` is a name or a year.
_NOISE = 1000
_MOST_TABLES = 200

_QUOTED = re.compile(
    r'"([^"\n]{1,300})"|“([^”\n]{1,300})”|„([^“”\n]{1,300})[“”]|«([^»\n]{1,300})»|「([^」\n]{1,300})」|`([^`\n]{1,300})`'
    r"|\*\*([^*\n]{1,300})\*\*|(?<!\w)'([^'\n]{1,300})'(?!\w)|(?<!\w)\u2018([^’\n]{1,300})’(?!\w)"
)
_WORD = re.compile(r"\w+")
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")


def cited_tables(text: str, n_tables: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tables that a text cites, in order of their first mention.

    Args:
        text: The text: `Table 1`, `tables 1, 2 and 4`, `Table 1-3`, `<table2>`, `table #2`, `[Table 4]`.
        n_tables: How many tables the prompt holds.

    Returns:
        The numbers of tables in the prompt, and those of tables that are not; years and the like are neither.
    """
    numbers = list(dict.fromkeys(_numbers(text, n_tables)))
    known = tuple(number for number in numbers if 1 <= number <= n_tables)
    return known, tuple(number for number in numbers if not 1 <= number <= n_tables)[:_MOST_TABLES]


def _numbers(text: str, n_tables: int) -> Iterator[int]:
    place = 0
    # From where the last chain ended: otherwise a model that repeats itself would have every end of it read again.
    while match := _CITED.search(text, place):
        plural, last = bool(match.group(2)), int(match.group(3))
        if last < max(_NOISE, n_tables + 1):
            yield last
        place = match.end()
        # `Table 1, 3 players` cites one table, `Tables 1, 3` two.
        while more := _NEXT.match(text, place):
            between, number = more.group(1).lower(), int(more.group(2))
            if (between.startswith(",") and not plural) or number >= max(_NOISE, n_tables + 1):
                break
            if between in _RANGE and last < number <= last + _MOST_TABLES:
                yield from range(last + 1, number)
            yield number
            last, place = number, more.end()


class ShownCells:
    """The cells that a prompt shows."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt

    def holds(self, text: str) -> bool:
        """Whether a text is one of the cells."""
        return normalized(text) in self._texts

    def cited(self, reasoning: str, items: Sequence[str], tables: Sequence[int]) -> tuple[CitedCell, ...]:
        """The cells that an answer rests on, at most 20, those of the answer first.

        A cell counts whose whole text is the answer or an item of it, stands in quotes in the reasoning, or occurs
        there word for word, if it is long enough not to do so by chance. Where no whole text is the answer, those
        count that are a part of it, such as the number of `79 minutes`. Of cells of one text at most three count, those
        whose rows hold the most other cells that count.

        Args:
            reasoning: The reasoning.
            items: The answer, or the items of it.
            tables: The numbers of the tables to look at; all where it is empty.
        """
        answers = {normalized(item) for item in items} - {""}
        marked = (quote for match in _QUOTED.finditer(reasoning) for quote in match.groups() if quote)
        quotes = {normalized(quote) for quote in marked} - {""}
        reasoned, answered = _prose(reasoning), _prose(" ; ".join(items))
        found: dict[str, list[CitedCell]] = {}
        partly: dict[str, list[CitedCell]] = {}
        for number in tables or range(1, len(self._prompt.tables) + 1):
            shown = self._prompt.tables[number - 1]
            for row in shown.rows:
                for column, cell in enumerate(shown.table.rows[row]):
                    text = normalized(cell)
                    if text and (text in answers or text in quotes or _is_said(cell, reasoned, 5)):
                        found.setdefault(text, []).append(CitedCell(number, row, column, cell))
                    elif _is_said(cell, answered, 2):
                        partly.setdefault(text, []).append(CitedCell(number, row, column, cell))
        if not answers & found.keys():
            found |= partly
            answers |= partly.keys()
        return tuple(_few(found, answers))

    @cached_property
    def _texts(self) -> frozenset[str]:
        shown = self._prompt.tables
        return frozenset(normalized(cell) for one in shown for row in one.rows for cell in one.table.rows[row])


def normalized(text: str) -> str:
    """A text as cells are compared: compatibility forms, case, blanks, thousands separators and outer marks apart."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return _GROUPED.sub("", folded).strip(" .\"'“”*`")


class _Prose(NamedTuple):
    """A text as its words, which cells are looked up in.

    Attributes:
        words: The words.
        joined: The same in order, each between blanks.
    """

    words: set[str]
    joined: str


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text))


def _prose(text: str) -> _Prose:
    words = _words(text)
    return _Prose(set(words), f" {' '.join(words)} ")


def _is_said(cell: str, prose: _Prose, least: int) -> bool:
    """Whether a text holds a cell of at least so many characters word for word, and not by chance."""
    if len(cell) < least:
        return False
    words = _words(cell)
    # Most cells are done with here, before a long text is searched.
    if not words or words[0] not in prose.words:
        return False
    # One word of prose is no quotation: it needs a capital or a number, such as `Norway` or `A380`.
    by_name = len(words) > 1 or not words[0].islower()
    return by_name and f" {' '.join(words)} " in prose.joined


def _few(found: dict[str, list[CitedCell]], answers: set[str]) -> Iterable[CitedCell]:
    evidence: dict[tuple[int, int], set[str]] = {}
    for text, cells in found.items():
        for cell in cells:
            evidence.setdefault((cell.table, cell.row), set()).add(text)
    chosen: list[CitedCell] = []
    for _, cells in sorted(found.items(), key=lambda item: item[0] not in answers):
        best = sorted(cells, key=lambda cell: (-len(evidence[cell.table, cell.row]), cell))
        most = len(evidence[best[0].table, best[0].row])
        # Where one row holds more of what was said than the others, those others hold the same text by chance.
        chosen += [cell for cell in best if len(evidence[cell.table, cell.row]) == most][:_MOST_OF_A_TEXT]
    return chosen[:MOST_CELLS]
