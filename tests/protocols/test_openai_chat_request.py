"""Requests of chat completions: what clients send is understood, and comes out again as it went in."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

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
from toolspeak.protocols.openai_chat import decode_request, encode_request
from toolspeak.protocols.openai_chat.request import LEGACY
from toolspeak.protocols.shared.fields import ROUTING_FIELDS

USER = {"role": "user", "content": "hi"}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}, "strict": True}}
CODE = {"type": "custom", "custom": {"name": "run_code", "format": {"type": "text"}}}
HI = Message("user", (TextPart("hi"),))


def decode(**fields: Any) -> Request:
    return decode_request({"model": "m", "messages": [USER]} | fields)


def sent(request: Request) -> dict[str, Any]:
    return json.loads(encode_request(request))


def message(**fields: Any) -> Message:
    return decode(messages=[fields]).messages[0]


def again(request: Request) -> Request:
    return decode_request(encode_request(request))


# ------------------------------------------------------------------------------------------------------- messages

MESSAGES: list[tuple[str, dict[str, Any], Message]] = [
    ("text", USER, HI),
    ("empty text", {"role": "user", "content": ""}, Message("user")),
    ("system", {"role": "system", "content": "x"}, Message("system", (TextPart("x"),))),
    (
        "developer",
        {"role": "developer", "content": "x"},
        Message("system", (TextPart("x"),), extra={"role": "developer"}),
    ),
    ("name", {"role": "user", "content": "hi", "name": "Ann"}, Message("user", (TextPart("hi"),), name="Ann")),
    ("unknown field", {"role": "user", "content": "hi", "x": 1}, Message("user", (TextPart("hi"),), extra={"x": 1})),
    (
        "parts",
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "http://x/y.png", "detail": "low"}, "z": 1},
                {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
                {"type": "video_url", "video_url": {"url": "http://x/y.mp4"}},
                {"type": "audio_url", "audio_url": {"url": "http://x/y.wav"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUJD", "filename": "a.pdf"}},
                {"type": "file", "file": {"file_id": "file_1"}},
                {"type": "refusal", "refusal": "no"},
            ],
        },
        Message(
            "user",
            (
                TextPart("a", {"cache_control": {"type": "ephemeral"}}),
                Media("image", "http://x/y.png", {"detail": "low", "beside": {"z": 1}}),
                Media("audio", "data:audio/mpeg;base64,QUJD"),
                Media("video", "http://x/y.mp4"),
                Media("audio", "http://x/y.wav"),
                Media("file", "data:application/pdf;base64,QUJD", {"filename": "a.pdf"}),
                Opaque("file", {"type": "file", "file": {"file_id": "file_1"}}),
                Opaque("refusal", {"type": "refusal", "refusal": "no"}),
            ),
        ),
    ),
    (
        "calls",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"x":1}'},
                    "extra_content": {"s": 1},
                },
                {"id": "b", "type": "custom", "custom": {"name": "run", "input": "print()"}},
            ],
        },
        Message(
            "assistant",
            calls=(ToolCall("f", {"x": 1}, "a"), ToolCall("run", {"input": "print()"}, "b")),
            extra={"tool_calls": {"0": {"extra_content": {"s": 1}}, "1": {"type": "custom"}}},
        ),
    ),
    (
        "text and calls",
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        Message("assistant", (TextPart("Let me see."),), calls=(ToolCall("f", {}, "a"),)),
    ),
    (
        "arguments that are no object",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":'}}],
        },
        Message(
            "assistant",
            calls=(ToolCall("f", {}, "a", (Note("arguments_invalid", 'the arguments are not a JSON object: {"x":'),)),),
            extra={"tool_calls": {"0": {"arguments": '{"x":'}}},
        ),
    ),
    (
        "reasoning",
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
        Message("assistant", (TextPart("a"),), "r"),
    ),
    (
        "reasoning in another field",
        {"role": "assistant", "content": "a", "reasoning": "r"},
        Message("assistant", (TextPart("a"),), "r", extra={"reasoning_field": "reasoning"}),
    ),
    (
        "null fields as SDKs dump them",
        {"role": "assistant", "content": "a", "refusal": None, "audio": None},
        Message("assistant", (TextPart("a"),), extra={"refusal": None, "audio": None}),
    ),
    (
        "result",
        {"role": "tool", "tool_call_id": "a", "content": "sunny", "name": "f", "x": 1},
        Message("tool", results=(ToolResult("a", "sunny", "f", extra={"x": 1}),)),
    ),
    (
        "result with a picture",
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        Message("tool", results=(ToolResult("a", "see", parts=(Media("image", "u"),)),)),
    ),
]


@pytest.mark.requirement("G1", "G2")
@check_each(("wire", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_a_message_is_understood_and_sent_on_as_it_came(wire: dict[str, Any], expected: Message):
    request = decode(messages=[wire])
    assert request.messages == (expected,)
    assert sent(request)["messages"] == [wire]


def test_shapes_that_only_some_clients_send_are_understood():
    assert message(role="user", content=["a", {"type": "image_url", "image_url": "u"}]).parts == (
        TextPart("a"),
        Media("image", "u"),
    )
    assert message(role="user", content=[{"type": "input_audio", "input_audio": {"data": "x"}}]).parts == (
        Media("audio", "data:audio/wav;base64,x"),
    )
    calls = [
        {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
        {"id": "b", "function": {"name": "f", "arguments": ""}},
        {"id": "c", "function": {"name": "f"}},
        {"id": "d", "function": {"name": "f", "arguments": [1]}},
    ]
    found = message(role="assistant", tool_calls=calls)
    assert [call.arguments for call in found.calls] == [{"x": 1}, {}, {}, {}]
    assert [len(call.notes) for call in found.calls] == [0, 0, 0, 1]
    wire = sent(Request("m", (found,)))["messages"][0]["tool_calls"]
    assert [call["function"]["arguments"] for call in wire] == ['{"x":1}', "{}", "{}", "[1]"]


@check_each("said", ["hi", [[]], None])
def test_a_lone_part_that_looks_like_a_text_stays_what_it_is(said: Any):
    wire = {"role": "user", "content": [{"type": "future_text", "text": said}]}
    assert sent(decode(messages=[wire]))["messages"] == [wire]


def test_an_assistant_without_text_and_calls_has_an_empty_content():
    assert sent(Request("m", (Message("assistant"),)))["messages"] == [{"role": "assistant", "content": ""}]


def test_results_inside_a_users_message_go_before_its_text():
    both = Message("user", (TextPart("go on"),), results=(ToolResult("a", "1"), ToolResult("b", "2")))
    only = Message("user", results=(ToolResult("c", "3"),))
    assert sent(Request("m", (both, only)))["messages"] == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "go on"},
        {"role": "tool", "tool_call_id": "c", "content": "3"},
    ]


# ---------------------------------------------------------------------------------------------- tools and choice


@pytest.mark.requirement("A13")
def test_functions_custom_tools_namespaces_and_others_are_understood():
    tools = [WEATHER | {"cache_control": {}}, CODE, {"type": "web_search"}]
    space = {"type": "namespace", "name": "fs", "tools": [{"type": "function", "function": {"name": "read"}}]}
    request = decode(tools=[*tools, space])
    assert [(tool.name, tool.kind, tool.namespace) for tool in request.tools] == [
        ("get_weather", "function", ""),
        ("run_code", "custom", ""),
        ("web_search", "web_search", ""),
        ("fs__read", "function", "fs"),
    ]
    assert sent(request)["tools"] == [*tools, {"type": "function", "function": {"name": "fs__read"}}]


CHOICES: list[tuple[Any, ToolChoice]] = [
    (None, ToolChoice()),
    ("auto", ToolChoice()),
    ("none", ToolChoice("none")),
    ("required", ToolChoice("required")),
    ("any", ToolChoice("required")),
    ({"type": "function", "function": {"name": "get_weather"}}, ToolChoice("named", ("get_weather",))),
    ({"type": "custom", "custom": {"name": "run_code"}}, ToolChoice("named", ("run_code",))),
    ({"type": "function", "name": "get_weather"}, ToolChoice("named", ("get_weather",))),
    (
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [
                    {"type": "function", "function": {"name": "get_weather"}},
                    {"type": "custom", "custom": {"name": "run_code"}},
                ],
            },
        },
        ToolChoice("required", ("get_weather", "run_code")),
    ),
    (
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]},
        ToolChoice("auto", ("get_weather",)),
    ),
]


@pytest.mark.requirement("G1")
@check_each(("wire", "expected"), CHOICES)
def test_every_shape_of_tool_choice_is_understood(wire: Any, expected: ToolChoice):
    request = decode(tools=[WEATHER, CODE], tool_choice=wire)
    assert request.tool_choice == expected
    assert again(request) == request
    single = decode(tools=[WEATHER, CODE], tool_choice=wire, parallel_tool_calls=False)
    assert single.tool_choice == msgspec.structs.replace(expected, parallel=False)
    assert again(single) == single


def test_a_choice_goes_out_in_the_shape_of_the_documentation():
    for wire, _ in CHOICES[5:7] + CHOICES[8:9]:
        assert sent(decode(tools=[WEATHER, CODE], tool_choice=wire))["tool_choice"] == wire
    assert "tool_choice" not in sent(decode(tools=[WEATHER], tool_choice="auto"))
    assert "tool_choice" not in sent(decode(tool_choice="none"))


def test_functions_of_the_old_kind_become_tools_and_their_calls_get_ids():
    request = decode(
        functions=[{"name": "f", "parameters": {"type": "object"}}],
        function_call={"name": "f"},
        messages=[
            USER,
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
        ],
    )
    assert request.tools == (Tool("f", parameters={"type": "object"}),)
    assert request.tool_choice == ToolChoice("named", ("f",), parallel=False)
    assert request.messages[1].calls == (ToolCall("f", {}, "function_call_1"),)
    assert request.messages[2].results == (ToolResult("function_call_1", "1", "f"),)
    assert request.options.extra == {LEGACY: True}
    wire = sent(request)
    assert wire["tools"] == [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    assert {"functions", "function_call"}.isdisjoint(wire)
    assert decode(functions=[]).tool_choice == ToolChoice(parallel=False)
    assert decode(functions=[], function_call="none").tool_choice == ToolChoice("none", parallel=False)


# -------------------------------------------------------------------------------------------------------- options


@pytest.mark.requirement("C6", "G1")
@check_each(
    ("fields", "expected"),
    [
        ({"max_tokens": 5}, Options(5)),
        ({"max_completion_tokens": 5}, Options(5, extra={"max_completion_tokens": True})),
        ({"temperature": 0.5, "top_p": 1, "seed": 7}, Options(None, 0.5, 1, 7)),
        ({"stop": ["a", "b"]}, Options(stop=("a", "b"))),
        ({"n": 3}, Options(n=3)),
        ({"response_format": {"type": "json_object"}}, Options(response_format=ResponseFormat())),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {}, "strict": True, "description": "d"},
                }
            },
            Options(response_format=ResponseFormat({}, "x", True), extra={"response_format": {"description": "d"}}),
        ),
        (
            {"response_format": {"type": "grammar", "grammar": "g"}},
            Options(extra={"response_format": {"type": "grammar", "grammar": "g"}}),
        ),
        ({"user": "ann", "metadata": {"a": "b"}}, Options(extra={"user": "ann", "metadata": {"a": "b"}})),
    ],
)
def test_options_are_understood_and_sent_on_as_they_came(fields: dict[str, Any], expected: Options):
    request = decode(**fields)
    assert request.options == expected
    assert sent(request) == {"model": "m", "messages": [USER], **fields}


def test_defaults_and_nulls_are_nothing():
    nothing = {"temperature": None, "stop": None, "n": 1, "stream": False, "tools": [], "tool_choice": None}
    assert decode(**nothing, response_format={"type": "text"}, parallel_tool_calls=True, max_tokens=None) == decode()
    assert decode(stop="a").options.stop == ("a",)
    assert decode(max_tokens=3, max_completion_tokens=5).options.max_tokens == 5
    assert decode(response_format={"type": "json_object", "schema": {}}).options.response_format == ResponseFormat({})


def test_a_stream_always_asks_for_usage_and_a_plain_request_never_has_stream_options():
    options = {"include_usage": False, "include_obfuscation": False}
    streamed = decode(stream=True, stream_options=options)
    assert sent(streamed)["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert "stream_options" not in sent(msgspec.structs.replace(streamed, stream=False))
    assert sent(decode(stream=True, stream_options=None))["stream_options"] == {"include_usage": True}


@pytest.mark.requirement("R-T1")
def test_fields_that_would_send_the_request_elsewhere_are_never_sent():
    request = decode(**dict.fromkeys(ROUTING_FIELDS, "http://elsewhere"))
    assert request.options.extra.keys() >= ROUTING_FIELDS
    assert sent(request) == {"model": "m", "messages": [USER]}


def test_a_grammar_is_sent_as_its_fields():
    wire = sent(Request("m", (HI,), options=Options(grammar={"guided_json": {}})))
    assert wire == {"model": "m", "messages": [USER], "guided_json": {}}


def test_words_of_another_protocol_are_not_sent():
    foreign = {"cache_control": {}}
    request = Request(
        "m",
        (
            Message("user", (TextPart("hi", foreign), Opaque("thinking", {"type": "thinking"})), extra=foreign),
            Message("assistant", (Opaque("thinking", {"type": "thinking"}),)),
            Message("tool", results=(ToolResult("a", "1", extra=foreign),)),
        ),
        (Tool("f", extra=foreign), Tool("web_search", kind="web_search", extra={"type": "web_search_20250305"})),
        options=Options(extra=foreign),
        protocol="anthropic",
    )
    assert sent(request) == {
        "model": "m",
        "messages": [USER, {"role": "tool", "tool_call_id": "a", "content": "1"}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }


def test_half_a_surrogate_pair_does_not_stop_a_request():
    request = Request("m", (Message("assistant", (TextPart("\ud800"),), calls=(ToolCall("f", {"x": "\udc00"}, "a"),)),))
    wire = sent(request)["messages"][0]
    assert wire["content"] == "\ufffd"
    assert wire["tool_calls"][0]["function"]["arguments"] == '{"x": "\ufffd"}'


# --------------------------------------------------------------------------------------------------------- errors


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
        ({"messages": [USER, {"role": "robot"}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [7]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 7}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].image_url"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
            "messages[0].tool_calls[0].function.name",
        ),
        ({"messages": [{"role": "tool", "tool_call_id": 7}]}, "messages[0].tool_call_id"),
        ({"tools": {}}, "tools"),
        ({"tools": [WEATHER, 7]}, "tools[1]"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"functions": [{}]}, "tools[0]"),
        ({"function_call": "f", "functions": []}, "function_call"),
        ({"tool_choice": "f"}, "tool_choice"),
        ({"tool_choice": 7}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function.name"),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}},
            "tool_choice.allowed_tools.tools",
        ),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": [WEATHER]}}},
            "tool_choice.allowed_tools.mode",
        ),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"stream": 1}, "stream"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"stop": [7]}, "stop[0]"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
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


@pytest.mark.requirement("C8")
def test_what_belongs_to_a_format_that_is_not_sent_is_not_sent_either():
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}, "description": "d"}}
    request = decode(response_format=form)
    assert sent(request)["response_format"] == form
    options = msgspec.structs.replace(request.options, response_format=None)
    assert "response_format" not in sent(msgspec.structs.replace(request, options=options))
