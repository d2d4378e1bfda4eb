"""Ollama's own SDK on the other side of a real connection: what it sends we understand, what we send it understands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import ollama
import pytest

from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.types import Media, Message, Request, ResponseFormat, TextPart, ToolCall, ToolResult, Usage
from toolspeak.errors import UpstreamError, UsageError
from toolspeak.protocols.ollama import ReplyEncoder, decode_request, encode_error, encode_reply, encode_request

pytestmark = pytest.mark.requirement("G1", "G4")

FACE: Any = {"id": "r1", "created": 1790000000, "model": "m"}
USER = {"role": "user", "content": "hi"}
TURN: list[Event] = [
    ReasoningDelta("hm"),
    TextDelta("Let me "),
    TextDelta("see.\u2028"),
    CallStart(0, "get_weather", "call_a"),
    CallArgs(0, '{"city":'),
    CallArgs(0, '"Paris"}'),
    CallEnd(0),
    UsageSeen(Usage(10, 4, 6, 1)),
    Finish("tool_calls"),
]


def answer(events: list[Event]) -> Callable[[Request], tuple[int, bytes]]:
    def give(request: Request) -> tuple[int, bytes]:
        if not request.stream:
            return 200, encode_reply(fold(events), request, **FACE, extension={"plan": "inline"})
        face = ReplyEncoder(request, **FACE)
        return 200, face.encode(events) + face.close({"plan": "inline"})

    return give


class Server:
    """Answers the SDK by our codec and remembers what it was asked."""

    def __init__(self, give: Callable[[Request], tuple[int, bytes]]) -> None:
        self.give = give
        self.request = Request("", ())

    def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        assert path == "/api/chat"
        try:
            self.request = decode_request(body)
            return self.give(self.request)
        except UsageError as error:
            return encode_error(error)


@contextmanager
def talking(give: Callable[[Request], tuple[int, bytes]]) -> Iterator[tuple[Server, ollama.Client]]:
    server = Server(give)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, body = server.respond(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-type", "application/x-ndjson")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        client = ollama.Client(host=f"http://127.0.0.1:{listening.server_port}")
        try:
            yield server, client
        finally:
            client.close()
            listening.shutdown()
            thread.join()


def get_weather(city: str) -> str:
    """Tells the weather."""
    return city


def called(messages: list[ollama.Message]) -> list[tuple[str, Any]]:
    return [(call.function.name, call.function.arguments) for one in messages for call in one.tool_calls or ()]


def test_a_whole_answer_reaches_the_sdk():
    with talking(answer(TURN)) as (_, client):
        found = client.chat(model="m", messages=[USER], tools=[get_weather])
    assert (found.message.content, found.message.thinking) == ("Let me see.\u2028", "hm")
    assert called([found.message]) == [("get_weather", {"city": "Paris"})]
    assert (found.done, found.done_reason, found.prompt_eval_count, found.eval_count) == (True, "stop", 10, 4)
    assert found.created_at == "2026-09-21T14:13:20Z"


def test_a_stream_reaches_the_sdk():
    with talking(answer(TURN)) as (server, client):
        chunks = list(client.chat(model="m", messages=[USER], tools=[get_weather], stream=True))
    assert server.request.stream
    assert "".join(chunk.message.content or "" for chunk in chunks) == "Let me see.\u2028"
    assert "".join(chunk.message.thinking or "" for chunk in chunks) == "hm"
    assert called([chunk.message for chunk in chunks]) == [("get_weather", {"city": "Paris"})]
    assert [chunk.done for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert (chunks[-1].done_reason, chunks[-1].eval_count) == ("stop", 4)


def test_what_the_sdk_sends_is_understood_and_sent_on():
    with talking(answer(TURN)) as (server, client):
        first = client.chat(model="m", messages=[USER], tools=[get_weather])
        history: Any = [
            {"role": "user", "content": "see", "images": [b"\x89PNG\r\n\x1a\n\x00"]},
            first.message,
            {"role": "tool", "content": "sunny", "tool_name": "get_weather"},
        ]
        client.chat(
            model="m",
            messages=history,
            tools=[get_weather],
            format={"type": "object"},
            options={"num_predict": 9, "temperature": 0.5, "num_ctx": 100, "stop": ["END"]},
            think="low",
            keep_alive="5m",
        )
    request = server.request
    assert request.messages == (
        Message("user", (TextPart("see"), Media("image", "data:image/png;base64,iVBORw0KGgoA"))),
        Message(
            "assistant",
            (TextPart("Let me see.\u2028"),),
            "hm",
            (ToolCall("get_weather", {"city": "Paris"}, "unnamed_call_1"),),
        ),
        Message("tool", results=(ToolResult("unnamed_call_1", "sunny", "get_weather"),)),
    )
    assert (request.tools[0].name, request.tools[0].parameters["required"]) == ("get_weather", ["city"])
    assert (request.options.max_tokens, request.options.stop) == (9, ("END",))
    assert request.options.response_format == ResponseFormat({"type": "object"})
    assert request.options.extra == {"options": {"num_ctx": 100}, "think": "low", "keep_alive": "5m"}
    assert decode_request(encode_request(request)) == request


@pytest.mark.requirement("G3")
def test_errors_reach_the_sdk_as_its_own():
    def missing(_: Request) -> tuple[int, bytes]:
        return encode_error(UpstreamError("no such model", upstream_status=404))

    with talking(missing) as (_, client), pytest.raises(ollama.ResponseError, match="no such model") as caught:
        client.chat(model="m", messages=[USER])
    assert caught.value.status_code == 404


@pytest.mark.requirement("R-F6")
def test_a_stream_that_breaks_raises_in_the_sdk():
    seen: list[str | None] = []
    with (
        talking(answer([TextDelta("Once"), Failure("the upstream is gone", "truncated")])) as (_, client),
        pytest.raises(ollama.ResponseError, match="the upstream is gone"),
    ):
        for chunk in client.chat(model="m", messages=[USER], stream=True):
            seen.append(chunk.message.content)
    assert seen == ["Once"]
