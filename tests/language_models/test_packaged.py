"""The small model that a package carries: unpacked once, asked here and through a real server."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
from model_server import free_port

from gtr_gpu.language_models import gguf, model_files, open_model
from gtr_gpu.language_models.endpoint import Endpoint
from gtr_gpu.language_models.local import LocalModel

pytestmark = pytest.mark.slow

QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if gguf.packaged_file() is None:
        pytest.skip(f"the small model isn't installed: {gguf.HOW_TO_INSTALL}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("OPENAI_BASE_URL", raising=False)
        yield model_files.find_model(gguf.PACKAGED_MODEL)


def test_it_is_unpacked_once_and_answers(folder, capfd):
    start = time.perf_counter()
    model = open_model()
    assert time.perf_counter() - start < 20
    assert isinstance(model, LocalModel)
    assert (model.name, model.window, model.tokens.exact) == (gguf.PACKAGED_MODEL, 8192, True)
    ((_, done),) = model.complete([QUESTION], 20)
    assert "Paris" in done.text
    assert done.finish_reason == "stop"
    assert done.prompt_tokens == model.tokens.prompt_tokens(QUESTION)
    shown = []
    assert model.stream(QUESTION, 20, shown.append).text == "".join(shown) == done.text
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert capfd.readouterr() == ("", "")


def test_batches_are_as_good_as_single_prompts(folder):
    model = LocalModel.load(str(folder), device="cpu", precision="float32")
    prompts = [f"What is the capital of {name}?" for name in ("France", "Italy", "Japan", "the Kingdom of Denmark")]
    together = dict(model.complete(prompts, 24))
    for number, prompt in enumerate(prompts):
        ((_, alone),) = model.complete([prompt], 24)
        assert together[number].text == alone.text


def test_a_conversion_that_is_killed_leaves_nothing_that_is_used(tmp_path):
    if gguf.packaged_file() is None:
        pytest.skip("the small model isn't installed")
    script = "from gtr_gpu.language_models import gguf; print(gguf.converted_folder(gguf.packaged_file()))"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    models = tmp_path / "gtr-gpu" / "models"
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.DEVNULL) as process:
        while not list(models.glob(".*/model.safetensors")):
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()
    (left,) = models.iterdir()
    assert left.name.startswith(".")
    os.utime(left, (0, 0))
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    (folder,) = models.iterdir()
    assert done.stdout.strip() == str(folder)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "llama"


@pytest.fixture(scope="module")
def served(folder):
    """The server of transformers with the small model; its log must be read, or it stops when the pipe is full."""
    port = free_port()
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", "serve", str(folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        log = []
        threading.Thread(target=lambda: log.extend(process.stderr), daemon=True).start()
        start = time.perf_counter()
        while True:
            assert process.poll() is None, "".join(log)
            assert time.perf_counter() - start < 120, "".join(log)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
                    assert answer.status == 200
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def test_a_real_server_is_asked(served, folder, caplog):
    model = open_model(None, served)
    assert isinstance(model, Endpoint)
    # It names its model by the folder, where the tokenizer is found too.
    assert model.name == str(folder)
    assert model.tokens.exact
    done = dict(model.complete([QUESTION, "What is the capital of Japan?", QUESTION], 20))
    assert sorted(done) == [0, 1, 2]
    assert "Paris" in done[0].text
    assert done[0].text == done[2].text
    assert done[0].finish_reason == "stop"
    assert done[0].prompt_tokens == model.tokens.prompt_tokens(QUESTION)
    assert 0 < done[0].completion_tokens <= 20
    assert caplog.text == ""


def test_a_real_server_streams(served):
    shown = []
    done = open_model(None, served).stream(QUESTION, 5, shown.append)
    assert "".join(shown) == done.text
    assert len(shown) > 1
    assert (done.finish_reason, done.completion_tokens) == ("length", 5)


def test_a_real_server_without_that_model(served):
    done = _error(open_model("other", served))
    assert re.search(r"doesn't know the model 'other' \(400: Server is pinned to", done)


def _error(model):
    with pytest.raises(gguf.GTRError) as raised:
        list(model.complete([QUESTION], 5))
    return str(raised.value)
