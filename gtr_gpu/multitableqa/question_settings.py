"""The knobs of the questions of a benchmark."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gtr_gpu.errors import GTRError


@dataclass(frozen=True, slots=True)
class QuestionSettings:
    """How released questions become those of a benchmark; each step can be switched off.

    Attributes:
        seed: Of every random choice: which questions are merged, how many at a time, by which connective, and which
            are kept of a table.
        min_words: Shorter questions are dropped; 0 keeps all.
        max_stop_share: Questions with at least this share of stop words are dropped; above 1 keeps all.
        text_only: Whether questions stay that, as the source tells, the text around a table answers and not the table.
        duplicate_similarity: From which similarity on, in [0, 1], questions on one table are near-duplicates; above 1
            keeps all.
        ambiguous: Whether a text stays that is asked of several tables.
        decontextualize: Whether vague references are made explicit.
        merge_share: The share of questions that become a part of a merged one, in [0, 1]. Questions of a sequence are
            merged wherever two neighbours are there, unless it is 0.
        max_parts: The most questions that one merges, at least 2.
        merge_similarity: Independent questions at least so similar aren't merged with each other: a statement and its
            counterfeit would contradict each other in one sentence.
        max_per_table: The most built questions on one table, drawn by chance; 0 keeps all.
        spacy_model: The pipeline with a tagger that finds references, and whose language the stop words have.
    """

    seed: int = 0
    min_words: int = 5
    max_stop_share: float = 0.8
    text_only: bool = False
    duplicate_similarity: float = 0.9
    ambiguous: bool = False
    decontextualize: bool = True
    merge_share: float = 0.5
    max_parts: int = 3
    merge_similarity: float = 0.6
    max_per_table: int = 0
    spacy_model: str = "auto"

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            GTRError: A number is outside of its range.
        """
        for name, low, high in (
            ("min_words", 0, math.inf),
            ("max_stop_share", 0, math.inf),
            ("duplicate_similarity", 0, math.inf),
            ("merge_share", 0, 1),
            ("max_parts", 2, math.inf),
            ("merge_similarity", 0, math.inf),
            ("max_per_table", 0, math.inf),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                expected = f"at least {low}" if high == math.inf else f"between {low} and {high}"
                raise GTRError(f"{name} of the questions must be {expected}, got {value}")
