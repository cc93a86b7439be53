"""TAT-QA as released by its authors: JSON with a table, its paragraphs and the questions on both.

`dataset_raw/tatqa_dataset_*.json` (or the files themselves in the folder) lists objects with `table` (`uid` and
`table`, rows of cells), `paragraphs` and `questions` (`uid`, `question`, `answer`, `answer_from`). The first row is
taken for the names of the columns. There are no captions, and the paragraphs are left out.
"""

from __future__ import annotations

from pathlib import Path

from gtr_gpu.multitableqa.json_lines import texts
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.sources.source import Source, named, read_json, source_table
from gtr_gpu.tables.normalize import clean_text

LOOKED_FOR = "TAT-QA's dataset_raw/tatqa_dataset_*.json"
_FILES = "tatqa_dataset_*.json"


def found(folder: Path) -> bool:
    """Whether the folder is a checkout of TAT-QA, or its folder of data."""
    return bool(_files(folder))


def read(folder: Path, name: str) -> Source:
    """Reads the data set.

    Raises:
        GTRError: A file can't be read or is not in the layout.
    """
    tables: dict[str, SourceTable] = {}
    questions: dict[str, SourceQuestion] = {}
    for path in _files(folder):
        with named(path):
            for context in read_json(path):
                table_id = context["table"]["uid"]
                header, *rows = context["table"]["table"]
                tables.setdefault(table_id, source_table(table_id, "", header, rows, name))
                for fields in context["questions"]:
                    question = SourceQuestion(
                        fields["uid"],
                        clean_text(fields["question"]),
                        table_id,
                        texts(fields.get("answer")),
                        evidence_from=fields.get("answer_from"),
                        dataset=name,
                    )
                    questions.setdefault(question.question_id, question)
    return Source(name, "TAT-QA's release", list(tables.values()), list(questions.values()))


def _files(folder: Path) -> list[Path]:
    files = [*(folder / "dataset_raw").glob(_FILES), *folder.glob(_FILES)]
    # The test set is released without answers, and once more with them.
    return sorted(files, key=lambda path: ("_gold" not in path.name, path.name))
