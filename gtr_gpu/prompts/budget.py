"""Which tables, rows and relations a prompt has room for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from gtr_gpu.prompts.prompt import PromptRelation
from gtr_gpu.prompts.relations import relation_line
from gtr_gpu.prompts.row_match import Matcher
from gtr_gpu.prompts.sheet import Sheet
from gtr_gpu.prompts.tokens import TokenCounter

# The room that tables may take for their names and one row each, before more rows are added; the last tables go whole.
_OPENING = 0.4
# What the first table may take of the room for its names, what a later one may, and for its first row, unless it has no
# shorter one.
_FIRST_NAMES, _NAMES, _ROW = 0.5, 0.125, 0.25
# Characters that later tables keep of a name at least: one with all its names cut to less tells nothing.
_LEAST_NAME = 12
# What relations and descriptions may each take, where something has to be left out for them.
_ASIDE = 0.1
# How much less a row is worth by the logarithm of the table's rank and by that of its length; how much more by its
# match, and as one of the first rows, which show what the columns hold.
_RANK, _LENGTH, _MATCH, _FIRST = 1.0, 0.5, 6.0, 1.0
_FIRST_ROWS = 2
# The match of a row that says no more than an earlier one: less than that of any other.
_REPEATED = -0.25
# Characters for each token that hardly a row has, and those that hardly a table has, beside what sets its cells apart.
_MOST_CHARACTERS, _MANY_CHARACTERS = 16, 8
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
    worth: float


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
        self._relation_costs = counter.count([f"{relation_line(relation)}\n" for relation in relations])
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
        # Of each table the rows that match best, first.
        self._best: list[list[_Row]] = []
        for place, sheet in enumerate(self._sheets):
            match = dict(zip(numbers[place], matches[place], strict=True))
            match |= dict.fromkeys(_repeated(sheet, numbers[place]), _REPEATED)
            kept = _within(sheet, _ranked(match), most_tokens)
            # Rows that are too long in any case aren't worth counting.
            short = [row for row, least in kept.items() if least <= most_tokens]
            costs = dict(zip(short, self._counter.count([f"{sheet.row(row)}\n" for row in short]), strict=True))
            rows = [(row, costs.get(row, least)) for row, least in kept.items()]
            self._best.append([_Row(place, row, cost, _worth(place, row, cost, match[row])) for row, cost in rows])
        # All rows in the order in which they are added, and those of each table.
        self._order = sorted(chain.from_iterable(self._best), key=lambda one: (-one.worth, one.table, one.row))
        self._order_within: list[list[_Row]] = [[] for _ in self._sheets]
        for one in self._order:
            self._order_within[one.table].append(one)

    def plan(self, room: int) -> Plan:
        """The best that fits into so many tokens by the sum of the parts; the very least where nothing does."""
        opened: list[TablePlan] = []
        used = 0
        for place in range(len(self._sheets)):
            table, cost = self._open(place, room)
            if place and used + cost > _OPENING * room:
                break
            opened.append(table)
            used += cost
        used += self._describe(opened, used, room)
        _, reserve = self._told(len(opened), min(_ASIDE * room, room - used))
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
        used += self._uncut(opened, room - reserve - used)
        whole = len(opened) == len(self._sheets) and all(map(self._is_whole, self._sheets, opened))
        relations, _ = self._told(len(opened), room - used if whole else min(_ASIDE * room, room - used))
        complete = whole and len(relations) == len(self._relations)
        return Plan(opened, relations, complete)

    def _is_whole(self, sheet: Sheet, plan: TablePlan) -> bool:
        whole = plan.description or not sheet.description
        return whole and plan.limit is None and len(plan.rows) == len(sheet.table.rows)

    def _open(self, place: int, room: int) -> tuple[TablePlan, int]:
        """A table's names with one row, and their tokens."""
        sheet, rows = self._sheets[place], self._best[place]
        limit, cost = None, self._heads[place]
        most = int(room * (_FIRST_NAMES if place == 0 else _NAMES))
        if cost > most:
            longest = max(sheet.longest(None), 1)
            limit, cost = self._cut(sheet.skeleton, longest, most)
            least = min(_LEAST_NAME, longest)
            if place and limit < least:
                limit, cost = least, self._counter.count([sheet.skeleton(least)])[0]
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

        low, high = 0, min(longest, max(room, 1) * _MOST_CHARACTERS)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if cost(middle) <= room else (low, middle - 1)
        if low:
            return low, cost(low)
        # A mark may have more tokens than the short word that it stands for.
        least, length = min((cost(length), length) for length in (1, 2, 4, 8, 16))
        return length, least

    def _uncut(self, tables: Sequence[TablePlan], room: float) -> int:
        """Shows names whole that were cut, where there is room for them after all; their tokens."""
        used = 0
        for place, table in enumerate(tables):
            if table.limit is not None:
                cost = self._heads[place] - self._counter.count([self._sheets[place].skeleton(table.limit)])[0]
                if used + cost <= room:
                    table.limit = None
                    used += cost
        return used

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

    def _told(self, n_tables: int, room: float) -> tuple[list[PromptRelation], int]:
        """The relations among the first tables that fit, the strongest first, and their tokens with their heading."""
        told, used = [], self._heading
        for relation, cost in zip(self._relations, self._relation_costs, strict=True):
            if relation.target > n_tables:
                continue
            if used + cost > room:
                break
            told.append(relation)
            used += cost
        return told, used if told else 0


def _ranked(match: Mapping[int, float]) -> list[int]:
    """Rows, those that match best first, then in their order."""
    return sorted(match, key=lambda row: (-match[row], row))


def _worth(table: int, row: int, cost: int, match: float) -> float:
    """What a row is worth for its length, by the logarithm."""
    first = _FIRST if row < _FIRST_ROWS else 0.0
    return _MATCH * match + first - _RANK * math.log(table + 1) - _LENGTH * math.log(cost + 1)


def _repeated(sheet: Sheet, rows: Iterable[int]) -> list[int]:
    """The rows that say no more than an earlier one, in the columns that are shown."""
    repeated, seen = [], set[tuple[str, ...]]()
    for row in rows:
        cells = sheet.table.rows[row]
        shown = tuple(cells[column] for column in sheet.columns)
        if shown in seen:
            repeated.append(row)
        seen.add(shown)
    return repeated


def _within(sheet: Sheet, ranked: Sequence[int], most_tokens: int) -> dict[int, int]:
    """The best rows of a table until there are more than there can be room for, at least one.

    Returns:
        The rows in that order, each with fewer tokens than it is likely to have.
    """
    kept: dict[int, int] = {}
    total = 0.0
    for row in ranked:
        cells = sheet.table.rows[row]
        length = sum(len(cells[column]) for column in sheet.columns)
        kept[row] = least = length // _MOST_CHARACTERS
        if least <= most_tokens:
            total += len(sheet.columns) + length / _MANY_CHARACTERS
            if total > most_tokens:
                break
    return kept
