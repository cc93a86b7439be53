"""All kernels compile for every GPU that matters, on a machine that has none, and none of them spills."""

import re
import shutil
import subprocess
from pathlib import Path

import nvrtc
import pytest

from gtr_gpu.ops import cuda
from gtr_gpu.ops.kernels import signatures, sources

ARCHITECTURES = (80, 90, 100, 120)
# Blocks have 256 threads: with so many registers each, two blocks fit on a multiprocessor.
MOST_REGISTERS = 128
# What CuPy adds to our options.
CUPYS = ("-ftz=true",)

needs_nvrtc = pytest.mark.skipif(
    nvrtc.library() is None, reason="there is no NVRTC; `pip install nvidia-cuda-nvrtc` brings it"
)


def check(usages: list[nvrtc.Usage], arch: int, compiler: str) -> None:
    assert {usage.name for usage in usages} == set(signatures()), "kernels are lacking, or the log isn't understood"
    for usage in sorted(usages, key=lambda usage: usage.name):
        line = f"{usage.registers} registers, {usage.shared} bytes of static shared memory, {usage.spills} of spills"
        print(f"{compiler} sm_{arch} {usage.name}: {line}")  # noqa: T201
        assert usage.spills == 0, (usage, arch)
        assert usage.registers <= MOST_REGISTERS, (usage, arch)
        # With the dynamic part it must stay within what every GPU grants without being asked.
        assert usage.shared + cuda.SHARED_BYTES <= 48 << 10, (usage, arch)


@needs_nvrtc
@pytest.mark.parametrize(
    "arch", [90, *(pytest.param(arch, marks=pytest.mark.slow) for arch in ARCHITECTURES if arch != 90)]
)
def test_nvrtc(arch: int) -> None:
    options = (*cuda.options(), *CUPYS, f"-arch=sm_{arch}", "--ptxas-options=-v")
    binary, log = nvrtc.compile_to_cubin(cuda.source_text(), options)
    assert binary[:4] == b"\x7fELF"
    assert "warning" not in log.lower(), log
    check(nvrtc.usages(log), arch, "NVRTC")


@needs_nvrtc
def test_nvrtc_refuses_what_is_wrong() -> None:
    with pytest.raises(nvrtc.CompilationError, match="nothing_of_that_name"):
        nvrtc.compile_to_cubin("__global__ void f() { nothing_of_that_name(); }", (*cuda.options(), "-arch=sm_90"))


@needs_nvrtc
def test_spills_are_seen() -> None:
    body = "".join(f"  double v{i} = p[{i}];\n" for i in range(64)) + "  __syncthreads();\n"
    body += "".join(f"  p[{i}] = v{i} * v{(i * 7 + 1) % 64};\n" for i in range(64))
    source = f'extern "C" __global__ void __launch_bounds__(1024) greedy(volatile double* p) {{\n{body}}}\n'
    options = ("-arch=sm_90", "--ptxas-options=-v", "--maxrregcount=32")
    (usage,) = nvrtc.usages(nvrtc.compile_to_cubin(source, options)[1])
    assert usage.name == "greedy"
    assert usage.spills > 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc; CUDA's toolkit brings it")
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
def test_nvcc_by_cmake(tmp_path: Path) -> None:
    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    root = Path(__file__).parents[1]
    assert sources() == root / "kernels"
    run("cmake", "-S", str(root), "-B", str(tmp_path), "-DGTR_PYTHON=OFF", "-DGTR_CUDA=ON")
    log = run("cmake", "--build", str(tmp_path))
    assert "warning" not in log.lower(), log
    for arch in ARCHITECTURES:
        assert (tmp_path / f"entries_sm_{arch}.cubin").stat().st_size > 0
        parts = re.findall(rf"Compiling entry function '\w+' for 'sm_{arch}'.*?Used [^\n]*", log, re.DOTALL)
        check([usage for part in parts for usage in nvrtc.usages(part)], arch, "nvcc")
