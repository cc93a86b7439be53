"""The checks alone: what they let pass, what they say, and when they look through numbers again."""

import gc
import math

import numpy as np
import pytest
import torch

from gtr_gpu.errors import GTRError
from gtr_gpu.ops import checks
from gtr_gpu.ops.checks import (
    check_count,
    check_kind,
    check_offsets,
    check_ragged,
    check_range,
    check_real,
    check_rising,
    check_sparse,
    check_tensor,
    check_weights,
    device_of,
    torch_alone_writes,
)
from gtr_gpu.ragged import Ragged, SparseMatrix

CPU = torch.device("cpu")
MANY = 1 << 15
"""Numbers of an array that is looked through once."""


class Whole(int):
    """A whole number of another class, such as those of an enumeration."""


@pytest.mark.parametrize("value", [2, 3, 5, Whole(3)])
def test_counts(value: int) -> None:
    check_count("k", value, 2, 5)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *((1, "at least 2, got 1"), (6, "at most 5, got 6"), (Whole(6), "at most 5, got 6")),
        *((3.0, "a whole number, got 3.0"), (math.nan, "a whole number, got nan"), (None, "a whole number, got None")),
        *(("3", "a whole number, got str"), (True, "a whole number, got True"), ([3], "a whole number, got list")),
    ],
)
def test_what_is_no_count(value: object, said: str) -> None:
    with pytest.raises(GTRError) as caught:
        check_count("k", value, 2, 5)  # type: ignore[arg-type]
    assert str(caught.value) == f"k must be {said}"


def test_counts_that_kernels_cannot_take() -> None:
    check_count("k", 2**63 - 1, 0)
    with pytest.raises(GTRError, match="k must be at most 9223372036854775807"):
        check_count("k", 2**63, 0)


@pytest.mark.parametrize("value", [0, 1, 0.0, 0.25, 1.0, np.float64(0.5)])
def test_reals(value: float) -> None:
    check_real("mix", value, 0, 1)


def test_reals_without_bounds() -> None:
    for value in (-1e308, 0, 1e308, 10**300):
        check_real("floor", value)


@pytest.mark.parametrize(
    ("bounds", "value", "said"),
    [
        *(((0, 1), 1.5, "from 0 to 1, got 1.5"), ((0, 1), math.nan, "from 0 to 1, got nan")),
        *(((0,), -0.5, "finite and at least 0, got -0.5"), ((0,), math.inf, "finite and at least 0, got inf")),
        *(((), math.nan, "finite, got nan"), ((), -math.inf, "finite, got -inf"), ((0, 1), 2, "from 0 to 1, got 2")),
        *(
            ((), True, "a number, got True"),
            ((), "1", "a number, got str"),
            ((), torch.ones(1), "a number, got Tensor"),
        ),
    ],
)
def test_what_is_no_real(bounds: tuple[float, ...], value: object, said: str) -> None:
    with pytest.raises(GTRError) as caught:
        check_real("x", value, *bounds)  # type: ignore[arg-type]
    assert str(caught.value) == f"x must be {said}"


def test_long_texts_are_not_repeated() -> None:
    with pytest.raises(GTRError) as caught:
        check_count("k", "3" * 10_000, 0)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 100


def test_kinds() -> None:
    batch = Ragged.from_rows([[1]])
    check_kind("batch", batch, Ragged)
    check_kind("rows", torch.ones(1), torch.Tensor, SparseMatrix)
    with pytest.raises(GTRError, match=r"^batch must be a SparseMatrix, got Ragged$"):
        check_kind("batch", batch, SparseMatrix)
    with pytest.raises(GTRError, match=r"^rows must be a tensor or SparseMatrix, got list$"):
        check_kind("rows", [1], torch.Tensor, SparseMatrix)


def test_devices() -> None:
    meta, batch = torch.device("meta"), Ragged.from_rows([[1]])
    assert device_of("rows", torch.empty(1, device="meta"), torch.Tensor) == meta
    on_meta = Ragged(batch.values.to(meta), batch.offsets)
    assert device_of("batch", on_meta, Ragged) == meta
    assert device_of("rows", SparseMatrix(on_meta, torch.ones(1), 2), torch.Tensor, SparseMatrix) == meta
    for value, said in (
        (SparseMatrix([1], torch.ones(1), 2), r"rows\.columns must be a Ragged, got list"),
        (SparseMatrix(Ragged([1], batch.offsets), torch.ones(1), 2), r"rows\.columns\.values must be a tensor"),
        (batch, "rows must be a tensor or SparseMatrix, got Ragged"),
    ):
        with pytest.raises(GTRError, match=said):
            device_of("rows", value, torch.Tensor, SparseMatrix)


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        ([1.0], "x must be a tensor, got list"),
        (torch.zeros(2, 3, dtype=torch.int32), "x must be float32 or float64, got int32"),
        (torch.zeros(2), r"x must have the shape [any, 3], got [2]"),
        (torch.zeros(2, 4), r"x must have the shape [any, 3], got [2, 4]"),
        (torch.zeros(2, 3, 1), r"x must have the shape [any, 3], got [2, 3, 1]"),
        (torch.zeros(2, 3, device="meta"), "x must be on cpu like the other arguments, got meta"),
    ],
)
def test_tensors(tensor: object, said: str) -> None:
    def check(value: object) -> None:
        check_tensor("x", value, (None, 3), (torch.float32, torch.float64), CPU)  # type: ignore[arg-type]

    check(torch.zeros(0, 3))
    check(torch.zeros(5, 3, dtype=torch.float64))
    with pytest.raises(GTRError) as caught:
        check(tensor)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([], "must hold at least one number"),
        ([1, 3], "must go from 0 to 3 (the items), got 1 to 3"),
        ([0, 2], "must go from 0 to 3 (the items), got 0 to 2"),
        ([0, 2, 1, 3], "must never fall"),
    ],
)
def test_offsets(offsets: list[int], said: str) -> None:
    check_offsets("offsets", torch.tensor([0, 0, 3, 3]), 3, CPU)
    with pytest.raises(GTRError) as caught:
        check_offsets("offsets", torch.tensor(offsets, dtype=torch.int64), 3, CPU)
    assert said in str(caught.value)


def test_the_same_offsets_of_other_items() -> None:
    offsets = torch.tensor([0, 3])
    check_offsets("offsets", offsets, 3, CPU)
    with pytest.raises(GTRError, match="must go from 0 to 2"):
        check_offsets("offsets", offsets, 2, CPU)


def test_ranges() -> None:
    indices = torch.tensor([3, -1, 2])
    assert check_range("ids", indices, 4, lower=-1) == 3
    assert check_range("ids", indices[:0], 0) == -1
    with pytest.raises(GTRError, match="ids must be from 0 to 3, got -1"):
        check_range("ids", indices, 4)
    with pytest.raises(GTRError, match="ids must be from -1 to 2, got 3"):
        check_range("ids", indices, 3, lower=-1)


def test_rows_of_a_batch() -> None:
    batch = Ragged.from_rows([[0, 2], [1]])
    check_ragged("batch", batch, CPU, upper=3, n_rows=2)
    with pytest.raises(GTRError, match=r"batch\.values must be from 0 to 1, got 2"):
        check_ragged("batch", batch, CPU, upper=2)
    with pytest.raises(GTRError, match="batch must have 3 rows, got 2"):
        check_ragged("batch", batch, CPU, n_rows=3)
    with pytest.raises(GTRError, match="batch must be a Ragged, got list"):
        check_ragged("batch", [[0, 2], [1]], CPU)  # type: ignore[arg-type]


def test_sparse_rows() -> None:
    rows = SparseMatrix(Ragged.from_rows([[0, 2], [1]]), torch.ones(3), 3)
    check_sparse("rows", rows, CPU)
    for wrong, said in (
        (SparseMatrix(rows.columns, rows.weights, 2), r"rows\.columns\.values must be from 0 to 1, got 2"),
        (SparseMatrix(rows.columns, rows.weights, -1), r"rows\.n_columns must be at least 0, got -1"),
        (SparseMatrix(rows.columns, rows.weights[:2], 3), r"rows\.weights must have the shape \[3\], got \[2\]"),
        (rows.with_weights(torch.ones(3, dtype=torch.int32)), r"rows\.weights must be float32, got int32"),
        (rows.columns, "rows must be a SparseMatrix, got Ragged"),
    ):
        with pytest.raises(GTRError, match=said):
            check_sparse("rows", wrong, CPU)


@pytest.mark.parametrize("rows", [[], [[]], [[], [3], []], [[0, 2], [0, 2], [], [1]], [[5], [4], [3]]])
def test_numbers_that_rise(rows: list[list[int]]) -> None:
    check_rising("columns", Ragged.from_rows(rows))


@pytest.mark.parametrize("rows", [[[1, 1]], [[], [2, 1]], [[0], [], [0, 0], []], [[0, 1, 2, 2]]])
def test_numbers_that_do_not_rise(rows: list[list[int]]) -> None:
    with pytest.raises(GTRError, match="columns must rise within each row and be distinct"):
        check_rising("columns", Ragged.from_rows(rows))


@pytest.mark.parametrize("n", [3, MANY])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1e-30])
def test_weights(n: int, wrong: float) -> None:
    check_weights("h", torch.empty(0))
    for place in (0, n // 2, n - 1):
        weights = torch.ones(n)
        weights[1] = 0
        check_weights("h", weights)
        weights[place] = wrong
        with pytest.raises(GTRError, match="h must be finite and at least 0, got"):
            check_weights("h", weights)


def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all that is looked through from now on."""
    seen: list[int] = []
    aminmax = torch.aminmax

    def noted(numbers: torch.Tensor) -> object:
        seen.append(numbers.numel())
        return aminmax(numbers)

    monkeypatch.setattr(torch, "aminmax", noted)
    return seen


def test_a_tensor_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)
    indices, weights = torch.arange(MANY), torch.ones(MANY)
    for _ in range(3):
        check_range("ids", indices, MANY)
        check_weights("h", weights)
    assert seen == [MANY, MANY]
    with pytest.raises(GTRError, match="ids must be from 0 to 9"):
        check_range("ids", indices, 10)
    assert seen == [MANY, MANY], "another bound needs no other look"


def test_a_change_in_place_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)
    indices, weights, offsets = torch.arange(MANY), torch.ones(MANY), torch.tensor([0, 1, 2])
    check_range("ids", indices, MANY)
    check_weights("h", weights)
    check_offsets("offsets", offsets, 2, CPU)
    indices[5] = -7
    weights.view(2, -1)[1, 3] = math.nan
    offsets[1] = 9
    with pytest.raises(GTRError, match="ids must be from 0"):
        check_range("ids", indices, MANY)
    with pytest.raises(GTRError, match="h must be finite"):
        check_weights("h", weights)
    with pytest.raises(GTRError, match="offsets must never fall"):
        check_offsets("offsets", offsets, 2, CPU)
    assert len(seen) == 4


def test_what_failed_is_not_known_to_be_fine() -> None:
    weights = torch.full((MANY,), math.inf)
    offsets = torch.tensor([0, 2, 1, 3])
    for _ in range(2):
        with pytest.raises(GTRError, match="h must be finite"):
            check_weights("h", weights)
        with pytest.raises(GTRError, match="must never fall"):
            check_offsets("offsets", offsets, 3, CPU)


def test_memory_shared_with_numpy_is_looked_through_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)
    numbers = np.arange(MANY)
    shared = torch.from_numpy(numbers)
    views = [shared, shared[:], shared.view(2, -1).flatten()]
    for view in views:
        check_range("ids", view, MANY)
        check_range("ids", view, MANY)
    assert seen == [MANY] * 6
    numbers[3] = -1
    for view in views:
        with pytest.raises(GTRError, match="got -1"):
            check_range("ids", view, MANY)


def test_memory_that_torch_alone_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)
    shared = torch.from_numpy(np.arange(MANY))
    torch_alone_writes(shared)
    half = shared[: MANY // 2]
    for _ in range(2):
        check_range("ids", shared, MANY)
        check_range("ids", half, MANY)
    assert seen == [MANY, MANY // 2]
    half[0] = -1
    with pytest.raises(GTRError, match="got -1"):
        check_range("ids", shared, MANY)


def test_tensors_of_inference_are_looked_through_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)
    with torch.inference_mode():
        indices = torch.arange(MANY)
        check_range("ids", indices, MANY)
        indices[0] = -1
        with pytest.raises(GTRError, match="got -1"):
            check_range("ids", indices, MANY)
    assert seen == [MANY, MANY]


def test_a_tensor_that_is_gone_is_forgotten() -> None:
    before = len(checks._known_ranges)
    indices = torch.arange(MANY)
    check_range("ids", indices, MANY)
    assert len(checks._known_ranges) == before + 1
    del indices
    gc.collect()
    assert len(checks._known_ranges) <= before
