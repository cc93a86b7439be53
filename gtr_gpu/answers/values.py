"""The text of an answer as a value: a short text, the items of a list, or whether a statement is true."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from gtr_gpu.answers.answer import AnswerValue
from gtr_gpu.prompts.settings import AnswerKind

_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'", "nbsp": " "}
_ESCAPE = re.compile(r"&(?:(lt|gt|amp|quot|apos|nbsp)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));|\\\||\\u00(3c|5b)")
ANSWER = "(?:final |correct )?answer"
"""What an answer is called where it is announced."""
_PREFIX = re.compile(rf"[*_#> ]*(?:the )?(?:{ANSWER}|label|verdict)(?:[*_ ]*:|\s+is\b:?)[*_ ]*", re.IGNORECASE)
_BULLET = re.compile(r"[-*•‣–]\s+")
_NUMBER = re.compile(r"\(?(\d{1,4})[.)]\s+(?=\S)")
_NUMERIC = re.compile(r"[-+]?[\d.]+%?")
_NOTHING = re.compile(r"(?:n\s?/\s?a|n\.\s?a\.?|na|none|null|nil|nan|unknown|unanswerable|undetermined|[-–—_.…?\s]*)")
_NOTHING_AT_FIRST = re.compile(r"(?:N/A|NA)\s*(?:[(:;,.–—-]|(?:because|since|as)\b)|n/a\b")
# The words around an answer without one.
_FRAME = re.compile(
    rf"(?:(?:so|therefore|thus|hence),? )?(?:the )?{ANSWER}(?: is)?(?: as follows)?:?"
    rf"|(?:insert )?your {ANSWER}(?: here)?|(?:please )?(?:see|refer to) (?:the )?(?:tables?(?: \d+)?|above)"
)
_MARK = re.compile(r"(?:\(?\d{1,3}[.)]|[-*•])\s+(?=\S)")
_REGRET = re.compile(r"(?:unfortunately|sorry|regrettably)\b[,.]?\s+(?=\S)")
_VERBS = (
    "available|applicable|found|provided|given|mentioned|specified|stated|listed|known|present|included|determined|"
    "answered|identified|shown|in the|clear|possible"
)
# On what `_spelled_out` gives.
_UNKNOWING = re.compile(
    rf"not (?:{_VERBS}|enough|sufficient)\b"
    r"|(?:there (?:is|was|are) )?(?:insufficient|no|not enough) (?:\w+ ){0,2}"
    r"(?:answer|information|info|data|evidence|tables?)\b"
    r"|(?:i(?:'m| am)? |we |it )?(?:sorry|unable|cannot|could not|do not have|is not possible|is impossible)\b.*"
    r"\b(?:answer|determined?|find|provide|identify|tell|information|know|sorry|based on|to)\b"
    r"|(?:i |we )?do not know\b|(?:i'?m |i am )?(?:not sure|unsure)$|hard to say|i apologi[sz]e\b|as an ai\b"
    r"|(?:(?:0|no|zero) (?:results?|match(?:es)?)(?: (?:was |were )?found)?|nothing (?:was )?found)$"
    rf"|(?:the |this )?(?:\w+ ){{0,3}}?(?:answer|information|question|statement|data|it)\b.{{0,40}}?"
    rf"\b(?:(?:is|was|are) not|cannot be|could not be) (?:{_VERBS})\b"
    r"|(?:the |these )?(?:\w+ ){0,2}tables? (?:\w+ )?(?:do|does) not "
    r"(?:contain|provide|include|mention|have|hold|list|show|say|give|specify|tell|answer)"
    r"|(?:the |these )?(?:\w+ ){0,2}tables? (?:contain|provide|include|have|hold|give)s? no\b"
    r"|(?:none of the|no|neither of the|neither) (?:\w+ )?tables?\b"
    rf"|(?:no (?:\w+ ){{1,4}}(?:is|are|was|were)|[^.]{{1,80}}\b(?:is|are|was|were) not) (?:{_VERBS})"
    r"(?:$| (?:in|by|from|within) (?:the|any|these)\b)"
    r"|[^.]{1,80}\b(?:is|are|was|were) not in (?:the|any|these) (?:\w+ )?(?:tables?|data)\b"
)
_MOST_WORDS_OF_NOTHING = 30

_TRUE = (
    "true|yes|supported|supports|support|entailed|entails|entailment|correct|right|verified|confirmed|accurate|valid"
)
_FALSE = (
    "false|no|refuted|refutes|refute|contradicted|contradicts|contradiction|incorrect|wrong|inaccurate|unsupported|"
    "untrue|invalid"
)
_LABEL = re.compile(rf"\b(not |never )?(?:\w+ )?(?:({_TRUE})|({_FALSE}))\b")
_EITHER = re.compile(
    r"\b(?:part(?:ial)?ly|mostly|half|not enough|uncertain|unverifiable|unclear|neither|cannot|could not|"
    r"if|unless|whether)\b"
)
_LONGEST_LABEL = 300
# Such as bold type around an announcement around quotes.
_MOST_WRAPPINGS = 3


def value_of(text: str, kind: AnswerKind, is_cell: Callable[[str], bool] = lambda text: False) -> AnswerValue | None:
    """The value of an answer's text; None where it says that there is no answer.

    Args:
        text: The text, without tags.
        kind: What was asked for. A verification gives `True` or `False`.
        is_cell: Whether a text is a cell of the tables that the model saw: only then are commas taken to separate the
            items of a list, since names and dates hold commas as well.
    """
    for _ in range(_MOST_WRAPPINGS):
        if says_nothing(text):
            return None
        text = _unwrapped(text)
    if kind == "verification":
        return label_of(text)
    items, separator = _items(text, kind, is_cell), ", "
    if items is None:
        items, separator = _lines(text), " "
    items = [item for item in map(str.strip, items) if item]
    if not items or all(map(says_nothing, items)):
        return None
    return tuple(items) if kind == "list" else separator.join(items)


def unescaped(text: str) -> str:
    r"""The text with what a prompt escapes in cells (`&lt;`, `&#91;`, `\|`, `\u003c`, …) turned back, once."""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    name, decimal, hexadecimal, code = match.groups()
    hexadecimal = hexadecimal or code
    if name:
        return _ENTITIES[name]
    if not (decimal or hexadecimal):
        return "|"
    number = int(decimal) if decimal else int(hexadecimal, 16)
    printable = 32 <= number < 0x110000 and not 0xD800 <= number < 0xE000
    return chr(number) if printable else match.group()


def says_nothing(text: str) -> bool:
    """Whether a text says that there is no answer: `NA`, `not available`, `I cannot answer …`."""
    plain = text.strip().strip("*`\"'[]()").strip()
    words = _MARK.sub("", plain.lower().rstrip("."), count=1)
    if _NOTHING.fullmatch(words) or _FRAME.fullmatch(words) or _NOTHING_AT_FIRST.match(plain):
        return True
    if len(plain.split()) > _MOST_WORDS_OF_NOTHING:
        return False
    plain = _spelled_out(plain).rstrip(".")
    regret = _REGRET.match(plain)
    return _UNKNOWING.match(plain[regret.end() :] if regret else plain) is not None


def _spelled_out(text: str) -> str:
    """The text in lower case, with `not` as a word of its own: `can't` is `cannot`, and `don't` is `do not`."""
    plain = text.lower().replace("\u2019", "'")
    return re.sub(r"n't\b", " not", re.sub(r"\bcan(?:'t| not)\b", "cannot", plain))


def label_of(text: str) -> str | None:
    """`True` or `False` as a text says it in any of the usual words; None where it says neither, or both."""
    plain = _spelled_out(text).strip(" *`\"'.!()[]\n")
    if plain in ("1", "0"):
        if text.strip().endswith("."):
            return None  # the number of a step
        return "True" if plain == "1" else "False"
    if len(plain) > _LONGEST_LABEL or _EITHER.search(plain):
        return None
    found = [bool(match.group(2)) != bool(match.group(1)) for match in _LABEL.finditer(plain)]
    first = re.match(rf"(?:({_TRUE})|{_FALSE})(?=[.,;:!\n]|$)", plain)
    if first:
        return "True" if first.group(1) else "False"
    return ("True" if found[0] else "False") if found and len(set(found)) == 1 else None


def boxed(text: str) -> str | None:
    r"""What the last `\boxed{…}` of a text holds."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    first = start + len("\\boxed{")
    for place in range(first, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth < 0:
            content = text[first:place].strip()
            inner = re.fullmatch(r"\\(?:text|mathrm|textbf)\{([^{}]*)\}", content)
            return inner.group(1) if inner else content
    return None


def _unwrapped(text: str) -> str:
    """The text without what models put around an answer."""
    text = text.strip()
    prefix = _PREFIX.match(text)
    if prefix and text[prefix.end() :].strip():
        by_sentence = ":" not in prefix.group()
        text = text[prefix.end() :].strip()
        text = text.removesuffix(".") if by_sentence else text
    if text.startswith(("\\boxed", "$\\boxed", "\\(\\boxed", "\\[")):
        content = boxed(text)
        text = text if content is None else content
    for mark in ("**", "*", "`", "$", '"', "“"):
        close = "”" if mark == "“" else mark
        inner = text[len(mark) : len(text) - len(close)]
        if len(text) > len(mark) + len(close) and text.startswith(mark) and text.endswith(close) and mark not in inner:
            text = inner.strip()
    return text


def _items(text: str, kind: AnswerKind, is_cell: Callable[[str], bool]) -> list[str] | None:
    """The items of a text that is written as a list; None where it is not."""
    listed = _json_items(text)
    if listed is not None:
        return listed
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        lines = lines[1:]
    marked = _marked(lines, kind)
    if marked is not None:
        return [unescaped(_unwrapped(line)) for line in marked]
    if kind != "list":
        return None
    if len(lines) > 1:
        return [unescaped(_unwrapped(line)) for line in lines]
    for parts in (re.split(r"(?<!\\)\|", text.strip("| ")), text.split(";"), _by_commas(text, is_cell)):
        if len(parts) > 1:
            return [unescaped(_unwrapped(part)) for part in parts if part.strip()]
    return [unescaped(_unwrapped(text))]


def _json_items(text: str) -> list[str] | None:
    if not text.startswith(("[", "{")):
        return None
    value = _loaded(text)
    if isinstance(value, dict):
        fields = {str(key).lower(): field for key, field in value.items()}
        value = fields.get("answer", fields.get("answers", fields.get("items")))
        value = value if isinstance(value, list) or value is None else [value]
    if not isinstance(value, list):
        return None
    return [_plain(item) for item in value if item not in (None, "")]


def _loaded(text: str) -> Any:  # noqa: ANN401 (whatever JSON can hold)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    # As Python writes it. Numbers and names without quotes are no list: `[sic]`.
    items = re.fullmatch(r"\[\s*('[^'\n]*'(?:\s*,\s*'[^'\n]*')*)\s*,?\s*\]", text)
    return re.findall(r"'([^'\n]*)'", items.group(1)) if items else None


def _plain(item: object) -> str:
    return unescaped(item.strip()) if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _marked(lines: list[str], kind: AnswerKind) -> list[str] | None:
    """The lines without their bullets or numbers, where all of them have one."""
    if lines and all(_BULLET.match(line) for line in lines):
        return [_BULLET.sub("", line, count=1) for line in lines]
    numbers = [_NUMBER.match(line) for line in lines]
    counted = [int(number.group(1)) if number else -1 for number in numbers]
    # A single line such as `1. FC Köln` is a name.
    if counted == list(range(1, len(lines) + 1)) and (len(lines) > 1 or kind == "list"):
        return [_NUMBER.sub("", line, count=1) for line in lines]
    return None


def _by_commas(text: str, is_cell: Callable[[str], bool]) -> list[str]:
    parts = [part.strip() for part in re.split(r",\s+(?:and\s+)?", text) if part.strip()]
    certain = all(map(is_cell, parts)) or all(map(_NUMERIC.fullmatch, parts))
    return parts if certain and not is_cell(text) else [text]


def _lines(text: str) -> list[str]:
    return [unescaped(line.strip()) for line in text.split("\n") if line.strip()]
