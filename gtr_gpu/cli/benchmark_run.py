"""`gtr benchmark run`: measures retrieval methods on the tasks of a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gtr_gpu.cli import benchmark_options, common
from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import drawn

_LIBRARIES = {"bm25s": "bm25s", "Stemmer": "PyStemmer", "sklearn": "scikit-learn", "scipy": "scipy"}


def run(
    folder: benchmark_options.Benchmark,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="RESULTS", help="The folder of results.", show_default=False, parser=common.given_path
        ),
    ],
    methods: Annotated[
        str, typer.Option("--methods", metavar="all|a,b", help="The methods; `list` shows what there is.")
    ] = "all",
    split: Annotated[
        Literal["tune", "report", "all"], typer.Option("--split", help="Whose questions are asked.")
    ] = "report",
    questions: Annotated[
        Literal["built", "raw", "both"], typer.Option("--questions", help="As they were built, or as released.")
    ] = "built",
    sample: Annotated[
        int | None, typer.Option("--sample", metavar="N", help="Ask every method a seeded sample of N (>= 600) only.")
    ] = None,
    slow_sample: Annotated[
        int, typer.Option("--slow-sample", metavar="N", help="The same for slow methods; 0 asks them all questions.")
    ] = 600,
    slow_tables: Annotated[
        int,
        typer.Option(
            "--slow-tables",
            metavar="N",
            help="Slow methods run on corpora of up to N tables; 0 runs them on all.",
            min=0,
        ),
    ] = 6000,
    k: Annotated[
        str | None,
        typer.Option("--k", metavar="K,K", help="Cuts of the metrics; 10,20,50, and 1,5,10 on whole tables."),
    ] = None,
    encoder: benchmark_options.Encoder = None,
    encodings: benchmark_options.Encodings = None,
    device: Annotated[common.Device, typer.Option("--device", help="Where to compute.")] = "auto",
    seed: benchmark_options.Seed = 0,
    quiet: common.Quiet = False,
) -> None:
    """Measure retrieval methods on a benchmark, without showing them a label."""
    benchmark_options.check_options(encoder, seed, out, encodings)
    cuts = None if k is None else benchmark_options.read_cuts("--k", k)
    benchmark_options.check_libraries(_LIBRARIES)

    from gtr_gpu.evaluation.methods.registry import METHODS, chosen
    from gtr_gpu.evaluation.report import write_report
    from gtr_gpu.evaluation.results import Results
    from gtr_gpu.evaluation.runner import Plan
    from gtr_gpu.evaluation.runner import run as run_plan

    if methods == "list":
        for name, entry in METHODS.items():
            put(f"{name:20} {entry.kind:9} {entry.text}")
        return
    plan = Plan(chosen(methods), split, questions, cuts, sample, slow_sample or None, seed, slow_tables or None)
    n_known = 0
    keys = []
    with drawn(quiet) as progress:
        for record, known in run_plan(folder, out, plan, encoder, device, progress, encodings):
            n_known += known
            keys.append(str(record["key"]))
            if not known and not quiet:
                common.note(_line(record))
        with progress.stage("Comparing with the best baselines"):
            paths = write_report(Results(out), cuts, seed, keys)
    put(f"{len(keys) - n_known} runs done, {n_known} were there already: {common.quoted(paths[0])}")


def _line(record: dict[str, object]) -> str:
    metrics = record["metrics"]
    assert isinstance(metrics, dict)
    figures = ", ".join(f"{name} {100 * values[0]:.1f}" for name, values in list(metrics.items())[:3])
    label = " (label used)" if record["label_used"] else ""
    return f"{record['task']}/{record['protocol']}, {record['questions']}: {record['method']}{label}: {figures}"
