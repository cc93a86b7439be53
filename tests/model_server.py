"""A model's server that does what it is told, faults included, and counts what it is asked."""

import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Write = Callable[[bytes], None]
Action = Callable[["Call", Write], None]


@dataclass
class Call:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    time: float = field(default_factory=time.perf_counter)

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][0]["content"])


class ModelServer:
    """Answers completions by a script: one action a call, the last one for ever."""

    def __init__(self, url: str, shutdown: Callable[[], None]) -> None:
        self.url = url
        self.shutdown = shutdown
        self.script: list[Action] = [answer("fine")]
        self.models: Action = models("tiny")
        self.calls: list[Call] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()

    @property
    def completions(self) -> list[Call]:
        return [call for call in self.calls if call.path.endswith("/chat/completions")]

    def serve(self, call: Call, write: Write) -> None:
        with self.lock:
            self.calls.append(call)
            if call.method == "GET":
                action = self.models
            else:
                action = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            action(call, write)
        finally:
            if call.method != "GET":
                with self.lock:
                    self.in_flight -= 1


@contextmanager
def serving() -> Iterator[ModelServer]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                call = self.read()
                if call:
                    server.serve(call, self.write)
            except OSError:
                pass  # the client has left

        def read(self) -> Call | None:
            words = self.rfile.readline().decode().split()
            if len(words) < 2:
                return None
            headers = {}
            while line := self.rfile.readline().strip():
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            body = self.rfile.read(int(headers.get("content-length", 0)))
            return Call(words[0], words[1], headers, json.loads(body) if body else {})

        def write(self, data: bytes) -> None:
            self.wfile.write(data)
            self.wfile.flush()

    class Server(socketserver.ThreadingTCPServer):
        def shutdown_and_close(self) -> None:
            self.shutdown()
            self.server_close()

        daemon_threads = True
        block_on_close = False
        allow_reuse_address = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as tcp:
        server = ModelServer(f"http://127.0.0.1:{tcp.server_address[1]}/v1", tcp.shutdown_and_close)
        thread = threading.Thread(target=tcp.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            tcp.shutdown_and_close()
            thread.join()


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def raw(status: int, body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Word", f"content-type: {kind}", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def reply(status: int, value: Any, **headers: str) -> Action:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return lambda call, write: write(raw(status, body, **headers))


def error(status: int, message: str, **fields: Any) -> Action:
    """Refuses; where that may be tried again, at once unless `retry_after` says otherwise."""
    pause = {"retry_after": fields.pop("retry_after")} if "retry_after" in fields else {"retry_after_ms": "1"}
    return reply(status, {"error": {"message": message, **fields}}, **pause)


def completion(content: Any, finish_reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}


def answer(content: Any, finish_reason: str | None = "stop", **message: Any) -> Action:
    return reply(200, completion(content, finish_reason, **message))


def echo(seconds: float = 0.0) -> Action:
    """Answers each prompt with itself, after a while."""

    def act(call: Call, write: Write) -> None:
        time.sleep(seconds)
        write(raw(200, json.dumps(completion(f"to {call.prompt}")).encode()))

    return act


def by_prompt(actions: dict[str, Action], other: Action) -> Action:
    return lambda call, write: actions.get(call.prompt, other)(call, write)


def models(*names: str, **fields: Any) -> Action:
    return reply(200, {"object": "list", "data": [{"id": name, "object": "model", **fields} for name in names]})


def half_body(call: Call, write: Write) -> None:
    write(raw(200, json.dumps(completion("x" * 500)).encode())[:-300])


def hang(server: ModelServer) -> Action:
    return lambda call, write: (server.ended.wait(60), None)[1]


def stream(*events: Any, end: bytes = b"data: [DONE]\n\n", cut: bool = False, pause: float = 0.0) -> Action:
    """Streams events; `cut` breaks the connection off at the end of them."""

    def act(call: Call, write: Write) -> None:
        write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for event in events:
            data = event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n"
            write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            time.sleep(pause)
        if not cut:
            if end:
                write(f"{len(end):x}\r\n".encode() + end + b"\r\n")
            write(b"0\r\n\r\n")

    return act


def piece(text: str | None = None, finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    content = {} if text is None else {"content": text}
    return {"choices": [{"index": 0, "delta": {**content, **delta}, "finish_reason": finish_reason}]}
