"""Launching a kernel, by name, on whichever processor its arrays are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.dlpack import to_dlpack  # type: ignore[attr-defined]

from gtr_gpu.ops import cuda, native

Argument = Tensor | int | float | None

_DTYPES = {
    "u8": (torch.uint8, torch.bool),
    "i32": (torch.int32,),
    "i64": (torch.int64,),
    "u64": (torch.int64,),
    "f32": (torch.float32,),
    "f64": (torch.float64,),
    "bf16": (torch.bfloat16,),
    "f16": (torch.float16,),
}
_ENTRY = re.compile(r"^GTR_ENTRY\((\w+),\s*(Warp|Block|Grid),([^)]*)\)", re.MULTILINE)
_PARAMETER = re.compile(r"(const )?(\w+)(\*?) (\w+)")
_ALIGNMENT = 64


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: an array of one of some types, or a number."""

    name: str
    kind: str
    is_array: bool
    is_written: bool = False


@dataclass(frozen=True)
class Signature:
    """A kernel's name, the team that works on an item of its batch, and its parameters."""

    name: str
    team: str
    parameters: tuple[Parameter, ...]


def sources() -> Path:
    """The folder of the kernels' text: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "kernels"
    return inside if inside.is_dir() else package.parent / "kernels"


@cache
def signatures() -> dict[str, Signature]:
    """All kernels by name, read from the headers that declare them."""
    found: dict[str, Signature] = {}
    for header in sorted((sources() / "include" / "gtr").glob("*.hpp")):
        for name, team, declaration in _ENTRY.findall(header.read_text()):
            parts = (_PARAMETER.fullmatch(" ".join(part.split())) for part in declaration.split(","))
            parameters = tuple(Parameter(part[4], part[2], bool(part[3]), not part[1]) for part in parts if part)
            found[name] = Signature(name, team, parameters)
    return found


def scratch_bytes(*arrays: tuple[int, int]) -> int:
    """The scratch that a team needs for arrays of so many items of so many bytes each."""
    return sum(-(-n * size // _ALIGNMENT) * _ALIGNMENT for n, size in arrays)


def launch(name: str, n_items: int, arguments: Sequence[Argument], scratch: int = 0) -> None:
    """Runs a kernel over the items of a batch.

    Args:
        name: The kernel's name, as its entry declares it.
        n_items: Items, each the work of one team.
        arguments: Arrays (all on one device, None for one that is left out) and numbers, in the order of the entry's
            parameters. Arrays that the kernel writes are contiguous and are changed in place; of others that are not
            contiguous it reads a copy.
        scratch: Bytes that a team needs for one item at most, see `scratch_bytes`.

    Raises:
        TypeError: An argument is of another kind than the entry declares; the message names it.
    """
    signature = signatures()[name]
    device = _check(signature, arguments)
    if n_items == 0:
        return
    arguments = [part.contiguous() if isinstance(part, Tensor) else part for part in arguments]
    if device.type == "cuda":
        cuda.launch(signature, n_items, arguments, scratch, device)
        return
    module = native.extension()
    if module is None:
        raise RuntimeError(f"{name}: gtr-gpu was installed without its compiled kernels")
    n_teams = min(torch.get_num_threads(), n_items)
    workspace = torch.empty(scratch * n_teams, dtype=torch.uint8) if scratch else None
    # A capsule is made in a twentieth of the time that `__dlpack__` takes.
    given = [to_dlpack(part) if isinstance(part, Tensor) else part for part in arguments]
    module.launch(name, given, n_items, workspace, scratch, n_teams)


def _check(signature: Signature, arguments: Sequence[Argument]) -> torch.device:
    """Compares arguments with what an entry declares; gives the device of the arrays."""
    parameters = signature.parameters
    if len(parameters) != len(arguments):
        raise TypeError(f"{signature.name} takes {len(parameters)} arguments, got {len(arguments)}")
    devices: set[torch.device] = set()
    for parameter, argument in zip(parameters, arguments, strict=True):
        where = f"{signature.name}: {parameter.name} must be"
        if not parameter.is_array:
            if not isinstance(argument, (int, float) if parameter.kind == "f64" else int):
                raise TypeError(f"{where} a number of kind {parameter.kind}, got {argument!r}")
        elif isinstance(argument, Tensor):
            _check_array(where, argument, _DTYPES[parameter.kind], parameter.is_written)
            devices.add(argument.device)
        elif argument is not None:
            raise TypeError(f"{where} a tensor, got {type(argument).__name__}")
    if len(devices) != 1:
        raise TypeError(f"{signature.name} needs arrays on one device, got {sorted(map(str, devices))}")
    return devices.pop()


def _check_array(where: str, array: Tensor, dtypes: Sequence[torch.dtype], is_written: bool) -> None:
    if array.dtype not in dtypes:
        raise TypeError(f"{where} {dtypes[0]}, got {array.dtype}")
    if is_written and not array.is_contiguous():
        raise TypeError(f"{where} contiguous, got strides {array.stride()} for the shape {tuple(array.shape)}")
