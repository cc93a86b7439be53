"""Denotation accuracy: whether an answer names the same things, however they are written."""

from __future__ import annotations

from gtr_gpu.evaluation.answering.texts import Given
from gtr_gpu.evaluation.answering.values import Value, value_of

TOLERANCE = 1e-6
"""Numbers that differ by less are the same."""


def denotation(gold: tuple[str, ...], given: Given) -> float:
    """1 where the answer has as many different items as the gold answer and each gold item is among them, else 0.

    D(G, P) = [|G| = |P| ∧ ∀ g ∈ G ∃ p ∈ P: g ≈ p], with G and P the sets of gold and given items; g ≈ p where their
    normalised texts are equal, or both are numbers and |g - p| < 1e-6, or both are dates that agree in year, month and
    day, unknown ones included. A date of which the year alone is known is a number. These are the rules of the official
    evaluator of WikiTableQuestions, version 1.0.2 (Pasupat and Liang 2015, arXiv 1508.00305).

    What is beyond it: the official evaluator knows from CoreNLP which gold items are numbers and dates, and reads
    given ones in plain form only. No tags come with the data here, so both sides are read by one set of rules: the
    official plain forms (what Python reads as a number; year-month-day with "xx" for the unknown), and, in normalised
    text, numbers with thousands separators, a currency's or a percent sign (which is dropped: 20% is 20) and a minus or
    brackets for one ((64) is -64), and dates in English ("December 16, 2011", "16 Dec 2011", "December 16th",
    "December 2011"). Numbers in words, units (4 years), and dates with slashes stay texts.

    Args:
        gold: The gold items G.
        given: The answer P: its items, a text, which is one item, or None, which is wrong.
    """
    if given is None:
        return 0.0
    wanted = _different(gold)
    found = _different((given,) if isinstance(given, str) else given)
    if len(wanted) != len(found):
        return 0.0
    return float(all(any(_match(one, other) for other in found) for one in wanted))


def _match(one: Value, other: Value) -> bool:
    if one.text == other.text:
        return True
    if one.number is not None and other.number is not None:
        return abs(one.number - other.number) < TOLERANCE
    return one.date is not None and one.date == other.date


def _different(items: tuple[str, ...]) -> list[Value]:
    """The items' values, each once: numbers and dates by what they are, others by their text."""
    kept: dict[object, Value] = {}
    for item in items:
        value = value_of(item)
        kept.setdefault(_key(value), value)
    return list(kept.values())


def _key(value: Value) -> object:
    if value.number is not None:
        whole = round(value.number)
        return float(whole) if abs(value.number - whole) < TOLERANCE else value.number
    return value.date or value.text
