"""The one shape that any data set can be brought to: tables and questions as JSON lines.

`tables.jsonl` has `table_id`, `caption`, `header`, `rows` and, by choice, `wtq_table_id` (the table of
WikiTableQuestions that it is a copy of); `queries.jsonl` has `query_id`, `query`, `table_id`, `answer` (a list or one
value; null where it is not public) and, by choice, `history` (the questions before it, whose ids differ in the number
after the last `_`), `answer_coordinates` (pairs of row and column) and `answer_from`. Both may be compressed, with
`.zst` or `.gz` after the name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.sources.source import Source, named, source_table, texts
from gtr_gpu.tables.normalize import clean_text
from gtr_gpu.tables.streams import open_binary

LOOKED_FOR = "tables.jsonl and queries.jsonl (or .jsonl.zst, .jsonl.gz)"
_ENDINGS = ("", ".zst", ".gz")


def found(folder: Path) -> bool:
    """Whether the folder holds both files."""
    return all(_file(folder, name) is not None for name in ("tables.jsonl", "queries.jsonl"))


def read(folder: Path, name: str) -> Source:
    """Reads the data set.

    Raises:
        GTRError: A file can't be read, or a line is wrong, which is told by its number.
    """
    tables = [_table(fields, name, place) for place, fields in _lines(folder, "tables.jsonl")]
    asked = list(_lines(folder, "queries.jsonl"))
    # A bare 1 or 0 is the label of a statement; hidden labels are null.
    labels = {str(fields.get("answer")) for _, fields in asked if not isinstance(fields.get("answer"), str | list)}
    kind = "statement" if labels & {"0", "1"} and labels <= {"0", "1", "None"} else "question"
    questions = [_question(fields, name, kind, place) for place, fields in asked]
    return Source(name, "JSON lines", tables, questions)


def _file(folder: Path, name: str) -> Path | None:
    paths = (folder / f"{name}{ending}" for ending in _ENDINGS)
    return next((path for path in paths if path.is_file()), None)


def _lines(folder: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    path = _file(folder, name)
    assert path is not None, "found() says that it is there"
    with named(path), open_binary(path) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                fields = json.loads(line.decode("utf-8-sig"))
            except ValueError:
                raise GTRError(f"{place}: it is not valid JSON in UTF-8") from None
            if not isinstance(fields, dict):
                raise GTRError(f"{place}: it is not a JSON object")
            yield place, fields


def _table(fields: Mapping[str, Any], dataset: str, place: str) -> SourceTable:
    header, rows = fields.get("header"), fields.get("rows")
    if not isinstance(header, list):
        raise GTRError(f"{place}: header must be a list of names, got {type(header).__name__}")
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise GTRError(f"{place}: rows must be a list of lists of cells")
    same_as = fields.get("wtq_table_id")
    return source_table(
        _text(fields, "table_id", place),
        fields.get("caption"),
        header,
        rows,
        dataset,
        None if same_as is None else str(same_as),
    )


def _question(fields: Mapping[str, Any], dataset: str, kind: str, place: str) -> SourceQuestion:
    name = _text(fields, "query_id", place)
    history = fields.get("history")
    if history is not None and not (isinstance(history, list) and all(isinstance(one, str) for one in history)):
        raise GTRError(f"{place}: history must be a list of questions")
    return SourceQuestion(
        name,
        clean_text(_text(fields, "query", place)),
        _text(fields, "table_id", place),
        texts(fields.get("answer")),
        coordinates=_coordinates(fields.get("answer_coordinates"), place),
        history=texts(history),
        sequence=None if history is None else name.rpartition("_")[0] or None,
        position=len(history or ()),
        kind=kind,
        evidence_from=fields.get("answer_from"),
        dataset=dataset,
    )


def _text(fields: Mapping[str, Any], key: str, place: str) -> str:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise GTRError(f"{place}: {key} must be a text that is not empty, got {value!r}")
    return str(value)


def _coordinates(value: object, place: str) -> tuple[tuple[int, int], ...] | None:
    if value is None:
        return None
    try:
        return tuple((int(row), int(column)) for row, column in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise GTRError(f"{place}: answer_coordinates must be pairs of row and column") from None
