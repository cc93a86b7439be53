"""How kernels are found and launched; on a GPU with a CuPy that only writes down what it is asked."""

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from gtr_gpu.ops import cuda, kernels, native
from gtr_gpu.ops.kernels import Parameter, Signature, launch, scratch_bytes, signatures

PROCESSORS = 132
RESIDENT = 6
SIGNATURE = Signature(
    "made_up",
    "Block",
    (
        Parameter("offsets", "i64", True),
        Parameter("left_out", "f32", True, is_written=True),
        Parameter("damping", "f64", False),
        Parameter("most", "i64", False),
    ),
)


class FakeCuPy:
    """CuPy as far as launches use it."""

    def __init__(self) -> None:
        self.modules: list[dict] = []
        self.names: list[str] = []
        self.launches: list[tuple] = []
        self.devices: list[int] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cupy = ModuleType("cupy")
        cupy.RawModule = self.module
        cupy.cuda = SimpleNamespace(Device=self.device)
        driver = SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=lambda pointer, threads, shared: RESIDENT)
        api = ModuleType("cupy_backends.cuda.api")
        api.driver = driver
        for name, module in (("cupy", cupy), ("cupy_backends", ModuleType("cupy_backends"))):
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setitem(sys.modules, "cupy_backends.cuda", ModuleType("cupy_backends.cuda"))
        monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api", api)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
        monkeypatch.setattr(
            torch.cuda, "get_device_properties", lambda number: SimpleNamespace(multi_processor_count=PROCESSORS)
        )
        monkeypatch.setattr(torch.cuda, "current_stream", lambda number: SimpleNamespace(cuda_stream=4711 + number))

    def module(self, **options: object) -> SimpleNamespace:
        self.modules.append(options)
        return SimpleNamespace(get_function=self.function)

    def function(self, name: str) -> SimpleNamespace:
        self.names.append(name)

        def run(grid, block, arguments, **options):
            self.launches.append((grid, block, arguments, options))

        run.ptr = 1
        return SimpleNamespace(kernel=run)

    def device(self, number: int) -> nullcontext:
        self.devices.append(number)
        return nullcontext()


@pytest.fixture
def cupy(monkeypatch):
    fake = FakeCuPy()
    fake.install(monkeypatch)
    caches = (cuda._function, cuda._module)
    for cached in caches:
        cached.cache_clear()
    yield fake
    for cached in caches:
        cached.cache_clear()


def test_a_launch_on_a_gpu(cupy):
    offsets = torch.arange(4)
    cuda.launch(SIGNATURE, 3, [offsets, None, 1, 7], 100, torch.device("cpu"))
    ((grid, block, arguments, options),) = cupy.launches
    assert (grid, block) == ((3,), (256,))
    assert arguments[:4] == (offsets.data_ptr(), 0, 1.0, 7)
    assert [value.dtype for value in arguments] == [
        *(np.uint64, np.uint64, np.float64, np.int64),
        *(np.int64, np.uint64, np.int64, np.int64),
    ]
    assert arguments[4] == 3, "the items"
    assert arguments[6:] == (0, 128), "all scratch is shared memory, in whole lines of 64 bytes"
    assert options == {"shared_mem": 128, "stream": (4712,), "enable_cooperative_groups": False}
    assert set(cupy.devices) == {1}
    cuda.launch(SIGNATURE, 3, [offsets, None, 1, 7], 100, torch.device("cpu"))
    assert (len(cupy.modules), cupy.names) == (1, ["made_up"]), "compiled and looked up once"


def test_only_a_grid_is_launched_cooperatively(cupy):
    grid_of = Signature("made_up", "Grid", SIGNATURE.parameters)
    cuda.launch(grid_of, 5, [torch.arange(4), None, 0.5, 7], 1000, torch.device("cpu"))
    ((grid, _, arguments, options),) = cupy.launches
    assert grid == (2 * PROCESSORS,)
    assert options["enable_cooperative_groups"]
    assert options["shared_mem"] == arguments[7] == 0
    # 1,000 bytes in lines of 64, and what the blocks meet at: a counter and two numbers for each.
    assert arguments[6] == 1024 + 4288


@pytest.mark.parametrize("team", ["Warp", "Block", "Grid"])
@pytest.mark.parametrize("scratch", [0, 1, 64, 5 << 10, (5 << 10) + 1, 40 << 10, 100_000, 3 << 30])
@pytest.mark.parametrize("n_items", [1, 7, 8, 9, 100_000])
def test_geometry(team: str, scratch: int, n_items: int) -> None:
    plan = cuda.geometry(team, n_items, scratch, PROCESSORS, RESIDENT)
    assert plan.n_blocks >= 1
    assert 0 <= plan.shared <= cuda.SHARED_BYTES
    assert plan.stride % 64 == plan.shared % 64 == 0
    if team == "Grid":
        assert plan.n_blocks <= PROCESSORS * RESIDENT, "blocks that wait for one that never comes"
        assert plan.stride >= scratch + 16 * (plan.n_blocks + 1)
        assert plan.n_workspaces == 1
        return
    per_block = 8 if team == "Warp" else 1
    assert plan.n_blocks <= -(-n_items // per_block), "blocks without an item"
    if plan.n_workspaces:
        assert plan.n_workspaces == plan.n_blocks * per_block
        assert plan.stride >= scratch
        assert plan.stride * plan.n_workspaces <= max(1 << 30, plan.stride * per_block)
    else:
        assert plan.shared // per_block // 64 * 64 >= scratch, "what make_team gives each team"


def test_a_grid_that_hardly_fits() -> None:
    assert cuda.geometry("Grid", 1, 0, PROCESSORS, 1).n_blocks == PROCESSORS


def test_the_source_changes_with_the_headers(monkeypatch, tmp_path):
    headers = tmp_path / "include" / "gtr"
    headers.mkdir(parents=True)
    monkeypatch.setattr(kernels, "sources", lambda: tmp_path)
    texts = []
    for text in ("one", "two"):
        (headers / "all.hpp").write_text(text)
        texts.append(cuda.source_text())
    assert texts[0] != texts[1]
    (tmp_path / "tests.hpp").write_text("three")
    assert cuda.source_text() == texts[1]


def test_every_entry_is_found_and_compiled() -> None:
    assert "pagerank" in signatures()
    for signature in signatures().values():
        assert signature.parameters, signature.name
    extension = native.extension()
    if extension is None:
        pytest.skip("installed without a C++ compiler")
    assert sorted(extension.entries()) == sorted(signatures())


def test_scratch_is_counted_in_whole_lines() -> None:
    assert scratch_bytes() == 0
    assert scratch_bytes((0, 4), (1, 1), (17, 4)) == 0 + 64 + 128


@pytest.fixture
def made_up(monkeypatch):
    monkeypatch.setattr(kernels, "signatures", lambda: {"made_up": SIGNATURE})


def proper() -> list:
    return [torch.zeros(3, dtype=torch.int64), torch.zeros(2), 0.85, 10]


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, 3, "made_up: offsets must be a tensor, got int"),
        (0, torch.zeros(2), r"made_up: offsets must be torch\.int64, got torch\.float32"),
        (1, torch.zeros(2, 2).T, r"made_up: left_out must be contiguous, got strides \(1, 2\)"),
        (1, torch.zeros(2, device="meta"), r"made_up needs arrays on one device, got \['cpu', 'meta'\]"),
        (2, "much", "made_up: damping must be a number of kind f64, got 'much'"),
        (3, 1.5, "made_up: most must be a number of kind i64, got 1.5"),
    ],
)
def test_wrong_arguments(place: int, value: object, message: str) -> None:
    arguments = proper()
    arguments[place] = value
    with pytest.raises(TypeError, match=message):
        launch("made_up", 1, arguments)


@pytest.mark.usefixtures("made_up")
def test_wrong_number_of_arguments() -> None:
    with pytest.raises(TypeError, match="made_up takes 4 arguments, got 1"):
        launch("made_up", 1, [torch.zeros(1)])


@pytest.mark.usefixtures("made_up")
def test_without_the_extension(monkeypatch) -> None:
    monkeypatch.setattr(native, "extension", lambda: None)
    with pytest.raises(RuntimeError, match="without its compiled kernels"):
        launch("made_up", 1, proper())


@pytest.mark.usefixtures("made_up")
def test_no_items_are_no_work() -> None:
    launch("made_up", 0, proper())


@pytest.mark.skipif(native.extension() is None, reason="installed without a C++ compiler")
def test_too_little_scratch_raises_and_harms_nothing() -> None:
    offsets, ranks = torch.tensor([0, 2]), torch.full((2,), -1.0)
    transfer = [torch.zeros(3, dtype=torch.int64), torch.empty(0, dtype=torch.int32), torch.empty(0), torch.zeros(2)]
    walk = [torch.ones(2), 0.85, 1e-6, 10]
    found = [ranks, torch.empty(1, dtype=torch.int64), torch.empty(1, dtype=torch.bool)]
    with pytest.raises(Exception, match="scratch more than it was given"):
        launch("pagerank", 1, [offsets, *transfer, *walk, *found], 64)
    assert ranks.tolist() == [-1, -1]
