"""Hashes of the code: each changes with the files that it is about, and with no other."""

import shutil
from pathlib import Path

import pytest

import gtr_gpu
from gtr_gpu.evaluation import code
from gtr_gpu.ops import native
from gtr_gpu.ops.kernels import sources

PACKAGE = Path(gtr_gpu.__file__).parent
KINDS = ("build", "search", "harness", "answers")


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The library's code and kernels, to be changed; gives the folder and the fingerprints of it."""
    skipped = shutil.ignore_patterns("__pycache__", "*.so", "kernels")
    shutil.copytree(PACKAGE, tmp_path / "gtr_gpu", ignore=skipped)
    shutil.copytree(sources(), tmp_path / "kernels")
    extension = tmp_path / "gtr_gpu" / "_native.so"
    extension.write_bytes(b"compiled")

    class Extension:
        __file__ = str(extension)

    monkeypatch.setattr(gtr_gpu, "__file__", str(tmp_path / "gtr_gpu" / "__init__.py"))
    monkeypatch.setattr(code, "sources", lambda: tmp_path / "kernels")
    monkeypatch.setattr(native, "extension", lambda: Extension)
    return tmp_path, lambda: [code.code_fingerprint.__wrapped__(kind) for kind in KINDS]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("gtr_gpu/evaluation/methods/oracle.py", ["harness"]),
        ("gtr_gpu/evaluation/methods/gtr.py", ["harness"]),
        ("gtr_gpu/evaluation/coarse_stage.py", ["harness"]),
        ("gtr_gpu/evaluation/report.py", []),
        ("gtr_gpu/cli/app.py", []),
        ("gtr_gpu/prompts/settings.py", ["answers"]),
        ("gtr_gpu/answers/answer.py", ["answers"]),
        ("gtr_gpu/language_models/model.py", ["answers"]),
        ("gtr_gpu/linearize.py", ["build", "search", "harness"]),
        ("gtr_gpu/building.py", ["build", "search"]),
        ("gtr_gpu/flat.py", ["search"]),
        ("gtr_gpu/fine.py", ["search"]),
        ("gtr_gpu/_native.so", ["build", "search"]),
        ("kernels/include/gtr/pagerank.hpp", ["build", "search"]),
    ],
)
def test_what_a_change_of_a_file_changes(copied, name, changed):
    folder, fingerprints = copied
    before = fingerprints()
    assert fingerprints() == before
    (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
    after = fingerprints()
    assert [kind for kind, old, new in zip(KINDS, before, after, strict=True) if old != new] == changed


def test_every_name_is_there():
    assert all((PACKAGE / name).is_file() for name in code._SEARCH_ONLY)
    assert all((PACKAGE / name).is_dir() for name in code._OUTSIDE)
    assert all(list(PACKAGE.glob(pattern)) for pattern in code._HARNESS)
