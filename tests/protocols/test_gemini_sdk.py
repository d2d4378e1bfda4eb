"""Google's own SDK on the other side of a real connection: what it sends we understand, what we send it understands."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

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
from toolspeak.protocols.gemini import ReplyEncoder, decode_request, encode_error, encode_reply, encode_request
from toolspeak.protocols.shared.framing import SSEDecoder

pytestmark = pytest.mark.requirement("G1", "G4")

FACE: Any = {"id": "r1", "created": 7, "model": "m"}
ROUTE = re.compile(r"/v1(?:beta)?/models/([^:]+):(\w+)")
TURN: list[Event] = [
    ReasoningDelta("hm"),
    OpaqueSeen(Opaque("gemini_part", {"text": "", "thought": True, "thoughtSignature": "c2ln"})),
    TextDelta("Let me "),
    TextDelta("see.\u2028"),
    OpaqueSeen(Opaque("gemini_call", {"name": "get_weather", "thoughtSignature": "c2ln"})),
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
        route = ROUTE.match(path)
        assert route is not None
        try:
            self.request = decode_request(body, model=route[1], stream=route[2] == "streamGenerateContent")
            return self.give(self.request)
        except UsageError as error:
            return encode_error(error)


@contextmanager
def talking(give: Callable[[Request], tuple[int, bytes]]) -> Iterator[tuple[Server, genai.Client]]:
    server = Server(give)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, body = server.respond(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if "alt=sse" in self.path else "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        options = types.HttpOptions(base_url=f"http://127.0.0.1:{listening.server_port}")
        client = genai.Client(api_key="k", http_options=options)
        try:
            yield server, client
        finally:
            client.close()
            listening.shutdown()
            thread.join()


def get_weather(city: str) -> str:
    """Tells the weather."""
    return city


MANUAL = types.AutomaticFunctionCallingConfig(disable=True)
CONFIG = types.GenerateContentConfig(tools=[get_weather], automatic_function_calling=MANUAL)


def check(parts: list[types.Part]) -> None:
    assert "".join(part.text for part in parts if part.text and not part.thought) == "Let me see.\u2028"
    assert "".join(part.text for part in parts if part.text and part.thought) == "hm"
    call = next(part for part in parts if part.function_call)
    assert call.function_call is not None
    assert (call.function_call.id, call.function_call.name) == ("call_a", "get_weather")
    assert call.function_call.args == {"city": "Paris"}
    assert call.thought_signature == b"sig"


def parts_of(response: types.GenerateContentResponse) -> list[types.Part]:
    assert response.candidates
    content = response.candidates[0].content
    return (content.parts if content else None) or []


def test_a_whole_answer_reaches_the_sdk():
    with talking(answer(TURN)) as (_, client):
        found = client.models.generate_content(model="m", contents="hi", config=CONFIG)
    check(parts_of(found))
    assert found.candidates
    assert found.candidates[0].finish_reason == types.FinishReason.STOP
    assert found.usage_metadata is not None
    usage = found.usage_metadata
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count) == (10, 3, 1)
    assert (usage.cached_content_token_count, usage.total_token_count) == (6, 14)
    assert (found.model_version, found.response_id) == ("m", "r1")


def test_a_stream_reaches_the_sdk():
    with talking(answer(TURN)) as (server, client):
        chunks = list(client.models.generate_content_stream(model="m", contents="hi", config=CONFIG))
    assert server.request.stream
    check([part for chunk in chunks for part in parts_of(chunk)])
    assert chunks[-1].candidates
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert chunks[-1].usage_metadata is not None


def test_the_sdk_calls_the_function_and_sends_its_result():
    requests: list[Request] = []

    def give(request: Request) -> tuple[int, bytes]:
        requests.append(request)
        return answer(TURN if len(requests) == 1 else [TextDelta("Sunny."), Finish("stop")])(request)

    with talking(give) as (_, client):
        config = types.GenerateContentConfig(tools=[get_weather], system_instruction="Be brief.")
        found = client.models.generate_content(model="m", contents="hi", config=config)
    assert found.text == "Sunny."
    system, user, called, result = requests[1].messages
    assert (system.role, system.text, user.text) == ("system", "Be brief.", "hi")
    assert called.calls == (ToolCall("get_weather", {"city": "Paris"}, "call_a"),)
    assert (called.reasoning, called.text) == ("hm", "Let me see.\u2028")
    assert called.extra["calls"] == {"0": {"thoughtSignature": "c2ln"}}
    assert result.results[0].content == "Paris"
    assert (result.results[0].id, result.results[0].name) == ("call_a", "get_weather")
    assert requests[1].tools[0].parameters["properties"] == {"city": {"type": "string"}}


def test_what_the_sdk_sends_is_understood_and_sent_on():
    contents: Any = [
        types.Content(role="user", parts=[types.Part.from_bytes(data=b"\xfb\xff", mime_type="image/png")]),
        types.Content(role="model", parts=[types.Part.from_function_call(name="f", args={"x": 1})]),
        types.Content(role="user", parts=[types.Part.from_function_response(name="f", response={"result": "1"})]),
    ]
    config = types.GenerateContentConfig(
        tools=[
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration(
                        name="f",
                        parameters=types.Schema(
                            type=types.Type.OBJECT, properties={"x": types.Schema(type=types.Type.STRING)}
                        ),
                    )
                ]
            ),
            types.Tool(google_search=types.GoogleSearch()),
        ],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["f"]
            )
        ),
        temperature=0.5,
        max_output_tokens=9,
        stop_sequences=["END"],
        thinking_config=types.ThinkingConfig(include_thoughts=True),
        response_mime_type="application/json",
        response_json_schema={"type": "object"},
    )
    with talking(answer([TextDelta("{}"), Finish("stop")])) as (server, client):
        client.models.generate_content(model="m", contents=contents, config=config)
    request = server.request
    assert request.messages[0].parts[0].url == "data:image/png;base64,+/8="  # type: ignore[union-attr]
    assert request.messages[1] == Message("assistant", calls=(ToolCall("f", {"x": 1}, "unnamed_call_1"),))
    assert request.messages[2].results == (ToolResult("unnamed_call_1", "1", "f", extra={"response": {"result": "1"}}),)
    tools = {tool.kind: tool for tool in request.tools}
    assert tools.keys() == {"function", "googleSearch"}
    assert tools["function"].parameters == {"type": "object", "properties": {"x": {"type": "string"}}}
    assert request.tool_choice == ToolChoice("required", ("f",))
    assert (request.options.max_tokens, request.options.stop) == (9, ("END",))
    assert request.options.response_format is not None
    again = decode_request(encode_request(request), model="m")
    assert again == request


def test_a_chat_of_the_sdk_keeps_what_we_said():
    with talking(answer(TURN)) as (server, client):
        chat = client.chats.create(model="m", config=CONFIG)
        for _ in chat.send_message_stream("hi"):
            pass
        chat.send_message("go on")
    said = server.request.messages[1:-1]
    assert "".join(message.reasoning for message in said) == "hm"
    assert [call for message in said for call in message.calls] == [
        ToolCall("get_weather", {"city": "Paris"}, "call_a")
    ]
    assert server.request.messages[-1] == Message("user", (TextPart("go on"),))


@pytest.mark.requirement("G3")
@check_each(
    "events",
    [
        TURN,
        [TextDelta("hi"), Finish("stop")],
        [Finish("length")],
        [OpaqueSeen(Opaque("gemini_prompt", {"blockReason": "SAFETY"})), Finish("content_filter")],
    ],
)
def test_everything_we_send_passes_the_types_of_the_sdk(events: list[Event]):
    request = Request("m", ())
    types.GenerateContentResponse.model_validate_json(encode_reply(fold(events), request, **FACE))
    face = ReplyEncoder(request, **FACE)
    for frame in SSEDecoder().feed(face.encode(events) + face.close()):
        assert isinstance(frame, bytes)
        types.GenerateContentResponse.model_validate_json(frame)


@pytest.mark.requirement("G3")
def test_errors_reach_the_sdk_as_its_own():
    def limited(_: Request) -> tuple[int, bytes]:
        return encode_error(UpstreamError("slow down", upstream_status=429))

    with talking(limited) as (_, client), pytest.raises(errors.ClientError, match="slow down") as caught:
        client.models.generate_content(model="m", contents="hi")
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")


@pytest.mark.requirement("R-F6")
def test_a_stream_that_breaks_raises_in_the_sdk():
    seen: list[str | None] = []
    with (
        talking(answer([TextDelta("Once"), Failure("the upstream is gone", "truncated")])) as (_, client),
        pytest.raises(errors.ServerError, match="the upstream is gone"),
    ):
        for chunk in client.models.generate_content_stream(model="m", contents="hi"):
            seen.append(chunk.text)
    assert seen == ["Once"]
