"""The options of commands that write prompts, and the settings and the counter that they make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gtr_gpu.cli.common import given_name, given_path
from gtr_gpu.cli.text import counted
from gtr_gpu.errors import GTRError
from gtr_gpu.prompts.settings import AnswerKind, Example, PromptSettings, TableFormat

if TYPE_CHECKING:
    from gtr_gpu.prompts.prompt import Prompt
    from gtr_gpu.prompts.tokens import TokenCounter

DEFAULTS = PromptSettings()

K = Annotated[int, typer.Option("-k", metavar="K", help="Tables for each question.")]
PromptTokens = Annotated[
    int, typer.Option("--prompt-tokens", metavar="N", help="The most tokens of a prompt, chat template included.")
]
Format = Annotated[TableFormat, typer.Option("--format", help="How tables are written.")]
Kind = Annotated[AnswerKind, typer.Option("--answer", help="What is asked for; `verification` is True or False.")]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="NAME|DIR",
        help="What counts tokens: a name on the hub, a folder or a GGUF file; else they are estimated, generously.",
        parser=given_name,
    ),
]
NoRelations = Annotated[bool, typer.Option("--no-relations", help="Don't tell how the tables are related.")]
NoReasoning = Annotated[bool, typer.Option("--no-reasoning", help="Ask for the answer alone.")]
Examples = Annotated[
    Path | None,
    typer.Option(
        "--examples",
        metavar="FILE",
        help="Examples to show: JSON lines with `query`, `reasoning` and `answer`.",
        parser=given_path,
    ),
]
FewShot = Annotated[int, typer.Option("--few-shot", metavar="N", help="Show N packaged examples.")]
Templates = Annotated[
    Path | None,
    typer.Option(
        "--templates",
        metavar="DIR",
        help="Templates that replace the packaged ones of the same names.",
        parser=given_path,
    ),
]


def prompt_settings(
    *,
    prompt_tokens: int,
    table_format: TableFormat,
    answer_kind: AnswerKind,
    no_relations: bool,
    no_reasoning: bool,
    examples: Path | None,
    few_shot: int,
    templates: Path | None,
) -> PromptSettings:
    """The settings that the options say.

    Raises:
        GTRError: A number out of its range, an unreadable file of examples, two sources of them, or templates that are
            none.
    """
    if templates is not None:
        from gtr_gpu.prompts.rendering import check_templates

        check_templates(templates)
    return PromptSettings(
        prompt_tokens=prompt_tokens,
        table_format=table_format,
        answer_kind=answer_kind,
        relations=not no_relations,
        reasoning=not no_reasoning,
        examples=_examples(examples, few_shot, answer_kind),
        templates=templates,
    )


def _examples(path: Path | None, few_shot: int, kind: AnswerKind) -> tuple[Example, ...]:
    from gtr_gpu.prompts.examples import packaged_examples, read_examples

    if path is not None and few_shot:
        raise GTRError("examples come either from --examples or, by --few-shot, from the package; leave one out")
    if path is not None:
        return read_examples(path)
    if not few_shot:
        return ()
    packaged = packaged_examples(kind)
    if not 0 <= few_shot <= len(packaged):
        raise GTRError(
            f"--few-shot must be between 0 and {len(packaged)}, the packaged examples for `--answer {kind}`, "
            f"got {few_shot}; --examples shows more of your own"
        )
    return packaged[:few_shot]


def token_counter(tokenizer: str | None) -> TokenCounter:
    """Counts by a tokenizer, or by the estimate where None is named.

    Raises:
        GTRError: There is no tokenizer of that name.
    """
    from gtr_gpu.prompts.tokens import EstimatedCounter, TokenizerCounter, load_tokenizer

    if tokenizer is None:
        return EstimatedCounter()
    path = Path(tokenizer)
    return TokenizerCounter(load_tokenizer(path), path.resolve().name if path.exists() else tokenizer)


def left_out(prompt: Prompt) -> str:
    """What a prompt has no room for, in words; empty where everything is in it."""
    n_tables = len(prompt.tables) + prompt.left_out_tables
    rows = sum(shown.left_out_rows for shown in prompt.tables)
    columns = sum(shown.left_out_columns for shown in prompt.tables)
    cells = sum(shown.cut_cells for shown in prompt.tables)
    of_others = " of the others" if prompt.left_out_tables else ""
    parts = [
        f"{prompt.left_out_tables} of {counted(n_tables, 'table')}" if prompt.left_out_tables else "",
        f"{counted(rows, 'row')}{of_others}" if rows else "",
        counted(columns, "column") if columns else "",
        f"parts of {counted(cells, 'cell')}" if cells else "",
    ]
    return ", ".join(filter(None, parts))
