"""Stands in for bm25s where it isn't installed: tests that ask it are skipped when they do, and not before."""

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    import pytest

    pytest.skip("bm25s is not installed")
