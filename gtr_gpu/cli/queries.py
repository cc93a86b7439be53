"""Questions from a file: JSON lines, of which only `query` and `query_id` are read, so that no label gets in."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtr_gpu.errors import GTRError, UnreadableSourceError


@dataclass(frozen=True)
class Query:
    """One question.

    Attributes:
        query_id: Its name in the output: the file's, or its number among the questions, from 1, as a text.
        text: The question.
    """

    query_id: str | int
    text: str


def asked(questions: Sequence[str], path: Path | None) -> list[Query]:
    """The questions of the command line, or those of a file.

    Raises:
        GTRError: There are none, or both.
    """
    if questions and path is not None:
        raise GTRError("questions come either from the command line or from --queries, got both; leave one out")
    if path is not None:
        return read_queries(path)
    if not questions:
        raise GTRError("there is no question; give one in quotes, or a file of them with --queries")
    return read_questions(questions)


def read_questions(questions: Sequence[str]) -> list[Query]:
    """The questions of the command line, numbered from 1.

    Raises:
        GTRError: One of them is empty.
    """
    for number, question in enumerate(questions, 1):
        if not question.strip():
            raise GTRError(f"question {number} must hold at least one word, got {question!r}")
    return [Query(str(number), question) for number, question in enumerate(questions, 1)]


def read_queries(path: Path) -> list[Query]:
    """The questions of a file of JSON lines: plain, `.gz` or `.zst`; `-` is stdin.

    Raises:
        GTRError: The file is missing, damaged or empty, a line is not an object with a question, or two questions have
            the same `query_id` (7 and "7" are the same); the message names the lines.
    """
    name = _name(path)
    queries: list[Query] = []
    line_of: dict[str, int] = {}
    for number, line in _lines(path):
        if not line.strip():
            continue
        place = f"{name}, line {number}"
        text, query_id = _parse(line, place)
        query = Query(str(len(queries) + 1) if query_id is None else query_id, text)
        first = line_of.setdefault(str(query.query_id), number)
        if first != number:
            which = "question's number, which stands for its missing `query_id`," if query_id is None else "`query_id`"
            raise GTRError(
                f"{place}: the {which} is {query.query_id!r}, and so is that of line {first}; "
                "give each question its own `query_id`"
            )
        queries.append(query)
    if not queries:
        raise GTRError(f"{name} holds no question; each line must be an object such as {_EXAMPLE}")
    return queries


_EXAMPLE = '{"query": "Which ...?"}'


def _name(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _parse(line: str, place: str) -> tuple[str, str | int | None]:
    """The question of a line and its name, if it has one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise GTRError(f"{place} is not JSON ({error}); each line must be an object such as {_EXAMPLE}") from None
    if not isinstance(value, dict):
        raise GTRError(f"{place} must be an object such as {_EXAMPLE}, got a {_kind(value)}")
    if "query" not in value:
        raise GTRError(f"{place} has no field `query`; it must be an object such as {_EXAMPLE}")
    text, query_id = value["query"], value.get("query_id")
    if not isinstance(text, str):
        raise GTRError(f"{place}: `query` must be a text, got a {_kind(text)}")
    if not text.strip():
        raise GTRError(f"{place}: `query` must hold at least one word, got {text!r}")
    if not isinstance(query_id, str | int | None) or isinstance(query_id, bool):
        raise GTRError(f"{place}: `query_id` must be a text or a whole number, got a {_kind(query_id)}")
    return text, query_id


def _kind(value: object) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    from gtr_gpu.tables.streams import open_binary, readable

    try:
        with readable():
            file = sys.stdin.buffer if str(path) == "-" else open_binary(path)
            with io.TextIOWrapper(file, encoding="utf-8-sig") as lines:
                yield from enumerate(lines, 1)
    except UnicodeDecodeError:
        raise GTRError(f"{_name(path)} can't be read: it is not UTF-8 text; save it as JSON lines in UTF-8") from None
    except UnreadableSourceError as error:
        raise GTRError(f"{_name(path)} can't be read: {error}") from None
