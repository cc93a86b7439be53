"""JSON lines: one table a line, in this project's fields or in those of the MultiTableQA release."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.tables.normalize import make_table
from gtr_gpu.tables.report import Reading
from gtr_gpu.tables.streams import open_binary
from gtr_gpu.tables.table import Table

# As Python objects, a line takes up to twenty times its bytes.
MAX_LINE = 1 << 26

# Everything else is metadata, which no method reads; above all questions, pages and origins, which are labels.
_IDS = ("table_id", "table_idx", "id")
_TEXT_FIELDS = frozenset({"table_id", "table_idx", "caption", "description", "header", "rows", "table", "n_rows"})
_DOTTED = frozenset({"table.header", "table.rows"})
_EXPECTED = "expected `table_id`, `caption`, `header` and `rows`"


def read_jsonl(path: Path, name: str, reading: Reading) -> Iterator[Table]:
    """Reads `{"table_id", "caption", "header", "rows", "description"?, ...}` or the MultiTableQA release's lines.

    The latter are `{"table_idx", "caption", "table": {"header", "rows"}, ...}`. Where there is neither `table_id` nor
    `table_idx`, `id` is the id. Other fields become metadata. A line that is no table is reported with its number, and
    the next one is read.

    Args:
        path: The file; plain, gzip or zstandard.
        name: Its name in messages.
        reading: Limits and report.

    Raises:
        UnreadableSourceError: A line of more than 64 MB, or a file that is not text.
    """
    with open_binary(path) as stream:
        number = 0
        while line := stream.readline(MAX_LINE):
            number += 1
            if len(line) >= MAX_LINE and not line.endswith(b"\n"):
                raise UnreadableSourceError(
                    f"line {number} is longer than {MAX_LINE >> 20} MB; give so large a table as CSV or Parquet"
                )
            if not line.strip():
                continue
            place = f"{name}:{number}"
            try:
                yield _to_table(line, reading.place(place), reading)
            except UnreadableSourceError as error:
                if number == 1 and b"\0" in line:
                    raise UnreadableSourceError("it is a binary file, not JSON lines") from None
                reading.line_failed(place, str(error))


def _to_table(line: bytes, place: str, reading: Reading) -> Table:
    fields = _parse(line)
    key = next((key for key in _IDS if fields.get(key) is not None), None)
    if key is None:
        raise UnreadableSourceError(f"it has no table_id, {_EXPECTED}")
    table_id = fields[key]
    if isinstance(table_id, list | dict | bool) or str(table_id) == "":
        raise UnreadableSourceError(f"its {key} must be a text or a number that is not empty")
    body = fields.get("table", fields)
    if not isinstance(body, Mapping):
        raise UnreadableSourceError("its field table must be an object with header and rows")
    header = body.get("header", fields.get("table.header"))
    rows = body.get("rows", fields.get("table.rows"))
    for name, value in (("header", header), ("rows", rows)):
        if value is None:
            raise UnreadableSourceError(f"it has no {name}, {_EXPECTED}")
    if not isinstance(header, list):
        raise UnreadableSourceError("its header must be a list of names")
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise UnreadableSourceError("its rows must be lists of cells")
    n_rows = fields.get("n_rows")
    return make_table(
        str(table_id),
        header,
        rows,
        reading.limits,
        caption=_text(fields, "caption"),
        description=_text(fields, "description"),
        source=place,
        n_rows=n_rows if isinstance(n_rows, int) and n_rows > len(rows) else len(rows),
        metadata={name: value for name, value in fields.items() if name not in _TEXT_FIELDS | _DOTTED | {key}},
    )


def _parse(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnreadableSourceError("it is not valid UTF-8") from None
    except json.JSONDecodeError as error:
        raise UnreadableSourceError(f"it is not valid JSON ({error.msg} at column {error.colno})") from None
    except (RecursionError, ValueError) as error:
        raise UnreadableSourceError(f"it is not valid JSON ({error})") from None
    if not isinstance(fields, dict):
        raise UnreadableSourceError("it is not a JSON object")
    return fields


def _text(fields: Mapping[str, Any], key: str) -> object:
    value = fields.get(key)
    if isinstance(value, list | dict):
        raise UnreadableSourceError(f"its {key} must be a text")
    return value
