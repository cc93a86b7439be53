"""Stands in for networkx where it isn't installed: tests that ask it are skipped when they do, and not before."""

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    import pytest

    pytest.skip("networkx is not installed")
