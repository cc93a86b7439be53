"""All of the script for a machine with a GPU that can run without one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gtr_gpu.ops.dispatch import all_operations

ROOT = Path(__file__).parents[1]

# Operations that are like one that is measured, or torch's alone.
WITHOUT_WORK = {"centroid_scores", "segment_top_k_ragged"}
# What such a machine lacks. Each part of the script that isn't the tests runs in a process that refuses these.
LACKING = (
    *(
        "bm25s",
        "charset_normalizer",
        "faiss",
        "hypothesis",
        "huggingface_hub",
        "nanobind",
        "networkx",
        "pandas",
        "psutil",
    ),
    *("pyarrow", "rich", "safetensors", "spacy", "transformers", "typer", "zstandard"),
)
RUN_WITHOUT = f"""
import runpy, sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {LACKING!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Lacking())
sys.path.insert(0, sys.argv[1])
del sys.argv[0]
runpy.run_path("benchmarks/gpu.py", run_name="__main__")
"""


def check(results: Path) -> dict:
    (figures,) = results.glob("gpu-cpu-*-quick.json")
    facts = json.loads(figures.read_text())
    assert facts["limits"].keys() == {"bytes", "float32", "bfloat16"}
    assert {row["operation"] for row in facts["operations"]} >= {*all_operations()} - WITHOUT_WORK
    for row in facts["operations"]:
        assert row["agrees"], row
        assert row["ms"] > 0
        assert row["limit_ms"] > 0
    text = figures.with_suffix(".md").read_text()
    assert all(f"| {row['operation']} |" in text for row in facts["operations"])
    return facts


@pytest.mark.slow
def test_measurements_need_few_packages(tmp_path):
    options = ["--device", "cpu", "--quick", "--no-tests", "--results", str(tmp_path)]
    command = [sys.executable, "-c", RUN_WITHOUT, str(ROOT / "benchmarks"), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert check(tmp_path)["tests"] is None


@pytest.mark.slow
def test_the_whole_script_with_stand_ins_for_the_packages_of_tests(tmp_path):
    options = ["--device", "cpu", "--quick", "--stand-ins", "--results", str(tmp_path)]
    command = [str(ROOT / "benchmarks" / "gpu.sh"), *options]
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    tests = check(tmp_path)["tests"]
    assert tests["passed"] > 300
    assert "failed" not in tests


@pytest.mark.slow
def test_it_says_that_there_is_no_gpu(tmp_path):
    environment = os.environ | {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [str(ROOT / "benchmarks" / "gpu.sh"), "--results", str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
    )
    assert done.returncode == 1
    assert "there is no CUDA device" in done.stderr
