"""What a user sees, and which exit status a program gets, when a command can't do what it was told."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from gtr_gpu.cli.common import say
from gtr_gpu.errors import GTRError
from gtr_gpu.memory import is_out_of_memory

MACHINE, MISTAKE, BUG, INTERRUPTED, READER_GONE = 1, 2, 70, 130, 141


def guarded(work: Callable[[], int], debug: bool, kept: str) -> int:
    """Does the work; makes one line on stderr and an exit status of any error.

    Args:
        work: A command; returns its exit status.
        debug: Shows the traceback as well.
        kept: What is told of an interrupt, beside that it came.
    """
    try:
        with _noting_interrupts() as interrupts:
            try:
                return work()
            except Exception as error:
                # Libraries in C++ and Rust make another error of an interrupt that comes while they call Python.
                if interrupts:
                    raise KeyboardInterrupt from error
                raise
    except KeyboardInterrupt:
        say(f"interrupted; {kept}")
        return INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return READER_GONE
    except Exception as error:  # the last stop: all of them become one line
        if debug:
            traceback.print_exc()
        for line, status in _explanations(error):
            say(line)
            return status
        raise


@contextmanager
def _noting_interrupts() -> Iterator[list[int]]:
    """Collects the Ctrl-C signals that come meanwhile; each raises KeyboardInterrupt as always."""
    interrupts: list[int] = []
    ours_to_handle = threading.current_thread() is threading.main_thread()
    if not ours_to_handle or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupts
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _explanations(error: Exception) -> Iterator[tuple[str, int]]:
    """The line and the status for an error, the most telling first."""
    if isinstance(error, GTRError):
        yield str(error), MISTAKE
    if isinstance(error, typer.Abort):
        yield "stopped; nothing was done", INTERRUPTED
    usage = getattr(error, "format_message", None)
    if usage is not None:  # a usage error, of whichever click it is that typer brings
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "gtr"
        sentence = usage().replace("Value error, ", "").rstrip(".")
        yield f"{sentence}{' ' if sentence.endswith('?') else '; '}`{command} --help` lists what it takes", MISTAKE
    if any(_is_full_disk(link) for link in _chain(error)):
        yield "no space is left on the disk; free some and run it again", MACHINE
    if any(is_out_of_memory(link) for link in _chain(error)):
        yield "the memory is used up; a smaller --limit, row_limit or batch_megabytes needs less", MACHINE
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        yield f"{where}{error.strerror}", MACHINE
    kind = type(error).__name__
    yield f"this is a bug in gtr: {kind}: {error}; --debug shows where, please report it", BUG


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def _is_full_disk(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    # Libraries that write from C++ or Rust say it in the text alone.
    return "No space left on device" in str(error) or "StorageFull" in str(error)


def _close_stdout() -> None:
    """Points stdout at nothing, so that the interpreter's last flush doesn't fail again."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
