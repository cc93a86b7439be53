"""Each fault of a server ends in one clear sentence, loses nothing and shows no secret."""

import email.utils
import gzip
import itertools
import json
import logging
import os
import time

import pytest
from model_server import (
    answer,
    by_prompt,
    completion,
    echo,
    error,
    half_body,
    hang,
    models,
    piece,
    raw,
    reply,
    serving,
    stream,
)

from gtr_gpu.errors import GTRError
from gtr_gpu.language_models.address import Address
from gtr_gpu.language_models.endpoint import Endpoint
from gtr_gpu.language_models.model import Completion, ModelError

SECRET = "sk-proj-Ab12-Cd34_Ef56"


@pytest.fixture
def server(monkeypatch):
    for name in [name for name in os.environ if name.startswith("OPENAI_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with serving() as running:
        yield running


def endpoint(server, **options):
    return Endpoint(Address(server.url), "tiny", **{"timeout": 5, "retries": 2, "backoff": 0.001} | options)


def bytes_of(data, kind="application/json"):
    return lambda call, write: write(raw(200, data, kind))


def nothing(call, write):
    pass


def huge(call, write):
    write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
    for _ in range(200):
        write(b" " * (1 << 20))


def huge_refusal(call, write):
    write(b"HTTP/1.1 500 Bad\r\ncontent-type: application/json\r\n\r\n")
    for _ in range(2000):
        write(b" " * (1 << 20))


# What the server does, what is said, and how often it is asked with two retries.
OF_ONE_PROMPT = {
    "context": (
        error(400, "This model's maximum context length is 4096 tokens", code="context_length_exceeded"),
        "finds the prompt too long (400: This model's maximum context length is 4096 tokens); lower prompt_tokens or",
        1,
    ),
    "other 400": (error(400, "no\n such thing"), "refuses the prompt (400: no such thing); change what", 1),
    "too large": (error(413, ""), "finds the prompt too long (413", 1),
    "429": (error(429, "slow down"), "is asked too often (429: slow down), 3 times; lower concurrency, or wait", 3),
    "429 for long": (error(429, "quota", retry_after="7200"), "asks to wait 7,200 seconds (429: quota); run it", 1),
    "429 for ever": (error(429, "quota", retry_after="1e300"), "asks to wait 1e+300 seconds (429: quota); run it", 1),
    "odd places": (
        reply(422, {"detail": [{"loc": 5, "msg": 5}, {"msg": "a"}, {"loc": ["b", 1]}, 7]}),
        "refuses the prompt (422: 5: 5; None: a; b.1: None); change what",
        1,
    ),
    "unclosed titles": (reply(500, b"<html>" + b"<title>" * 9000), "failed (500), 3 times", 3),
    "204": (reply(204, b""), "answers with what isn't JSON of a completion ('')", 3),
    "408": (error(408, "late"), "failed (408: late), 3 times", 3),
    "409": (error(409, "locked"), "failed (409: locked), 3 times", 3),
    "500": (reply(500, b"boom"), "failed (500: boom), 3 times; look at the server's log", 3),
    "503 in HTML": (
        reply(503, b"<html><title>Service\nUnavailable</title><body>long</body></html>"),
        "failed (503: Service Unavailable), 3 times",
        3,
    ),
    "half a body": (half_body, "broke the connection off in the middle of an answer", 3),
    "no answer": (nothing, "broke the connection off in the middle of an answer", 3),
    "no HTTP": (lambda call, write: write(b"SSH-2.0-OpenSSH\r\n"), "broke the connection off", 3),
    "invalid JSON": (bytes_of(b'{"choices": [{"mess'), "answers with what isn't JSON of a completion ('{", 3),
    "deep JSON": (bytes_of(b"[" * 100_000), "answers with what isn't JSON of a completion", 3),
    "no JSON": (
        bytes_of(b"<html>hello</html>", "text/html"),
        "answers with what isn't JSON of a completion ('<html>",
        3,
    ),
    "list": (reply(200, []), "answers with what isn't JSON of a completion ('[]')", 3),
    "empty choices": (reply(200, {"choices": []}), "answers without a choice, 3 times; check that base_url", 3),
    "null choices": (reply(200, {"choices": None}), "answers without a choice", 3),
    "no message": (reply(200, {"choices": [{}]}), "answers with a choice that holds no message", 3),
    "null content": (answer(None), "answers without content, 3 times", 3),
    "number content": (answer(5), "answers without content, 3 times", 3),
    "refusal": (answer(None, refusal="I won't"), "has a model that refuses to answer (I won't); ask", 1),
    "filter": (answer(None, "content_filter"), "filters the answer out", 1),
    "tool": (
        answer(None, "tool_calls", tool_calls=[{}]),
        "has a model that calls a tool in place of an answer; take another model",
        1,
    ),
    "tool and blanks": (answer("", tool_calls=[{}]), "has a model that calls a tool in place of an answer", 1),
    "error without words": (reply(200, {"error": {"code": "x"}}), "reports an error, 3 times", 3),
    "reasoning only": (answer("", "length", reasoning_content="hm"), "spent all its tokens on reasoning", 1),
    "error in a 200": (reply(200, {"error": {"message": "upstream", "code": 502}}), "failed (502: upstream), 3", 3),
    "error text in a 200": (reply(200, {"error": "worker died"}), "reports an error (worker died), 3 times", 3),
    "huge": (huge, "sends more than 32 MiB for one answer; check", 1),
    "huge refusal": (huge_refusal, "failed (500), 3 times", 3),
}
OF_ALL_PROMPTS = {
    "401": (error(401, "bad key"), "asks for a key (401: bad key); set the environment variable OPENAI_API_KEY", 1),
    "402": (error(402, "no money"), "wants to be paid first (402: no money)", 1),
    "403": (error(403, "not you"), "forbids it (403: not you); check what the key in OPENAI_API_KEY may do", 1),
    "404": (error(404, "no model"), "doesn't know the model 'tiny' (404: no model); check its name, and that", 1),
    "404 without words": (reply(404, b""), "doesn't know the model 'tiny' (404); check its name", 1),
    "405": (reply(405, {"detail": "Method Not Allowed"}), "doesn't know the model 'tiny' (405: Method Not Al", 1),
    "400 model": (error(400, "hm", code="model_not_found"), "doesn't know the model 'tiny' (400: hm)", 1),
    "pinned": (reply(400, {"detail": "Server is pinned to 'x'"}), "doesn't know the model 'tiny' (400: Server is", 1),
    "credit": (error(429, "pay", code="insufficient_quota"), "wants to be paid first (429: pay)", 1),
    "redirect": (
        reply(307, b"", location="https://other.example/v1/chat/completions?token=hidden"),
        "sends its callers elsewhere (307); give https://other.example/v1 as base_url if you trust it",
        1,
    ),
    "redirect to nowhere": (reply(302, b""), "sends its callers elsewhere (302); check base_url", 1),
    "redirect to what is no URL": (
        reply(302, b"", location="http://[::1"),
        "sends its callers elsewhere (302); check base_url",
        1,
    ),
    "redirect to a script": (
        reply(302, b"", location="javascript:x"),
        "sends its callers elsewhere (302); check base_url",
        1,
    ),
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
    action, said, tries = OF_ALL_PROMPTS[name]

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
    assert tries <= len(bad) <= 3 * tries
    with pytest.raises(ModelError) as raised:
        model.stream("bad", 9, lambda text: None)
    assert raised.value.fatal


def test_a_server_that_goes_away(server):
    model = endpoint(server)
    server.script = [echo()]
    generator = model.complete((f"p{number}" for number in range(1000)), 9)
    next(generator)
    server.shutdown()
    with pytest.raises(ModelError, match=r"can't be reached \(Connection refused\), 3 times; check that it runs"):
        list(generator)


def test_a_timeout_is_one_prompts(server):
    server.script = [by_prompt({"bad": hang(server)}, echo())]
    model = endpoint(server, timeout=0.2, retries=1)
    done = dict(model.complete(["bad", "good"], 9))
    assert done[1].text == "to good"
    said = "gave no whole answer within 0.2 seconds, 2 times; raise timeout, or lower concurrency or max_new_tokens"
    assert str(done[0]) == f"the model server at {server.url} {said}"
    with pytest.raises(ModelError, match="gave no whole answer"):
        model.stream("bad", 9, lambda text: None)


def test_a_server_that_drips_is_not_waited_for(server):
    def drip(call, write):
        write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        while not server.ended.wait(0.02):
            write(b" ")

    server.script = [drip]
    start = time.perf_counter()
    ((_, done),) = endpoint(server, timeout=0.3, retries=0).complete(["a"], 9)
    assert "gave no whole answer within 0.3 seconds" in str(done)
    assert time.perf_counter() - start < 3


def test_after_a_pause_that_the_server_asks_for_it_succeeds(server):
    server.script = [error(429, "slow down", retry_after="0.3"), error(503, "loading"), answer("fine")]
    ((_, done),) = endpoint(server).complete(["a"], 9)
    assert done.text == "fine"
    first, second, third = (call.time for call in server.completions)
    assert second - first >= 0.3
    assert third - second < 0.3
    assert done.seconds >= 0.3


def test_a_pause_holds_for_all_calls(server):
    server.script = [error(429, "slow down", retry_after="0.4"), answer("fine")]
    start = time.perf_counter()
    done = list(endpoint(server, concurrency=1).complete(["a", "b"], 9))
    assert all(isinstance(one, Completion) for _, one in done)
    assert time.perf_counter() - start < 2


def test_the_pause_may_be_a_date(server):
    server.script = [error(429, "slow down", retry_after=email.utils.formatdate(time.time() + 5000)), answer("fine")]
    ((_, done),) = endpoint(server).complete(["a"], 9)
    assert "asks to wait 4,9" in str(done) or "asks to wait 5,0" in str(done)


def test_pauses_grow(server):
    server.script = [error(500, "boom")]
    list(endpoint(server, retries=3, backoff=0.1).complete(["a"], 9))
    times = [call.time for call in server.completions]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert len(pauses) == 3
    assert 0.07 < pauses[0] < pauses[1] < pauses[2] < 0.8


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
    "invalid": (stream(piece("Par"), piece("is, or"), b"data: {nonsense\n\n"), "streams what isn't JSON"),
    "half an event": (
        stream(piece("Par"), piece("is, or"), b'data: {"choices": [{"del', end=b""),
        "streams what isn't JSON of a completion",
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


def test_a_stream_that_broke_before_anything_was_shown_is_asked_again(server):
    server.script = [stream(piece(role="assistant"), cut=True), stream(piece("Paris"))]
    assert endpoint(server).stream("Where?", 9, lambda text: None).text == "Paris"
    assert len(server.completions) == 2


def test_a_stream_that_stalls(server):
    def stall(call, write):
        write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        write(b"data: " + json.dumps(piece("Paris")).encode() + b"\n\n")
        while not server.ended.wait(0.05):
            write(b": still here\n\n")

    server.script = [stall]
    with pytest.raises(ModelError, match=r"within 0.3 seconds, after 5 characters of its answer"):
        endpoint(server, timeout=0.3).stream("Where?", 9, lambda text: None)


def test_a_slow_stream_has_time_as_long_as_it_goes_on(server):
    server.script = [stream(*[piece("a ")] * 8, piece(finish_reason="stop"), pause=0.1)]
    assert endpoint(server, timeout=0.4).stream("Where?", 9, lambda text: None).text == "a " * 8


@pytest.mark.parametrize("delta", [{"text": "ever and "}, {"reasoning_content": "ever and "}, {}])
def test_a_stream_without_end(server, delta):
    def endless(call, write):
        write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        event = (
            b"data: " + json.dumps(piece(delta.get("text"), **{k: v for k, v in delta.items() if k != "text"})).encode()
        )
        while True:
            write((event + b"\n\n") * 100)

    server.script = [endless]
    with pytest.raises(ModelError, match="doesn't stop after 3 tokens"):
        endpoint(server, retries=0).stream("Where?", 3, lambda text: None)


@pytest.mark.parametrize("line", [b"data: {}\n\n", b'data: {"choices": [{"delta": {"content": ""}}]}\n\n'])
def test_a_stream_that_drips_nothing_is_not_waited_for(server, line):
    def drip(call, write):
        write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        while not server.ended.wait(0.05):
            write(line)

    server.script = [drip]
    with pytest.raises(ModelError, match=r"no whole answer within 0.3 seconds"):
        endpoint(server, timeout=0.3, retries=0).stream("Where?", 9, lambda text: None)


def test_a_stream_that_is_a_bomb(server):
    def bomb(call, write):
        write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n")
        write(gzip.compress(b"\n" * (1 << 26)))

    server.script = [bomb]
    with pytest.raises(ModelError, match="sends more than 32 MiB for one answer"):
        endpoint(server, retries=0, timeout=30).stream("Where?", 9, lambda text: None)


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


def test_a_whole_answer_on_several_lines_may_come_for_a_stream(server):
    server.script = [reply(200, json.dumps(completion("fine"), indent=1).encode())]
    assert endpoint(server).stream("Where?", 9, lambda text: None).text == "fine"


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


def test_a_stream_that_is_all_reasoning(server):
    server.script = [stream(piece(reasoning_content="hm"), piece(finish_reason="length"))]
    with pytest.raises(ModelError, match="spent all its tokens on reasoning and gave no answer; raise max_new_tokens"):
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


def test_credentials_of_the_url_are_sent_and_not_shown(server, caplog):
    caplog.set_level(logging.DEBUG)
    url = server.url.replace("http://", "http://user:pass%40word@")
    model = Endpoint(Address(url), "tiny", retries=0)
    server.script = [error(500, "user:pass@word")]
    ((_, done),) = model.complete(["a"], 9)
    (call,) = server.completions
    assert call.headers["authorization"] == "Basic dXNlcjpwYXNzQHdvcmQ="
    seen = str(done) + repr(model) + str(vars(model._address))
    assert "pass@word" not in seen + caplog.text
    assert "failed (500: user:[hidden])" in str(done)


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
        "http://\0/",
        "http://h/v1\0",
        "http://h h/",
        "http://u:12345678 @h/",
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
        Endpoint(Address(server.url), None, backoff=0.001)
    server.models = models("tiny")
    assert Endpoint(Address(server.url), None).name == "tiny"


def test_any_success_is_one(server):
    server.script = [reply(201, completion("fine"))]
    assert next(endpoint(server).complete(["a"], 9))[1].text == "fine"


def test_a_name_that_no_request_could_have(server):
    with pytest.raises(GTRError, match="model must be a name at the server"):
        Endpoint(Address(server.url), "a\ud800")


def test_the_answer_to_a_stream_may_be_no_stream(server):
    server.script = [reply(200, completion(None))]
    with pytest.raises(ModelError, match="answers without content"):
        endpoint(server).stream("a", 9, lambda text: None)
