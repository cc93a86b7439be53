"""Sequential QA, release 1.0: questions as TSV with the cells of their answers, tables as CSV.

`*.tsv` has the columns `id` (a question of WikiTableQuestions), `annotator`, `position`, `question`, `table_file`,
`answer_coordinates` and `answer_text`, the last two written as Python's lists of texts. A sequence is one annotator's
questions on one id. `table_csv/203_149.csv` is a copy, in ASCII, of WikiTableQuestions' `csv/203-csv/149.csv`; tables
have no caption of their own.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from pathlib import Path

from gtr_gpu.errors import UnreadableSourceError
from gtr_gpu.multitableqa.json_lines import texts
from gtr_gpu.multitableqa.records import SourceQuestion
from gtr_gpu.multitableqa.sources.source import Source, named, source_table
from gtr_gpu.tables.normalize import clean_text

LOOKED_FOR = "Sequential QA's *.tsv with table_csv/*.csv"
_COLUMNS = ("id", "annotator", "position", "question", "table_file", "answer_coordinates", "answer_text")
_COPY = re.compile(r"(\d+)_(\d+)\.csv")


def found(folder: Path) -> bool:
    """Whether the folder is the unpacked release."""
    return any(folder.glob("table_csv/*.csv")) and any(folder.glob("*.tsv"))


def read(folder: Path, name: str) -> Source:
    """Reads the data set.

    Raises:
        GTRError: A file can't be read or is not in the layout.
    """
    # The random splits are parts of the training set.
    asked: dict[tuple[str, int], dict[int, dict[str, str]]] = {}
    for path in sorted(folder.glob("*.tsv")):
        with named(path):
            for fields in _lines(path):
                sequence = asked.setdefault((fields["id"], int(fields["annotator"])), {})
                sequence.setdefault(int(fields["position"]), fields)
    questions: list[SourceQuestion] = []
    with named(folder):
        for (wtq_id, annotator), sequence in asked.items():
            questions.extend(_sequence(f"{wtq_id}_{annotator}", sequence, name))
    tables = []
    for path in sorted(folder.glob("table_csv/*.csv")):
        with named(path), path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
            copy = _COPY.fullmatch(path.name)
            same_as = f"csv/{copy[1]}-csv/{copy[2]}.csv" if copy else None
            tables.append(source_table(f"table_csv/{path.name}", "", header, rows, name, same_as))
    return Source(name, "Sequential QA's release", tables, questions)


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t")
        missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            raise UnreadableSourceError(f"its first line must name the columns {', '.join(_COLUMNS)}; {missing} lack")
        yield from reader


def _sequence(sequence: str, asked: dict[int, dict[str, str]], dataset: str) -> Iterator[SourceQuestion]:
    history: tuple[str, ...] = ()
    for position, fields in sorted(asked.items()):
        text = clean_text(fields["question"])
        yield SourceQuestion(
            f"{sequence}_{position}",
            text,
            fields["table_file"],
            texts(ast.literal_eval(fields["answer_text"])),
            coordinates=tuple(map(_cell, ast.literal_eval(fields["answer_coordinates"]))),
            history=history,
            sequence=sequence,
            position=position,
            dataset=dataset,
        )
        history += (text,)


def _cell(text: object) -> tuple[int, int]:
    row, column = ast.literal_eval(text) if isinstance(text, str) else text  # type: ignore[misc]
    return int(row), int(column)
