"""The questions of a benchmark, built from those that a source released.

For each task: `built, counts = build_questions(questions, tables, settings)`, where `tables` maps a `source_id` to its
table. Questions on a copy name the table that stays; those on tables that are too simple to be cut are built as well,
for tasks of whole tables, and left out when the others are put together. Then `raw_questions(questions, built)` gives
the same questions as released. Sets that share tables, such as WikiTableQuestions and SQA, are built in one call, so
that a text asked in both is seen; only questions of one set are merged with each other.

The steps, in order, each with its knobs in `QuestionSettings`: filter, near-duplicates, decontextualize, ambiguous
texts, merge, draw. The counts go into the manifest as they are: what is read is what was too short, of stop words,
answered by text only, a near-duplicate, ambiguous or kept; and what is kept is the parts of all that is built and what
was not drawn.

What comes of the shared data, each set alone, built in 1 to 20 seconds:

| set | read | kept | explicit | built | `merge_share=1` | `max_per_table=2` | tables asked about |
|---|---|---|---|---|---|---|---|
| TabFact | 37,112 | 35,716 | 824 | 29,429 | 21,225 | 18,307 | 9,595 |
| WikiTableQuestions | 17,689 | 17,093 | 1,416 | 12,360 | 7,410 | 3,322 | 1,687 |
| SQA | 14,541 | 13,011 | 6,163 | 6,661 | 6,661 | 1,594 | 797 |
| HybridQA | 3,011 | 3,007 | 122 | 2,755 | 2,229 | 2,660 | 2,141 |
| TAT-QA | 1,668 | 1,253 | 0 | 993 | 626 | 543 | 278 |

The paper has 23,758 questions on 57,193 sub-tables, about 1.2 on each whole table. Merging two or three at a time
brings HybridQA near that, but not sources with 4 to 19 questions a table; `max_per_table` does.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gtr_gpu.errors import GTRError
from gtr_gpu.features.heuristic import stop_words_of
from gtr_gpu.multitableqa.decontextualize import Context, Decontextualizer, Explicit, Rewriter
from gtr_gpu.multitableqa.merge import Part, independent_groups, merged, sequence_groups
from gtr_gpu.multitableqa.near_duplicates import ambiguous, first_of_each
from gtr_gpu.multitableqa.question_filter import objection
from gtr_gpu.multitableqa.question_settings import QuestionSettings
from gtr_gpu.multitableqa.records import SourceQuestion, SourceTable
from gtr_gpu.multitableqa.wording import sentence, tidy
from gtr_gpu.progress import Progress


@dataclass(frozen=True, slots=True)
class BuiltQuestion:
    """A question of a benchmark.

    Attributes:
        text: What is asked.
        answers: The answers of all its parts, in order; () where those of a part are not public.
        released: The released questions that it stands for, one or more on one table, in order.
    """

    text: str
    answers: tuple[str, ...]
    released: tuple[SourceQuestion, ...]

    @property
    def source_id(self) -> str:
        """The table that it is about."""
        return self.released[0].table_id

    @property
    def parts(self) -> int:
        """How many released questions it stands for."""
        return len(self.released)


def build_questions(
    questions: Sequence[SourceQuestion],
    tables: Mapping[str, SourceTable],
    settings: QuestionSettings | None = None,
    progress: Progress | None = None,
    rewriter: Rewriter | None = None,
) -> tuple[list[BuiltQuestion], dict[str, int]]:
    """Builds the questions of a benchmark.

    Args:
        questions: As released, any number of data sets.
        tables: The tables by `source_id`.
        settings: The knobs; the defaults otherwise.
        progress: Where the long step, decontextualisation, reports itself.
        rewriter: Makes questions explicit instead of the rules, such as a language model.

    Returns:
        The built questions, in the order of their first parts, and how many questions each step took out or changed.

    Raises:
        GTRError: A question is on an unknown table, or the tagger isn't installed.
    """
    settings = settings or QuestionSettings()
    for question in questions:
        if question.table_id not in tables:
            raise GTRError(
                f"question {question.question_id!r} of {question.dataset or 'a source'} must be on one of the "
                f"{len(tables):,} tables, got {question.table_id!r}; give that table or drop the question"
            )
    counts = Counter(read=len(questions))
    kept = _distinct(_searchable(questions, settings, counts), settings, counts)
    explicit = _explicit(kept, tables, settings, counts, progress, rewriter)
    if not settings.ambiguous:
        vague = ambiguous([one.text for one in explicit], [question.table_id for question in kept])
        counts["ambiguous"] = len(vague)
        explicit = [one for row, one in enumerate(explicit) if row not in vague]
        kept = [question for row, question in enumerate(kept) if row not in vague]
    counts["kept"] = len(kept)
    for change in (change for one in explicit for change in one.changes):
        counts[f"explicit_{change}"] += 1
    counts["explicit"] = sum(bool(one.changes) for one in explicit)
    built = _drawn(_merged(kept, explicit, settings), settings)
    for one in built:
        counts[f"built_of_{one.parts}"] += 1
    counts["not_drawn"] = len(kept) - sum(one.parts for one in built)
    counts["built"] = len(built)
    return built, {name: counts[name] for name in sorted(counts)}


def raw_questions(questions: Iterable[SourceQuestion], built: Iterable[BuiltQuestion]) -> list[BuiltQuestion]:
    """The questions that built ones consist of, each alone and worded as its source released it."""
    used = {(question.dataset, question.question_id) for one in built for question in one.released}
    return [
        _built([question], question.text) for question in questions if (question.dataset, question.question_id) in used
    ]


def _searchable(
    questions: Sequence[SourceQuestion], settings: QuestionSettings, counts: Counter[str]
) -> list[SourceQuestion]:
    """Those that pass the filter."""
    counts.update(too_short=0, stop_words=0, text_only=0)
    stop_words = stop_words_of(settings.spacy_model)
    kept = []
    for question in questions:
        if question.evidence_from == "text" and not settings.text_only:
            counts["text_only"] += 1
            continue
        reason = objection(_whole(question), stop_words, settings.min_words, settings.max_stop_share)
        if reason:
            counts[reason] += 1
        else:
            kept.append(question)
    return kept


def _distinct(
    questions: Sequence[SourceQuestion], settings: QuestionSettings, counts: Counter[str]
) -> list[SourceQuestion]:
    """The first of each group of near-duplicates on one table, in order."""
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, question in enumerate(questions):
        rows_of[question.table_id].append(row)
    stay: list[int] = []
    for rows in rows_of.values():
        texts = [_whole(questions[row]) for row in rows]
        answers = [questions[row].answers for row in rows]
        stay += [rows[at] for at in first_of_each(texts, answers, settings.duplicate_similarity)]
    counts["near_duplicates"] = len(questions) - len(stay)
    return [questions[row] for row in sorted(stay)]


def _explicit(
    questions: Sequence[SourceQuestion],
    tables: Mapping[str, SourceTable],
    settings: QuestionSettings,
    counts: Counter[str],
    progress: Progress | None,
    rewriter: Rewriter | None,
) -> list[Explicit]:
    if not settings.decontextualize:
        return [Explicit(tidy(question.text), tidy(question.text), bool(question.history)) for question in questions]
    contexts = [Context(tables[question.table_id].caption, question.history) for question in questions]
    texts = [question.text for question in questions]
    return Decontextualizer(settings.spacy_model, rewriter).rewrite(texts, contexts, progress)


def _merged(
    questions: Sequence[SourceQuestion], explicit: Sequence[Explicit], settings: QuestionSettings
) -> list[BuiltQuestion]:
    """Merges questions on one table, and finishes the sentences of those that stay alone."""
    built = []
    for rows, chance in sorted(_groups(questions, explicit, settings), key=lambda group: group[0]):
        own = [questions[row] for row in rows]
        statement = own[0].kind == "statement"
        if len(rows) == 1:
            text = sentence(explicit[rows[0]].text, statement)
        else:
            parts = [Part(explicit[row].text, explicit[row].within, explicit[row].refers_back) for row in rows]
            text = merged(parts, statement, own[0].sequence is not None, chance)
        built.append(_built(own, text))
    return built


def _groups(
    questions: Sequence[SourceQuestion], explicit: Sequence[Explicit], settings: QuestionSettings
) -> Iterator[tuple[list[int], random.Random]]:
    """The rows of each built question, in order, and the random numbers that word it."""
    rows_of: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, question in enumerate(questions):
        rows_of[question.dataset, question.table_id, question.kind, question.sequence or ""].append(row)
    for key, rows in rows_of.items():
        chance = _chance(settings, *key)
        if not key[-1]:
            texts = [explicit[row].text for row in rows]
            share, similar = settings.merge_share, settings.merge_similarity
            groups = independent_groups(texts, share, settings.max_parts, similar, chance)
        elif settings.merge_share:
            rows.sort(key=lambda row: questions[row].position)
            groups = sequence_groups([questions[row].position for row in rows], settings.max_parts, chance)
        else:
            groups = [[at] for at in range(len(rows))]
        for group in groups:
            yield [rows[at] for at in group], chance


def _drawn(built: Sequence[BuiltQuestion], settings: QuestionSettings) -> list[BuiltQuestion]:
    """At most `max_per_table` of the questions on each table, in order."""
    if not settings.max_per_table:
        return list(built)
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, one in enumerate(built):
        rows_of[one.source_id].append(row)
    stay: list[int] = []
    for table, rows in rows_of.items():
        stay += _chance(settings, "draw", table).sample(rows, min(settings.max_per_table, len(rows)))
    return [built[row] for row in sorted(stay)]


def _built(questions: Sequence[SourceQuestion], text: str) -> BuiltQuestion:
    answered = all(question.answers for question in questions)
    answers = tuple(answer for question in questions for answer in question.answers) if answered else ()
    return BuiltQuestion(text, answers, tuple(questions))


def _whole(question: SourceQuestion) -> str:
    """A question with those before it that it builds on."""
    return " ".join((*question.history, question.text))


def _chance(settings: QuestionSettings, *key: str) -> random.Random:
    """Random numbers that depend on the seed and the table alone, so that other tables don't change its questions."""
    return random.Random("\n".join([str(settings.seed), *key]))
