"""Which metrics an answer is scored by, the headline first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gtr_gpu.evaluation.answering.denotation import denotation
from gtr_gpu.evaluation.answering.exact_match import exact_match
from gtr_gpu.evaluation.answering.label_accuracy import label_accuracy
from gtr_gpu.evaluation.answering.texts import Given
from gtr_gpu.evaluation.answering.token_f1 import token_f1
from gtr_gpu.prompts.settings import AnswerKind

Metric = Callable[[tuple[str, ...], Given], float]

_TEXTS: Mapping[str, Metric] = {"EM": exact_match, "F1": token_f1, "denotation": denotation}
_LABELS: Mapping[str, Metric] = {"label accuracy": label_accuracy}


def metrics_for(kind: AnswerKind) -> Mapping[str, Metric]:
    """The metrics of a kind of answers by the names that reports call them, the headline first."""
    return _LABELS if kind == "verification" else _TEXTS


def score(kind: AnswerKind, gold: tuple[str, ...], given: Given) -> dict[str, float]:
    """Each metric of one answer."""
    return {name: metric(gold, given) for name, metric in metrics_for(kind).items()}
