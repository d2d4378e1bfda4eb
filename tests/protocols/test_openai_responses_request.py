"""Requests of the Responses API: what clients send is understood, and comes out again as it went in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
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
    ToolChoice,
    ToolResult,
)
from toolspeak.errors import UsageError
from toolspeak.protocols.openai_responses import PROTOCOL, decode_request, encode_request, needs_store
from toolspeak.protocols.shared.fields import ROUTING_FIELDS

replace = msgspec.structs.replace

USER = {"type": "message", "role": "user", "content": "hi"}
HI = Message("user", (TextPart("hi"),))
ONE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
WEATHER = {"type": "function", "name": "get_weather", "description": "d", "parameters": {"type": "object"}}
CODE = {"type": "custom", "name": "run", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}
CRM = {
    "type": "namespace",
    "name": "crm",
    "description": "Customers.",
    "tools": [
        {"type": "function", "name": "find", "parameters": None, "strict": False},
        {"type": "custom", "name": "q"},
    ],
}
SEARCH = {"type": "web_search", "search_context_size": "low"}


def decode(**fields: Any) -> Request:
    return decode_request({"model": "m", "input": [USER], **fields})


def sent(request: Request) -> Any:
    return json.loads(encode_request(request))


def again(request: Request) -> Request:
    return decode_request(encode_request(request))


# ------------------------------------------------------------------------------------------------------- input


@pytest.mark.requirement("G1")
def test_a_text_is_what_the_user_says():
    request = decode_request(b'{"model":"m","input":"hi","stream":true}')
    assert request == Request("m", (HI,), stream=True, protocol=PROTOCOL)
    assert sent(request) == {"model": "m", "input": [USER], "stream": True}


def test_instructions_are_a_system_message_and_go_back_to_their_place():
    request = decode(instructions="Be brief.")
    assert request.messages == (Message("system", (TextPart("Be brief."),), extra={"instructions": True}), HI)
    assert sent(request) == {"model": "m", "instructions": "Be brief.", "input": [USER]}
    assert decode(instructions=None) == decode(instructions="") == decode()


def test_instructions_that_hold_more_than_text_become_a_message():
    picture = Media("image", "http://x/y")
    odd = Message("system", (TextPart("Look."), picture), extra={"instructions": True})
    wire = sent(Request("m", (odd, HI), protocol=PROTOCOL))
    assert "instructions" not in wire
    assert wire["input"][0]["role"] == "system"


REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "encrypted_content": "gA",
}
SAID = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Let me see.", "annotations": [{"type": "url_citation", "url": "u"}]}],
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "a",
    "name": "f",
    "arguments": '{"x":1}',
    "status": "completed",
}
OTHER = {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"}


def result(identifier: str, output: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": identifier, "output": output, **more}


@pytest.mark.requirement("G3")
def test_the_items_of_a_turn_are_one_message():
    items = [USER, REASONING, SAID, CALL, OTHER, result("a", "1"), result("b", "2", status="completed"), USER]
    request = decode(input=items)
    assert request.messages == (
        HI,
        Message(
            "assistant",
            (
                Opaque("item:reasoning", REASONING),
                TextPart("Let me see.", {"annotations": [{"type": "url_citation", "url": "u"}]}),
            ),
            "Hm",
            (ToolCall("f", {"x": 1}, "a"), ToolCall("g", {}, "b")),
            extra={
                "id": "msg_1",
                "status": "completed",
                "tool_calls": {"0": {"id": "fc_1", "status": "completed"}},
            },
        ),
        Message("tool", results=(ToolResult("a", "1"),)),
        Message("tool", results=(ToolResult("b", "2", extra={"status": "completed"}),)),
        HI,
    )
    assert sent(request)["input"] == items


@check_each(
    "items",
    [
        [CALL, SAID],
        [SAID, SAID],
        [SAID, REASONING, CALL],
        [CALL, REASONING, OTHER],
        [CALL, {"type": "web_search_call", "id": "ws_1"}, SAID],
        [{"type": "web_search_call", "id": "ws_1"}, SAID],
        [{"type": "web_search_call", "id": "ws_1"}, USER],
        [REASONING, USER],
        [{"type": "reasoning", "id": "rs_2", "summary": [], "content": None}, SAID],
        [SAID, {"type": "item_reference", "id": "x"}],
        [{"id": "x"}, USER],
        [{"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}}],
        [{"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}, {"type": "new_item", "x": 1}],
        [{"type": "compaction", "encrypted_content": "gA"}, CALL, result("a", "1")],
        [{"role": "assistant", "type": "message", "content": "", "id": "msg_1"}, CALL],
        [{"type": "message", "role": "developer", "content": "d", "x": 1}, USER],
        [{"type": "additional_tools", "role": "developer", "tools": []}, USER],
    ],
)
def test_items_in_any_order_go_out_as_they_came(items: list[Any]):
    assert sent(decode(input=[USER, *items]))["input"] == [USER, *items]


def test_items_that_belong_to_nothing_go_along_with_what_comes_next():
    call = {"type": "web_search_call", "id": "ws_1"}
    carried = Opaque("item:web_search_call", call)
    assert decode(input=[call, USER]).messages == (Message("user", (carried, TextPart("hi"))),)
    assert decode(input=[call]).messages == (Message("assistant", (carried,)),)
    output = {"type": "shell_call_output", "call_id": "c", "output": []}
    assert decode(input=[USER, output]).messages[1] == Message("tool", (Opaque("item:shell_call_output", output),))


@pytest.mark.requirement("A13")
def test_calls_of_custom_tools_have_one_argument():
    items = [
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "a", "name": "run", "input": "print(1)"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "1"},
    ]
    request = decode(input=items)
    assert request.messages[0].calls == (ToolCall("run", {"input": "print(1)"}, "a"),)
    assert request.messages[1].results == (ToolResult("a", "1", extra={"type": "custom_tool_call_output"}),)
    assert sent(request)["input"] == items


@pytest.mark.requirement("A13")
def test_calls_of_tools_in_a_namespace_find_their_way_back():
    item = {"type": "function_call", "call_id": "a", "name": "find", "arguments": "{}", "namespace": "crm"}
    request = decode(input=[item])
    assert request.messages[0].calls == (ToolCall("crm__find", {}, "a"),)
    assert sent(request)["input"] == [item]
    custom = {"type": "custom_tool_call", "call_id": "b", "name": "q", "input": "x", "namespace": "crm"}
    made = Message("assistant", calls=(ToolCall("crm__find", {}, "a"), ToolCall("crm__q", {"input": "x"}, "b")))
    answers = Message("tool", results=(ToolResult("a", "1"), ToolResult("b", "2")))
    wire = sent(Request("m", (made, answers), decode(tools=[CRM]).tools, protocol="openai_chat"))
    assert wire["input"] == [
        item,
        custom,
        result("a", "1"),
        {"type": "custom_tool_call_output", "call_id": "b", "output": "2"},
    ]


@check_each("given", ['{"x"', "[1]", "7", [1]])
def test_arguments_that_are_no_object_go_back_as_they_came(given: Any):
    item = {"type": "function_call", "call_id": "a", "name": "f", "arguments": given}
    call = decode(input=[item]).messages[0].calls[0]
    assert (call.arguments, call.notes[0].code) == ({}, "arguments_invalid")
    wire = sent(decode(input=[item]))["input"][0]["arguments"]
    assert wire == (given if isinstance(given, str) else "[1]")


@check_each("given", [None, "", {}, "{}"])
def test_no_arguments_are_an_empty_object(given: Any):
    item = {"type": "function_call", "call_id": "a", "name": "f", "arguments": given}
    assert decode(input=[item]).messages[0].calls == (ToolCall("f", {}, "a"),)


# ----------------------------------------------------------------------------------------------------- content


@pytest.mark.requirement("C4")
@check_each(
    ("part", "expected"),
    [
        ({"type": "input_text", "text": "a", "x": 1}, TextPart("a", {"x": 1})),
        (
            {"type": "input_image", "image_url": "http://x/y", "detail": "low"},
            Media("image", "http://x/y", {"detail": "low"}),
        ),
        (
            {"type": "input_image", "file_id": "file_1", "detail": "auto"},
            Opaque("content:input_image", {"type": "input_image", "file_id": "file_1", "detail": "auto"}),
        ),
        (
            {"type": "input_file", "file_data": "data:application/pdf;base64,QQ==", "filename": "a.pdf"},
            Media("file", "data:application/pdf;base64,QQ==", {"filename": "a.pdf"}),
        ),
        ({"type": "input_file", "file_url": "https://x/a.pdf"}, Media("file", "https://x/a.pdf")),
        (
            {"type": "input_file", "file_url": "ftp://x"},
            Opaque("content:input_file", {"type": "input_file", "file_url": "ftp://x"}),
        ),
        ({"type": "input_file", "file_id": "f"}, Opaque("content:input_file", {"type": "input_file", "file_id": "f"})),
        ({"type": "hologram", "x": 1}, Opaque("content:hologram", {"type": "hologram", "x": 1})),
    ],
)
def test_every_part_is_understood_or_carried(part: Any, expected: Any):
    items = [{"type": "message", "role": "user", "content": [part]}, result("a", [part])]
    request = decode(input=items)
    assert request.messages[0].parts == (expected,)
    if not isinstance(expected, TextPart):
        assert request.messages[1].results[0].parts == (expected,)
        assert sent(request)["input"] == items


@check_each("said", ["hi", [[]], None])
def test_a_lone_part_that_looks_like_a_text_stays_what_it_is(said: Any):
    wire = {"type": "message", "role": "user", "content": [{"type": "future_text", "text": said}]}
    assert sent(decode(input=[wire]))["input"][0]["content"] == wire["content"]


def test_texts_are_sent_as_what_their_speaker_says():
    content = [{"type": "text", "text": "a"}, "b"]
    request = decode(input=[{"role": "user", "content": content}, {"role": "assistant", "content": content}])
    kinds = [[part["type"] for part in item["content"]] for item in sent(request)["input"]]
    assert kinds == [["input_text", "input_text"], ["output_text", "output_text"]]


def test_a_refusal_of_the_past_is_carried():
    item = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert sent(decode(input=[item]))["input"] == [item]


def test_a_result_may_have_several_texts_and_a_name():
    item = result("a", [{"type": "input_text", "text": "1"}, {"type": "input_text", "text": "2"}], name="f")
    request = decode(input=[item])
    assert request.messages[0].results == (ToolResult("a", "12", "f"),)
    assert sent(request)["input"] == [result("a", "12", name="f")]


# ------------------------------------------------------------------------------------------------------- tools


@pytest.mark.requirement("A13")
def test_tools_of_every_kind_are_understood_and_go_out_as_they_came():
    tools = [WEATHER, CODE, CRM, SEARCH, {"type": "mcp", "server_label": "x", "server_url": "https://x"}]
    tools += [{"type": kind} for kind in ("local_shell", "shell", "apply_patch", "image_generation", "new_kind")]
    tools += [
        {"type": "file_search", "vector_store_ids": ["v"]},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "computer_use_preview", "environment": "browser", "display_width": 1, "display_height": 1},
    ]
    request = decode(tools=tools)
    assert request.tools[:5] == (
        Tool("get_weather", "d", {"type": "object"}),
        Tool("run", "", ONE_TEXT, kind="custom", extra={"format": CODE["format"]}),
        Tool("crm__find", namespace="crm", extra={"strict": False, "beside": {"description": "Customers."}}),
        Tool("crm__q", "", ONE_TEXT, kind="custom", namespace="crm", extra={"beside": {"description": "Customers."}}),
        Tool("web_search", kind="web_search", extra=SEARCH),
    )
    assert [tool.kind for tool in request.tools[5:]] == [tool["type"] for tool in tools[4:]]
    assert sent(request)["tools"] == tools


def test_a_tool_in_the_older_shape_is_understood():
    request = decode(tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])
    assert sent(request)["tools"] == [{"type": "function", "name": "f", "parameters": {}}]


def test_a_namespace_without_a_description_has_an_empty_one():
    bare = {"type": "namespace", "name": "a", "tools": [{"type": "function", "name": "f"}]}
    wire = sent(decode(tools=[bare]))["tools"]
    assert wire[0]["description"] == ""
    assert decode(tools=wire).tools == decode(tools=[bare]).tools == (Tool("a__f", namespace="a"),)
    assert decode(tools=[{"type": "namespace", "name": "a", "tools": []}]).tools == ()


@check_each(
    ("value", "expected"),
    [
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "get_weather"}, ToolChoice("named", ("get_weather",))),
        ({"type": "custom", "name": "run"}, ToolChoice("named", ("run",))),
        ({"type": "function", "name": "find"}, ToolChoice("named", ("crm__find",))),
        ({"type": "web_search"}, ToolChoice("named", ("web_search",))),
        ({"type": "mcp", "server_label": "x", "name": "y"}, ToolChoice("named", ("mcp",))),
        ({"type": "apply_patch"}, ToolChoice("named", ("apply_patch",))),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]},
            ToolChoice("auto", ("get_weather",)),
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "custom", "name": "run"}, {"type": "mcp", "server_label": "x"}],
            },
            ToolChoice("required", ("run", "mcp")),
        ),
    ],
)
@pytest.mark.requirement("A10")
def test_every_choice_is_understood_and_goes_out_as_it_came(value: Any, expected: ToolChoice):
    tools = [WEATHER, CODE, CRM, SEARCH]
    request = decode(tools=tools, tool_choice=value)
    assert request.tool_choice == expected
    assert sent(request).get("tool_choice", "auto") == value
    single = decode(tools=tools, tool_choice=value, parallel_tool_calls=False)
    assert single.tool_choice == replace(expected, parallel=False)
    assert sent(single)["parallel_tool_calls"] is False
    assert sent(single).get("tool_choice", "auto") == value


def test_a_choice_that_was_changed_is_sent_as_it_is_now():
    request = decode(tools=[WEATHER], tool_choice={"type": "mcp", "server_label": "x"})
    wire = sent(replace(request, tool_choice=ToolChoice("none")))
    assert wire["tool_choice"] == "none"


def test_a_choice_in_the_older_shape_is_understood():
    older = {"type": "function", "function": {"name": "get_weather"}}
    assert decode(tools=[WEATHER], tool_choice=older).tool_choice == ToolChoice("named", ("get_weather",))
    listed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [older]}}
    assert decode(tools=[WEATHER], tool_choice=listed).tool_choice == ToolChoice("auto", ("get_weather",))


# ----------------------------------------------------------------------------------------------------- options

SCHEMA = {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": True}


@check_each(
    ("fields", "expected"),
    [
        ({"max_output_tokens": 9, "temperature": 0.5, "top_p": 1}, Options(9, 0.5, 1)),
        ({"text": {"format": SCHEMA}}, Options(response_format=ResponseFormat({"type": "object"}, "x", True))),
        (
            {"text": {"format": {**SCHEMA, "description": "d"}, "verbosity": "low"}},
            Options(
                response_format=ResponseFormat({"type": "object"}, "x", True),
                extra={"text": {"format": {"description": "d"}, "verbosity": "low"}},
            ),
        ),
        ({"text": {"format": {"type": "json_object"}}}, Options(response_format=ResponseFormat())),
        (
            {"text": {"format": {"type": "grammar", "x": 1}}},
            Options(extra={"text": {"format": {"type": "grammar", "x": 1}}}),
        ),
        ({"text": {"verbosity": "low"}}, Options(extra={"text": {"verbosity": "low"}})),
        (
            {"store": False, "include": ["reasoning.encrypted_content"], "truncation": "auto", "metadata": {"a": "b"}},
            Options(
                extra={
                    "store": False,
                    "include": ["reasoning.encrypted_content"],
                    "truncation": "auto",
                    "metadata": {"a": "b"},
                }
            ),
        ),
        (
            {"reasoning": {"effort": "high"}, "x_new": None, "previous_response_id": "resp_1"},
            Options(extra={"reasoning": {"effort": "high"}, "x_new": None, "previous_response_id": "resp_1"}),
        ),
    ],
)
def test_options_are_understood_and_sent_on_as_they_came(fields: dict[str, Any], expected: Options):
    request = decode(**fields)
    assert request.options == expected
    assert sent(request) == {"model": "m", "input": [USER], **fields}


def test_defaults_and_nulls_are_nothing():
    nothing = {"temperature": None, "max_output_tokens": None, "stream": False, "tools": [], "tool_choice": None}
    assert decode(**nothing, text={"format": {"type": "text"}}, parallel_tool_calls=True) == decode()
    assert decode(text=None) == decode(text={}) == decode()
    assert decode(text={"format": {**SCHEMA, "name": None, "strict": None}}).options.response_format == ResponseFormat(
        {"type": "object"}, "reply"
    )


def test_stream_options_stand_only_beside_stream():
    streamed = decode(stream=True, stream_options={"include_obfuscation": False})
    assert sent(streamed)["stream_options"] == {"include_obfuscation": False}
    assert "stream_options" not in sent(replace(streamed, stream=False))


@pytest.mark.requirement("R-T1")
def test_fields_that_would_send_the_request_elsewhere_are_never_sent():
    request = decode(**dict.fromkeys(ROUTING_FIELDS, "http://elsewhere"))
    assert request.options.extra.keys() >= ROUTING_FIELDS
    assert sent(request) == {"model": "m", "input": [USER]}


def test_a_grammar_is_sent_as_its_fields():
    wire = sent(Request("m", (HI,), options=Options(grammar={"guided_json": {}}), protocol=PROTOCOL))
    assert wire == {"model": "m", "input": [USER], "guided_json": {}}


@pytest.mark.requirement("G5")
@check_each(
    ("fields", "needed"),
    [
        ({}, False),
        ({"store": True}, False),
        ({"previous_response_id": None, "conversation": None, "background": False}, False),
        ({"previous_response_id": "resp_1"}, True),
        ({"conversation": {"id": "conv_1"}}, True),
        ({"background": True}, True),
        ({"input": [{"type": "item_reference", "id": "msg_1"}, USER]}, True),
        ({"input": [{"id": "msg_1"}]}, True),
        ({"previous_response_id": "resp_1", "input": None}, True),
    ],
)
def test_a_request_that_needs_a_store_is_known(fields: dict[str, Any], needed: bool):
    assert needs_store(decode(**fields)) is needed
    assert not needs_store(replace(decode(**fields), protocol="openai_chat"))


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.requirement("G3")
@check_each(
    ("fields", "named"),
    [
        ({"model": 7}, "model"),
        ({"input": None}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": {}}, "input"),
        ({"input": ["hi"]}, "input[0]"),
        ({"input": [{"content": "hi"}]}, "input[0].type"),
        ({"input": [{"type": 7}]}, "input[0].type"),
        ({"input": [USER, {"role": "robot"}]}, "input[1].role"),
        ({"input": [{"role": "user", "content": 7}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [7]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": 7}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "function_call", "arguments": "{}"}]}, "input[0].name"),
        ({"input": [{"type": "function_call", "name": "f", "call_id": 7}]}, "input[0].call_id"),
        ({"input": [{"type": "custom_tool_call", "name": "f", "input": 7}]}, "input[0].input"),
        ({"input": [{"type": "function_call_output", "output": 7}]}, "input[0].output"),
        ({"instructions": 7}, "instructions"),
        ({"tools": {}}, "tools"),
        ({"tools": [WEATHER, 7]}, "tools[1]"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "tools[0].name"),
        ({"tools": [{"type": "namespace", "name": "a", "tools": [{}]}]}, "tools[0]"),
        ({"tool_choice": "f"}, "tool_choice"),
        ({"tool_choice": 7}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "allowed_tools", "mode": "auto"}}, "tool_choice.tools"),
        ({"tool_choice": {"type": "allowed_tools", "tools": [{"name": "f"}]}}, "tool_choice.mode"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"stream": 1}, "stream"),
        ({"max_output_tokens": "many"}, "max_output_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"text": "json"}, "text"),
        ({"text": {"format": "json"}}, "text.format"),
        ({"text": {"format": {**SCHEMA, "strict": 1}}}, "text.format.strict"),
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


# ------------------------------------------------------------------------------------------------ real clients

CLIENTS = Path(__file__).parents[3] / "shared" / "clients" / "requests.jsonl"
#: The file stands for long lists by their beginning and this.
LEFT_OUT = re.compile(r"<\d+ more>")


def real_requests() -> list[Any]:
    if not CLIENTS.is_file():
        return []
    rows = [json.loads(line) for line in CLIENTS.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(whole(row["body"]), id=f"{at}-{row['client']}")
        for at, row in enumerate(rows)
        if row["path"].endswith("/responses") and row["method"] == "POST"
    ]


def whole(value: Any) -> Any:
    match value:
        case list():
            return [whole(item) for item in value if not (isinstance(item, str) and LEFT_OUT.fullmatch(item))]
        case dict():
            return {key: whole(item) for key, item in value.items()}
        case _:
            return value


@pytest.mark.skipif(not CLIENTS.is_file(), reason="the shared requests are not beside the checkout")
@pytest.mark.requirement("G4")
@pytest.mark.parametrize("body", real_requests())
def test_what_real_clients_send_is_understood_and_survives(body: dict[str, Any]):
    request = decode_request(json.dumps(body).encode())
    assert [tool.name for tool in request.tools] == [tool["name"] for tool in body.get("tools", [])]
    assert not needs_store(request)
    assert again(request) == request
    wire = sent(request)
    listed = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    assert wire["input"] == [plain(one) for one in listed]
    assert wire.get("tools", []) == body.get("tools", [])
    defaults = {"stream": False, "tool_choice": "auto", "parallel_tool_calls": True}
    for key in body.keys() - {"input", "tools"}:
        assert wire.get(key, defaults.get(key)) == body[key]


def plain(wire: dict[str, Any]) -> dict[str, Any]:
    """An item says that it is a message, and a single text in a list goes out as that text."""
    wire = {"type": "message", **wire}
    match wire["content"]:
        case [{"type": "input_text", "text": text}]:
            return wire | {"content": text}
        case _:
            return wire


@pytest.mark.requirement("C8")
def test_what_belongs_to_a_format_that_is_not_sent_is_not_sent_either():
    request = decode(text={"format": {**SCHEMA, "description": "d"}, "verbosity": "low"})
    assert sent(request)["text"]["format"]["description"] == "d"
    options = msgspec.structs.replace(request.options, response_format=None)
    assert sent(msgspec.structs.replace(request, options=options))["text"] == {"verbosity": "low"}
