"""Requests of Gemini's, written and read again: what went in comes out, but for the listed losses."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols.round_trip_losses import (
    CUSTOM_AS_FUNCTIONS,
    FILLED,
    FILLED_EXTRA,
    NAMES,
    NO_CALL_NOTES,
    NO_MESSAGE_NAMES,
    NO_NAMESPACES,
    NO_ROUTING,
    NO_SIDE_EFFECTS,
    NONE_ALLOWS_ALL,
    TEXTS,
    Losing,
    calls,
    check_losses,
    check_round_trip,
    choices,
    is_from_protocol,
    on_choice,
    on_messages,
    on_parts,
    options,
    replace,
    requests,
    results,
    tools,
)
from tests.protocols.test_gemini_request import HI, MESSAGES, PART, WEATHER, again, decode, sent
from toolspeak.core.types import Media, Message, Opaque, Request, ResponseFormat, TextPart, Tool, ToolChoice
from toolspeak.protocols.gemini import PROTOCOL

MEDIA = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from(["https://x/y.png", "gs://b/o", "data:audio/wav;base64,QQ=="]),
    FILLED_EXTRA,
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
PARTS = st.lists(st.builds(TextPart, TEXTS, FILLED_EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
ANSWER = st.lists(st.builds(TextPart, TEXTS, FILLED_EXTRA) | THOUGHT | OPAQUE, max_size=3).map(tuple)
CALLS = calls()
RESULTS = results(MEDIA | OPAQUE, names=NAMES, extra=FILLED_EXTRA, fewest=0)
MESSAGE = (
    st.builds(Message, st.just("user"), PARTS, name=TEXTS, extra=FILLED_EXTRA)
    | st.builds(Message, st.just("system"), PARTS, name=TEXTS)
    | st.builds(Message, st.just("assistant"), ANSWER, TEXTS, CALLS, extra=FILLED_EXTRA)
    | st.builds(Message, st.just("tool"), results=RESULTS)
    | st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
)
TOOL = (
    tools({"behavior": TEXTS, "response": st.just({"type": "STRING"})})
    | st.just(Tool("googleSearch", kind="googleSearch", extra={"googleSearch": {}}))
    | st.just(Tool("f", parameters={"type": "object"}, extra={"parameters": {"type": "OBJECT"}}))
)
GRAMMAR = {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": {"type": "array"}}}
OPTIONS = options(
    st.sampled_from([{}, GRAMMAR, {"x_grammar": 1}]),
    {"cachedContent": TEXTS, "api_base": TEXTS, "generationConfig": st.just({"topK": 5})},
)
SEVERAL = st.lists(MESSAGE, max_size=4).map(lambda found: (*found, HI))
REQUEST = requests(SEVERAL, TOOL, choices(), OPTIONS, "", PROTOCOL)


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


#: Each documented loss as what it does to a request; the rest are losses of the wire's own variety.
SUFFERED: Losing = {
    "protocol": is_from_protocol(PROTOCOL),
    "opaque part": on_parts(
        lambda part: None if isinstance(part, Opaque) and (part.kind != PART or part.data == "odd") else part
    ),
    "empty text": on_parts(lambda part: None if part == TextPart("") else part),
    "media": on_parts(media),
    "reasoning": on_messages(reasoning),
    "names of messages": NO_MESSAGE_NAMES,
    "system messages": one_system,
    "empty message": lambda request: replace(
        request, messages=tuple(one for one in request.messages if not empty(one))
    ),
    "tool message": on_messages(by_content),
    "consecutive results": results_in_turn,
    "call notes": NO_CALL_NOTES,
    "custom tool": CUSTOM_AS_FUNCTIONS,
    "namespace": NO_NAMESPACES,
    "side effects": NO_SIDE_EFFECTS,
    "choice without functions": lambda request: (
        request if functions(request) else replace(request, tool_choice=ToolChoice())
    ),
    "allowed tools under none": NONE_ALLOWS_ALL,
    "named choice": on_choice(lambda choice: replace(choice, mode="required") if choice.mode == "named" else choice),
    "allowed tools under auto": validated,
    "single calls": on_choice(lambda choice: replace(choice, parallel=True)),
    "routing fields": NO_ROUTING,
    "format": form,
    "grammar": grammar,
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {
    "model and stream",
    "protocol-specific fields",
    "foreign calls",
    "result without a name",
    "generated ids",
    "streamed arguments",
}


@pytest.mark.requirement("G3")
@given(REQUEST)
def test_a_request_comes_back_as_it_went_but_for_the_listed_losses(request: Request):
    check_round_trip(request, again, SUFFERED)


def test_every_listed_loss_is_tested():
    check_losses(PROTOCOL, SUFFERED, ELSEWHERE)


#: Those that hold fields which nobody knows.
INVENTED = ("unknown fields", "results", "a call that says more")


@pytest.mark.requirement("G2")
@check_each(
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
