"""How long work shows itself: a bar on a terminal, a line now and then in a log, nothing for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from gtr_gpu.progress import Clock, Silent, Stage

LINE_SECONDS = 5.0
LINE_SHARE = 0.1


class Lines:
    """Plain lines for a log: at a stage's start and end, and in between at most one every 5 seconds and tenth part.

    Args:
        write: Takes a line; stderr by default.
        clock: Seconds; only a test needs another.
    """

    def __init__(self, write: Callable[[str], None] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write or _to_stderr
        self._clock = clock

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:
        """Opens a stage of `total` items (None where that is not known yet)."""
        stage = _LineStage(name, total, self._write, self._clock)
        yield stage
        stage.end()


class _LineStage:
    def __init__(self, name: str, total: int | None, write: Callable[[str], None], clock: Callable[[], float]) -> None:
        self.name, self.total, self.write, self.clock = name, total, write, clock
        self.done = self.told = 0
        self.start = self.told_at = clock()

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        now = self.clock()
        part = (self.done - self.told) / self.total if self.total else 1.0
        waited = now - self.told_at
        if (waited >= LINE_SECONDS and part >= LINE_SHARE) or waited >= 6 * LINE_SECONDS:
            self.tell(now)

    def tell(self, now: float) -> None:
        self.told, self.told_at = self.done, now
        seconds = max(now - self.start, 1e-9)
        rate = self.done / seconds
        if not self.total:
            self.write(f"{self.name}: {self.done:,} ({rate_text(rate)})")
            return
        left = f", {duration((self.total - self.done) / rate)} left" if rate and self.done < self.total else ""
        share = f"{self.done / self.total:.0%}"
        self.write(f"{self.name}: {share}, {self.done:,} of {self.total:,} ({rate_text(rate)}{left})")

    def end(self) -> None:
        seconds = self.clock() - self.start
        count = f" {self.done:,} in" if self.done else ""
        self.write(f"{self.name}:{count} {duration(seconds)}")


class Bars:
    """Bars with a rate and the remaining time, on a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            _Count(),
            _Rate(),
            TimeRemainingColumn(compact=True),
            console=console or Console(stderr=True, markup=False, highlight=False),
        )
        self._started = False

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:
        """Opens a stage of `total` items (None where that is not known yet)."""
        if not self._started:
            self._progress.start()
            self._started = True
        task = self._progress.add_task(name, total=total)
        yield _Bar(self._progress, task)
        done = self._progress.tasks[self._progress.task_ids.index(task)].completed
        self._progress.update(task, total=max(done, 1), completed=max(done, 1))

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()


class _Bar:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def advance(self, amount: int = 1) -> None:
        self._progress.advance(self._task, amount)


class _Count(ProgressColumn):
    def render(self, task: Task) -> Text:
        total = f"/{task.total:,.0f}" if task.total else ""
        return Text(f"{task.completed:,.0f}{total}", style="progress.percentage")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(rate_text(speed) if speed else "", style="progress.data.speed")


@contextmanager
def drawn(quiet: bool) -> Iterator[Clock]:
    """Draws what fits: nothing where `quiet`, bars where stderr is a terminal, else lines; keeps the seconds."""
    if quiet or not sys.stderr.isatty():
        yield Clock(Silent() if quiet else Lines())
        return
    with Bars() as bars:
        yield Clock(bars)


def rate_text(rate: float) -> str:
    """A rate in words: `1,234/s`, `2.5/s` where it is small, or `12 s each` where it is smaller still."""
    if 0 < rate < 0.5:
        return f"{duration(1 / rate)} each"
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


def duration(seconds: float) -> str:
    """A time in words: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
