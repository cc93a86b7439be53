"""A retrieval task on disk, in the layout of the MultiTableQA release: tables and questions as JSON lines.

The release's own sets, `NAME_table.jsonl` and `NAME_query.jsonl`, are read like those that are built here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.json_lines import NO_LIMIT, header_and_rows, read_objects, text_or_number, texts
from gtr_gpu.tables import Table
from gtr_gpu.tables.normalize import make_table

PROTOCOLS = ("published", "withheld", "mixed", "whole")
SPLITS = ("tune", "report")

_TABLES, _QUERIES, _RAW = "tables.jsonl", "queries.jsonl", "raw.jsonl"
_RELEASED_TABLES, _RELEASED_QUERIES = "_table.jsonl", "_query.jsonl"
# The release labels these with one text, and the others with a list of texts.
_ONE_LABEL = ("tfv", "multi_hop")


@dataclass(frozen=True)
class Question:
    """A question of a task.

    Attributes:
        text: What a method is asked.
        source: The source table that it is about; a label, never given to a method.
        label: The answers.
        split: "tune" or "report".
        evidence: The ids of the tables that hold the evidence, where the source tells.
        parts: How many released questions it merges.
    """

    text: str
    source: str
    label: tuple[str, ...]
    split: str
    evidence: tuple[str, ...] | None
    parts: int = 1


@dataclass(frozen=True)
class Task:
    """A corpus of tables and the questions on it.

    Attributes:
        name: One such as `tfv`, that of a sample (`multi_hop_5523`), or the name of the folder of a foreign set.
        protocol: One of `PROTOCOLS`, or "released" for a foreign set.
        tables: The N tables; each has an opaque `table_id`, `caption`, `header`, `rows` and nothing else.
        sources: The source of each table, `[N]`; a label.
        splits: The split of each table, `[N]`.
        questions: The questions that were built.
        raw: The questions as the source released them, or ().
    """

    name: str
    protocol: str
    tables: tuple[Table, ...]
    sources: tuple[str, ...]
    splits: tuple[str, ...]
    questions: tuple[Question, ...]
    raw: tuple[Question, ...] = ()

    def gold(self, question: Question) -> list[int]:
        """The rows of `tables` that together answer a question: all tables of its source, in order."""
        return list(self._rows[question.source])

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row, source in enumerate(self.sources):
            rows.setdefault(source, []).append(row)
        return rows


def tasks_in(folder: Path) -> list[Path]:
    """The folders of tasks in a benchmark's folder, sorted; the folder itself where it is that of a task.

    Raises:
        GTRError: There is no such folder, or no task in it.
    """
    if folder.is_file():
        raise GTRError(f"{str(folder)!r} is a file; give the folder of a benchmark, or of a task")
    if not folder.is_dir():
        raise GTRError(f"there is no folder {str(folder)!r}; `gtr benchmark build --out {folder}` makes one")
    if _files_of(folder):
        return [folder]
    found = sorted(path for depth in ("*", "*/*") for path in folder.glob(depth) if path.is_dir() and _files_of(path))
    if not found:
        raise GTRError(
            f"{str(folder)!r} holds no task: expected TASK/PROTOCOL/{_TABLES}, or a released NAME{_RELEASED_TABLES} "
            f"with its NAME{_RELEASED_QUERIES}; `gtr benchmark build` makes a benchmark"
        )
    return found


def read_task(folder: Path) -> Task:
    """Reads the task of a folder.

    Raises:
        GTRError: A file is missing, a line is wrong (told by its number), a question is on a table that is not there,
            or there is no table or no question at all.
    """
    files = _files_of(folder)
    if files is None:
        raise GTRError(f"{str(folder)!r} holds no task: there is no file {_TABLES} (or NAME{_RELEASED_TABLES}) in it")
    tables_file, queries_file, raw_file = files
    tables: list[Table] = []
    sources: list[str] = []
    splits: list[str] = []
    seen: set[str] = set()
    for place, fields in _lines(tables_file):
        if not tables and "table_id" in fields and "table_idx" not in fields:
            raise GTRError(
                f"{str(folder)!r} holds a data set, not a task of a benchmark; "
                f"`gtr benchmark build --source NAME={folder} --out BENCHMARK` makes a benchmark of it"
            )
        table = _table(fields, place)
        if table.table_id in seen:
            raise GTRError(
                f"{place}: the table_idx {table.table_id!r} stands on an earlier line already; give each table its own"
            )
        seen.add(table.table_id)
        tables.append(table)
        sources.append(text_or_number(fields, "source_table_idx", place))
        splits.append(_split(fields))
    if not tables:
        raise GTRError(f"{tables_file} holds no table")
    source_splits = dict(zip(sources, splits, strict=True))
    questions = tuple(_questions(queries_file, source_splits, seen))
    if not questions:
        raise GTRError(f"{queries_file} holds no question")
    raw = tuple(_questions(raw_file, source_splits, seen)) if raw_file.exists() else ()
    name, protocol = _name_of(folder)
    return Task(name, protocol, tuple(tables), tuple(sources), tuple(splits), questions, raw)


def write_task(folder: Path, task: Task, example_queries: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Writes a task; the same task gives the same bytes.

    Args:
        folder: Where to; made where it is not there.
        task: The task.
        example_queries: Released questions by source: the release's field, which no method reads.

    Returns:
        The SHA-256 of each file by its name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sums = {
        _TABLES: _write(folder / _TABLES, _table_lines(task, example_queries)),
        _QUERIES: _write(folder / _QUERIES, _query_lines(task, task.questions)),
    }
    if task.raw:
        sums[_RAW] = _write(folder / _RAW, _query_lines(task, task.raw))
    return sums


def _files_of(folder: Path) -> tuple[Path, Path, Path] | None:
    if (folder / _TABLES).is_file():
        return folder / _TABLES, folder / _QUERIES, folder / _RAW
    released = sorted(folder.glob(f"*{_RELEASED_TABLES}"))
    if not released:
        return None
    if len(released) > 1:
        raise GTRError(f"{str(folder)!r} holds {len(released)} released sets; give each a folder of its own")
    queries = released[0].with_name(released[0].name.removesuffix(_RELEASED_TABLES) + _RELEASED_QUERIES)
    return released[0], queries, folder / _RAW


def _name_of(folder: Path) -> tuple[str, str]:
    folder = folder.resolve()
    if folder.name in PROTOCOLS and (folder / _TABLES).is_file():
        return folder.parent.name, folder.name
    return folder.name, "released"


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file, each with its place for messages."""
    if not path.is_file():
        raise GTRError(f"there is no file {str(path)!r}; a task needs its tables and its questions")
    return read_objects(path)


def _split(fields: Mapping[str, Any], otherwise: str = "report") -> str:
    """Splits of other sets ("train", "test") were not tuned on here."""
    split = fields.get("split")
    return split if split in SPLITS else otherwise


def _table(fields: Mapping[str, Any], place: str) -> Table:
    table_id = text_or_number(fields, "table_idx", place)
    body = fields.get("table")
    if not isinstance(body, dict):
        raise GTRError(f"{place}: table must be an object with header and rows, got {type(body).__name__}")
    header, rows = header_and_rows(body, place, "table.")
    return make_table(table_id, header, rows, NO_LIMIT, caption=fields.get("caption"))


def _questions(path: Path, splits: Mapping[str, str], ids: set[str]) -> Iterator[Question]:
    for place, fields in _lines(path):
        source = text_or_number(fields, "source_table_idx", place)
        if source not in splits:
            raise GTRError(f"{place}: the question is on the table {source!r}, which no line of the tables has")
        text = fields.get("query")
        if not isinstance(text, str) or not text.strip():
            raise GTRError(f"{place}: query must be a text that is not empty, got {text!r}")
        evidence = fields.get("evidence")
        if evidence is not None and not (isinstance(evidence, list) and all(str(one) in ids for one in evidence)):
            raise GTRError(f"{place}: evidence must be a list of the tables' table_idx, or null")
        parts = fields.get("parts", 1)
        if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
            raise GTRError(f"{place}: parts must be a whole number from 1 on, got {parts!r}")
        yield Question(
            text,
            source,
            texts(fields.get("label")),
            _split(fields, splits[source]),
            None if evidence is None else tuple(map(str, evidence)),
            parts,
        )


def _table_lines(task: Task, example_queries: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Any]]:
    for table, source, split in zip(task.tables, task.sources, task.splits, strict=True):
        yield {
            "table_idx": table.table_id,
            "source_table_idx": _number(source),
            "caption": table.caption,
            "table": {"header": table.header, "rows": table.rows},
            "example_query": list(example_queries.get(source, ())),
            "split": split,
        }


def _query_lines(task: Task, questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
    for question in questions:
        label = list(question.label)
        yield {
            "query": question.text,
            "source_table_idx": _number(question.source),
            "label": label[0] if len(label) == 1 and task.name.startswith(_ONE_LABEL) else label,
            "split": question.split,
            "evidence": None if question.evidence is None else list(question.evidence),
            "parts": question.parts,
        }


def _number(source: str) -> str | int:
    """The release's code takes a source for a number."""
    return int(source) if source.isdecimal() and str(int(source)) == source else source


def _write(path: Path, lines: Iterable[dict[str, Any]]) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for line in lines:
            text = json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
            data = text.encode("utf-8", "replace")
            digest.update(data)
            file.write(data)
    return digest.hexdigest()
