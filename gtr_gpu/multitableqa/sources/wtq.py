r"""WikiTableQuestions as released by its authors: questions as TSV, tables as CSV, both with their own escapes.

`data/*.tsv` has the columns `id`, `utterance`, `context` (the table's file) and `targetValue`; items of a list stand
between `|`, and `\n`, `\p` and `\\` stand for a line end, a `|` and a `\`. In `csv/NNN-csv/M.csv` every cell is
quoted, `\"` and `\\` stand for a quote and a `\`, and line ends are themselves. `page/NNN-page/M.json` has the title of
the page, which is the table's caption.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.multitableqa.records import SourceQuestion
from gtr_gpu.multitableqa.sources.source import Source, named, read_json, source_table
from gtr_gpu.tables.normalize import clean_text

LOOKED_FOR = "WikiTableQuestions' data/*.tsv with csv/*-csv/*.csv"
_COLUMNS = ("id", "utterance", "context", "targetValue")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "p": "|", "\\": "\\"}


def found(folder: Path) -> bool:
    """Whether the folder is a checkout of WikiTableQuestions."""
    return any(folder.glob("csv/*-csv/*.csv")) and any(folder.glob("data/*.tsv"))


def read(folder: Path, name: str) -> Source:
    """Reads the data set.

    Raises:
        GTRError: A file can't be read or is not in the layout.
    """
    # Most of the files are parts of others; an id is one question in all of them.
    questions: dict[str, SourceQuestion] = {}
    for path in sorted(folder.glob("data/*.tsv")):
        with named(path):
            for question in _questions(path, name):
                questions.setdefault(question.question_id, question)
    tables = []
    for path in sorted(folder.glob("csv/*-csv/*.csv")):
        number = path.parent.name.removesuffix("-csv")
        caption = _title(folder / "page" / f"{number}-page" / f"{path.stem}.json")
        with named(path), path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file, doublequote=False, escapechar="\\")
            tables.append(source_table(path.relative_to(folder).as_posix(), caption, header, rows, name))
    return Source(name, "WikiTableQuestions' release", tables, list(questions.values()))


def _questions(path: Path, dataset: str) -> Iterator[SourceQuestion]:
    header, *lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    columns = header.rstrip("\r").split("\t")
    if any(column not in columns for column in _COLUMNS):
        raise UnreadableSourceError(f"its first line must name the columns {', '.join(_COLUMNS)}, got {header!r}")
    places = [columns.index(column) for column in _COLUMNS]
    for line in lines:
        fields = line.rstrip("\r").split("\t")
        question_id, text, table_id, target = (fields[place] for place in places)
        answers = tuple(clean_text(_unescape(part)) for part in target.split("|"))
        yield SourceQuestion(question_id, clean_text(_unescape(text)), table_id, answers, dataset=dataset)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), text)


def _title(path: Path) -> object:
    if not path.is_file():
        return ""
    with named(path):
        return read_json(path)["title"]
