"""Few-shot examples: packaged ones, or a user's from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gtr_gpu.errors import GTRError, UnreadableSourceError
from gtr_gpu.prompts.settings import AnswerKind, Example

_OURS = Path(__file__).parent / "examples"
_WANTED = '{"query": "Which ...?", "reasoning": "1. ...", "answer": "..."}'


def packaged_examples(kind: AnswerKind) -> tuple[Example, ...]:
    """Our examples of a kind of answer, the best first."""
    return read_examples(_OURS / f"{kind}.jsonl")


def read_examples(path: Path) -> tuple[Example, ...]:
    """The examples of a file of JSON lines with `query`, `answer` and, by choice, `reasoning`.

    An answer is a text, or a list of texts.

    Raises:
        GTRError: The file is missing, damaged or empty, or a line is no such object; the message names the line.
    """
    from gtr_gpu.tables.streams import open_binary, readable

    try:
        with readable(), open_binary(path) as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise GTRError(f"{path} can't be read: it is not UTF-8 text; save it as JSON lines in UTF-8") from None
    except UnreadableSourceError as error:
        raise GTRError(f"{path} can't be read: {error}") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise GTRError(f"{path} holds no example; each line must be an object such as {_WANTED}")
    return tuple(_example(line, f"{path}, line {number}") for number, line in lines)


def _example(line: str, place: str) -> Example:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise GTRError(f"{place} is not JSON ({error}); it must be an object such as {_WANTED}") from None
    if not isinstance(value, dict):
        raise GTRError(f"{place} must be an object such as {_WANTED}")
    fields: dict[str, Any] = value
    question, reasoning, answer = fields.get("query"), fields.get("reasoning", ""), fields.get("answer")
    for name, given in (("query", question), ("reasoning", reasoning)):
        if not isinstance(given, str) or (name == "query" and not given.strip()):
            raise GTRError(f"{place}: `{name}` must be a text, got {json.dumps(given)[:60]}")
    if not _is_answer(answer):
        raise GTRError(f"{place}: `answer` must be a text or a list of texts, got {json.dumps(answer)[:60]}")
    return Example(str(question), str(reasoning), answer if isinstance(answer, str) else tuple(answer or ()))


def _is_answer(answer: Any) -> bool:  # noqa: ANN401 (whatever JSON holds)
    texts = answer if isinstance(answer, list) else [answer]
    return bool(texts) and all(isinstance(text, str) and text.strip() for text in texts)
