"""Checks of what operations are given, each a sentence that names the argument, what was expected and what came."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gtr_gpu.errors import GTRError
from gtr_gpu.ragged import Ragged, SparseMatrix

# What is known of a tensor's numbers, with the version that torch counts up at each change in place: (version, upper).
# Large arrays that never change, such as an index's graph, are looked through once and not at each search.
_known_offsets: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_known_ranges: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def check_tensor(
    name: str, tensor: Tensor, shape: tuple[int | None, ...], dtypes: tuple[torch.dtype, ...], device: torch.device
) -> None:
    """Checks one array.

    Args:
        name: What the operation calls it.
        tensor: The array.
        shape: Its lengths; None for any.
        dtypes: The types that it may have.
        device: Where it must be.

    Raises:
        GTRError: It has another type, shape or device.
    """
    if not isinstance(tensor, Tensor):
        raise GTRError(f"{name} must be a tensor, got {type(tensor).__name__}")
    if tensor.dtype not in dtypes:
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise GTRError(f"{name} must be {wanted}, got {str(tensor.dtype).removeprefix('torch.')}")
    lengths = tuple(tensor.shape)
    if len(lengths) != len(shape) or any(
        want is not None and want != got for want, got in zip(shape, lengths, strict=True)
    ):
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise GTRError(f"{name} must have the shape [{wanted}], got {list(lengths)}")
    if tensor.device != device:
        raise GTRError(f"{name} must be on {device} like the other arguments, got {tensor.device}")


def check_offsets(name: str, offsets: Tensor, total: int, device: torch.device) -> None:
    """Checks that offsets start at 0, never fall and end at the number of items.

    Raises:
        GTRError: They don't.
    """
    check_tensor(name, offsets, (None,), (torch.int64,), device)
    version = _version(offsets)
    known = _known_offsets.get(offsets)  # type: ignore[no-untyped-call]
    if version is None or known != (version, total):
        if offsets.numel() == 0:
            raise GTRError(f"{name} must hold at least one number, got none")
        first, last = int(offsets[0]), int(offsets[-1])
        if first != 0 or last != total:
            raise GTRError(f"{name} must go from 0 to {total} (the items), got {first} to {last}")
        if bool((offsets[1:] < offsets[:-1]).any()):
            raise GTRError(f"{name} must never fall, got a smaller number after a larger one")
        _known_offsets[offsets] = (version, total)


def check_range(name: str, indices: Tensor, upper: int, lower: int = 0) -> int:
    """Checks that all indices are from `lower` up to below `upper`.

    Returns:
        The greatest index; `lower - 1` where there is none.

    Raises:
        GTRError: One is not.
    """
    if indices.numel() == 0:
        return lower - 1
    version = _version(indices)
    known = _known_ranges.get(indices)  # type: ignore[no-untyped-call]
    if version is None or known is None or known[0] != version:
        least, greatest = torch.aminmax(indices)
        known = (version, int(least), int(greatest))
        _known_ranges[indices] = known
    _, least, greatest = known
    if least < lower or greatest >= upper:
        wrong = least if least < lower else greatest
        raise GTRError(f"{name} must be from {lower} to {upper - 1}, got {wrong}")
    return int(greatest)


def torch_alone_writes(tensor: Tensor) -> None:
    """Says of memory that isn't torch's own, such as a mapped file, that only torch will ever write to it.

    Checks of its numbers, and of those of all its views, are then done once and not at each call.
    """
    tensor.untyped_storage()._torch_alone_writes = True  # type: ignore[attr-defined]


def _version(tensor: Tensor) -> tuple[int, int] | None:
    """Where the numbers are and how often they were changed in place; None where torch doesn't count it."""
    if tensor.is_inference():
        return None
    storage = tensor.untyped_storage()
    # NumPy can write to memory that it shares, and torch doesn't learn of it: such a storage can't be resized.
    if not (storage.resizable() or getattr(storage, "_torch_alone_writes", False)):
        return None
    return tensor._version, tensor.data_ptr()


def check_ragged(
    name: str, batch: Ragged, device: torch.device, upper: int | None = None, n_rows: int | None = None
) -> None:
    """Checks a batch of indices: int32 values, below `upper` where that is given, and its offsets.

    Raises:
        GTRError: Something is wrong with it.
    """
    check_tensor(f"{name}.values", batch.values, (None,), (torch.int32,), device)
    check_offsets(f"{name}.offsets", batch.offsets, batch.values.numel(), device)
    if n_rows is not None and len(batch) != n_rows:
        raise GTRError(f"{name} must have {n_rows} rows, got {len(batch)}")
    if upper is not None:
        check_range(f"{name}.values", batch.values, upper)


def check_sparse(
    name: str, matrix: SparseMatrix, device: torch.device, dtypes: tuple[torch.dtype, ...] = (torch.float32,)
) -> None:
    """Checks a sparse matrix: its columns, offsets and weights.

    Raises:
        GTRError: Something is wrong with it.
    """
    check_ragged(f"{name}.columns", matrix.columns, device, upper=matrix.n_columns)
    check_tensor(f"{name}.weights", matrix.weights, (matrix.columns.values.numel(),), dtypes, device)
