"""JSON lines, and what is checked of them alike in a benchmark and in a source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gtr_gpu.errors import GTRError, UnreadableSourceError
from gtr_gpu.tables.normalize import Limits, clean_text
from gtr_gpu.tables.streams import open_binary, readable

NO_LIMIT = Limits(row_limit=1 << 40, cell_limit=1 << 60)
"""A benchmark keeps tables as they are, however large."""


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file, which may be compressed, each with its place (`path:line`) for messages.

    Raises:
        GTRError: The file can't be read, or a line is no JSON object, which is told by its place.
    """
    try:
        with readable(), open_binary(path) as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield f"{path}:{number}", _object(line, f"{path}:{number}")
    except UnreadableSourceError as error:
        raise GTRError(f"{path}: {error}") from None


def text_or_number(fields: Mapping[str, Any], key: str, place: str) -> str:
    """A field that must be there, as a text.

    Raises:
        GTRError: It is missing, empty or of another kind.
    """
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise GTRError(f"{place}: {key} must be a text that is not empty, or a whole number, got {value!r}")
    return str(value)


def header_and_rows(fields: Mapping[str, Any], place: str, within: str = "") -> tuple[list[Any], list[list[Any]]]:
    """The names and the cells of a table.

    Args:
        fields: Holds `header` and `rows`.
        place: For messages.
        within: What they are fields of, for messages, such as `table.`.

    Raises:
        GTRError: One of them is no list.
    """
    header, rows = fields.get("header"), fields.get("rows")
    if not isinstance(header, list):
        raise GTRError(f"{place}: {within}header must be a list of names, got {type(header).__name__}")
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise GTRError(f"{place}: {within}rows must be a list of lists of cells")
    return header, rows


def texts(value: object) -> tuple[str, ...]:
    """Answers as texts: a list's items, a single value, or none at all."""
    if value is None:
        return ()
    return tuple(map(clean_text, value)) if isinstance(value, list | tuple) else (clean_text(value),)


def _object(line: bytes, place: str) -> dict[str, Any]:
    try:
        fields = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise GTRError(f"{place}: it is not valid UTF-8") from None
    except (RecursionError, ValueError) as error:
        raise GTRError(f"{place}: it is not valid JSON ({error})") from None
    if not isinstance(fields, dict):
        raise GTRError(f"{place}: it is not a JSON object")
    return fields
