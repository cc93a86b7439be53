"""A model's output to an answer, leniently: what it says, why, and by which tables and cells."""

from __future__ import annotations

from gtr_gpu.answers.answer import Answer
from gtr_gpu.answers.citations import ShownCells, cited_tables
from gtr_gpu.answers.output import take_apart
from gtr_gpu.answers.values import unescaped, value_of
from gtr_gpu.prompts.prompt import Prompt
from gtr_gpu.prompts.settings import AnswerKind


def parse_answer(raw: str, prompt: Prompt, kind: AnswerKind, *, cut: bool = False) -> Answer:
    """What a model's output says.

    Tags may be missing, repeated, unclosed, nested, written otherwise or wrapped in text; then other signs count, such
    as `Answer: X`. An output that gives no answer, or says that there is none, has the value None: no words of it are
    taken for one without a sign.

    Args:
        raw: The output.
        prompt: The prompt that it answers.
        kind: What was asked for: a `short` answer is a text, a `list` a tuple, a `verification` `True` or `False`.
        cut: Whether the model came to its limit, so that the end of the output may be half a word.
    """
    output = take_apart(raw, prompt, kind, cut)
    cells = ShownCells(prompt)
    value = None if output.answer is None else value_of(output.answer, kind, cells.holds)
    reasoning = unescaped(output.reasoning)
    items = () if value is None else (value,) if isinstance(value, str) else value
    known, unknown = cited_tables("\n".join((reasoning, *items)), len(prompt.tables))
    quoted = cells.cited(reasoning, () if kind == "verification" else items, known)
    return Answer(value, reasoning, known, unknown, quoted, raw)
