"""Hashes of the library's own code, so that what other code found is never taken for new."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Literal

import gtr_gpu

# What an index is not made by: a change there leaves indexes valid.
_SEARCH_ONLY = {"coarse.py", "fine.py", "index.py", "questions.py", "results.py", "demo.py", "answer.py", "prompt.py"}
_OUTSIDE = {"cli", "evaluation", "multitableqa"}
_BASELINES = ("evaluation/methods/*.py", "linearize.py", "features/semantic.py", "features/token_window.py")


@cache
def code_fingerprint(of: Literal["build", "search", "baselines"]) -> str:
    """A hash of the code that an index is built by, that GTR's results depend on, or that baselines' do."""
    root = Path(gtr_gpu.__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    if of == "baselines":
        paths = [path for pattern in _BASELINES for path in sorted(root.glob(pattern))]
    else:
        left_out = _OUTSIDE if of == "search" else _OUTSIDE | _SEARCH_ONLY
        paths = [path for path in sorted(root.rglob("*.py")) if path.relative_to(root).parts[0] not in left_out]
    for path in paths:
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
