"""The compiled extension for the CPU, where it was built."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from types import ModuleType

REMEDY = "`pip install --force-reinstall --no-deps gtr-gpu` builds them where there is a C++20 compiler, such as g++"


@cache
def extension() -> ModuleType | None:
    """The extension module, or None where the package was installed without a C++ compiler."""
    try:
        return importlib.import_module("gtr_gpu._native")
    except ModuleNotFoundError:
        return None


def unavailable(kernels: Sequence[str] = ()) -> tuple[str, str] | None:
    """Why kernels are not there and what would bring them; None where they are.

    Raises:
        ImportError: The extension is there and can't be loaded.
    """
    module = extension()
    if module is None:
        return "gtr-gpu was installed without its compiled kernels", REMEDY
    lacking = _lacking(module, tuple(kernels))
    if lacking:
        return f"the compiled kernels are of another version (they lack {', '.join(lacking)})", REMEDY
    return None


@cache
def _lacking(module: ModuleType, kernels: tuple[str, ...]) -> list[str]:
    return sorted(set(kernels) - set(module.entries()))
