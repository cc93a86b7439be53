"""What a model's server answers, whole or as a stream: read within limits, and checked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gtr_gpu.language_models import faults
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.faults import Fault

MOST_BYTES = 32 << 20
"""The longest answer that is read."""

# A token is seldom longer than a few characters, but some are runs of blanks.
_CHARACTERS_OF_A_TOKEN = 40
_FREE_CHARACTERS = 10_000
# An event of one token is a few hundred bytes, and the probabilities that some servers add are more.
_BYTES_OF_A_TOKEN = 4_000
_CHECK = "check that base_url is an OpenAI endpoint, and the server's log"


class Reply(NamedTuple):
    """A whole answer of a server.

    Attributes:
        text: The model's text, without its reasoning where the server keeps that apart.
        finish_reason: Why it stopped, in the server's words.
        prompt_tokens: Tokens that it read, where it is told.
        completion_tokens: Tokens that it wrote, where it is told.
    """

    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass
class Stream:
    """What has come of a stream.

    Attributes:
        pieces: The pieces of the text.
        characters: The characters of text and reasoning.
        events: The events.
        reasoned: Whether there was reasoning, which is no part of the text.
        refusal: What the model says in place of an answer.
        finish_reason: Why the model stopped, once that is told.
        usage: What the server counted, once that is told.
        done: Whether the server has said that this was all.
    """

    pieces: list[str] = field(default_factory=list)
    characters: int = 0
    events: int = 0
    reasoned: bool = False
    refusal: str = ""
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    done: bool = False

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)


async def read_body(pieces: AsyncIterator[bytes], limit: int = MOST_BYTES) -> bytes:
    """A whole body.

    Raises:
        Fault: It is longer than `limit` bytes.
    """
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > limit:
            raise Fault(f"sends more than {limit >> 20} MiB for one answer", "check base_url, and the server's log")
    return bytes(body)


def parse_reply(body: bytes, address: Address, model: str) -> Reply:
    """The reply that a body holds.

    Raises:
        Fault: It holds none.
    """
    value = _parse(body)
    if isinstance(value, dict) and value.get("error"):
        raise faults.of_error_body(value["error"], address, model)
    if not isinstance(value, dict):
        begin = faults.shortened(body[:100].decode("utf-8", "replace"), address)
        raise Fault(f"answers with what isn't JSON of a completion ({begin!r})", _CHECK, retry=True)
    choice = _first_choice(value)
    if choice is None:
        raise Fault("answers without a choice", _CHECK, retry=True)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Fault("answers with a choice that holds no message", _CHECK, retry=True)
    reasoned = bool(message.get("reasoning_content") or message.get("reasoning"))
    return _reply(message, reasoned, _word(choice.get("finish_reason")), value.get("usage"), address)


async def read_stream(
    pieces: AsyncIterator[bytes],
    stream: Stream,
    show: Callable[[str], None],
    alive: Callable[[], None],
    max_new_tokens: int,
    address: Address,
    model: str,
) -> None:
    """Reads a stream of server-sent events to its end.

    Args:
        pieces: The bytes, however they come.
        stream: Is filled in as they come, so that it tells how far an interrupted one got.
        show: Is given each piece of the text.
        alive: Is called whenever a piece has come; a server that keeps a connection open without one stalls.
        max_new_tokens: How much the model was allowed to write.
        address: The server.
        model: The model's name.

    Raises:
        Fault: It is no such stream, holds an error, or doesn't end.
    """
    most = max_new_tokens * _CHARACTERS_OF_A_TOKEN + _FREE_CHARACTERS
    lines = _lines(pieces, MOST_BYTES + max_new_tokens * _BYTES_OF_A_TOKEN)
    async for line in lines:
        # Of the fields of an event only `data` matters; comments keep a connection alive.
        if not line.startswith(b"data:"):
            if line[:1] == b"{" and not stream.pieces:
                _take_whole(b"\n".join([line, *[rest async for rest in lines]]), stream, show, address, model)
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            stream.done = True
            return
        if data:
            before = stream.characters
            _take_event(data, stream, show, address, model)
            if stream.characters > before:
                alive()
        if stream.characters > most or stream.events > most:
            raise Fault(f"doesn't stop after {max_new_tokens} tokens", "look at the server's settings")


def stream_reply(stream: Stream, address: Address) -> Reply:
    """The reply that a stream made, once it has ended.

    Raises:
        Fault: It ended too early.
    """
    if stream.finish_reason is None and not stream.done:
        raise Fault("ended its stream too early", "ask again; the server's log may tell why", retry=True)
    message = (
        {"content": stream.text or None, "refusal": stream.refusal} if stream.refusal else {"content": stream.text}
    )
    return _reply(message, stream.reasoned, stream.finish_reason, stream.usage, address)


def _take_event(data: bytes, stream: Stream, show: Callable[[str], None], address: Address, model: str) -> None:
    event = _parse(data)
    if not isinstance(event, dict):
        begin = faults.shortened(data[:100].decode("utf-8", "replace"), address)
        raise Fault(f"streams what isn't JSON of a completion ({begin!r})", _CHECK, retry=True)
    if event.get("error"):
        raise faults.of_error_body(event["error"], address, model)
    stream.events += 1
    if isinstance(event.get("usage"), dict):
        stream.usage = event["usage"]
    choice = _first_choice(event)
    if choice is None or choice.get("index"):  # the event that tells the usage has none; of several the first counts
        return
    stream.finish_reason = _word(choice.get("finish_reason")) or stream.finish_reason
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return
    for name in ("reasoning_content", "reasoning"):
        if isinstance(delta.get(name), str) and delta[name]:
            stream.reasoned = True
            stream.characters += len(delta[name])
    if isinstance(delta.get("refusal"), str):
        stream.refusal += delta["refusal"]
        stream.characters += len(delta["refusal"])
    _add(stream, _text(delta.get("content")), show)


def _take_whole(line: bytes, stream: Stream, show: Callable[[str], None], address: Address, model: str) -> None:
    """Takes the answer of a server that knows no streams, and sends all at once."""
    reply = parse_reply(line, address, model)
    stream.finish_reason, stream.done = reply.finish_reason, True
    stream.usage = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    _add(stream, reply.text, show)


def _add(stream: Stream, text: str | None, show: Callable[[str], None]) -> None:
    if text:
        stream.pieces.append(text)
        stream.characters += len(text)
        show(text)


def _reply(
    message: dict[str, Any], reasoned: bool, finish_reason: str | None, usage: object, address: Address
) -> Reply:
    text = _text(message.get("content"))
    counts = usage if isinstance(usage, dict) else {}
    if not text and reasoned:
        if finish_reason == "length":
            raise Fault("spent all its tokens on reasoning and gave no answer", "raise max_new_tokens")
        raise Fault("gave reasoning and no answer", "raise max_new_tokens, or take another model", retry=True)
    if not text and (finish_reason == "tool_calls" or message.get("tool_calls")):
        raise Fault("has a model that calls a tool in place of an answer", "take another model")
    if text is None:
        if isinstance(message.get("refusal"), str):
            said = faults.shortened(message["refusal"], address)
            raise Fault(f"has a model that refuses to answer ({said})", "ask in other words, or another model")
        if finish_reason == "content_filter":
            raise Fault("filters the answer out", "ask in other words, or another model")
        raise Fault("answers without content", _CHECK, retry=True)
    return Reply(
        address.redacted(text), finish_reason, _count(counts, "prompt_tokens"), _count(counts, "completion_tokens")
    )


def _text(content: object) -> str | None:
    """The text of a message's content, which some servers give in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts else None
    return None


def _first_choice(value: dict[str, Any]) -> dict[str, Any] | None:
    choices = value.get("choices")
    found = [one for one in choices if isinstance(one, dict)] if isinstance(choices, list) else []
    return min(found, key=lambda one: one.get("index") not in (0, None)) if found else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(usage: dict[str, Any], name: str) -> int | None:
    number = usage.get(name)
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def _parse(text: bytes) -> Any:  # noqa: ANN401 (whatever a server says)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


async def _lines(pieces: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Lines as server-sent events have them; the ends of lines that Unicode knows besides are parts of texts."""
    rest = bytearray()
    taken = 0
    async for piece in pieces:
        taken += len(piece)
        if taken > limit:
            raise Fault(f"sends more than {limit >> 20} MiB for one answer", _CHECK)
        *lines, last = piece.split(b"\n")
        for line in lines:
            if line or rest:
                yield bytes(rest + line).rstrip(b"\r")
                rest.clear()
        rest += last
    if rest:
        yield bytes(rest)
