"""From a model's output to an answer that names the tables and cells it rests on.

The public names are loaded when they are first used, so that records are at hand without torch.
"""

from typing import TYPE_CHECKING

from gtr_gpu.lazy import lazy_names

if TYPE_CHECKING:
    from gtr_gpu.answers.answer import Answer, CitedCell
    from gtr_gpu.answers.asking import ask
    from gtr_gpu.answers.journal import Journal
    from gtr_gpu.answers.parse import parse_answer
    from gtr_gpu.answers.record import Answered, Unanswered

__all__ = ["Answer", "Answered", "CitedCell", "Journal", "Unanswered", "ask", "parse_answer"]

__getattr__ = lazy_names(
    __name__,
    {
        "Answer": "answer",
        "Answered": "record",
        "CitedCell": "answer",
        "Journal": "journal",
        "Unanswered": "record",
        "ask": "asking",
        "parse_answer": "parse",
    },
)
