"""Questions that ask for nothing one could search for: too short ones, and ones of hardly more than stop words.

On the shared data (questions of a sequence are judged with those before them), by the default thresholds:

| set | questions | under 5 words | share of stop words from .8 on | .75 | .7 |
|---|---|---|---|---|---|
| TabFact | 37,112 | 95 | 23 | 95 | 332 |
| WikiTableQuestions | 17,689 | 106 | 337 | 858 | 1,629 |
| TAT-QA | 1,668 | 13 | 9 | 12 | 28 |

From .8 on it is "who won the last one?" and "what does the table show?"; from .75 on also "how many italians finished
in the top ten?", which says what to look for. Hence .8. Under 5 words it is "largest victory" and "which was completed
last?", and few such as "Sydney won over Geelong".
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

Reason = Literal["too_short", "stop_words"]

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")


def words(text: str) -> list[str]:
    """The words of a text in lower case; a word with an apostrophe is one."""
    return [word.replace("\u2019", "'") for word in _WORD.findall(text.lower())]


def stop_share(text: str, stop_words: Collection[str]) -> float:
    """The share of a text's words that are stop words, without their possessive or contracted ends; 1 without words."""
    found = words(text)
    return sum(word.split("'")[0] in stop_words for word in found) / len(found) if found else 1.0


def objection(text: str, stop_words: Collection[str], min_words: int, max_stop_share: float) -> Reason | None:
    """Why a question is dropped, or None where it stays.

    Args:
        text: The question, with those before it that it builds on.
        stop_words: Function words, in lower case.
        min_words: The fewest words of a question that stays.
        max_stop_share: The share of stop words from which on it goes.
    """
    if len(words(text)) < min_words:
        return "too_short"
    if stop_share(text, stop_words) >= max_stop_share:
        return "stop_words"
    return None
