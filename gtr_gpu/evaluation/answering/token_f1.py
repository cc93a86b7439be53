"""Token F1: how many words an answer shares with the gold one."""

from __future__ import annotations

from collections import Counter

import numpy as np

from gtr_gpu.evaluation.answering.texts import Given, are_lists, as_text, tokens


def token_f1(gold: tuple[str, ...], given: Given) -> float:
    """The harmonic mean of precision and recall of the answer's words, from 0 to 1.

    F1(g, p) = 2·P·R / (P + R), P = |g ∩ p| / |p|, R = |g ∩ p| / |g|, with g and p the multisets of words after SQuAD's
    normalisation (see `exact_match`), |·| their sizes; where either is empty, 1 if both are and else 0 (SQuAD 2.0,
    Rajpurkar et al. 2018, arXiv 1806.03822).

    Where either side is one text, the other side's items are joined to one. Items against items are compared as DROP
    does (Dua et al. 2019, arXiv 1903.00161): each gold item is paired with at most one given item so that the sum of
    their F1 is largest, and the sum is divided by the larger number of items. Not DROP's are here that the words of an
    item are a set and that a pair with other numbers scores 0: an item is scored as a text alone would be.

    Args:
        gold: The gold items, one or more.
        given: The answer: a text, its items, or None, which scores 0.
    """
    if given is None:
        return 0.0
    if not are_lists(gold, given):
        return _f1(Counter(tokens(as_text(gold))), Counter(tokens(as_text(given))))
    from scipy.optimize import linear_sum_assignment

    wanted, found = ([Counter(tokens(item)) for item in items] for items in (gold, given))
    scores = np.array([[_f1(one, other) for other in found] for one in wanted])
    rows, columns = linear_sum_assignment(scores, maximize=True)
    return float(scores[rows, columns].sum()) / max(len(wanted), len(found))


def _f1(gold: Counter[str], given: Counter[str]) -> float:
    if not gold or not given:
        return float(gold == given)
    shared = (gold & given).total()
    # 2·P·R / (P + R) without the fractions, which are 0 / 0 where nothing is shared.
    return 2 * shared / (gold.total() + given.total())
