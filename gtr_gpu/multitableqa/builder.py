"""Builds the benchmark: sources to tasks, step by step, each counted in the manifest."""

from __future__ import annotations

import importlib.metadata
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa import filter as filters
from gtr_gpu.multitableqa.assemble import Cut, assemble, draw_sample
from gtr_gpu.multitableqa.decompose import decompose, whole
from gtr_gpu.multitableqa.manifest import NAME, Manifest
from gtr_gpu.multitableqa.queries import BuiltQuestion, build_questions, raw_questions
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.replacement import UNFINISHED, finish_replacement, replacing
from gtr_gpu.multitableqa.settings import TASK_OF, Settings
from gtr_gpu.multitableqa.sources import Source, read_source
from gtr_gpu.multitableqa.stats import task_numbers
from gtr_gpu.multitableqa.task import write_task
from gtr_gpu.progress import Progress, Silent

_SOURCE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True)
class _Pool:
    """The tables and questions of one task, their names made unique by their data set's."""

    tables: list[SourceTable]
    questions: list[SourceQuestion]


def build(
    sources: Mapping[str, Path],
    out: Path,
    settings: Settings | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Builds a benchmark from data sets.

    TabFact becomes the task `tfv`, WikiTableQuestions and Sequential QA together `single_hop`, HybridQA `multi_hop`,
    TAT-QA `tatqa`; any other data set becomes a task of its own name.

    Args:
        sources: The folder of each data set by its name.
        out: The folder of the benchmark.
        settings: How to build it.
        overwrite: Replaces a benchmark that is there.
        progress: Where to report.

    Returns:
        The manifest, which is written as well.

    Raises:
        GTRError: A source is missing, damaged or incomplete, a setting doesn't fit, or `out` holds something already.
    """
    settings = settings or Settings()
    progress = progress or Silent()
    _check_names(sources, settings)
    finish_replacement(out)
    _check_out(out, overwrite, sources)
    read = []
    with progress.stage("read", len(sources)) as stage:
        for name in sorted(sources):
            read.append(read_source(name, sources[name]))
            stage.advance()
    manifest = Manifest(
        version=_version(),
        config=_plain(settings),
        sources={
            source.name: {"layout": source.layout, "tables": len(source.tables), "questions": len(source.questions)}
            for source in read
        },
        tasks={},
        files={},
    )
    with replacing(out) as folder:
        for name in dict.fromkeys(TASK_OF.get(source.name, source.name) for source in read):
            pool = _pool([source for source in read if TASK_OF.get(source.name, source.name) == name])
            _TaskBuilder(name, pool, settings, progress).write(folder, manifest)
        manifest.write(folder)
    return manifest


class _TaskBuilder:
    """One task under each protocol, and its sample."""

    def __init__(self, name: str, pool: _Pool, settings: Settings, progress: Progress) -> None:
        self.name, self.settings, self.progress = name, settings, progress
        self.counts: dict[str, Any] = {"tables_read": len(pool.tables), "questions_released": len(pool.questions)}
        self.pool = _without_doubles(pool, self.counts)
        asked = {question.table_id for question in self.pool.questions}
        self.counts["tables_without_questions"] = sum(table.source_id not in asked for table in self.pool.tables)
        self.built, self.raw = self._questions()

    def write(self, out: Path, manifest: Manifest) -> None:
        """Writes the task and enters its counts and checksums."""
        manifest.tasks[self.name] = self.counts
        # What is too simple to be cut is still a table that can be found.
        uncut = [Cut(table, whole(table)) for table in self.pool.tables]
        cut = self._cut() if set(self.settings.protocols) - {"whole"} else uncut
        count = self.settings.samples.get(self.name)
        sample = set() if count is None else draw_sample(cut, count, self.settings.seed, self.name)
        for protocol in self.settings.protocols:
            cuts = uncut if protocol == "whole" else cut
            self._write(self.name, protocol, cuts, out, manifest)
            if sample:
                some = [one for one in cuts if one.table.source_id in sample]
                self._write(f"{self.name}_{count}", protocol, some, out, manifest)

    def _questions(self) -> tuple[list[BuiltQuestion], list[BuiltQuestion]]:
        """The built questions, and those of the released ones that they were made of."""
        tables = {table.source_id: table for table in self.pool.tables}
        built, self.counts["questions"] = build_questions(
            self.pool.questions, tables, self.settings.questions, self.progress
        )
        return built, raw_questions(self.pool.questions, built)

    def _cut(self) -> list[Cut]:
        cuts = []
        reasons: Counter[str] = Counter()
        with self.progress.stage(f"{self.name}: cut", len(self.pool.tables)) as stage:
            for table in self.pool.tables:
                reason = filters.too_simple(table, self.settings)
                if reason is None:
                    cuts.append(Cut(table, decompose(table, self.settings.seed, self.settings.n_parts)))
                else:
                    reasons[reason] += 1
                stage.advance()
        self.counts["too_simple"] = dict(sorted(reasons.items()))
        self.counts["cut_along"] = dict(sorted(Counter(cut.parts[0].kind for cut in cuts).items()))
        return cuts

    def _write(self, name: str, protocol: str, cuts: Sequence[Cut], out: Path, manifest: Manifest) -> None:
        with self.progress.stage(f"{name}: {protocol}"):
            task, examples = assemble(name, protocol, cuts, self.built, self.raw, self.settings)
            for file, digest in write_task(out / name / protocol, task, examples).items():
                manifest.files[f"{name}/{protocol}/{file}"] = digest
        manifest.tasks.setdefault(name, {"sample_of": self.name})[protocol] = task_numbers(task)


def _pool(sources: Sequence[Source]) -> _Pool:
    def named(dataset: str, name: str) -> str:
        return f"{dataset}:{name}"

    tables = [
        replace(
            table,
            source_id=named(source.name, table.source_id),
            same_as=None if table.same_as is None else named("wtq", table.same_as),
        )
        for source in sources
        for table in source.tables
    ]
    questions = [
        replace(
            question,
            question_id=named(source.name, question.question_id),
            table_id=named(source.name, question.table_id),
            sequence=None if question.sequence is None else named(source.name, question.sequence),
        )
        for source in sources
        for question in source.questions
    ]
    return _Pool(tables, questions)


def _without_doubles(pool: _Pool, counts: dict[str, Any]) -> _Pool:
    moved_questions = 0
    for step, find in (("copies", filters.find_copies), ("duplicates", filters.find_duplicates)):
        moved = find(pool.tables)
        counts[f"{step}_removed"] = len(moved)
        moved_questions += sum(question.table_id in moved for question in pool.questions)
        pool = _Pool(*filters.remove(pool.tables, pool.questions, moved))
    counts["questions_moved"] = moved_questions
    return pool


def _check_names(sources: Mapping[str, Path], settings: Settings) -> None:
    if not sources:
        raise GTRError("there is no source; give at least one, as in --source tabfact=DIR")
    for name in sources:
        if not _SOURCE_NAME.fullmatch(name):
            raise GTRError(
                f"the name of a source becomes that of a folder, so it must be of small letters, digits, - and _, "
                f"got {name!r}"
            )
    tasks = {TASK_OF.get(name, name) for name in sources}
    for name in settings.samples:
        if name not in tasks:
            raise GTRError(f"there is no task {name!r} to draw a sample of; it must be one of {_listed(tasks)}")


def _check_out(out: Path, overwrite: bool, sources: Mapping[str, Path]) -> None:
    for name, source in sources.items():
        if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
            raise GTRError(
                f"{out} lies in the source {name}, which it would become part of; give another folder to --out"
            )
    if out.exists() and not out.is_dir():
        raise GTRError(f"{out} is a file; give a folder for the benchmark")
    if (out / NAME).is_file():
        if not overwrite:
            raise GTRError(
                f"{out} already holds a benchmark; give --overwrite to replace it, or another folder to --out"
            )
        Manifest.read(out)
    elif out.is_dir() and any(not path.name.startswith(UNFINISHED) for path in out.iterdir()):
        raise GTRError(
            f"{out} holds something that is no benchmark; give another folder to --out, or delete what is there"
        )


def _plain(settings: Settings) -> dict[str, Any]:
    fields = asdict(settings)
    return fields | {"protocols": list(settings.protocols), "samples": dict(sorted(settings.samples.items()))}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _version() -> str:
    try:
        return importlib.metadata.version("gtr-gpu")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
