"""Text to terms: Unicode words, and numbers as themselves or as one of a few shapes."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Literal

Numbers = Literal["fold", "short", "keep"]

MAX_TERM = 64
_ID_LENGTH = 16
_HEX_LENGTH = 8

# A comma followed by exactly three digits groups a number; otherwise it separates two of them.
_GROUPING = re.compile(r",(?<=\d,)(?=\d{3}(?!\d))")
# Dots and colons between digits belong to one number (decimals, times, dates); hyphens and slashes separate ("1992-93"
# is two years). A single class with a rare tail is twice as fast as an alternation of words and numbers.
_TAIL = r"(?:(?<=\d)[.:]\d+(?:e[+-]?\d+(?![a-z0-9]))?)*"
_ASCII = re.compile(rf"[a-z0-9]+{_TAIL}", re.ASCII)
_WORDS = re.compile(rf"\w+{_TAIL}")
_POSSESSIVE = re.compile(r"'s(?![a-z0-9])")
_ACCENTS = re.compile("[\u0300-\u036f]+")
# What goes, joins or separates, and Latin letters whose stroke or ligature no decomposition takes off.
_LETTERS = str.maketrans(
    {
        **dict.fromkeys(["\u00ad", "\u200c", "\u200d", "\u2060", "\ufeff"]),
        **{"\u2019": "'", "\u02bc": "'", "_": " "},
        **{"Æ": "ae", "æ": "ae", "Œ": "oe", "œ": "oe", "Ø": "o", "ø": "o", "Ł": "l", "ł": "l"},
        **{"Đ": "d", "đ": "d", "Ð": "d", "ð": "d", "Þ": "th", "þ": "th", "\u0131": "i"},
    }
)
_MARKED_SCRIPTS = re.compile("[\u0591-\u1dff\u3000-\U0010ffff]")
# Scripts written without spaces: Thai, Lao, Burmese, Khmer, kana, Han.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+"
)


def terms(text: str, numbers: Numbers = "short") -> list[str]:
    """Splits a text into its terms, in order.

    Words are folded (NFKC, case, accents) and split at everything that is neither letter, mark nor digit, hyphens,
    underscores and apostrophes included; a possessive 's is dropped. Runs of a script that is written without spaces
    become overlapping pairs of characters, or the character where it stands alone.

    Args:
        text: Any text.
        numbers: `short` keeps whole numbers below 10,000 as they are ("1,234" is "1234") and makes of every other
            number its shape, such as `#int7`, `#dec3` (digits before the point) or `#time2`; `fold` makes every number
            its shape; `keep` keeps all as text. Long mixes of digits and letters (keys, hashes) are `#id` unless kept.
    """
    if text.isascii():
        text, pattern = text.lower(), _ASCII
    else:
        text = _fold(text)
        pattern = _words_with_marks() if _MARKED_SCRIPTS.search(text) else _WORDS
    if "'s" in text:
        text = _POSSESSIVE.sub(" ", text)
    if "," in text:
        text = _GROUPING.sub("", text)
    found = pattern.findall(text)
    return [term if term.isalpha() and len(term) <= MAX_TERM else term_of(term, numbers) for term in found]


def _fold(text: str) -> str:
    text = unicodedata.normalize("NFKD", text.translate(_LETTERS)).casefold()
    text = unicodedata.normalize("NFKC", _ACCENTS.sub("", text))
    return _UNSPACED.sub(_pairs, text)


def _pairs(match: re.Match[str]) -> str:
    run = match.group()
    return f" {' '.join(map(''.join, pairwise(run))) or run} "


@lru_cache(maxsize=1)
def _words_with_marks() -> re.Pattern[str]:
    """Words whose letters carry combining marks, without which Indic words would fall apart."""
    marks = "".join(char for char in map(chr, range(0x591, 0x1F000)) if unicodedata.category(char).startswith("M"))
    return re.compile(rf"[\w{marks}]+{_TAIL}")


@lru_cache(maxsize=1 << 16)
def term_of(token: str, numbers: Numbers) -> str:
    """The term that a token with digits in it stands for; see `terms`."""
    if not token.isascii():
        token = "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in token)
    token = token[:MAX_TERM]
    if token.isalpha() or numbers == "keep":
        return token
    if token.isdecimal():
        return token if numbers == "short" and len(token) <= 4 else f"#int{min(len(token), 12)}"
    if not token.isalnum() and token[0].isdecimal():
        return _shape(token)
    hexadecimal = len(token) >= _HEX_LENGTH and all(char in "0123456789abcdef" for char in token)
    return "#id" if hexadecimal or (len(token) >= _ID_LENGTH and any(map(str.isdecimal, token))) else token


def _shape(token: str) -> str:
    if ":" in token:
        return f"#time{min(token.count(':') + 1, 4)}"
    points = token.count(".")
    return f"#dec{min(token.index('.'), 12)}" if points == 1 else f"#dots{min(points + 1, 5)}"
