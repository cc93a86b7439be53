"""Each fault of a server ends in one clear sentence, loses nothing and shows no secret."""

import gzip
import json
import logging
import time

import pytest
from model_server import (
    answer,
    by_prompt,
    echo,
    error,
    half_body,
    hang,
    models,
    piece,
    raw,
    reply,
    stream,
)

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.endpoint import Endpoint
from gtr_gpu.language_models.model import Completion, ModelError

SECRET = "sk-proj-Ab12-Cd34_Ef56"


def endpoint(server, **options):
    return Endpoint(Address(server.url), "tiny", **{"timeout": 5, "retries": 1} | options)


def bytes_of(data, kind="application/json"):
    return lambda call, write: write(raw(200, data, kind))


def nothing(call, write):
    pass


# What the server does, what is said, and how often it is asked with one retry.
OF_ONE_PROMPT = {
    "context": (
        error(400, "This model's maximum context length is 4096 tokens", code="context_length_exceeded"),
        "finds the prompt too long (400: This model's maximum context length is 4096 tokens); lower prompt_tokens or",
        1,
    ),
    "other 400": (error(400, "no\n such thing"), "refuses the prompt (400: no such thing); change what", 1),
    "too large": (reply(413, b""), "finds the prompt too long (413", 1),
    "429": (error(429, "slow down"), "is asked too often (429: slow down); lower concurrency, or wait", 2),
    "odd places": (
        reply(422, {"detail": [{"loc": 5, "msg": 5}, {"msg": "a"}, 7]}),
        'refuses the prompt (422: [{"loc": 5, "msg": 5}, ',
        1,
    ),
    "204": (reply(204, b""), "answers with", 1),
    "refusal": (answer(None, refusal="I won't"), "has a model that refuses to answer (I won't); ask", 1),
    "tool and blanks": (answer("", tool_calls=[{}]), "has a model that calls a tool in place of an answer", 1),
    "error without words": (reply(200, {"error": {"code": "x"}}), "reports an error (", 1),
    "429 for long": (error(429, "quota", retry_after="7200"), "is asked too often (429: quota)", 1),
    "500": (reply(500, b"boom", retry_after_ms="1"), "failed (500: boom); look at the server's log", 2),
    "half a body": (half_body, "broke the connection off in the middle of an answer", 2),
    "no answer": (nothing, "broke the connection off in the middle of an answer", 2),
    "invalid JSON": (reply(200, b'{"choices": [{"mess'), "answers with what isn't JSON; check that base_url", 1),
    "deep JSON": (reply(200, b"[" * 100_000), "answers with what isn't JSON", 1),
    "no JSON": (bytes_of(b"<html>hello</html>", "text/html"), "answers without a choice that holds a message", 1),
    "list": (reply(200, []), "answers without a choice that holds a message", 1),
    "empty choices": (reply(200, {"choices": []}), "answers without a choice that holds a message; check that", 1),
    "no choices": (reply(200, {}), "answers without a choice that holds a message", 1),
    "null choices": (reply(200, {"choices": None}), "answers without a choice that holds a message", 1),
    "no message": (reply(200, {"choices": [{}]}), "answers without a choice that holds a message", 1),
    "text choice": (reply(200, {"choices": ["Paris"]}), "answers without a choice that holds a message", 1),
    "text message": (reply(200, {"choices": [{"message": "Paris"}]}), "answers without text", 1),
    "null content": (answer(None), "answers without text (finish reason 'stop'); check", 1),
    "number content": (answer(5), "answers without text", 1),
    "filter": (answer(None, "content_filter"), "answers without text (finish reason 'content_filter')", 1),
    "reasoning only": (answer("", "length", reasoning_content="hm"), "spent all its tokens and gave no answer", 1),
    "error in a 200": (reply(200, {"error": {"message": "upstream"}}), "reports an error (upstream)", 1),
    "error text in a 200": (reply(200, {"error": "worker died"}), "reports an error (worker died)", 1),
}
OF_ALL_PROMPTS = {
    "401": (error(401, "bad key"), "asks for a key (401: bad key); set the environment variable OPENAI_API_KEY"),
    "402": (error(402, "no money"), "wants to be paid first (402: no money)"),
    "403": (error(403, "not you"), "forbids it (403: not you); check what the key in OPENAI_API_KEY may do"),
    "404": (error(404, "no model"), "doesn't know the model 'tiny' (404: no model); check its name, and that"),
    "404 without words": (reply(404, b""), "doesn't know the model 'tiny' (404"),
    "405": (reply(405, {"detail": "Method Not Allowed"}), "doesn't know the model 'tiny' (405: Method Not Al"),
    "400 model": (error(400, "hm", code="model_not_found"), "doesn't know the model 'tiny' (400: hm)"),
    "pinned": (reply(400, {"detail": "Server is pinned to 'x'"}), "doesn't know the model 'tiny' (400: Server is"),
    "redirect": (reply(307, b"", location="http://[::1"), "sends its callers elsewhere (307"),
    "credit": (error(429, "pay", code="insufficient_quota"), "wants to be paid first (429: pay)"),
}


@pytest.mark.parametrize("name", OF_ONE_PROMPT)
def test_faults_of_one_prompt_are_yielded_in_its_place(server, name):
    action, said, tries = OF_ONE_PROMPT[name]
    server.script = [by_prompt({"bad": action}, echo())]
    model = endpoint(server)
    done = dict(model.complete(["good", "bad", "fine"], 9))
    assert (done[0].text, done[2].text) == ("to good", "to fine")
    assert isinstance(done[1], ModelError)
    assert not done[1].fatal
    message = str(done[1])
    assert message.startswith(f"the model server at {server.url} {said}")
    assert "\n" not in message
    assert len([call for call in server.completions if call.prompt == "bad"]) == tries
    with pytest.raises(ModelError) as raised:
        model.stream("bad", 9, lambda text: None)
    assert not raised.value.fatal


@pytest.mark.parametrize("name", OF_ALL_PROMPTS)
def test_faults_of_all_prompts_are_raised_after_what_was_finished(server, name):
    action, said = OF_ALL_PROMPTS[name]

    def late(call, write):
        time.sleep(0.1)
        action(call, write)

    server.script = [by_prompt({"bad": late}, echo())]
    model, done = endpoint(server, concurrency=3), []
    with pytest.raises(ModelError) as raised:
        done.extend(model.complete(["good", "bad", "fine", *["bad"] * 50], 9))
    assert raised.value.fatal
    assert str(raised.value).startswith(f"the model server at {server.url} {said}")
    assert {number: one.text for number, one in done} == {0: "to good", 2: "to fine"}
    bad = [call for call in server.completions if call.prompt == "bad"]
    assert 1 <= len(bad) <= 6
    with pytest.raises(ModelError) as raised:
        model.stream("bad", 9, lambda text: None)
    assert raised.value.fatal


def test_a_server_that_goes_away(server):
    model = endpoint(server)
    server.script = [echo()]
    generator = model.complete((f"p{number}" for number in range(1000)), 9)
    next(generator)
    server.shutdown()
    with pytest.raises(ModelError, match=r"can't be reached \(Connection refused\); check that it runs"):
        list(generator)


def test_a_timeout_is_one_prompts(server):
    server.script = [by_prompt({"bad": hang(server)}, echo())]
    model = endpoint(server, timeout=0.2, retries=0)
    done = dict(model.complete(["bad", "good"], 9))
    assert done[1].text == "to good"
    said = "gave no whole answer within 0.2 seconds; raise timeout, or lower concurrency or max_new_tokens"
    assert str(done[0]) == f"the model server at {server.url} {said}"
    with pytest.raises(ModelError, match="gave no whole answer"):
        model.stream("bad", 9, lambda text: None)


def test_after_a_pause_that_the_server_asks_for_it_succeeds(server):
    server.script = [error(429, "slow down", retry_after="0.3"), error(503, "loading"), answer("fine")]
    ((_, done),) = endpoint(server, retries=2).complete(["a"], 9)
    assert done.text == "fine"
    first, second, third = (call.time for call in server.completions)
    assert second - first >= 0.3
    assert third - second < 0.3
    assert done.seconds >= 0.3


def test_many_failures_in_a_row_are_everybodys(server):
    server.script = [error(400, "no")]
    done = []
    with pytest.raises(
        ModelError, match=r"6 prompts in a row failed, and the last so: the model server .*400: no"
    ) as raised:
        done.extend(endpoint(server, concurrency=2).complete((f"p{number}" for number in range(100)), 9))
    assert raised.value.fatal
    assert len(done) >= 6
    assert all(isinstance(one, ModelError) for _, one in done)
    assert len(server.completions) <= 8


def test_failures_between_successes_are_not(server):
    server.script = [by_prompt({f"p{number}": echo() for number in range(0, 20, 3)}, error(400, "no"))]
    done = dict(endpoint(server, concurrency=1).complete((f"p{number}" for number in range(20)), 9))
    assert [number for number, one in sorted(done.items()) if isinstance(one, Completion)] == list(range(0, 20, 3))
    assert len(done) == 20


STREAM_FAULTS = {
    "broken off": (stream(piece("Par"), piece("is, or"), cut=True), "broke the connection off in the middle"),
    "ended early": (stream(piece("Par"), piece("is, or"), end=b""), "ended its stream too early"),
    "error": (
        stream(piece("Par"), piece("is, or"), {"error": {"message": "out of memory"}}),
        "reports an error (out of memory)",
    ),
    "error as text": (stream(piece("Par"), piece("is, or"), {"error": "gone"}), "reports an error (gone)"),
    "invalid": (stream(piece("Par"), piece("is, or"), b"data: {nonsense\n\n"), "answers with what isn't JSON"),
    "half an event": (
        stream(piece("Par"), piece("is, or"), b'data: {"choices": [{"del', end=b""),
        "ended its stream too early",
    ),
}


@pytest.mark.parametrize("name", STREAM_FAULTS)
def test_half_a_stream_says_how_far_it_came(server, name):
    action, said = STREAM_FAULTS[name]
    server.script = [action]
    shown = []
    with pytest.raises(ModelError) as raised:
        endpoint(server).stream("Where?", 9, shown.append)
    assert said in str(raised.value)
    assert "after 9 characters of its answer" in str(raised.value)
    assert shown == ["Par", "is, or"]
    assert len(server.completions) == 1


def test_a_stream_that_stalls(server):
    def stall(call, write):
        write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        write(b"data: " + json.dumps(piece("Paris")).encode() + b"\n\n")
        server.ended.wait(60)

    server.script = [stall]
    with pytest.raises(ModelError, match=r"within 0.3 seconds, after 5 characters of its answer"):
        endpoint(server, timeout=0.3).stream("Where?", 9, lambda text: None)


def test_a_slow_stream_has_time_as_long_as_it_goes_on(server):
    server.script = [stream(*[piece("a ")] * 8, piece(finish_reason="stop"), pause=0.1)]
    assert endpoint(server, timeout=0.4).stream("Where?", 9, lambda text: None).text == "a " * 8


@pytest.mark.parametrize("kind", ["endless", "packed", "refusal"])
def test_an_answer_that_would_fill_the_memory(server, kind):
    def act(call, write):
        status, encoding = (500 if kind == "refusal" else 200), ("gzip" if kind == "packed" else "identity")
        write(f"HTTP/1.1 {status} Word\r\ncontent-encoding: {encoding}\r\nconnection: close\r\n\r\n".encode())
        if kind == "packed":
            write(gzip.compress(b" " * (200 << 20), 1))
        while kind != "packed":
            write(b" " * (1 << 20))

    server.script = [act]
    with pytest.raises(ModelError, match="sends more than 128 MiB for one answer; check"):
        endpoint(server, retries=0, timeout=30).stream("Where?", 9, lambda text: None)
    assert "sends more than 128 MiB" in str(next(endpoint(server, retries=0, timeout=30).complete(["a"], 9))[1])


def test_a_stream_without_end(server):
    def endless(call, write):
        write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        while True:
            write((b"data: " + json.dumps(piece("ever and ")).encode() + b"\n\n") * 100)

    server.script = [endless]
    with pytest.raises(ModelError, match="doesn't stop after 3 tokens"):
        endpoint(server).stream("Where?", 3, lambda text: None)


@pytest.mark.parametrize("drip", [b": still here\n\n", b'data: {"choices": [{"delta": {"content": ""}}]}\n\n', b" "])
def test_a_server_that_drips_is_not_waited_for(server, drip):
    def act(call, write):
        write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        while not server.ended.wait(0.05):
            write(drip)

    server.script = [act]
    model = endpoint(server, timeout=0.3, retries=0)
    ((_, done),) = model.complete(["a"], 9)
    assert "gave no whole answer within 0.3 seconds" in str(done)
    with pytest.raises(ModelError, match=r"no whole answer within 0.3 seconds"):
        model.stream("Where?", 9, lambda text: None)


def test_of_several_choices_the_first_one_is_streamed(server):
    two = {"choices": [{"index": 1, "delta": {"content": "B"}}, {"index": 0, "delta": {"content": "A"}}]}
    other = {"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "length"}]}
    server.script = [stream(two, other, two, piece(finish_reason="stop"))]
    shown = []
    completion = endpoint(server).stream("Where?", 9, shown.append)
    assert (completion.text, completion.finish_reason, shown) == ("AA", "stop", ["A", "A"])


def test_a_stream_that_refuses(server):
    server.script = [stream(piece(refusal="I "), piece(refusal="won't"), piece(finish_reason="stop"))]
    with pytest.raises(ModelError, match=r"has a model that refuses to answer \(I won't\)"):
        endpoint(server).stream("Where?", 9, lambda text: None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("OPENAI_ORG_ID", "\u00fc"), ("OPENAI_PROJECT_ID", "a\nX: y"), ("OPENAI_CUSTOM_HEADERS", "X-A: b\nX-B: \u00fc")],
)
def test_headers_of_the_environment_that_are_none(server, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(GTRError, match=f"the environment variable {name} holds characters that no header has"):
        endpoint(server)


def test_a_proxy_that_is_no_url(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://[::1")
    with pytest.raises(GTRError, match=r"can't be asked .*; check the environment's proxies"):
        endpoint(server)


def test_a_name_that_no_request_could_have(server):
    with pytest.raises(GTRError, match="model must be a name at the server"):
        Endpoint(Address(server.url), "a\ud800")


def test_a_stream_that_is_all_reasoning(server):
    server.script = [stream(piece(reasoning_content="hm"), piece(finish_reason="length"))]
    with pytest.raises(ModelError, match="spent all its tokens and gave no answer; raise max_new_tokens"):
        endpoint(server).stream("Where?", 9, lambda text: None)


@pytest.mark.parametrize(
    "name", ["401", "403", "404", "429", "500", "context", "redirect", "invalid JSON", "error text in a 200"]
)
def test_a_key_is_never_shown(server, monkeypatch, caplog, name):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    echoed = f"the key {SECRET} that you gave ('Bearer {SECRET}')"
    status = {"context": 400, "redirect": 307, "invalid JSON": 200}.get(name) or int(name) if name.isdigit() else 200
    action = {
        "invalid JSON": bytes_of(f"{{ {echoed}".encode()),
        "error text in a 200": reply(200, {"error": echoed}),
        "redirect": reply(307, b"", location=f"https://other.example/{SECRET}/v1"),
        "context": error(400, f"maximum context length of {echoed}"),
    }.get(name) or error(status, echoed * 20)
    server.script = [action]
    model = endpoint(server, retries=1)
    try:
        said = [str(one) + repr(one) for _, one in model.complete(["a"], 9)]
    except ModelError as raised:
        said = [str(raised) + repr(raised)]
    with pytest.raises(ModelError) as raised:
        model.stream("a", 9, lambda text: None)
    link = raised.value
    while link is not None:
        said.append(str(link))
        link = link.__cause__
    assert server.completions[0].headers["authorization"] == f"Bearer {SECRET}"
    # The HTTP library tells the headers of an answer where an application turns its own log on; `gtr` never does.
    logged = [one.getMessage() for one in caplog.records if not one.name.startswith("httpcore")]
    seen = " ".join([*said, *logged, repr(model), str(vars(model)), str(vars(model._address))])
    assert "the model server at" in seen
    assert SECRET not in seen


def test_a_key_that_the_text_holds_is_hidden(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    server.script = [answer(f"your key is {SECRET}")]
    ((_, done),) = endpoint(server).complete(["a"], 9)
    assert done.text == "your key is [hidden]"


def test_a_wrong_key_is_named_by_its_variable(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    server.script = [error(401, "bad key")]
    with pytest.raises(ModelError, match=r"doesn't accept the key \(401: bad key\); set .* OPENAI_API_KEY to a valid"):
        list(endpoint(server).complete(["a"], 9))


def test_a_key_that_no_header_takes(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ключ\nmore")
    with pytest.raises(GTRError, match="the key in OPENAI_API_KEY holds characters") as raised:
        endpoint(server)
    assert "ключ" not in str(raised.value)


def test_words_that_are_no_secrets_stay(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server.script = [answer("none of them")]
    assert next(endpoint(server).complete(["a"], 9))[1].text == "none of them"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        (" HTTPS://Api.Example.com/v1/chat/completions ", "https://api.example.com/v1"),
        ("http://[::1]:80/v1/", "http://[::1]:80/v1"),
        ("http://host/models", "http://host"),
    ],
)
def test_base_urls(given, url):
    assert Address(given).url == url


@pytest.mark.parametrize(
    "given",
    [
        "",
        "localhost:8000/v1",
        "ftp://host/v1",
        "http://",
        "http://host:port/",
        "sk-12345678",
        "http://h/?key=12345678",
        "http://me:12345678@h/v1",
        "http://\0/",
        "http://h/v1\0",
        "http://h h/",
        "http://h\nh/",
        "http://h/\ud800",
    ],
)
def test_what_is_no_base_url(given):
    with pytest.raises(GTRError, match=r"base_url .*; give one such as http://localhost:8000/v1") as raised:
        Address(given)
    assert "12345678" not in str(raised.value)


def test_a_key_that_goes_out_in_the_open_is_warned_of(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert Address("http://far.example/v1").is_open_to_others
    for url in ("https://far.example/v1", "http://localhost:1/v1", "http://127.0.0.1/v1", "http://[::1]:1/v1"):
        assert not Address(url).is_open_to_others


def test_models_that_are_refused_are_not_listed(server):
    server.models = error(401, "who are you?")
    with pytest.raises(ModelError, match="asks for a key"):
        Endpoint(Address(server.url), None)
    server.models = models("tiny")
    assert Endpoint(Address(server.url), None).name == "tiny"
