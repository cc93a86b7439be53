"""Chat completions of one model through the client of the OpenAI protocol."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.faults import CHECK_SERVER, explained, shortened
from gtr_gpu.language_models.model import Completion, ModelError

if TYPE_CHECKING:
    import openai

_CONNECT_SECONDS = 10.0
# The client's: it waits no longer for a server that asks for a pause.
_LONGEST_WAIT = 120.0
_SEED = 0
_MOST_BYTES = 128 << 20
# A token is seldom longer than a few characters, but some are runs of blanks.
_CHARACTERS_OF_A_TOKEN = 40
_FREE_CHARACTERS = 10_000
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not (permitted|allowed|accepted)|extra|deprecated",
    re.IGNORECASE,
)

logger = logging.getLogger(__name__)


def make_client(address: Address, timeout: float, retries: int) -> openai.AsyncOpenAI:
    """The client of a server, for one event loop. It repeats calls and waits between them.

    Raises:
        GTRError: The package is missing, or the settings of the environment don't let it work.
    """
    try:
        import openai
    except ImportError:
        raise GTRError("a model's server is asked through the package openai; pip install 'gtr-gpu[llm]'") from None
    # Without a key the client would take that of OPENAI_API_KEY, which may be meant for another server.
    key = address.key() or "none"
    _check_headers()
    limits = openai.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS))
    try:
        # The prompt, and so the user's tables, go to nobody but the server that the user named.
        http = openai.DefaultAsyncHttpxClient(
            timeout=limits, follow_redirects=False, event_hooks={"response": [_Bound(address)]}
        )
        return openai.AsyncOpenAI(
            base_url=address.url, api_key=key, max_retries=retries, timeout=limits, http_client=http
        )
    except Exception as error:  # such as a proxy that needs another package, in the words of the HTTP library
        reason = shortened(str(error), address)
        raise GTRError(
            f"{address} can't be asked ({reason}); check the environment's proxies and certificates"
        ) from None


@dataclass(frozen=True)
class _Bound:
    """Ends an answer that is longer than any completion, whether packed or endless, before it fills the memory."""

    address: Address

    async def __call__(self, response: Any) -> None:  # noqa: ANN401 (of whichever HTTP library the client has)
        pieces = response.aiter_bytes

        async def bounded(size: int | None = None) -> AsyncIterator[bytes]:
            taken = 0
            async for piece in pieces(size):
                taken += len(piece)
                if taken > _MOST_BYTES:
                    raise ModelError(
                        f"{self.address} sends more than {_MOST_BYTES >> 20} MiB for one answer; {CHECK_SERVER}"
                    )
                yield piece

        response.aiter_bytes = bounded


def _check_headers() -> None:
    """Checks what the client makes headers of by itself."""
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"):
        value = os.environ.get(name, "")
        if name == "OPENAI_CUSTOM_HEADERS":
            value = value.replace("\n", "")
        if not (value.isascii() and value.isprintable()):
            raise GTRError(f"the environment variable {name} holds characters that no header has; mend it or unset it")


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
        kept = {name: value for name, value in wanted.items() if name not in self.dropped}
        return {**kept, self.limit: max_new_tokens}

    def adapt(self, error: openai.APIStatusError, sent: dict[str, Any], model: str) -> bool:
        """Leaves out what a server refuses; tells whether a request without it is another one than was sent."""
        words = f"{error.message} {error.body}"
        if not _UNSUPPORTED.search(words):
            return False
        named = [error.param] if error.param else re.findall(r"\w+", words)
        refused = set(named) & set(sent)
        if "max_tokens" in refused:
            # The limit is never left out: without one a model may write for ever.
            self.limit = "max_completion_tokens"
            return True
        refused &= {"temperature", "seed", "stream_options"}
        told = sorted(refused - self.dropped - {"stream_options"})
        if told:
            logger.warning("%s takes no %s, so its answers may differ from run to run", model, " and no ".join(told))
        self.dropped |= refused
        return bool(refused)


@dataclass(frozen=True)
class Chat:
    """Asks one model, in the event loop of its client.

    Attributes:
        client: The client.
        address: The server.
        model: The model's name.
        parameters: What the server takes; is changed as that shows.
        timeout: The seconds that the server may be silent.
        retries: How often the client repeats a call.
    """

    client: openai.AsyncOpenAI
    address: Address
    model: str
    parameters: Parameters
    timeout: float
    retries: int

    async def complete(self, prompt: str, max_new_tokens: int) -> Completion:
        """Completes a prompt.

        Raises:
            ModelError: There is no completion, after all repetitions.
        """
        start = time.perf_counter()
        try:
            # The client's own limit is for silence, and a server that drips blanks would be waited for for ever.
            most = self.timeout * (self.retries + 1) + _LONGEST_WAIT * self.retries
            async with asyncio.timeout(most):
                answer = await self._ask(prompt, max_new_tokens)
            error = getattr(answer, "error", None)  # some hosts send theirs with the status of a success
            if error:
                said = shortened(str(error.get("message", error) if isinstance(error, dict) else error), self.address)
                raise self._error(f"reports an error ({said})", "look at the server's log")
            choice = _first_choice(answer)
            message = getattr(choice, "message", None)
            if message is None:
                raise self._error("answers without a choice that holds a message", CHECK_SERVER)
            text, reason = getattr(message, "content", None), getattr(choice, "finish_reason", None)
            if not text and getattr(message, "tool_calls", None):
                reason = "tool_calls"
            refusal = getattr(message, "refusal", None)
            return self._completion(text, reason, refusal, getattr(answer, "usage", None), start)
        except Exception as failure:
            raise explained(failure, self.address, self.model, self.timeout) from None

    async def stream(self, prompt: str, max_new_tokens: int, show: Callable[[str], object]) -> Completion:
        """Completes a prompt and gives each piece of text to `show` as it comes.

        Raises:
            ModelError: There is no completion, or not all of one.
        """
        start = time.perf_counter()
        pieces: list[str] = []
        reason = usage = None
        refusal, characters, loop = "", 0, asyncio.get_running_loop()
        try:
            try:
                events = await self._ask(prompt, max_new_tokens, stream=True)
                async with asyncio.timeout(self.timeout) as deadline, events:
                    async for event in events:
                        usage = getattr(event, "usage", None) or usage
                        choice = _first_choice(event)
                        reason = getattr(choice, "finish_reason", None) or reason
                        delta = getattr(choice, "delta", None)
                        text, thought, refused = (
                            value if isinstance(value := getattr(delta, name, None), str) else ""
                            for name in ("content", "reasoning_content", "refusal")
                        )
                        if text:
                            pieces.append(text)
                            show(text)
                        refusal += refused
                        if text or thought or refused:  # a server that sends other things stalls
                            deadline.reschedule(loop.time() + self.timeout)
                        characters += len(text + thought + refused)
                        if characters > max_new_tokens * _CHARACTERS_OF_A_TOKEN + _FREE_CHARACTERS:
                            raise self._error(
                                f"doesn't stop after {max_new_tokens} tokens", "look at the server's settings"
                            )
            except Exception:
                # What comes after the reason why the model stopped is not needed.
                if reason is None:
                    raise
            if reason is None:
                raise self._error("ended its stream too early", "ask again, or look at its log")
            return self._completion("".join(pieces), reason, refusal, usage, start)
        except Exception as error:
            fault = explained(error, self.address, self.model, self.timeout)
            if pieces:
                what, _, remedy = str(fault).rpartition("; ")
                shown = f"{what}, after {len(''.join(pieces)):,} characters of its answer; {remedy}"
                fault = ModelError(shown, fatal=fault.fatal)
            raise fault from None

    async def _ask(self, prompt: str, max_new_tokens: int, stream: bool = False) -> Any:  # noqa: ANN401
        import openai

        # Halves of surrogate pairs are in no encoding that a request could have.
        whole = prompt.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        while True:
            sent = self.parameters.of_request(max_new_tokens, stream)
            if stream:
                sent["stream"] = True
            try:
                return await self.client.chat.completions.create(
                    model=self.model, messages=[{"role": "user", "content": whole}], **sent
                )
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if not self.parameters.adapt(error, sent, self.model):
                    raise

    def _completion(self, text: object, reason: object, refusal: object, usage: object, start: float) -> Completion:
        if not text and reason == "length":  # such as a model whose reasoning the server keeps apart
            raise self._error("spent all its tokens and gave no answer", "raise max_new_tokens")
        if not text and refusal:
            said = shortened(str(refusal), self.address)
            raise self._error(f"has a model that refuses to answer ({said})", "ask in other words, or another model")
        if not text and reason == "tool_calls":
            raise self._error("has a model that calls a tool in place of an answer", "take another model")
        if not isinstance(text, str):
            raise self._error(f"answers without text (finish reason {reason!r})", CHECK_SERVER)
        counts = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
        read, written = (count if isinstance(count, int) and count >= 0 else None for count in counts)
        seconds = time.perf_counter() - start
        return Completion(
            self.address.redacted(text), reason if isinstance(reason, str) else None, read, written, seconds
        )

    def _error(self, what: str, remedy: str) -> ModelError:
        return ModelError(f"{self.address} {what}; {remedy}")


def _first_choice(answer: object) -> Any:  # noqa: ANN401 (of a completion, or of a piece of one)
    """Of several choices the first; None where there is none. The client passes on whatever JSON there is."""
    choices = getattr(answer, "choices", None)
    found = choices if isinstance(choices, list) else []
    return next((one for one in found if not getattr(one, "index", None)), None)
