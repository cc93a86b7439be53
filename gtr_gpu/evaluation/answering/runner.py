"""Asks a language model the questions of tasks, with the tables that GTR finds, and scores what it answers."""

from __future__ import annotations

import gc
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from gtr_gpu.answers.asking import within_window
from gtr_gpu.evaluation.answering.asking import Asking
from gtr_gpu.evaluation.answering.comparison import figures_of
from gtr_gpu.evaluation.answering.plan import AnswerPlan, VariantName, kind_of
from gtr_gpu.evaluation.answering.questions import Answerable, answerable
from gtr_gpu.evaluation.answering.retrieval import Found, Retriever
from gtr_gpu.evaluation.answering.runs import JOURNALS_NAME, Outcome, Run, Runs
from gtr_gpu.evaluation.code import code_fingerprint
from gtr_gpu.evaluation.corpus import Corpus, ask, blind
from gtr_gpu.evaluation.methods.method import Resources
from gtr_gpu.evaluation.metrics import acc_at_k, recall_at_k
from gtr_gpu.evaluation.results import Record, key_of
from gtr_gpu.evaluation.runner import prepare
from gtr_gpu.language_models.model import LanguageModel
from gtr_gpu.multitableqa.task import Task, read_task
from gtr_gpu.progress import Progress, Silent
from gtr_gpu.prompts.settings import PromptSettings

logger = logging.getLogger(__name__)


def answer(
    folder: Path,
    out: Path,
    plan: AnswerPlan,
    model: LanguageModel,
    encoder: str | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    encodings: Path | None = None,
) -> Iterator[Record]:
    """Runs all variants of a plan, at each k, on all tasks of a folder.

    Args:
        folder: A benchmark, or one task.
        out: The folder of results, which that of `gtr benchmark run` may be; also keeps indexes, what the model said,
            and encodings where `encodings` is left out.
        plan: What to ask.
        model: Who is asked.
        encoder: A Hugging Face encoder by name or folder; that of the default preset where it is left out.
        device: `auto`, `cpu` or `cuda`; where tables are found.
        progress: Where to report.
        encodings: A folder of encodings, which runs with other folders of results may share.

    Yields:
        The record of each run. What a model has said is never asked for again.

    Raises:
        GTRError: No task, a wrong file or one that is not as it was built, a folder to write to inside the benchmark,
            no question with a public answer, an encoder that can't be had, or a model's window without room for a
            prompt.
        ModelError: What would go wrong for every question.
    """
    progress = progress or Silent()
    plan = replace(plan, prompt=within_window(plan.prompt, model, plan.max_new_tokens, logger.warning))
    paths, resources = prepare(folder, out, encoder, device, progress, encodings)
    for path in paths:
        yield from _answer_task(path, out, plan, model, resources)
        gc.collect()


def _answer_task(
    path: Path, out: Path, plan: AnswerPlan, model: LanguageModel, resources: Resources
) -> Iterator[Record]:
    with resources.progress.stage(f"Reading {path}"):
        task = read_task(path)
        corpus = blind(task, plan.seed)
    kind = kind_of(task.name)
    everything = ask(task, corpus, plan.questions, plan.split, None, plan.seed)
    pool = task.questions if plan.questions == "built" else task.raw
    asked = answerable(task, everything, pool, kind, plan.sample)
    _note_sample(task, plan, asked)
    retriever = Retriever("gtr-default", resources.encodings.config(), resources)
    retriever.index(corpus.tables)
    runs = Runs(out)
    journals = runs.folder / JOURNALS_NAME
    for k in _cuts(plan.cuts, len(corpus.tables)):
        found = retriever.search(asked.texts, k)
        for variant in plan.variants:
            prompt = plan.prompt_of(variant, kind)
            facts = _facts(task, corpus, plan, model, retriever, prompt, k, variant)
            asking = Asking(asked, found, retriever, prompt, model, plan.max_new_tokens)
            name = f"{task.name}/{task.protocol}: asking {model.name}, {variant}, k = {k}"
            with resources.progress.stage(name, len(asked)) as stage:
                outcomes = asking.outcomes(journals / f"{key_of(facts)}.jsonl", facts, stage)
            record = _record(facts, asked, found, plan, outcomes)
            runs.save(Run(record, outcomes))
            yield record


def _cuts(cuts: Sequence[int], n_tables: int) -> list[int]:
    """Each k once; all those beyond the tables that there are find the same."""
    return sorted({min(cut, n_tables) for cut in cuts})


def _note_sample(task: Task, plan: AnswerPlan, asked: Answerable) -> None:
    if plan.sample is not None and asked.n_answerable < plan.sample:
        logger.warning(
            "%s/%s has %d %s questions of split %s with a public answer, fewer than the sample of %d: all are asked",
            *(task.name, task.protocol, asked.n_answerable, plan.questions, plan.split, plan.sample),
        )


def _facts(
    task: Task,
    corpus: Corpus,
    plan: AnswerPlan,
    model: LanguageModel,
    retriever: Retriever,
    prompt: PromptSettings,
    k: int,
    variant: VariantName,
) -> Record:
    """All that what a model says depends on, beside the code, which shows in the prompts."""
    return {
        "task": task.name,
        "protocol": task.protocol,
        "questions": plan.questions,
        "model": model.name,
        "variant": variant,
        "k": k,
        "kind": prompt.answer_kind,
        "settings": _settings(plan, prompt, model),
        "encoder": retriever.config.encoder,
        "corpus": corpus.fingerprint,
        "retrieval": key_of({"config": dict(retriever.settings)["config"]}),
    }


def _settings(plan: AnswerPlan, prompt: PromptSettings, model: LanguageModel) -> dict[str, Any]:
    """What all runs of a plan on a task share, as plain values for a report."""
    return {
        "prompt_tokens": prompt.prompt_tokens,
        "table_format": prompt.table_format,
        "max_relations": prompt.max_relations,
        "max_new_tokens": plan.max_new_tokens,
        "examples": len(prompt.examples),
        "examples_digest": _digest(json.dumps([asdict(one) for one in prompt.examples])) if prompt.examples else None,
        "templates": str(prompt.templates) if prompt.templates else None,
        "counted_by": model.tokens.name,
        "counted_exactly": model.tokens.exact,
    }


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _record(facts: Record, asked: Answerable, found: Found, plan: AnswerPlan, outcomes: list[Outcome]) -> Record:
    n = len(outcomes)
    done = [one for one in outcomes if one.error is None]
    written = [one.completion_tokens for one in done if one.completion_tokens is not None]
    facts = facts | {
        "split": plan.split,
        "asked": asked.fingerprint,
        "code": code_fingerprint("search") + code_fingerprint("answers"),
    }
    figures = figures_of(outcomes, plan.seed)
    return {
        "key": key_of({name: value for name, value in facts.items() if name != "code"}),
        **facts,
        "finished": datetime.now(UTC).isoformat(timespec="microseconds"),
        "asked_questions": n,
        "answerable_questions": asked.n_answerable,
        "skipped_questions": asked.n_skipped,
        "sampled": n < asked.n_answerable,
        "failed": n - len(done),
        "first_error": next((one.error for one in outcomes if one.error), None),
        "metrics": {name: [figure.mean, figure.low, figure.high] for name, figure in figures.items()},
        "acc_at_k": float(acc_at_k(found.ids, asked.gold_tables, found.ids.shape[1]).mean()),
        "recall_at_k": float(recall_at_k(found.ids, asked.gold_tables, found.ids.shape[1]).mean()),
        "gold_in_prompt": sum(one.shown for one in outcomes) / n,
        "answered": sum(one.answer is not None for one in outcomes) / n,
        "no_answer": sum(one.answer is None for one in done) / max(len(done), 1),
        "cites_gold": sum(one.cites_gold for one in outcomes) / n,
        "unknown_citations": sum(one.unknown_tables for one in outcomes),
        "cut_short": sum(one.cut_short for one in done) / max(len(done), 1),
        "prompt_tokens": fmean(one.prompt_tokens or 0 for one in outcomes),
        "completion_tokens": fmean(written) if written else None,
        "seconds": fmean(one.seconds or 0.0 for one in done) if done else None,
    }
