"""Files of arrays in the safetensors format: written in full and synced, opened by memory mapping, nothing pickled."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gtr_gpu.errors import IndexFormatError
from gtr_gpu.ops.checks import torch_alone_writes
from gtr_gpu.ragged import offsets_from_lengths

Layout = Mapping[str, tuple[Sequence[torch.dtype], Sequence[str]]]
"""For each array the types that it may have and the names of its lengths; `n+1` is one more than `n`."""

# What offsets stand beside.
_ITEMS = ("values", "text", "tables")
_FORMAT_NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.int64: "I64",
    torch.float64: "F64",
}


def write_arrays(path: Path, arrays: Mapping[str, Tensor]) -> None:
    """Writes arrays of any shape, empty ones too, to one safetensors file and waits until it is on the disk.

    The library's own writer is not used: it goes through a temporary file of mode 0600 whose name nobody could sweep
    after a crash, and hides a full disk behind an error of its own. The same arrays give the same bytes here.

    Args:
        path: The file, which must not exist.
        arrays: Tensors by name, on any device, with one of the types bool, uint8, float16, bfloat16, int32, float32,
            int64 and float64.

    Raises:
        TypeError: A tensor has another type, or is sparse.
        OSError: The file exists, or can't be written.
    """
    for name, array in arrays.items():
        if array.dtype not in _FORMAT_NAMES or array.layout != torch.strided:
            raise TypeError(f"array {name!r} must be dense and of one of {list(_FORMAT_NAMES)}, got {array.dtype}")
    # Wide items first, so that every array starts at a multiple of its item size and can be mapped as it lies.
    order = sorted(arrays, key=lambda name: (-arrays[name].element_size(), name))
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        array = arrays[name]
        start, end = end, end + array.numel() * array.element_size()
        header[name] = {
            "dtype": _FORMAT_NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            flat = arrays[name].detach().cpu().contiguous().reshape(-1)
            file.write(flat.view(torch.uint8).numpy().data)
        file.flush()
        os.fsync(file.fileno())


def read_arrays(path: Path) -> dict[str, Tensor]:
    """Opens a file of arrays by memory mapping: what isn't touched isn't read.

    On Linux and macOS the arrays stay readable after the file's name is deleted. Changing one in place changes the
    process's own copy, not the file. The library's own reader is not used: it makes another error of a Ctrl-C that
    comes while it calls Python, and says of a file that may not be read that there is none.

    Raises:
        FileNotFoundError: There is no such file.
        PermissionError: It must not be read.
        IndexFormatError: The file is truncated or of another kind.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise ValueError(f"it has {size} bytes, too few for its header")
            entries = _parse_header(file.read(length), size - 8 - length)
            data = np.memmap(file, np.uint8, "c", offset=8 + length) if size > 8 + length else np.empty(0, np.uint8)
    except ValueError as error:
        raise IndexFormatError(
            f"{path} is truncated or not a safetensors file ({error}); build the index anew from its sources"
        ) from error
    flat = torch.from_numpy(np.asarray(data))
    torch_alone_writes(flat)
    return {
        name: flat[start:end].view(dtype).view(shape) if end > start else torch.empty(shape, dtype=dtype)
        for name, dtype, shape, start, end in entries
    }


def _parse_header(text: bytes, n_bytes: int) -> list[tuple[str, torch.dtype, list[int], int, int]]:
    """The arrays of a header by name: type, shape, first byte and the one after the last.

    Raises:
        ValueError: They don't fill the file's bytes one after the other, or can't be mapped as they lie.
    """
    try:
        header = json.loads(text)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    header.pop("__metadata__", None)
    entries = [(name, *_place(name, entry)) for name, entry in sorted(header.items())]
    spans = sorted((start, end) for *_, start, end in entries)
    if [0, *(end for _, end in spans)] != [*(start for start, _ in spans), n_bytes]:
        raise ValueError(f"its arrays don't fill its {n_bytes} bytes one after the other")
    for name, dtype, _, start, _ in entries:
        if start % dtype.itemsize or (8 + len(text)) % dtype.itemsize:
            raise ValueError(f"{name!r} doesn't start at a multiple of its item size")
    return entries


def _place(name: str, entry: Any) -> tuple[torch.dtype, list[int], int, int]:  # noqa: ANN401 (JSON)
    """The type, shape, first byte and the one after the last of one array."""
    dtypes = {name: dtype for dtype, name in _FORMAT_NAMES.items()}
    try:
        dtype, shape, (start, end) = dtypes[entry["dtype"]], entry["shape"], entry["data_offsets"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"its header lacks or doesn't know {error}") from error
    if not isinstance(shape, list) or any(type(number) is not int or number < 0 for number in (*shape, start, end)):
        raise ValueError(f"the place of {name!r} is no place")
    # An array without items may have lengths as well whose product no tensor can count.
    countable = math.prod(max(length, 1) for length in shape) < 1 << 63
    if not countable or end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name!r} doesn't fit its place")
    return dtype, shape, start, end


def check_arrays(path: Path, arrays: Mapping[str, Tensor], layout: Layout, sizes: dict[str, int]) -> None:
    """Compares the names, types and shapes of a file's arrays with what they must be; reads no more than offsets' ends.

    Args:
        path: The file, for messages.
        arrays: What it holds.
        layout: The arrays that it must hold.
        sizes: The lengths that are known by name; those that are first met here are added.

    Raises:
        IndexFormatError: An array is missing, unknown, or of another type or shape.
    """
    remedy = "`gtr verify` lists all damage; restore the file, or build the index anew from its sources"
    if arrays.keys() != layout.keys():
        name = min(arrays.keys() ^ layout.keys())
        raise IndexFormatError(
            f"{path} {'holds an unknown' if name in arrays else 'lacks the'} array {name!r}; {remedy}"
        )
    for name, (dtypes, shape) in layout.items():
        array = arrays[name]
        fits = array.dtype in dtypes and array.dim() == len(shape)
        for length, size in zip(array.shape, shape, strict=False):
            if size.endswith("+1"):
                length, size = length - 1, size.removesuffix("+1")
            fits &= sizes.setdefault(size, length) == length >= 0
        if not fits:
            raise IndexFormatError(
                f"{path} is damaged: its array {name!r} has another type or shape than an index needs "
                f"({array.dtype}, {tuple(array.shape)}); {remedy}"
            )
    for name, array in arrays.items():
        ragged, _, part = name.rpartition(".")
        values = next((arrays[f"{ragged}.{end}"] for end in _ITEMS if f"{ragged}.{end}" in arrays), None)
        if part == "offsets" and values is not None and [int(array[0]), int(array[-1])] != [0, values.numel()]:
            raise IndexFormatError(f"{path} is damaged: its array {name!r} doesn't fit the array beside it; {remedy}")


def pack_texts(texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Texts as arrays.

    Args:
        texts: B texts.

    Returns:
        Their UTF-8 bytes one after the other `[T]`, uint8, and where each starts and the last ends `[B + 1]`, int64.
    """
    # A lone half of a surrogate pair can come from JSON sources and has to survive.
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    lengths = torch.tensor([len(item) for item in encoded], dtype=torch.int64)
    return torch.from_numpy(np.frombuffer(b"".join(encoded), np.uint8).copy()), offsets_from_lengths(lengths)


def unpack_texts(values: Tensor, offsets: Tensor) -> list[str]:
    """The inverse of `pack_texts`: texts from bytes `[T]` and offsets `[B + 1]`."""
    data, bounds = values.numpy().tobytes(), offsets.tolist()
    return [data[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(bounds)]
