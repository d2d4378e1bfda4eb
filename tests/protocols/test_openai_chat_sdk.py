"""OpenAI's own SDK on the other side: what it sends we understand, what we send it understands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.cases import check_each
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
from toolspeak.core.types import Message, Request, TextPart, ToolCall, ToolChoice, ToolResult, Usage
from toolspeak.errors import UpstreamError, UsageError
from toolspeak.protocols.openai_chat import (
    ReplyEncoder,
    decode_request,
    encode_error,
    encode_reply,
    encode_request,
)
from toolspeak.protocols.shared.framing import SSEDecoder

pytestmark = pytest.mark.requirement("G1", "G4")

TOOLS: Any = [
    {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object"}}},
    {"type": "custom", "custom": {"name": "run_code", "description": "d"}},
]
USER: Any = {"role": "user", "content": "hi"}
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
CUSTOM: list[Event] = [
    CallStart(0, "run_code", "call_b"),
    CallArgs(0, '{"input":"print(1)"}'),
    CallEnd(0),
    Finish("tool_calls"),
]
FACE = {"id": "chatcmpl-1", "created": 7, "model": "m"}


class Server:
    """Answers the SDK by our codec, inside this process, and remembers what it was asked."""

    def __init__(self, answer: Callable[[Request], httpx2.Response]) -> None:
        self._answer = answer
        self.request = Request("", ())
        transport = httpx2.MockTransport(self._handle)
        self.client = openai.OpenAI(
            api_key="k", base_url="http://127.0.0.1/v1", max_retries=0, http_client=httpx2.Client(transport=transport)
        )

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        try:
            self.request = decode_request(request.read())
            return self._answer(self.request)
        except UsageError as error:
            status, body = encode_error(error)
            return httpx2.Response(status, content=body, headers={"content-type": "application/json"})


def answering(events: list[Event]) -> Server:
    def answer(request: Request) -> httpx2.Response:
        if not request.stream:
            body = encode_reply(fold(events), request, **FACE)  # type: ignore[arg-type]
            return httpx2.Response(200, content=body, headers={"content-type": "application/json"})
        face = ReplyEncoder(request, **FACE)  # type: ignore[arg-type]
        body = face.encode(events) + face.close({"plan": "inline"})
        return httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})

    return Server(answer)


def test_a_whole_answer_reaches_the_sdk():
    server = answering(TURN)
    found = server.client.chat.completions.create(model="m", messages=[USER], tools=TOOLS)
    choice = found.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Let me see.\u2028", "tool_calls")
    call = choice.message.tool_calls[0]  # type: ignore[index]
    assert call.type == "function"
    assert (call.id, call.function.name, call.function.arguments) == ("call_a", "get_weather", '{"city":"Paris"}')
    assert found.usage is not None
    assert found.usage.total_tokens == 14


def test_a_stream_reaches_the_sdk_and_is_put_together_by_it():
    server = answering(TURN)
    with server.client.chat.completions.stream(
        model="m", messages=[USER], tools=TOOLS[:1], stream_options={"include_usage": True}
    ) as stream:
        for _ in stream:
            pass
        found = stream.get_final_completion()
    message = found.choices[0].message
    assert message.content == "Let me see.\u2028"
    assert message.tool_calls[0].function.arguments == '{"city":"Paris"}'  # type: ignore[index]
    assert found.usage is not None
    assert found.usage.prompt_tokens_details is not None
    assert found.usage.prompt_tokens_details.cached_tokens == 6
    assert found.usage.completion_tokens_details is not None
    assert found.usage.completion_tokens_details.reasoning_tokens == 1


@pytest.mark.requirement("A13")
def test_a_call_of_a_custom_tool_reaches_the_sdk():
    server = answering(CUSTOM)
    found = server.client.chat.completions.create(model="m", messages=[USER], tools=TOOLS)
    call = found.choices[0].message.tool_calls[0]  # type: ignore[index]
    assert call.type == "custom"
    assert (call.custom.name, call.custom.input) == ("run_code", "print(1)")
    chunks = list(server.client.chat.completions.create(model="m", messages=[USER], tools=TOOLS, stream=True))
    pieces = [chunk.choices[0].delta.tool_calls for chunk in chunks]
    assert [piece[0].to_dict() for piece in pieces if piece] == [
        {"index": 0, "id": "call_b", "type": "custom", "custom": {"name": "run_code", "input": "print(1)"}}
    ]


@check_each("events", [TURN, [TextDelta("hi"), Finish("stop")], [Finish("length")]])
def test_everything_we_send_passes_the_types_of_the_sdk(events: list[Event]):
    request = decode_request({"model": "m", "messages": [USER], "stream_options": {"include_usage": True}})
    ChatCompletion.model_validate_json(encode_reply(fold(events), request, **FACE), strict=True)  # type: ignore[arg-type]
    face = ReplyEncoder(request, **FACE)  # type: ignore[arg-type]
    frames = SSEDecoder().feed(face.encode(events) + face.close())
    assert frames.pop() == b"[DONE]"
    for frame in frames:
        assert isinstance(frame, bytes)
        ChatCompletionChunk.model_validate_json(frame, strict=True)


def test_what_the_sdk_sends_is_understood():
    server = answering([TextDelta("ok"), Finish("stop")])
    messages: Any = [
        {"role": "developer", "content": "Be brief."},
        USER,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]
    choice: Any = {"type": "function", "function": {"name": "get_weather"}}
    server.client.chat.completions.create(
        model="m",
        messages=messages,
        tools=TOOLS,
        tool_choice=choice,
        parallel_tool_calls=False,
        max_completion_tokens=9,
        stop="END",
        extra_body={"top_k": 5},
    )
    request = server.request
    assert request.messages == (
        Message("system", (TextPart("Be brief."),), extra={"role": "developer"}),
        Message("user", (TextPart("hi"),)),
        Message("assistant", calls=(ToolCall("f", {"x": 1}, "a"),)),
        Message("tool", results=(ToolResult("a", "1"),)),
    )
    assert request.tool_choice == ToolChoice("named", ("get_weather",), parallel=False)
    assert (request.options.max_tokens, request.options.stop, request.options.extra["top_k"]) == (9, ("END",), 5)
    wire = json.loads(encode_request(request))
    assert wire["messages"] == messages
    assert (wire["tools"], wire["tool_choice"]) == (TOOLS, choice)


def test_the_answer_of_the_sdk_goes_back_into_the_next_request():
    server = answering(TURN)
    found = server.client.chat.completions.create(model="m", messages=[USER], tools=TOOLS)
    history: Any = [USER, found.choices[0].message, {"role": "tool", "tool_call_id": "call_a", "content": "sunny"}]
    server.client.chat.completions.create(model="m", messages=history, tools=TOOLS)
    assert server.request.messages[1].reasoning == "hm"
    assert server.request.messages[1].calls == (ToolCall("get_weather", {"city": "Paris"}, "call_a"),)


@pytest.mark.requirement("G3")
def test_errors_reach_the_sdk_as_its_own():
    with pytest.raises(openai.BadRequestError, match="messages"):
        answering([]).client.chat.completions.create(model="m", messages=[])

    def limited(_: Request) -> httpx2.Response:
        status, body = encode_error(UpstreamError("slow down", upstream_status=429))
        return httpx2.Response(status, content=body, headers={"content-type": "application/json"})

    with pytest.raises(openai.RateLimitError, match="slow down"):
        Server(limited).client.chat.completions.create(model="m", messages=[USER])


@pytest.mark.requirement("R-F6")
def test_a_stream_that_breaks_raises_in_the_sdk():
    server = answering([TextDelta("Once"), Failure("the upstream is gone", "truncated")])
    seen: list[str | None] = []
    with pytest.raises(openai.APIError, match="the upstream is gone"):
        for chunk in server.client.chat.completions.create(model="m", messages=[USER], stream=True):
            seen.append(chunk.choices[0].delta.content)
    assert seen == ["", "Once"]
