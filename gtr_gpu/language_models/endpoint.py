"""Language models behind a server that speaks the OpenAI protocol: vLLM, Ollama, llama.cpp, hosted ones."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.catalogue import Catalogue, find_counter, pick_model, read_catalogue
from gtr_gpu.language_models.chat import Chat, Parameters, make_client
from gtr_gpu.language_models.choose import DEFAULT_CONCURRENCY, DEFAULT_RETRIES, DEFAULT_TIMEOUT
from gtr_gpu.language_models.event_loop import EventLoop
from gtr_gpu.language_models.faults import explained
from gtr_gpu.language_models.model import Completion, ModelError

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from gtr_gpu.prompts.tokens import TokenCounter

# So many prompts in a row, for each call that may be under way, don't fail by themselves.
_FAILURES_OF_ALL = 3
_CATALOGUE_SECONDS = 10.0

logger = logging.getLogger(__name__)


class Endpoint:
    """A model of a server that speaks the OpenAI protocol, asked by chat completions at temperature 0.

    Attributes:
        name: The model's name at the server.
        base_url: Where the server is; answers of another one are not taken up.
        tokens: Counts the tokens of prompts.
        window: The most tokens of prompt and completion together, or None where the server doesn't tell.

    Args:
        address: Where the server is.
        model: The model's name; None takes the only one that the server has.
        tokenizer: The name or folder of the model's tokenizer; None finds it by the model's name.
        timeout: The seconds that the server may be silent before a call is given up.
        retries: How often a call that failed is repeated.
        concurrency: The most calls at a time.

    Raises:
        ModelError: The server can't be reached, or no model was named and it has more than one.
        GTRError: The package openai is missing, an argument is out of its range, or a tokenizer isn't found.
    """

    def __init__(
        self,
        address: Address,
        model: str | None = None,
        *,
        tokenizer: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        concurrency: int = DEFAULT_CONCURRENCY,
    ) -> None:
        _check(timeout, retries, concurrency)
        self._address = address
        self.base_url = address.url
        self._timeout = timeout
        self._retries = retries
        self._concurrency = concurrency
        self._parameters = Parameters()
        if model and not model.isprintable():
            raise GTRError(f"model must be a name at the server, got {model!r}")
        if address.is_open_to_others and address.key():
            logger.warning("the key goes to %s without encryption; https:// would protect it", address.url)
        catalogue = self._catalogue(model)
        self.name = model or pick_model(catalogue, address)
        self.window: int | None = catalogue.window(self.name)
        self.tokens: TokenCounter = find_counter(self.name, tokenizer)

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r} at {self._address.url!r})"

    def complete(
        self, prompts: Iterable[str], max_new_tokens: int
    ) -> Generator[tuple[int, Completion | ModelError], None, None]:
        """Completes prompts, as many at once as `concurrency` allows, each yielded as soon as it is ready.

        Whoever stops early, by closing the generator or with Ctrl-C, ends the calls that are under way.

        Args:
            prompts: The prompts, each a user's message; they are taken one by one in the caller's thread.
            max_new_tokens: The most tokens of a completion.

        Yields:
            The number of a prompt, and its completion or what went wrong with it.

        Raises:
            ModelError: What would go wrong for every prompt, after all that was finished was yielded.
        """
        numbered = enumerate(prompts)
        failures = 0
        trouble: Exception | None = None
        under_way: dict[Future[Completion], int] = {}
        with self._chat(self.name) as (chat, portal):
            try:
                while True:
                    try:
                        for number, prompt in islice(numbered, self._concurrency - len(under_way)):
                            under_way[portal.start_task_soon(chat.complete, prompt, max_new_tokens)] = number
                    except Exception as error:  # it is raised again once what is under way is finished
                        trouble, numbered = error, enumerate(())
                    if not under_way:
                        break
                    for number, outcome in _finished(under_way):
                        failures = 0 if isinstance(outcome, Completion) else failures + 1
                        if _is_fatal(outcome):
                            raise outcome
                        yield number, outcome
                        if failures >= _FAILURES_OF_ALL * self._concurrency:
                            said = f"{failures} prompts in a row failed, and the last so: {outcome}"
                            raise ModelError(said, fatal=True)
            finally:
                for future in under_way:
                    future.cancel()
        if trouble is not None:
            raise trouble

    def stream(self, prompt: str, max_new_tokens: int, show: Callable[[str], None]) -> Completion:
        """Completes one prompt and shows the text as it comes.

        Args:
            prompt: A user's message.
            max_new_tokens: The most tokens of the completion.
            show: Is given each new piece of text, in the caller's thread.

        Raises:
            ModelError: There is no completion, or not all of one.
        """
        pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        with self._chat(self.name) as (chat, portal):
            future = portal.start_task_soon(chat.stream, prompt, max_new_tokens, pieces.put)
            future.add_done_callback(lambda _: pieces.put(None))
            try:
                while (piece := pieces.get()) is not None:
                    show(piece)
            finally:
                future.cancel()
            return future.result()

    def _catalogue(self, model: str | None) -> Catalogue:
        """What the server tells of its models; where one is named already, a server need not tell."""
        with self._chat(model or "") as (chat, portal):
            client = chat.client.with_options(
                max_retries=min(self._retries, 1), timeout=min(self._timeout, _CATALOGUE_SECONDS)
            )
            try:
                return portal.call(read_catalogue, client, self._address)
            except Exception as error:
                fault = explained(error, self._address, model or "", _CATALOGUE_SECONDS)
                # A server that isn't there answers no prompt either. What one says may hold for this question alone.
                if not model or (fault.fatal and not hasattr(error, "status_code")):
                    raise ModelError(str(fault), fatal=True) from None
                logger.debug("the models aren't told: %s", fault)
                return Catalogue()

    @contextmanager
    def _chat(self, model: str) -> Iterator[tuple[Chat, BlockingPortal]]:
        """The model to ask, and the event loop to ask it in: one of ours, since a notebook's caller is in its own."""
        client = make_client(self._address, self._timeout, self._retries)
        from anyio.from_thread import start_blocking_portal

        options = {"loop_factory": EventLoop}
        with start_blocking_portal(backend_options=options, name="gtr-model-calls") as portal:
            try:
                yield Chat(client, self._address, model, self._parameters, self._timeout, self._retries), portal
            finally:
                portal.call(client.close)


def _check(timeout: float, retries: int, concurrency: int) -> None:
    if not 0 < timeout <= 86_400:
        raise GTRError(f"timeout must be above 0 and at most 86400 seconds, got {timeout}")
    if not 0 <= retries <= 100:
        raise GTRError(f"retries must be between 0 and 100, got {retries}")
    if not 1 <= concurrency <= 1000:
        raise GTRError(f"concurrency must be between 1 and 1000, got {concurrency}")


def _finished(under_way: dict[Future[Completion], int]) -> list[tuple[int, Any]]:
    """Waits for some calls, takes them out, and gives what came of each: completions first, then errors, fatal last."""
    outcomes: list[tuple[int, Any]] = []
    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
        outcomes.append((under_way.pop(future), future.exception() or future.result()))
    return sorted(outcomes, key=lambda one: (_is_fatal(one[1]), not isinstance(one[1], Completion), one[0]))


def _is_fatal(outcome: object) -> bool:
    return isinstance(outcome, BaseException) and not (isinstance(outcome, ModelError) and not outcome.fatal)
