"""An index that answers as told, in place of the real one: the commands are tested without an encoder."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
import torch

from gtr_gpu.cli import main
from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError
from gtr_gpu.results import Edge, SearchResult
from gtr_gpu.tables.table import Table

CORPUS = [
    Table("a.csv", "Medals of 2012", ["nation", "gold"], [["Norway", "2"]]),
    Table("b.csv", "", ["city", "people"], [["Oslo", "700000"]]),
    Table("c.csv", "Capitals", ["nation", "city"], [["Norway", "Oslo"]]),
]


@dataclass
class Change:
    added: int = 0
    replaced: int = 0
    removed: int = 0
    left_out: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)


class FakeIndex:
    """Gives the first k tables of a corpus for any question, and records what it was asked."""

    corpus: ClassVar[list] = []
    built: ClassVar[dict] = {}
    asked: ClassVar[list] = []
    result_notes: ClassVar[list] = []
    left_out: ClassVar[dict] = {"tables_beyond_window": 1, "rows_beyond_window": 20, "leads_beyond_window": 0}
    error: ClassVar[BaseException | None] = None

    def __init__(self, tables):
        self.tables = list(tables)
        self.config = Config()
        self.notes: list = []
        self.summary = {"left_out": self.left_out, "notes": [], "seconds": {}}

    @classmethod
    def build(cls, tables, path, **options):
        cls.fail()
        with options["progress"].stage("encode", 3) as stage:
            tables = list(tables)
            stage.advance(len(tables))
        if not tables:
            raise GTRError("there is no table to index")
        cls.built = {"tables": tables, "path": path, **options}
        return cls(tables)

    @classmethod
    def load(cls, path, **options):
        cls.fail()
        return cls(cls.corpus)

    @classmethod
    def fail(cls):
        if cls.error is not None:
            raise cls.error

    def search(self, queries, k=10, *, config=None, edges=False):
        type(self).asked.append((list(queries), k, config))
        n = min(k, self.n_tables)
        ids = torch.full((len(queries), k), -1, dtype=torch.int64)
        scores = torch.full((len(queries), k), float("-inf"))
        ids[:, :n] = torch.arange(n)
        scores[:, :n] = torch.tensor([1 / (rank + 1) for rank in range(n)])
        count = len(queries)
        return SearchResult(
            ids=ids,
            scores=scores,
            table_ids=[[self.tables[row].table_id for row in range(n)]] * count,
            iterations=torch.full((count,), 7),
            converged=torch.ones(count, dtype=torch.bool),
            candidates=torch.full((count,), self.n_tables),
            edges=[[Edge(0, n - 1, "header", 0.25), Edge(0, n - 1, "key", 0.5)]] * count if edges else None,
            notes=self.result_notes,
        )

    def add(self, tables, *, progress):
        return Change(added=len(list(tables)), replaced=1, left_out=self.left_out, notes=["a rebuild would pay"])

    def remove(self, ids):
        unknown = [name for name in ids if name not in {table.table_id for table in self.tables}]
        if unknown:
            raise GTRError(f"there is no table {unknown[0]!r} in this index; nothing was removed")
        return Change(removed=len(ids))

    def rebuild(self, *, config=None, seed=0, progress):
        self.notes = []

    def table(self, row):
        return self.tables[row]

    def table_id(self, row):
        return self.tables[row].table_id

    def caption(self, row):
        return self.tables[row].caption

    def info(self):
        return {"tables": self.n_tables, "search": {"how": "flat"}, "config": self.config.to_json(), "notes": []}

    @property
    def n_tables(self):
        return len(self.tables)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


@pytest.fixture
def fake(monkeypatch):
    """The class that stands in for `GTRIndex`; a new one for each test."""
    kind = type("FakeIndex", (FakeIndex,), {"corpus": list(CORPUS), "built": {}, "asked": [], "result_notes": []})
    module = ModuleType("gtr_gpu.index")
    module.GTRIndex = kind
    monkeypatch.setitem(sys.modules, "gtr_gpu.index", module)
    return kind


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder that looks like an index from outside."""
    path = tmp_path / "index"
    path.mkdir()
    (path / "manifest.json").write_text("{}")
    return path


@pytest.fixture
def gtr(capsys):
    """Runs one command; gives its exit status, stdout and stderr."""

    def run(*words) -> tuple[int, str, str]:
        status = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return status, out, err

    return run
