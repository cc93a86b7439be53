"""Asks a model the questions of one run, and takes up what an earlier, killed one was told."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gtr_gpu.answers import parse_answer
from gtr_gpu.answers.answer import Answer
from gtr_gpu.answers.journal import Journal
from gtr_gpu.answers.record import was_cut
from gtr_gpu.errors import GTRError
from gtr_gpu.evaluation.answering.measures import score
from gtr_gpu.evaluation.answering.questions import Answerable
from gtr_gpu.evaluation.answering.retrieval import Found, Retriever
from gtr_gpu.evaluation.answering.runs import Outcome
from gtr_gpu.evaluation.results import Record
from gtr_gpu.language_models.model import Completion, LanguageModel
from gtr_gpu.progress import Stage
from gtr_gpu.prompts import build_prompt
from gtr_gpu.prompts.prompt import Prompt
from gtr_gpu.prompts.relations import prompt_relations
from gtr_gpu.prompts.settings import PromptSettings

_COMPLETION = ("text", "finish_reason", "prompt_tokens", "completion_tokens", "seconds")


@dataclass
class Asking:
    """What one run asks.

    Attributes:
        asked: The questions.
        found: The tables that were found for them.
        retriever: What found them.
        settings: What the prompts are to look like.
        model: Who is asked.
        max_new_tokens: The most tokens of a completion.
    """

    asked: Answerable
    found: Found
    retriever: Retriever
    settings: PromptSettings
    model: LanguageModel
    max_new_tokens: int

    def outcomes(self, path: Path, settings: Record, stage: Stage) -> list[Outcome]:
        """What becomes of each question, in order.

        A completion is kept under its question and the very text of its prompt, so that a question is asked anew only
        where its prompt has changed, and old completions are parsed and scored by the code of today.

        Args:
            path: The journal of what the model says.
            settings: All else that this depends on.
            stage: Is told of each question that is done.

        Raises:
            ModelError: What would go wrong for every question; what was said until then is kept.
            GTRError: Another process writes the journal.
        """
        outcomes: dict[int, Outcome] = {}
        waiting: dict[int, tuple[int, Prompt]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        with Journal(path, settings) as journal:
            prompts = self._unknown(journal, outcomes, waiting, stage)
            with closing(self.model.complete(prompts, self.max_new_tokens)) as completions:
                for number, completion in completions:
                    row, prompt = waiting.pop(number)
                    if isinstance(completion, Completion):
                        journal.add(self._line(row, prompt, completion))
                    outcomes[row] = self._outcome(row, prompt, completion)
                    stage.advance()
        return [outcomes[row] for row in range(len(self.asked))]

    def _unknown(
        self, journal: Journal, outcomes: dict[int, Outcome], waiting: dict[int, tuple[int, Prompt]], stage: Stage
    ) -> Iterator[str]:
        """The prompts that nothing was said to yet; what becomes of the other questions is noted on the way."""
        number = 0
        for row, text in enumerate(self.asked.texts):
            try:
                prompt = self._prompt(row)
            except GTRError as error:
                outcomes[row] = self._outcome(row, None, error)
                stage.advance()
                continue
            line = journal.get(self._name(row, prompt), text)
            if line is None:
                waiting[number] = row, prompt
                number += 1
                yield prompt.text
            else:
                known = Completion(**{name: line[name] for name in _COMPLETION})
                outcomes[row] = self._outcome(row, prompt, known)
                stage.advance()

    def _prompt(self, row: int) -> Prompt:
        """The prompt of a question, from its text and what was found for it: nothing of its label."""
        tables = self.retriever.tables(self.found.ids[row])
        relations = prompt_relations(self.found.edges[row])
        return build_prompt(self.asked.texts[row], tables, relations, self.settings, self.model.tokens)

    def _name(self, row: int, prompt: Prompt) -> str:
        digest = hashlib.blake2b(prompt.text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return f"{self.asked.numbers[row]}/{digest}"

    def _line(self, row: int, prompt: Prompt, completion: Completion) -> dict[str, Any]:
        return {"query_id": self._name(row, prompt), "query": self.asked.texts[row], **asdict(completion)}

    def _outcome(self, row: int, prompt: Prompt | None, said: Completion | GTRError) -> Outcome:
        answer, completion = None, None
        if isinstance(said, Completion) and prompt is not None:
            completion = said
            answer = parse_answer(said.text, prompt, self.settings.answer_kind, cut=was_cut(said.finish_reason))
        gold = self.asked.answers[row]
        value = answer.value if answer else None
        ids = self.found.ids[row].tolist()
        gold_tables = set(self.asked.gold_tables[row].tolist())
        return Outcome(
            number=int(self.asked.numbers[row]),
            question=self.asked.texts[row],
            group=int(self.asked.groups[row]),
            gold=gold,
            answer=value,
            error=None if isinstance(said, Completion) else str(said),
            scores=score(self.settings.answer_kind, gold, value),
            found=gold_tables <= set(ids),
            shown=prompt is not None and gold_tables <= {ids[shown.number - 1] for shown in prompt.tables},
            cites_gold=_cites(answer, ids, gold_tables),
            unknown_tables=len(answer.unknown_tables) if answer else 0,
            prompt_tokens=(completion.prompt_tokens if completion else None) or (prompt.n_tokens if prompt else None),
            completion_tokens=completion.completion_tokens if completion else None,
            seconds=completion.seconds if completion else None,
            cut_short=completion is not None and was_cut(completion.finish_reason),
        )


def _cites(answer: Answer | None, ids: list[int], gold_tables: set[int]) -> bool:
    """Whether any table that an answer cites is a gold one; a table's number in a prompt is its rank."""
    return answer is not None and any(ids[number - 1] in gold_tables for number in answer.tables)
