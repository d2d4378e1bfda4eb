"""Requests that came by another protocol, said in the words of the Messages API."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.protocols.test_anthropic_request import CACHED, HI, USER, codes, decode, sent, text
from toolspeak.core.types import (
    Media,
    Message,
    Opaque,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    tools_from,
)
from toolspeak.protocols import openai_chat
from toolspeak.protocols.anthropic import encode_request, request_notes
from toolspeak.protocols.anthropic.request import DEFAULT_MAX_TOKENS, MAX_CACHE_MARKS


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
    foreign = msgspec.structs.replace(messages[1], role="user", extra={"x": 1})
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


def test_tools_of_the_services_own_go_up_as_they_are_and_every_other_is_noted():
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    tools = tools_from([search, {"type": "foo"}, {"type": "bar"}]) or ()
    request = Request("m", (Message("user", (TextPart("hi"),)),), tools, options=Options(9), protocol="openai_chat")
    assert sent(request)["tools"] == [search]
    assert [note.detail for note in request_notes(request)] == [
        f"`{name}`: the upstream's protocol does not support tools of kind `{name}`" for name in ("foo", "bar")
    ]


def test_a_mark_beside_a_function_of_chat_completions_is_kept():
    tools = [{"type": "function", "function": {"name": "f"}, **CACHED, "x": 1}]
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": tools}
    assert sent(openai_chat.decode_request(body))["tools"] == [
        {"name": "f", "input_schema": {"type": "object"}, **CACHED}
    ]


@check_each(
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
@check_each(
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
