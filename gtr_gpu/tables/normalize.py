"""The one place that makes what readers find into tables: rectangular, of clean text, within the row limit."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gtr_gpu.config import Config
from gtr_gpu.tables.table import Table

# Invisible characters that carry no text: zero-width space, word joiner, byte order mark, soft hyphen, and the marks
# that steer the direction of writing (which can also disguise text on a terminal).
_INVISIBLE = "\u200b\u2060\ufeff\u00ad\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"
# The zero-width joiners shape Arabic, Indic scripts and emoji; next to ASCII they are litter.
_JOINERS = r"(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
_REMOVED = re.compile(rf"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f{_INVISIBLE}]|{_JOINERS}")
_NEWLINES = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_SPACES = re.compile("[\t\xa0\u2000-\u200a\u202f\u205f]")
# How Python passes on the bytes of file names that are not UTF-8.
_RAW_BYTES = re.compile("[\udc80-\udcff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
# Whatever any of the above could match; a plain text is passed on after one search.
_UNCLEAN = re.compile(rf"[\x00-\x09\x0b-\x1f\x7f-\xa0\u2000-\u200d\u2028\u2029\u202f\u205f\ud800-\udfff{_INVISIBLE}]")


@dataclass(frozen=True)
class Limits:
    """How many rows of a table are kept.

    Attributes:
        row_limit: Rows at most.
        cell_limit: Cells at most, in whole rows; one row is kept however wide it is.
    """

    row_limit: int
    cell_limit: int

    @classmethod
    def from_config(cls, config: Config) -> Limits:
        """The limits that a configuration sets."""
        return cls(config.row_limit, config.cell_limit)

    def rows(self, n_columns: int) -> int:
        """The rows that are kept of a table with so many columns."""
        return min(self.row_limit, max(1, self.cell_limit // max(n_columns, 1)))


def make_table(
    table_id: str,
    header: Iterable[object],
    rows: Iterable[Sequence[object]],
    limits: Limits,
    *,
    caption: object = "",
    description: object = "",
    source: str = "",
    n_rows: int | None = None,
    metadata: Mapping[str, object] | None = None,
) -> Table:
    """Makes a table of whatever a reader found.

    Rows beyond the limit are counted and not kept. Short rows are padded with empty cells; where a kept row is longer
    than the header, the header gets empty names. Every text but
    the id and the source goes through `clean_text`.

    Args:
        table_id: The table's unique name.
        header: The column names.
        rows: The rows, which may be an iterator; it is read to its end unless `n_rows` is given.
        limits: How many rows are kept.
        caption: The title.
        description: A longer text.
        source: Where the table was read from.
        n_rows: The number of rows of the source, where the reader knows it.
        metadata: Free fields.

    Returns:
        The table.
    """
    names = [clean_text(name) for name in header]
    remaining = iter(rows)
    kept, width = _take(remaining, len(names), limits)
    surplus = len(kept) - limits.rows(width)
    if surplus > 0:
        del kept[-surplus:]
    if n_rows is None:
        n_rows = len(kept) + max(surplus, 0) + sum(1 for _ in remaining)
    # A row that was too much may have been the widest.
    width = max([len(names), *map(len, kept)])
    return Table(
        table_id=printable(table_id),
        caption=clean_text(caption),
        header=names + [""] * (width - len(names)),
        rows=[[clean_text(cell) for cell in row] + [""] * (width - len(row)) for row in kept],
        description=clean_text(description),
        source=printable(source),
        n_rows=n_rows,
        metadata=dict(metadata or {}),
    )


def _take(rows: Iterator[Sequence[object]], width: int, limits: Limits) -> tuple[list[Sequence[object]], int]:
    kept: list[Sequence[object]] = []
    while len(kept) < limits.rows(width):
        row = next(rows, None)
        if row is None:
            break
        kept.append(row)
        width = max(width, len(row))
    return kept, width


def clean_text(value: object) -> str:
    r"""The text of a cell, a name or a caption.

    None, NaN and NaT are empty. Whole floats lose their `.0`, because spreadsheets and data frames keep years and
    counts as floats; other floats are written as short as they read back. A date without a time is the date alone.
    Lists and mappings become compact JSON, bytes that are no text their number.

    In texts, carriage returns and other line ends become `\n`, tabs and the wide or hard spaces a space; other control
    characters and zero-width characters are removed (joiners between letters outside ASCII stay, since Persian, Indic
    scripts and emoji need them); halves of surrogate pairs become U+FFFD; outer white space is cut.
    """
    text = value if isinstance(value, str) else _to_text(value)
    if _UNCLEAN.search(text):
        text = _SPACES.sub(" ", _NEWLINES.sub("\n", storable(text)))
        text = _REMOVED.sub("", text)
    return text.strip()


def storable(text: str) -> str:
    """The text as valid Unicode, otherwise untouched: lone halves of surrogate pairs become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _SURROGATES.search(text) else text


def printable(name: str) -> str:
    r"""The name of a file, or a text that holds one, as valid Unicode: bytes that are no UTF-8 become `\xe9`.

    Names that differ stay different, unlike with `storable`.
    """
    return storable(_RAW_BYTES.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", name))


def _to_text(value: object) -> str:
    if value is None or value != value:  # NaN and NaT differ from themselves
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return _datetime_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes_text(bytes(value))
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return json.dumps(_jsonable(value), ensure_ascii=False, separators=(",", ":"))
    return str(value)


def _float_text(value: float) -> str:
    if math.isfinite(value) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return str(float(value))


def _datetime_text(value: datetime.datetime) -> str:
    if value.tzinfo is None and value.time() == datetime.time():
        return value.date().isoformat()
    return value.isoformat(sep=" ")


def _bytes_text(value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return f"({len(value)} bytes)"
    return f"({len(value)} bytes)" if "\0" in text else text


def _jsonable(value: Any) -> Any:  # noqa: ANN401 (any nested value)
    if isinstance(value, Mapping):
        return {clean_text(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_jsonable(item) for item in value), key=str)
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return clean_text(value)
