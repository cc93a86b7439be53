"""Puts sub-tables and questions together as a task, under one caption protocol and with names that tell nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gtr_gpu.errors import GTRError
from gtr_gpu.multitableqa.decompose import SubTable
from gtr_gpu.multitableqa.evidence import find_evidence, index_cells
from gtr_gpu.multitableqa.queries import BuiltQuestion
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.settings import Settings, draw, shuffled
from gtr_gpu.multitableqa.task import Question, Task
from gtr_gpu.tables import Table

# 48 bits, so that the release's code, which takes a source for a number, and any reader of JSON get it whole.
_BITS = 48
_EXAMPLES = 3


@dataclass(frozen=True)
class Cut:
    """A table and the sub-tables that it was cut into."""

    table: SourceTable
    parts: list[SubTable]


def assemble(
    name: str,
    protocol: str,
    cuts: Sequence[Cut],
    built: Sequence[BuiltQuestion],
    raw: Sequence[BuiltQuestion],
    settings: Settings,
) -> tuple[Task, dict[str, list[str]]]:
    """Makes a task.

    The name of a sub-table and that of its source are keyed hashes, and the lines stand in the order of their names, so
    that neither tells which tables belong together.

    Args:
        name: The task's name.
        protocol: "published" and "whole" keep all captions, "withheld" none, "mixed" that of one part of each source.
        cuts: The tables and their parts.
        built: The questions; those on other tables are left out.
        raw: The questions as released.
        settings: The seed and the share of sources to tune on.

    Returns:
        The task, and some released questions by source.

    Raises:
        GTRError: No table or no question is left.
    """
    sources = {cut.table.source_id: str(_hashed(settings.seed, "source", cut.table.source_id)) for cut in cuts}
    splits = {cut.table.source_id: _split(cut.table, settings) for cut in cuts}
    names = {cut.table.source_id: _names(cut, settings.seed) for cut in cuts}
    lines: list[tuple[Table, str, str]] = []
    for cut in cuts:
        source_id = cut.table.source_id
        captions = _captions(cut, protocol, settings.seed)
        for table_id, caption, part in zip(names[source_id], captions, cut.parts, strict=True):
            lines.append((Table(table_id, caption, part.header, part.rows), sources[source_id], splits[source_id]))
    lines.sort(key=lambda line: line[0].table_id)
    evidence = _evidence(cuts, raw, names)

    def questions(asked: Sequence[BuiltQuestion]) -> Iterator[Question]:
        here = [one for one in asked if one.source_id in sources]
        for number in shuffled(len(here), settings.seed, "questions", name):
            one = here[number]
            yield Question(
                one.text,
                sources[one.source_id],
                one.answers,
                splits[one.source_id],
                _joined([evidence.get(question.question_id) for question in one.released]),
                one.parts,
            )

    task = Task(
        name,
        protocol,
        tuple(table for table, _, _ in lines),
        tuple(source for _, source, _ in lines),
        tuple(split for _, _, split in lines),
        tuple(questions(built)),
        tuple(questions(raw)),
    )
    if not task.questions:
        raise GTRError(
            f"no question of the task {name} is left: all were filtered out, by their own texts or with their tables; "
            f"loosen the settings of the tables or of the questions"
        )
    return task, _examples(raw, sources)


def draw_sample(cuts: Sequence[Cut], count: int, seed: int, name: str) -> set[str]:
    """Draws whole sources until their sub-tables are `count`, or as many as fit.

    Args:
        cuts: The tables and their parts.
        count: The sub-tables to draw.
        seed: Decides the choice.
        name: The task's name.

    Returns:
        The names of the sources.

    Raises:
        GTRError: There are fewer sub-tables than that, or each table has more parts.
    """
    there = sum(len(cut.parts) for cut in cuts)
    if there < count:
        raise GTRError(
            f"a sample of {count:,} sub-tables can't be drawn from the {there:,} of the task {name}; ask for fewer"
        )
    rest = count
    drawn = set()
    for cut in sorted(cuts, key=lambda cut: (draw(seed, "sample", cut.table.source_id), cut.table.source_id)):
        if len(cut.parts) <= rest:
            drawn.add(cut.table.source_id)
            rest -= len(cut.parts)
        if not rest:
            break
    if not drawn:
        least = min(len(cut.parts) for cut in cuts)
        raise GTRError(
            f"a sample of {count:,} sub-tables holds no whole table of the task {name}; ask for {least} at least"
        )
    return drawn


def _names(cut: Cut, seed: int) -> list[str]:
    numbers = range(len(cut.parts))
    return [f"{_hashed(seed, 'part', cut.table.source_id, number):0{_BITS // 4}x}" for number in numbers]


def _hashed(seed: int, *what: object) -> int:
    return draw(seed, *what) >> (64 - _BITS)


def _split(table: SourceTable, settings: Settings) -> str:
    """By the table's content, so that it stays the same whatever else the benchmark is built from."""
    content = json.dumps([table.caption, table.header, table.rows])
    return "tune" if draw(settings.seed, "split", content) < settings.tune_share * 2**64 else "report"


def _captions(cut: Cut, protocol: str, seed: int) -> list[str]:
    caption, count = cut.table.caption, len(cut.parts)
    if protocol == "withheld":
        return [""] * count
    if protocol == "mixed":
        keeper = draw(seed, "caption", cut.table.source_id) % count
        return [caption if number == keeper else "" for number in range(count)]
    return [caption] * count


def _evidence(
    cuts: Sequence[Cut], raw: Sequence[BuiltQuestion], names: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """The names of the sub-tables that hold the evidence, by released question, where its source tells."""
    by_table: dict[str, list[SourceQuestion]] = {}
    for one in raw:
        by_table.setdefault(one.source_id, []).extend(one.released)
    found: dict[str, tuple[str, ...]] = {}
    for cut in cuts:
        asked = by_table.get(cut.table.source_id, ())
        cells = index_cells(cut.table) if asked else {}
        for question in asked:
            parts = find_evidence(question, cut.parts, cells)
            if parts is not None:
                found[question.question_id] = tuple(names[cut.table.source_id][part] for part in parts)
    return found


def _joined(evidence: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """The evidence of a merged question; None where one of its parts doesn't tell."""
    known = [one for one in evidence if one is not None]
    if len(known) < len(evidence):
        return None
    return tuple(dict.fromkeys(table_id for one in known for table_id in one))


def _examples(raw: Sequence[BuiltQuestion], sources: Mapping[str, str]) -> dict[str, list[str]]:
    examples: dict[str, list[str]] = {}
    for one in raw:
        if one.source_id in sources:
            some = examples.setdefault(sources[one.source_id], [])
            if len(some) < _EXAMPLES:
                some.append(one.text)
    return examples
