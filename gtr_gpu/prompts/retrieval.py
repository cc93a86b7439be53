"""Questions to prompts: the tables that an index finds, with their relations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gtr_gpu.prompts.build import build_prompt
from gtr_gpu.prompts.prompt import Prompt
from gtr_gpu.prompts.relations import prompt_relations
from gtr_gpu.prompts.settings import PromptSettings
from gtr_gpu.prompts.tokens import TokenCounter

if TYPE_CHECKING:
    from gtr_gpu.index import GTRIndex

# Questions that are searched at once.
_TOGETHER = 256


def prompts_for(
    index: GTRIndex,
    questions: Sequence[str],
    k: int,
    settings: PromptSettings,
    counter: TokenCounter,
    tell: Callable[[str], None] | None = None,
) -> Iterator[Prompt]:
    """The prompt of each question, made when it is asked for, in order.

    Args:
        index: Where tables are looked for.
        questions: The questions.
        k: Tables for each question; fewer where the index has fewer.
        settings: What the prompts are to look like.
        counter: Counts their tokens.
        tell: Is given what the search has to say, each remark once.

    Raises:
        GTRError: k is below 1, a question is empty, or a prompt can't be had for the budget.
    """
    told: set[str] = set()
    for start in range(0, len(questions), _TOGETHER):
        batch = questions[start : start + _TOGETHER]
        result = index.search(batch, k if k < 1 else min(k, index.n_tables), edges=settings.relations)
        for text in result.notes:
            if tell is not None and text not in told:
                told.add(text)
                tell(text)
        for number, question in enumerate(batch):
            tables = [index.table(row) for row in result.ids[number].tolist() if row >= 0]
            relations = prompt_relations(result.edges[number]) if result.edges is not None else []
            yield build_prompt(question, tables, relations, settings, counter)
