"""Processes that wait to be told what to run: each competitor is one, so that their threads don't disturb each other.

A process gets its tasks ready, runs each once to warm up, prints what it has as one line of JSON, and then runs one
task for each line that it reads. All of them are ready before the first is timed, and they take turns, so that a busy
machine is busy for all. Threads of a process that waits are asleep (`OMP_WAIT_POLICY=PASSIVE`): those of a process
that has just run would else turn for a while on the cores of the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import _common as common

Task = Callable[[], float]

_THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def serve(tasks: Mapping[str, Task], facts: Mapping[str, Any]) -> None:
    """Runs the tasks that are asked for, once each to warm up and then once for each line of stdin."""
    for task in tasks.values():
        task()
    print(json.dumps({"tasks": list(tasks), **facts}), flush=True)
    for line in sys.stdin:
        print(json.dumps(tasks[line.strip()]()), flush=True)


def timed(work: Callable[[], object]) -> float:
    """The wall seconds of some work."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def n_threads() -> int:
    """The threads that this process was told to take."""
    return int(os.environ["OMP_NUM_THREADS"])


class Competitor:
    """A process that waits to be told which task to run.

    Attributes:
        name: What it is called.
        facts: What it said when it was ready.
        tasks: The names of its tasks.
    """

    def __init__(self, name: str, command: Sequence[str], threads: int, greeting: object = None) -> None:
        """Starts it and waits until it is ready.

        Args:
            name: What it is called.
            command: A Python script and its arguments.
            threads: How many it may have.
            greeting: What it reads first, as one line of JSON; None for nothing.
        """
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **dict.fromkeys(_THREAD_COUNTS, str(threads))},
        )
        if greeting is not None:
            self._tell(json.dumps(greeting))
        self.facts = self._hear()
        self.tasks: list[str] = self.facts["tasks"]

    def run(self, task: str) -> float:
        """Runs a task and returns its seconds."""
        self._tell(task)
        return float(self._hear())

    def end(self) -> None:
        """Ends the process."""
        assert self._process.stdin
        with suppress(BrokenPipeError):  # it has ended by itself
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:  # noqa: ANN401 (what the process says)
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise common.BenchmarkError(f"the process of {self.name} ended before it was told to")
        return json.loads(line)
