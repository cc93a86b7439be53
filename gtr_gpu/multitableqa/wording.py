"""Sentences as one writes them: spacing, the first letter, the end mark."""

from __future__ import annotations

import re


def word_set(text: str) -> frozenset[str]:
    """The words of a text, cut at blanks."""
    return frozenset(text.split())


_BEFORE_MARK = re.compile(r"\s+([,;:?!.])(?=\s|$|[\u201d\"')])")
_BEFORE_ENDING = re.compile(r"\s+((?:'s|n't|'re|'ve|'ll|'d)\b)", re.IGNORECASE)
_LONE_APOSTROPHE = re.compile(r"(?<=s) '(?= )")
_INSIDE_BRACKETS = re.compile(r"(?<=[(\[])\s+|\s+(?=[)\]])")
_END = re.compile(r"[\s.?!,;:/]+$")
_ABBREVIATION = re.compile(r"(?:\b\w\.){2,}$|\b(?:no|st|jr|sr|vs|inc|ltd|co|etc|u\.s)\.$", re.IGNORECASE)
_ORDER = re.compile(
    r"(?:please\s+)?(?:name|list|tell|give|find|show|state|identify|provide|count|calculate|determine|specify)\b",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"(?:(?:in|on|at|of|for|from|by|with|to|during|after|before) )?(?:what|which|who|whom|whose|when|where|why|how|is|"
    r"are|was|were|do|does|did|has|have|had|can|could)\b",
    re.IGNORECASE,
)
# Words that begin a question or a statement and aren't names, so that they may be written small within a sentence.
_PLAIN = word_set(
    """
    what which who whom whose when where why how is are was were do does did has have had can could will would
    should in on at of for from by with to during before after between among out other than according the a an this
    that these those there all both some most each every no not only any many more if as please name list tell give
    find show state identify provide count he she it they his her its their based one two three four five six seven
    eight nine ten
    """
)


def tidy(text: str) -> str:
    """Takes out what tokenisers left: runs of blanks, blanks before marks and endings, two question marks."""
    text = " ".join(text.split())
    text = text.replace("`` ", "\u201c").replace("``", "\u201c").replace(" ''", "\u201d")
    text = _BEFORE_ENDING.sub(r"\1", _BEFORE_MARK.sub(r"\1", _INSIDE_BRACKETS.sub("", text)))
    # A single apostrophe between blanks is a genitive's ("Bros ' studio"); two of them are quotation marks.
    if len(_LONE_APOSTROPHE.findall(text)) == 1:
        text = _LONE_APOSTROPHE.sub("'", text)
    return re.sub(r"\?{2,}", "?", text)


def is_order(text: str) -> bool:
    """Whether a question is worded as an order ("Name a team that ...")."""
    return _ORDER.match(text) is not None


def without_end(text: str) -> str:
    """A sentence without its end mark; the full stop of an abbreviation stays."""
    stripped = text.rstrip()
    return stripped if _ABBREVIATION.search(stripped) else _END.sub("", stripped)


def with_end(text: str, statement: bool) -> str:
    """A sentence with the end mark that it needs: a full stop if it orders or states something, or else a "?"."""
    told = text.rstrip().endswith(".") and not _ASKING.match(text)
    mark = "." if statement or told or is_order(text) else "?"
    bare = without_end(text)
    return bare if bare.endswith(mark) else bare + mark


def capitalized(text: str) -> str:
    """A sentence with a capital letter first, if its first word is written small."""
    first = text.split(maxsplit=1)[0] if text else ""
    return text[:1].upper() + text[1:] if first.islower() else text


def continued(text: str) -> str:
    """A sentence as it stands within another one: its first letter small, if it isn't a name's."""
    first = re.match(r"[A-Za-z]+", text)
    return text[:1].lower() + text[1:] if first and first[0].lower() in _PLAIN else text


def sentence(text: str, statement: bool) -> str:
    """A whole sentence: tidied, a capital letter first, an end mark last."""
    return capitalized(with_end(tidy(text), statement))
