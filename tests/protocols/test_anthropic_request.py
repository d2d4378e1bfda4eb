"""Requests of the Messages API: what clients send is understood, and comes out again as it went in."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
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
from toolspeak.protocols.anthropic import decode_request, encode_request, request_notes
from toolspeak.protocols.shared.fields import ROUTING_FIELDS

USER = {"role": "user", "content": "hi"}
HI = Message("user", (TextPart("hi"),))
CACHED = {"cache_control": {"type": "ephemeral"}}
WEATHER = {"name": "get_weather", "description": "d", "input_schema": {"type": "object"}}
PIXEL = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "EqQB"}
FACTS = base64.b64encode("Fäcts".encode()).decode()


def decode(**fields: Any) -> Request:
    return decode_request({"model": "m", "max_tokens": 9, "messages": [USER]} | fields)


def sent(request: Request) -> dict[str, Any]:
    return json.loads(encode_request(request))


def again(request: Request) -> Request:
    return decode_request(encode_request(request))


def codes(request: Request) -> list[str]:
    return [note.code for note in request_notes(request)]


def text(words: str, **extra: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **extra}


# ---------------------------------------------------------------------------------------------------------- messages

MESSAGES: list[tuple[str, dict[str, Any], Message]] = [
    ("text", USER, HI),
    ("unknown field", USER | {"x": 1}, Message("user", (TextPart("hi"),), extra={"x": 1})),
    (
        "texts with marks for the cache",
        {"role": "user", "content": [text("a"), text("b", **CACHED)]},
        Message("user", (TextPart("a"), TextPart("b", CACHED))),
    ),
    (
        "pictures and documents",
        {
            "role": "user",
            "content": [
                {"type": "image", "source": PIXEL, **CACHED},
                {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}},
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
                    "title": "T",
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "url", "url": "http://x/y.pdf"}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Fäcts"}},
                {"type": "document", "source": {"type": "content", "content": [text("a")]}},
                {"type": "search_result", "source": "s", "title": "t", "content": [text("a")]},
            ],
        },
        Message(
            "user",
            (
                Media("image", "data:image/png;base64,QUJD", CACHED),
                Media("image", "http://x/y.png"),
                Opaque("image", {"type": "image", "source": {"type": "file", "file_id": "file_1"}}),
                Media("file", "data:application/pdf;base64,QUJD", {"title": "T", "citations": {"enabled": True}}),
                Media("file", "http://x/y.pdf"),
                Media("file", f"data:text/plain;base64,{FACTS}"),
                Opaque("document", {"type": "document", "source": {"type": "content", "content": [text("a")]}}),
                Opaque(
                    "search_result",
                    {"type": "search_result", "source": "s", "title": "t", "content": [text("a")]},
                ),
            ),
        ),
    ),
    (
        "thinking, text and calls",
        {
            "role": "assistant",
            "content": [
                THOUGHT,
                {"type": "redacted_thinking", "data": "Em"},
                text("See.", citations=[{"type": "char_location"}]),
                {"type": "tool_use", "id": "toolu_a", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "toolu_b", "name": "click", "input": {}, "toolset_name": "computer"},
            ],
        },
        Message(
            "assistant",
            (
                Opaque("thinking", THOUGHT),
                Opaque("redacted_thinking", {"type": "redacted_thinking", "data": "Em"}),
                TextPart("See.", {"citations": [{"type": "char_location"}]}),
            ),
            "hm",
            (ToolCall("f", {"x": 1}, "toolu_a"), ToolCall("click", {}, "toolu_b")),
            extra={"toolspeak_tool_use": {"1": {"toolset_name": "computer"}}},
        ),
    ),
    (
        "calls among texts and blocks of the service",
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_a", "name": "f", "input": {}},
                text("and"),
                {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
                {"type": "tool_use", "id": "toolu_b", "name": "g", "input": {}},
            ],
        },
        Message(
            "assistant",
            (
                TextPart("and"),
                Opaque(
                    "server_tool_use",
                    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
                ),
            ),
            calls=(ToolCall("f", {}, "toolu_a"), ToolCall("g", {}, "toolu_b")),
            extra={"toolspeak_order": "cppc"},
        ),
    ),
    (
        "arguments that are no object",
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_a", "name": "f", "input": "oops"}]},
        Message(
            "assistant",
            calls=(
                ToolCall("f", {}, "toolu_a", (Note("arguments_invalid", "the arguments are not a JSON object: oops"),)),
            ),
            extra={"toolspeak_tool_use": {"0": {"input": "oops"}}},
        ),
    ),
    (
        "results",
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_a", "content": "sunny", **CACHED},
                {"type": "tool_result", "tool_use_id": "toolu_b", "content": "broken", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_c",
                    "content": [text("see"), {"type": "image", "source": PIXEL}],
                },
                {"type": "tool_result", "tool_use_id": "toolu_d", "content": ""},
            ],
        },
        Message(
            "tool",
            results=(
                ToolResult("toolu_a", "sunny", extra=CACHED),
                ToolResult("toolu_b", "broken", error=True),
                ToolResult("toolu_c", "see", parts=(Media("image", "data:image/png;base64,QUJD"),)),
                ToolResult("toolu_d", ""),
            ),
        ),
    ),
    (
        "a result of many blocks",
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_a",
                    "content": [
                        {"type": "image", "source": PIXEL},
                        text("one"),
                        text("two", **CACHED),
                        {"type": "tool_reference", "tool_name": "f"},
                    ],
                }
            ],
        },
        Message(
            "tool",
            results=(
                ToolResult(
                    "toolu_a",
                    "onetwo",
                    parts=(
                        Media("image", "data:image/png;base64,QUJD"),
                        Opaque("tool_reference", {"type": "tool_reference", "tool_name": "f"}),
                    ),
                    extra={"toolspeak_layout": [None, 3, [3, CACHED], None]},
                ),
            ),
        ),
    ),
    (
        "results and a text",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}, text("go on")]},
        Message("user", (TextPart("go on"),), results=(ToolResult("a", "1"),)),
    ),
    (
        "a text before the results",
        {"role": "user", "content": [text("so"), {"type": "tool_result", "tool_use_id": "a", "content": "1"}]},
        Message("user", (TextPart("so"),), results=(ToolResult("a", "1"),), extra={"toolspeak_order": "pr"}),
    ),
    (
        "a system message among the others",
        {"role": "system", "content": "be brief"},
        Message("system", (TextPart("be brief"),), extra={"toolspeak_inline": True}),
    ),
    (
        "a block of a kind to come",
        {"role": "user", "content": [{"type": "hologram", "beam": 1}]},
        Message("user", (Opaque("hologram", {"type": "hologram", "beam": 1}),)),
    ),
]


@pytest.mark.requirement("G1", "G2", "G5")
@check_each(("wire", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_a_message_is_understood_and_sent_on_as_it_came(wire: dict[str, Any], expected: Message):
    request = decode(messages=[wire])
    assert request.messages == (expected,)
    assert sent(request)["messages"] == [wire]
    assert request_notes(request) == ()


@pytest.mark.requirement("G1", "G5")
@check_each("system", ["be brief", [text("a"), text("b", **CACHED)]])
def test_a_system_prompt_is_a_message_before_the_others(system: Any):
    request = decode(system=system)
    assert [message.role for message in request.messages] == ["system", "user"]
    assert sent(request)["system"] == system
    assert sent(request)["messages"] == [USER]
    assert decode(system="").messages == decode(system=[]).messages == (HI,)


def test_shapes_that_only_some_clients_send_are_understood():
    parts = decode(messages=[{"role": "user", "content": ["a", {"type": "text"}, {}]}]).messages[0].parts
    assert parts == (TextPart("a"), TextPart(""), Opaque("", {}))
    calls = decode(messages=[{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}]).messages[0].calls
    assert calls == (ToolCall("f", {}),)
    found = decode(messages=[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]).messages[0]
    assert found.results == (ToolResult("a", ""),)
    assert decode(tool_choice="auto").tool_choice == ToolChoice()


@check_each(
    "source",
    [
        {"type": "base64", "media_type": "image/png", "data": 7},
        {"type": "base64", "media_type": "text/plain", "data": "QUJD"},
        {"type": "base64", "media_type": "image/png", "data": "QUJD", "more": 1},
        {"type": "text", "media_type": "text/html", "data": "x"},
        {"type": "url", "url": 7},
        {"type": "url", "url": ""},
        {},
        None,
    ],
)
def test_a_source_that_says_something_else_is_carried_as_it_is(source: Any):
    wire = {"role": "user", "content": [{"type": "document", "source": source}]}
    request = decode(messages=[wire])
    assert request.messages[0].parts == (Opaque("document", wire["content"][0]),)  # type: ignore[index]
    assert sent(request)["messages"] == [wire]


@check_each("said", ["hi", [[]], [{"a": 1}], None])
def test_a_lone_block_that_looks_like_a_text_stays_what_it_is(said: Any):
    wire = {"role": "user", "content": [{"type": "future_text", "text": said}]}
    assert sent(decode(messages=[wire]))["messages"] == [wire]
    result = {"type": "tool_result", "tool_use_id": "a", "content": wire["content"]}
    assert sent(decode(messages=[wire | {"content": [result]}]))["messages"][0]["content"] == [result]


def test_a_result_that_is_carried_may_have_no_content():
    block = {"type": "tool_result", "tool_use_id": "a"}
    assert sent(Request("m", (Message("user", (Opaque("tool_result", block),)),)))["messages"][0]["content"] == [block]


def test_our_own_marks_count_only_from_us():
    marks = {"toolspeak_order": 7, "toolspeak_inline": 1, "toolspeak_tool_use": "x"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "x", "toolspeak_layout": [["a"]]}
    request = decode(messages=[{"role": "user", "content": [result], **marks}], **{"output_config.format": 7})
    assert request.messages == (Message("tool", results=(ToolResult("a", "x"),)),)
    assert request.options.extra == {}


def test_a_message_that_was_changed_is_sent_in_the_usual_order():
    message = Message(
        "user",
        (TextPart("so"), TextPart("now")),
        results=(ToolResult("a", "changed", extra={"toolspeak_layout": [3, 2]}),),
        extra={"toolspeak_order": "pr"},
    )
    assert sent(Request("m", (message,)))["messages"][0]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "changed"},
        text("so"),
        text("now"),
    ]


# --------------------------------------------------------------------------------------------------- tools and choice


@pytest.mark.requirement("A13", "G5")
def test_functions_and_tools_of_the_service_are_understood():
    tools = [
        WEATHER | CACHED | {"strict": True, "eager_input_streaming": True},
        WEATHER | {"type": "custom", "name": "g"},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "computer_toolset_20260801", **CACHED},
    ]
    request = decode(tools=tools)
    assert [(tool.name, tool.kind) for tool in request.tools] == [
        ("get_weather", "function"),
        ("g", "function"),
        ("web_search", "web_search_20250305"),
        ("bash", "bash_20250124"),
        ("str_replace_based_edit_tool", "text_editor_20250728"),
        ("computer_toolset_20260801", "computer_toolset_20260801"),
    ]
    assert (request.tools[0].description, request.tools[0].parameters) == ("d", {"type": "object"})
    assert sent(request)["tools"] == tools


@pytest.mark.requirement("A10", "G1")
@check_each(
    ("wire", "expected"),
    [
        (None, ToolChoice()),
        ({"type": "auto"}, ToolChoice()),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(parallel=False)),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required", parallel=False)),
        ({"type": "tool", "name": "get_weather"}, ToolChoice("named", ("get_weather",))),
        (
            {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
            ToolChoice("named", ("get_weather",), False),
        ),
        ({"type": "none"}, ToolChoice("none")),
    ],
)
def test_every_shape_of_tool_choice_is_understood(wire: Any, expected: ToolChoice):
    request = decode(tools=[WEATHER], tool_choice=wire)
    assert request.tool_choice == expected
    assert sent(request).get("tool_choice", {"type": "auto"}) == (wire or {"type": "auto"})
    assert "tool_choice" not in sent(decode(tool_choice=wire))


def test_what_a_choice_says_besides_is_kept():
    choice = {"type": "any", "x": 1}
    assert sent(decode(tools=[WEATHER], tool_choice=choice))["tool_choice"] == choice


@pytest.mark.requirement("A10")
def test_of_a_choice_among_some_tools_only_these_are_sent():
    tools = (Tool("f"), Tool("g"))
    some = Request("m", (HI,), tools, ToolChoice("required", ("g",)))
    assert [tool["name"] for tool in sent(some)["tools"]] == ["g"]
    assert sent(some)["tool_choice"] == {"type": "any"}
    assert "tools_left_out" in codes(some)
    every = Request("m", (HI,), tools, ToolChoice("auto", ("g", "f")))
    assert [tool["name"] for tool in sent(every)["tools"]] == ["f", "g"]
    assert "tools_left_out" not in codes(every)


# ------------------------------------------------------------------------------------------------------------ options

SCHEMA = {"type": "object", "properties": {}}
FORM = {"type": "json_schema", "schema": SCHEMA}


@pytest.mark.requirement("C6", "G1")
@check_each(
    ("fields", "expected"),
    [
        ({"temperature": 0.5, "top_p": 1}, Options(9, 0.5, 1)),
        ({"stop_sequences": ["a", "b"]}, Options(9, stop=("a", "b"))),
        ({"output_config": {"format": FORM}}, Options(9, response_format=ResponseFormat(SCHEMA))),
        (
            {"output_config": {"format": FORM | {"x": 1}, "effort": "high"}},
            Options(
                9,
                response_format=ResponseFormat(SCHEMA),
                extra={"output_config": {"effort": "high"}, "output_config.format": {"x": 1}},
            ),
        ),
        ({"output_config": {"effort": "high"}}, Options(9, extra={"output_config": {"effort": "high"}})),
        (
            {"output_config": {"format": {"type": "new"}}},
            Options(9, extra={"output_config": {"format": {"type": "new"}}}),
        ),
        ({"output_format": FORM}, Options(9, response_format=ResponseFormat(SCHEMA), extra={"output_format": True})),
        ({"output_format": {"type": "new"}}, Options(9, extra={"output_format": {"type": "new"}})),
        (
            {"thinking": {"type": "adaptive"}, "metadata": {"user_id": "u"}, "top_k": 5, **CACHED},
            Options(9, extra={"thinking": {"type": "adaptive"}, "metadata": {"user_id": "u"}, "top_k": 5, **CACHED}),
        ),
        (
            {"format": "json", "context_management": None},
            Options(9, extra={"format": "json", "context_management": None}),
        ),
    ],
)
def test_options_are_understood_and_sent_on_as_they_came(fields: dict[str, Any], expected: Options):
    request = decode(**fields)
    assert request.options == expected
    assert sent(request) == {"model": "m", "max_tokens": 9, "messages": [USER], **fields}


def test_defaults_and_nulls_are_nothing():
    nothing = {"temperature": None, "stop_sequences": [], "stream": False, "tools": [], "tool_choice": None}
    assert decode(**nothing, system=None, output_format=None) == decode()
    assert sent(decode(stream=True))["stream"] is True


@pytest.mark.requirement("R-T1")
def test_fields_that_would_send_the_request_elsewhere_are_never_sent():
    request = decode(**dict.fromkeys(ROUTING_FIELDS, "http://elsewhere"))
    assert request.options.extra.keys() >= ROUTING_FIELDS
    assert sent(request) == {"model": "m", "max_tokens": 9, "messages": [USER]}


def test_a_grammar_is_sent_as_its_fields():
    grammar = {"output_config": {"format": FORM}, "x": 1}
    request = Request("m", (HI,), options=Options(9, grammar=grammar, extra={"output_config": {"effort": "low"}}))
    assert sent(request)["output_config"] == {"effort": "low", "format": FORM}
    assert sent(request)["x"] == 1


def test_half_a_surrogate_pair_does_not_stop_a_request():
    request = Request("m", (Message("user", (TextPart("\ud800"),)),))
    assert sent(request)["messages"][0]["content"] == "\ufffd"


# ------------------------------------------------------------------------------------------------------------- errors


def one_block(**block: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [block]}]}


@pytest.mark.requirement("G3")
@check_each(
    ("fields", "named"),
    [
        ({"model": 7}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "tool"}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [7]}]}, "messages[0].content[0]"),
        (one_block(type=7), "messages[0].content[0].type"),
        (one_block(type="text", text=7), "messages[0].content[0].text"),
        (one_block(type="thinking", thinking=7), "messages[0].content[0].thinking"),
        (one_block(type="tool_use"), "messages[0].content[0].name"),
        (one_block(type="tool_use", name="f", id=7), "messages[0].content[0].id"),
        (one_block(type="tool_result", tool_use_id=7), "messages[0].content[0].tool_use_id"),
        (one_block(type="tool_result", content=7), "messages[0].content[0].content"),
        (one_block(type="tool_result", is_error="no"), "messages[0].content[0].is_error"),
        ({"system": 7}, "system"),
        ({"system": [7]}, "system[0]"),
        ({"tools": {}}, "tools"),
        ({"tools": [WEATHER, 7]}, "tools[1]"),
        ({"tools": [{}]}, "tools[0].name"),
        ({"tool_choice": 7}, "tool_choice"),
        ({"tool_choice": "f"}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"stream": 1}, "stream"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"stop_sequences": "a"}, "stop_sequences"),
        ({"stop_sequences": [7]}, "stop_sequences[0]"),
        ({"output_format": 7}, "output_format"),
        ({"output_config": {"format": 7}}, "output_config.format"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, Any], named: str):
    with pytest.raises(UsageError) as caught:
        decode(**fields)
    assert f"`{named}`" in str(caught.value)


@check_each("body", [b"", b"{", b"[]", b"\xff", b'{"a":"\xff"}', b'{"a":' * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes):
    with pytest.raises(UsageError):
        decode_request(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "user", "text", "tool_use", "tool_result"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from("type text role content source id name input tool_use_id tools format".split()), inner
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from("messages system tools tool_choice output_config thinking x".split()), JSON))
def test_no_body_does_anything_but_decode_or_name_its_fault(fields: dict[str, Any]):
    try:
        request = decode_request({"messages": [USER]} | fields)
    except UsageError:
        return
    encode_request(request)
