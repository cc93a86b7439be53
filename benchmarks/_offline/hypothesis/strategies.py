"""The strategies that the tests of the operations use; small cases first, bounds often."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Strategy:
    """Something that draws a value."""

    def __init__(self, draw: Callable[[random.Random], Any]) -> None:
        self.draw = draw

    def map(self, function: Callable[[Any], Any]) -> Strategy:
        """What the function makes of each value."""
        return Strategy(lambda source: function(self.draw(source)))

    def flatmap(self, function: Callable[[Any], Strategy]) -> Strategy:
        """A value of the strategy that the function makes of each value."""
        return Strategy(lambda source: function(self.draw(source)).draw(source))

    def filter(self, wanted: Callable[[Any], object]) -> Strategy:
        """Only values that are wanted."""

        def draw(source: random.Random) -> Any:
            for _ in range(1_000):
                value = self.draw(source)
                if wanted(value):
                    return value
            raise ValueError("no value was found that is wanted")

        return Strategy(draw)


def integers(min_value: int = -1_000, max_value: int = 1_000) -> Strategy:
    """Whole numbers."""
    bounds = [min_value, max_value]
    return Strategy(lambda source: source.choice([*bounds, *(source.randint(*bounds) for _ in range(4))]))


def floats(min_value: float = -1e3, max_value: float = 1e3, width: int = 64, **_: object) -> Strategy:
    """Finite numbers."""

    def draw(source: random.Random) -> float:
        value = source.choice([min_value, max_value, *(source.uniform(min_value, max_value) for _ in range(6))])
        return float(np.float32(value)) if width == 32 else value

    return Strategy(draw)


def booleans() -> Strategy:
    """True or False."""
    return sampled_from([False, True])


def just(value: Any) -> Strategy:
    """Always the same."""
    return Strategy(lambda source: value)


def sampled_from(values: Sequence[Any]) -> Strategy:
    """One of the values."""
    return Strategy(lambda source: source.choice(list(values)))


def one_of(*strategies: Strategy) -> Strategy:
    """A value of one of the strategies."""
    return Strategy(lambda source: source.choice(strategies).draw(source))


def none() -> Strategy:
    """None."""
    return just(None)


def tuples(*strategies: Strategy) -> Strategy:
    """One value of each strategy."""
    return Strategy(lambda source: tuple(strategy.draw(source) for strategy in strategies))


def lists(elements: Strategy, min_size: int = 0, max_size: int = 10, unique: bool = False) -> Strategy:
    """Lists of values."""

    def draw(source: random.Random) -> list[Any]:
        values = [elements.draw(source) for _ in range(integers(min_size, max_size).draw(source))]
        return list(dict.fromkeys(values)) if unique else values

    return Strategy(draw)


def composite(function: Callable[..., Any]) -> Callable[..., Strategy]:
    """A strategy from a function that is given how to draw."""

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Strategy:
        return Strategy(lambda source: function(lambda strategy: strategy.draw(source), *args, **kwargs))

    return made


class _Data:
    def __init__(self, source: random.Random) -> None:
        self._source = source

    def draw(self, strategy: Strategy, label: object = None) -> Any:
        return strategy.draw(self._source)


def data() -> Strategy:
    """Values that a test draws itself."""
    return Strategy(_Data)


def sets(elements: Strategy, min_size: int = 0, max_size: int = 10) -> Strategy:
    """Sets of values; of fewer than `min_size` where the elements are too few."""
    return lists(elements, min_size, max_size).map(set)


def permutations(values: Sequence[Any]) -> Strategy:
    """The values in another order."""
    return Strategy(lambda source: source.sample(list(values), len(values)))
