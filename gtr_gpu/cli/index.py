"""`gtr index`: tables to an index."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gtr_gpu.cli import common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import drawn
from gtr_gpu.cli.summary import BuildSummary, put_summary
from gtr_gpu.errors import GTRError

if TYPE_CHECKING:
    from gtr_gpu.config import Config


def run(
    sources: common.Sources,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="The folder of the index.", show_default=False, parser=common.given_path
        ),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an index that is there.")] = False,
    preset: common.Preset = "default",
    assignments: common.Assignments = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all random numbers.")] = 0,
    encoder: Annotated[
        str | None, typer.Option("--encoder", metavar="NAME", help="A Hugging Face encoder: a name or a folder.")
    ] = None,
    device: Annotated[common.Device, typer.Option("--device", help="Where to compute.")] = "auto",
    precision: Annotated[
        common.Precision, typer.Option("--precision", help="Numbers of the encoder; auto is bfloat16 on a GPU.")
    ] = "auto",
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Read at most N tables.")] = None,
    strict: common.Strict = False,
    as_json: common.Json = False,
    quiet: common.Quiet = False,
) -> None:
    """Build an index from files or folders of tables."""
    config = common.build_config(preset, assignments, encoder)
    paths = common.check_sources(sources)
    _check_numbers(limit, seed)
    _check_out(out, overwrite)
    summary = _build(paths, out, config, overwrite, seed, device, precision, limit, strict, quiet or as_json)
    if as_json:
        common.put_json(summary.to_json())
    else:
        put_summary(summary)
        put()
        put(f'Ask it: {common.program()} search {common.quoted(out)} "your question"')


def _build(
    paths: list[Path],
    out: Path,
    config: Config,
    overwrite: bool,
    seed: int,
    device: str,
    precision: str,
    limit: int | None,
    strict: bool,
    quiet: bool,
) -> BuildSummary:
    from gtr_gpu.index import GTRIndex
    from gtr_gpu.tables import ReadReport, read_sources

    report = ReadReport()
    start = time.perf_counter()
    with drawn(quiet) as progress:
        tables = read_sources(paths, config=config, report=report, strict=strict, limit=limit)
        with common.reasons_of(report):
            index = GTRIndex.build(
                tables,
                out,
                config=config,
                overwrite=overwrite,
                seed=seed,
                device=device,
                precision=precision,
                progress=progress,
            )
    with index:
        return BuildSummary.of(index, out, report, progress.seconds, time.perf_counter() - start)


def _check_numbers(limit: int | None, seed: int) -> None:
    if limit is not None and limit < 1:
        raise GTRError(f"--limit must be at least 1, got {limit}")
    if not 0 <= seed < 2**63:
        raise GTRError(f"--seed must be a whole number from 0 to 2^63 - 1, got {seed}")


def _check_out(out: Path, overwrite: bool) -> None:
    """Says at once what `IndexFolder` would say after the libraries are loaded, in the same words."""
    if out.exists() and not out.is_dir():
        raise GTRError(f"{out} is a file; give a folder for the index")
    if (out / "manifest.json").exists() and not overwrite:
        raise GTRError(f"{out} already holds an index; give --overwrite to replace it, or another folder to --out")
