"""How long work reports itself: stages with a count; the command line draws them, the library stays silent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

LOADING_ENCODER, ENCODING = "Loading the encoder", "Encoding"
"""The stages of a build that are the encoder's work."""


class Stage(Protocol):
    """One stage of a long job."""

    def advance(self, amount: int = 1) -> None:
        """Says that so many more items are done."""


class Progress(Protocol):
    """Where a long job reports its stages."""

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Stage]:
        """Opens a stage of `total` items (None where that is not known yet)."""


class _SilentStage:
    def advance(self, amount: int = 1) -> None:
        pass


class Silent:
    """Reports nothing."""

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:
        """Opens a stage that nobody sees."""
        yield _SilentStage()


class Clock:
    """Passes stages on to another progress and keeps how long each took.

    Attributes:
        seconds: Wall seconds by stage name, in the order in which the stages began; stages of one name are added.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress or Silent()

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:
        """Opens a stage of `total` items (None where that is not known yet)."""
        self.seconds.setdefault(name, 0.0)
        start = time.perf_counter()
        try:
            with self._progress.stage(name, total) as stage:
                yield stage
        finally:
            self.seconds[name] += time.perf_counter() - start
