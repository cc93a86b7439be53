"""Wheels, with the compiled kernels and without a compiler, installed and run outside of the source tree."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import nvrtc
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
WALK = """
import logging, pathlib, torch, gtr_gpu
from gtr_gpu.ops import kernels, native
from gtr_gpu.ops.pagerank import personalized_pagerank
from gtr_gpu.ops.transfer import induced_transfer
from gtr_gpu.ragged import Ragged, SparseMatrix
logging.basicConfig(format="%(message)s")
ends = torch.tensor([0, 1]), torch.tensor([1, 0])
graph = SparseMatrix.from_entries(*ends, torch.tensor([3.0, 3.0]), (2, 2))
for _ in range(2):
    ranks = personalized_pagerank(
        induced_transfer(Ragged.from_rows([[0, 1]]), graph), torch.tensor([1.0, 0.0]),
        damping=0.85, tolerance=1e-9, max_iterations=500,
    )
assert abs(float(ranks.values[0]) - 1 / 1.85) < 1e-6
assert any("pagerank" in name for name in kernels.signatures())
from gtr_gpu.prompts import packaged_examples
from gtr_gpu.prompts.rendering import template_names
assert "prompt.jinja" in template_names() and packaged_examples("list")
print(pathlib.Path(gtr_gpu.__file__).parent, kernels.sources(), native.extension() is not None)
"""

PROMPT = """
from gtr_gpu.prompts import PromptSettings, build_prompt, packaged_examples
from gtr_gpu.prompts.settings import ANSWER_KINDS
from gtr_gpu.prompts.tokens import EstimatedCounter
from gtr_gpu.tables.table import Table
for kind in ANSWER_KINDS:
    settings = PromptSettings(answer_kind=kind, examples=packaged_examples(kind))
    text = build_prompt("Who?", [Table("t", "c", ["a"], [["1"]])], [], settings, EstimatedCounter()).text
    assert text.count("<answer>") == 3, text
"""

COMPILE_FOR_A_GPU = """
import sys
sys.path.append(sys.argv[1])
import nvrtc
from gtr_gpu.ops import cuda, kernels
binary, _ = nvrtc.compile_to_cubin(cuda.source_text(), (*cuda.options(), "-arch=sm_90"))
assert all(name.encode() in binary for name in kernels.signatures())
"""


class Installation:
    """A virtual environment with a wheel of the project; other packages are those of the tests."""

    def __init__(self, folder: Path, compiler: str | None = None) -> None:
        environment = os.environ | {"CXX": compiler} if compiler else None
        # A copy, so that what a build leaves behind doesn't change the source tree, or the other way round.
        source = folder / "source"
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, files.split("\0")):
            if (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                (source / name).write_bytes((ROOT / name).read_bytes())
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
        subprocess.run(build, check=True, env=environment, cwd=folder)
        (self.wheel,) = folder.glob("*.whl")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        self.python = folder / "venv" / "bin" / "python"
        install = [*pip, "--python", str(self.python), "install", "--no-deps", "--no-index", str(self.wheel)]
        subprocess.run(install, check=True, cwd=folder)
        (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        # Files of paths are read in this folder alone, so an editable installation there isn't found.
        (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])
        self.packages = packages
        self.folder = folder

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs the environment's Python, in a folder that holds nothing of the project."""
        away = self.folder / "away"
        away.mkdir(exist_ok=True)
        command = [str(self.python), *arguments]
        done = subprocess.run(command, cwd=away, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done


def test_a_wheel_brings_its_kernels(tmp_path):
    installed = Installation(tmp_path)
    done = installed.run("-c", WALK)
    package, sources, native = done.stdout.split()
    assert Path(package) == installed.packages / "gtr_gpu"
    assert Path(sources) == installed.packages / "gtr_gpu" / "kernels"
    assert native == "True"
    assert done.stderr == ""
    if nvrtc.library():
        installed.run("-c", COMPILE_FOR_A_GPU, str(Path(nvrtc.__file__).parent))
    assert "compiled kernels" in installed.run("-m", "gtr_gpu.cli", "doctor").stdout


def test_without_a_compiler_plain_torch_does_the_work_and_says_so(tmp_path):
    installed = Installation(tmp_path, "/nowhere/c++")
    assert installed.wheel.name.endswith("-py3-none-any.whl")
    done = installed.run("-c", WALK)
    assert done.stdout.split()[2] == "False"
    installed.run("-c", PROMPT)
    warning = "gtr-gpu was installed without its compiled kernels, so plain torch does the work of compiled kernels"
    assert done.stderr.count(warning) == 1
    assert "pip install" in done.stderr
    assert "plain torch: gtr-gpu was installed without its compiled kernels" in (
        installed.run("-m", "gtr_gpu.cli", "doctor").stdout
    )
