"""Requests of chat completions, written and read again: what went in comes out, but for the listed losses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.test_openai_chat_request import CODE, again, decode, sent
from toolspeak.core.model import (
    Media,
    Message,
    Note,
    Opaque,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolspeak.protocols.openai_chat import LOSSES, PROTOCOL, ROUTING_FIELDS, decode_request

NAMES = st.sampled_from(["f", "get_weather", "run"])
TEXTS = st.text(max_size=8)
FILLED = st.text(min_size=1, max_size=8)
EXTRA = st.dictionaries(st.sampled_from(["x_one", "x_two"]), st.none() | st.integers(0, 9) | TEXTS, max_size=2)
MEDIA = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from(["http://x/y", "data:audio/wav;base64,QQ=="]),
    EXTRA,
)
OPAQUE = st.sampled_from([Opaque("refusal", {"type": "refusal", "refusal": "no"}), Opaque("signature", "abc")])
PARTS = st.lists(st.builds(TextPart, TEXTS, EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
ARGUMENTS = st.fixed_dictionaries({"input": TEXTS}) | st.dictionaries(
    TEXTS, st.integers(0, 9) | TEXTS | st.none(), max_size=2
)
NOTES = st.sampled_from([(), (Note("trailing_comma"),)])
CALLS = st.lists(st.builds(ToolCall, NAMES, ARGUMENTS, FILLED, NOTES), max_size=2).map(tuple)
RESULTS = st.lists(
    st.builds(ToolResult, TEXTS, TEXTS, TEXTS, st.booleans(), st.lists(MEDIA | OPAQUE, max_size=1).map(tuple), EXTRA),
    min_size=1,
    max_size=2,
).map(tuple)
WORDS = st.fixed_dictionaries({}, optional={"x_one": TEXTS, "reasoning_field": st.just("reasoning")})
MESSAGE = (
    st.builds(Message, st.sampled_from(["system", "user"]), PARTS, name=TEXTS, extra=EXTRA)
    | st.builds(Message, st.just("system"), PARTS, extra=st.just({"role": "developer"}))
    | st.builds(Message, st.just("assistant"), PARTS, TEXTS, CALLS, extra=EXTRA)
    | st.builds(Message, st.just("assistant"), PARTS, FILLED, CALLS, extra=WORDS)
    | st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
)
SCHEMAS = st.none() | st.just({"type": "object"})
TOOL = st.builds(
    Tool,
    NAMES,
    TEXTS,
    SCHEMAS,
    st.booleans(),
    st.sampled_from(["function", "custom"]),
    st.sampled_from(["", "fs"]),
    st.fixed_dictionaries({}, optional={"strict": st.booleans(), "beside": st.just({"cache_control": {}})}),
) | st.just(Tool("web_search", kind="web_search", extra={"type": "web_search"}))
CHOICE = st.builds(
    ToolChoice, st.sampled_from(["auto", "none", "required"]), st.lists(NAMES, max_size=2).map(tuple), st.booleans()
) | st.builds(ToolChoice, st.just("named"), NAMES.map(lambda name: (name,)), st.booleans())
FORMAT = st.none() | st.builds(ResponseFormat, SCHEMAS, st.sampled_from(["", "x"]), st.none() | st.booleans())
NUMBERS = st.none() | st.floats(0, 2)
OPTIONS = st.builds(
    Options,
    st.none() | st.integers(1, 9),
    NUMBERS,
    NUMBERS,
    st.none() | st.integers(0, 9),
    st.lists(TEXTS, max_size=2).map(tuple),
    st.integers(1, 3),
    FORMAT,
    st.just({}) | st.just({"guided_json": {}}),
    st.fixed_dictionaries(
        {}, optional={"user": TEXTS, "api_base": TEXTS, "stream_options": st.just({"include_usage": False, "x": 1})}
    ),
)
REQUEST = st.builds(
    Request,
    TEXTS,
    st.lists(MESSAGE, min_size=1, max_size=4).map(tuple),
    st.lists(TOOL, max_size=3).map(tuple),
    CHOICE,
    st.booleans(),
    OPTIONS,
    st.sampled_from(["", PROTOCOL]),
)
replace = msgspec.structs.replace


def on_messages(change: Callable[[Message], list[Message]]) -> Callable[[Request], Request]:
    return lambda request: replace(
        request, messages=tuple(found for message in request.messages for found in change(message))
    )


def on_tools(change: Callable[[Tool], Tool]) -> Callable[[Request], Request]:
    return lambda request: replace(request, tools=tuple(map(change, request.tools)))


def several_results(message: Message) -> list[Message]:
    alone = [Message("tool", results=(result,)) for result in message.results]
    rest = replace(message, results=())
    return [*alone, rest] if message.parts or not alone else alone


def opaque_parts(message: Message) -> list[Message]:
    def kept(parts: Any) -> Any:
        return tuple(part for part in parts if not (isinstance(part, Opaque) and isinstance(part.data, str)))

    results = tuple(replace(result, parts=kept(result.parts)) for result in message.results)
    return [replace(message, parts=kept(message.parts), results=results)]


def custom_calls(request: Request) -> Request:
    custom = {tool.name for tool in request.tools if tool.kind == "custom"}

    def change(message: Message) -> list[Message]:
        marks: dict[str, Any] = {}
        calls: list[ToolCall] = []
        for at, call in enumerate(message.calls):
            given = call.arguments.get("input")
            if call.name in custom and isinstance(given, str):
                marks[str(at)] = {"type": "custom"}
                call = replace(call, arguments={"input": given})
            calls.append(call)
        extra = message.extra | ({"tool_calls": marks} if marks else {})
        return [replace(message, calls=tuple(calls), extra=extra)]

    return on_messages(change)(request)


def stream_options(request: Request) -> Request:
    given = request.options.extra.get("stream_options", {})
    extra = {key: value for key, value in request.options.extra.items() if key != "stream_options"}
    if request.stream:
        extra["stream_options"] = {**given, "include_usage": True}
    return replace(request, options=replace(request.options, extra=extra))


def named_format(request: Request) -> Request:
    form = request.options.response_format
    if form is not None:
        bare = form.schema is None and not form.name
        form = ResponseFormat() if bare else replace(form, name=form.name or "reply")
    return replace(request, options=replace(request.options, response_format=form))


ONE_TEXT = decode(tools=[CODE]).tools[0].parameters

#: Each loss of `LOSSES` as what it does to a request; the rest are losses of the wire's own variety.
SUFFERED: dict[str, Callable[[Request], Request]] = {
    "protocol": lambda request: replace(request, protocol=PROTOCOL),
    "tool message": on_messages(lambda one: [replace(one, parts=(), name="") if one.role == "tool" else one]),
    "several results": on_messages(several_results),
    "opaque part": on_messages(opaque_parts),
    "empty text": on_messages(lambda one: [replace(one, parts=() if one.parts == (TextPart(""),) else one.parts)]),
    "result error": on_messages(
        lambda one: [replace(one, results=tuple(replace(result, error=False) for result in one.results))]
    ),
    "call notes": on_messages(lambda one: [replace(one, calls=tuple(replace(call, notes=()) for call in one.calls))]),
    "custom call": custom_calls,
    "custom tool": on_tools(lambda tool: replace(tool, parameters=ONE_TEXT) if tool.kind == "custom" else tool),
    "namespace": on_tools(lambda tool: replace(tool, namespace="")),
    "side effects": on_tools(lambda tool: replace(tool, side_effects=False)),
    "tool_choice without tools": lambda request: (
        request if request.tools else replace(request, tool_choice=ToolChoice())
    ),
    "allowed tools under none": lambda request: (
        replace(request, tool_choice=replace(request.tool_choice, allowed=()))
        if request.tool_choice.mode == "none"
        else request
    ),
    "stream_options": stream_options,
    "format without a name": named_format,
    "routing fields": lambda request: replace(
        request,
        options=replace(
            request.options,
            extra={key: value for key, value in request.options.extra.items() if key not in ROUTING_FIELDS},
        ),
    ),
    "grammar": lambda request: replace(
        request,
        options=replace(request.options, grammar={}, extra={**request.options.extra, **request.options.grammar}),
    ),
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {"words of another protocol", "both token limits", "several texts of a result", "functions"}


@pytest.mark.requirement("G3")
@given(REQUEST)
def test_a_request_comes_back_as_it_went_but_for_the_listed_losses(request: Request):
    expected = request
    for suffer in SUFFERED.values():
        expected = suffer(expected)
    assert again(request) == expected
    assert again(expected) == expected


def test_every_listed_loss_is_tested():
    assert {loss.name for loss in LOSSES if loss.half == "request"} == SUFFERED.keys() | ELSEWHERE


# --------------------------------------------------------------------------------------------------- real clients

CLIENTS = Path(__file__).parents[3] / "shared" / "clients" / "requests.jsonl"
#: The file stands for long lists by their beginning and this.
LEFT_OUT = re.compile(r"<\d+ more>")


def real_requests() -> list[Any]:
    if not CLIENTS.is_file():
        return []
    rows = [json.loads(line) for line in CLIENTS.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(whole(row["body"]), id=f"{at}-{row['client']}")
        for at, row in enumerate(rows)
        if row["path"].endswith("/chat/completions")
    ]


def whole(value: Any) -> Any:
    match value:
        case list():
            return [whole(item) for item in value if not (isinstance(item, str) and LEFT_OUT.fullmatch(item))]
        case dict():
            return {key: whole(item) for key, item in value.items()}
        case _:
            return value


@pytest.mark.skipif(not CLIENTS.is_file(), reason="the shared requests are not beside the checkout")
@pytest.mark.requirement("G4")
@pytest.mark.parametrize("body", real_requests())
def test_what_real_clients_send_is_understood_and_survives(body: dict[str, Any]):
    request = decode_request(json.dumps(body).encode())
    assert len(request.messages) == len(body["messages"])
    assert [tool.name for tool in request.tools] == [tool["function"]["name"] for tool in body.get("tools", [])]
    assert again(request) == stream_options(request)
    wire = sent(request)
    assert wire["messages"] == [plain(one) for one in body["messages"]]
    assert wire.get("tools", []) == body.get("tools", [])
    for key in body.keys() - {"messages", "tools", "stream", "stream_options", "n", "tool_choice"}:
        assert wire[key] == body[key]


def plain(wire: dict[str, Any]) -> dict[str, Any]:
    """A single text in a list goes out as that text."""
    match wire["content"]:
        case [{"type": "text", "text": text}]:
            return wire | {"content": text}
        case _:
            return wire
