"""An event loop in a thread of its own, which callers that don't wait any longer can leave at once."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

_LEAVE_SECONDS = 5.0


class Background:
    """Runs coroutines while a `with` block lasts; what isn't finished at its end is cancelled.

    Args:
        close: Is awaited at the end, after everything was cancelled.
    """

    def __init__(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._close = close
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        # A daemon, so that not even an interpreter that ends in the middle of a call waits for it.
        self._thread = threading.Thread(target=self._run, name="gtr-model-calls", daemon=True)

    def __enter__(self) -> Background:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_LEAVE_SECONDS)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end."""
        return self.start(work).result()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._end.wait()
        works = asyncio.all_tasks() - {asyncio.current_task()}
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        await self._close()
        # A connection that was closed lets go of its socket in the loop's next round.
        await asyncio.sleep(0)


class _Loop(asyncio.SelectorEventLoop):
    """Looks names up in threads that nobody waits for, where the pool of asyncio is waited for at exit."""

    async def getaddrinfo(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 (as in asyncio)
        found: asyncio.Future[Any] = self.create_future()

        def tell(value: Any, error: OSError | None) -> None:  # noqa: ANN401
            if not found.done():
                found.set_result(value) if error is None else found.set_exception(error)

        def look_up() -> None:
            value, error = None, None
            try:
                value = socket.getaddrinfo(*arguments, **options)
            except OSError as failure:
                error = failure
            if not self.is_closed():
                self.call_soon_threadsafe(tell, value, error)

        threading.Thread(target=look_up, name="gtr-name-lookup", daemon=True).start()
        return await found
