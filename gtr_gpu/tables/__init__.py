"""Tables: what they are, how they are read, and how a corpus of them is kept."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gtr_gpu.tables.table import Table

if TYPE_CHECKING:
    from gtr_gpu.tables.report import ReadReport
    from gtr_gpu.tables.sources import read_sources
    from gtr_gpu.tables.store import TableStore, TableWriter

__all__ = ["ReadReport", "Table", "TableStore", "TableWriter", "read_sources"]

_HOMES = {"ReadReport": "report", "TableStore": "store", "TableWriter": "store", "read_sources": "sources"}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first used, so that a mere `Table` does not load Arrow."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
