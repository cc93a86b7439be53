"""The options that `gtr benchmark run` and `gtr benchmark answer` share, and what of them can be checked at once."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from gtr_gpu.cli.common import given_path
from gtr_gpu.errors import GTRError

Benchmark = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="A benchmark of `gtr benchmark build`, or one task of it.",
        show_default=False,
        parser=given_path,
    ),
]
Encoder = Annotated[
    str | None, typer.Option("--encoder", metavar="NAME", help="A Hugging Face encoder: a name or a folder.")
]
Encodings = Annotated[
    Path | None,
    typer.Option(
        "--encodings",
        metavar="DIR",
        help="The folder of encodings, which several RESULTS may share; by default one in RESULTS.",
        parser=given_path,
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of orders, samples and intervals.")]


def check_options(encoder: str | None, seed: int, out: Path, encodings: Path | None) -> None:
    """Checks what can be without loading anything.

    Raises:
        GTRError: The encoder has no name, the seed is out of its range, or a folder to write to is a file.
    """
    if encoder is not None and not encoder.strip():
        raise GTRError("--encoder is empty; give a name on the hub or a folder, or leave it out for the default")
    if not 0 <= seed < 2**32:
        raise GTRError(f"--seed must be a whole number from 0 to 2^32 - 1, got {seed}")
    for place, what in ((out, "results"), (encodings, "encodings")):
        if place is not None and place.exists() and not place.is_dir():
            raise GTRError(f"{place} is a file; give a folder for the {what}")


def check_libraries(packages: Mapping[str, str]) -> None:
    """Says at once that libraries of the harness are missing.

    Args:
        packages: The package that has each module.

    Raises:
        GTRError: A module is not installed.
    """
    missing = [package for module, package in packages.items() if importlib.util.find_spec(module) is None]
    if missing:
        them = "it" if len(missing) == 1 else "them"
        raise GTRError(f'the harness needs {", ".join(missing)}; `pip install "gtr-gpu[bench]"` brings {them}')


def read_cuts(option: str, text: str) -> tuple[int, ...]:
    """Numbers of tables, such as 10,20,50, each once and rising.

    Raises:
        GTRError: Something else; the message names the option.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise GTRError(f"{option} must be whole numbers separated by commas, such as 10,20,50, got {text!r}")
    return tuple(sorted({int(part) for part in parts}))
