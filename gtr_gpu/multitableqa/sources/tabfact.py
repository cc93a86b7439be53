"""TabFact as released by its authors: cells between `#`, statements by table in JSON.

`data/all_csv/*.csv` holds one row a line, its cells between `#`, the names first. `collected_data/*.json` (or, without
it, `tokenized_data/*.json`) maps the name of a table's file to its statements, their labels and, as the last element,
its caption. A table without statements gets the title of its page from `data/table_to_page.json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gtr_gpu.multitableqa.json_lines import texts
from gtr_gpu.multitableqa.records import SourceQuestion
from gtr_gpu.multitableqa.sources.source import Source, named, read_json, source_table
from gtr_gpu.tables.normalize import clean_text

LOOKED_FOR = "TabFact's data/all_csv/*.csv with collected_data/*.json or tokenized_data/*.json"
_TABLES = "data/all_csv"
_STATEMENTS = ("collected_data", "tokenized_data")
# In tokenised statements `#text;row,column#` links a text to a cell.
_LINK = re.compile(r"#([^#]*?);-?\d+,-?\d+#")


def found(folder: Path) -> bool:
    """Whether the folder is a checkout of TabFact."""
    return (folder / _TABLES).is_dir() and bool(_statement_files(folder))


def read(folder: Path, name: str) -> Source:
    """Reads the data set.

    Raises:
        GTRError: A file can't be read or is not in the layout.
    """
    captions: dict[str, object] = {}
    questions: list[SourceQuestion] = []
    seen: set[tuple[str, str]] = set()
    counts: dict[str, int] = {}
    for path in _statement_files(folder):
        with named(path):
            for table_id, text, label, caption in _statements(path):
                captions.setdefault(table_id, caption)
                # Some files are parts of others.
                if (table_id, text) in seen:
                    continue
                seen.add((table_id, text))
                number = counts[table_id] = counts.get(table_id, -1) + 1
                questions.append(
                    SourceQuestion(f"{table_id}-{number}", text, table_id, texts(label), kind="statement", dataset=name)
                )
    pages = _titles(folder / "data" / "table_to_page.json")
    tables = []
    for path in sorted((folder / _TABLES).glob("*.csv")):
        with named(path):
            # Cells may hold other characters that Python takes for the end of a line.
            lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
            header, *rows = (line.split("#") for line in lines)
            caption = captions.get(path.name, pages.get(path.name, ""))
            tables.append(source_table(path.name, caption, header, rows, name))
    return Source(name, "TabFact's release", tables, questions)


def _statement_files(folder: Path) -> list[Path]:
    for part in _STATEMENTS:
        files = sorted((folder / part).glob("*.json"))
        if files:
            return files
    return []


def _statements(path: Path) -> Iterator[tuple[str, str, object, object]]:
    for table_id, (statements, labels, *_, caption) in read_json(path).items():
        for statement, label in zip(statements, labels, strict=True):
            yield table_id, clean_text(_LINK.sub(r"\1", statement)), label, caption


def _titles(path: Path) -> dict[str, object]:
    if not path.is_file():
        return {}
    with named(path):
        return {table_id: title for table_id, (title, *_) in read_json(path).items()}
