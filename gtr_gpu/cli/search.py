"""`gtr search`: questions to ranked tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gtr_gpu.cli import common
from gtr_gpu.cli.hits import Answer, answers, put_answer, put_plain_answer
from gtr_gpu.cli.queries import Query, asked
from gtr_gpu.cli.text import counted
from gtr_gpu.cli.view import View
from gtr_gpu.config import Config
from gtr_gpu.errors import GTRError

if TYPE_CHECKING:
    from gtr_gpu.index import GTRIndex

BATCH = 512


def run(
    folder: common.IndexDir,
    questions: common.Questions = None,
    queries: common.QueriesFile = None,
    k: Annotated[int, typer.Option("-k", metavar="K", help="Tables for each question.")] = 10,
    preset: common.SearchPreset = None,
    assignments: common.Assignments = None,
    edges: Annotated[bool, typer.Option("--edges", help="Show how the tables found are related.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each question.")] = False,
) -> None:
    """Find the tables that together answer a question."""
    if k < 1:
        raise GTRError(f"-k must be at least 1, got {k}")
    common.check_search_knobs(preset, assignments)
    common.check_index(folder)
    wanted = asked(questions or [], queries)

    from gtr_gpu.index import GTRIndex

    with GTRIndex.load(folder) as index:
        if k > index.n_tables:  # said here alone: the search is then asked for no more than there are
            common.note(f"-k is {k}, but the index holds {counted(index.n_tables, 'table')}")
        view = View()
        config = search_config(index.config, preset, assignments or ())
        for answer in _search(index, wanted, min(k, index.n_tables), config, edges):
            if as_json:
                common.put_json(answer.to_json())
            elif sys.stdout.isatty():
                put_answer(answer, edges, view)
            else:
                put_plain_answer(answer)


def search_config(built: Config, preset: str | None, assignments: Sequence[str]) -> Config:
    """The knobs of a search: those of an index, with a preset's and the ones that were set in their place."""
    config = built
    if preset is not None:
        wanted = Config.preset(preset)
        config = built.searching_as(wanted)
        others = [name for name, value in wanted.differences(config).items() if name != "encoder"]
        if others:
            common.note(
                f"the index was not built with preset {preset}: {', '.join(others)} stay as they are; for all of it, "
                f"build another index with `--preset {preset}`"
            )
    return config.override(assignments, stage="search")


def _search(index: GTRIndex, wanted: Sequence[Query], k: int, config: Config, edges: bool) -> Iterator[Answer]:
    """Searches batch by batch, and says each note once."""
    told: set[str] = set()
    for start in range(0, len(wanted), BATCH):
        batch = wanted[start : start + BATCH]
        result = index.search([query.text for query in batch], k, config=config, edges=edges)
        for text in result.notes:
            if text not in told:
                told.add(text)
                common.note(text)
        yield from answers(index, batch, result)
        sys.stdout.flush()
