"""The kernels on an NVIDIA GPU, compiled by NVRTC through CuPy for the GPU that is there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from gtr_gpu.ops.kernels import Argument, Signature

_THREADS = 256
_SHARED_BYTES = 40 << 10
# Workspaces together hold so much at most; fewer teams run at once where an item needs more.
_WORKSPACE_BYTES = 1 << 30
_lock = threading.Lock()


def unavailable() -> tuple[str, str] | None:
    """Why kernels can't run on a GPU and what would change that; None where they can."""
    major = (torch.version.cuda or "12").split(".")[0]
    try:
        import cupy  # noqa: F401
    except ImportError as error:
        return f"CuPy can't be loaded ({error})", f"`pip install 'gtr-gpu[cuda{major}]'` brings it"
    return None


def source_text() -> str:
    """What is compiled: one line that includes all kernels, with a hash of their headers.

    CuPy caches what it compiled by this text and not by what it includes.
    """
    from gtr_gpu.ops.kernels import sources

    digest = hashlib.sha256()
    for path in sorted(sources().rglob("*.[hc][pu]*")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f'// {digest.hexdigest()}\n#include "gtr/all.hpp"\n'


def options() -> tuple[str, ...]:
    """The compiler's options, beside the GPU's architecture."""
    from gtr_gpu.ops.kernels import sources

    return ("--std=c++20", f"-I{sources() / 'include'}", "--fmad=true")


@cache
def _module(device: int) -> Any:  # noqa: ANN401 (CuPy has no types)
    import cupy

    with cupy.cuda.Device(device):
        # Cooperative, so that a grid's blocks are there together.
        return cupy.RawModule(code=source_text(), options=options(), enable_cooperative_groups=True)


def launch(
    signature: Signature, n_items: int, arguments: Sequence[Argument], scratch: int, device: torch.device
) -> None:
    """Runs a kernel on torch's current stream; see `kernels.launch`, which has checked the arguments."""
    import cupy

    number = torch.cuda.current_device() if device.index is None else device.index
    with _lock:  # compiled once, whichever thread comes first
        kernel = _module(number).get_function(signature.name)
    properties = torch.cuda.get_device_properties(number)
    warps = _THREADS // 32
    shared = min(_SHARED_BYTES, scratch * (warps if signature.team == "Warp" else 1))
    if signature.team == "Grid":
        shared = 0
        n_blocks, n_workspaces = properties.multi_processor_count, 1
        scratch += -(-(2 + 2 * n_blocks) * 8 // 64) * 64
    else:
        per_block = warps if signature.team == "Warp" else 1
        n_blocks = min(-(-n_items // per_block), 8 * properties.multi_processor_count)
        if scratch:
            n_blocks = max(1, min(n_blocks, _WORKSPACE_BYTES // (scratch * per_block)))
        n_workspaces = n_blocks * per_block
    make = torch.zeros if signature.team == "Grid" else torch.empty  # a grid's meetings count from 0
    workspace = make(scratch * n_workspaces, dtype=torch.uint8, device=device)
    values: list[Any] = []
    for parameter, argument in zip(signature.parameters, arguments, strict=True):
        if parameter.is_array:
            values.append(np.uint64(argument.data_ptr() if isinstance(argument, Tensor) else 0))
        elif isinstance(argument, int | float):
            values.append(np.float64(argument) if parameter.kind == "f64" else np.int64(argument))
    values += [np.int64(n_items), np.uint64(workspace.data_ptr()), np.int64(scratch), np.int64(shared)]
    stream = torch.cuda.current_stream(number)
    with cupy.cuda.Device(number), cupy.cuda.ExternalStream(stream.cuda_stream, number):
        kernel((n_blocks,), (_THREADS,), tuple(values), shared_mem=shared)
    workspace.record_stream(stream)
