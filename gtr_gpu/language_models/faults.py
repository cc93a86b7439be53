"""What can go wrong with a model's server, each in one sentence: what happened, and what to do about it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.model import ModelError

if TYPE_CHECKING:
    import openai

CHECK_SERVER = "check that base_url is an OpenAI endpoint, and the server's log"

_SHOWN_CHARACTERS = 300
_OUT_OF_CREDIT = re.compile(r"insufficient_quota|billing|credit", re.IGNORECASE)
_NO_MODEL = re.compile(r"model_not_found|pinned to|model .{0,80}(does not|doesn't) exist", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|maximum.{0,40}tokens|too (long|large|many tokens)|exceed.{0,40}tokens",
    re.IGNORECASE,
)


def explained(error: Exception, address: Address, model: str, timeout: float) -> ModelError:
    """The sentence for an exception of the client.

    Args:
        error: The exception, raised once the client had repeated the call as often as it may.
        address: The server.
        model: The model's name.
        timeout: The seconds that the server might be silent.

    Raises:
        Exception: The exception itself, where it is no fault of the server or the network.
    """
    import openai

    fatal = False
    for link in _chain(error):  # the client wraps what comes from the middle of an answer
        if isinstance(link, ModelError):
            return link
    if isinstance(error, openai.APIStatusError):
        said = _said(error, address)
        what, remedy, fatal = _refusal(error, said, address, model)
        what += f" ({error.status_code}: {said})" if said else f" ({error.status_code})"
    elif isinstance(error, (openai.APIConnectionError, TimeoutError)):
        what, remedy, fatal = _connection(error, timeout)
    elif isinstance(error, openai.APIError):
        what, remedy = f"reports an error ({_said(error, address)})", "look at the server's log"
    elif isinstance(error, (ValueError, RecursionError)):
        what, remedy = "answers with what isn't JSON", CHECK_SERVER
    else:
        raise error
    return ModelError(f"{address} {what}; {remedy}", fatal=fatal)


def shortened(text: str, address: Address) -> str:
    """A server's words for a message: one line, not too long, and without the key."""
    # The key is taken out first: of half of it nothing would be found.
    text = " ".join(address.redacted(text).split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _refusal(error: openai.APIStatusError, said: str, address: Address, model: str) -> tuple[str, str, bool]:
    """What an answer means that is no success, what to do, and whether every prompt would meet it."""
    status, words, key = error.status_code, f"{said} {error.code} {error.type}", address.key_variable
    if status < 400:
        return "sends its callers elsewhere", "check base_url, and give where it sends them if you trust it", True
    if status == 401 and address.key():
        return "doesn't accept the key", f"set the environment variable {key} to a valid one", True
    if status == 401:
        return "asks for a key", f"set the environment variable {key} to one", True
    if status == 402 or (status == 429 and _OUT_OF_CREDIT.search(words)):
        return "wants to be paid first", "look at the account's plan and limits", True
    if status == 403:
        return "forbids it", f"check what the key in {key} may do, and the model's name", True
    if status in (404, 405) or (status in (400, 422) and (error.param == "model" or _NO_MODEL.search(words))):
        remedy = "check its name, and that base_url is what comes before /chat/completions (often it ends in /v1)"
        return f"doesn't know the model {model!r}", remedy, True
    if status == 429:
        return "is asked too often", "lower concurrency, or wait", False
    if status in (408, 409) or status >= 500:
        return "failed", "look at the server's log", False
    if status == 413 or _TOO_LONG.search(words):
        return "finds the prompt too long", "lower prompt_tokens or max_new_tokens", False
    return "refuses the prompt", "change what it names", False


def _connection(error: Exception, timeout: float) -> tuple[str, str, bool]:
    import openai

    links = list(_chain(error))
    # The client's own errors don't tell a connection that was never there from one that broke.
    if {"ConnectError", "ConnectTimeout", "ProxyError"} & {type(link).__name__ for link in links}:
        return f"can't be reached ({_reason(links)})", "check that it runs and that base_url is right", True
    if isinstance(error, (openai.APITimeoutError, TimeoutError)):
        remedy = "raise timeout, or lower concurrency or max_new_tokens"
        return f"gave no whole answer within {timeout:g} seconds", remedy, False
    what = f"broke the connection off in the middle of an answer ({_reason(links)})"
    return what, "look at the server's log, or lower concurrency", False


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        # A name may stand for several addresses, and each of them may fail.
        link = link.exceptions[0] if isinstance(link, BaseExceptionGroup) else link.__cause__ or link.__context__


def _reason(links: list[BaseException]) -> str:
    """What the operating system, or else the HTTP library, says."""
    for link in reversed(links):
        if isinstance(link, OSError) and link.strerror:
            # Asyncio puts words of its own into errors of connections.
            return os.strerror(link.errno) if isinstance(link, ConnectionError) and link.errno else link.strerror
    return next((str(link) for link in reversed(links) if str(link)), type(links[-1]).__name__)


def _said(error: openai.APIError, address: Address) -> str:
    """The server's own words: protocols differ in where they are."""
    said = error.body
    for name in ("message", "detail", "msg", "error"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
            break
    if said is None:  # the client found no JSON, and took the text
        said = error.message
    return shortened(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str), address)
