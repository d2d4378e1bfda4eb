"""Requests of the Messages API: what clients send is understood, and comes out again as it went in."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from toolspeak.protocols.anthropic import (
    DEFAULT_MAX_TOKENS,
    LOSSES,
    MAX_CACHE_MARKS,
    PROTOCOL,
    ROUTING_FIELDS,
    decode_request,
    encode_request,
    request_notes,
)

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
            calls=(ToolCall("f", {}, "toolu_a", (Note("arguments_invalid", "no JSON object: oops"),)),),
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
@pytest.mark.parametrize(("wire", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_a_message_is_understood_and_sent_on_as_it_came(wire: dict[str, Any], expected: Message):
    request = decode(messages=[wire])
    assert request.messages == (expected,)
    assert sent(request)["messages"] == [wire]
    assert request_notes(request) == ()


@pytest.mark.requirement("G1", "G5")
@pytest.mark.parametrize("system", ["be brief", [text("a"), text("b", **CACHED)]])
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


@pytest.mark.parametrize(
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


# ------------------------------------------------------------------------------------------ from other protocols


@pytest.mark.requirement("G3")
def test_results_of_one_turn_are_sent_in_one_message():
    messages = (
        Message("tool", results=(ToolResult("a", "1", "f"),)),
        Message("tool", results=(ToolResult("b", "2", "f"),)),
        HI,
    )
    assert sent(Request("m", messages, protocol="openai_chat"))["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "content": "2"},
            ],
        },
        USER,
    ]
    foreign = replace(messages[1], role="user", extra={"x": 1})
    assert len(sent(Request("m", (messages[0], foreign)))["messages"]) == 2  # it says something besides
    texts = (Message("tool", (TextPart("x"),)), Message("tool", (TextPart("y"),)))
    assert sent(Request("m", texts))["messages"] == [{"role": "user", "content": [text("x"), text("y")]}]


@pytest.mark.requirement("G3")
def test_system_messages_go_where_the_service_takes_them():
    rules, later = Message("system", (TextPart("a"),)), Message("system", (TextPart("c"),))
    request = Request("m", (rules, Message("system", (TextPart("b"),)), HI, later), protocol="openai_chat")
    wire = sent(request)
    assert wire["system"] == [text("a"), text("b")]
    assert wire["messages"] == [USER, {"role": "user", "content": "c"}]
    assert "system_as_user" in codes(request)
    seen = Request("m", (Message("system", (TextPart("a"), Media("image", "http://x/y"))), HI))
    assert sent(seen)["system"] == "a"
    assert "system_part_dropped" in codes(seen)


@pytest.mark.requirement("G3")
def test_ids_are_written_with_the_characters_that_the_service_takes():
    calls = ("functions.f:0", "functions_f_0", "functions.f.0", "", "", "ok-1_A")
    request = Request(
        "m",
        (
            Message("assistant", calls=tuple(ToolCall("f", {}, one) for one in calls)),
            *(Message("tool", results=(ToolResult(one, "x"),)) for one in calls),
        ),
        protocol="openai_chat",
    )
    wire = sent(request)["messages"]
    ids = [block["id"] for block in wire[0]["content"]]
    assert ids == [block["tool_use_id"] for block in wire[1]["content"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[a-zA-Z0-9_-]+", one) for one in ids)
    assert ids[-1] == "ok-1_A"
    assert "call_id_changed" in codes(request)


@pytest.mark.requirement("G3", "G5")
def test_words_of_another_protocol_are_not_sent_but_for_that_of_the_cache():
    foreign = {"detail": "low", **CACHED}
    request = Request(
        "m",
        (
            Message("user", (TextPart("hi", foreign), Opaque("reasoning", {"type": "reasoning"})), extra={"x": 1}),
            Message("tool", results=(ToolResult("a", "1", extra=foreign),)),
        ),
        (Tool("f", extra={"strict": True, **CACHED}), Tool("s", kind="web_search", extra={"type": "web_search"})),
        options=Options(9, extra={"user": "ann"}),
        protocol="openai_chat",
    )
    assert sent(request) == {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": [text("hi", **CACHED)]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1", **CACHED}]},
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, **CACHED}],
    }
    assert codes(request) == ["opaque_dropped", "tool_dropped"]


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (Media("audio", "data:audio/wav;base64,QUJD"), "media_dropped"),
        (Media("video", "http://x/y.mp4"), "media_dropped"),
        (Media("image", "data:image/svg+xml,<svg/>"), "media_dropped"),
        (Media("file", "data:text/plain;base64,????"), "media_dropped"),
        (Media("file", "data:text/plain;base64,/w=="), "media_dropped"),
        (Opaque("signature", "abc"), "opaque_dropped"),
    ],
)
def test_what_has_no_word_here_is_left_out_with_a_note(part: Any, code: str):
    request = Request("m", (Message("user", (TextPart("hi"), part)),), options=Options(9))
    assert sent(request)["messages"] == [USER]
    assert codes(request) == [code]


@pytest.mark.requirement("B10")
def test_thinking_without_a_signature_is_left_out_with_a_note():
    request = Request("m", (HI, Message("assistant", (), "hm"), Message("assistant", (TextPart("a"),), "hm")))
    assert sent(request)["messages"] == [USER, {"role": "assistant", "content": "a"}]
    assert codes(request)[:2] == ["reasoning_dropped", "empty_message_dropped"]


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    ("schema", "expected", "noted"),
    [
        (None, {"type": "object"}, []),
        (True, {"type": "object"}, []),
        ({"properties": {}}, {"properties": {}, "type": "object"}, []),
        (
            {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, 7]},
            {"type": "object", "properties": {"a": {}}},
            ["schema_loosened"],
        ),
        (
            {"oneOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {}, "b": {}}}], "allOf": 7},
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}},
            ["schema_loosened"],
        ),
    ],
)
def test_schemas_are_sent_as_the_service_takes_them(schema: Any, expected: Any, noted: list[str]):
    request = Request("m", (HI,), (Tool("f", parameters=schema),), options=Options(9), protocol="openai_chat")
    assert sent(request)["tools"][0]["input_schema"] == expected
    assert codes(request) == noted


@pytest.mark.requirement("G3")
def test_options_that_the_service_lacks_or_limits_are_noted():
    options = Options(None, 1.7, 0.5, 7, ("\n", "END"), 3, ResponseFormat())
    request = Request("m", (HI,), options=options)
    wire = sent(request)
    assert wire == {
        "model": "m",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "messages": [USER],
        "temperature": 1.0,
        "top_p": 0.5,
        "stop_sequences": ["END"],
    }
    assert codes(request) == [
        "max_tokens_set",
        "temperature_lowered",
        "stop_dropped",
        "seed_dropped",
        "n_dropped",
        "response_format_dropped",
    ]


def test_what_came_by_this_protocol_goes_out_as_it_came():
    fields = {"temperature": 1.7, "stop_sequences": ["\n"]}
    tool = {"name": "f", "input_schema": {"anyOf": []}}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "a.b", "name": "f", "input": {}}]}
    request = decode(**fields, tools=[tool], messages=[USER, call])
    assert sent(request).items() >= {**fields, "tools": [tool], "messages": [USER, call]}.items()
    assert request_notes(request) == ()


def test_a_limit_leaves_room_for_thinking():
    request = decode(max_tokens=None, thinking={"type": "enabled", "budget_tokens": 2000})
    assert sent(request)["max_tokens"] == DEFAULT_MAX_TOKENS + 2000
    assert sent(decode(max_tokens=None, thinking={"type": "adaptive"}))["max_tokens"] == DEFAULT_MAX_TOKENS
    assert sent(decode(max_tokens=0))["max_tokens"] == 0


@pytest.mark.requirement("G5")
def test_of_too_many_marks_for_the_cache_the_last_are_sent():
    def request(marks: int, **fields: Any) -> Request:
        parts = [TextPart(str(at), CACHED) for at in range(marks)]
        search = {"type": "search_result", "content": [text("z", **CACHED)]}
        return Request(
            "m",
            (
                Message("system", tuple(parts[1:3])),
                Message("user", (*parts[3:], Opaque("search_result", search))),
            ),
            (Tool("f", extra=CACHED),),
            options=Options(9, extra=fields),
        )

    four = request(MAX_CACHE_MARKS)
    assert encode_request(four).count(b"cache_control") == MAX_CACHE_MARKS + 1  # and one that is only carried
    five = request(MAX_CACHE_MARKS + 1)
    wire = sent(five)
    assert "cache_control" not in wire["tools"][0]
    assert [block.get("cache_control") for block in wire["system"]] == [CACHED["cache_control"]] * 2
    assert codes(five) == ["cache_control_dropped"]
    assert "cache_control" not in sent(request(MAX_CACHE_MARKS, **CACHED))["tools"][0]
    assert sent(five) == wire  # the request itself is as it was


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
@pytest.mark.parametrize(
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
@pytest.mark.parametrize(
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
@pytest.mark.parametrize(
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


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"a":"\xff"}', b'{"a":' * 100_000])
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


# -------------------------------------------------------------------------------------------------------- round trips

NAMES = st.sampled_from(["f", "get_weather", "run"])
TEXTS = st.text(max_size=6)
FILLED = st.text(min_size=1, max_size=6)
IDS = st.sampled_from(["toolu_a", "toolu_b", "call-1"])
EXTRA = st.dictionaries(st.sampled_from(["x_one", "x_two"]), st.none() | st.integers(0, 9) | TEXTS, max_size=2)
MEDIA = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from(["http://x/y", "data:image/png;base64,QQ==", "data:text/plain;base64,QUJD", "data:x,y"]),
    EXTRA,
)
OPAQUE = st.sampled_from([Opaque("search_result", {"type": "search_result", "x": 1}), Opaque("signature", "abc")])
SIGNED = st.just(Opaque("thinking", THOUGHT))
PARTS = st.lists(st.builds(TextPart, TEXTS, EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
ARGUMENTS = st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS | st.none(), max_size=2)
NOTES = st.sampled_from([(), (Note("trailing_comma"),)])
CALLS = st.lists(st.builds(ToolCall, NAMES, ARGUMENTS, IDS, NOTES), max_size=2).map(tuple)
RESULTS = st.lists(
    st.builds(ToolResult, IDS, TEXTS, TEXTS, st.booleans(), st.lists(MEDIA | OPAQUE, max_size=1).map(tuple), EXTRA),
    min_size=1,
    max_size=2,
).map(tuple)
MESSAGE = (
    st.builds(Message, st.sampled_from(["system", "user"]), PARTS, name=TEXTS, extra=EXTRA)
    | st.builds(Message, st.just("system"), PARTS, extra=st.just({"toolspeak_inline": True}))
    | st.builds(Message, st.just("assistant"), PARTS, TEXTS, CALLS)
    | st.builds(Message, st.just("assistant"), st.tuples(SIGNED, st.builds(TextPart, FILLED)), st.just("hm"), CALLS)
    | st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
)
TOOL = st.builds(
    Tool,
    NAMES,
    TEXTS,
    st.sampled_from([None, {"type": "object"}, {"anyOf": [{"properties": {"a": {}}}]}]),
    st.booleans(),
    st.sampled_from(["function", "custom"]),
    st.sampled_from(["", "fs"]),
    st.fixed_dictionaries({}, optional={"strict": st.booleans(), "cache_control": st.just({"type": "ephemeral"})}),
) | st.just(Tool("bash", kind="bash_20250124", extra={"type": "bash_20250124", "name": "bash"}))
CHOICE = st.builds(
    ToolChoice, st.sampled_from(["auto", "none", "required"]), st.lists(NAMES, max_size=2).map(tuple), st.booleans()
) | st.builds(ToolChoice, st.just("named"), NAMES.map(lambda name: (name,)), st.booleans())
FORMAT = st.none() | st.builds(
    ResponseFormat, st.none() | st.just(SCHEMA), st.sampled_from(["", "x"]), st.none() | st.booleans()
)
NUMBERS = st.none() | st.floats(0, 2)
OPTIONS = st.builds(
    Options,
    st.none() | st.integers(1, 9),
    NUMBERS,
    NUMBERS,
    st.none() | st.integers(0, 9),
    st.lists(st.sampled_from(["a", "\n", ""]), max_size=2).map(tuple),
    st.integers(1, 3),
    FORMAT,
    st.just({}) | st.just({"top_k": 1}),
    st.fixed_dictionaries(
        {},
        optional={
            "metadata": st.just({"user_id": "u"}),
            "api_base": TEXTS,
            "output_config": st.just({"effort": "low"}),
        },
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
    st.just(""),
)
replace = msgspec.structs.replace


def on_messages(change: Callable[[Message], Message]) -> Callable[[Request], Request]:
    return lambda request: replace(request, messages=tuple(map(change, request.messages)))


def on_tools(change: Callable[[Tool], Tool]) -> Callable[[Request], Request]:
    return lambda request: replace(request, tools=tuple(map(change, request.tools)))


def on_options(change: Callable[[Options], Options]) -> Callable[[Request], Request]:
    return lambda request: replace(request, options=change(request.options))


def on_parts(lost: Callable[[Any], bool]) -> Callable[[Request], Request]:
    def kept(parts: Any) -> Any:
        return tuple(part for part in parts if not lost(part))

    def change(message: Message) -> Message:
        results = tuple(replace(result, parts=kept(result.parts)) for result in message.results)
        return replace(message, parts=kept(message.parts), results=results)

    return on_messages(change)


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


def functions(tool: Tool) -> Tool:
    return replace(tool, kind="function") if tool.kind == "custom" else tool


#: Each loss of `LOSSES` as what it does to a request, in the order in which they come.
SUFFERED: dict[str, Callable[[Request], Request]] = {
    "protocol": lambda request: replace(request, protocol=PROTOCOL),
    "names": on_messages(nameless),
    "empty text": on_parts(lambda part: isinstance(part, TextPart) and not part.text),
    "opaque part": on_parts(lambda part: isinstance(part, Opaque) and isinstance(part.data, str)),
    "media": on_parts(
        lambda part: isinstance(part, Media) and (part.kind in ("audio", "video") or part.url == "data:x,y")
    ),
    "reasoning": on_messages(unsigned),
    "empty message": empty_messages,
    "several system messages": system_messages,
    "tool messages": tool_messages,
    "call notes": on_messages(lambda one: replace(one, calls=tuple(replace(call, notes=()) for call in one.calls))),
    "custom tool": on_tools(functions),
    "namespace": on_tools(lambda tool: replace(tool, namespace="")),
    "side effects": on_tools(lambda tool: replace(tool, side_effects=False)),
    "tool without a schema": on_tools(
        lambda tool: (
            replace(tool, parameters={"type": "object"}) if tool.kind == "function" and not tool.parameters else tool
        )
    ),
    "schema of choices": on_tools(loosened),
    "allowed tools": allowed,
    "tool_choice without tools": lambda request: (
        request if request.tools else replace(request, tool_choice=ToolChoice())
    ),
    "parallel under none": parallel,
    "max_tokens": on_options(lambda one: replace(one, max_tokens=one.max_tokens or DEFAULT_MAX_TOKENS)),
    "temperature": on_options(
        lambda one: replace(one, temperature=one.temperature if one.temperature is None else min(1, one.temperature))
    ),
    "stop": on_options(lambda one: replace(one, stop=tuple(word for word in one.stop if word.strip()))),
    "seed and n": on_options(lambda one: replace(one, seed=None, n=1)),
    "format": on_options(form),
    "routing fields": on_options(
        lambda one: replace(one, extra={key: value for key, value in one.extra.items() if key not in ROUTING_FIELDS})
    ),
    "grammar": on_options(lambda one: replace(one, grammar={}, extra={**one.extra, **one.grammar})),
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {"words of another protocol", "ids", "cache marks"}


@pytest.mark.requirement("G2", "G3")
@given(REQUEST)
def test_a_request_comes_back_as_it_went_but_for_the_listed_losses(request: Request):
    expected = request
    for suffer in SUFFERED.values():
        expected = suffer(expected)
    assert again(request) == expected
    assert again(expected) == expected


def test_every_listed_loss_is_tested():
    assert {loss.name for loss in LOSSES if loss.half == "request"} == SUFFERED.keys() | ELSEWHERE


# ------------------------------------------------------------------------------------------------------- real clients

CLIENTS = Path(__file__).parents[3] / "shared" / "clients" / "requests.jsonl"
#: The file stands for long lists by their beginning and this.
LEFT_OUT = re.compile(r"<\d+ more>")


def real_requests() -> list[Any]:
    if not CLIENTS.is_file():
        return []
    rows = [json.loads(line) for line in CLIENTS.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(complete(row["body"]), id=f"{at}-{row['client']}")
        for at, row in enumerate(rows)
        if row["path"].startswith("/v1/messages")
    ]


def complete(value: Any) -> Any:
    match value:
        case list():
            return [complete(item) for item in value if not (isinstance(item, str) and LEFT_OUT.fullmatch(item))]
        case dict():
            return {key: complete(item) for key, item in value.items()}
        case _:
            return value


@pytest.mark.skipif(not CLIENTS.is_file(), reason="the shared requests are not beside the checkout")
@pytest.mark.requirement("G4")
@pytest.mark.parametrize("body", real_requests())
def test_what_real_clients_send_is_understood_and_survives(body: dict[str, Any]):
    request = decode_request(json.dumps(body).encode())
    assert len(request.messages) == len(body["messages"]) + ("system" in body)
    assert [tool.name for tool in request.tools] == [tool["name"] for tool in body.get("tools", [])]
    wire = sent(request)
    assert wire["messages"] == [plain(one) for one in body["messages"]]
    for key in body.keys() - {"messages", "stream", "tool_choice"}:
        assert wire[key] == body[key]
    assert again(request) == SUFFERED["max_tokens"](request)


def plain(wire: dict[str, Any]) -> dict[str, Any]:
    """A single text in a list goes out as that text."""
    match wire["content"]:
        case [{"type": "text", "text": words, **rest}] if not rest:
            return wire | {"content": words}
        case _:
            return wire
