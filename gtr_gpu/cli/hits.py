"""The tables found for one question: as JSON, on a terminal, and in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table as Grid
from rich.text import Text

from gtr_gpu.cli.common import put
from gtr_gpu.cli.queries import Query
from gtr_gpu.cli.text import visible
from gtr_gpu.cli.view import View
from gtr_gpu.prompts.cleaning import shortened

if TYPE_CHECKING:
    from gtr_gpu.index import GTRIndex
    from gtr_gpu.results import Edge, SearchResult

_HEADER_WIDTH = 120


@dataclass(frozen=True)
class Hit:
    """One table found.

    Attributes:
        rank: Its rank, from 1.
        score: Its score.
        table_id: Its name in the index.
        caption: Its caption, or the empty string.
        title: What a person reads for it: the caption, or the column names where there is none.
    """

    rank: int
    score: float
    table_id: str
    caption: str
    title: str


@dataclass(frozen=True)
class Answer:
    """What one question found; `relations` are by rank from 0."""

    query: Query
    hits: list[Hit]
    relations: list[Edge]
    iterations: int
    converged: bool
    candidates: int

    def to_json(self) -> dict[str, Any]:
        """The object that `gtr search --json` prints."""
        names = [hit.table_id for hit in self.hits]
        return {
            "query_id": self.query.query_id,
            "query": self.query.text,
            "tables": [
                {"table_id": hit.table_id, "caption": hit.caption, "score": hit.score, "rank": hit.rank}
                for hit in self.hits
            ],
            "edges": [
                {
                    "source": names[edge.source],
                    "target": names[edge.target],
                    "type": edge.kind,
                    "score": float(edge.score),
                }
                for edge in self.relations
            ],
            "iterations": self.iterations,
            "converged": self.converged,
            "candidates": self.candidates,
        }


def answers(index: GTRIndex, queries: Sequence[Query], result: SearchResult) -> Iterator[Answer]:
    """One answer for each question of a batch."""
    rows, scores = result.ids.tolist(), result.scores.tolist()
    iterations, converged, candidates = (
        result.iterations.tolist(),
        result.converged.tolist(),
        result.candidates.tolist(),
    )
    for number, query in enumerate(queries):
        edges = result.edges[number] if result.edges is not None else []
        yield Answer(
            query,
            [
                _hit(index, rank, rows[number][rank - 1], name, scores[number][rank - 1])
                for rank, name in enumerate(result.table_ids[number], 1)
            ],
            edges,
            int(iterations[number]),
            bool(converged[number]),
            int(candidates[number]),
        )


def _hit(index: GTRIndex, rank: int, row: int, name: str, score: float) -> Hit:
    caption = index.caption(row)
    title = visible(caption).strip() or _columns(index.table(row).header)
    return Hit(rank, score, name, caption, title)


def _columns(header: Sequence[str]) -> str:
    names = ", ".join(visible(name) for name in header if name.strip())
    return f"({shortened(names, _HEADER_WIDTH)})" if names else "(no caption, no column names)"


def put_plain_answer(answer: Answer) -> None:
    """Prints an answer for a pipe: the question, then tab-separated rank, score, title and id, then the relations."""
    put(f"# {visible(answer.query.text)}")
    for hit in answer.hits:
        put(f"{hit.rank}\t{hit.score:.4f}\t{hit.title}\t{visible(hit.table_id)}")
    for source, target, kinds in related_pairs(answer.relations):
        put(f"# {source + 1} - {target + 1}\t{kinds}")


def put_answer(answer: Answer, with_relations: bool, view: View) -> None:
    """Prints an answer on a terminal."""
    view.show(Text(visible(answer.query.text), style="bold"))
    if not answer.hits:
        view.show(Text("  no table", style="dim"))
    grid = Grid.grid(padding=(0, 1, 0, 1))
    grid.add_column(justify="right", style="bold cyan", no_wrap=True)
    grid.add_column(justify="right", style="green", no_wrap=True)
    grid.add_column(overflow="fold")
    for hit in answer.hits:
        title = Text(hit.title)
        name = Text(visible(hit.table_id), style="dim")
        grid.add_row(Text(str(hit.rank)), Text(f"{hit.score:.4f}"), Text.assemble(title, "\n", name))
    view.show(grid)
    if with_relations:
        view.show(_relations(answer))
    put()


def _relations(answer: Answer) -> Grid:
    grid = Grid.grid(padding=(0, 1, 0, 1))
    if not answer.relations:
        grid.add_row(Text("no two of them are related", style="dim"))
    for source, target, kinds in related_pairs(answer.relations):
        pair = Text.assemble((str(source + 1), "bold cyan"), " ─ ", (str(target + 1), "bold cyan"))
        grid.add_row(pair, Text(kinds, style="magenta"))
    return grid


def related_pairs(edges: Sequence[Edge], names: Mapping[str, str] | None = None) -> Iterator[tuple[int, int, str]]:
    """The related pairs by rank from 0, each with all that relates them: `key 1.00, header 0.33`.

    Args:
        edges: The relations of one answer.
        names: What to call a kind of relation, where it is to be called otherwise.
    """
    pairs: dict[tuple[int, int], list[Edge]] = {}
    for edge in edges:
        pairs.setdefault((edge.source, edge.target), []).append(edge)
    for (source, target), found in pairs.items():
        found.sort(key=lambda edge: -edge.score)
        kinds = (f"{visible((names or {}).get(edge.kind, edge.kind))} {edge.score:.2f}" for edge in found)
        yield source, target, ", ".join(kinds)
