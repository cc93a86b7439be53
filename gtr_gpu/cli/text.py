"""Text of tables and questions made safe to show: nothing in it can steer a terminal."""

from __future__ import annotations

import re

# Controls (C0, delete, C1), what turns the direction of text or hides in it (soft hyphens and tags, which can spell
# whole sentences, too), and halves of surrogate pairs.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_BLANKS = re.compile(r"[\t\n\r\f\v\u2028\u2029]+")


def visible(text: str) -> str:
    """One line of the text: line breaks become spaces, other control characters are shown as codes, not obeyed.

    Zero-width joiners stay, since some scripts need them.
    """
    return _UNSAFE.sub(lambda match: _code(match.group()), _BLANKS.sub(" ", text))


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and what it counts: `1 table`, `1,234 tables`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _code(character: str) -> str:
    number = ord(character)
    if number < 0x20:
        return chr(0x2400 + number)  # the pictures of the controls: ␀ to ␟
    if number > 0xFFFF:
        return f"\\U{number:08x}"
    return "␡" if number == 0x7F else f"\\u{number:04x}"
