"""The kernels on an NVIDIA GPU, compiled by NVRTC through CuPy for the GPU that is there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from gtr_gpu.ops.kernels import Argument, Signature

THREADS = 256
WARPS = THREADS // 32
SHARED_BYTES = 40 << 10
"""Dynamic shared memory at most; with what kernels hold besides, below the 48 KiB that every GPU grants unasked."""
# Workspaces together hold so much at most; fewer teams run at once where an item needs more.
_WORKSPACE_BYTES = 1 << 30
_BLOCKS_PER_PROCESSOR = 8
# All blocks of a grid read a number of each other one when they meet, so more of them soon cost more than they bring.
_GRID_BLOCKS_PER_PROCESSOR = 2
_ALIGNMENT = 64
_lock = threading.Lock()


class Geometry(NamedTuple):
    """How a kernel is launched.

    Attributes:
        n_blocks: Blocks of `THREADS` threads.
        shared: Bytes of dynamic shared memory of a block.
        stride: Bytes of the workspace that each team has for itself.
        n_workspaces: Teams that have some.
    """

    n_blocks: int
    shared: int
    stride: int
    n_workspaces: int


class _Stream(NamedTuple):
    ptr: int


@cache
def unavailable() -> tuple[str, str] | None:
    """Why kernels can't run on a GPU and what would change that; None where they can."""
    extra = f"`pip install 'gtr-gpu[cuda{(torch.version.cuda or '12').split('.')[0]}]'`"
    try:
        import cupy  # noqa: F401
        from cupy_backends.cuda.libs import nvrtc

        nvrtc.getVersion()
    except ImportError as error:
        return f"CuPy can't be loaded ({error})", f"{extra} brings it"
    except (RuntimeError, OSError) as error:
        return f"CuPy finds no NVRTC, which compiles the kernels ({error})", f"{extra} brings it"
    return None


def source_text() -> str:
    """What is compiled: one line that includes all kernels, with a hash of their headers.

    CuPy caches what it compiles, in CUPY_CACHE_DIR or the user's home, by this text and not by what it includes.
    """
    from gtr_gpu.ops.kernels import sources

    digest = hashlib.sha256()
    for path in sorted((sources() / "include").rglob("*.hpp")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f'// {digest.hexdigest()}\n#include "gtr/all.hpp"\n'


def options() -> tuple[str, ...]:
    """The compiler's options, beside the GPU's architecture."""
    from gtr_gpu.ops.kernels import sources

    return ("--std=c++20", f"-I{sources() / 'include'}", "--fmad=true")


def geometry(team: str, n_items: int, scratch: int, n_processors: int, resident: int = 1) -> Geometry:
    """How to launch a kernel.

    Args:
        team: `Warp`, `Block` or `Grid`.
        n_items: Items of the batch, at least 1.
        scratch: Bytes that a team needs for an item at most.
        n_processors: Multiprocessors of the GPU.
        resident: Blocks of a grid that a multiprocessor holds at once, at least 1; all blocks of a grid wait for each
            other, so that there can't be more of them.
    """
    stride = -(-scratch // _ALIGNMENT) * _ALIGNMENT
    if team == "Grid":
        n_blocks = n_processors * min(resident, _GRID_BLOCKS_PER_PROCESSOR)
        return Geometry(n_blocks, 0, stride + _meeting_bytes(n_blocks), 1)
    per_block = WARPS if team == "Warp" else 1
    n_blocks = min(-(-n_items // per_block), _BLOCKS_PER_PROCESSOR * n_processors)
    if stride * per_block <= SHARED_BYTES:  # no team will ever look at its workspace
        return Geometry(n_blocks, stride * per_block, 0, 0)
    n_blocks = max(1, min(n_blocks, _WORKSPACE_BYTES // (stride * per_block)))
    return Geometry(n_blocks, SHARED_BYTES, stride, n_blocks * per_block)


def _meeting_bytes(n_blocks: int) -> int:
    """What a grid's workspace begins with: a counter, and two numbers for each block."""
    return -(-(2 + 2 * n_blocks) * 8 // _ALIGNMENT) * _ALIGNMENT


@cache
def _function(device: int, name: str) -> tuple[Any, int]:
    """A kernel, and how many of its blocks a multiprocessor holds at once."""
    import cupy
    from cupy_backends.cuda.api import driver

    with cupy.cuda.Device(device):
        function = _module(device).get_function(name).kernel
        return function, driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, THREADS, 0)


@cache
def _module(device: int) -> Any:  # noqa: ANN401 (CuPy has no types)
    import cupy

    return cupy.RawModule(code=source_text(), options=options())


def launch(
    signature: Signature, n_items: int, arguments: Sequence[Argument], scratch: int, device: torch.device
) -> None:
    """Runs a kernel on torch's current stream; see `kernels.launch`, which has checked the arguments."""
    import cupy

    number = torch.cuda.current_device() if device.index is None else device.index
    with _lock:  # compiled once, whichever thread comes first
        function, resident = _function(number, signature.name)
    n_processors = torch.cuda.get_device_properties(number).multi_processor_count
    plan = geometry(signature.team, n_items, scratch, n_processors, resident)
    # Given back to torch when this returns: what takes it next runs after the kernel, on the same stream.
    workspace = torch.empty(plan.stride * plan.n_workspaces, dtype=torch.uint8, device=device)
    if signature.team == "Grid":
        workspace[: _meeting_bytes(plan.n_blocks)].zero_()  # arrivals are counted from 0
    tail = [np.int64(n_items), np.uint64(workspace.data_ptr()), np.int64(plan.stride), np.int64(plan.shared)]
    stream = _Stream(torch.cuda.current_stream(number).cuda_stream)
    with cupy.cuda.Device(number):
        function(
            (plan.n_blocks,),
            (THREADS,),
            (*packed(signature, arguments), *tail),
            shared_mem=plan.shared,
            stream=stream,
            enable_cooperative_groups=signature.team == "Grid",  # so that all blocks are there together
        )


def packed(signature: Signature, arguments: Sequence[Argument]) -> list[np.generic]:
    """The arguments as numbers of exactly the kernel's sizes; arrays as their addresses, those left out as 0."""
    values: list[np.generic] = []
    for parameter, argument in zip(signature.parameters, arguments, strict=True):
        if parameter.is_array:
            values.append(np.uint64(argument.data_ptr() if isinstance(argument, Tensor) else 0))
        elif isinstance(argument, int | float):
            values.append(np.float64(argument) if parameter.kind == "f64" else np.int64(argument))
    return values
