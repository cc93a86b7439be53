"""Several questions on one table as one that takes several steps.

Questions of a sequence keep their order. One that refers back begins with "Based on the answer,", unless words such as
"of", "among" or "what about" begin it, which say so themselves. All others, of a sequence or not, are joined by ", AND"
where that makes one sentence, or begin with "Furthermore," and, once that is used, "In addition,". Each statement of a
merged one has a label of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from gtr_gpu.multitableqa.near_duplicates import pieces, similarity
from gtr_gpu.multitableqa.wording import capitalized, continued, is_order, sentence, tidy, with_end, without_end


class Part(NamedTuple):
    """A question to merge.

    Attributes:
        text: The question, standing for itself.
        within: The same as it follows the question before it in its sequence.
        refers_back: Whether it builds on that.
    """

    text: str
    within: str
    refers_back: bool = False


def independent_groups(
    texts: Sequence[str], share: float, max_parts: int, max_similarity: float, chance: random.Random
) -> list[list[int]]:
    """Draws which of a table's questions are merged.

    Args:
        texts: The n questions.
        share: The share of them that becomes a part of a merged question, on average over tables with many questions.
        max_parts: The most parts of a merged question; two up to so many are equally likely.
        max_similarity: Questions at least so similar aren't merged with each other.
        chance: The source of random numbers.

    Returns:
        Every row from 0 to n - 1 once, in groups of rising rows, by the first row of each.
    """
    order = list(range(len(texts)))
    chance.shuffle(order)
    own = [pieces(text) for text in texts]
    mean = (2 + max_parts) / 2
    begins = share / (mean - (mean - 1) * share)
    groups: list[list[int]] = []
    grouped: set[int] = set()
    for at, row in enumerate(order):
        if row in grouped:
            continue
        size = chance.randint(2, max_parts) if chance.random() < begins else 1
        group = [row]
        for other in order[at + 1 :] if size > 1 else ():
            if len(group) == size:
                break
            if other not in grouped and all(similarity(own[other], own[one]) < max_similarity for one in group):
                group.append(other)
        grouped.update(group)
        groups.append(sorted(group))
    return sorted(groups)


def sequence_groups(positions: Sequence[int], max_parts: int, chance: random.Random) -> list[list[int]]:
    """Cuts a sequence into runs of neighbours, two up to `max_parts` long, and single ones where none is left.

    Args:
        positions: The places in the sequence of those of its questions that are there, rising.
        max_parts: The longest run.
        chance: The source of random numbers.

    Returns:
        The rows of each run.
    """
    groups: list[list[int]] = []
    size = 0
    for row, position in enumerate(positions):
        if groups and len(groups[-1]) < size and positions[row - 1] + 1 == position:
            groups[-1].append(row)
        else:
            groups.append([row])
            size = chance.randint(2, max_parts)
    return groups


def merged(parts: Sequence[Part], statement: bool, sequential: bool, chance: random.Random) -> str:
    """One text of several questions.

    Args:
        parts: Two or more questions, in order.
        statement: Whether they are statements.
        sequential: Whether each follows the one before it in a sequence.
        chance: Draws the connectives of independent ones.
    """
    text = sentence(parts[0].text, statement)
    joined = False
    for part in parts[1:]:
        if sequential and part.refers_back:
            text += " " + _building_on(part.within, statement)
            continue
        following = tidy(part.text)
        # "And" joins what has one mood, once; orders and questions stay sentences of their own.
        if not joined and _one_sentence(text, following, statement) and chance.random() < 0.5:
            text = f"{without_end(text)}, AND {with_end(continued(following), statement)}"
            joined = True
        else:
            word = "Furthermore" if "Furthermore," not in text else "In addition"
            text += f" {word}, {with_end(continued(following), statement)}"
            joined = False
    return text


def _building_on(text: str, statement: bool) -> str:
    tidied = tidy(text)
    first = " ".join(tidied.lower().split()[:3])
    if first.startswith(("of ", "out of ", "from ", "among ", "between ", "what about ", "how about ")):
        return sentence(tidied, statement)
    return capitalized(f"based on the answer, {with_end(continued(tidied), statement)}")


def _one_sentence(text: str, following: str, statement: bool) -> bool:
    inner = without_end(text)
    if any(mark in inner for mark in ("? ", ". ", "! ")):
        return False
    return statement or is_order(text) == is_order(following)
