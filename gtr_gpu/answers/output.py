"""A model's output taken apart: its thought, its reasoning, and the text of its answer, however they are marked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from gtr_gpu.answers.untagged import answer_of_json, find_untagged
from gtr_gpu.prompts.prompt import Prompt
from gtr_gpu.prompts.settings import AnswerKind

_SPECIAL = re.compile(r"<\|[\w ▁]{1,40}\|>|</?s>|<(?:end_of_turn|eos|pad)>")
_THOUGHT = re.compile(r"[<◁\[]\s{0,3}([/\\]?)\s{0,3}(?:seed:)?(?:think|thinking|thought)\s{0,3}[>▷\]]", re.IGNORECASE)
# Tokens that begin and end a thought, where a server passes them on.
_BEGIN_OF_THOUGHT = re.compile(
    r"<\|channel\|>(?:analysis|commentary)[^<]{0,40}<\|message\|>|<\|(?:START_THINKING|begin_of_thought)\|>"
)
_END_OF_THOUGHT = re.compile(r"<\|channel\|>final<\|message\|>|<\|(?:END_THINKING|end_of_thought)\|>")
_TAG = re.compile(r"<\s{0,3}([/\\]?)\s{0,3}(?:final[\s_-]?)?(answers?|reasonings?)\b[^<>\n]{0,80}>", re.IGNORECASE)
_HALF_TAG = re.compile(r"</?[a-z]{0,12}\s{0,3}$", re.IGNORECASE)
_ANSWER_IN_PROMPT = re.compile(r"<answer>([^<]{0,300})</answer>", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"[\[<({]+[^\[\]]{0,80}\b(?:answers?|response|reasoning|steps|your|insert|items?)\b[^\[\]]{0,80}[\])}>]+|"
    r"[\[<({]?\s*(?:\.{2,}|…)\s*[\])}>]?",
    re.IGNORECASE,
)
_OPENING = tuple("[<({")
_FENCE = re.compile(r"^[ \t]*```[\w-]{0,20}[ \t]*$|^[ \t]*\*+[ \t]*$", re.MULTILINE)
_LINE_START = re.compile(r"(?:^|\n)[\s*#>]*$")


class Output(NamedTuple):
    """What an output holds.

    Attributes:
        reasoning: The reasoning, or the empty string.
        answer: The text of the answer as it stands; None where there is none.
    """

    reasoning: str
    answer: str | None


class _Block(NamedTuple):
    """A piece of an output between two tags.

    Attributes:
        name: `answer`, `reasoning`, or the empty string for text in no tag.
        text: What it holds.
        closed: Whether it ends with its closing tag.
        opened: Whether an opening tag begins it.
        meant: Whether it is no tag that was only spoken of: closed, or opened at the start of a line.
    """

    name: str
    text: str
    closed: bool
    opened: bool
    meant: bool


def take_apart(raw: str, prompt: Prompt, kind: AnswerKind, cut: bool) -> Output:
    """Finds reasoning and answer in an output.

    Of several answers the last counts that is neither empty nor a placeholder, since models correct themselves and
    repeat the form before they fill it in. What a model only thinks (`<think>`) is never its answer.

    Args:
        raw: The output.
        prompt: Its prompt, whose own words are no answer.
        kind: What was asked for.
        cut: Whether the output ends at its limit, so that its last line may be half a one.
    """
    text = _END_OF_THOUGHT.sub("</think>", _BEGIN_OF_THOUGHT.sub("<think>", raw.replace("\r\n", "\n")))
    text = _SPECIAL.sub("\n", text)
    echo = prompt.text.strip()
    if echo and echo in text:
        text = text.replace(echo, "\n")
    thought, body = _without_thought(text)
    blocks = list(_blocks(body))
    reasoning = "\n".join(_tidy(block.text) for block in blocks if block.name == "reasoning" and _filled(block, prompt))
    answer = _tagged(blocks, prompt, cut)
    if answer is None:
        answer, other = _untagged(blocks, prompt, kind, cut)
        reasoning = reasoning or other
    elif not thought and not any(block.name == "reasoning" for block in blocks):
        first = next(place for place, block in enumerate(blocks) if block.name == "answer")
        reasoning = "\n".join(filter(None, (_tidy(block.text) for block in blocks[:first])))
    return Output(reasoning or _tidy(_THOUGHT.sub("", thought)), answer)


def _without_thought(text: str) -> tuple[str, str]:
    """The thought of a reasoning model, and the rest.

    Templates open the thought themselves, so that only its end is written; and a thought may speak of its own end.
    """
    marks = list(_THOUGHT.finditer(text))
    if not marks:
        return "", text
    ends = [mark for mark in marks if mark.group(1)]
    mark = ends[-1] if ends else marks[0]
    thought, body = (text[: mark.start()], text[mark.end() :]) if ends else (text[mark.end() :], text[: mark.start()])
    again = _THOUGHT.search(body)
    if again:  # another thought, which has no end
        thought, body = f"{thought}\n{body[again.end() :]}", body[: again.start()]
    if not body.strip():
        # A model that forgets to end its thought, or ends it after the answer: an answer in due form at the very end.
        plain = _THOUGHT.sub("", thought)
        blocks = [block for block in _blocks(plain) if block.name or block.text.strip()]
        if blocks and blocks[-1].name == "answer" and blocks[-1].closed and blocks[-1].opened:
            return "", plain
    return thought, body


def _blocks(text: str) -> Iterator[_Block]:
    opening: re.Match[str] | None = None
    end = 0
    for tag in _TAG.finditer(text):
        content, closing, name = text[end : tag.start()], bool(tag.group(1)), _name(tag)
        if opening is not None:
            closed = closing and name == _name(opening)
            yield _Block(_name(opening), content, closed, True, closed or _starts_line(text, opening))
        elif closing and content.strip():
            yield _Block(name, content, True, False, True)
        elif content.strip():
            yield _Block("", content, True, False, False)
        opening, end = None if closing else tag, tag.end()
    if opening is not None:
        yield _Block(_name(opening), text[end:], False, True, _starts_line(text, opening))
    elif text[end:].strip():
        yield _Block("", text[end:], True, False, False)


def _name(tag: re.Match[str]) -> str:
    return "answer" if tag.group(2).lower().startswith("answer") else "reasoning"


def _starts_line(text: str, tag: re.Match[str]) -> bool:
    before = text[max(0, tag.start() - 40) : tag.start()]
    return before.rstrip(" *\t").endswith(">") or bool(_LINE_START.search(before))


class _Words:
    """The words of a prompt that are no answer."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt

    @cached_property
    def placeholder(self) -> str:
        """What stands for the answer in the form that the prompt ends with."""
        found = _ANSWER_IN_PROMPT.findall(self._prompt.text)
        last = found[-1].strip() if found else ""
        return last if last.startswith(_OPENING) else ""

    @cached_property
    def squeezed(self) -> str:
        return "".join(self._prompt.text.split())


def _tagged(blocks: list[_Block], prompt: Prompt, cut: bool) -> str | None:
    words = _Words(prompt)
    reasoning = ""
    found: str | None = None
    for place, block in enumerate(blocks):
        if block.name == "reasoning":
            reasoning = block.text
        if block.name != "answer" or not block.meant:
            continue
        if not block.opened and (place == 0 or blocks[place - 1].name != "reasoning"):
            continue  # a closing tag alone: the text before it is read like one without tags
        content = block.text if block.closed else _first_paragraph(block.text, cut and place == len(blocks) - 1)
        answer = _tidy(content)
        if answer and not is_placeholder(answer) and answer != words.placeholder:
            if not (reasoning.strip() and _echoes(reasoning, answer, words)):
                found = answer
            reasoning = ""
    return found


def _first_paragraph(text: str, cut: bool) -> str:
    """The beginning of an answer whose end is not marked; of one that was cut the lines that are surely whole."""
    half = _HALF_TAG.search(text)
    if half:
        text = text[: half.start()]
    elif cut:
        text = text.rpartition("\n")[0]
    return re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]


def _echoes(reasoning: str, answer: str, words: _Words) -> bool:
    """Whether reasoning and answer are those of an example in the prompt."""
    return "".join(f"{reasoning}</reasoning><answer>{answer}</answer>".split()) in words.squeezed


def _untagged(blocks: list[_Block], prompt: Prompt, kind: AnswerKind, cut: bool) -> tuple[str | None, str]:
    """The answer of an output without an answer in tags, and its reasoning."""
    last = max((place for place, block in enumerate(blocks) if block.name == "reasoning"), default=-1)
    rest = _tidy("\n".join(block.text for block in blocks[last + 1 :]))
    whole = _tidy("\n".join(block.text for block in blocks))
    in_json = answer_of_json(rest)
    if in_json is not None:
        return in_json
    answer = find_untagged(rest, kind, cut, bare=True)
    if answer is None and last >= 0:
        answer = find_untagged(whole, kind, cut, bare=False)
    lines = {line.strip() for line in prompt.text.splitlines()} if answer is not None else set()
    if answer is not None and (
        answer.strip() == prompt.question.strip()
        or is_placeholder(answer)
        or any(answer in line and line in lines for line in map(str.strip, whole.splitlines()))
    ):
        answer = None
    if answer is None:
        return None, whole if not is_placeholder(whole) else ""
    return answer, _before(rest, answer) if last < 0 else ""


def _before(text: str, answer: str) -> str:
    """The lines before the one that gives the answer."""
    start = text.rfind(answer)
    return text[: text.rfind("\n", 0, start) + 1].strip() if start > 0 else ""


def is_placeholder(text: str) -> bool:
    """Whether a text only stands for what was to be filled in, such as `[Final answer]` or `...`."""
    if _PLACEHOLDER.fullmatch(text) is None:
        return False
    try:
        return not isinstance(json.loads(text), list | dict)
    except (ValueError, RecursionError):
        return True


def _filled(block: _Block, prompt: Prompt) -> bool:
    text = _tidy(block.text)
    return bool(text) and not is_placeholder(text)


def _tidy(text: str) -> str:
    """The text without code fences, lone asterisks and bold type around it."""
    return _FENCE.sub("", text).strip()
