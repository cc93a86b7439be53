"""Text of tables and questions as data: one line each, nothing in it hidden, and no tag or token of a model's.

A language model reads one text, in which only our templates may open a tag, a section or a turn. So what comes from
tables, questions and examples goes through here: first `one_line`, then, where it is written, `escaped`.
"""

from __future__ import annotations

import re

# Controls that are no blanks, what turns the direction of text or can't be seen (soft hyphens, fillers, variation
# selectors, tags, which can spell whole sentences). Joiners stay, one at a time: some scripts need them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_JOINERS = re.compile("([\u200c\u200d])[\u200c\u200d]+")
_HALVES = re.compile("[\ud800-\udfff]")

# "< 5", "<1%" and "<= -0.3" stay. The number's word must end before any ">", since models have tokens such as <0x0A>
# and <2de>. Wide forms count as well: some tokenizers fold them.
_LESS = re.compile(r"[<\uff1c\ufe64](?!=?\s?[-+\u2212±~$€£]?\s?\.?[0-9][^\s<>\uff1c\uff1e\ufe64\ufe65]*(?:\s|\Z))")
# [INST], [/INST], [SYSTEM_PROMPT], [gMASK]: names in brackets with two capitals; "[1]" and "[a]" are footnotes.
_BRACKET = re.compile(r"[\[\ufe47\uff3b](?=[/\uff0f]?(\w{2,40})[\]\ufe48\uff3d])", re.ASCII)


def one_line(text: str) -> str:
    """The text on one line, its runs of blanks as one space, without what can't be seen."""
    if not (text.isascii() and text.isprintable()):
        text = _HALVES.sub("\ufffd", _JOINERS.sub(r"\1", _HIDDEN.sub("", text)))
    return " ".join(text.split())


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and an ellipsis where it has more than `limit` characters, of which there is one."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def escaped(text: str, less: str = "&lt;", bracket: str = "&#91;") -> str:
    """The text without the beginning of any tag or control token.

    Args:
        text: One line.
        less: What stands for a `<`, unless a number follows it.
        bracket: What stands for a `[` that opens the name of a token.
    """
    if "<" in text or not text.isascii():
        text = _LESS.sub(lambda _: less, text)
    if "[" in text or not text.isascii():
        text = _BRACKET.sub(lambda match: bracket if _is_token(match.group(1)) else match.group(), text)
    return text


def _is_token(name: str) -> bool:
    return sum(map(str.isupper, name)) > 1 or name.lower() in ("inst", "sys")
