"""Questions that ask the same again, and texts that ask one thing of several tables.

Near-duplicates are looked for among the questions on one table, where they add nothing. "Who won in 2005?" on two
tables are two questions. But where a text is the same, word for word, on two tables, no method can tell which of them
is meant, and whichever was called gold would punish the other: such texts go, all of them.

The similarity is the Jaccard index of the sets of three-character pieces, exact, since one table has few questions. Two
texts that differ in a number ("in 2017 and 2018", "in 2018 and 2019") or in their answers (a statement and its
counterfeit differ in one word) are different questions however alike they look; the same words are the same question
even where the source answers them differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from gtr_gpu.multitableqa.question_filter import words
from gtr_gpu.multitableqa.wording import word_set

_NUMBER_WORDS = word_set(
    """
    zero one two three four five six seven eight nine ten eleven twelve first second third fourth fifth sixth
    seventh eighth ninth tenth
    """
)


def pieces(text: str) -> frozenset[str]:
    """The distinct runs of three characters of a text's words, joined by single spaces, with a space at both ends."""
    joined = f" {' '.join(words(text))} "
    return frozenset(joined[start : start + 3] for start in range(len(joined) - 2))


def similarity(first: frozenset[str], second: frozenset[str]) -> float:
    """The Jaccard index of two sets, the size of what both have over that of what either has; 1 for two empty ones."""
    common = len(first & second)
    union = len(first) + len(second) - common
    return common / union if union else 1.0


def first_of_each(texts: Sequence[str], answers: Sequence[Hashable], threshold: float) -> list[int]:
    """Which of the questions on one table stay: each that isn't a near-duplicate of an earlier one that stays.

    Args:
        texts: The questions, with those before them that they build on.
        answers: The answers of each.
        threshold: The similarity from which on two are near-duplicates, if their numbers and answers are equal.

    Returns:
        The rows that stay, rising.
    """
    kept: list[int] = []
    worded: set[tuple[str, ...]] = set()
    seen: dict[Hashable, list[frozenset[str]]] = defaultdict(list)
    for row, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        own, wording = pieces(text), tuple(words(text))
        alike = seen[answer, _numbers(text)]
        if threshold <= 1 and (wording in worded or any(similarity(own, other) >= threshold for other in alike)):
            continue
        alike.append(own)
        worded.add(wording)
        kept.append(row)
    return kept


def ambiguous(texts: Sequence[str], tables: Sequence[Hashable]) -> set[int]:
    """The rows whose text, but for case and punctuation, is asked of several tables.

    Args:
        texts: The questions.
        tables: The table of each.
    """
    rows_of: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, text in enumerate(texts):
        rows_of[tuple(words(text))].append(row)
    return {row for rows in rows_of.values() if len({tables[row] for row in rows}) > 1 for row in rows}


def _numbers(text: str) -> tuple[str, ...]:
    return tuple(sorted(word for word in words(text) if word[0].isdigit() or word in _NUMBER_WORDS))
