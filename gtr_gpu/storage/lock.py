"""One writer at a time: a kernel lock on a file that tells who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from gtr_gpu.errors import GTRError

LOCK_NAME = "writer.lock"


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder's writers.

    The kernel gives it back when the process ends, however it ends, so a file that is left behind locks nothing.

    Args:
        folder: The index, which exists.

    Raises:
        GTRError: Another writer holds it; the message names that one.
        OSError: The lock file can't be made.
    """
    descriptor = _lock(folder / LOCK_NAME)
    try:
        owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": " ".join(sys.argv)[:200],
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int:
    """Opens and locks the file."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A writer that gave up a new folder has deleted its lock file: a lock on the nameless file guards nothing.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise GTRError(
                f"{path.parent} is being written by {_owner(path)}; wait until it is done, or end it"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_text())
        return f"process {owner['pid']} on {owner['host']} since {owner['since']} ({owner['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
