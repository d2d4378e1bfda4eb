"""Requests of Gemini's, written and read again: what went in comes out, but for the listed losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.test_gemini_request import HI, MESSAGES, PART, WEATHER, again, decode, sent
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
from toolspeak.protocols.common import ROUTING_FIELDS
from toolspeak.protocols.gemini import LOSSES, PROTOCOL

NAMES = st.sampled_from(["f", "get_weather", "run"])
TEXTS = st.text(max_size=8)
FILLED = st.text(min_size=1, max_size=8)
EXTRA = st.dictionaries(st.sampled_from(["x_one", "x_two"]), st.integers(0, 9) | TEXTS, max_size=2)
MEDIA = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from(["https://x/y.png", "gs://b/o", "data:audio/wav;base64,QQ=="]),
    EXTRA,
)
OPAQUE = st.sampled_from(
    [
        Opaque(PART, {"executableCode": {"code": "1"}}),
        Opaque(PART, "odd"),
        Opaque("signature", "abc"),
        Opaque("thinking", {"type": "thinking"}),
    ]
)
THOUGHT = st.builds(lambda text: Opaque(PART, {"text": text, "thought": True}), FILLED)
PARTS = st.lists(st.builds(TextPart, TEXTS, EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
ANSWER = st.lists(st.builds(TextPart, TEXTS, EXTRA) | THOUGHT | OPAQUE, max_size=3).map(tuple)
ARGUMENTS = st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS | st.none(), max_size=2)
NOTES = st.sampled_from([(), (Note("trailing_comma"),)])
CALLS = st.lists(st.builds(ToolCall, NAMES, ARGUMENTS, FILLED, NOTES), max_size=2).map(tuple)
RESULTS = st.lists(
    st.builds(ToolResult, FILLED, TEXTS, NAMES, st.booleans(), st.lists(MEDIA | OPAQUE, max_size=1).map(tuple), EXTRA),
    max_size=2,
).map(tuple)
MESSAGE = (
    st.builds(Message, st.just("user"), PARTS, name=TEXTS, extra=EXTRA)
    | st.builds(Message, st.just("system"), PARTS, name=TEXTS)
    | st.builds(Message, st.just("assistant"), ANSWER, TEXTS, CALLS, extra=EXTRA)
    | st.builds(Message, st.just("tool"), results=RESULTS)
    | st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
)
SCHEMAS = st.none() | st.just({"type": "object"})
TOOL = (
    st.builds(
        Tool,
        NAMES,
        TEXTS,
        SCHEMAS,
        st.booleans(),
        st.sampled_from(["function", "custom"]),
        st.sampled_from(["", "fs"]),
        st.fixed_dictionaries({}, optional={"behavior": TEXTS, "response": st.just({"type": "STRING"})}),
    )
    | st.just(Tool("googleSearch", kind="googleSearch", extra={"googleSearch": {}}))
    | st.just(Tool("f", parameters={"type": "object"}, extra={"parameters": {"type": "OBJECT"}}))
)
CHOICE = st.builds(
    ToolChoice, st.sampled_from(["auto", "none", "required"]), st.lists(NAMES, max_size=2).map(tuple), st.booleans()
) | st.builds(ToolChoice, st.just("named"), NAMES.map(lambda name: (name,)), st.booleans())
FORMAT = st.none() | st.builds(ResponseFormat, SCHEMAS, st.sampled_from(["", "x"]), st.none() | st.booleans())
NUMBERS = st.none() | st.floats(0, 2)
GRAMMAR = {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": {"type": "array"}}}
OPTIONS = st.builds(
    Options,
    st.none() | st.integers(1, 9),
    NUMBERS,
    NUMBERS,
    st.none() | st.integers(0, 9),
    st.lists(TEXTS, max_size=2).map(tuple),
    st.integers(1, 3),
    FORMAT,
    st.sampled_from([{}, GRAMMAR, {"x_grammar": 1}]),
    st.fixed_dictionaries(
        {}, optional={"cachedContent": TEXTS, "api_base": TEXTS, "generationConfig": st.just({"topK": 5})}
    ),
)
REQUEST = st.builds(
    Request,
    TEXTS,
    st.lists(MESSAGE, max_size=4).map(lambda found: (*found, HI)),
    st.lists(TOOL, max_size=3).map(tuple),
    CHOICE,
    st.booleans(),
    OPTIONS,
    st.sampled_from(["", PROTOCOL]),
)
replace = msgspec.structs.replace


def on_messages(change: Callable[[Message], Message]) -> Callable[[Request], Request]:
    return lambda request: replace(request, messages=tuple(map(change, request.messages)))


def on_tools(change: Callable[[Tool], Tool]) -> Callable[[Request], Request]:
    return lambda request: replace(request, tools=tuple(map(change, request.tools)))


def on_parts(change: Callable[[Any], Any]) -> Callable[[Request], Request]:
    """`change` gives None for a part that is lost."""

    def kept(parts: Any) -> Any:
        return tuple(found for part in parts if (found := change(part)) is not None)

    return on_messages(
        lambda one: replace(
            one,
            parts=kept(one.parts),
            results=tuple(replace(result, parts=kept(result.parts)) for result in one.results),
        )
    )


def media(part: Any) -> Any:
    match part:
        case Media(_, "https://x/y.png", extra):
            return Media("image", part.url, {**extra, "fileData": {"mimeType": "image/png"}})
        case Media(_, "gs://b/o", extra):
            return Media("file", part.url, extra)
        case Media(_, url, extra):
            return Media("audio", url, extra)
        case _:
            return part


def reasoning(message: Message) -> Message:
    parts: list[Any] = list(message.parts)
    thoughts = [part.data["text"] for part in parts if is_thought(part)]
    if message.reasoning and not thoughts:
        part = Opaque(PART, {"text": message.reasoning, "thought": True})
        return replace(message, parts=(part, *message.parts))
    return replace(message, reasoning="".join(thoughts))


def is_thought(part: Any) -> bool:
    return isinstance(part, Opaque) and "thought" in part.data


def one_system(request: Request) -> Request:
    parts = tuple(part for one in request.messages if one.role == "system" for part in one.parts)
    rest = tuple(one for one in request.messages if one.role != "system")
    return replace(request, messages=((Message("system", parts),) if parts else ()) + rest)


def results_in_turn(request: Request) -> Request:
    found: list[Message] = []
    for one in request.messages:
        if found and found[-1].role == one.role == "tool":
            found[-1] = replace(found[-1], results=found[-1].results + one.results)
        else:
            found.append(one)
    return replace(request, messages=tuple(found))


def by_content(message: Message) -> Message:
    if message.role not in ("tool", "user"):
        return message
    plain = message.results and not message.parts and not message.extra
    return replace(message, role="tool" if plain else "user")


def functions(request: Request) -> bool:
    return any(tool.kind == "function" for tool in request.tools)


def with_choice(change: Callable[[ToolChoice], ToolChoice]) -> Callable[[Request], Request]:
    return lambda request: replace(request, tool_choice=change(request.tool_choice))


def validated(request: Request) -> Request:
    if request.tool_choice.mode != "auto" or not request.tool_choice.allowed:
        return request
    mark = {"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}
    return replace(request, options=replace(request.options, extra={**request.options.extra, **mark}))


def grammar(request: Request) -> Request:
    options = replace(request.options, grammar={})
    if request.options.grammar == GRAMMAR:
        options = replace(options, response_format=ResponseFormat({"type": "array"}))
    elif request.options.grammar:
        options = replace(options, extra={**options.extra, **request.options.grammar})
    return replace(request, options=options)


def form(request: Request) -> Request:
    found = request.options.response_format
    found = found and ResponseFormat(found.schema)
    return replace(request, options=replace(request.options, response_format=found))


def empty(message: Message) -> bool:
    return not (message.parts or message.calls or message.results)


#: Each loss of `LOSSES` as what it does to a request; the rest are losses of the wire's own variety.
SUFFERED: dict[str, Callable[[Request], Request]] = {
    "protocol": lambda request: replace(request, protocol=PROTOCOL),
    "opaque part": on_parts(
        lambda part: None if isinstance(part, Opaque) and (part.kind != PART or part.data == "odd") else part
    ),
    "empty text": on_parts(lambda part: None if part == TextPart("") else part),
    "media": on_parts(media),
    "reasoning": on_messages(reasoning),
    "names of messages": on_messages(lambda one: replace(one, name="")),
    "system messages": one_system,
    "empty message": lambda request: replace(
        request, messages=tuple(one for one in request.messages if not empty(one))
    ),
    "tool message": on_messages(by_content),
    "results in turn": results_in_turn,
    "call notes": on_messages(lambda one: replace(one, calls=tuple(replace(call, notes=()) for call in one.calls))),
    "custom tool": on_tools(lambda tool: replace(tool, kind="function") if tool.kind == "custom" else tool),
    "namespace": on_tools(lambda tool: replace(tool, namespace="")),
    "side effects": on_tools(lambda tool: replace(tool, side_effects=False)),
    "choice without functions": lambda request: (
        request if functions(request) else replace(request, tool_choice=ToolChoice())
    ),
    "allowed tools under none": with_choice(
        lambda choice: replace(choice, allowed=()) if choice.mode == "none" else choice
    ),
    "named choice": with_choice(lambda choice: replace(choice, mode="required") if choice.mode == "named" else choice),
    "allowed tools under auto": validated,
    "single calls": with_choice(lambda choice: replace(choice, parallel=True)),
    "routing fields": lambda request: replace(
        request,
        options=replace(
            request.options,
            extra={key: value for key, value in request.options.extra.items() if key not in ROUTING_FIELDS},
        ),
    ),
    "format": form,
    "grammar": grammar,
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {
    "model and stream",
    "words of another protocol",
    "foreign calls",
    "result without a name",
    "made ids",
    "streamed arguments",
}


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


#: Those that hold fields which nobody knows.
INVENTED = ("unknown fields", "results", "a call that says more")


@pytest.mark.requirement("G2")
@pytest.mark.parametrize(
    "request_",
    [
        decode(contents=[wire for name, wire, _ in MESSAGES if name not in INVENTED]),
        decode(tools=[WEATHER, {"googleSearch": {}}], toolConfig={"functionCallingConfig": {"mode": "VALIDATED"}}),
        decode(generationConfig={"maxOutputTokens": 5, "responseMimeType": "application/json", "topK": 3}),
    ],
)
def test_what_we_send_fits_the_types_of_the_sdk(request_: Request):
    wire = sent(request_)
    for content in wire["contents"]:
        types.Content.model_validate(content)
    for tool in wire.get("tools", []):
        types.Tool.model_validate(tool)
    types.ToolConfig.model_validate(wire.get("toolConfig", {}))
    types.GenerationConfig.model_validate(wire.get("generationConfig", {}))
