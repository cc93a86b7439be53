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
        query_id: Its name in the output: the file's, or its number in the file, from 1, as a text.
        text: The question.
    """

    query_id: str | int
    text: str


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
        GTRError: The file is missing, damaged or empty, or a line is not an object with a question; the message names
            the line.
    """
    queries: list[Query] = []
    for number, line in _lines(path):
        if line.strip():
            queries.append(_parse(line, f"{path}, line {number}", len(queries) + 1))
    if not queries:
        raise GTRError(f"{path} holds no question; each line must be an object such as {_EXAMPLE}")
    return queries


_EXAMPLE = '{"query": "Which ...?"}'


def _parse(line: str, place: str, number: int) -> Query:
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
    if query_id is None:
        query_id = str(number)
    if not isinstance(query_id, str | int) or isinstance(query_id, bool):
        raise GTRError(f"{place}: `query_id` must be a text or a whole number, got a {_kind(query_id)}")
    return Query(query_id, text)


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
        raise GTRError(f"{path} can't be read: it is not UTF-8 text; save it as JSON lines in UTF-8") from None
    except UnreadableSourceError as error:
        raise GTRError(f"{path} can't be read: {error}") from None
