"""Which implementation serves an operation: plain torch (the reference), the CPU extension, or CUDA kernels.

An operation is a public function of `gtr_gpu.ops`, decorated by `operation`. It checks its arguments, asks `serves`
whether kernels are there for its device, and either launches them or calls the reference of the same name in
`gtr_gpu.ops.reference`.
"""

from __future__ import annotations

import functools
import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from gtr_gpu.errors import GTRError

Backend = Literal["reference", "native", "cuda"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_logger = logging.getLogger("gtr_gpu.ops")
_wanted: ContextVar[Backend | None] = ContextVar("gtr_gpu_backend", default=None)
_told: set[str] = set()
_PLAIN = frozenset({bool, int, float, str, type(None)})


@dataclass(frozen=True)
class Operation:
    """An operation and the kernels that serve it."""

    name: str
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class Served:
    """Which backend serves an operation on a device, and why not a faster one.

    Attributes:
        backend: `reference`, `native` or `cuda`.
        reason: Why no kernel serves it; empty where one does.
        remedy: The one command that would give a faster one; empty where there is none.
    """

    backend: Backend
    reason: str = ""
    remedy: str = ""


OPERATIONS: dict[str, Operation] = {}
"""Operations by name; filled as the modules of `gtr_gpu.ops` are imported."""


def all_operations() -> list[str]:
    """The names of all operations, in order; imports the modules that have them."""
    package = importlib.import_module("gtr_gpu.ops")
    for module in pkgutil.iter_modules(package.__path__, "gtr_gpu.ops."):
        importlib.import_module(module.name)
    return sorted(OPERATIONS)


def operation(*kernels: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Marks a public function as an operation that these kernels serve.

    Arrays of other libraries (NumPy, CuPy) among its arguments become tensors over the same memory, by DLPack.
    """

    def mark(function: Callable[_P, _R]) -> Callable[_P, _R]:
        name = function.__name__
        OPERATIONS[name] = Operation(name, kernels)

        @functools.wraps(function)
        def with_tensors(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            found: Any = [as_tensors(value) for value in args]
            named: Any = {key: as_tensors(value) for key, value in kwargs.items()}
            return function(*found, **named)

        return with_tensors

    return mark


def as_tensors(value: Any) -> Any:  # noqa: ANN401 (any argument of an operation)
    """The value with arrays of other libraries as tensors over the same memory, and without gradients.

    Those in a Ragged, a SparseMatrix or a sequence of them too. Numbers of NumPy's types become Python's.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, Tensor):
        return value.detach() if value.requires_grad else value
    if names := _field_names(kind):  # type: ignore[arg-type]
        changed = {}
        for name in names:
            part = getattr(value, name)
            found = as_tensors(part)
            if found is not part:
                changed[name] = found
        return replace(value, **changed) if changed else value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return kind(map(as_tensors, value)) if any(map(_has_arrays, value)) else value
    if isinstance(value, np.ndarray):
        return _from_numpy(value)
    if hasattr(value, "__dlpack__") and not isinstance(value, type):
        return from_dlpack(value)
    return value


@functools.cache
def _field_names(kind: type) -> tuple[str, ...]:
    """What a class of data has; nothing for other classes."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _has_arrays(value: Any) -> bool:  # noqa: ANN401 (any item of an argument)
    return isinstance(value, Tensor | np.ndarray) or hasattr(value, "__dlpack__") or is_dataclass(value)


def _from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    if not array.dtype.isnative or array.dtype.kind not in "biuf":
        raise GTRError(f"arrays must hold numbers in the machine's byte order, got a NumPy array of {array.dtype}")
    if any(stride < 0 for stride in array.strides):  # torch has no such tensors, and ends the process
        array = array.copy()
    return from_dlpack(array)


@contextmanager
def use(backend: Backend) -> Iterator[None]:
    """Has all operations of this thread, or this task, served by one backend, for tests and comparisons.

    Where the wanted kernels are not there, an operation fails instead of falling back.
    """
    token = _wanted.set(backend)
    try:
        yield
    finally:
        _wanted.reset(token)


def serves(name: str, device: torch.device) -> bool:
    """Whether kernels serve an operation on a device; says once, loudly, when plain torch does instead.

    Raises:
        RuntimeError: `use` asked for kernels that are not there.
    """
    wanted = _wanted.get()
    if wanted == "reference":
        return False
    found = served(name, device)
    if wanted is not None and found.backend != wanted:
        raise RuntimeError(f"{name} is not served by {wanted} kernels on {device}: {found.reason or found.backend}")
    if found.backend == "reference" and found.reason not in _told:
        _told.add(found.reason)
        remedy = f"; {found.remedy}" if found.remedy else ""
        _logger.warning("%s, so plain torch does the work of compiled kernels, slower%s", found.reason, remedy)
    return found.backend != "reference"


def served(name: str, device: torch.device) -> Served:
    """Which backend serves an operation on a device, and why."""
    from gtr_gpu.ops import cuda, native

    kernels: Sequence[str] = OPERATIONS[name].kernels
    if not kernels:
        return Served("reference", f"{name} is made of torch's own operations alone")
    if device.type == "cpu":
        missing = native.unavailable(kernels)
        return Served("reference", *missing) if missing else Served("native")
    if device.type == "cuda":
        missing = cuda.unavailable()
        return Served("reference", *missing) if missing else Served("cuda")
    return Served("reference", f"there are no kernels for {device.type} devices")
