"""What the tests of the readers share."""

from pathlib import Path

import pytest

from gtr_gpu.config import Config
from gtr_gpu.tables import ReadReport, read_sources


class Files:
    """A folder to write files into and to read tables from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report = ReadReport()

    def write(self, name: str, content: str | bytes, encoding: str = "utf-8") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    def read(self, *names: str, strict=False, limit=None, **knobs):
        """The tables of the named files (of the whole folder without names); the report is `self.report`."""
        self.report = ReadReport()
        sources = [self.folder / name for name in names] or [self.folder]
        config = Config().override(knobs)
        return list(read_sources(sources, config=config, report=self.report, strict=strict, limit=limit))

    def read_one(self, name: str, **knobs):
        """The only table of the named file."""
        (table,) = self.read(name, **knobs)
        assert all(len(row) == len(table.header) for row in table.rows)
        return table


@pytest.fixture
def files(tmp_path) -> Files:
    (tmp_path / "lake").mkdir()
    return Files(tmp_path / "lake")
