"""`gtr benchmark answer`: asks a language model a benchmark's questions, and scores what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gtr_gpu import language_models
from gtr_gpu.cli import benchmark_options, common, model_options, prompt_options
from gtr_gpu.cli.common import put
from gtr_gpu.cli.progress import drawn
from gtr_gpu.cli.prompt_options import DEFAULTS
from gtr_gpu.cli.text import counted
from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import DEFAULT_KEY_VARIABLE
from gtr_gpu.language_models.choose import DEFAULT_CONCURRENCY, DEFAULT_RETRIES, DEFAULT_TIMEOUT
from gtr_gpu.language_models.model import DEFAULT_NEW_TOKENS

if TYPE_CHECKING:
    from gtr_gpu.evaluation.answering.plan import VariantName


def run(
    folder: benchmark_options.Benchmark,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="RESULTS",
            help="The folder of results; that of `gtr benchmark run` lends its indexes and encodings.",
            parser=common.given_path,
        ),
    ] = Path("results"),
    model: model_options.Model = None,
    base_url: model_options.BaseUrl = None,
    api_key_env: model_options.ApiKeyEnv = DEFAULT_KEY_VARIABLE,
    tokenizer: model_options.Tokenizer = None,
    k: Annotated[
        str, typer.Option("-k", metavar="K,K", help="Tables for each question; each number is a run of its own.")
    ] = "10,20,50",
    variants: Annotated[
        str, typer.Option("--variants", metavar="all|a,b", help="Of full, no-relations and no-reasoning.")
    ] = "all",
    prompt_tokens: prompt_options.PromptTokens = DEFAULTS.prompt_tokens,
    max_new_tokens: model_options.NewTokens = DEFAULT_NEW_TOKENS,
    table_format: prompt_options.Format = DEFAULTS.table_format,
    examples: prompt_options.Examples = None,
    few_shot: prompt_options.FewShot = 0,
    templates: prompt_options.Templates = None,
    split: Annotated[
        Literal["tune", "report", "all"], typer.Option("--split", help="Whose questions are asked.")
    ] = "report",
    questions: Annotated[
        Literal["built", "raw"], typer.Option("--questions", help="As they were built, or as released.")
    ] = "built",
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", help="Ask only a seeded sample of N questions that have an answer."),
    ] = None,
    timeout: model_options.Timeout = DEFAULT_TIMEOUT,
    retries: model_options.Retries = DEFAULT_RETRIES,
    concurrency: model_options.Concurrency = DEFAULT_CONCURRENCY,
    encoder: benchmark_options.Encoder = None,
    encodings: benchmark_options.Encodings = None,
    device: Annotated[common.Device, typer.Option("--device", help="Where tables are found.")] = "auto",
    seed: benchmark_options.Seed = 0,
    quiet: common.Quiet = False,
) -> None:
    """Score a language model's answers, with the paper's ablations, each at several k.

    What the model says is kept as it comes: the same command goes on where it was stopped, and asks nothing twice.
    """
    benchmark_options.check_options(encoder, seed, out, encodings)
    model_options.check_options(model, base_url, api_key_env, max_new_tokens)
    settings = prompt_options.prompt_settings(
        prompt_tokens=prompt_tokens,
        table_format=table_format,
        answer_kind=DEFAULTS.answer_kind,
        no_relations=False,
        no_reasoning=False,
        examples=examples,
        few_shot=0,
        templates=templates,
    )
    cuts, names = benchmark_options.read_cuts("-k", k), _variants(variants)
    benchmark_options.check_libraries({"scipy": "scipy"})

    from gtr_gpu.evaluation.answering.plan import AnswerPlan
    from gtr_gpu.evaluation.answering.report import write_report
    from gtr_gpu.evaluation.answering.runner import answer
    from gtr_gpu.multitableqa.task import tasks_in

    plan = AnswerPlan(cuts, names, settings, few_shot, max_new_tokens, split, questions, sample, seed)
    tasks_in(folder)  # a mistyped folder is told before a model is loaded
    n_runs, failed = 0, 0
    with drawn(quiet) as progress:
        with progress.stage("Loading the language model"):
            opened = language_models.open_model(
                model,
                base_url,
                key_variable=api_key_env,
                tokenizer=tokenizer,
                timeout=timeout,
                retries=retries,
                concurrency=concurrency,
            )
        for record in answer(folder, out, plan, opened, encoder, device, progress, encodings):
            n_runs += 1
            failed += record["failed"]
            if not quiet:
                common.note(_line(record))
        with progress.stage("Writing the report"):
            paths = write_report(out, seed)
    put(f"{counted(n_runs, 'run')} scored: {common.quoted(paths[0])}")
    if failed:
        asked = counted(failed, "question")
        common.say(f"{asked} failed and count as wrong (the report tells why); the same command asks them again")
        raise typer.Exit(1)


def _line(record: dict[str, Any]) -> str:
    figures = ", ".join(f"{name} {100 * values[0]:.1f}" for name, values in record["metrics"].items())
    failed = f", {record['failed']:,} failed" if record["failed"] else ""
    return (
        f"{record['task']}/{record['protocol']}, {record['variant']}, k = {record['k']}: {figures} "
        f"({counted(record['asked_questions'], 'question')}{failed})"
    )


def _variants(text: str) -> tuple[VariantName, ...]:
    from gtr_gpu.evaluation.answering.plan import VARIANTS

    asked = [part.strip() for part in text.split(",") if part.strip()]
    for name in asked:
        if name not in (*VARIANTS, "all"):
            raise GTRError(f"there is no variant {name!r}; --variants takes all, or some of {', '.join(VARIANTS)}")
    if not asked:
        raise GTRError(f"--variants is empty; give all, or some of {', '.join(VARIANTS)}")
    return tuple(name for name in VARIANTS if "all" in asked or name in asked)
