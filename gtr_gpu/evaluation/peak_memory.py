"""The most memory that this process held during a piece of work."""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """Gives a function that tells the most bytes held since the start, all that the process holds included.

    On systems without Linux's counters it is the most since the process began.
    """
    with suppress(OSError):
        _CLEAR.write_text("5")  # sets the counter back to what is held now
    yield _peak


def _peak() -> int:
    with suppress(OSError):
        found = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
        if found:
            return 1024 * int(found[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
