"""The answer of an output that marks it otherwise than by tags, or not at all."""

from __future__ import annotations

import json
import re

from gtr_gpu.answers.values import ANSWER, boxed, label_of
from gtr_gpu.prompts.settings import AnswerKind

_MARKS = " \t*_#>"
_SIGN = re.compile(rf"(?:the |my )?{ANSWER}\s*(?:is)?[*_ ]{{0,6}}[:\uff1a](.*)", re.IGNORECASE)
_HEADING = re.compile(r"(?:the )?(?:final )?answer", re.IGNORECASE)
_SENTENCE = re.compile(
    rf"\b(?:the|my) {ANSWER}(?: to (?:the|this|your) (?:question|query))?"
    r" (?:is|was|would be|should be)\b\s*:?(.*)",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|when|unless|whether) (?:the|it|they|there|a|an|no|this|that)\b", re.IGNORECASE)
# What follows `the answer is` in a sentence on where the answer stands.
_ELSEWHERE = re.compile(
    r"(?:(?:definitely|clearly|likely|probably) )?(?:as follows|above|below|to be found|found (?:in|by)|based on"
    r"|that (?:no|the)|in (?:the )?(?:\w+ ){0,2}(?:tables?|rows?|columns?|form))\b",
    re.IGNORECASE,
)
_STATEMENT = re.compile(r"\b(?:statement|claim|sentence) (?:is|isn't)\b.*", re.IGNORECASE)
_END_OF_SENTENCE = re.compile(r"(?<=[\w)\]\"'*%]{3})[.!]\s+(?=[A-Z])")
_KEY = re.compile(r'"(?:final[_ ]?)?answer"\s*:\s*("(?:[^"\\]|\\.)*")', re.IGNORECASE)
_BULLET = re.compile(r"(?:[-*•‣–]|\(?\d{1,3}[.)])\s+(?=\S)")
_STEP = re.compile(r"\(?\d{1,3}[.)]\s+(?:\S+\s+){3}|step \d", re.IGNORECASE)
_TALK = re.compile(
    r"(?:to (?:answer|find|determine|solve)|let'?s|first(?=,)|we (?:need|have|must|can)|i (?:need|will|would|am|have)|"
    r"the (?:query|question|user|table|prompt)|sure|okay|ok(?=,)|certainly|based on|here (?:is|are)|looking at|"
    r"(?:is|are) there|could you|can you|please|hmm|wait|well(?=,)|it depends|thinking|yes, i|great question|"
    r"i(?:'m| apologi[sz]e)|internal server error|error(?=:)|tables? \d+$|see (?:the )?table)\b",
    re.IGNORECASE,
)
_EXPLANATION = re.compile(r"(?:explanation|reasoning|reason|because|note)\b", re.IGNORECASE)
_PART_OF_TAG = re.compile(r"</?(?:answer|reasoning|think|table\d|unk)|/(?:answer|reasoning|think|table\d+)>")
_LONGEST, _MOST_WORDS = 100, 15


def answer_of_json(text: str) -> tuple[str, str] | None:
    """Answer and reasoning of a text that is a JSON object with an `answer`, the answer as text or JSON array."""
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        found = _KEY.search(text)
        answer = _string(found.group(1)) if found else None
        return None if answer is None else (answer, "")
    fields = {"".join(filter(str.isalpha, str(key).lower())): field for key, field in value.items()}
    answer = fields.get("finalanswer", fields.get("answer", fields.get("answers")))
    if answer is None:
        return None
    reasoning = fields.get("reasoning", fields.get("explanation", ""))
    steps = reasoning if isinstance(reasoning, list) else [reasoning]
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False), "\n".join(map(str, steps))


def _string(literal: str) -> str | None:
    try:
        return str(json.loads(literal, strict=False))
    except ValueError:
        return None


def find_untagged(text: str, kind: AnswerKind, cut: bool, bare: bool) -> str | None:
    """The answer in a text without tags; None where no sign tells which words are it.

    Signs are `Answer: X`, a heading with X under it, a boxed X, `the answer is X` on the last line, and, by choice, a
    text that is nothing but X; of a text that was cut, only those that don't have to be its end.

    Args:
        text: The text.
        kind: What was asked for.
        cut: Whether the last line may be half a one, which is then not read.
        bare: Whether a text that is nothing but a short line, or a list, counts.
    """
    if cut:
        text = text.rpartition("\n")[0]
    lines = [line.strip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return None
    signed = _after_sign(lines)
    if signed is not None:
        return signed
    box = boxed(text)
    if box is not None:
        return box
    if cut:
        return None  # whatever the model was about to say, these were not its last words
    sentence = _SENTENCE.search(lines[-1])
    if (
        sentence is not None
        and not _CONDITION.search(sentence.group(1))
        and not _ELSEWHERE.match(sentence.group(1).strip(_MARKS))
    ):
        return _END_OF_SENTENCE.split(sentence.group(1))[0].strip(_MARKS).removesuffix(".").rstrip("*_")
    if kind == "verification":
        return _verdict(lines)
    return _standing_alone([line for line in lines if line], kind) if bare else None


def _after_sign(lines: list[str]) -> str | None:
    for place in range(len(lines) - 1, -1, -1):
        line = lines[place].strip(_MARKS)
        sign = _SIGN.match(line)
        heading = sign is None and lines[place].startswith(("#", "**")) and _HEADING.fullmatch(line)
        if sign is None and not heading:
            continue
        said = sign.group(1).strip(_MARKS) if sign else ""
        return said or _paragraph(lines[place + 1 :])
    return None


def _paragraph(lines: list[str]) -> str | None:
    taken: list[str] = []
    for line in lines:
        if line:
            taken.append(line)
        elif taken:
            break
    return "\n".join(taken) or None


def _verdict(lines: list[str]) -> str | None:
    """The line of a verification that is a verdict: the first or the last, or its last words on the statement."""
    for line in (lines[0], lines[-1]):
        if len(line.split()) <= 3 and label_of(line) is not None:
            return line
    statement = _STATEMENT.search(lines[-1])
    return statement.group() if statement and len(lines[-1]) <= 3 * _LONGEST else None


def _are_items(lines: list[str]) -> bool:
    """Whether lines are the items of a list, and not the steps of a reasoning: all marked or none, and no sentences."""
    marked = [bool(_BULLET.match(line)) for line in lines]
    items = [_BULLET.sub("", line, count=1) for line in lines]
    return len(set(marked)) == 1 and not any(
        len(item) > _LONGEST or item.endswith((":", "?")) or _TALK.match(item) or (item[-1:] == "." and " " in item)
        for item in items
    )


def _standing_alone(lines: list[str], kind: AnswerKind) -> str | None:
    """The text where it is nothing but an answer: a list, or one short line, which an explanation may follow."""
    if kind == "list" and lines[0].startswith("["):
        return "\n".join(lines)
    if kind == "list" and len(lines) > 1:
        return "\n".join(lines) if _are_items(lines) else None
    if len(lines) > 1 and not _EXPLANATION.match(lines[1].strip(_MARKS)):
        return None
    line = lines[0]
    talk = (
        _STEP.match(line)
        or _TALK.match(line)
        or line.endswith((":", "?", "["))
        or _HEADING.fullmatch(line.strip(_MARKS))
        or _PART_OF_TAG.match(line)
        or _SENTENCE.search(line)
    )
    short = len(line) <= _LONGEST and len(line.split()) <= _MOST_WORDS
    return line if short and not talk and any(map(str.isalnum, line)) else None
