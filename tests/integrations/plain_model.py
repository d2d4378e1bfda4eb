"""A model that only writes text, for the tests of integrations, and two tools.

It has never been taught to call tools: it reads the format and the nonce of calls in the prompt. Asked about the weather,
it looks up two cities at once, then adds their temperatures, and then tells the sum: two tools, two rounds.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

QUESTION = "How warm is it in Oslo and Paris together?"
ANSWER = "Together it is 33 degrees."
WEATHER = {"Oslo": 12, "Paris": 21}


def temperature(city: str) -> int:
    """The temperature in a city.

    Args:
        city: its name
    """
    return WEATHER[city]


def add(first: int, second: int) -> int:
    """Add two numbers.

    Args:
        first: one number
        second: the other
    """
    return first + second


class PlainModel:
    """The model. `requests` has the messages of every request; `texts` are answers to give instead of its own."""

    def __init__(self, *texts: str) -> None:
        self.requests: list[list[dict[str, Any]]] = []
        self._texts = list(texts)

    def __call__(self, messages: list[dict[str, Any]]) -> Iterator[str]:
        assert all(set(message) <= {"role", "content"} for message in messages), messages
        self.requests.append(messages)
        text = self._texts.pop(0) if self._texts else self._text(messages)
        return iter([text[at : at + 5] for at in range(0, len(text), 5)])

    def _text(self, messages: list[dict[str, Any]]) -> str:
        whole = json.dumps(messages)
        nonces = re.findall(r"json action (\w+)", whole)
        if not nonces:
            return "Hello there."
        numbers = set(re.findall(r"\b\d\d\b", str(messages[-1]["content"])))  # the results, but no part of an id
        if "33" in numbers:
            return ANSWER
        if numbers >= {"12", "21"}:
            return _call(nonces[-1], "add", first="12", second=21)
        cities = "\n".join(_call(nonces[-1], "temperature", city=city) for city in WEATHER)
        return f"Let me look.\n{cities}"


def _call(nonce: str, name: str, **arguments: Any) -> str:
    call = json.dumps({"tool": name, "parameters": arguments})
    return f"```json action {nonce}\n{call}\n```"


#: The conversation of `QUESTION`: its calls, and the result of each.
CALLS = [("temperature", {"city": "Oslo"}), ("temperature", {"city": "Paris"}), ("add", {"first": 12, "second": 21})]


def failing(messages: list[dict[str, Any]]) -> str:
    raise RuntimeError("out of memory")


class PlainService:
    """A service with OpenAI's protocol in front of a `PlainModel`, which ignores tools. A context manager.

    `requests` has the path, the headers and the body of every request. `status` is that of the next answers.
    """

    def __init__(self, model: PlainModel, status: int = 200) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.status = status
        service = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *values: Any) -> None: ...

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.requests.append((self.path, {name.lower(): text for name, text in self.headers.items()}, body))
                self.send_response(service.status)
                self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
                self.end_headers()
                for data in _wire(model, body, service.status, self.path):
                    self.wfile.write(data)
                    self.wfile.flush()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> PlainService:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _wire(model: PlainModel, body: dict[str, Any], status: int, path: str) -> Iterator[bytes]:
    if status != 200:
        yield json.dumps({"error": {"message": "too many requests", "code": "slow_down"}}).encode()
        return
    if "embeddings" in path:
        item = {"object": "embedding", "index": 0, "embedding": [0.5]}
        yield json.dumps({"object": "list", "data": [item], "model": "m"}).encode()
        return
    pieces = list(model(body["messages"]))
    about = {"id": "a", "created": 1, "model": "m"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": "".join(pieces)}, "finish_reason": "stop"}
        yield json.dumps({**about, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
        return
    for delta in [*({"content": piece} for piece in pieces), {}]:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        chunk = {**about, "object": "chat.completion.chunk", "choices": [choice]}
        yield b"data: %b\n\n" % json.dumps(chunk if delta else {**chunk, "usage": usage}).encode()
    yield b"data: [DONE]\n\n"
