"""Tables: what they are, how they are read, and how a corpus of them is kept.

The other public names are loaded when they are first used, so that a mere `Table` does not load Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gtr_gpu.lazy import lazy_names
from gtr_gpu.tables.table import Table

if TYPE_CHECKING:
    from gtr_gpu.tables.report import ReadReport
    from gtr_gpu.tables.sources import read_sources
    from gtr_gpu.tables.store import TableStore, TableWriter

__all__ = ["ReadReport", "Table", "TableStore", "TableWriter", "read_sources"]

__getattr__ = lazy_names(
    __name__,
    {"ReadReport": "report", "TableStore": "store", "TableWriter": "store", "read_sources": "sources"},
)
