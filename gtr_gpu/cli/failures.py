"""What a user sees, and which exit status a program gets, when a command can't do what it was told."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator

import typer

from gtr_gpu.cli.common import say
from gtr_gpu.errors import GTRError
from gtr_gpu.memory import is_out_of_memory

MACHINE, MISTAKE, BUG, INTERRUPTED, READER_GONE = 1, 2, 70, 130, 141


def guarded(work: Callable[[], int], debug: bool = False) -> int:
    """Does the work; makes one line on stderr and an exit status of any error.

    Args:
        work: A command; returns its exit status.
        debug: Shows the traceback as well.
    """
    try:
        return work()
    except KeyboardInterrupt:
        say("interrupted; the index is as it was")
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
