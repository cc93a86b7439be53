"""A server of a model, and nothing in the environment that says of another."""

import os
import ssl

import pytest
from model_server import serving


@pytest.fixture
def server(monkeypatch):
    for name in [name for name in os.environ if name.startswith("OPENAI_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    # It speaks no TLS, and each client would read all certificates: half of a test's time.
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *arguments, **options: None)
    with serving() as running:
        yield running
