"""How long a prompt is in tokens: by the model's own tokenizer, or by an estimate that errs on the long side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class TokenCounter(Protocol):
    """Counts tokens.

    Attributes:
        name: What counts, for summaries: the tokenizer's name, or `estimate`.
        exact: Whether the counts are the model's own.
    """

    name: str
    exact: bool

    def prompt_tokens(self, text: str) -> int:
        """The tokens of a whole prompt as the model is given it: as a user's message, chat template included."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text on its own; of texts that are put together a good guess, not a bound."""
