"""What can go wrong with a model's server: what happened, whether to try again, and what to do about it."""

from __future__ import annotations

import email.utils
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

from gtr_gpu.language_models.address import Address

CONNECT_SECONDS = 10.0
LONGEST_WAIT = 120.0
"""A server that asks for a longer pause than so many seconds is not waited for."""

_SHOWN_CHARACTERS = 300
_RETRIED = (408, 409, 425, 429)
_OUT_OF_CREDIT = re.compile(r"insufficient_quota|billing|credit", re.IGNORECASE)
_NO_MODEL = re.compile(r"model_not_found|pinned to|model .{0,80}(does not|doesn't) exist", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|maximum.{0,40}tokens|too (long|many tokens)|exceed.{0,40}tokens", re.IGNORECASE
)


class Refused(Exception):  # noqa: N818 (an answer of the server, which becomes a Fault)
    """An answer that is no success.

    Attributes:
        status: Its HTTP status.
        headers: Its headers, by lower-case names.
        body: The beginning of its body.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.headers = headers
        self.body = body


class Fault(Exception):  # noqa: N818 (it becomes a ModelError)
    """What went wrong with one try.

    Attributes:
        what: What the server did, as a predicate.
        remedy: What to do about it.
        retry: Whether another try may do better.
        fatal: Whether every other prompt would meet it too.
        wait: The seconds that the server asks to wait, or None.
        status: The HTTP status, where that is what went wrong.
        parameters: The parameters that the server names in its refusal.
        message: The server's own words, redacted.
        tries: How often it was tried.
    """

    def __init__(
        self,
        what: str,
        remedy: str,
        *,
        retry: bool = False,
        fatal: bool = False,
        wait: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy
        self.retry = retry
        self.fatal = fatal
        self.wait = wait
        self.status = status
        self.parameters: frozenset[str] = frozenset()
        self.message = ""
        self.tries = 1

    def sentence(self, address: Address) -> str:
        """The whole sentence: who, what, how often it was tried, and the remedy."""
        tries = f", {self.tries} times" if self.tries > 1 else ""
        return f"{address} {self.what}{tries}; {self.remedy}"


def of_exception(error: BaseException, address: Address, timeout: float) -> Fault | None:
    """The fault behind an exception of the client; None where it is no fault of the server or the network.

    Args:
        error: The exception.
        address: The server.
        timeout: The seconds that the server was given.
    """
    links = list(chain(error))
    # The client's HTTP library is another one in other versions, of the same class names.
    kinds = {kind.__name__ for link in links for kind in type(link).__mro__}
    if "ConnectTimeout" in kinds:
        reason = f"no connection within {CONNECT_SECONDS:g} seconds"
    elif kinds & {"ConnectError", "ProxyError"}:
        reason = _reason(links)
    elif kinds & {"TimeoutException", "TimeoutError", "APITimeoutError"}:
        return Fault(
            f"gave no whole answer within {timeout:g} seconds",
            "raise timeout, or lower concurrency or max_new_tokens",
            retry=True,
        )
    elif kinds & {"RequestError", "StreamError", "APIConnectionError"}:
        what = f"broke the connection off in the middle of an answer ({address.redacted(_reason(links))})"
        return Fault(what, "look at the server's log, or lower concurrency", retry=True)
    else:
        return None
    remedy = "check that it runs and that base_url is right"
    return Fault(f"can't be reached ({address.redacted(reason)})", remedy, retry=True, fatal=True)


def of_refusal(refused: Refused, address: Address, model: str) -> Fault:
    """The fault behind an answer that is no success."""
    body = _json(refused.body)
    said = _message(body, refused.body, address)
    parameters = frozenset(_parameters(body, said))
    words = f"{said} {_field(body, 'code')} {_field(body, 'type')}"
    fault = (
        _refusal_of_all(refused, words, parameters, address, model)
        or _passing_refusal(refused)
        or _refusal_of_one(refused, words)
    )
    fault.status, fault.parameters, fault.message = refused.status, parameters, said
    fault.what += f" ({refused.status}: {said})" if said else f" ({refused.status})"
    return fault


def _refusal_of_all(
    refused: Refused, words: str, parameters: frozenset[str], address: Address, model: str
) -> Fault | None:
    """What every prompt would meet."""
    status, key = refused.status, address.key_variable
    what = remedy = ""
    if status < 400:
        target = _target(refused.headers.get("location", ""), address)
        what = "sends its callers elsewhere"
        remedy = f"give {target} as base_url if you trust it" if target else "check base_url"
    elif status == 401 and address.has_key():
        what, remedy = "doesn't accept the key", f"set the environment variable {key} to a valid one"
    elif status == 401:
        what, remedy = "asks for a key", f"set the environment variable {key} to one"
    elif status == 402 or (status == 429 and _OUT_OF_CREDIT.search(words)):
        what, remedy = "wants to be paid first", "look at the account's plan and limits"
    elif status == 403:
        what, remedy = "forbids it", f"check what the key in {key} may do, and the model's name"
    elif status in (404, 405) or (status in (400, 422) and (_NO_MODEL.search(words) or "model" in parameters)):
        what = f"doesn't know the model {model!r}"
        remedy = "check its name, and that base_url is what comes before /chat/completions (often it ends in /v1)"
    return Fault(what, remedy, fatal=True) if what else None


def _passing_refusal(refused: Refused) -> Fault | None:
    """What may pass by itself."""
    if refused.status not in _RETRIED and refused.status < 500:
        return None
    wait = retry_after(refused.headers)
    if wait is not None and wait > LONGEST_WAIT:
        return Fault(f"asks to wait {wait:,.6g} seconds", "run it again later")
    if refused.status == 429:
        return Fault("is asked too often", "lower concurrency, or wait", retry=True, wait=wait)
    return Fault("failed", "look at the server's log", retry=True, wait=wait)


def _refusal_of_one(refused: Refused, words: str) -> Fault:
    """What lies with one prompt."""
    if refused.status == 413 or _TOO_LONG.search(words):
        return Fault("finds the prompt too long", "lower prompt_tokens or max_new_tokens")
    return Fault("refuses the prompt", "change what it names")


def of_error_body(error: object, address: Address, model: str) -> Fault:
    """The fault behind an error that comes with the status of a success."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        return of_refusal(Refused(code, {}, json.dumps({"error": error}).encode()), address, model)
    said = _message({"error": error}, b"", address)
    return Fault(f"reports an error ({said})" if said else "reports an error", "look at the server's log", retry=True)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait, or None; it says them as a number or as a date."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, date.timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and those that led to it, the outermost first."""
    link: BaseException | None = error
    while link is not None:
        yield link
        # A name may stand for several addresses, and each of them may fail.
        link = link.exceptions[0] if isinstance(link, BaseExceptionGroup) else link.__cause__ or link.__context__


def shortened(text: str, address: Address) -> str:
    """A server's words for a message: one line, not too long, and without secrets."""
    # Secrets are taken out first: of half a key nothing would be found.
    text = _line(address.redacted(text))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _line(text: str) -> str:
    return " ".join(text.split())


def _target(location: str, address: Address) -> str:
    """The base URL that a server sends its callers to; empty where that is none."""
    try:
        url = address.redacted(_line(urljoin(address.url, location))) if location else ""
    except ValueError:  # it is no URL
        return ""
    url = re.sub(r"/chat/completions/?$", "", re.sub(r"[?#].*", "", url))
    return url[:_SHOWN_CHARACTERS] if url.startswith(("http://", "https://")) else ""


def _json(body: bytes) -> Any:  # noqa: ANN401 (whatever a server says)
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _field(body: Any, name: str) -> str:  # noqa: ANN401
    error = body.get("error", body) if isinstance(body, dict) else {}
    return str(error.get(name) or "") if isinstance(error, dict) else ""


def _message(body: Any, raw: bytes, address: Address) -> str:  # noqa: ANN401
    error = body.get("error", body) if isinstance(body, dict) else body
    said: object = error
    if isinstance(error, dict):
        said = error.get("message") or error.get("detail") or error.get("msg") or error.get("error")
        # FastAPI lists what is wrong with a request.
        if isinstance(said, list):
            said = "; ".join(
                f"{'.'.join(map(str, place)) if isinstance(place := one.get('loc'), list) else place}: {one.get('msg')}"
                for one in said
                if isinstance(one, dict)
            )
    if said is None:
        said = raw.decode("utf-8", "replace")
        if "<html" in said[:1000].lower() or "<!doctype" in said[:1000].lower():
            title = re.search(r"<title>(.{0,300}?)</title>", said, re.IGNORECASE | re.DOTALL)
            said = title.group(1) if title else ""
    return shortened(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False), address)


def _parameters(body: Any, said: str) -> Iterator[str]:  # noqa: ANN401
    named = _field(body, "param")
    if named:
        yield named
        return
    detail = body.get("detail") if isinstance(body, dict) else None
    for one in detail if isinstance(detail, list) else []:
        if isinstance(one, dict) and isinstance(one.get("loc"), list) and one["loc"]:
            yield str(one["loc"][-1])
    # The first that is quoted: what follows may be the advice what to take instead.
    quoted = re.search(r"['\"`]([a-z][a-z_]+)['\"`]", said)
    if quoted:
        yield quoted.group(1)


def _reason(links: list[BaseException]) -> str:
    """What the operating system, or else the HTTP library, says."""
    for link in reversed(links):
        verify = getattr(link, "verify_message", None)
        if verify:
            return f"its certificate isn't trusted: {verify}"
        if isinstance(link, OSError) and link.strerror:
            # Asyncio puts words of its own into errors of connections.
            return os.strerror(link.errno) if isinstance(link, ConnectionError) and link.errno else link.strerror
    for link in reversed(links):
        if str(link):
            return _line(str(link))[:_SHOWN_CHARACTERS]
    return type(links[-1]).__name__
