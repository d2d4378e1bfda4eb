"""Requests to Ollama's chat: what clients send is understood, and comes out again as it went in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ollama._types import ChatRequest

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
from toolspeak.errors import UsageError
from toolspeak.protocols.common import ROUTING_FIELDS
from toolspeak.protocols.ollama import LOSSES, PROTOCOL, decode_request, encode_request, request_notes

USER = {"role": "user", "content": "hi"}
HI = Message("user", (TextPart("hi"),))
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def decode(**fields: Any) -> Request:
    return decode_request({"model": "m", "messages": [USER]} | fields)


def sent(request: Request) -> dict[str, Any]:
    return json.loads(encode_request(request))


def again(request: Request) -> Request:
    return decode_request(encode_request(request))


# ------------------------------------------------------------------------------------------------------- messages

MESSAGES: list[tuple[str, dict[str, Any], Message]] = [
    ("text", USER, HI),
    ("system", {"role": "system", "content": "x"}, Message("system", (TextPart("x"),))),
    ("unknown field", {"role": "user", "content": "hi", "x": 1}, Message("user", (TextPart("hi"),), extra={"x": 1})),
    (
        "pictures",
        {"role": "user", "content": "see", "images": ["/9j/AA==", "iVBORw0KGgo=", "R0lGODlh", "UklGRg==", "AAAA"]},
        Message(
            "user",
            (
                TextPart("see"),
                Media("image", "data:image/jpeg;base64,/9j/AA=="),
                Media("image", "data:image/png;base64,iVBORw0KGgo="),
                Media("image", "data:image/gif;base64,R0lGODlh"),
                Media("image", "data:image/webp;base64,UklGRg=="),
                Media("image", "data:image/png;base64,AAAA"),
            ),
        ),
    ),
    (
        "thinking",
        {"role": "assistant", "content": "a", "thinking": "r"},
        Message("assistant", (TextPart("a"),), "r"),
    ),
    (
        "calls",
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
                {"id": "b", "type": "function", "function": {"index": 1, "name": "g", "arguments": {}}},
            ],
        },
        Message(
            "assistant",
            calls=(ToolCall("f", {"x": 1}, "a"), ToolCall("g", {}, "b")),
            extra={"tool_calls": {"1": {"type": "function", "function": {"index": 1}}}},
        ),
    ),
    (
        "result",
        {
            "role": "tool",
            "content": "sunny",
            "tool_name": "f",
            "tool_call_id": "a",
            "images": ["iVBORw0KGgo="],
            "x": 1,
        },
        Message(
            "tool",
            results=(
                ToolResult(
                    "a", "sunny", "f", parts=(Media("image", "data:image/png;base64,iVBORw0KGgo="),), extra={"x": 1}
                ),
            ),
        ),
    ),
]


@pytest.mark.requirement("G1", "G2")
@pytest.mark.parametrize(("wire", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_a_message_is_understood_and_sent_on_as_it_came(wire: dict[str, Any], expected: Message):
    request = decode(messages=[wire])
    assert request.messages == (expected,)
    assert sent(request)["messages"] == [wire]


def test_shapes_that_only_some_clients_send_are_understood():
    calls = [
        {"function": {"name": "f", "arguments": '{"x":1}'}},
        {"function": {"name": "f", "arguments": None}},
        {"function": {"name": "f", "arguments": "x"}},
    ]
    found = decode(messages=[{"role": "Assistant", "tool_calls": calls, "content": None}]).messages[0]
    assert [call.arguments for call in found.calls] == [{"x": 1}, {}, {}]
    assert found.calls[2].notes == (Note("arguments_invalid", "no JSON object: x"),)
    old = decode(messages=[{"role": "tool", "name": "f", "content": "1"}]).messages[0]
    assert old.results == (ToolResult("", "1", "f"),)
    picture = decode(messages=[{"role": "user", "images": ["data:image/bmp;base64,Qk0="]}]).messages[0]
    assert picture.parts == (Media("image", "data:image/bmp;base64,Qk0="),)


@pytest.mark.requirement("R-F36")
def test_calls_and_results_without_ids_are_paired_by_name_and_order():
    messages = [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": name, "arguments": {}}} for name in ("f", "g", "f")],
        },
        {"role": "tool", "content": "1", "tool_name": "g"},
        {"role": "tool", "content": "2"},
        {"role": "tool", "content": "3", "tool_name": "f"},
        {"role": "tool", "content": "4", "tool_name": "f"},
    ]
    request = decode(messages=messages)
    ids = [one.id for message in request.messages for one in (*message.calls, *message.results)]
    one, two, three = (f"unnamed_call_{number}" for number in range(1, 4))
    assert ids == [one, two, three, two, one, three, ""]
    assert sent(request)["messages"] == [*messages[:2], {**messages[2], "tool_name": "f"}, *messages[3:]]


def test_a_request_streams_unless_it_says_otherwise():
    assert decode().stream
    assert not decode(stream=False).stream
    assert sent(decode(stream=False))["stream"] is False


def test_a_request_without_messages_asks_to_load_the_model():
    assert decode_request({"model": "m", "keep_alive": -1}).messages == ()


# ---------------------------------------------------------------------------------------------- tools and options


@pytest.mark.requirement("A13")
def test_tools_are_understood_and_those_of_other_protocols_dropped():
    tools = [{**WEATHER, "items": {"x": 1}}, {"type": "web_search"}]
    request = decode(tools=tools)
    assert [(tool.name, tool.kind) for tool in request.tools] == [
        ("get_weather", "function"),
        ("web_search", "web_search"),
    ]
    assert sent(request)["tools"] == tools
    foreign = msgspec.structs.replace(request, protocol="other")
    assert sent(foreign)["tools"] == [WEATHER]
    assert request_notes(foreign) == (Note("tool_dropped", "`web_search` is a tool of `other`"),)
    assert request_notes(request) == ()


@pytest.mark.requirement("A10")
def test_a_choice_has_no_word_but_none_hides_the_tools():
    request = decode(tools=[WEATHER])
    assert "tools" not in sent(msgspec.structs.replace(request, tool_choice=ToolChoice("none")))
    for choice in (ToolChoice("required"), ToolChoice("auto", ("x",)), ToolChoice(parallel=False)):
        chosen = msgspec.structs.replace(request, tool_choice=choice)
        assert sent(chosen)["tools"] == [WEATHER]
        assert [note.code for note in request_notes(chosen)] == ["choice_not_sent"]


@pytest.mark.requirement("C6", "G1")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"options": {"num_predict": 5, "temperature": 0.5, "top_p": 1, "seed": 7, "stop": ["a"]}},
            Options(5, 0.5, 1, 7, ("a",)),
        ),
        ({"options": {"num_predict": -1, "num_ctx": 8}}, Options(extra={"options": {"num_predict": -1, "num_ctx": 8}})),
        ({"format": "json"}, Options(response_format=ResponseFormat())),
        ({"format": {"type": "object"}}, Options(response_format=ResponseFormat({"type": "object"}))),
        ({"keep_alive": "5m", "think": "high"}, Options(extra={"keep_alive": "5m", "think": "high"})),
    ],
)
def test_options_are_understood_and_sent_on_as_they_came(fields: dict[str, Any], expected: Options):
    request = decode(**fields)
    assert request.options == expected
    assert sent(request) == {"model": "m", "messages": [USER], "stream": True, **fields}


def test_defaults_and_nulls_are_nothing():
    nothing = {"tools": [], "options": None, "format": "", "keep_alive": None, "stream": None}
    assert decode(**nothing) == decode() == decode(options={"seed": None, "num_ctx": None})
    assert decode(options={"stop": "a"}).options.stop == ("a",)


@pytest.mark.requirement("R-T1")
def test_fields_that_would_send_the_request_elsewhere_are_never_sent():
    request = decode(**dict.fromkeys(ROUTING_FIELDS, "http://elsewhere"))
    assert request.options.extra.keys() >= ROUTING_FIELDS
    assert sent(request) == {"model": "m", "messages": [USER], "stream": True}


def test_a_grammar_is_sent_as_its_fields():
    wire = sent(Request("m", (HI,), options=Options(grammar={"format": {"type": "object"}})))
    assert wire == {"model": "m", "messages": [USER], "stream": False, "format": {"type": "object"}}


@pytest.mark.requirement("G3")
def test_a_request_of_another_protocol_is_sent_in_the_words_of_this_one():
    foreign = {"cache_control": {}}
    request = Request(
        "m",
        (
            Message("user", (TextPart("a", foreign), Opaque("x", {}), TextPart("b")), extra=foreign),
            Message("assistant", calls=(ToolCall("f", {}, "a"),), extra={"tool_calls": {"0": {"x": 1}}}),
            Message("user", (Media("image", "http://x/y.png"),), results=(ToolResult("a", "1", extra=foreign),)),
            Message("user", results=(ToolResult("b", "2", parts=(Media("audio", "data:audio/wav;base64,QQ=="),)),)),
        ),
        (Tool("run", kind="custom", parameters={"type": "object"}, extra=foreign),),
        options=Options(n=2, extra=foreign),
        protocol="other",
    )
    assert sent(request) == {
        "model": "m",
        "stream": False,
        "messages": [
            {"role": "user", "content": "ab"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}],
            },
            {"role": "tool", "content": "1", "tool_name": "f", "tool_call_id": "a"},
            {"role": "user", "content": ""},
            {"role": "tool", "content": "2", "tool_call_id": "b"},
        ],
        "tools": [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}],
    }
    lost = ["opaque_dropped", "fields_dropped", "media_dropped", "answers_dropped"]
    assert [note.code for note in request_notes(request)] == lost


# --------------------------------------------------------------------------------------------------------- errors


@pytest.mark.requirement("G3")
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"model": 7}, "model"),
        ({"messages": {}}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [USER, {"role": "robot"}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "images": [7]}]}, "messages[0].images[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
            "messages[0].tool_calls[0].function.name",
        ),
        ({"tools": [WEATHER, 7]}, "tools[1]"),
        ({"stream": 1}, "stream"),
        ({"format": 7}, "format"),
        ({"options": 7}, "options"),
        ({"options": {"num_predict": "many"}}, "options.num_predict"),
        ({"options": {"stop": [7]}}, "options.stop[0]"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, Any], named: str):
    with pytest.raises(UsageError) as caught:
        decode(**fields)
    assert f"`{named}`" in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes):
    with pytest.raises(UsageError):
        decode_request(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                "role content images thinking tool_calls function name arguments id type parameters options stop".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=14,
)


@given(st.dictionaries(st.sampled_from(["messages", "tools", "options", "format", "think"]), JSON))
def test_no_body_makes_it_fall(fields: dict[str, Any]):
    try:
        request = decode(**fields)
    except UsageError:
        return
    encode_request(request)


# --------------------------------------------------------------------------------------------------- round trips

NAMES = st.sampled_from(["f", "get_weather", "run"])
TEXTS = st.text(max_size=8)
FILLED = st.text(min_size=1, max_size=8)
EXTRA = st.dictionaries(st.sampled_from(["x_one", "x_two"]), st.integers(0, 9) | TEXTS, max_size=2)
PICTURE = "data:image/png;base64,iVBORw0KGgo="
MEDIA = st.sampled_from(
    [
        Media("image", PICTURE),
        Media("image", PICTURE, {"detail": 1}),
        Media("image", "http://x"),
        Media("file", PICTURE),
    ]
)
OPAQUE = st.just(Opaque("signature", "abc"))
PARTS = st.lists(st.builds(TextPart, TEXTS, EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
ARGUMENTS = st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS | st.none(), max_size=2)
NOTES = st.sampled_from([(), (Note("trailing_comma"),)])
CALLS = st.lists(st.builds(ToolCall, NAMES, ARGUMENTS, FILLED, NOTES), max_size=2).map(tuple)
RESULTS = st.lists(
    st.builds(ToolResult, FILLED, TEXTS, NAMES, st.booleans(), st.lists(MEDIA | OPAQUE, max_size=1).map(tuple), EXTRA),
    min_size=1,
    max_size=2,
).map(tuple)
MESSAGE = (
    st.builds(Message, st.sampled_from(["system", "user"]), PARTS, name=TEXTS, extra=EXTRA)
    | st.builds(Message, st.just("assistant"), PARTS, TEXTS, CALLS, extra=EXTRA)
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
    st.fixed_dictionaries({}, optional={"strict": st.booleans(), "beside": st.just({"items": 1})}),
) | st.just(Tool("web_search", kind="web_search", extra={"type": "web_search"}))
CHOICE = st.builds(
    ToolChoice, st.sampled_from(["auto", "none", "required"]), st.lists(NAMES, max_size=2).map(tuple), st.booleans()
)
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
    st.sampled_from([{}, {"format": {"type": "array"}}, {"x_grammar": 1}]),
    st.fixed_dictionaries({}, optional={"think": TEXTS, "api_base": TEXTS, "options": st.just({"num_ctx": 5})}),
)
REQUEST = st.builds(
    Request,
    TEXTS,
    st.lists(MESSAGE, max_size=4).map(tuple),
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


def on_parts(change: Callable[[Any], Any]) -> Callable[[Request], Request]:
    """`change` is given all parts of a message or a result."""
    return on_messages(
        lambda one: [
            replace(
                one,
                parts=change(one.parts),
                results=tuple(replace(result, parts=change(result.parts)) for result in one.results),
            )
        ]
    )


def texts(parts: Any) -> Any:
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    return ((TextPart(text),) if text else ()) + tuple(part for part in parts if not isinstance(part, TextPart))


def media(parts: Any) -> Any:
    kept = [part for part in parts if not isinstance(part, Media) or (part.kind, part.url) == ("image", PICTURE)]
    return tuple(Media("image", PICTURE) if isinstance(part, Media) else part for part in kept)


def on_options(change: Callable[[Options], Options]) -> Callable[[Request], Request]:
    return lambda request: replace(request, options=change(request.options))


def grammar(options: Options) -> Options:
    found = options.grammar
    options = replace(options, grammar={})
    if "format" in found:
        return replace(options, response_format=ResponseFormat(found["format"]))
    return replace(options, extra={**options.extra, **found})


#: Each loss of `LOSSES` as what it does to a request; the rest are losses of the wire's own variety.
SUFFERED: dict[str, Callable[[Request], Request]] = {
    "protocol": lambda request: replace(request, protocol=PROTOCOL),
    "names of messages": on_messages(lambda one: [replace(one, name="")]),
    "tool message": on_messages(lambda one: [replace(one, parts=()) if one.role == "tool" else one]),
    "several results": on_messages(several_results),
    "opaque part": on_parts(lambda parts: tuple(part for part in parts if not isinstance(part, Opaque))),
    "several texts": on_parts(texts),
    "media": on_parts(media),
    "result error": on_messages(
        lambda one: [replace(one, results=tuple(replace(result, error=False) for result in one.results))]
    ),
    "call notes": on_messages(lambda one: [replace(one, calls=tuple(replace(call, notes=()) for call in one.calls))]),
    "custom tool": on_tools(lambda tool: replace(tool, kind="function") if tool.kind == "custom" else tool),
    "namespace": on_tools(lambda tool: replace(tool, namespace="")),
    "side effects": on_tools(lambda tool: replace(tool, side_effects=False)),
    "tool choice": lambda request: replace(
        request, tools=() if request.tool_choice.mode == "none" else request.tools, tool_choice=ToolChoice()
    ),
    "several answers": on_options(lambda options: replace(options, n=1)),
    "routing fields": on_options(
        lambda options: replace(
            options, extra={key: value for key, value in options.extra.items() if key not in ROUTING_FIELDS}
        )
    ),
    "format": on_options(
        lambda options: replace(
            options, response_format=options.response_format and ResponseFormat(options.response_format.schema)
        )
    ),
    "grammar": on_options(grammar),
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {"words of another protocol", "result without a name", "made ids"}


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


@pytest.mark.requirement("G2")
@given(REQUEST)
def test_what_we_send_fits_the_types_of_the_sdk(request: Request):
    ChatRequest.model_validate(sent(replace(request, model="m")))


# --------------------------------------------------------------------------------------------------- real clients

CLIENTS = Path(__file__).parents[3] / "shared" / "clients" / "requests.jsonl"


def real_requests() -> list[Any]:
    if not CLIENTS.is_file():
        return []
    rows = [json.loads(line) for line in CLIENTS.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(row["body"], id=f"{at}-{row['client']}")
        for at, row in enumerate(rows)
        if row["path"].endswith("/api/chat")
    ]


@pytest.mark.skipif(not CLIENTS.is_file(), reason="the shared requests are not beside the checkout")
@pytest.mark.requirement("G4")
@pytest.mark.parametrize("body", real_requests())
def test_what_real_clients_send_is_understood_and_survives(body: dict[str, Any]):
    request = decode_request(json.dumps(body).encode())
    assert again(request) == request
    wire = sent(request)
    assert wire["messages"] == [{key: value for key, value in one.items() if value != []} for one in body["messages"]]
    assert wire.get("tools", []) == body.get("tools", [])
    assert (wire["model"], wire["stream"]) == (body["model"], body["stream"])
