"""Exact match: whether an answer is the gold one, word for word."""

from __future__ import annotations

from gtr_gpu.evaluation.answering.texts import Given, are_lists, as_text, tokens


def exact_match(gold: tuple[str, ...], given: Given) -> float:
    """1 where the answer and the gold answer have the same words in the same order, else 0.

    EM(g, p) = [N(g) = N(p)], with N the normalisation of SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250): lower case,
    no ASCII punctuation, no articles, single spaces.

    SQuAD's gold answers are alternatives, of which the best counts; here the gold items are the parts of one answer.
    So where either side is one text, the other side's items are joined by ", " to one. Items against items score 1
    where they are the same multiset, {N(g_i)} = {N(p_j)}, whatever their order (as in DROP, Dua et al. 2019, arXiv
    1903.00161, which asks for the same set and as many items).

    Args:
        gold: The gold items g, one or more.
        given: The answer p: a text, its items, or None, which is wrong.
    """
    if given is None:
        return 0.0
    if are_lists(gold, given):
        return float(sorted(map(tokens, gold)) == sorted(map(tokens, given)))
    return float(tokens(as_text(gold)) == tokens(as_text(given)))
