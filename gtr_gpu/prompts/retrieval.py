"""Questions to prompts: the tables that an index finds, with their relations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gtr_gpu.prompts.build import build_prompt
from gtr_gpu.prompts.prompt import Prompt, PromptRelation
from gtr_gpu.prompts.relations import prompt_relations
from gtr_gpu.prompts.settings import PromptSettings
from gtr_gpu.prompts.tokens import TokenCounter

if TYPE_CHECKING:
    from gtr_gpu.config import Config
    from gtr_gpu.index import GTRIndex
    from gtr_gpu.tables.table import Table

# Questions that are searched at once: few, so that the first prompt is soon there.
_TOGETHER = 32


class Found(NamedTuple):
    """What was found for a question.

    Attributes:
        tables: The tables, best first.
        relations: Relations among them by number from 1, the strongest first.
    """

    tables: list[Table]
    relations: list[PromptRelation]


def find_tables(
    index: GTRIndex,
    questions: Sequence[str],
    k: int,
    *,
    relations: bool = True,
    config: Config | None = None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[Found]:
    """What an index finds for each question, in order, searched batch by batch as it is asked for.

    Args:
        index: Where tables are looked for.
        questions: The questions.
        k: Tables for each question; fewer where the index has fewer.
        relations: Whether relations are looked up.
        config: Search knobs; the index's own where it is left out.
        tell: Is given what the search has to say, each remark once.

    Raises:
        GTRError: k is below 1, or a question is empty.
    """
    told: set[str] = set()
    for start in range(0, len(questions), _TOGETHER):
        batch = questions[start : start + _TOGETHER]
        result = index.search(batch, k if k < 1 else min(k, index.n_tables), config=config, edges=relations)
        for text in result.notes:
            if tell is not None and text not in told:
                told.add(text)
                tell(text)
        for number, rows in enumerate(result.ids.tolist()):
            tables = [index.table(row) for row in rows if row >= 0]
            yield Found(tables, prompt_relations(result.edges[number]) if result.edges is not None else [])


def prompts_for(
    index: GTRIndex,
    questions: Sequence[str],
    k: int,
    settings: PromptSettings,
    counter: TokenCounter,
    *,
    config: Config | None = None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[Prompt]:
    """The prompt of each question, made when it is asked for, in order.

    Args:
        index: Where tables are looked for.
        questions: The questions.
        k: Tables for each question; fewer where the index has fewer.
        settings: What the prompts are to look like.
        counter: Counts their tokens.
        config: Search knobs; the index's own where it is left out.
        tell: Is given what the search has to say, each remark once.

    Raises:
        GTRError: k is below 1, a question is empty, or a prompt can't be had for the budget.
    """
    found = find_tables(index, questions, k, relations=settings.relations, config=config, tell=tell)
    for question, (tables, relations) in zip(questions, found, strict=True):
        yield build_prompt(question, tables, relations, settings, counter)
