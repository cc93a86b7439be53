"""Where a model's server is: its base URL checked, and its key, which is never shown."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit, urlunsplit

from gtr_gpu.errors import GTRError

DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"

# Shorter ones are words such as `none` or `EMPTY`, which servers without keys are given, and no secrets.
_SHORTEST_SECRET = 6
_OPERATION = re.compile(r"/(chat/completions|completions|responses|models|embeddings)/?$")
_LOOPBACK = re.compile(r"localhost|127\.[\d.]+|::1|0\.0\.0\.0")


class Address:
    """The base URL of a server and the variable of the environment that holds its key.

    The key itself is read where it is sent and kept in no attribute.

    Args:
        base_url: The URL that `/chat/completions` is put after, such as `http://localhost:8000/v1`.
        key_variable: The variable of the environment that holds the key, if one is needed.

    Attributes:
        url: The base URL.
        root: The URL without its version: where servers put what is their own.
        key_variable: The variable of the environment that holds the key.
        is_open_to_others: Whether requests go to another machine without encryption.

    Raises:
        GTRError: It isn't a URL of a server, or holds what may be a secret.
    """

    def __init__(self, base_url: str, key_variable: str = DEFAULT_KEY_VARIABLE) -> None:
        remedy = "give one such as http://localhost:8000/v1 or https://api.openai.com/v1"
        given = base_url.strip()
        # None of these repeats what was given: a text that is no URL may be anything, a key included.
        if not given.isprintable() or " " in given:
            # Parsers of URLs drop or refuse them, each in its own way.
            raise GTRError(f"base_url must be without blanks and controls; {remedy}")
        try:
            parts = urlsplit(given)
            scheme, host, _ = parts.scheme, parts.hostname, parts.port
        except ValueError:
            raise GTRError(f"base_url isn't a URL; {remedy}") from None
        if scheme not in ("http", "https") or not host:
            raise GTRError(f"base_url must begin with http:// or https:// and a host; {remedy}")
        if parts.query or parts.fragment or "@" in parts.netloc:
            # HTTP libraries write whole URLs into their logs.
            raise GTRError(
                f"base_url must hold no password, and nothing from a ? or # on (the key is what {key_variable} "
                f"holds); {remedy}"
            )
        path = _OPERATION.sub("", parts.path).rstrip("/")
        self.url = urlunsplit((scheme, parts.netloc.lower(), path, "", ""))
        self.root = urlunsplit((scheme, parts.netloc.lower(), re.sub(r"/v\d+$", "", path), "", ""))
        self.key_variable = key_variable
        self.is_open_to_others = scheme == "http" and not _LOOPBACK.fullmatch(host)

    def __repr__(self) -> str:
        return f"Address({self.url!r})"

    def __str__(self) -> str:
        return f"the model server at {self.url}"

    def key(self) -> str | None:
        """The key, or None where none is set.

        Raises:
            GTRError: It holds what no header can.
        """
        key = os.environ.get(self.key_variable, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise GTRError(f"the key in {self.key_variable} holds characters that no key has; copy it anew")
        return key or None

    def redacted(self, text: str) -> str:
        """The text without the key: some servers repeat it in what they say."""
        key = self.key() or ""
        return text.replace(key, "[hidden]") if len(key) >= _SHORTEST_SECRET else text
