"""`record.py FILE` writes down what the tests of the operations ask of the kernels, for `replay.cpp` to do again.

Of each kernel some launches of different sizes are kept, and of each the first items of its batch. The file is
a list of launches: name, items, scratch, arguments. Numbers are int64; an argument is `i` and an int64, `f` and a
float64, `n` for none, or `a`, its size in bytes and its bytes.
"""

from __future__ import annotations

import os
import struct
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

# The same cases of hypothesis in every run.
os.environ["CI"] = "1"

import pytest
import torch

from gtr_gpu.ops import native
from gtr_gpu.ops.kernels import signatures

_MOST_LAUNCHES = 20
_MOST_BYTES = 1 << 20
_MOST_ITEMS = 24


class Recorder:
    """Stands between the Python of the kernels and their extension."""

    def __init__(self) -> None:
        self._extension: Any = native.extension()
        self._launch = self._extension.launch
        self.seen: dict[str, dict[tuple[object, ...], tuple[int, bytes]]] = defaultdict(dict)

    def __call__(
        self, name: str, arguments: list[Any], n_items: int, workspace: object, scratch: int, n_teams: int
    ) -> None:
        """Writes a launch down, and has it done."""
        # Arrays come as capsules, which can be opened once.
        plain = (int, float, type(None))
        arguments = [part if isinstance(part, plain) else torch.from_dlpack(part) for part in arguments]
        sizes = (n_items, scratch, *(size_of(argument) for argument in arguments))
        arrays = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        size = sum(array.nbytes for array in arrays) + scratch
        if size <= _MOST_BYTES and sizes not in self.seen[name]:
            self.seen[name][sizes] = (size, packed(name, arguments, min(n_items, _MOST_ITEMS), scratch))
        self._launch(name, arguments, n_items, workspace, scratch, n_teams)

    def pytest_sessionstart(self) -> None:
        """From now on launches come here."""
        self._extension.launch = self

    def pytest_sessionfinish(self) -> None:
        """From now on they don't."""
        self._extension.launch = self._launch


def packed(name: str, arguments: list[Any], n_items: int, scratch: int) -> bytes:
    """A launch as it stands in the file."""
    parts = [struct.pack("=q", len(name)), name.encode(), struct.pack("=qqq", n_items, scratch, len(arguments))]
    for argument in arguments:
        if argument is None:
            parts.append(b"n")
        elif isinstance(argument, torch.Tensor):
            flat = torch.empty(argument.numel(), dtype=argument.dtype).copy_(argument.detach().reshape(-1))
            content = flat.view(torch.uint8).numpy().tobytes()
            parts += [b"a", struct.pack("=q", len(content)), content]
        elif isinstance(argument, float):
            parts += [b"f", struct.pack("=d", argument)]
        else:
            parts += [b"i", struct.pack("=q", int(argument))]
    return b"".join(parts)


def some_of(launches: list[tuple[int, bytes]]) -> list[bytes]:
    """Launches of all sizes, the smallest and the largest too."""
    ordered = [content for _, content in sorted(launches)]
    wanted = min(len(ordered), _MOST_LAUNCHES)
    return [ordered[number * (len(ordered) - 1) // max(1, wanted - 1)] for number in range(wanted)]


def size_of(argument: object) -> object:
    """What makes a launch another one: an array's size, a number's size but for its value."""
    return argument.numel() if isinstance(argument, torch.Tensor) else min(argument, 9) if argument else argument


def main() -> None:
    """Runs the tests; the file is written only where they pass."""
    root = Path(__file__).resolve().parents[2]
    path = Path(sys.argv[1]).resolve()
    os.chdir(root)
    recorder = Recorder()
    status = pytest.main(["-q", "-k", "native-baseline", "-p", "no:cacheprovider", "tests/ops"], plugins=[recorder])
    # A grid's entry has the body of another one, and CPUs never ask for it.
    asked = {signature.name for signature in signatures().values() if signature.team != "Grid"}
    lacking = sorted(asked - set(recorder.seen))
    if status or lacking:
        sys.exit(f"no launch was written down of {', '.join(lacking)}" if lacking else int(status))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(launch for seen in recorder.seen.values() for launch in some_of(list(seen.values()))))


if __name__ == "__main__":
    main()
