"""From a model's output to an answer that names the tables and cells it rests on.

The public names are loaded when they are first used, so that records are at hand without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gtr_gpu.answers.answer import Answer, CitedCell
    from gtr_gpu.answers.asking import ask
    from gtr_gpu.answers.journal import Journal
    from gtr_gpu.answers.parse import parse_answer
    from gtr_gpu.answers.record import Answered, Unanswered

__all__ = ["Answer", "Answered", "CitedCell", "Journal", "Unanswered", "ask", "parse_answer"]

_HOMES = {
    "Answer": "answer",
    "Answered": "record",
    "CitedCell": "answer",
    "Journal": "journal",
    "Unanswered": "record",
    "ask": "asking",
    "parse_answer": "parse",
}


def __getattr__(name: str) -> object:
    """Imports a public name from the module that has it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
