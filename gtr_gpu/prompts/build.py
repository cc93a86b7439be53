"""Ranked tables and their relations to a prompt that keeps its budget of tokens exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gtr_gpu.errors import GTRError
from gtr_gpu.prompts.budget import Plan, Planner
from gtr_gpu.prompts.cleaning import escaped, one_line
from gtr_gpu.prompts.formats import WRITERS
from gtr_gpu.prompts.prompt import Prompt, PromptRelation, PromptTable
from gtr_gpu.prompts.relations import relation_line
from gtr_gpu.prompts.rendering import rendered
from gtr_gpu.prompts.row_match import Matcher
from gtr_gpu.prompts.settings import Example, PromptSettings
from gtr_gpu.prompts.sheet import Sheet
from gtr_gpu.prompts.tokens import TokenCounter
from gtr_gpu.tables.table import Table

# Whole prompts that are counted until the least one is taken, and to make use of room that was left.
_TRIES, _REFINEMENTS = 8, 2
# Room that isn't worth another try.
_SLACK = 0.02
# Tokens of room for a column of the first table and of later ones; tables with more columns show some of them.
_COLUMN, _LATER_COLUMN = 16, 48
_FEWEST_COLUMNS = 8
_HASHES = ("#", "\uff03", "\ufe5f")


def build_prompt(
    question: str,
    tables: Sequence[Table],
    relations: Sequence[PromptRelation],
    settings: PromptSettings,
    counter: TokenCounter,
) -> Prompt:
    """The prompt of a question, of at most `settings.prompt_tokens` tokens as `counter` counts them.

    Where not everything fits, tables are cut to the rows that match the question best, then the last tables go. The
    first one is always there, with one row at least, whose longest cells are cut where it doesn't fit either.

    Args:
        question: The question.
        tables: The tables, best first.
        relations: Relations among them by number from 1, the strongest first, see `prompt_relations`.
        settings: What the prompt is to look like.
        counter: Counts its tokens.

    Raises:
        GTRError: The question is empty, a template is broken, or the budget is too small for the question with the
            least of the first table; the message says how many tokens it takes.
    """
    if not question.strip():
        raise GTRError(f"the question must hold at least one word, got {question!r}")
    told = [one for one in relations if one.target <= len(tables)] if settings.relations else []
    told = told[: settings.max_relations]
    draft = _Draft(question, settings, counter)
    _, frame = draft.of(Plan([], []))
    room = settings.prompt_tokens - frame
    matcher = Matcher(question)
    # Where the columns that there ought to be room for have too long names after all, the fewest may still fit.
    for columns_room in (room, 0):
        draft.sheets = [
            _sheet(number, table, matcher, columns_room, settings) for number, table in enumerate(tables, 1)
        ]
        planner = Planner(matcher, draft.sheets, told, counter, room)
        plan, text, n_tokens = _fitted(draft, planner, settings.prompt_tokens, frame)
        if n_tokens <= settings.prompt_tokens:
            break
    else:
        raise GTRError(
            f"prompt_tokens must be at least {n_tokens:,} for this question and these templates, got "
            f"{settings.prompt_tokens:,}; raise it, or ask for less: fewer examples, a shorter question"
        )
    return Prompt(
        question=question,
        text=text,
        tables=tuple(
            PromptTable(
                sheet.number,
                sheet.table,
                tuple(sorted(shown.rows)),
                sheet.cut_cells(shown.limit, shown.rows),
                len(sheet.table.header) - len(sheet.columns),
            )
            for sheet, shown in zip(draft.sheets, plan.tables, strict=False)
        ),
        relations=tuple(plan.relations),
        left_out_tables=len(tables) - len(plan.tables),
        n_tokens=n_tokens,
        counted_by=counter.name,
    )


def _sheet(number: int, table: Table, matcher: Matcher, room: int, settings: PromptSettings) -> Sheet:
    """A table, of whose columns so many are shown that their names leave room for rows and for other tables."""
    most = max(_FEWEST_COLUMNS, room // (_COLUMN if number == 1 else _LATER_COLUMN))
    columns = matcher.columns_to_show(table.header, most)
    return Sheet(number, table, WRITERS[settings.table_format], columns)


def _fitted(draft: _Draft, planner: Planner, budget: int, frame: int) -> tuple[Plan, str, int]:
    """The plan that makes the best use of the budget, or the least where none keeps it; its text and its tokens."""
    room = budget - frame
    best: tuple[Plan, str, int] | None = None
    tries = refinements = 0
    while True:
        plan = planner.plan(max(room, 0))
        text, n_tokens = draft.of(plan)
        if n_tokens <= budget:
            if best is None or n_tokens > best[2]:
                best = plan, text, n_tokens
            slack = budget - n_tokens
            if plan.complete or refinements == _REFINEMENTS or slack <= _SLACK * budget:
                return best
            refinements += 1
            room += slack
            continue
        if best is not None:
            return best
        if room <= 0:
            return plan, text, n_tokens
        tries += 1
        # Joined parts may count more than their sum: so much less is tried, soon much less, in the end the least.
        room = 0 if tries == _TRIES else room - (n_tokens - budget) * max(1, 2 ** (tries - 3))


class _Draft:
    """Writes and counts the prompts of one question.

    Attributes:
        sheets: The tables that plans are about.
    """

    def __init__(self, question: str, settings: PromptSettings, counter: TokenCounter) -> None:
        self.sheets: list[Sheet] = []
        self._settings = settings
        self._counter = counter
        self._fixed: dict[str, object] = {
            "question": escaped(one_line(question)),
            "answer_kind": settings.answer_kind,
            "table_format": settings.table_format,
            "reasoning": settings.reasoning,
            "examples": [_example(one) for one in settings.examples],
        }

    def of(self, plan: Plan) -> tuple[str, int]:
        """The text of a plan, and its tokens."""
        tables = [
            {
                "number": sheet.number,
                "title": sheet.title(shown.limit, shown.description),
                "rows": sheet.table.n_rows,
                "rows_shown": len(shown.rows),
                "columns": len(sheet.table.header),
                "columns_shown": len(sheet.columns),
                "body": sheet.body(shown.limit, shown.rows),
            }
            for sheet, shown in zip(self.sheets, plan.tables, strict=False)
        ]
        changing: Mapping[str, object] = {
            "tables": tables,
            "left_out_tables": len(self.sheets) - len(tables),
            "relations": [one._asdict() | {"line": relation_line(one)} for one in plan.relations],
        }
        text = rendered(self._settings.templates, {**self._fixed, **changing})
        return text, self._counter.prompt_tokens(text)


def _example(example: Example) -> dict[str, str]:
    """An example's texts; the lines of its reasoning stay lines, but none of them becomes a heading."""
    answer = [example.answer] if isinstance(example.answer, str) else example.answer
    return {
        "question": escaped(one_line(example.question)),
        "reasoning": _lines(example.reasoning.splitlines()),
        "answer": _lines(answer),
    }


def _lines(texts: Sequence[str]) -> str:
    lines = filter(None, map(escaped, map(one_line, texts)))
    return "\n".join(f"\\{line}" if line.startswith(_HASHES) else line for line in lines)
