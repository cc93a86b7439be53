"""Label accuracy: whether a statement was judged rightly."""

from __future__ import annotations

from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation.answering.texts import Given

_LABELS = {"1": True, "0": False}
_VERDICTS = {"true": True, "false": False}


def label_accuracy(gold: tuple[str, ...], given: Given) -> float:
    """1 where the answer says rightly whether the statement is true, else 0.

    Acc(y, p) = [p = y_1 ∧ … ∧ y_n], as TabFact has it for one statement (Chen et al. 2020, arXiv 1909.02164). A merged
    statement of n parts has a label y_i for each, and is true where all of its parts are.

    Args:
        gold: The labels y of the parts, each "1" (true) or "0" (false).
        given: The answer p: "True" or "False" in any case; anything else, such as None, is wrong.

    Raises:
        GTRError: A label is neither "1" nor "0".
    """
    for label in gold:
        if label not in _LABELS:
            raise GTRError(f"the label of a statement must be 1 or 0, got {label!r}")
    verdict = _VERDICTS.get(given.strip().lower()) if isinstance(given, str) else None
    return float(verdict is all(_LABELS[label] for label in gold))
