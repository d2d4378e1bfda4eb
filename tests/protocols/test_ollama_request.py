"""Requests to Ollama's chat: what clients send is understood, and comes out again as it went in."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ollama._types import ChatRequest

from tests.cases import check_each
from tests.protocols.round_trip_losses import (
    CUSTOM_AS_FUNCTIONS,
    FILLED_EXTRA,
    NAMES,
    NO_CALL_NOTES,
    NO_MESSAGE_NAMES,
    NO_NAMESPACES,
    NO_RESULT_ERRORS,
    NO_ROUTING,
    NO_SIDE_EFFECTS,
    RESULTS_ALONE,
    TEXTS,
    Losing,
    calls,
    check_losses,
    check_round_trip,
    choices,
    is_from_protocol,
    on_all_parts,
    on_messages,
    on_options,
    options,
    real_requests,
    replace,
    requests,
    results,
    tools,
    with_clients,
    without_parts,
)
from toolspeak.core.types import (
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
from toolspeak.protocols.ollama import PROTOCOL, decode_request, encode_request, request_notes
from toolspeak.protocols.shared.fields import ROUTING_FIELDS

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
@check_each(("wire", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
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
    assert found.calls[2].notes == (Note("arguments_invalid", "the arguments are not a JSON object: x"),)
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
    assert request_notes(foreign) == (
        Note("tool_dropped", "`web_search`: the upstream's protocol does not support tools of kind `web_search`"),
    )
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
@check_each(
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
@check_each(
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


@check_each("body", [b"", b"{", b"[]", b"\xff"])
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
PARTS = st.lists(st.builds(TextPart, TEXTS, FILLED_EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
CALLS = calls()
RESULTS = results(MEDIA | OPAQUE, names=NAMES, extra=FILLED_EXTRA)
MESSAGE = (
    st.builds(Message, st.sampled_from(["system", "user"]), PARTS, name=TEXTS, extra=FILLED_EXTRA)
    | st.builds(Message, st.just("assistant"), PARTS, TEXTS, CALLS, extra=FILLED_EXTRA)
    | st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
)
TOOL = tools({"strict": st.booleans(), "beside": st.just({"items": 1})}) | st.just(
    Tool("web_search", kind="web_search", extra={"type": "web_search"})
)
OPTIONS = options(
    st.sampled_from([{}, {"format": {"type": "array"}}, {"x_grammar": 1}]),
    {"think": TEXTS, "api_base": TEXTS, "options": st.just({"num_ctx": 5})},
)
MESSAGES_SENT = st.lists(MESSAGE, max_size=4).map(tuple)
REQUEST = requests(MESSAGES_SENT, TOOL, choices(named=False), OPTIONS, "", PROTOCOL)


def texts(parts: Any) -> Any:
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    return ((TextPart(text),) if text else ()) + tuple(part for part in parts if not isinstance(part, TextPart))


def media(parts: Any) -> Any:
    kept = [part for part in parts if not isinstance(part, Media) or (part.kind, part.url) == ("image", PICTURE)]
    return tuple(Media("image", PICTURE) if isinstance(part, Media) else part for part in kept)


def grammar(options: Options) -> Options:
    found = options.grammar
    options = replace(options, grammar={})
    if "format" in found:
        return replace(options, response_format=ResponseFormat(found["format"]))
    return replace(options, extra={**options.extra, **found})


#: Each documented loss as what it does to a request; the rest are losses of the wire's own variety.
SUFFERED: Losing = {
    "protocol": is_from_protocol(PROTOCOL),
    "names of messages": NO_MESSAGE_NAMES,
    "tool message": on_messages(lambda one: [replace(one, parts=()) if one.role == "tool" else one]),
    "several results": RESULTS_ALONE,
    "opaque part": without_parts(lambda part: isinstance(part, Opaque)),
    "several texts": on_all_parts(texts),
    "media": on_all_parts(media),
    "result error": NO_RESULT_ERRORS,
    "call notes": NO_CALL_NOTES,
    "custom tool": CUSTOM_AS_FUNCTIONS,
    "namespace": NO_NAMESPACES,
    "side effects": NO_SIDE_EFFECTS,
    "tool choice": lambda request: replace(
        request, tools=() if request.tool_choice.mode == "none" else request.tools, tool_choice=ToolChoice()
    ),
    "several answers": on_options(lambda options: replace(options, n=1)),
    "routing fields": NO_ROUTING,
    "format": on_options(
        lambda options: replace(
            options, response_format=options.response_format and ResponseFormat(options.response_format.schema)
        )
    ),
    "grammar": on_options(grammar),
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {"protocol-specific fields", "result without a name", "generated ids"}


@pytest.mark.requirement("G3")
@given(REQUEST)
def test_a_request_comes_back_as_it_went_but_for_the_listed_losses(request: Request):
    check_round_trip(request, again, SUFFERED)


def test_every_listed_loss_is_tested():
    check_losses(PROTOCOL, SUFFERED, ELSEWHERE)


@pytest.mark.requirement("G2")
@given(REQUEST)
def test_what_we_send_fits_the_types_of_the_sdk(request: Request):
    ChatRequest.model_validate(sent(replace(request, model="m")))


# --------------------------------------------------------------------------------------------------- real clients


@with_clients
@pytest.mark.requirement("G4")
@pytest.mark.parametrize("body", real_requests(lambda path: path.endswith("/api/chat")))
def test_what_real_clients_send_is_understood_and_survives(body: dict[str, Any]):
    request = decode_request(json.dumps(body).encode())
    assert again(request) == request
    wire = sent(request)
    assert wire["messages"] == [{key: value for key, value in one.items() if value != []} for one in body["messages"]]
    assert wire.get("tools", []) == body.get("tools", [])
    assert (wire["model"], wire["stream"]) == (body["model"], body["stream"])
