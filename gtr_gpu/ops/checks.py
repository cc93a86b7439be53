"""Checks of what operations are given, each a sentence that names the argument, what was expected and what came."""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gtr_gpu.errors import GTRError
from gtr_gpu.ragged import Ragged, SparseMatrix

# What is known of a tensor's numbers, with the version that torch counts up at each change in place: (version, upper).
# Large arrays that never change, such as an index's graph, are looked through once and not at each search.
_known_offsets: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_known_ranges: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_known_weights: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
# Numbers that are looked through sooner than it is found out whether they are known.
_FEW = 1 << 14

MOST_COUNT = 2**63 - 1
"""The greatest count that kernels take."""
MOST_ITEMS = 2**31 - 1
"""The greatest number of things that are numbered by int32."""
JOINS_QUERIES = "transfer.weights must join candidates of one query only, got an entry between two queries"
"""What is said of such a W, which kernels and their references find by themselves."""
_GREATEST = sys.float_info.max


def check_count(name: str, value: int, low: int, high: int = MOST_COUNT) -> None:
    """Checks a whole number from `low` to `high`; True and False are none.

    Raises:
        GTRError: It is something else.
    """
    if type(value) is int and low <= value <= high:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise GTRError(f"{name} must be a whole number, got {_shown(value)}")
    if not low <= value <= high:
        bounds = f"at least {low}" if value < low else f"at most {high}"
        raise GTRError(f"{name} must be {bounds}, got {value}")


def check_real(name: str, value: float, low: float = -_GREATEST, high: float = _GREATEST) -> None:
    """Checks a finite number from `low` to `high`; True and False are none.

    Raises:
        GTRError: It is something else.
    """
    if type(value) is float and low <= value <= high:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise GTRError(f"{name} must be a number, got {_shown(value)}")
    if not low <= value <= high:
        bounds = "finite" if high == _GREATEST else f"from {low} to {high}"
        if high == _GREATEST and low > -_GREATEST:
            bounds += f" and at least {low}"
        raise GTRError(f"{name} must be {bounds}, got {value}")


def _shown(value: object) -> str:
    """A short value as it is, of other things the type: they may be large."""
    return repr(value) if isinstance(value, bool | float | None) else type(value).__name__


def check_kind(name: str, value: object, *kinds: type) -> None:
    """Checks that an argument is of one of some classes.

    Raises:
        GTRError: It is not.
    """
    if not isinstance(value, kinds):
        wanted = " or ".join(_KIND_NAMES.get(kind, kind.__name__) for kind in kinds)
        raise GTRError(f"{name} must be a {wanted}, got {type(value).__name__}")


_KIND_NAMES: dict[type, str] = {Tensor: "tensor"}


def device_of(name: str, value: Tensor | Ragged | SparseMatrix, *kinds: type) -> torch.device:
    """Where an argument is, which must be of one of these classes: tensors, Ragged or SparseMatrix.

    Raises:
        GTRError: It is not, or it holds something else than tensors.
    """
    check_kind(name, value, *kinds)
    if isinstance(value, SparseMatrix):
        name, value = f"{name}.columns", value.columns
        check_kind(name, value, Ragged)
    if isinstance(value, Ragged):
        name, value = f"{name}.values", value.values
        check_kind(name, value, Tensor)
    return value.device


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
    check_kind(name, tensor, Tensor)
    if tensor.dtype not in dtypes:
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise GTRError(f"{name} must be {wanted}, got {str(tensor.dtype).removeprefix('torch.')}")
    lengths = tensor.shape
    fits = len(lengths) == len(shape)
    for want, got in zip(shape, lengths, strict=False):
        fits &= want is None or want == got
    if not fits:
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


def check_weights(name: str, weights: Tensor) -> None:
    """Checks that all numbers are finite and none is below 0.

    Raises:
        GTRError: One is not.
    """
    few = weights.numel() <= _FEW
    version = None if few else _version(weights)
    if version is None or _known_weights.get(weights) != version:  # type: ignore[no-untyped-call]
        least, greatest = map(float, torch.aminmax(weights)) if weights.numel() else (0.0, 0.0)
        if not (least >= 0 and greatest <= _GREATEST):  # one that is no number makes both none
            raise GTRError(f"{name} must be finite and at least 0, got {greatest if least >= 0 else least}")
        if not few:
            _known_weights[weights] = version


def check_rising(name: str, batch: Ragged) -> None:
    """Checks that the numbers of each row of a checked batch rise and are distinct.

    Raises:
        GTRError: Some don't.
    """
    falls = batch.values[1:] <= batch.values[:-1]
    starts = batch.offsets[1:-1]
    falls[starts[(starts > 0) & (starts < batch.values.numel())] - 1] = False
    if bool(falls.any()):
        raise GTRError(f"{name} must rise within each row and be distinct, some don't")


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
    check_kind(name, batch, Ragged)
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
    check_kind(name, matrix, SparseMatrix)
    check_count(f"{name}.n_columns", matrix.n_columns, 0)
    check_ragged(f"{name}.columns", matrix.columns, device, upper=matrix.n_columns)
    check_tensor(f"{name}.weights", matrix.weights, (matrix.columns.values.numel(),), dtypes, device)
