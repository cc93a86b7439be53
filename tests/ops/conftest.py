"""Every operation is tested on every backend by the same tests."""

from collections.abc import Iterator

import pytest
import torch

from gtr_gpu.ops import dispatch, native


def backends() -> list[object]:
    """The reference, each instruction set of this processor that kernels were compiled for, and CUDA."""
    extension = native.extension()
    sets = extension.instruction_sets() if extension else ["missing"]
    return ["reference", *(f"native-{name}" for name in sets), pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=backends())
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The device of the tensors that a test makes; while it runs, operations are served by one backend alone."""
    backend, _, instruction_set = request.param.partition("-")
    if backend == "native" and native.extension() is None:
        pytest.skip("installed without a C++ compiler")
    with dispatch.use(backend):
        if backend != "native":
            yield torch.device("cuda" if backend == "cuda" else "cpu")
            return
        extension = native.extension()
        usual = extension.instruction_set()
        extension.use_instruction_set(instruction_set)
        yield torch.device("cpu")
        extension.use_instruction_set(usual)
