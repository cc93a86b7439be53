"""What all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

# Before torch is loaded: its threads must not spin where several test runs share a machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
from hypothesis import HealthCheck, settings

# Machines differ in speed, and a test that fails by chance helps nobody: `CI` makes the cases the same in every run.
# A fixture that stays the same for all cases of a test, such as the backend, is meant to.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real table sets, which is not a part of this repository."""
    folder = Path(os.environ.get("GTR_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real tables at {folder}; set GTR_DATA to a folder of them")
    return folder


@pytest.fixture(scope="module")
def fake_encoder() -> Iterator[object]:
    """The encoder of every index that a module's tests make; one thread, which small tables need no more of."""
    import torch
    from index_fakes import install

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        yield install(patch)
    torch.set_num_threads(threads)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what needs a GPU where there is none."""
    import torch

    if not torch.cuda.is_available():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
