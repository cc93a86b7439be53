"""`gtr prompt`: the prompt of a question, for any language model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gtr_gpu.cli import common, prompt_options
from gtr_gpu.cli.prompt_options import DEFAULTS
from gtr_gpu.cli.queries import asked
from gtr_gpu.cli.search import search_config
from gtr_gpu.cli.text import counted
from gtr_gpu.errors import GTRError


def run(
    folder: common.IndexDir,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="A question, in quotes.", show_default=False)
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries",
            metavar="FILE",
            help="With --json: JSON lines with `query` and, by choice, `query_id`; plain, .gz or .zst, or - for stdin.",
        ),
    ] = None,
    k: prompt_options.K = 10,
    prompt_tokens: prompt_options.PromptTokens = DEFAULTS.prompt_tokens,
    table_format: prompt_options.Format = DEFAULTS.table_format,
    answer_kind: prompt_options.Kind = DEFAULTS.answer_kind,
    tokenizer: prompt_options.Tokenizer = None,
    no_relations: prompt_options.NoRelations = False,
    no_reasoning: prompt_options.NoReasoning = False,
    examples: prompt_options.Examples = None,
    few_shot: prompt_options.FewShot = 0,
    templates: prompt_options.Templates = None,
    preset: common.SearchPreset = None,
    assignments: common.Assignments = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each question.")] = False,
) -> None:
    """Write the prompt of a question: the tables found, how they are related, and what is asked for."""
    if k < 1:
        raise GTRError(f"-k must be at least 1, got {k}")
    if queries is not None and not as_json:
        raise GTRError("the prompts of --queries are printed as JSON alone; add --json")
    common.check_search_knobs(preset, assignments)
    settings = prompt_options.prompt_settings(
        prompt_tokens=prompt_tokens,
        table_format=table_format,
        answer_kind=answer_kind,
        no_relations=no_relations,
        no_reasoning=no_reasoning,
        examples=examples,
        few_shot=few_shot,
        templates=templates,
    )
    common.check_index(folder)
    wanted = asked([] if question is None else [question], queries)
    counter = prompt_options.token_counter(tokenizer)

    from gtr_gpu.index import GTRIndex
    from gtr_gpu.prompts.retrieval import prompts_for

    with GTRIndex.load(folder) as index:
        if k > index.n_tables:
            common.note(f"-k is {k}, but the index holds {counted(index.n_tables, 'table')}")
        config = search_config(index.config, preset, assignments or ())
        texts = [query.text for query in wanted]
        prompts = prompts_for(index, texts, k, settings, counter, config=config, tell=common.note)
        for query, prompt in zip(wanted, prompts, strict=True):
            if as_json:
                common.put_json({"query_id": query.query_id, **prompt.to_json()})
                continue
            common.put(prompt.text)
            missing = prompt_options.left_out(prompt)
            common.note(
                f"{counted(prompt.n_tokens, 'token')} by {prompt.counted_by}; "
                + (f"left out: {missing}" if missing else "nothing was left out")
            )
