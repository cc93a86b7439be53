"""Plain expansion: right after a table come all others with the same caption, or the same header.

The benchmark's sub-tables inherit their source's caption, so this baseline shows how much of a graph's gain such a rule
gets as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from gtr_gpu.evaluation.methods.method import Ranking, Resources, Scorer, best
from gtr_gpu.linearize import one_line
from gtr_gpu.tables import Table


class Expansion(Scorer):
    """Groups tables of the same caption or header: a group comes where its best table would, in order of its scores.

    Tables without a caption (or with no column name at all) are groups of their own.

    Args:
        name: What reports call it.
        of: The method whose ranking is expanded.
        by: What the tables of a group share.
        resources: What methods share.
    """

    def __init__(self, name: str, of: Scorer, by: Literal["caption", "header"], resources: Resources) -> None:
        super().__init__(resources)
        self.name = name
        self._of = of
        self._by = by

    @property
    def settings(self) -> Mapping[str, object]:
        """Those of the method, and what is shared."""
        return {"same": self._by, "of": dict(self._of.settings)}

    def index(self, tables: Sequence[Table]) -> None:
        """Indexes the tables, and groups them."""
        self.n_tables = len(tables)
        self._of.index(tables)
        numbers: dict[object, int] = {}
        groups = [numbers.setdefault(self._shared(table) or row, len(numbers)) for row, table in enumerate(tables)]
        self._groups = torch.tensor(groups, dtype=torch.int64)
        self._n_groups = len(numbers)

    def prepare(self, queries: Sequence[str]) -> None:
        """Prepares the method."""
        self._of.prepare(queries)

    def score(self, queries: Sequence[str]) -> Tensor:
        """The scores before the expansion."""
        return self._of.score(queries)

    def ranked(self, scores: Tensor, k: int) -> Ranking:
        """Ranks groups by their best table, then the tables of a group by their own scores."""
        groups = self._groups.expand_as(scores)
        tops = torch.full((len(scores), self._n_groups), -torch.inf).scatter_reduce_(1, groups, scores, "amax")
        # The first k groups hold k tables at least, and the one that starts a group is among the first k tables.
        first = best(tops, min(k, self._n_groups), self._of.floor)
        # Empty places say nothing of group 0, which they point to.
        places = torch.arange(first.ids.shape[1]).expand_as(first.ids).masked_fill(first.ids < 0, self._n_groups)
        place_of = torch.full((len(scores), self._n_groups), self._n_groups)
        place_of.scatter_reduce_(1, first.ids.clamp_min(0), places, "amin")
        place = place_of.gather(1, groups)
        ids = torch.full((len(scores), k), -1)
        values = torch.full((len(scores), k), -torch.inf)
        for row in range(len(scores)):
            inside = (place[row] < self._n_groups).nonzero().flatten()
            # Members that the method did not find come last in their group, in order of their numbers.
            own = torch.sort(scores[row, inside], descending=True, stable=True).indices
            order = own[torch.sort(place[row, inside[own]], stable=True).indices][:k]
            ids[row, : len(order)] = inside[order]
            values[row, : len(order)] = tops[row, self._groups[inside[order]]]
        return Ranking(ids, values)

    def _shared(self, table: Table) -> object:
        if self._by == "caption":
            return one_line(table.caption).casefold()
        names = tuple(one_line(name).casefold() for name in table.header)
        return names if any(names) else None
