"""What a benchmark is built by, and the one source of its random choices."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.question_settings import QuestionSettings
from gtr_gpu.multitableqa.task import PROTOCOLS

TASK_OF = {"tabfact": "tfv", "wtq": "single_hop", "sqa": "single_hop", "hybridqa": "multi_hop", "tatqa": "tatqa"}


@dataclass(frozen=True)
class Settings:
    """The settings of a benchmark.

    The thresholds keep what can be cut into tables that still say something. On 22,314 tables of TabFact,
    WikiTableQuestions, Sequential QA, HybridQA and TAT-QA they take out few: 3 have fewer than 3 rows, 15 fewer than 8
    distinct cells, none a single column, and none is half empty (the emptiest is at 48 %).

    Attributes:
        protocols: Which of `PROTOCOLS` are written.
        seed: Decides every random choice.
        n_parts: Into how many sub-tables a table is cut where it is large enough.
        min_rows: Tables with fewer rows are too simple to be cut.
        min_columns: Tables with fewer columns are.
        min_distinct: Tables with fewer different cells, empty ones apart, are.
        max_empty: Tables with a larger share of empty cells are.
        tune_share: The share of source tables that settings may be tuned on.
        samples: By task, the sub-tables of a further, smaller task that is drawn from it.
        questions: How the released questions become those of the benchmark; their seed is the one above.
    """

    protocols: tuple[str, ...] = ("published", "withheld", "mixed")
    seed: int = 0
    n_parts: int = 3
    min_rows: int = 3
    min_columns: int = 2
    min_distinct: int = 8
    max_empty: float = 0.5
    tune_share: float = 1 / 3
    samples: Mapping[str, int] = field(default_factory=dict)
    questions: QuestionSettings = field(default_factory=QuestionSettings)

    def __post_init__(self) -> None:
        if not self.protocols or not set(self.protocols) <= set(PROTOCOLS):
            raise GTRError(
                f"protocols must be some of {', '.join(PROTOCOLS)}, got {', '.join(self.protocols) or 'none'}"
            )
        if not 0 <= self.seed < 1 << 63:
            raise GTRError(f"seed must be a whole number from 0 to 2^63 - 1, got {self.seed}")
        for name, least in (("n_parts", 2), ("min_rows", 0), ("min_columns", 0), ("min_distinct", 0)):
            value = getattr(self, name)
            if value < least:
                raise GTRError(f"{name} must be a whole number from {least} on, got {value}")
        for name in ("max_empty", "tune_share"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise GTRError(f"{name} must be a number from 0 to 1, got {value}")
        for task, count in self.samples.items():
            if count < 1:
                raise GTRError(f"the sample of {task} must be a number of sub-tables from 1 on, got {count}")
        object.__setattr__(self, "questions", replace(self.questions, seed=self.seed))


def draw(seed: int, *what: object) -> int:
    """A random number below 2^64 that depends on the seed and on what it is for, and on nothing else.

    It is a keyed hash, so that the choices for one table don't hang on which others there are.
    """
    key = seed.to_bytes(8, "big")
    text = json.dumps(what, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key).digest(), "big")


def shuffled(count: int, seed: int, *what: object) -> list[int]:
    """The numbers below `count` in an order that is drawn."""
    return sorted(range(count), key=lambda number: (draw(seed, *what, number), number))
