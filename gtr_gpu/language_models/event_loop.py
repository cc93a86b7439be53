"""An event loop that can be left while a name is looked up."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any


class EventLoop(asyncio.SelectorEventLoop):
    """Looks names up in threads that nobody waits for: at its end asyncio waits for those of its pool.

    Without a network a look-up takes many seconds, and Ctrl-C would wait as long.
    """

    async def getaddrinfo(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 (as in asyncio)
        """As in asyncio, in a thread of its own."""
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
