"""The one shape that any data set can be brought to: tables and questions as JSON lines.

`tables.jsonl` has `table_id`, `caption`, `header`, `rows` and, by choice, `wtq_table_id` (the table of
WikiTableQuestions that it is a copy of); `queries.jsonl` has `query_id`, `query`, `table_id`, `answer` (a list or one
value; null where it is not public) and, by choice, `history` (the questions before it, whose ids differ in the number
after the last `_`), `answer_coordinates` (pairs of row and column) and `answer_from`. Both may be compressed, with
`.zst` or `.gz` after the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.json_lines import header_and_rows, read_objects, text_or_number, texts
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.sources.source import Source, source_table
from gtr_gpu.tables.normalize import clean_text

LOOKED_FOR = "tables.jsonl and queries.jsonl (or .jsonl.zst, .jsonl.gz)"
_ENDINGS = ("", ".zst", ".gz")


def found(folder: Path) -> bool:
    """Whether the folder holds both files.

    Raises:
        GTRError: It holds one of them twice, with other endings.
    """
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
    paths = [path for ending in _ENDINGS if (path := folder / f"{name}{ending}").is_file()]
    if len(paths) > 1:
        names = " and ".join(path.name for path in paths)
        raise GTRError(f"{str(folder)!r} holds {names}, which may differ; keep the one that is up to date alone")
    return paths[0] if paths else None


def _lines(folder: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    path = _file(folder, name)
    assert path is not None, "found() says that it is there"
    return read_objects(path)


def _table(fields: Mapping[str, Any], dataset: str, place: str) -> SourceTable:
    header, rows = header_and_rows(fields, place)
    same_as = fields.get("wtq_table_id")
    return source_table(
        text_or_number(fields, "table_id", place),
        fields.get("caption"),
        header,
        rows,
        dataset,
        None if same_as is None else str(same_as),
    )


def _question(fields: Mapping[str, Any], dataset: str, kind: str, place: str) -> SourceQuestion:
    name = text_or_number(fields, "query_id", place)
    history = fields.get("history")
    if history is not None and not (isinstance(history, list) and all(isinstance(one, str) for one in history)):
        raise GTRError(f"{place}: history must be a list of questions")
    return SourceQuestion(
        name,
        clean_text(text_or_number(fields, "query", place)),
        text_or_number(fields, "table_id", place),
        texts(fields.get("answer")),
        coordinates=_coordinates(fields.get("answer_coordinates"), place),
        history=texts(history),
        sequence=None if history is None else name.rpartition("_")[0] or None,
        position=len(history or ()),
        kind=kind,
        evidence_from=fields.get("answer_from"),
        dataset=dataset,
    )


def _coordinates(value: object, place: str) -> tuple[tuple[int, int], ...] | None:
    if value is None:
        return None
    try:
        return tuple((int(row), int(column)) for row, column in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise GTRError(f"{place}: answer_coordinates must be pairs of row and column") from None
