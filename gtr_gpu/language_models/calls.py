"""Calls of one model's server: each tried again where that may help, without parameters that the server refuses."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models import faults
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.faults import Fault, Refused
from gtr_gpu.language_models.model import Completion, ModelError
from gtr_gpu.language_models.replies import Reply, Stream, parse_reply, read_body, read_stream, stream_reply

if TYPE_CHECKING:
    import openai

T = TypeVar("T")

_LONGEST_BACKOFF = 30.0
_REFUSAL_BYTES = 1 << 16
_SEED = 0
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not (permitted|allowed|accepted)|extra|invalid"
    r"|deprecated",
    re.IGNORECASE,
)
_OUT_OF_RANGE = re.compile(r"too (large|long|big|many)|context|maximum|exceed|less than|greater than", re.IGNORECASE)

logger = logging.getLogger(__name__)


@dataclass
class Parameters:
    """The parameters of requests that some servers refuse: hosted reasoning models take no temperature, for one.

    Attributes:
        dropped: Those that are sent no longer.
        limit: What the limit of new tokens is called.
    """

    dropped: set[str] = field(default_factory=set)
    limit: str = "max_tokens"

    def of_request(self, max_new_tokens: int, stream: bool) -> dict[str, Any]:
        """The parameters of one request."""
        wanted: dict[str, Any] = {"temperature": 0, "seed": _SEED}
        if stream:
            wanted["stream_options"] = {"include_usage": True}
        wanted = {name: value for name, value in wanted.items() if name not in self.dropped}
        return wanted | {self.limit: max_new_tokens}

    def adapt(self, fault: Fault, sent: set[str], model: str) -> bool:
        """Leaves out what a server refuses; tells whether a request without it is another one than was sent."""
        if fault.status not in (400, 422) or not _UNSUPPORTED.search(fault.message):
            return False
        refused = fault.parameters & sent
        if "max_tokens" in refused:
            # The limit is never left out: without one a model may write for ever.
            if _OUT_OF_RANGE.search(fault.message):
                return False
            self.limit = "max_completion_tokens"
            return True
        optional = refused & {"temperature", "seed", "stream_options"}
        if optional - self.dropped - {"stream_options"}:
            logger.warning(
                "%s takes no %s, so its answers may differ from run to run", model, " and no ".join(sorted(optional))
            )
        self.dropped |= optional
        return bool(optional)


@dataclass(frozen=True)
class Manner:
    """How calls are made.

    Attributes:
        timeout: The seconds that the server has for one completion, or for the next piece of a stream.
        retries: How often a call that failed is repeated.
        backoff: The seconds before the first repetition; they double with each one.
    """

    timeout: float
    retries: int
    backoff: float


def make_client(address: Address, timeout: float) -> openai.AsyncOpenAI:
    """The client of a server, for one event loop.

    Raises:
        GTRError: The package is missing, or the settings of the environment don't let it work.
    """
    try:
        import openai
    except ImportError:
        raise GTRError("a model's server is asked through the package openai; pip install 'gtr-gpu[llm]'") from None
    address.authorization()
    _check_headers()
    limits = openai.Timeout(timeout, connect=min(timeout, faults.CONNECT_SECONDS))
    try:
        return openai.AsyncOpenAI(
            base_url=address.url,
            # Without one the client would take that of OPENAI_API_KEY, which may be meant for another server. The one
            # that is meant goes with each request, or nothing does: only there a client can be told to send none.
            api_key="none",
            max_retries=0,
            timeout=limits,
            http_client=openai.DefaultAsyncHttpxClient(
                timeout=limits, follow_redirects=False, event_hooks={"response": [_refuse]}
            ),
        )
    except Exception as error:  # such as a proxy that needs another package, in the words of the HTTP library
        reason = address.redacted(str(error))
        raise GTRError(
            f"{address} can't be asked ({reason}); check the environment's proxies and certificates"
        ) from None


def _check_headers() -> None:
    """Checks what the client makes headers of by itself."""
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"):
        value = os.environ.get(name, "")
        if name == "OPENAI_CUSTOM_HEADERS":
            value = value.replace("\n", "")
        if not (value.isascii() and value.isprintable()):
            raise GTRError(f"the environment variable {name} holds characters that no header has; mend it or unset it")


async def _refuse(response: Any) -> None:  # noqa: ANN401 (of whichever HTTP library the client has)
    """Raises on all that is no success, before the client reads a body of whatever length."""
    if 200 <= response.status_code < 300:
        return
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > _REFUSAL_BYTES:
                break
    except Exception as error:  # the status tells more than how its body broke off
        logger.debug("the body of status %d can't be read: %s", response.status_code, type(error).__name__)
    raise Refused(response.status_code, dict(response.headers), bytes(body[:_REFUSAL_BYTES]))


def _messages(prompt: str) -> list[Any]:
    # Halves of surrogate pairs are in no encoding that a request could have.
    return [{"role": "user", "content": prompt.encode("utf-16", "surrogatepass").decode("utf-16", "replace")}]


def _broken(fault: Fault, stream: Stream) -> Fault:
    """The fault of a stream, which can't be repeated once a part of it was shown."""
    if stream.pieces:
        fault.what += f", after {len(stream.text):,} characters of its answer"
        fault.retry = False
    return fault


class Calls:
    """Makes calls, in the event loop where it is used.

    Args:
        client: The client, which repeats nothing by itself: bodies that hold no answer are repeated like other faults,
            and all of one call count together.
        address: The server.
        model: The model's name.
        parameters: What the server takes; is changed as that shows.
        manner: How calls are made.
    """

    def __init__(
        self, client: openai.AsyncOpenAI, address: Address, model: str, parameters: Parameters, manner: Manner
    ) -> None:
        self._client = client
        self._address = address
        self._model = model
        self._parameters = parameters
        self._manner = manner
        # When a server asks one call to wait, the others wait too.
        self._resume = 0.0

    async def complete(self, prompt: str, max_new_tokens: int) -> Completion:
        """Completes a prompt.

        Raises:
            ModelError: There is no completion, after all repetitions.
        """

        async def attempt(sent: set[str]) -> Reply:
            async with asyncio.timeout(self._manner.timeout):
                parameters = self._parameters.of_request(max_new_tokens, stream=False)
                sent.update(parameters)
                create = self._client.chat.completions.with_streaming_response.create
                request: dict[str, Any] = {
                    "messages": _messages(prompt),
                    "extra_headers": self._headers(),
                    **parameters,
                }
                async with create(model=self._model, **request) as response:
                    body = await read_body(response.iter_bytes())
            return parse_reply(body, self._address, self._model)

        return await self._completion(attempt)

    async def stream(self, prompt: str, max_new_tokens: int, show: Callable[[str], None]) -> Completion:
        """Completes a prompt and shows the text as it comes; nothing is repeated once something was shown.

        Raises:
            ModelError: There is no completion, or not all of one.
        """

        async def attempt(sent: set[str]) -> Reply:
            stream = Stream()
            try:
                await self._read(prompt, max_new_tokens, show, stream, sent)
            except Exception as error:
                # What comes after the reason why the model stopped is not needed.
                if stream.finish_reason is None:
                    fault = self._fault(error)
                    raise _broken(fault, stream) from None
            try:
                return stream_reply(stream, self._address)
            except Fault as fault:
                raise _broken(fault, stream) from None

        return await self._completion(attempt)

    async def get(self, url: str) -> Any:  # noqa: ANN401 (JSON)
        """What the server says under a path after the base URL, or another URL.

        Raises:
            Fault: It says nothing, or what isn't JSON.
        """

        async def attempt(sent: set[str]) -> Any:  # noqa: ANN401
            async with asyncio.timeout(min(self._manner.timeout, faults.CONNECT_SECONDS)):
                # What `with_streaming_response` does too, for paths that the client has no method for.
                options: Any = {"headers": {**self._headers(), "X-Stainless-Raw-Response": "stream"}}
                response: Any = await self._client.get(url, cast_to=object, options=options)
                try:
                    body = await read_body(response.iter_bytes())
                finally:
                    await response.close()
            try:
                return json.loads(body)
            except (ValueError, RecursionError):
                raise Fault("answers with what isn't JSON", "check base_url", status=200) from None

        return await self._repeated(attempt)

    def _headers(self) -> dict[str, Any]:
        import openai

        return {"Authorization": self._address.authorization() or openai.Omit()}

    async def _read(
        self, prompt: str, max_new_tokens: int, show: Callable[[str], None], stream: Stream, sent: set[str]
    ) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._manner.timeout) as deadline:
            parameters = self._parameters.of_request(max_new_tokens, stream=True)
            sent.update(parameters)
            create = self._client.chat.completions.with_streaming_response.create
            request: dict[str, Any] = {"messages": _messages(prompt), "extra_headers": self._headers(), **parameters}
            async with create(model=self._model, stream=True, **request) as response:
                await read_stream(
                    response.iter_bytes(),
                    stream,
                    show,
                    lambda: deadline.reschedule(loop.time() + self._manner.timeout),
                    max_new_tokens,
                    self._address,
                    self._model,
                )

    async def _completion(self, attempt: Callable[[set[str]], Awaitable[Reply]]) -> Completion:
        start = time.perf_counter()
        try:
            reply = await self._repeated(attempt)
        except Fault as fault:
            raise ModelError(fault.sentence(self._address), fatal=fault.fatal) from None
        return Completion(*reply, seconds=time.perf_counter() - start)

    async def _repeated(self, attempt: Callable[[set[str]], Awaitable[T]]) -> T:
        tries, loop = 0, asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._resume - loop.time())
            tries += 1
            sent: set[str] = set()
            try:
                return await attempt(sent)
            except Exception as error:
                fault = self._fault(error)
            fault.tries = tries
            if self._parameters.adapt(fault, sent, self._model):
                tries -= 1
                continue
            if not fault.retry or tries > self._manner.retries:
                raise fault
            if fault.wait is not None:
                self._resume = max(self._resume, loop.time() + fault.wait)
            backoff = min(self._manner.backoff * 2.0 ** (tries - 1), max(_LONGEST_BACKOFF, self._manner.backoff))
            logger.debug("%s %s; try %d follows", self._address, fault.what, tries + 1)
            # Spread, so that calls that failed together don't come back together.
            await asyncio.sleep(backoff * random.uniform(0.75, 1.25))

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, Fault):
            return error
        # Some versions of the client wrap what comes from a hook of its HTTP library into an error of their own.
        for link in faults.chain(error):
            if isinstance(link, Refused):
                return faults.of_refusal(link, self._address, self._model)
        fault = faults.of_exception(error, self._address, self._manner.timeout)
        if fault is None:
            raise error
        return fault
