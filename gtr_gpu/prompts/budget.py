"""Which tables, rows and relations a prompt has room for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gtr_gpu.prompts.prompt import PromptRelation
from gtr_gpu.prompts.relations import relation_line
from gtr_gpu.prompts.row_match import Matcher
from gtr_gpu.prompts.sheet import Sheet
from gtr_gpu.prompts.tokens import TokenCounter

# The room that tables may take for their names and one row each, before more rows are added; the last tables go whole.
OPENING = 0.4
# What one table but the first may take of the room for its names, and for its first row, unless it has no shorter one.
_NAMES, _ROW = 0.125, 0.25
# What relations and descriptions may each take, where something has to be left out for them.
_ASIDE = 0.1
# How much less a row is worth by the table's rank, by the logarithm of its length, and how much more by its match and
# as one of the first rows of a table.
RANK, LENGTH, MATCH, FIRST = 1.0, 0.5, 6.0, 1.0
FIRST_ROWS = 2
# A character's share of a token: no row has fewer tokens, and hardly a table, whose cells are set apart by others.
_FEWEST_TOKENS, _FEW_TOKENS = 1 / 16, 1 / 8
# The relations' heading.
_HEADING = "\n## Graph-Related Information:\n"


@dataclass
class TablePlan:
    """What is shown of one table.

    Attributes:
        limit: The most characters of a column name, where names have to be cut.
        rows: The rows, each with the most characters of a cell, where its cells have to be cut.
        description: Whether its description is shown.
    """

    limit: int | None = None
    rows: dict[int, int | None] = field(default_factory=dict)
    description: bool = False


@dataclass
class Plan:
    """What a prompt shows.

    Attributes:
        tables: What is shown of the first tables; the others are left out.
        relations: The relations.
        complete: Whether nothing is left out.
    """

    tables: list[TablePlan]
    relations: list[PromptRelation]
    complete: bool = False


class _Row(NamedTuple):
    """A row that may be shown."""

    table: int
    row: int
    cost: int


class Planner:
    """Plans prompts of one question for any room; what is counted once serves all plans."""

    def __init__(
        self,
        matcher: Matcher,
        sheets: Sequence[Sheet],
        relations: Sequence[PromptRelation],
        counter: TokenCounter,
        most_tokens: int,
    ) -> None:
        """Reads and counts the tables.

        Args:
            matcher: Matches them with the question.
            sheets: The tables, best first.
            relations: The relations that may be told, strongest first.
            counter: Counts tokens.
            most_tokens: The most room there will be.
        """
        self._sheets = sheets
        self._relations = relations
        self._counter = counter
        lines = counter.count([f"{relation_line(relation)}\n" for relation in relations])
        self._relation_costs = lines
        self._heading = counter.count([_HEADING])[0] if relations else 0
        self._heads = counter.count([sheet.skeleton(None) for sheet in sheets])
        described = counter.count([f" - {sheet.description}" for sheet in sheets])
        self._descriptions = [cost if sheet.description else 0 for cost, sheet in zip(described, sheets, strict=True)]
        self._read(matcher, max(most_tokens, 1))

    def _read(self, matcher: Matcher, most_tokens: int) -> None:
        """Finds the rows that may be shown, and their order."""
        tables = [sheet.table for sheet in self._sheets]
        numbers = [matcher.rows_to_read(table) for table in tables]
        matches = matcher.matches(tables, numbers)
        self._best: list[list[_Row]] = []
        self._matched: list[tuple[_Row, float]] = []
        for place, sheet in enumerate(self._sheets):
            match = dict(zip(numbers[place], matches[place], strict=True))
            kept = _within(sheet, _ranked(match), most_tokens)
            # Rows that are too long in any case aren't worth counting.
            short = [row for row, least in kept.items() if least <= most_tokens]
            costs = dict(zip(short, self._counter.count([f"{sheet.row(row)}\n" for row in short]), strict=True))
            rows = [_Row(place, row, costs.get(row, least)) for row, least in kept.items()]
            self._best.append(rows)
            self._matched += [(one, match[one.row]) for one in rows]
        ranked = sorted(self._matched, key=lambda item: (-_worth(*item), item[0].table, item[0].row))
        self._order = [one for one, _ in ranked]
        self._order_within: list[list[_Row]] = [[] for _ in self._sheets]
        for one in self._order:
            self._order_within[one.table].append(one)

    def plan(self, room: int) -> Plan:
        """The best that fits into so many tokens by the sum of the parts; the very least where nothing does."""
        opened: list[TablePlan] = []
        used = 0
        for place in range(len(self._sheets)):
            table, cost = self._open(place, room)
            if place and used + cost > OPENING * room:
                break
            opened.append(table)
            used += cost
        used += self._describe(opened, used, room)
        reserve = sum(self._relation_costs_of(len(opened), min(_ASIDE * room, room - used)))
        used += self._fill(opened, self._order, room - reserve - used)
        while len(opened) < len(self._sheets):
            place = len(opened)
            table, cost = self._open(place, room)
            if used + cost > room - reserve:
                break
            opened.append(table)
            used += cost
            used += self._describe(opened, used, room)
            used += self._fill(opened, self._order_within[place], room - reserve - used)
        whole = len(opened) == len(self._sheets) and all(map(self._is_whole, self._sheets, opened))
        relations = self._told(len(opened), room - used if whole else min(_ASIDE * room, room - used))
        complete = whole and len(relations) == len(self._relations)
        return Plan(opened, relations, complete)

    def _is_whole(self, sheet: Sheet, plan: TablePlan) -> bool:
        whole = plan.description or not sheet.description
        return whole and plan.limit is None and len(plan.rows) == len(sheet.table.rows)

    def _open(self, place: int, room: int) -> tuple[TablePlan, int]:
        """A table's names with one row, and their tokens."""
        sheet, rows = self._sheets[place], self._best[place]
        limit, cost = None, self._heads[place]
        most = int(room * (0.5 if place == 0 else _NAMES))
        if cost > most:
            limit, cost = self._cut(sheet.skeleton, max(sheet.longest(None), 1), most)
        if not sheet.table.rows:
            return TablePlan(limit), cost
        left = room - cost if place == 0 else int(room * _ROW)
        candidates = rows[:1] if place == 0 else rows
        fitting = next((one for one in candidates if one.cost <= left), None)
        if fitting is not None:
            return TablePlan(limit, {fitting.row: None}), cost + fitting.cost
        # A cut row leaves room for whole ones.
        best = rows[0].row
        most_of_cell, row_cost = self._cut(
            lambda length: f"{sheet.row(best, length)}\n", sheet.longest(best), left // 2
        )
        return TablePlan(limit, {best: most_of_cell}), cost + row_cost

    def _cut(self, text: Callable[[int], str], longest: int, room: int) -> tuple[int, int]:
        """The longest cells with which a text fits, and its tokens; where none do, the cells that make it shortest."""

        def cost(length: int) -> int:
            return self._counter.count([text(length)])[0]

        low, high = 0, min(longest, max(room, 1) * int(1 / _FEWEST_TOKENS))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if cost(middle) <= room else (low, middle - 1)
        if low:
            return low, cost(low)
        # A mark may have more tokens than the short word that it stands for.
        least, length = min((cost(length), length) for length in (1, 2, 4, 8, 16))
        return length, least

    def _describe(self, tables: Sequence[TablePlan], used: int, room: int) -> int:
        """Adds descriptions as far as they fit into their part of the room; their tokens."""
        spent = sum(self._descriptions[place] for place, table in enumerate(tables) if table.description)
        before = spent
        for place, table in enumerate(tables):
            cost = self._descriptions[place]
            fits = spent + cost <= _ASIDE * room and used + spent - before + cost <= room
            if cost and not table.description and fits:
                table.description = True
                spent += cost
        return spent - before

    def _fill(self, tables: Sequence[TablePlan], order: Sequence[_Row], room: float) -> int:
        """Adds the rows that are worth most to the tables that there are; their tokens."""
        used = 0
        for one in order:
            if one.table < len(tables) and used + one.cost <= room:
                rows = tables[one.table].rows
                if one.row not in rows:
                    rows[one.row] = None
                    used += one.cost
        return used

    def _relation_costs_of(self, n_tables: int, room: float) -> list[int]:
        """The tokens of the relations among the first tables that fit, the strongest first, and of their heading."""
        costs, used = [], self._heading
        for relation, cost in zip(self._relations, self._relation_costs, strict=True):
            if relation.target > n_tables:
                continue
            if used + cost > room:
                break
            costs.append(cost)
            used += cost
        return [self._heading, *costs] if costs else []

    def _told(self, n_tables: int, room: float) -> list[PromptRelation]:
        among = [relation for relation in self._relations if relation.target <= n_tables]
        return among[: max(len(self._relation_costs_of(n_tables, room)) - 1, 0)]


def _ranked(match: Mapping[int, float]) -> list[int]:
    """Rows, those that match best first, then in their order."""
    return sorted(match, key=lambda row: (-match[row], row))


def _worth(row: _Row, match: float) -> float:
    """What a row is worth for its length, by the logarithm."""
    first = FIRST if row.row < FIRST_ROWS else 0.0
    return MATCH * match + first - RANK * math.log(row.table + 1) - LENGTH * math.log(row.cost + 1)


def _within(sheet: Sheet, ranked: Sequence[int], most_tokens: int) -> dict[int, int]:
    """The best rows of a table until there are more than there can be room for, at least one.

    Returns:
        The rows in that order, each with fewer tokens than it has.
    """
    kept: dict[int, int] = {}
    total = 0.0
    for row in ranked:
        cells = sheet.table.rows[row]
        length = sum(len(cells[column]) for column in sheet.columns)
        kept[row] = least = int(length * _FEWEST_TOKENS)
        if least <= most_tokens:
            total += len(sheet.columns) + length * _FEW_TOKENS
            if total > most_tokens:
                break
    return kept
