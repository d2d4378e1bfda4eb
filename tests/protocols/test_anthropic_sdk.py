"""Anthropic's own SDK on the other side: what it sends we understand, what we send it understands."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import pydantic
import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent

from tests.protocols.sdk_types import flaw_in
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.types import (
    Media,
    Message,
    Opaque,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)
from toolspeak.errors import ToolspeakError, UpstreamError, UsageError
from toolspeak.protocols.anthropic import ReplyEncoder, decode_request, encode_error, encode_reply, encode_request
from toolspeak.protocols.shared.framing import ServerEvent, SSEDecoder

pytestmark = pytest.mark.requirement("G1", "G4")

TOOLS: Any = [
    {
        "name": "get_weather",
        "description": "d",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "cache_control": {"type": "ephemeral"},
    },
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    {"type": "bash_20250124", "name": "bash"},
]
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "EqQB"}
CITATION = {
    "type": "char_location",
    "cited_text": "x",
    "document_index": 0,
    "document_title": None,
    "file_id": None,
    "start_char_index": 0,
    "end_char_index": 1,
}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
TURN: list[Event] = [
    ReasoningDelta("h"),
    ReasoningDelta("m"),
    OpaqueSeen(Opaque("thinking", SIGNED)),
    OpaqueSeen(Opaque("redacted_thinking", {"type": "redacted_thinking", "data": "Em"})),
    OpaqueSeen(Opaque("server_tool_use", SEARCH)),
    TextDelta("Let me "),
    TextDelta("see.\u2028\u0085 😀"),
    OpaqueSeen(Opaque("citations", [CITATION])),
    CallStart(0, "get_weather", "toolu_a"),
    CallArgs(0, '{"city":'),
    CallArgs(0, '"Paris"}'),
    CallEnd(0),
    CallStart(1, "now"),
    CallEnd(1),
    OpaqueSeen(Opaque("usage", {"cache_creation_input_tokens": 3})),
    UsageSeen(Usage(10, 4, 6, 1)),
    Finish("tool_calls"),
]
FACE: Any = {"id": "msg_1", "created": 7, "model": "m"}


class Server:
    """Answers over loopback by our codec, and remembers what it was asked. `error`: what to answer instead."""

    def __init__(self, events: list[Event], error: ToolspeakError | None = None) -> None:
        self.events = events
        self.error = error
        self.request = Request("", ())
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status, kind, answer = outer.answer(body)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("request-id", "req_1")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        self.options: Any = {"api_key": "k", "base_url": f"http://127.0.0.1:{self._http.server_port}", "max_retries": 0}

    def answer(self, body: bytes) -> tuple[int, str, bytes]:
        self.request = decode_request(body)
        if self.error is not None:
            status, said = encode_error(self.error)
            return status, "application/json", said
        if not self.request.stream:
            return 200, "application/json", encode_reply(fold(self.events), self.request, **FACE)
        face = ReplyEncoder(self.request, **FACE)
        data = b"".join(face.encode([event]) for event in self.events) + face.close({"requests": 1})
        return 200, "text/event-stream; charset=utf-8", data

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(events: list[Event], error: ToolspeakError | None = None) -> Server:
        servers.append(Server(events, error))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


ASK: Any = {"model": "m", "max_tokens": 1000, "messages": [{"role": "user", "content": "hi"}]}


def check(message: Any) -> None:
    """The whole turn, as the SDK shows it."""
    content = [block.to_dict() for block in message.content]
    assert content[:3] == [SIGNED, {"type": "redacted_thinking", "data": "Em"}, SEARCH]
    assert content[3] == {"type": "text", "text": "Let me see.\u2028\u0085 😀", "citations": [CITATION]}
    calls = [block for block in message.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [("get_weather", {"city": "Paris"}), ("now", {})]
    assert calls[0].id == "toolu_a"
    assert calls[1].id.startswith("toolu_")
    assert (message.id, message.role, message.model, message.stop_reason) == ("msg_1", "assistant", "m", "tool_use")
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens) == (1, 4)
    assert (usage.cache_creation_input_tokens, usage.cache_read_input_tokens) == (3, 6)
    assert usage.output_tokens_details is not None
    assert usage.output_tokens_details.thinking_tokens == 1


def test_the_client_reads_an_answer(serve: Callable[..., Server]):
    with anthropic.Anthropic(**serve(TURN).options) as client:
        check(client.messages.create(**ASK))


def test_the_streaming_helper_reads_a_stream(serve: Callable[..., Server]):
    with anthropic.Anthropic(**serve(TURN).options) as client, client.messages.stream(**ASK) as stream:
        kinds = [event.type for event in stream]
        check(stream.get_final_message())
    assert {"thinking", "signature", "text", "citation", "input_json", "message_stop"} <= set(kinds)


def test_the_async_client_reads_both(serve: Callable[..., Server]):
    async def ask() -> None:
        async with anthropic.AsyncAnthropic(**serve(TURN).options) as client:
            check(await client.messages.create(**ASK))
            async with client.messages.stream(**ASK) as stream:
                texts = [text async for text in stream.text_stream]
                check(await stream.get_final_message())
            assert texts == ["Let me ", "see.\u2028\u0085 😀"]
            raw = await client.messages.create(**ASK, stream=True)
            assert [event.type async for event in raw][-1] == "message_stop"

    asyncio.run(ask())


def test_the_client_of_what_is_still_tried_out_reads_both(serve: Callable[..., Server]):
    server = serve(TURN)
    edits: Any = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    with anthropic.Anthropic(**server.options) as client:
        check(client.beta.messages.create(**ASK, betas=["context-management-2025-06-27"], context_management=edits))
        assert server.request.options.extra == {"context_management": edits}
        with client.beta.messages.stream(**ASK) as stream:
            check(stream.get_final_message())


@pytest.mark.requirement("G3")
@pytest.mark.parametrize(
    ("error", "kind", "named"),
    [
        (UsageError("x"), anthropic.BadRequestError, "invalid_request_error"),
        (UpstreamError("x", upstream_status=401), anthropic.AuthenticationError, "authentication_error"),
        (UpstreamError("x", upstream_status=429), anthropic.RateLimitError, "rate_limit_error"),
        (UpstreamError("x", upstream_status=529), anthropic.InternalServerError, "overloaded_error"),
        (UpstreamError("x"), anthropic.InternalServerError, "api_error"),
    ],
)
def test_the_client_raises_the_error_that_belongs_to_it(
    serve: Callable[..., Server], error: ToolspeakError, kind: type[Exception], named: str
):
    with anthropic.Anthropic(**serve([], error).options) as client, pytest.raises(kind) as caught:
        client.messages.create(**ASK)
    assert isinstance(caught.value, anthropic.APIStatusError)
    assert caught.value.type == named
    assert caught.value.body == {"type": "error", "error": {"type": named, "message": "x"}}


@pytest.mark.requirement("R-F6")
def test_a_failure_inside_a_stream_is_an_exception_for_the_client(serve: Callable[..., Server]):
    server = serve([TextDelta("a"), Failure("it broke", "upstream", 529)])
    with (
        anthropic.Anthropic(**server.options) as client,
        client.messages.stream(**ASK) as stream,
        pytest.raises(anthropic.APIStatusError) as caught,
    ):
        stream.get_final_message()
    assert "it broke" in str(caught.value)


# ------------------------------------------------------------------------------------------------- what it sends


def test_what_the_client_sends_is_understood(serve: Callable[..., Server]):
    server = serve([TextDelta("ok"), Finish("stop")])
    with anthropic.Anthropic(**server.options) as client:
        first = client.messages.create(
            **{
                **ASK,
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
                                "cache_control": {"type": "ephemeral"},
                            },
                            {"type": "text", "text": "what is this?"},
                        ],
                    }
                ],
            },
            system=[{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
            tools=TOOLS,
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            thinking={"type": "enabled", "budget_tokens": 1024},
            stop_sequences=["END"],
            metadata={"user_id": "u"},
        )
    cached = {"cache_control": {"type": "ephemeral"}}
    assert first.content[0].to_dict() == {"type": "text", "text": "ok"}
    assert server.request == Request(
        "m",
        (
            Message("system", (TextPart("be brief", cached),)),
            Message("user", (Media("image", "data:image/png;base64,QUJD", cached), TextPart("what is this?"))),
        ),
        (
            Tool("get_weather", "d", TOOLS[0]["input_schema"], extra=cached),
            Tool("web_search", kind="web_search_20250305", extra=TOOLS[1]),
            Tool("bash", kind="bash_20250124", extra=TOOLS[2]),
        ),
        ToolChoice("required", parallel=False),
        options=Options(
            1000,
            stop=("END",),
            extra={"thinking": {"type": "enabled", "budget_tokens": 1024}, "metadata": {"user_id": "u"}},
        ),
        protocol="anthropic",
    )
    assert json.loads(encode_request(server.request))["tools"] == TOOLS


def test_a_reply_that_the_client_sends_back_is_understood(serve: Callable[..., Server]):
    server = serve(TURN)
    with anthropic.Anthropic(**server.options) as client:
        with client.messages.stream(**ASK, tools=TOOLS) as stream:
            said = stream.get_final_message()
        results: Any = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "sunny"}
            for block in said.content
            if block.type == "tool_use"
        ]
        history: Any = [*ASK["messages"], said.to_param(), {"role": "user", "content": results}]
        client.messages.create(**{**ASK, "messages": history}, tools=TOOLS)
    back = server.request.messages[1]
    assert back.reasoning == "hm"
    assert back.parts[0] == Opaque("thinking", SIGNED)
    assert back.text == "Let me see.\u2028\u0085 😀"
    assert back.calls[0] == ToolCall("get_weather", {"city": "Paris"}, "toolu_a")
    assert server.request.messages[2].results[0] == ToolResult("toolu_a", "sunny")
    sent = json.loads(encode_request(server.request))["messages"][1]["content"]
    assert sent[0] == SIGNED


# --------------------------------------------------------------------------------------------------- its types


def test_what_we_stream_and_answer_fits_the_types():
    one: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(RawMessageStreamEvent)
    face = ReplyEncoder(Request("m", ()), **FACE)
    data = b"".join(face.encode([event]) for event in TURN) + face.close()
    frames = [frame for frame in SSEDecoder().feed(data) if isinstance(frame, ServerEvent)]
    assert [one.validate_json(frame.data, strict=True).type for frame in frames] == [frame.event for frame in frames]
    message = AnthropicMessage.model_validate_json(encode_reply(fold(TURN), Request("m", ()), **FACE), strict=True)
    check(message)


def test_what_we_send_fits_the_types():
    request = Request(
        "m",
        (
            Message("system", (TextPart("a"),)),
            Message(
                "user", (TextPart("b"), Media("image", "http://x/y.png"), Media("file", "data:text/plain;base64,QQ=="))
            ),
            Message("assistant", (TextPart("c"),), "hm", (ToolCall("f", {"x": 1}, "functions.f:0"),)),
            Message("tool", results=(ToolResult("functions.f:0", "1", error=True),)),
            Message("system", (TextPart("later"),)),
        ),
        (Tool("f", "d", {"anyOf": []}), Tool("run", kind="custom")),
        ToolChoice("named", ("f",), False),
        options=Options(None, 2.0, 0.5, 7, ("END",), 2, ResponseFormat({"type": "object"}, "x", True)),
        protocol="openai_chat",
    )
    fields = json.loads(encode_request(request))
    assert not flaw_in(fields, "anthropic")
    assert fields["messages"][1]["content"][1]["id"] == fields["messages"][2]["content"][0]["tool_use_id"]
