"""Arrays, as the tests of the operations draw them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from hypothesis.strategies import Strategy, floats, integers


def arrays(dtype: Any, shape: Any, elements: Any = None, **_: object) -> Strategy:
    """Arrays of a type and shape, either of which may be a strategy."""

    def draw(source: random.Random) -> np.ndarray:
        wanted = shape.draw(source) if isinstance(shape, Strategy) else shape
        kind = np.dtype(dtype.draw(source) if isinstance(dtype, Strategy) else dtype)
        if isinstance(elements, dict):
            one = floats(**elements)
        else:
            one = elements or (floats() if kind.kind == "f" else integers(0, 1 if kind.kind == "b" else 100))
        count = int(np.prod(wanted, dtype=int))
        return np.array([one.draw(source) for _ in range(count)], kind).reshape(wanted)

    return Strategy(draw)


def array_shapes(min_dims: int = 1, max_dims: int = 2, min_side: int = 1, max_side: int = 6) -> Strategy:
    """Shapes of arrays."""
    side = integers(min_side, max_side)
    return Strategy(lambda source: tuple(side.draw(source) for _ in range(integers(min_dims, max_dims).draw(source))))
