"""Vague references in a tagged question: where they stand and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gtr_gpu.multitableqa.captions import singular
from gtr_gpu.multitableqa.wording import word_set


class Token(NamedTuple):
    """A word of a question.

    Attributes:
        text: As written.
        lower: In lower case.
        tag: Its tag in the Penn Treebank's set.
        start: Where it begins in the question.
        end: Where it ends.
    """

    text: str
    lower: str
    tag: str
    start: int
    end: int


class Reference(NamedTuple):
    """A vague reference.

    Attributes:
        kind: "table" for "this chart"; "noun" for "this team"; "during" for "this season" without "in"; "described" for
            "this city that hosted ...", which the sentence itself explains; "place" for "above" and "here"; "pronoun"
            and "possessive" for "he" and "his".
        noun: What it speaks of: the noun with what stands before it, or the pronoun.
        start: Where it begins in the question.
        end: Where it ends.
    """

    kind: str
    noun: str
    start: int
    end: int


TRIGGERS = re.compile(
    r"\b(this|these|above|below|following|table|chart|list|graph|here|he|she|his|her|him|they|their|them|its)\b",
    re.IGNORECASE,
)
"""A question without any of these words has no vague reference but to the questions before it."""

_TABLES = word_set("table chart list graph tables charts graphs")
_BESIDE = word_set("above following below given entire whole provided shown current same")
_AUXILIARIES = word_set(
    """
    did do does was were is are had has have will would can could should may might must
    """
)
_STATIVE = word_set("have play score win lose")
_BEFORE_CLAUSE = _AUXILIARIES | {"that", "which", "who", "before", "after", "when", "as", "because", "until", "of"}
_QUESTION_WORDS = word_set("what which who whom whose when where why how")
_RELATIVE = word_set("that which who whom whose where of located")
_BACK = word_set(
    """
    these those this that they them their theirs it its he she his her hers him one ones other others same former
    latter then rest both another else each there
    """
)
_COUNTS = word_set(
    """
    name title number amount year date total time place position score difference first last rank
    """
)
_MARKER = re.compile(
    r"(?:(?:and|but|so|then|also|however|okay|ok)\b(?! (?:many|much|far|few|long|known))\s*,?\s+"
    r"|(?:additionally|furthermore|moreover|besides)\s*,\s+)+",
    re.IGNORECASE,
)
_ELLIPSIS = re.compile(r"(?:and|or|but|what about|how about|what of)\b", re.IGNORECASE)
_PERSONS = {"he": "person", "she": "person", "his": "person", "her": "person", "him": "person"}


def without_marker(text: str) -> str:
    """A question without the discourse markers that it begins with ("And", "So then,")."""
    rest = _MARKER.sub("", text, count=1) if _MARKER.match(text) else text
    return rest if len(rest.split()) > 1 else text


def refers_back(tokens: Sequence[Token]) -> bool:
    """Whether a question of a sequence can't be understood without those before it."""
    text = " ".join(token.lower for token in tokens)
    if _ELLIPSIS.match(text):
        return True
    for place, token in enumerate(tokens):
        if token.lower not in _BACK or token.tag in ("WDT", "IN", "EX") or _expletive(tokens, place):
            continue
        # "This chart" is the table, which no question before it explains.
        if _at_table(tokens, place) is None:
            return True
    compared = any(token.tag in ("JJR", "RBR") for token in tokens) and not any(
        token.lower == "than" for token in tokens
    )
    return compared or not any(token.tag.startswith("NN") or token.tag == "CD" for token in tokens)


def vague_references(tokens: Sequence[Token]) -> Iterator[Reference]:
    """The vague references of a question that stands alone, in order."""
    for place, token in enumerate(tokens):
        found = _at_table(tokens, place) or _at_place(tokens, place)
        if not found and token.lower in ("this", "these"):
            found = _at_noun(tokens, place)
        if not found and token.tag in ("PRP", "PRP$"):
            found = _at_pronoun(tokens, place)
        if found:
            yield found


def kind_of_pronoun(pronoun: str) -> str:
    """The noun that a pronoun stands in for: `person` or `team`."""
    return _PERSONS.get(pronoun, "team")


def _at_table(tokens: Sequence[Token], place: int) -> Reference | None:
    """Of the kind "this chart", "the above list", "the table below"."""
    if tokens[place].lower not in ("this", "the", "that"):
        return None
    at = place + 1
    while at < len(tokens) and tokens[at].lower in _BESIDE:
        at += 1
    if at >= len(tokens) or tokens[at].lower not in _TABLES:
        return None
    # "The list of nominees" and "the table tennis" speak of other things; "the list price" has a noun behind it.
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    if after and (after.lower == "of" or after.tag.startswith("NN") or after.tag == "POS" or after.text == "-"):
        return None
    # Charts of music are things of their own.
    if tokens[place].lower == "the" and at == place + 1 and tokens[at].lower.startswith("chart") and _sold(tokens):
        return None
    end = tokens[at].end
    if after and after.lower in ("above", "below"):
        end = after.end
    return Reference("table", tokens[at].lower, tokens[place].start, end)


def _at_place(tokens: Sequence[Token], place: int) -> Reference | None:
    """Of the kind "listed above", "shown here"."""
    if tokens[place].lower not in ("above", "below", "here") or place == 0:
        return None
    before, after = tokens[place - 1], tokens[place + 1] if place + 1 < len(tokens) else None
    # "Listed above 500" and "listed above the others" compare.
    if before.lower in ("listed", "shown", "mentioned", "given", "named", "provided", "displayed") and (
        after is None or after.tag in (".", ",", "VBZ", "VBD", "VBP", "MD", "WDT")
    ):
        return Reference("place", before.text, tokens[place].start, tokens[place].end)
    return None


def _at_noun(tokens: Sequence[Token], place: int) -> Reference | None:
    """Of the kind "this team", "these two countries"."""
    at = place + 1
    while at < len(tokens) and tokens[at].tag in ("JJ", "JJS", "NN", "NNS", "NNP", "NNPS", "CD", "VBN", "HYPH", "POS"):
        # A participle behind the noun describes it: "this hospital located in".
        if tokens[at].tag == "VBN" and tokens[at - 1].tag.startswith("NN"):
            break
        at += 1
    while at > place + 1 and not tokens[at - 1].tag.startswith("NN"):
        at -= 1
    if at == place + 1:
        return None
    head = singular(tokens[at - 1].lower)
    if any(singular(token.lower) == head and token.tag.startswith("NN") for token in tokens[:place]):
        return None
    after = tokens[at] if at < len(tokens) else None
    phrase = _spelled(tokens[place + 1 : at])
    # Where a clause begins the participle is its verb: "has this curler played", "the opponent this team faced".
    asked = place > 0 and (tokens[place - 1].lower in _BEFORE_CLAUSE or tokens[place - 1].tag.startswith("NN"))
    if after and (after.lower in _RELATIVE or after.tag in ("WDT", "WP", "WP$") or (after.tag == "VBN" and not asked)):
        return Reference("described", phrase, tokens[place].start, tokens[at - 1].end)
    # "This university in the city": a phrase of its own, unlike "this team in 2005".
    if (
        after
        and after.tag == "IN"
        and at + 1 < len(tokens)
        and tokens[at + 1].tag in ("DT", "CD")
        and tokens[at + 1].text.isalpha()
        and at - place > 2
    ):
        return Reference("described", phrase, tokens[place].start, tokens[at - 1].end)
    # "How many wins did they have this season": a time, without its preposition.
    during = place > 0 and head == "season" and tokens[place - 1].tag not in ("IN", "VBG", "VB", "TO")
    kind = "during" if during or (place > 0 and head == "season" and tokens[place - 1].lower in _STATIVE) else "noun"
    return Reference(kind, phrase, tokens[place].start, tokens[at - 1].end)


def _at_pronoun(tokens: Sequence[Token], place: int) -> Reference | None:
    """Of the kind "he" in "when did he retire", "his" in "what was his highest rank"."""
    token = tokens[place]
    if token.lower not in ("he", "she", "they", "him", "his", "her", "their", "them", "its"):
        return None
    before = tokens[:place]
    if any(earlier.lower in ("who", "whom", "whose") or earlier.tag in ("NNP", "NNPS") for earlier in before):
        return None
    nouns = [earlier for earlier in before if earlier.tag.startswith("NN")]
    # In "how many games did they lose" the noun is what was lost, and so not "they".
    fronted = bool(before) and before[-1].lower in _AUXILIARIES
    fronted = fronted and any(earlier.lower in _QUESTION_WORDS for earlier in before[:2])
    if token.tag == "PRP$":
        if any(singular(noun.lower) not in _COUNTS for noun in nouns):
            return None
        return Reference("possessive", token.lower, token.start, token.end)
    following = tokens[place + 1] if place + 1 < len(tokens) else None
    # "Which are they only names" and "what is he number" are slips for "the".
    slip = following is not None and (following.tag in ("NN", "NNS") or (fronted and following.lower == "only"))
    if slip or (nouns and not fronted):
        return None
    return Reference("pronoun", token.lower, token.start, token.end)


def _spelled(tokens: Sequence[Token]) -> str:
    """Words as they stand in the question, with single blanks where it has any."""
    spelled = tokens[0].text
    for before, token in pairwise(tokens):
        spelled += " " * (token.start > before.end) + token.text
    return spelled


def _sold(tokens: Sequence[Token]) -> bool:
    return any(
        token.lower in ("peaked", "peak", "debuted", "charted", "hit", "album", "single", "song") for token in tokens
    )


def _expletive(tokens: Sequence[Token], place: int) -> bool:
    """Whether a word refers to nothing: "how long did it take", "is there a", "that" before a clause."""
    if tokens[place].lower == "there":
        return tokens[place].tag == "EX"
    if tokens[place].lower == "that":
        return tokens[place].tag not in ("DT", "PRP")
    if tokens[place].lower == "it":
        return place + 1 < len(tokens) and tokens[place + 1].lower in ("take", "took", "that")
    if tokens[place].lower in ("one", "each"):
        # "At least one gold medal", "each season": a noun follows.
        return (place + 1 < len(tokens) and tokens[place + 1].tag.startswith(("NN", "JJ"))) or tokens[place].tag == "CD"
    return False
