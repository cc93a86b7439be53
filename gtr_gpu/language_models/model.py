"""What a language model is to the rest: prompts in, completions out, each as it is ready."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Protocol

from gtr_gpu.errors import GTRError
from gtr_gpu.prompts.tokens import TokenCounter

DEFAULT_NEW_TOKENS = 1024
"""The most tokens of a completion, where nothing else is said."""


@dataclass(frozen=True)
class Completion:
    """What a model wrote.

    Attributes:
        text: Its text, as it came.
        finish_reason: Why it stopped: `stop`, `length` where it hit the limit, or another word of the server's.
        prompt_tokens: Tokens that it read, where it is told.
        completion_tokens: Tokens that it wrote, where it is told.
        seconds: From the request to the last token, retries included.
    """

    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float


class ModelError(GTRError):
    """A model that gave no completion, in one sentence with the remedy.

    Attributes:
        fatal: Whether other prompts would fail in the same way, such as for a wrong key.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


class LanguageModel(Protocol):
    """A language model, wherever it runs.

    Attributes:
        name: What results call it.
        tokens: Counts the tokens of prompts.
        window: The most tokens of prompt and completion together, or None where that isn't known.
    """

    name: str
    tokens: TokenCounter
    window: int | None

    def complete(
        self, prompts: Iterable[str], max_new_tokens: int
    ) -> Generator[tuple[int, Completion | ModelError], None, None]:
        """Completes prompts, several at once, each yielded with its number as soon as it is ready.

        Prompts are taken from the iterable as there is room for them. An error of one prompt is yielded in its place;
        one that is fatal is raised, after all that was finished before it was yielded. Closing the generator ends the
        calls that are under way.

        Args:
            prompts: The prompts, each a user's message.
            max_new_tokens: The most tokens of a completion.

        Raises:
            ModelError: What would go wrong for every prompt.
        """

    def stream(self, prompt: str, max_new_tokens: int, show: Callable[[str], None]) -> Completion:
        """Completes one prompt and shows the text as it comes.

        Args:
            prompt: A user's message.
            max_new_tokens: The most tokens of the completion.
            show: Is given each new piece of text.

        Raises:
            ModelError: There is no completion, or not all of one.
        """
