"""HybridQA's questions on the tables of WikiTables-WithLinks or of OTT-QA, as released by their authors.

`released_data/{train,dev,test}.json` lists questions with `question_id`, `question`, `table_id` and `answer-text`;
`*.traced.json`, preferred, adds `answer-node`, the cells that the answer was found in or linked from. A table is
`tables_tok/NAME.json` (OTT-QA: `traindev_tables_tok`), with `title`, `section_title`, and `header` and `data` whose
cells are pairs of text and links. Tables and questions are looked for in the folder and two levels below, where clones
of the repositories lie. Links and passages are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gtr_gpu.multitableqa.json_lines import texts
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.sources.source import Source, named, read_json, source_table
from gtr_gpu.tables.normalize import clean_text

LOOKED_FOR = "HybridQA's released_data/*.json with a folder tables_tok/*.json (of WikiTables-WithLinks or OTT-QA)"
_PARTS = ("train", "dev", "test")


def found(folder: Path) -> bool:
    """Whether the folder holds the questions and the tables."""
    return bool(_question_files(folder)) and _tables(folder) is not None


def read(folder: Path, name: str) -> Source:
    """Reads the data set.

    Raises:
        GTRError: A file can't be read or is not in the layout.
    """
    questions: list[SourceQuestion] = []
    for path in _question_files(folder):
        with named(path):
            questions.extend(_question(fields, name) for fields in read_json(path))
    tables: list[SourceTable] = []
    for path in sorted((_tables(folder) or folder).glob("*.json")):
        with named(path):
            tables.append(_table(path, name))
    return Source(name, "HybridQA's release", tables, questions)


def _below(folder: Path, pattern: str) -> Iterator[Path]:
    for levels in ("", "*/", "*/*/"):
        yield from sorted(path for path in folder.glob(levels + pattern) if path.is_dir())


def _tables(folder: Path) -> Path | None:
    return next((path for path in _below(folder, "*tables_tok") if any(path.glob("*.json"))), None)


def _question_files(folder: Path) -> list[Path]:
    for released in _below(folder, "released_data"):
        files = []
        for part in _PARTS:
            traced, plain = released / f"{part}.traced.json", released / f"{part}.json"
            files += [traced] if traced.is_file() else [plain] if plain.is_file() else []
        if files:
            return files
    return []


def _question(fields: dict[str, Any], dataset: str) -> SourceQuestion:
    # Nodes of OTT-QA and of generated sets may be empty or have more numbers.
    cells = tuple((int(cell[0]), int(cell[1])) for _, cell, *_ in fields.get("answer-node") or ())
    return SourceQuestion(
        str(fields["question_id"]),
        clean_text(fields["question"]),
        str(fields["table_id"]),
        texts(fields.get("answer-text")),
        coordinates=cells or None,
        dataset=dataset,
    )


def _table(path: Path, dataset: str) -> SourceTable:
    fields = read_json(path)
    caption = " - ".join(part for part in (fields["title"], fields.get("section_title")) if part)
    return source_table(
        path.stem,
        caption,
        [_text(cell) for cell in fields["header"]],
        [[_text(cell) for cell in row] for row in fields["data"]],
        dataset,
    )


def _text(cell: Any) -> object:  # noqa: ANN401 (a text, or a pair of it and its links)
    return cell[0] if isinstance(cell, list) else cell
