"""Requests of chat completions, written and read again: what went in comes out, but for the listed losses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.round_trip_losses import (
    ANY_ARGUMENTS,
    EXTRA,
    FILLED,
    GRAMMAR_AS_FIELDS,
    NO_CALL_NOTES,
    NO_NAMESPACES,
    NO_RESULT_ERRORS,
    NO_ROUTING,
    NO_SIDE_EFFECTS,
    NONE_ALLOWS_ALL,
    RESULTS_ALONE,
    TEXTS,
    Losing,
    calls,
    check_losses,
    check_round_trip,
    choices,
    is_from_protocol,
    no_choice_without_tools,
    on_messages,
    on_tools,
    options,
    real_requests,
    replace,
    requests,
    results,
    tools,
    with_clients,
    with_plain_text,
    without_parts,
)
from tests.protocols.test_openai_chat_request import CODE, again, decode, sent
from toolspeak.core.types import Media, Message, Opaque, Request, ResponseFormat, TextPart, Tool, ToolCall
from toolspeak.protocols.openai_chat import PROTOCOL, decode_request

MEDIA = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from(["http://x/y", "data:audio/wav;base64,QQ=="]),
    EXTRA,
)
OPAQUE = st.sampled_from([Opaque("refusal", {"type": "refusal", "refusal": "no"}), Opaque("signature", "abc")])
PARTS = st.lists(st.builds(TextPart, TEXTS, EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
CALLS = calls(ANY_ARGUMENTS)
RESULTS = results(MEDIA | OPAQUE, ids=TEXTS)
WORDS = st.fixed_dictionaries({}, optional={"x_one": TEXTS, "reasoning_field": st.just("reasoning")})
MESSAGE = (
    st.builds(Message, st.sampled_from(["system", "user"]), PARTS, name=TEXTS, extra=EXTRA)
    | st.builds(Message, st.just("system"), PARTS, extra=st.just({"role": "developer"}))
    | st.builds(Message, st.just("assistant"), PARTS, TEXTS, CALLS, extra=EXTRA)
    | st.builds(Message, st.just("assistant"), PARTS, FILLED, CALLS, extra=WORDS)
    | st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
)
TOOL = tools({"strict": st.booleans(), "beside": st.just({"cache_control": {"type": "ephemeral"}})}) | st.just(
    Tool("web_search", kind="web_search", extra={"type": "web_search"})
)
OPTIONS = options(
    st.just({}) | st.just({"guided_json": {}}),
    {"user": TEXTS, "api_base": TEXTS, "stream_options": st.just({"include_usage": False, "x": 1})},
)
MESSAGES = st.lists(MESSAGE, min_size=1, max_size=4).map(tuple)


def only_users_show(request: Request) -> Request:
    """What anybody else shows has tests of its own."""
    shown = without_parts(lambda part: isinstance(part, Media))(request).messages
    messages = tuple(
        replace(kept, results=bare.results, parts=kept.parts if kept.role == "user" else bare.parts)
        for kept, bare in zip(request.messages, shown, strict=True)
    )
    return replace(request, messages=messages)


REQUEST = requests(MESSAGES, TOOL, choices(), OPTIONS, PROTOCOL) | requests(MESSAGES, TOOL, choices(), OPTIONS, "").map(
    only_users_show
)


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

#: Each documented loss as what it does to a request; the rest are losses of the wire's own variety.
SUFFERED: Losing = {
    "protocol": is_from_protocol(PROTOCOL),
    "tool message": on_messages(lambda one: [replace(one, parts=(), name="") if one.role == "tool" else one]),
    "several results": RESULTS_ALONE,
    "opaque part": without_parts(lambda part: isinstance(part, Opaque) and isinstance(part.data, str)),
    "empty text": on_messages(lambda one: [replace(one, parts=() if one.parts == (TextPart(""),) else one.parts)]),
    "result error": NO_RESULT_ERRORS,
    "call notes": NO_CALL_NOTES,
    "custom call": custom_calls,
    "custom tool": on_tools(lambda tool: replace(tool, parameters=ONE_TEXT) if tool.kind == "custom" else tool),
    "namespace": NO_NAMESPACES,
    "side effects": NO_SIDE_EFFECTS,
    "tool_choice without tools": no_choice_without_tools,
    "allowed tools under none": NONE_ALLOWS_ALL,
    "stream_options": stream_options,
    "format without a name": named_format,
    "routing fields": NO_ROUTING,
    "grammar": GRAMMAR_AS_FIELDS,
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {
    "protocol-specific fields",
    "both token limits",
    "several texts of a result",
    "functions",
    "pictures of a tool",
    "pictures of an assistant or a system",
}


@pytest.mark.requirement("G3")
@given(REQUEST)
def test_a_request_comes_back_as_it_went_but_for_the_listed_losses(request: Request):
    check_round_trip(request, again, SUFFERED)


def test_every_listed_loss_is_tested():
    check_losses(PROTOCOL, SUFFERED, ELSEWHERE)


# --------------------------------------------------------------------------------------------------- real clients


@with_clients
@pytest.mark.requirement("G4")
@pytest.mark.parametrize("body", real_requests(lambda path: path.endswith("/chat/completions")))
def test_what_real_clients_send_is_understood_and_survives(body: dict[str, Any]):
    request = decode_request(json.dumps(body).encode())
    assert len(request.messages) == len(body["messages"])
    assert [tool.name for tool in request.tools] == [tool["function"]["name"] for tool in body.get("tools", [])]
    assert again(request) == stream_options(request)
    wire = sent(request)
    assert wire["messages"] == [with_plain_text(one) for one in body["messages"]]
    assert wire.get("tools", []) == body.get("tools", [])
    for key in body.keys() - {"messages", "tools", "stream", "stream_options", "n", "tool_choice"}:
        assert wire[key] == body[key]
