"""The dispatcher: which backend serves an operation, what is said of it, and what becomes of arrays."""

import importlib
import logging
import pkgutil
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import gtr_gpu.ops
from gtr_gpu.errors import GTRError
from gtr_gpu.ops import cuda, dispatch, native
from gtr_gpu.ops.dispatch import Served, all_operations, as_tensors, operation, served, serves, use
from gtr_gpu.ops.types import Transfer
from gtr_gpu.ragged import Ragged, SparseMatrix

CPU, CUDA, META = torch.device("cpu"), torch.device("cuda"), torch.device("meta")


class Extension(ModuleType):
    """A compiled extension as far as the dispatcher looks at it."""

    def __init__(self, *kernels: str) -> None:
        super().__init__("extension")
        self.kernels = kernels

    def entries(self) -> list[str]:
        return list(self.kernels)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """An operation of two kernels that gives back what it was given."""
    monkeypatch.setattr(dispatch, "OPERATIONS", {})
    monkeypatch.setattr(dispatch, "_told", set())

    @operation("one_kernel", "other_kernel")
    def made_up(*given: object, **named: object) -> tuple[object, ...]:
        """What it does."""
        return (*given, *named.values())

    return made_up


def installed(monkeypatch: pytest.MonkeyPatch, module: ModuleType | None) -> None:
    monkeypatch.setattr(native, "extension", lambda: module)


@pytest.fixture
def compiled(made_up: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Extension("one_kernel", "other_kernel", "third_kernel"))


def test_all_operations_are_found() -> None:
    defined = set()
    for module in pkgutil.iter_modules(gtr_gpu.ops.__path__, "gtr_gpu.ops."):
        found = importlib.import_module(module.name)
        marked = (name for name, value in vars(found).items() if hasattr(value, "__wrapped__"))
        defined |= {name for name in marked if getattr(found, name).__module__ == module.name}
    names = all_operations()
    assert names == sorted(names)
    assert set(names) <= defined
    assert {"personalized_pagerank", "assign", "sparse_top_m", "union"} <= set(names)


def test_a_marked_function_stays_itself(made_up: Callable[..., Any]) -> None:
    assert made_up.__name__ == "made_up"
    assert made_up.__doc__ == "What it does."
    assert dispatch.OPERATIONS["made_up"].kernels == ("one_kernel", "other_kernel")


@pytest.mark.usefixtures("compiled")
def test_compiled_kernels_serve_the_cpu() -> None:
    assert served("made_up", CPU) == Served("native")
    assert serves("made_up", CPU)


@pytest.mark.usefixtures("made_up")
def test_why_the_cpu_has_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, None)
    found = served("made_up", CPU)
    assert found.backend == "reference"
    assert "without its compiled kernels" in found.reason
    assert found.remedy == native.REMEDY
    installed(monkeypatch, Extension("one_kernel"))
    found = served("made_up", CPU)
    assert found.backend == "reference"
    assert "of another version (they lack other_kernel)" in found.reason
    assert found.remedy == native.REMEDY


@pytest.mark.usefixtures("made_up")
def test_what_serves_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "unavailable", lambda: None)
    assert served("made_up", CUDA) == Served("cuda")
    assert serves("made_up", CUDA)
    monkeypatch.setattr(cuda, "unavailable", lambda: ("CuPy is away", "`fetch it`"))
    assert served("made_up", CUDA) == Served("reference", "CuPy is away", "`fetch it`")
    assert not serves("made_up", CUDA)


@pytest.mark.usefixtures("compiled")
def test_other_devices_have_no_kernels() -> None:
    assert served("made_up", META) == Served("reference", "there are no kernels for meta devices")


def test_operations_without_kernels(made_up: Callable[..., Any]) -> None:
    @operation()
    def plain() -> None:
        """Nothing."""

    for device in (CPU, CUDA):
        found = served("plain", device)
        assert (found.backend, found.remedy) == ("reference", "")
        assert found.reason == "plain is made of torch's own operations alone"


@pytest.mark.usefixtures("made_up")
def test_each_reason_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    installed(monkeypatch, None)
    with caplog.at_level(logging.WARNING, "gtr_gpu.ops"):
        for _ in range(3):
            assert not serves("made_up", CPU)
        (record,) = caplog.records
        assert record.getMessage() == (
            "gtr-gpu was installed without its compiled kernels, so plain torch does the work of compiled kernels, "
            f"slower; {native.REMEDY}"
        )
        for _ in range(2):
            assert not serves("made_up", META)
    assert [record.getMessage() for record in caplog.records[1:]] == [
        "there are no kernels for meta devices, so plain torch does the work of compiled kernels, slower"
    ]


@pytest.mark.usefixtures("made_up")
def test_who_wants_plain_torch_is_told_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    installed(monkeypatch, None)
    with use("reference"):
        assert not serves("made_up", CPU)
    assert not caplog.records


@pytest.mark.usefixtures("compiled")
def test_use_is_for_its_block_alone() -> None:
    assert serves("made_up", CPU)
    with use("reference"):
        assert not serves("made_up", CPU)
        with use("native"):
            assert serves("made_up", CPU)
        assert not serves("made_up", CPU)
        with pytest.raises(ZeroDivisionError), use("native"):
            raise ZeroDivisionError
        assert not serves("made_up", CPU)
    assert serves("made_up", CPU)


@pytest.mark.usefixtures("made_up")
def test_use_fails_where_kernels_are_wanted_and_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, None)
    with (
        use("native"),
        pytest.raises(RuntimeError, match="not served by native kernels on cpu: gtr-gpu was"),
    ):
        serves("made_up", CPU)
    installed(monkeypatch, Extension("one_kernel", "other_kernel"))
    with use("cuda"), pytest.raises(RuntimeError, match=r"not served by cuda kernels on cpu: native"):
        serves("made_up", CPU)


@pytest.mark.usefixtures("compiled")
def test_use_is_for_its_thread_alone() -> None:
    found: list[bool] = []
    with use("reference"):
        thread = threading.Thread(target=lambda: found.append(serves("made_up", CPU)))
        thread.start()
        thread.join()
    assert found == [True]


def test_use_reaches_operations() -> None:
    """A whole operation takes its reference, which gives another result here."""
    from gtr_gpu.ops import reference, segments

    values, offsets = torch.ones(2), torch.tensor([0, 2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference.segments, "segment_sum", lambda values, offsets: "the reference")
        with use("reference"):
            assert segments.segment_sum(values, offsets) == "the reference"
        if native.extension():
            with use("native"):
                assert segments.segment_sum(values, offsets).tolist() == [2]


class ByDLPack:
    """An array of some library that has nothing but DLPack."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: object) -> object:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> object:
        return self.tensor.__dlpack_device__()


@dataclass(frozen=True)
class Pair:
    """Data of a class that the dispatcher doesn't know."""

    first: object
    second: object


ARRAYS = [
    pytest.param(lambda tensor: tensor.numpy(), id="NumPy"),
    pytest.param(ByDLPack, id="DLPack"),
    pytest.param(lambda tensor: tensor.clone().requires_grad_(), id="gradients"),
]


@pytest.mark.parametrize("given_as", ARRAYS)
def test_arrays_become_tensors_over_the_same_memory(given_as: Callable[[torch.Tensor], object]) -> None:
    array = given_as(torch.tensor([1.0, 2, 3]))
    address = torch.from_dlpack(array.detach() if isinstance(array, torch.Tensor) else array).data_ptr()
    for value, part in (
        (array, lambda found: found),
        ([array, 7], lambda found: found[0]),
        ((7, array), lambda found: found[1]),
        (Pair(array, "text"), lambda found: found.first),
        (Pair(7, Pair(None, array)), lambda found: found.second.second),
        ([Pair(array, 7)], lambda found: found[0].first),
    ):
        found = as_tensors(value)
        assert type(found) is type(value) or not isinstance(value, list | tuple | Pair)
        assert type(part(found)) is torch.Tensor
        assert part(found).data_ptr() == address
        assert part(found).tolist() == [1, 2, 3]
        assert not part(found).requires_grad


def test_what_needs_no_change_stays_the_same_object() -> None:
    batch = Ragged.from_rows([[1, 2], []])
    rows = SparseMatrix(batch, torch.ones(2), 3)
    transfer = Transfer(rows, torch.ones(2), batch.offsets)
    for value in (
        *(torch.ones(2), batch, rows, transfer, 3, True, 0.5, "text", None, range(3), len, Pair, np.float32),
        *([1, 2], (0.5, "text"), {"a": 1}, OrderedDict(), object(), Pair(1, 2)),
    ):
        assert as_tensors(value) is value


def test_parts_that_need_no_change_are_kept() -> None:
    offsets = torch.tensor([0, 1])
    found = as_tensors(Ragged(np.array([3], np.int32), offsets))  # type: ignore[arg-type]
    assert found.to_lists() == [[3]]
    assert found.offsets is offsets


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.int64(3), int),
        (np.float32(0.5), float),
        (np.float64(0.5), float),
        (np.bool_(True), bool),
        (np.uint8(3), int),
    ],
)
def test_numbers_of_numpy_become_pythons(value: object, kind: type) -> None:
    found = as_tensors(value)
    assert type(found) is kind
    assert found == value


@pytest.mark.parametrize(
    "view",
    [
        *(lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: a[::-1, ::-2], lambda a: a.T, lambda a: a[1:, ::2]),
        *(lambda a: a[:0], lambda a: a[0, 0], lambda a: np.broadcast_to(a[0], (3, 4))),
    ],
)
def test_views_of_numpys_arrays(view: Callable[[Any], Any]) -> None:
    array = view(np.arange(12.0).reshape(3, 4).copy())
    assert np.array_equal(np.asarray(as_tensors(array)), array)


@pytest.mark.parametrize("dtype", [">f4", ">i8", object, "S3", "U2", "datetime64[s]", complex])
def test_arrays_that_are_none_of_numbers(dtype: object) -> None:
    array = np.zeros(3, dtype)  # type: ignore[call-overload]
    for value in (array, [array], Pair(array, 1)):
        with pytest.raises(GTRError, match="arrays must hold numbers in the machine's byte order"):
            as_tensors(value)


def test_an_operation_takes_arrays_by_place_and_by_name(made_up: Callable[..., Any]) -> None:
    array = np.ones(3)
    by_place, number, by_name = made_up(array, 7, named=Pair(array, 0))
    assert number == 7
    array[1] = 5
    assert by_place.tolist() == by_name.first.tolist() == [1, 5, 1]
