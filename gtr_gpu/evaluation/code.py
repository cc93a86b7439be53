"""Hashes of the library's own code, so that what other code found is never taken for new."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import gtr_gpu
from gtr_gpu.ops import native
from gtr_gpu.ops.kernels import sources

# What an index is not made by: a change there leaves indexes valid.
_SEARCH_ONLY = {"coarse.py", "fine.py", "flat.py", "index.py", "questions.py", "results.py", "demo.py"}
_ANSWERING = ("prompts", "answers", "language_models")
_OUTSIDE = {"cli", "evaluation", "multitableqa", *_ANSWERING}
_HARNESS = (
    *("evaluation/methods/*.py", "evaluation/coarse_stage.py"),
    *("linearize.py", "features/semantic.py", "features/token_window.py"),
)
_SAID_BY = {".py", ".jinja", ".json", ".jsonl"}

Kind = Literal["build", "search", "harness", "answers"]


@cache
def code_fingerprint(of: Kind) -> str:
    """A hash of code: what an index is built by, what searches depend on, what methods are run by, or what answers."""
    digest = hashlib.blake2b(digest_size=8)
    for path in _files(of):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _files(of: Kind) -> Iterator[Path]:
    root = Path(gtr_gpu.__file__).parent
    if of == "answers":
        for folder in _ANSWERING:
            yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in _SAID_BY)
        return
    if of == "harness":
        for pattern in _HARNESS:
            yield from sorted(root.glob(pattern))
        return
    left_out = _OUTSIDE if of == "search" else _OUTSIDE | _SEARCH_ONLY
    yield from (path for path in sorted(root.rglob("*.py")) if path.relative_to(root).parts[0] not in left_out)
    yield from sorted((sources() / "include").rglob("*.hpp"))
    module = native.extension()
    if module is not None and module.__file__:
        yield Path(module.__file__)
