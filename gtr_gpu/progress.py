"""How long work reports itself: stages with a count; the command line draws them, the library stays silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


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
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:  # noqa: ARG002 (the protocol's names)
        yield _SilentStage()
