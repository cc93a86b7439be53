"""Language models behind a server that speaks the OpenAI protocol: vLLM, Ollama, llama.cpp, hosted ones."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.background import Background
from gtr_gpu.language_models.calls import Calls, Manner, Parameters, make_client
from gtr_gpu.language_models.catalogue import Catalogue, find_counter, pick_model, read_catalogue
from gtr_gpu.language_models.choose import DEFAULT_CONCURRENCY, DEFAULT_RETRIES, DEFAULT_TIMEOUT
from gtr_gpu.language_models.faults import Fault
from gtr_gpu.language_models.model import Completion, ModelError

if TYPE_CHECKING:
    from gtr_gpu.prompts.tokens import TokenCounter

# So many prompts in a row, for each call that may be under way, don't fail by themselves.
_FAILURES_OF_ALL = 3

# The number of a prompt and what came of it; of a stream also its pieces, before.
Ready: TypeAlias = "queue.SimpleQueue[Any]"

logger = logging.getLogger(__name__)


class Endpoint:
    """A model of a server that speaks the OpenAI protocol, asked by chat completions at temperature 0.

    Attributes:
        name: The model's name at the server.
        tokens: Counts the tokens of prompts.
        window: The most tokens of prompt and completion together, or None where the server doesn't tell.
        base_url: Where the server is, without credentials.

    Args:
        address: Where the server is.
        model: The model's name; None takes the only one that the server has.
        tokenizer: The name or folder of the model's tokenizer; None finds it by the model's name.
        timeout: The seconds that the server has for one completion, or for the next piece of a stream.
        retries: How often a call that failed is repeated.
        concurrency: The most calls at a time.
        backoff: The seconds before the first repetition; they double with each one.

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
        backoff: float = 1.0,
    ) -> None:
        _check(timeout, retries, concurrency)
        self.base_url = address.url
        self._address = address
        self._timeout = timeout
        self._retries = retries
        self._concurrency = concurrency
        self._backoff = backoff
        self._parameters = Parameters()
        if model and not model.isprintable():
            raise GTRError(f"model must be a name at the server, got {model!r}")
        self.name = model or ""
        if address.is_open_to_others and address.has_key():
            logger.warning("the key goes to %s without encryption; https:// would protect it", address.url)
        catalogue = self._catalogue(required=not model)
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
        ready: Ready = queue.SimpleQueue()
        numbered = enumerate(prompts)
        open_calls, failures, more = 0, 0, True
        trouble: Exception | None = None
        with self._calls() as (calls, background):
            while True:
                while more and open_calls < self._concurrency and (not open_calls or ready.empty()):
                    try:
                        number, prompt = next(numbered)
                    except StopIteration:
                        more = False
                    except Exception as error:  # it is raised again once what is under way is finished
                        more, trouble = False, error
                    else:
                        background.start(_to_queue(calls.complete(prompt, max_new_tokens), number, ready))
                        open_calls += 1
                if not open_calls:
                    break
                number, outcome = ready.get()
                open_calls -= 1
                failures = failures + 1 if isinstance(outcome, Exception) else 0
                if (
                    isinstance(outcome, ModelError)
                    and not outcome.fatal
                    and failures >= _FAILURES_OF_ALL * self._concurrency
                ):
                    yield number, outcome
                    outcome = ModelError(f"{failures} prompts in a row failed, and the last so: {outcome}", fatal=True)
                if isinstance(outcome, Exception) and not (isinstance(outcome, ModelError) and not outcome.fatal):
                    yield from _finished(ready)
                    raise outcome
                yield number, outcome
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
        news: Ready = queue.SimpleQueue()
        with self._calls() as (calls, background):
            background.start(_to_queue(calls.stream(prompt, max_new_tokens, news.put), 0, news))
            while isinstance(piece := news.get(), str):
                show(piece)
        _, outcome = piece
        if isinstance(outcome, Exception):
            raise outcome
        completion: Completion = outcome
        return completion

    def _catalogue(self, required: bool) -> Catalogue:
        """What the server tells of its models; where one is named already, a server need not tell."""
        with self._calls(retries=min(self._retries, 1)) as (calls, background):
            try:
                return background.run(read_catalogue(calls, self._address))
            except Fault as fault:
                # One that isn't there answers no prompt either. What it says may hold for this question alone.
                if required or (fault.fatal and fault.status is None):
                    raise ModelError(fault.sentence(self._address), fatal=True) from None
                logger.debug("the models aren't told: %s", fault.sentence(self._address))
                return Catalogue()

    @contextmanager
    def _calls(self, retries: int | None = None) -> Iterator[tuple[Calls, Background]]:
        manner = Manner(self._timeout, self._retries if retries is None else retries, self._backoff)
        client = make_client(self._address, self._timeout)
        calls = Calls(client, self._address, self.name, self._parameters, manner)
        with Background(client.close) as background:
            yield calls, background


def _check(timeout: float, retries: int, concurrency: int) -> None:
    if not 0 < timeout <= 86_400:
        raise GTRError(f"timeout must be above 0 and at most 86400 seconds, got {timeout}")
    if not 0 <= retries <= 100:
        raise GTRError(f"retries must be between 0 and 100, got {retries}")
    if not 1 <= concurrency <= 1000:
        raise GTRError(f"concurrency must be between 1 and 1000, got {concurrency}")


async def _to_queue(work: Coroutine[Any, Any, Completion], number: int, ready: Ready) -> None:
    """Puts what comes of a call into a queue, whatever it is: nobody else would hear of an error."""
    outcome: Completion | Exception
    try:
        outcome = await work
    except Exception as error:
        outcome = error
    ready.put((number, outcome))


def _finished(ready: Ready) -> Iterator[tuple[int, Completion | ModelError]]:
    while not ready.empty():
        number, outcome = ready.get()
        if isinstance(outcome, Completion) or (isinstance(outcome, ModelError) and not outcome.fatal):
            yield number, outcome
