"""From questions to answers: tables are searched, put into prompts, read by a model, and its outputs parsed."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from gtr_gpu.answers.answer import Answer
from gtr_gpu.answers.journal import Journal
from gtr_gpu.answers.parse import parse_answer
from gtr_gpu.answers.record import Answered, Unanswered, was_cut
from gtr_gpu.config import KNOBS, Config
from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.model import DEFAULT_NEW_TOKENS, Completion, LanguageModel, ModelError
from gtr_gpu.progress import Progress, Silent
from gtr_gpu.prompts import build_prompt
from gtr_gpu.prompts.prompt import Prompt
from gtr_gpu.prompts.rendering import template_sources
from gtr_gpu.prompts.retrieval import Found, find_tables
from gtr_gpu.prompts.settings import PromptSettings

if TYPE_CHECKING:
    from gtr_gpu.index import GTRIndex

_NO_TABLES = "no tables"

logger = logging.getLogger(__name__)


def ask(
    index: GTRIndex,
    questions: Sequence[str] | Mapping[str | int, str],
    model: LanguageModel,
    *,
    k: int = 10,
    config: Config | None = None,
    settings: PromptSettings | None = None,
    max_new_tokens: int = DEFAULT_NEW_TOKENS,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    show: Callable[[str], None] | None = None,
    note: Callable[[str], None] = logger.warning,
    progress: Progress | None = None,
) -> Generator[Answered | Unanswered, None, None]:
    """Answers questions from the tables of an index, each yielded as soon as it is ready.

    Args:
        index: The index.
        questions: The questions, or questions by their names; without names they are numbered from "1".
        model: The model, see `gtr_gpu.language_models.open_model`.
        k: Tables for each question, of which a prompt holds as many as there is room for.
        config: Search knobs; the index's own where it is left out.
        settings: What the prompts are to look like.
        max_new_tokens: The most tokens of a completion.
        out: A file that each answer is written to as it comes. Answers that it holds already, of the same settings,
            are yielded first and not asked for again.
        overwrite: Whether answers of the file may be replaced.
        show: Is given each piece of a model's output as it comes; questions are then asked one after another.
        note: Is given each sentence that the caller should know, once.
        progress: Where to report.

    Yields:
        An answer, or why there is none; the order is that in which they are ready.

    Raises:
        GTRError: A question is empty, k or max_new_tokens is out of its range, or `out` can't be used.
        ModelError: What would go wrong for every question; all that was finished was yielded and written before.
    """
    named = dict(questions) if isinstance(questions, Mapping) else _numbered(questions)
    for query_id, text in named.items():
        if not text.strip():
            raise GTRError(f"the question {query_id!r} must hold at least one word, got {text!r}")
    if k < 1:
        raise GTRError(f"k must be at least 1, got {k}")
    if max_new_tokens < 1:
        raise GTRError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    if k > index.n_tables:
        note(f"k is {k}, but the index holds {index.n_tables} table{'s' * (index.n_tables != 1)}")
        k = index.n_tables
    config = index.config.searching_as(config) if config else index.config
    bounded = within_window(settings or PromptSettings(), model, max_new_tokens, note)
    asking = _Asking(index, model, k, config, bounded, max_new_tokens, note)
    return asking.answers(named, out, overwrite, show, progress or Silent())


def _run_settings(
    index: GTRIndex, model: LanguageModel, k: int, config: Config, settings: PromptSettings, max_new_tokens: int
) -> dict[str, Any]:
    """All that answers depend on besides their questions, as plain values for a `Journal`."""
    info = index.info()
    prompt = asdict(settings)
    prompt["examples"] = _digest(repr(settings.examples)) if settings.examples else None
    prompt["templates"] = _digest(repr(sorted(template_sources(settings.templates).items())))
    return {
        "model": model.name,
        "base_url": getattr(model, "base_url", None),
        "k": k,
        "max_new_tokens": max_new_tokens,
        "prompt": prompt,
        "search": {name: value for name, value in config.to_json().items() if KNOBS[name].stage == "search"},
        "index": {name: info.get(name) for name in ("generation", "updated", "tables")},
    }


class _Asking:
    """One run: what is asked, and the prompts that are under way."""

    def __init__(
        self,
        index: GTRIndex,
        model: LanguageModel,
        k: int,
        config: Config,
        settings: PromptSettings,
        max_new_tokens: int,
        note: Callable[[str], None],
    ) -> None:
        self._index = index
        self._model = model
        self._k = k
        self._config = config
        self._settings = settings
        self._max_new_tokens = max_new_tokens
        self._note = note
        self._under_way: dict[int, tuple[str | int, Prompt]] = {}
        self._unasked: list[Answered | Unanswered] = []

    def answers(
        self,
        questions: Mapping[str | int, str],
        out: str | os.PathLike[str] | None,
        overwrite: bool,
        show: Callable[[str], None] | None,
        progress: Progress,
    ) -> Generator[Answered | Unanswered, None, None]:
        """What came of each question: of an earlier run first, then as they are ready, each recorded before."""
        if out is None:
            yield from self._asked(questions, show, progress)
            return
        settings = _run_settings(self._index, self._model, self._k, self._config, self._settings, self._max_new_tokens)
        with Journal(out, settings, overwrite=overwrite) as journal:
            missing = {}
            for query_id, text in questions.items():
                record = journal.get(query_id, text)
                if record is None:
                    missing[query_id] = text
                else:
                    yield self._earlier(record)
            if len(missing) < len(questions):
                self._note(f"{len(questions) - len(missing):,} of {len(questions):,} were answered already in {out}")
            with closing(self._asked(missing, show, progress)) as asked:
                for one in asked:
                    if isinstance(one, Answered):
                        journal.add(one.to_json())
                    yield one

    def _asked(
        self, questions: Mapping[str | int, str], show: Callable[[str], None] | None, progress: Progress
    ) -> Generator[Answered | Unanswered, None, None]:
        if not questions:
            return
        outcomes = self._outcomes(questions, show)
        with closing(outcomes), progress.stage("Answering", len(questions)) as stage:
            for one in outcomes:
                yield one
                stage.advance()

    def _outcomes(
        self, questions: Mapping[str | int, str], show: Callable[[str], None] | None
    ) -> Generator[Answered | Unanswered, None, None]:
        prompts = self._prompts(questions)
        outcomes = self._streamed(prompts, show) if show else self._model.complete(prompts, self._max_new_tokens)
        with closing(outcomes):
            try:
                for number, outcome in outcomes:
                    yield from self._take_unasked()
                    yield self._one(number, outcome)
            except ModelError:
                yield from self._take_unasked()
                raise
        yield from self._take_unasked()

    @staticmethod
    def _earlier(record: Mapping[str, Any]) -> Answered:
        try:
            return Answered.from_json(record)
        except (KeyError, TypeError) as error:
            raise GTRError(
                f"the recorded answer to {record['query_id']!r} lacks what this version records ({error}); give "
                "another file, or overwrite it"
            ) from None

    def _one(self, number: int, outcome: Completion | ModelError) -> Answered | Unanswered:
        query_id, prompt = self._under_way.pop(number)
        if isinstance(outcome, ModelError):
            return Unanswered(query_id, prompt.question, str(outcome))
        answer = parse_answer(outcome.text, prompt, self._settings.answer_kind, cut=was_cut(outcome.finish_reason))
        return Answered.of(query_id, prompt, answer, outcome, self._model.name)

    def _streamed(
        self, prompts: Iterator[str], show: Callable[[str], None]
    ) -> Generator[tuple[int, Completion | ModelError], None, None]:
        for number, prompt in enumerate(prompts):
            try:
                yield number, self._model.stream(prompt, self._max_new_tokens, show)
            except ModelError as error:
                if error.fatal:
                    raise
                yield number, error

    def _take_unasked(self) -> Iterator[Answered | Unanswered]:
        """Questions that the model was not asked: they have no table, or no prompt."""
        while self._unasked:
            yield self._unasked.pop(0)

    def _prompts(self, questions: Mapping[str | int, str]) -> Iterator[str]:
        """The prompts, made as the model takes them; those that it has are under way."""
        found_for_each = find_tables(
            self._index,
            list(questions.values()),
            self._k,
            relations=self._settings.relations,
            config=self._config,
            tell=self._note,
        )
        number = 0
        for (name, question), found in zip(questions.items(), found_for_each, strict=True):
            prompt = self._prompt(name, question, found)
            if prompt is not None:
                self._under_way[number] = name, prompt
                number += 1
                yield prompt.text

    def _prompt(self, name: str | int, question: str, found: Found) -> Prompt | None:
        try:
            prompt = build_prompt(question, found.tables, found.relations, self._settings, self._model.tokens)
        except GTRError as error:
            self._unasked.append(Unanswered(name, question, str(error)))
            return None
        if prompt.tables:
            return prompt
        # Without a table a model could only make something up.
        nothing = Completion("", _NO_TABLES, 0, 0, 0.0)
        answer = Answer(None, "", (), (), (), "")
        self._unasked.append(Answered.of(name, prompt, answer, nothing, self._model.name))
        return None


def _numbered(questions: Sequence[str]) -> dict[str | int, str]:
    if isinstance(questions, str):
        raise GTRError("questions must be a list of questions, got one text; put it in a list")
    return {str(number): text for number, text in enumerate(questions, 1)}


def within_window(
    settings: PromptSettings, model: LanguageModel, max_new_tokens: int, note: Callable[[str], None]
) -> PromptSettings:
    """The settings with a budget that leaves room for the completion in the model's window.

    Args:
        settings: The settings.
        model: The model.
        max_new_tokens: The most tokens of a completion.
        note: Is told where the budget had to be made smaller.

    Raises:
        GTRError: The window has no room for a prompt at all.
    """
    if model.window is None:
        return settings
    room = model.window - max_new_tokens
    if room < 1:
        raise GTRError(
            f"max_new_tokens must be below {model.window:,}, which is what {model.name} takes of prompt and completion "
            f"together, got {max_new_tokens:,}"
        )
    if settings.prompt_tokens <= room:
        return settings
    note(
        f"prompts are kept to {room:,} tokens: {model.name} takes {model.window:,} of prompt and completion together, "
        f"and {max_new_tokens:,} are for the completion"
    )
    return replace(settings, prompt_tokens=room)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
