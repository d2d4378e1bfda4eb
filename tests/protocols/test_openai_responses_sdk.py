"""OpenAI's own SDK on the other side: what it sends we understand, what we send it understands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseInputImageParam, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.cases import check_each
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
from toolspeak.core.types import Message, Opaque, Request, TextPart, ToolCall, ToolChoice, ToolResult, Usage
from toolspeak.errors import UpstreamError, UsageError
from toolspeak.protocols import openai_chat
from toolspeak.protocols.openai_responses import (
    ReplyEncoder,
    decode_request,
    encode_error,
    encode_reply,
    encode_request,
    needs_store,
)
from toolspeak.protocols.shared.framing import ServerEvent, SSEDecoder

pytestmark = pytest.mark.requirement("G1", "G4")

FIXTURES = Path(__file__).parent / "fixtures" / "openai_responses"
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TOOLS: Any = [
    {"type": "function", "name": "get_weather", "description": "d", "parameters": {"type": "object"}, "strict": False},
    {
        "type": "custom",
        "name": "run_code",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
    },
    {
        "type": "namespace",
        "name": "crm",
        "description": "Customers.",
        "tools": [{"type": "function", "name": "find", "parameters": {"type": "object"}}],
    },
    {"type": "web_search"},
]
CITATION = {"type": "url_citation", "start_index": 0, "end_index": 3, "url": "https://x/", "title": "t"}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "rain"},
}
HIDDEN = {
    "type": "reasoning",
    "id": "rs_x",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gA",
}
TURN: list[Event] = [
    OpaqueSeen(Opaque("start:reasoning", {"id": "rs_x", "field": "summary"})),
    ReasoningDelta("hm"),
    OpaqueSeen(Opaque("item:reasoning", HIDDEN)),
    OpaqueSeen(Opaque("item:web_search_call", SEARCH)),
    TextDelta("Let me "),
    TextDelta("see.\u2028"),
    OpaqueSeen(Opaque("annotation:url_citation", CITATION)),
    CallStart(0, "get_weather", "call_a"),
    CallArgs(0, '{"city":'),
    CallArgs(0, '"Paris"}'),
    CallEnd(0),
    CallStart(1, "run_code", "call_b"),
    CallArgs(1, '{"input":"print(1)"}'),
    CallEnd(1),
    CallStart(2, "crm__find", "call_c"),
    CallArgs(2, "{}"),
    CallEnd(2),
    UsageSeen(Usage(10, 4, 6, 1)),
    Finish("tool_calls"),
]
TURNS: dict[str, list[Event]] = {
    "everything": TURN,
    "text": [ReasoningDelta("hm"), TextDelta("hi"), Finish("stop")],
    "raw reasoning": [
        OpaqueSeen(Opaque("start:reasoning", {"id": "rs_x", "field": "content"})),
        ReasoningDelta("hm"),
        TextDelta("hi"),
        Finish("stop"),
    ],
    "cut text": [TextDelta("hi"), Finish("length")],
    "cut call": [CallStart(0, "get_weather", "a"), CallArgs(0, '{"ci'), Finish("length")],
    "wrong call": [CallStart(0, "get_weather", "a"), CallArgs(0, "{}"), CallEnd(0, valid=False), Finish("tool_calls")],
    "filtered": [Finish("content_filter")],
    "nothing": [Finish("stop")],
}
FACE: Any = {"id": "resp_1", "created": 7, "model": "m"}

Answer = Callable[[Request], tuple[int, str, bytes]]


class Server:
    """Answers the SDK by our codec, on a real socket, and remembers what it was asked."""

    def __init__(self, answer: Answer, url: str) -> None:
        self.answer = answer
        self.request = Request("", ())
        self.client = openai.OpenAI(api_key="k", base_url=url, max_retries=0, timeout=10)

    def reply(self, body: bytes) -> tuple[int, str, bytes]:
        try:
            self.request = decode_request(body)
            return self.answer(self.request)
        except UsageError as error:
            status, payload = encode_error(error)
            return status, "application/json", payload


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, kind, body = server.reply(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(answer, f"http://127.0.0.1:{listener.server_port}/v1")
    thread = Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.client.close()
        listener.shutdown()
        listener.server_close()
        thread.join()


def answering(events: list[Event]) -> Answer:
    def answer(request: Request) -> tuple[int, str, bytes]:
        if not request.stream:
            return 200, "application/json", encode_reply(fold(events), request, **FACE)
        face = ReplyEncoder(request, **FACE)
        return 200, "text/event-stream", face.encode(events) + face.close({"plan": "inline"})

    return answer


def look_at(response: Response) -> None:
    """What everybody must find in the answer to `TURN`."""
    assert response.output_text == "Let me see.\u2028"
    reasoning, search, message, weather, code, find = response.output
    assert reasoning.to_dict() == HIDDEN
    assert search.type == "web_search_call"
    assert message.type == "message"
    assert message.content[0].to_dict()["annotations"] == [CITATION]
    assert weather.type == "function_call"
    assert (weather.call_id, weather.name, weather.arguments) == ("call_a", "get_weather", '{"city":"Paris"}')
    assert code.type == "custom_tool_call"
    assert (code.call_id, code.name, code.input) == ("call_b", "run_code", "print(1)")
    assert find.type == "function_call"
    assert (find.name, find.namespace) == ("find", "crm")
    assert response.usage is not None
    assert (response.usage.total_tokens, response.usage.input_tokens_details.cached_tokens) == (14, 6)
    assert response.usage.output_tokens_details.reasoning_tokens == 1
    assert response.status == "completed"


@pytest.mark.requirement("A13", "G3")
def test_a_whole_answer_reaches_the_sdk():
    with serving(answering(TURN)) as server:
        look_at(server.client.responses.create(model="m", input="hi", tools=TOOLS))


@pytest.mark.requirement("A13", "G3")
def test_a_stream_reaches_the_sdk_and_is_put_together_by_it():
    with serving(answering(TURN)) as server:
        with server.client.responses.stream(model="m", input="hi", tools=TOOLS) as stream:
            texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
        assert texts == ["Let me ", "see.\u2028"]
        look_at(final)
        with server.client.responses.create(model="m", input="hi", tools=TOOLS, stream=True) as plain:
            events = list(plain)
        assert [event.sequence_number for event in events] == list(range(len(events)))
        last = events[-1]
        assert last.type == "response.completed"
        look_at(last.response)


@check_each("name", TURNS)
def test_everything_we_send_passes_the_types_of_the_sdk(name: str):
    events = TURNS[name]
    request = decode_request({"model": "m", "input": "hi", "tools": TOOLS, "reasoning": {"effort": "low"}})
    answer = Response.model_validate_json(encode_reply(fold(events), request, **FACE), strict=True)
    face = ReplyEncoder(request, **FACE)
    frames = SSEDecoder().feed(face.encode(events) + face.close())
    seen = [EVENT.validate_json(frame.data, strict=True) for frame in frames if isinstance(frame, ServerEvent)]
    assert len(seen) == len(frames)
    if name != "wrong call":
        assert seen[-1].response == answer


@check_each("name", sorted(TURNS.keys() - {"everything"}))
def test_every_end_of_a_stream_reaches_the_sdk(name: str):
    with (
        serving(answering(TURNS[name])) as server,
        server.client.responses.stream(model="m", input="hi", tools=TOOLS) as stream,
    ):
        last = list(stream)[-1]
    assert last.type in ("response.completed", "response.incomplete")


#: Fixtures of servers that keep to the documentation.
PROPER = (
    "plain_text parallel_calls interleaved_calls reasoning_summary reasoning_text custom_tool_call namespace_call"
    " web_search_with_citations refusal cut_by_length_inside_a_call content_filter failed failed_by_rate_limit"
    " error_event incomplete_for_another_reason without_event_names only_whole_items"
).split()


@check_each("name", PROPER)
def test_the_fixtures_are_what_the_sdk_knows(name: str):
    for frame in SSEDecoder().feed((FIXTURES / f"{name}.sse").read_bytes()):
        EVENT.validate_json(frame.data if isinstance(frame, ServerEvent) else frame, strict=True)  # type: ignore[arg-type]


@check_each("name", ["whole_text", "whole_items", "whole_incomplete", "whole_failed"])
def test_the_whole_answers_are_what_the_sdk_knows(name: str):
    Response.model_validate_json((FIXTURES / f"{name}.json").read_bytes(), strict=True)


def test_what_the_sdk_sends_is_understood():
    items: Any = [
        {"type": "message", "role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"x":1}'},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
    ]
    choice: Any = {"type": "function", "name": "get_weather"}
    with serving(answering([TextDelta("ok"), Finish("stop")])) as server:
        server.client.responses.create(
            model="m",
            input=items,
            instructions="You help.",
            tools=TOOLS,
            tool_choice=choice,
            parallel_tool_calls=False,
            max_output_tokens=9,
            store=False,
            include=["reasoning.encrypted_content"],
            extra_body={"top_k": 5},
        )
    request = server.request
    assert request.messages == (
        Message("system", (TextPart("You help."),), extra={"instructions": True}),
        Message("system", (TextPart("Be brief."),), extra={"role": "developer"}),
        Message("user", (TextPart("hi"),)),
        Message("assistant", calls=(ToolCall("f", {"x": 1}, "a"),)),
        Message("tool", results=(ToolResult("a", "1"),)),
    )
    assert request.tool_choice == ToolChoice("named", ("get_weather",), parallel=False)
    assert (request.options.max_tokens, request.options.extra["top_k"]) == (9, 5)
    wire = json.loads(encode_request(request))
    assert (wire["input"], wire["instructions"]) == (items, "You help.")
    assert (wire["tools"], wire["tool_choice"]) == (TOOLS, choice)


@pytest.mark.requirement("G3")
def test_the_answer_of_the_sdk_goes_back_into_the_next_request():
    with serving(answering(TURN)) as server:
        found = server.client.responses.create(model="m", input="hi", tools=TOOLS)
        said: list[Any] = [item.to_dict() for item in found.output]
        history: Any = [{"role": "user", "content": "hi"}, *found.output]
        history += [{"type": "function_call_output", "call_id": "call_a", "output": "sunny"}]
        server.client.responses.create(model="m", input=history, tools=TOOLS)
    request = server.request
    message = request.messages[1]
    assert (message.reasoning, message.text) == ("hm", "Let me see.\u2028")
    assert message.calls == (
        ToolCall("get_weather", {"city": "Paris"}, "call_a"),
        ToolCall("run_code", {"input": "print(1)"}, "call_b"),
        ToolCall("crm__find", {}, "call_c"),
    )
    assert json.loads(encode_request(request))["input"][1:-1] == said


@pytest.mark.requirement("G5")
def test_a_request_that_needs_a_store_is_known():
    with serving(answering([TextDelta("ok"), Finish("stop")])) as server:
        server.client.responses.create(model="m", input="hi", previous_response_id="resp_0")
    assert needs_store(server.request)


@pytest.mark.requirement("G3")
def test_errors_reach_the_sdk_as_its_own():
    with serving(answering([])) as server, pytest.raises(openai.BadRequestError, match="input"):
        server.client.responses.create(model="m", input=[])

    def limited(_: Request) -> tuple[int, str, bytes]:
        status, body = encode_error(UpstreamError("slow down", upstream_status=429))
        return status, "application/json", body

    with serving(limited) as server, pytest.raises(openai.RateLimitError, match="slow down"):
        server.client.responses.create(model="m", input="hi")


@pytest.mark.requirement("R-F6")
def test_a_stream_that_breaks_raises_in_the_sdk():
    seen: list[str] = []
    with serving(answering([TextDelta("Once"), Failure("the upstream is gone", "truncated")])) as server:
        stream = server.client.responses.create(model="m", input="hi", stream=True)
        with pytest.raises(openai.APIError, match="the upstream is gone"):
            for event in stream:
                seen.append(event.type)
    assert seen[-2:] == ["response.output_text.delta", "response.failed"]


@check_each("said", [{}, {"detail": "auto"}, {"detail": "high"}])
def test_how_closely_to_look_at_a_picture_is_always_said(said: dict[str, str]):
    """As the type of OpenAI's own client demands."""
    picture = {"type": "input_image", "image_url": "http://x/y", **said}
    request = decode_request({"input": [{"role": "user", "content": [picture]}]})
    (wire,) = json.loads(encode_request(request))["input"][0]["content"]
    wanted = ResponseInputImageParam.__required_keys__
    assert wanted <= wire.keys()
    assert wire == {"detail": "auto", **picture}
    chat = json.loads(openai_chat.encode_request(request))["messages"][0]["content"][0]["image_url"]
    assert chat.get("detail", "auto") == wire["detail"]
