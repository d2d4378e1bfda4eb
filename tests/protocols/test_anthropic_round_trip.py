"""Requests of the Messages API, written and read again: what went in comes out, but for the listed losses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols.round_trip_losses import (
    CUSTOM_AS_FUNCTIONS,
    EXTRA,
    FILLED,
    GRAMMAR_AS_FIELDS,
    NO_CALL_NOTES,
    NO_NAMESPACES,
    NO_ROUTING,
    NO_SIDE_EFFECTS,
    TEXTS,
    Losing,
    calls,
    check_losses,
    check_round_trip,
    choices,
    is_from_protocol,
    no_choice_without_tools,
    on_messages,
    on_options,
    on_parts,
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
from tests.protocols.test_anthropic_request import HI, SCHEMA, THOUGHT, again, sent
from toolspeak.core.types import Media, Message, Opaque, Options, Request, ResponseFormat, TextPart, Tool, ToolChoice
from toolspeak.protocols.anthropic import PROTOCOL, decode_request, needs_store
from toolspeak.protocols.anthropic.request import DEFAULT_MAX_TOKENS

IDS = st.sampled_from(["toolu_a", "toolu_b", "call-1"])
MEDIA = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from(
        ["http://x/y", "data:image/png;base64,QQ==", "data:text/plain;base64,QUJD", "data:x,y", "data:x/y;base64,QQ=="]
    ),
    EXTRA,
)
OPAQUE = st.sampled_from([Opaque("search_result", {"type": "search_result", "x": 1}), Opaque("signature", "abc")])
SIGNED = st.just(Opaque("thinking", THOUGHT))
PARTS = st.lists(st.builds(TextPart, TEXTS, EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
CALLS = calls(ids=IDS)
RESULTS = results(MEDIA | OPAQUE, ids=IDS)
MESSAGE = (
    st.builds(Message, st.sampled_from(["system", "user"]), PARTS, name=TEXTS, extra=EXTRA)
    | st.builds(Message, st.just("system"), PARTS, extra=st.just({"toolspeak_inline": True}))
    | st.builds(Message, st.just("assistant"), PARTS, TEXTS, CALLS)
    | st.builds(Message, st.just("assistant"), st.tuples(SIGNED, st.builds(TextPart, FILLED)), st.just("hm"), CALLS)
    | st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
)
TOOL = tools(
    {"strict": st.booleans(), "cache_control": st.just({"type": "ephemeral"})},
    st.sampled_from([None, {"type": "object"}, {"anyOf": [{"properties": {"a": {}}}]}]),
) | st.just(Tool("bash", kind="bash_20250124", extra={"type": "bash_20250124", "name": "bash"}))
OPTIONS = options(
    st.just({}) | st.just({"top_k": 1}),
    {"metadata": st.just({"user_id": "u"}), "api_base": TEXTS, "output_config": st.just({"effort": "low"})},
    st.sampled_from(["a", "\n", ""]),
    st.none() | st.just(SCHEMA),
)
MESSAGES = st.lists(MESSAGE, max_size=4).map(lambda found: (*found, HI))
REQUEST = requests(MESSAGES, TOOL, choices(), OPTIONS, "")


def nameless(message: Message) -> Message:
    results = tuple(replace(result, name="") for result in message.results)
    return replace(message, name="", results=results)


def unsigned(message: Message) -> Message:
    signed = any(isinstance(part, Opaque) and part.kind == "thinking" for part in message.parts)
    return message if signed else replace(message, reasoning="")


def empty_messages(request: Request) -> Request:
    kept = tuple(one for one in request.messages if one.parts or one.calls or one.results)
    return replace(request, messages=kept)


def system_messages(request: Request) -> Request:
    """Those before all others are one, of nothing but text. The later ones are the user's."""
    prompt: tuple[Any, ...] = ()
    rest: list[Message] = []
    for message in request.messages:
        unmarked = message.role == "system" and "toolspeak_inline" not in message.extra
        if unmarked and not rest:
            prompt += tuple(part for part in message.parts if isinstance(part, TextPart))
        else:
            rest.append(replace(message, role="user") if unmarked else message)
    return replace(request, messages=((Message("system", prompt), *rest) if prompt else tuple(rest)))


def tool_messages(request: Request) -> Request:
    merged: list[Message] = []
    together = False
    for message in request.messages:
        answers = message.role == "tool" or (message.role == "user" and message.results and not message.parts)
        if answers and together:
            before = merged[-1]
            order = "".join("r" * len(one.results) + "p" * len(one.parts) for one in (before, message))
            if "toolspeak_order" in before.extra:
                order = before.extra["toolspeak_order"] + "r" * len(message.results) + "p" * len(message.parts)
            merged[-1] = replace(
                before,
                parts=before.parts + message.parts,
                results=before.results + message.results,
                extra={"toolspeak_order": order} if "pr" in order else {},
            )
        else:
            merged.append(message)
        together = bool(answers)
    named = [
        replace(one, role="user" if one.parts or not one.results else "tool") if one.role in ("tool", "user") else one
        for one in merged
    ]
    return replace(request, messages=tuple(named))


def loosened(tool: Tool) -> Tool:
    if not isinstance(tool.parameters, dict) or "anyOf" not in tool.parameters:
        return tool
    return replace(tool, parameters={"type": "object", "properties": {"a": {}}})


def allowed(request: Request) -> Request:
    choice = request.tool_choice
    if choice.mode == "named":
        return request
    if choice.mode == "none" or not choice.allowed:
        return replace(request, tool_choice=replace(choice, allowed=()))
    tools = tuple(tool for tool in request.tools if tool.name in choice.allowed)
    return replace(request, tools=tools, tool_choice=replace(choice, allowed=()))


def parallel(request: Request) -> Request:
    choice = request.tool_choice
    return replace(request, tool_choice=ToolChoice("none")) if choice.mode == "none" else request


def form(options: Options) -> Options:
    given = options.response_format
    return replace(options, response_format=ResponseFormat(given.schema) if given and given.schema else None)


def media(part: Any) -> Any:
    """Data is what its type says."""
    if not isinstance(part, Media):
        return part
    if part.kind in ("audio", "video") or part.url in ("data:x,y", "data:x/y;base64,QQ=="):
        return None
    said = {"data:image": "image", "data:text/": "file"}.get(part.url[:10], part.kind)
    return replace(part, kind=said)


#: Each documented loss as what it does to a request, in the order in which they come.
SUFFERED: Losing = {
    "protocol": is_from_protocol(PROTOCOL),
    "names": on_messages(nameless),
    "empty text": without_parts(lambda part: isinstance(part, TextPart) and not part.text),
    "opaque part": without_parts(lambda part: isinstance(part, Opaque) and isinstance(part.data, str)),
    "media": on_parts(media),
    "reasoning": on_messages(unsigned),
    "empty message": empty_messages,
    "several system messages": system_messages,
    "tool messages": tool_messages,
    "call notes": NO_CALL_NOTES,
    "custom tool": CUSTOM_AS_FUNCTIONS,
    "namespace": NO_NAMESPACES,
    "side effects": NO_SIDE_EFFECTS,
    "tool without a schema": on_tools(
        lambda tool: (
            replace(tool, parameters={"type": "object"}) if tool.kind == "function" and not tool.parameters else tool
        )
    ),
    "combined schemas": on_tools(loosened),
    "allowed tools": allowed,
    "tool_choice without tools": no_choice_without_tools,
    "parallel under none": parallel,
    "max_tokens": on_options(lambda one: replace(one, max_tokens=one.max_tokens or DEFAULT_MAX_TOKENS)),
    "temperature": on_options(
        lambda one: replace(one, temperature=one.temperature if one.temperature is None else min(1, one.temperature))
    ),
    "stop": on_options(lambda one: replace(one, stop=tuple(word for word in one.stop if word.strip()))),
    "seed and n": on_options(lambda one: replace(one, seed=None, n=1)),
    "format": on_options(form),
    "routing fields": NO_ROUTING,
    "grammar": GRAMMAR_AS_FIELDS,
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {"protocol-specific fields", "ids", "cache breakpoints"}


@pytest.mark.requirement("G2", "G3")
@given(REQUEST)
def test_a_request_comes_back_as_it_went_but_for_the_listed_losses(request: Request):
    check_round_trip(request, again, SUFFERED)


def test_every_listed_loss_is_tested():
    check_losses(PROTOCOL, SUFFERED, ELSEWHERE)


# ------------------------------------------------------------------------------------------------------- real clients


@with_clients
@pytest.mark.requirement("G4")
@pytest.mark.parametrize("body", real_requests(lambda path: path.startswith("/v1/messages")))
def test_what_real_clients_send_is_understood_and_survives(body: dict[str, Any]):
    request = decode_request(json.dumps(body).encode())
    assert len(request.messages) == len(body["messages"]) + ("system" in body)
    assert [tool.name for tool in request.tools] == [tool["name"] for tool in body.get("tools", [])]
    wire = sent(request)
    assert wire["messages"] == [with_plain_text(one) for one in body["messages"]]
    for key in body.keys() - {"messages", "stream", "tool_choice"}:
        assert wire[key] == body[key]
    assert again(request) == SUFFERED["max_tokens"](request)


@pytest.mark.requirement("G5")
@check_each(
    ("thread", "needed"),
    [
        ({"type": "continue", "previous_message_id": "msg_1"}, True),
        ({"type": "create"}, False),
        (None, False),
        ("continue", False),
    ],
)
def test_a_request_that_goes_on_with_a_thread_needs_a_store(thread: Any, needed: bool):
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "thread": thread}
    request = decode_request(body)
    assert needs_store(request) is needed
    assert not needs_store(replace(request, protocol="openai_chat"))
