"""GTR-GPU: find the few tables, among very many, that together answer a question.

The public names are loaded when they are first used, so that `import gtr_gpu` is quick.
"""

from typing import TYPE_CHECKING

from gtr_gpu.lazy import lazy_names

if TYPE_CHECKING:
    from gtr_gpu.answers import Answered, Unanswered, ask, parse_answer
    from gtr_gpu.changes import ChangeReport
    from gtr_gpu.config import Config
    from gtr_gpu.errors import GTRError
    from gtr_gpu.index import GTRIndex
    from gtr_gpu.language_models import open_model
    from gtr_gpu.results import Edge, SearchResult
    from gtr_gpu.tables import ReadReport, Table, read_sources

__all__ = [
    "Answered",
    "ChangeReport",
    "Config",
    "Edge",
    "GTRError",
    "GTRIndex",
    "ReadReport",
    "SearchResult",
    "Table",
    "Unanswered",
    "ask",
    "open_model",
    "parse_answer",
    "read_sources",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Answered": "answers",
        "ChangeReport": "changes",
        "Config": "config",
        "Edge": "results",
        "GTRError": "errors",
        "GTRIndex": "index",
        "ReadReport": "tables",
        "SearchResult": "results",
        "Table": "tables",
        "Unanswered": "answers",
        "ask": "answers",
        "open_model": "language_models",
        "parse_answer": "answers",
        "read_sources": "tables",
    },
)
