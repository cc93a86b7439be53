"""Runs methods on tasks, one after the other, and adds each to the results as soon as it is done."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation.bootstrap import confidence_intervals
from gtr_gpu.evaluation.code import code_fingerprint
from gtr_gpu.evaluation.comparison import default_cuts
from gtr_gpu.evaluation.corpus import Asked, Corpus, QuestionSet, Split, ask, blind, questions_of
from gtr_gpu.evaluation.encodings import Encodings
from gtr_gpu.evaluation.methods.gtr import GTR
from gtr_gpu.evaluation.methods.method import Labelled, Method, Ranking, Resources
from gtr_gpu.evaluation.methods.registry import METHODS
from gtr_gpu.evaluation.metrics import measure
from gtr_gpu.evaluation.peak_memory import peak_memory
from gtr_gpu.evaluation.results import Ranked, Record, Results, key_of
from gtr_gpu.multitableqa.manifest import benchmark_of, verify_tasks
from gtr_gpu.multitableqa.task import Task, read_task, tasks_in
from gtr_gpu.progress import Progress, Silent

SAVED = 100
"""Places of each ranking that are saved."""
LEAST_SAMPLE = 600
MOST_SLOW = 6000
"""Tables of the largest corpus that slow methods run on, unless all are asked for."""
_COVERED = 600

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Attributes:
        methods: Names of the registry, in order.
        split: Whose questions are asked.
        questions: Those that were built, those that were released, or both.
        cuts: Where metrics cut rankings; None takes 10, 20, 50, and 1, 5, 10 on whole tables.
        sample: Asks every method only so many questions.
        slow_sample: Asks slow methods only so many; None asks them all.
        seed: Of orders, ids, samples and intervals.
        slow_tables: Leaves slow methods out of corpora of more tables, where one question may take twenty seconds; None
            runs them everywhere.
    """

    methods: Sequence[str]
    split: Split = "report"
    questions: Literal["built", "raw", "both"] = "built"
    cuts: tuple[int, ...] | None = None
    sample: int | None = None
    slow_sample: int | None = LEAST_SAMPLE
    seed: int = 0
    slow_tables: int | None = MOST_SLOW

    def __post_init__(self) -> None:
        for name in ("sample", "slow_sample"):
            size = getattr(self, name)
            if size is not None and size < LEAST_SAMPLE:
                raise GTRError(
                    f"{name} must be at least {LEAST_SAMPLE} questions, got {size}; fewer tell methods apart too badly"
                )
        for cut in self.cuts or ():
            if not 1 <= cut <= SAVED:
                raise GTRError(f"cuts must be numbers from 1 to {SAVED}, got {cut}")

    def sample_of(self, method: str) -> int | None:
        """How many questions a method is asked; None for all."""
        sizes = [self.sample, self.slow_sample if METHODS[method].slow else None]
        return min((size for size in sizes if size is not None), default=None)

    def cuts_of(self, protocol: str) -> tuple[int, ...]:
        """Where metrics cut rankings of a protocol."""
        return self.cuts or default_cuts(protocol)

    def sets_of(self, task: Task) -> list[QuestionSet]:
        """The sets of questions that are asked of a task."""
        if self.questions == "both":
            return ["built", "raw"] if task.raw else ["built"]
        return [self.questions]


def run(
    folder: Path,
    out: Path,
    plan: Plan,
    encoder: str | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    encodings: Path | None = None,
) -> Iterator[tuple[Record, bool]]:
    """Runs all methods of a plan on all tasks of a folder.

    Args:
        folder: A benchmark, or one task.
        out: The folder of results; also keeps indexes for later runs, and encodings where `encodings` is left out.
        plan: What to run.
        encoder: A Hugging Face encoder by name or folder; that of the default preset where it is left out.
        device: `auto`, `cpu` or `cuda`.
        progress: Where to report.
        encodings: A folder of encodings, which runs with other folders of results may share.

    Yields:
        Each record, and whether it was there already.

    Raises:
        GTRError: No task, a wrong file or one that is not as it was built, a folder to write to inside the benchmark,
            no such questions, or an encoder that can't be had.
    """
    progress = progress or Silent()
    paths, resources = prepare(folder, out, encoder, device, progress, encodings)
    results = Results(out)
    done = {record["key"]: record for record in results.records()}
    for path in paths:
        with progress.stage(f"Reading {path}"):
            task = read_task(path)
            corpus = blind(task, plan.seed)
        _note_sample(task, plan)
        for name in plan.methods:
            if METHODS[name].slow and plan.slow_tables is not None and len(corpus.tables) > plan.slow_tables:
                logger.warning(
                    "%s/%s: %s is slow, so it is left out of corpora of more than %s tables; `--slow-tables 0` runs it",
                    *(task.name, task.protocol, name, f"{plan.slow_tables:,}"),
                )
                continue
            yield from _run_method(name, task, corpus, plan, resources, results, done)
            gc.collect()


def prepare(
    folder: Path, out: Path, encoder: str | None, device: str, progress: Progress, encodings: Path | None
) -> tuple[list[Path], Resources]:
    """The tasks of a benchmark, whose files are as they were built, and what runs on them share.

    Args:
        folder: A benchmark, or one task.
        out: The folder of results.
        encoder: A Hugging Face encoder by name or folder; that of the default preset where it is None.
        device: `auto`, `cpu` or `cuda`.
        progress: Where to report.
        encodings: A folder of encodings; None takes one in the folder of results.

    Raises:
        GTRError: No task, a file that is not as it was built, or a folder to write to inside the benchmark.
    """
    paths = tasks_in(folder)
    _check_apart([folder, *filter(None, map(benchmark_of, paths))], {"results": out, "encodings": encodings or out})
    with progress.stage("Comparing files with their checksums"):
        verify_tasks(paths)
    work = out / "work"
    shared = Encodings(encodings or work / "encodings", encoder, device, progress=progress)
    return paths, Resources(shared, work / "indexes", progress)


def _check_apart(benchmarks: Sequence[Path], places: Mapping[str, Path]) -> None:
    """Refuses to write into what is measured."""
    for what, place in places.items():
        for folder in benchmarks:
            if place.resolve().is_relative_to(folder.resolve()):
                raise GTRError(f"{place} lies in the benchmark {folder}; give a folder elsewhere for the {what}")


def _note_sample(task: Task, plan: Plan) -> None:
    for questions in plan.sets_of(task):
        there = len(questions_of(task, questions, plan.split))
        if plan.sample is not None and there < plan.sample:
            logger.warning(
                "%s/%s has %d %s questions of split %s, fewer than the sample of %d: all of them are asked",
                *(task.name, task.protocol, there, questions, plan.split, plan.sample),
            )


def _run_method(
    name: str,
    task: Task,
    corpus: Corpus,
    plan: Plan,
    resources: Resources,
    results: Results,
    done: dict[str, Record],
) -> Iterator[tuple[Record, bool]]:
    method = METHODS[name].make(resources)
    encoder = resources.encodings.config().encoder
    indexed: dict[str, Any] | None = None
    for questions in plan.sets_of(task):
        asked = ask(task, corpus, questions, plan.split, plan.sample_of(name), plan.seed)
        facts: Record = {
            "task": task.name,
            "protocol": task.protocol,
            "method": name,
            "questions": questions,
            "split": plan.split,
            "corpus": corpus.fingerprint,
            "asked": asked.fingerprint,
            "asked_questions": len(asked),
            "encoder": encoder,
            "settings": {"harness": code_fingerprint("harness")} | dict(method.settings),
        }
        key = key_of(facts)
        if key in done:
            yield done[key], True
            continue
        indexed = indexed or _index(method, corpus, resources)
        ranking, measured = _rank(method, asked, resources, len(corpus.tables))
        cuts = plan.cuts_of(task.protocol)
        record: Record = {
            "key": key,
            **facts,
            "kind": METHODS[name].kind,
            "label_used": method.label_used,
            "tables": len(corpus.tables),
            "all_questions": asked.n_all,
            "sampled": len(asked) < asked.n_all,
            "metrics": _metrics(ranking, asked, cuts, plan.seed),
            "seconds": {**indexed["seconds"], **measured["seconds"]},
            "queries_per_second": measured["queries_per_second"],
            "peak_bytes": max(indexed["peak_bytes"], measured["peak_bytes"]),
            "index": indexed["facts"],
            "coverage": _coverage(method, asked),
        }
        results.append(record, Ranked.of(ranking, asked, corpus))
        done[key] = record
        yield record, False


def _index(method: Method, corpus: Corpus, resources: Resources) -> dict[str, Any]:
    """Gives a method the tables; how long it took, encoding apart."""
    encoding = resources.encodings.seconds
    with peak_memory() as peak:
        start = time.perf_counter()
        method.index(corpus.tables)
        taken = time.perf_counter() - start
        encoding = resources.encodings.seconds - encoding
        return {
            "seconds": {"index": round(taken - encoding, 3), "encode_tables": round(encoding, 3)},
            "peak_bytes": peak(),
            "facts": dict(method.facts),
        }


def _rank(method: Method, asked: Asked, resources: Resources, n_tables: int) -> tuple[Ranking, dict[str, Any]]:
    """Asks a method; how long it took, encoding apart."""
    encoding = resources.encodings.seconds
    k = min(SAVED, n_tables)
    with peak_memory() as peak:
        start = time.perf_counter()
        if method.label_used:
            assert isinstance(method, Labelled)  # the one way to the label, and methods that use it have no other
            ranking = method.rank_with_gold(asked.texts, asked.gold, k)
        else:
            ranking = method.rank(asked.texts, k)
        taken = time.perf_counter() - start
        encoding = resources.encodings.seconds - encoding
        check_ranking(method.name, ranking, len(asked), k, n_tables)
        return ranking, {
            "seconds": {"rank": round(taken - encoding, 3), "encode_questions": round(encoding, 3)},
            "queries_per_second": round(len(asked) / max(taken - encoding, 1e-9), 2),
            "peak_bytes": peak(),
        }


def check_ranking(name: str, ranking: Ranking, n_queries: int, k: int, n_tables: int) -> None:
    """Refuses what is no ranking, which metrics would count wrongly.

    Raises:
        ValueError: Wrong shapes, a number that is no table's, a table twice, or a place behind an empty one.
    """
    ids = ranking.ids
    if ids.shape != (n_queries, k) or ranking.scores.shape != ids.shape:
        raise ValueError(f"{name} must rank {n_queries} x {k} places, got {tuple(ids.shape)}")
    if ids.numel() and (int(ids.min()) < -1 or int(ids.max()) >= n_tables):
        raise ValueError(f"{name} ranks a table that is none of the {n_tables}")
    if bool(((ids[:, 1:] >= 0) & (ids[:, :-1] < 0)).any()):
        raise ValueError(f"{name} ranks a table behind an empty place")
    ordered = torch.sort(ids, 1).values
    if bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any()):
        raise ValueError(f"{name} ranks a table twice for one question")


def _metrics(ranking: Ranking, asked: Asked, cuts: Sequence[int], seed: int) -> dict[str, list[float]]:
    """Each metric's mean and the ends of its interval."""
    values = measure(ranking.ids, asked.gold, cuts)
    lows, highs = confidence_intervals(torch.stack(list(values.values()), 1).numpy(), asked.groups, seed)
    return {
        name: [round(float(number), 6) for number in (found.mean(), low, high)]
        for (name, found), low, high in zip(values.items(), lows, highs, strict=True)
    }


def _coverage(method: Method, asked: Asked) -> list[dict[str, object]]:
    """What the coarse stage leaves of a sample of the questions; nothing for methods without one."""
    if not isinstance(method, GTR) or method.label_used:
        return []
    gold = asked.gold.slice(0, min(_COVERED, len(asked)))
    return [one.to_json() for one in method.coarse_stage().coverage(asked.texts[:_COVERED], gold, SAVED)]
