"""`gtr ask`: questions to answers, by a language model that reads the tables found."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from gtr_gpu import language_models
from gtr_gpu.answers.record import Answered, Unanswered
from gtr_gpu.cli import answered, common, model_options, prompt_options
from gtr_gpu.cli.common import put, say
from gtr_gpu.cli.progress import drawn
from gtr_gpu.cli.prompt_options import DEFAULTS
from gtr_gpu.cli.queries import Query, asked
from gtr_gpu.cli.search import search_config
from gtr_gpu.cli.text import counted, visible
from gtr_gpu.cli.view import View
from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import DEFAULT_KEY_VARIABLE
from gtr_gpu.language_models.choose import DEFAULT_CONCURRENCY, DEFAULT_RETRIES, DEFAULT_TIMEOUT
from gtr_gpu.language_models.model import DEFAULT_NEW_TOKENS, ModelError

if TYPE_CHECKING:
    from gtr_gpu.progress import Progress

_WIDEST = 110
_REASONS_SHOWN = 10


def run(
    folder: common.IndexDir,
    questions: common.Questions = None,
    queries: common.QueriesFile = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write each answer to FILE as it comes; a second run asks only what is missing there.",
            parser=common.given_path,
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Answer anew what --out holds.")] = False,
    model: model_options.Model = None,
    base_url: model_options.BaseUrl = None,
    api_key_env: model_options.ApiKeyEnv = DEFAULT_KEY_VARIABLE,
    tokenizer: model_options.Tokenizer = None,
    k: prompt_options.K = 10,
    prompt_tokens: prompt_options.PromptTokens = DEFAULTS.prompt_tokens,
    max_new_tokens: model_options.NewTokens = DEFAULT_NEW_TOKENS,
    table_format: prompt_options.Format = DEFAULTS.table_format,
    answer_kind: prompt_options.Kind = DEFAULTS.answer_kind,
    timeout: model_options.Timeout = DEFAULT_TIMEOUT,
    retries: model_options.Retries = DEFAULT_RETRIES,
    concurrency: model_options.Concurrency = DEFAULT_CONCURRENCY,
    no_relations: prompt_options.NoRelations = False,
    no_reasoning: prompt_options.NoReasoning = False,
    examples: prompt_options.Examples = None,
    few_shot: prompt_options.FewShot = 0,
    templates: prompt_options.Templates = None,
    preset: common.SearchPreset = None,
    assignments: common.Assignments = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each question.")] = False,
    quiet: common.Quiet = False,
) -> None:
    """Answer questions by a language model that reads the tables found, and tell its steps, tables and cells."""
    if k < 1:
        raise GTRError(f"-k must be at least 1, got {k}")
    if overwrite and out is None:
        raise GTRError("--overwrite needs a file to overwrite; give it with --out")
    if out is not None and str(out) == "-":
        raise GTRError("--out must be a file; answers go to stdout without it, with --json one a line")
    model_options.check_options(model, base_url, api_key_env, max_new_tokens)
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
    wanted = asked(questions or [], queries)

    from gtr_gpu.answers import ask
    from gtr_gpu.index import GTRIndex

    display = _Display(wanted, out, as_json, max_new_tokens)
    try:
        with display, GTRIndex.load(folder) as index, display.progress(quiet) as progress:
            opened = language_models.open_model(
                model,
                base_url,
                key_variable=api_key_env,
                tokenizer=tokenizer,
                timeout=timeout,
                retries=retries,
                concurrency=concurrency,
            )
            asking = ask(
                index,
                {query.query_id: query.text for query in wanted},
                opened,
                k=k,
                config=search_config(index.config, preset, assignments or ()),
                settings=settings,
                max_new_tokens=max_new_tokens,
                out=out,
                overwrite=overwrite,
                show=display.streamed,
                note=common.note,
                progress=progress,
            )
            with closing(asking):
                display.show_all(asking)
    except ModelError as error:
        say(str(error))
    display.summarize()
    if display.tally.missing:
        raise typer.Exit(1)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


@dataclass
class _Tally:
    """What came of a batch.

    Attributes:
        questions: How many questions there are.
        earlier: How many were answered by an earlier run.
        answered: How many were answered now.
        without_answer: Of all answered ones, to how many the model gave no answer, by the reason.
        failed: How often each reason kept a question from being answered.
    """

    questions: int
    earlier: int = 0
    answered: int = 0
    without_answer: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def take(self, one: Answered | Unanswered, most_tokens: int) -> None:
        """Counts what came of one question, for which the model was allowed to write so many tokens."""
        if isinstance(one, Unanswered):
            self.failed[one.error] += 1
            return
        self.earlier += one.earlier
        self.answered += not one.earlier
        if one.answer is None:
            self.without_answer[answered.why_nothing(one, most_tokens)] += 1

    @property
    def missing(self) -> int:
        """How many questions the model has not completed."""
        return self.questions - self.earlier - self.answered

    def to_json(self) -> dict[str, Any]:
        """The object that `gtr ask --out FILE --json` prints."""
        return {
            "questions": self.questions,
            "answered_earlier": self.earlier,
            "answered": self.answered,
            "without_answer": self.without_answer.total(),
            "missing": self.missing,
            "failed": [{"reason": reason, "questions": number} for reason, number in self.failed.most_common()],
        }


class _Display:
    """Shows what came of the questions of one command."""

    def __init__(self, wanted: Sequence[Query], out: Path | None, as_json: bool, most_tokens: int) -> None:
        self._wanted = wanted
        self._out = out
        self._as_json = as_json
        self._most_tokens = most_tokens
        self._view = View(_WIDEST)
        self._on_terminal = _is_terminal() and not as_json and out is None
        self.tally = _Tally(len(wanted))
        self._waiting = Console(stderr=True, markup=False, highlight=False).status("searching and reading …")
        self.streamed: answered.Streamed | None = None
        if self._on_terminal and len(wanted) == 1:
            self.streamed = answered.Streamed(self._view, self._waiting.stop)

    def __enter__(self) -> _Display:
        if self.streamed:
            self._view.show(Text(visible(self._wanted[0].text), style="bold"))
            if sys.stderr.isatty():
                self._waiting.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._waiting.stop()
        if self.streamed:
            self.streamed.end()

    def progress(self, quiet: bool) -> AbstractContextManager[Progress | None]:
        """Where the batch reports: nowhere where its answers are shown on the same terminal."""
        return nullcontext() if self._on_terminal or len(self._wanted) == 1 else drawn(quiet)

    def show_all(self, asking: Iterable[Answered | Unanswered]) -> None:
        """Shows each as it comes."""
        for one in asking:
            self._waiting.stop()
            if self.streamed:
                self.streamed.end()
            self.tally.take(one, self._most_tokens)
            if self._out is None:
                self._show(one)
                sys.stdout.flush()

    def _show(self, one: Answered | Unanswered) -> None:
        if self._as_json:
            common.put_json(one.to_json())
        elif len(self._wanted) == 1 and isinstance(one, Unanswered):
            return  # it is the only line of the summary
        elif self._on_terminal:
            answered.put_on_terminal(one, self._most_tokens, self._view, self.streamed is not None)
        else:
            answered.put_plain(one, self._most_tokens)

    def summarize(self) -> None:
        """Says what came of all of them."""
        tally, out = self.tally, self._out
        if out is not None and self._as_json:
            common.put_json({**tally.to_json(), "out": str(out)})
        elif out is not None:
            done = tally.earlier + tally.answered
            now = f", {tally.answered:,} of them now" if tally.earlier else ""
            put(f"{'answered':<12} {done:,} of {counted(tally.questions, 'question')}{now}")
            for reason, number in tally.without_answer.most_common():
                put(f"{'no answer':<12} {number:,} of these: {reason}")
            put(f"{'file':<12} {visible(str(out))}")
        sys.stdout.flush()
        if not tally.missing:
            return
        single = tally.questions == 1
        for reason, number in tally.failed.most_common(_REASONS_SHOWN):
            say(reason if single else f"{counted(number, 'question')}: {reason}")
        others = tally.failed.total() - sum(number for _, number in tally.failed.most_common(_REASONS_SHOWN))
        if others:
            say(f"{counted(others, 'question')}: other reasons; --json lists them")
        if not single:
            remedy = (
                "the same command asks them again, and them alone"
                if out is not None
                else "with --out FILE, a second run asks them alone"
            )
            say(f"{tally.missing:,} of {counted(tally.questions, 'question')} were not completed; {remedy}")
