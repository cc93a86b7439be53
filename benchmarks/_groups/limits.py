"""What this machine can do at most: matrix products, and copies in memory and in a core's cache."""

from __future__ import annotations

import numpy as np
import torch
from _contest import Work
from _processes import n_threads

_SIDE = 2_048
_NUMBERS = 1 << 26
_CACHED = 1 << 16
_REPEATS = 200


def limits() -> dict[str, Work]:
    """Works whose items are the operations or bytes of a run; named as in `Work.needs`."""
    left, right = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
    product = torch.empty(_SIDE, _SIDE)
    source, target = torch.rand(_NUMBERS), torch.empty(_NUMBERS)
    near, near_target = np.ones(_CACHED, np.float32), np.empty(_CACHED, np.float32)

    def cached_copies() -> None:
        for _ in range(_REPEATS):
            np.copyto(near_target, near)

    return {
        "flops": Work(lambda: torch.mm(left, right, out=product), 2 * _SIDE**3),
        "bytes": Work(lambda: target.copy_(source), 2 * 4 * _NUMBERS),
        # NumPy copies on one core; each has a cache of its own.
        "cached_bytes": Work(cached_copies, 2 * 4 * _CACHED * _REPEATS * n_threads()),
    }
