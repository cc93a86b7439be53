"""What the metrics of texts share: SQuAD's normalisation, and when an answer is one text rather than several items."""

from __future__ import annotations

import re
import string

from gtr_gpu.answers.answer import AnswerValue

Given = AnswerValue | None
"""An answer as it was parsed: a text, the items of a list, or None for no answer."""

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def tokens(text: str) -> list[str]:
    """The words of a text after SQuAD's normalisation: lower case, without ASCII punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def as_text(items: AnswerValue) -> str:
    """A text as it is, and items as one text."""
    return items if isinstance(items, str) else ", ".join(items)


def are_lists(gold: tuple[str, ...], given: Given) -> bool:
    """Whether items are compared with items; where either side is one text, both are texts."""
    return isinstance(given, tuple) and len(given) > 1 and len(gold) > 1
