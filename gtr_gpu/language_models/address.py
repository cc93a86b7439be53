"""Where a model's server is: its base URL checked, and what of it and of the key must never be shown."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from urllib.parse import unquote, urlsplit, urlunsplit

from gtr_gpu.errors import GTRError

DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"

# Shorter ones are words such as `none` or `EMPTY`, which servers without keys are given, and no secrets.
_SHORTEST_SECRET = 6
_OPERATION = re.compile(r"/(chat/completions|completions|responses|models|embeddings)/?$")
_LOOPBACK = re.compile(r"localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0")


class Address:
    """The base URL of a server and the variable of the environment that holds its key.

    The key itself is read where it is sent and kept in no attribute.

    Args:
        base_url: The URL that `/chat/completions` is put after, such as `http://localhost:8000/v1`.
        key_variable: The variable of the environment that holds the key, if one is needed.

    Attributes:
        url: The base URL, without credentials.
        root: The URL without its version: where servers put what is their own.
        key_variable: The variable of the environment that holds the key.
        is_open_to_others: Whether requests go to another machine without encryption.

    Raises:
        GTRError: It isn't a URL of a server.
    """

    def __init__(self, base_url: str, key_variable: str = DEFAULT_KEY_VARIABLE) -> None:
        given = base_url.strip()
        remedy = "give one such as http://localhost:8000/v1 or https://api.openai.com/v1"
        if not given.isprintable() or " " in given:
            # Parsers of URLs drop or refuse them, each in its own way.
            raise GTRError(f"base_url must be without blanks (a password has %20 for one) and controls; {remedy}")
        try:
            parts = urlsplit(given)
            scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
        except ValueError:
            raise GTRError(f"base_url isn't a URL; {remedy}") from None
        if scheme not in ("http", "https") or not host:
            # A text that is no URL may be anything, a key included, so it isn't repeated.
            what = (
                f"has the scheme {scheme!r}" if host and re.fullmatch(r"[a-z]+", scheme) else "has no http:// before it"
            )
            raise GTRError(f"base_url must begin with http:// or https://, and {what}; {remedy}")
        if parts.query or parts.fragment:
            # HTTP libraries write whole URLs into their logs, and a query may hold a key.
            raise GTRError(f"base_url must end before the ? or #; {remedy}")
        place = f"[{host}]" if ":" in host else host
        place += f":{port}" if port is not None else ""
        path = _OPERATION.sub("", parts.path).rstrip("/")
        self.url = urlunsplit((scheme, place, path, "", ""))
        self.root = urlunsplit((scheme, place, re.sub(r"/v\d+$", "", path), "", ""))
        self.key_variable = key_variable
        self.is_open_to_others = scheme == "http" and not _LOOPBACK.fullmatch(place.rpartition(":")[0] or place)
        # In a closure, so that no dump of attributes shows it.
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        self._credentials: Callable[[], tuple[str, str]] = lambda: (user, password)

    def __repr__(self) -> str:
        return f"Address({self.url!r})"

    def __str__(self) -> str:
        return f"the model server at {self.url}"

    def has_key(self) -> bool:
        """Whether requests carry a key or a password."""
        return self.authorization() is not None

    def authorization(self) -> str | None:
        """The header that proves who asks, or None where nothing is set.

        Raises:
            GTRError: The key holds what no header can.
        """
        user, password = self._credentials()
        if user or password:
            return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            return None
        if not (key.isascii() and key.isprintable()):
            raise GTRError(f"the key in {self.key_variable} holds characters that no key has; copy it anew")
        return f"Bearer {key}"

    def redacted(self, text: str) -> str:
        """The text without the key and the credentials, wherever they stand in it."""
        password, token = self._credentials()[1], (self.authorization() or "").rpartition(" ")[2]
        for secret in sorted({password, token}, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "[hidden]")
        return text
