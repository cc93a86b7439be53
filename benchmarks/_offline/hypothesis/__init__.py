"""Stands in for hypothesis where it isn't installed: the same random cases in every run, no shrinking.

Only for `gpu.py`, whose machine has few packages; it knows what the tests of the operations use and nothing else.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable
from typing import Any

from hypothesis.strategies import Strategy

_CASES = 15


class HealthCheck:
    """Names that settings mention."""

    function_scoped_fixture = too_slow = filter_too_much = data_too_large = None


class settings:
    """Takes any setting and heeds none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    @classmethod
    def register_profile(cls, *args: Any, **kwargs: Any) -> None: ...

    @classmethod
    def load_profile(cls, *args: Any, **kwargs: Any) -> None: ...


class Unsatisfied(Exception):
    """A case that `assume` rules out."""


def assume(condition: object) -> bool:
    """Gives up a case that doesn't fit."""
    if not condition:
        raise Unsatisfied
    return True


def example(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Cases by hand, which are left out here."""
    return lambda function: function


def given(*args: Strategy, **kwargs: Strategy) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Calls a test with random arguments; those by position are its last ones."""

    def mark(function: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(function)
        free = [name for name in signature.parameters if name not in kwargs]
        drawn = dict(zip(free[len(free) - len(args) :], args, strict=True)) | kwargs

        @functools.wraps(function)
        def run(**fixtures: Any) -> None:
            for case in range(_CASES):
                source = random.Random(case)
                try:
                    function(**fixtures, **{name: strategy.draw(source) for name, strategy in drawn.items()})
                except Unsatisfied:
                    continue

        kept = [parameter for name, parameter in signature.parameters.items() if name not in drawn]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        del run.__wrapped__  # type: ignore[attr-defined]
        return run

    return mark
