"""A model behind the OpenAI protocol: completions, streams, concurrency and leaving early."""

import itertools
import signal
import subprocess
import sys
import threading
import time

import pytest
from model_server import (
    answer,
    by_prompt,
    completion,
    echo,
    error,
    free_port,
    hang,
    models,
    piece,
    reply,
    stream,
)

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.endpoint import Endpoint
from gtr_gpu.language_models.model import Completion, ModelError


def endpoint(server, model="tiny", **options):
    return Endpoint(Address(server.url), model, **{"timeout": 5, "retries": 1} | options)


def test_a_model_tells_where_its_server_is(server):
    assert endpoint(server).base_url == server.url


def test_completions_have_text_usage_and_reason(server):
    server.script = [answer("Paris", "length")]
    ((number, done),) = endpoint(server).complete(["Where?"], 12)
    assert number == 0
    assert (done.text, done.finish_reason, done.prompt_tokens, done.completion_tokens) == ("Paris", "length", 7, 3)
    assert 0 < done.seconds < 5
    (call,) = server.completions
    assert call.path == "/v1/chat/completions"
    assert call.body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Where?"}],
        "temperature": 0,
        "seed": 0,
        "max_tokens": 12,
    }


def test_no_prompts_no_calls(server):
    assert list(endpoint(server).complete([], 5)) == []
    assert server.completions == []


def test_calls_are_bounded_and_all_prompts_are_answered(server):
    server.script = [echo(0.02)]
    done = dict(endpoint(server, concurrency=3).complete((f"p{number}" for number in range(20)), 5))
    assert {number: one.text for number, one in done.items()} == {number: f"to p{number}" for number in range(20)}
    assert server.most_in_flight == 3
    assert len(server.completions) == 20


def test_prompts_are_taken_as_there_is_room(server):
    taken = []

    def prompts():
        for number in itertools.count():
            taken.append(threading.current_thread())
            yield f"p{number}"

    server.script = [echo()]
    generator = endpoint(server, concurrency=2).complete(prompts(), 5)
    for _ in range(5):
        next(generator)
    generator.close()
    assert len(taken) <= 7
    assert set(taken) == {threading.current_thread()}


def test_a_quick_answer_does_not_wait_for_a_slow_one(server):
    server.script = [by_prompt({"slow": echo(0.5)}, echo())]
    done = [number for number, _ in endpoint(server, concurrency=2).complete(["slow", "a", "b", "c"], 5)]
    assert done == [1, 2, 3, 0]


def test_closing_the_generator_ends_the_calls_at_once(server):
    server.script = [by_prompt({"quick": echo()}, hang(server))]
    generator = endpoint(server, timeout=60).complete(["quick", *["slow"] * 5], 5)
    assert next(generator)[1].text == "to quick"
    start = time.perf_counter()
    generator.close()
    assert time.perf_counter() - start < 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gtr-")]


def test_prompts_that_raise_lose_nothing(server):
    def prompts():
        yield "a"
        yield "b"
        raise GTRError("the third is no prompt")

    server.script = [echo(0.05)]
    done = []
    with pytest.raises(GTRError, match="the third"):
        done.extend(endpoint(server).complete(prompts(), 5))
    assert sorted(number for number, _ in done) == [0, 1]


SCRIPT = """
import sys, time
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.endpoint import Endpoint
model = Endpoint(Address(sys.argv[1]), "tiny", timeout=60)
print("ready", flush=True)
try:
    if sys.argv[2] == "stream":
        model.stream("slow", 5, print)
    else:
        for done in model.complete(["slow"] * 9, 5):
            pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("kind", ["stream", "batch"])
def test_ctrl_c_ends_calls_at_once(server, kind):
    server.script = [hang(server)]
    command = [sys.executable, "-c", SCRIPT, server.url, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        while not server.in_flight:
            time.sleep(0.01)
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        out, problems = process.communicate(timeout=20)
        assert time.perf_counter() - start < 3
    assert (out, problems, process.returncode) == ("interrupted\n", "", 0)


LOOKUP = """
import os, signal, socket, time

def look_up(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)

socket.getaddrinfo = look_up
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.endpoint import Endpoint
try:
    Endpoint(Address("http://somewhere.example/v1"), "tiny")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_waits_for_no_name():
    done = subprocess.run([sys.executable, "-c", LOOKUP], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n", "", 0)


def test_streams_are_shown_piece_by_piece(server):
    usage = {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}}
    pieces = [piece(role="assistant"), piece("Pa"), piece("ris\u2028!"), piece("", "stop"), usage]
    server.script = [stream(b": a comment\n\n", *pieces)]
    shown = []
    done = endpoint(server).stream("Where?", 9, shown.append)
    assert shown == ["Pa", "ris\u2028!"]
    assert done.text == "Paris\u2028!"
    assert (done.finish_reason, done.prompt_tokens, done.completion_tokens) == ("stop", 4, 2)
    (call,) = server.completions
    assert call.body["stream"] is True
    assert call.body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_stream_with_a_reason_is_whole(server, end, cut):
    server.script = [stream(piece("Paris"), piece(finish_reason="stop"), end=end, cut=cut)]
    assert endpoint(server).stream("Where?", 9, lambda text: None).text == "Paris"


def test_events_may_come_in_any_pieces_of_bytes(server):
    event = b'data: {"choices":[{"delta":{"content":"\xc3\xa9t\xc3\xa9"},"finish_reason":"stop"}]}\r\n\r\n'
    events = event + b"data: [DONE]\r\n\r\n"
    body = [bytes([byte]) for byte in events]
    server.script = [stream(*body, end=b"")]
    assert endpoint(server).stream("When?", 9, lambda text: None).text == "été"


def test_show_is_called_in_the_callers_thread(server):
    server.script = [stream(piece("a"), piece("b", "stop"))]
    threads = []
    endpoint(server).stream("Where?", 9, lambda text: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()] * 2


def test_reasoning_is_no_answer(server):
    server.script = [answer("Paris", reasoning_content="I think of London")]
    assert next(endpoint(server).complete(["Where?"], 9))[1].text == "Paris"
    pieces = [piece(reasoning_content="I think of London"), piece("Paris"), piece(finish_reason="stop")]
    server.script = [stream(*pieces)]
    shown = []
    assert endpoint(server).stream("Where?", 9, shown.append).text == "Paris"
    assert shown == ["Paris"]


def test_prompts_that_no_encoding_takes(server):
    server.script = [echo()]
    done = dict(endpoint(server).complete(["a\ud800b", "nul\0", "\ud83d\ude00"], 9))
    assert [done[number].text for number in range(3)] == ["to a\ufffdb", "to nul\0", "to \U0001f600"]


@pytest.mark.parametrize(
    ("message", "fields", "refused", "left"),
    [
        (
            "Unsupported value: 'temperature' does not support 0 with this model.",
            {"param": "temperature", "code": "unsupported_value"},
            {"temperature"},
            {"seed", "max_tokens"},
        ),
        ("Unexpected fields in the request: {'seed'}", {}, {"seed"}, {"temperature", "max_tokens"}),
        (
            "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
            {"param": "max_tokens"},
            {"max_tokens"},
            {"temperature", "seed", "max_completion_tokens"},
        ),
    ],
)
def test_what_a_server_refuses_is_sent_no_more(server, message, fields, refused, left):
    def act(call, write):
        (error(400, message, **fields) if refused & set(call.body) else echo())(call, write)

    server.script = [act]
    model = endpoint(server, concurrency=1, retries=0)
    done = dict(model.complete(["a", "b"], 9))
    assert {number: one.text for number, one in done.items()} == {0: "to a", 1: "to b"}
    assert len(server.completions) == 3
    assert {"model", "messages", *left} == set(server.completions[-1].body)
    list(model.complete(["c"], 9))
    assert len(server.completions) == 4


def test_several_refused_parameters_and_streams(server):
    def act(call, write):
        refused = [name for name in ("stream_options", "seed", "temperature", "max_tokens") if name in call.body]
        detail = [
            {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}
            for name in refused
        ]
        (reply(422, {"detail": detail[:1]}) if refused else stream(piece("fine", "stop")))(call, write)

    server.script = [act]
    assert endpoint(server, retries=0).stream("a", 9, lambda text: None).text == "fine"
    assert len(server.completions) == 5


def test_a_limit_that_is_too_large_is_not_left_out(server):
    message = "max_tokens is too large: 9000. This model's maximum context length is 4096 tokens"
    server.script = [error(400, message, param="max_tokens")]
    ((_, done),) = endpoint(server).complete(["a"], 9000)
    assert "lower prompt_tokens or max_new_tokens" in str(done)
    assert len(server.completions) == 1


def test_the_only_model_is_taken(server):
    server.models = models("only")
    model = endpoint(server, None)
    assert model.name == "only"
    list(model.complete(["a"], 9))
    assert server.completions[0].body["model"] == "only"


def test_several_models_are_told(server):
    server.models = models("large", "small")
    with pytest.raises(ModelError, match="has 2 models; name one of them: large, small"):
        endpoint(server, None)
    server.models = models()
    with pytest.raises(ModelError, match="lists no model"):
        endpoint(server, None)


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"context_window": 131072}, 131072),
        ({"context_length": "many"}, None),
        ({"meta": {"n_ctx_train": 8192}}, 2048),
        ({}, None),
    ],
)
def test_the_window_is_the_servers(server, fields, window):
    def act(call, write):
        told = reply(200, {"default_generation_settings": {"n_ctx": 2048}})
        (told if call.path == "/props" else models("tiny", **fields))(call, write)

    server.models = act
    assert endpoint(server).window == window


def test_a_server_that_tells_no_models_serves_a_named_one(server):
    for action in (error(404, "no such path"), error(403, "may not list"), reply(200, b"<html>"), reply(200, [1])):
        server.models = action
        model = endpoint(server)
        assert model.window is None
        assert next(model.complete(["a"], 9))[1].text == "fine"
        with pytest.raises(ModelError):
            endpoint(server, None)


def test_only_the_key_that_is_meant_is_sent(server, monkeypatch):
    list(endpoint(server).complete(["a"], 9))
    monkeypatch.setenv("OPENAI_API_KEY", " sk-0123456789\n")
    list(endpoint(server).complete(["a"], 9))
    list(Endpoint(Address(server.url, "OTHER_KEY"), "tiny").complete(["a"], 9))
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    list(Endpoint(Address(server.url, "OTHER_KEY"), "tiny").complete(["a"], 9))
    sent = [call.headers.get("authorization") for call in server.completions]
    assert sent == ["Bearer none", "Bearer sk-0123456789", "Bearer none", "Bearer sk-other"]


def test_tokens_are_estimated_where_no_tokenizer_is_known(server):
    model = endpoint(server)
    assert model.tokens.name == "estimate"
    with pytest.raises(GTRError, match="tokenizer"):
        endpoint(server, tokenizer="/no/such/folder")


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"timeout": float("nan")}, {"retries": -1}, {"concurrency": 0}, {"concurrency": 10**6}]
)
def test_options_are_checked(server, options):
    (name,) = options
    with pytest.raises(GTRError, match=f"{name} must be"):
        endpoint(server, **options)


def test_a_completion_is_what_is_promised(server):
    server.script = [reply(200, completion("a") | {"usage": {"prompt_tokens": "many", "completion_tokens": -1}})]
    ((_, done),) = endpoint(server).complete(["a"], 9)
    assert isinstance(done, Completion)
    assert (done.prompt_tokens, done.completion_tokens) == (None, None)


def test_nobody_there():
    with pytest.raises(ModelError, match=r"can't be reached \(Connection refused\); check that it runs"):
        Endpoint(Address(f"http://localhost:{free_port()}/v1"), "tiny", retries=0)
