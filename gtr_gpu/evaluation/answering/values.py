"""What an item of an answer denotes: a text, a number or a date.

The normalisation and the plain forms of numbers and dates are those of the official evaluator of WikiTableQuestions.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import NamedTuple

_SAME = str.maketrans(
    {**dict.fromkeys("‘’´`", "'"), **dict.fromkeys("“”", '"'), **dict.fromkeys("‐‑‒–—−", "-")}  # noqa: RUF001
)
# Citations at the end: "[…]" but not at the very beginning, "[12]" anywhere, and footnote marks.
_CITATIONS = re.compile(r"(?:(?<!^)\[[^\]]*\]|\[\d+\]|[•♦†‡*#+])*$")
_DETAILS = re.compile(r"(?<!^)(?: \([^)]*\))*$")
_QUOTED = re.compile(r'^"([^"]*)"$')
_BLANKS = re.compile(r"\s+")

# Beyond the official evaluator, on normalised text.
_SIGN = "[$€£¥]"
_MONEY = re.compile(
    rf"(?P<open>\()?(?P<minus>[-+]?) ?(?:us)?{_SIGN}? ?(?P<inner>-?)"
    rf"(?P<digits>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+) ?(?:{_SIGN}|%)?(?P<close>\))?",
    re.ASCII,
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SHORT = {name[:3]: number for number, name in enumerate(_MONTHS, 1)} | {"sept": 9}
_MONTH = rf"(?P<month>{'|'.join((*_MONTHS, *sorted(_SHORT, key=len, reverse=True)))})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_WRITTEN = [
    re.compile(form, re.ASCII)
    for form in (rf"{_MONTH} {_DAY}(?: ?,? {_YEAR})?", rf"{_DAY} {_MONTH}(?: ?,? {_YEAR})?", rf"{_MONTH} ?,? {_YEAR}")
]


class Date(NamedTuple):
    """A date; None for what isn't known of it."""

    year: int | None
    month: int | None
    day: int | None


class Value(NamedTuple):
    """What an item denotes.

    Attributes:
        text: The item, normalised.
        number: Its number, where it is one.
        date: Its date, where it is one.
    """

    text: str
    number: float | None = None
    date: Date | None = None


def value_of(item: str) -> Value:
    """Reads an item of an answer, gold or given."""
    text = normalized(item)
    number = _plain_number(item)
    date = None if number is not None else _plain_date(item)
    if number is None and date is None:
        number = _written_number(text)
        date = None if number is not None else _written_date(text)
    if date is not None and date.year is not None and date.month is None and date.day is None:
        number, date = float(date.year), None
    return Value(text, number, date)


def normalized(text: str) -> str:
    """A text as the official evaluator of WikiTableQuestions compares it.

    Without diacritics; with plain quotes and dashes; without citations, details in brackets and quotation marks around
    it, however often they are nested at its end; without a last full stop; in lower case, with single spaces.
    """
    parts = unicodedata.normalize("NFKD", text)
    text = "".join(character for character in parts if unicodedata.category(character) != "Mn").translate(_SAME)
    before = None
    while text != before:
        before = text
        text = _CITATIONS.sub("", text.strip())
        text = _DETAILS.sub("", text.strip())
        text = _QUOTED.sub(r"\1", text.strip())
    return _BLANKS.sub(" ", text.removesuffix(".")).lower().strip()


def _plain_number(text: str) -> float | None:
    """What the official evaluator takes for a number: what Python reads as one."""
    if "_" in text:  # Python's own separator, which the evaluator's Python did not have
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _plain_date(text: str) -> Date | None:
    """What the official evaluator takes for a date: year-month-day, with "xx" (or "xxxx") for what isn't known."""
    parts = text.lower().split("-")
    if len(parts) != 3:
        return None
    try:
        year = None if parts[0] in ("xx", "xxxx") else int(parts[0])
        month, day = (None if part == "xx" else int(part) for part in parts[1:])
    except ValueError:
        return None
    return _checked(year, month, day)


def _written_number(text: str) -> float | None:
    """Thousands separators, one sign of a currency or of percent, and brackets for a minus as accounts have it."""
    found = _MONEY.fullmatch(text)
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    minuses = [found["minus"] == "-", bool(found["inner"]), bool(found["open"])]
    if sum(minuses) > 1:
        return None
    number = float(found["digits"].replace(",", ""))
    return None if math.isinf(number) else -number if any(minuses) else number


def _written_date(text: str) -> Date | None:
    """A date in English: "december 16, 2011", "16 dec 2011", "december 16th", "december 2011"."""
    for form in _WRITTEN:
        found = form.fullmatch(text)
        if found:
            parts = found.groupdict()
            year, day = (int(parts[name]) if parts.get(name) else None for name in ("year", "day"))
            return _checked(year, _SHORT[parts["month"][:3]], day)
    return None


def _checked(year: int | None, month: int | None, day: int | None) -> Date | None:
    possible = (month is None or 1 <= month <= 12) and (day is None or 1 <= day <= 31)
    return Date(year, month, day) if possible and (year, month, day) != (None, None, None) else None
