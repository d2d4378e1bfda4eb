"""Requests to generateContent: what clients send is understood, and comes out again as it went in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.genai import types
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
from toolspeak.protocols.common import ROUTING_FIELDS
from toolspeak.protocols.gemini import LOSSES, PROTOCOL, decode_request, encode_request, path, request_notes

USER = {"role": "user", "parts": [{"text": "hi"}]}
HI = Message("user", (TextPart("hi"),))
PART = "gemini_part"
WEATHER = {"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": {"type": "object"}}]}
SIGNATURE = {"thoughtSignature": "c2ln"}


def decode(**fields: Any) -> Request:
    return decode_request({"contents": [USER]} | fields, model="m")


def sent(request: Request) -> dict[str, Any]:
    return json.loads(encode_request(request))


def again(request: Request) -> Request:
    return decode_request(encode_request(request), model=request.model, stream=request.stream)


# ------------------------------------------------------------------------------------------------------- messages

CALLED = {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}}]}
MESSAGES: list[tuple[str, dict[str, Any], Message]] = [
    ("text", USER, HI),
    ("answer", {"role": "model", "parts": [{"text": "yes"}]}, Message("assistant", (TextPart("yes"),))),
    (
        "unknown fields",
        {"role": "user", "parts": [{"text": "hi", "x": 1}], "y": 2},
        Message("user", (TextPart("hi", {"x": 1}),), extra={"y": 2}),
    ),
    (
        "media",
        {
            "role": "user",
            "parts": [
                {
                    "inlineData": {"mimeType": "image/png", "data": "iVBO"},
                    "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
                },
                {"inlineData": {"mimeType": "audio/wav", "data": "QQ==", "displayName": "n"}},
                {"fileData": {"mimeType": "video/mp4", "fileUri": "https://x/y"}, "videoMetadata": {"fps": 1}},
                {"fileData": {"mimeType": "application/pdf", "fileUri": "files/abc"}},
                {"fileData": {"fileUri": "gs://b/o"}},
            ],
        },
        Message(
            "user",
            (
                Media("image", "data:image/png;base64,iVBO", {"mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}),
                Media("audio", "data:audio/wav;base64,QQ==", {"inlineData": {"displayName": "n"}}),
                Media("video", "https://x/y", {"videoMetadata": {"fps": 1}, "fileData": {"mimeType": "video/mp4"}}),
                Media("file", "files/abc", {"fileData": {"mimeType": "application/pdf"}}),
                Media("file", "gs://b/o"),
            ),
        ),
    ),
    (
        "parts of tools that the upstream runs",
        {
            "role": "model",
            "parts": [
                {"executableCode": {"language": "PYTHON", "code": "1"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
            ],
        },
        Message(
            "assistant",
            (
                Opaque(PART, {"executableCode": {"language": "PYTHON", "code": "1"}}),
                Opaque(PART, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}),
            ),
        ),
    ),
    (
        "thoughts with signatures",
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"text": "so", "thought": True, **SIGNATURE},
                {"text": "yes", **SIGNATURE},
                {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}, **SIGNATURE},
                {"functionCall": {"id": "b", "name": "g", "args": {}}},
            ],
        },
        Message(
            "assistant",
            (
                Opaque(PART, {"text": "hm", "thought": True}),
                Opaque(PART, {"text": "so", "thought": True, **SIGNATURE}),
                TextPart("yes", SIGNATURE),
            ),
            "hmso",
            (ToolCall("f", {"x": 1}, "a"), ToolCall("g", {}, "b")),
            extra={"calls": {"0": SIGNATURE}},
        ),
    ),
    (
        "a call before a text",
        {"role": "model", "parts": [CALLED["parts"][0], {"text": "I look."}]},  # type: ignore[index]
        Message("assistant", (TextPart("I look."),), calls=(ToolCall("f", {"x": 1}, "a"),), extra={"order": "cp"}),
    ),
    (
        "results",
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "a", "name": "f", "response": {"output": "sunny"}}},
                {"functionResponse": {"id": "b", "name": "f", "response": {"result": "sunny"}}},
                {"functionResponse": {"id": "c", "name": "f", "response": {"error": "no such city"}}},
                {"functionResponse": {"id": "d", "name": "f", "response": {"temp": 20}, "scheduling": "SILENT"}},
                {
                    "functionResponse": {
                        "id": "e",
                        "name": "f",
                        "response": {"output": ""},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBO"}}, {"x": 1}],
                    },
                    "y": 1,
                },
            ],
        },
        Message(
            "tool",
            results=(
                ToolResult("a", "sunny", "f"),
                ToolResult("b", "sunny", "f", extra={"response": {"result": "sunny"}}),
                ToolResult("c", "no such city", "f", error=True),
                ToolResult("d", '{"temp":20}', "f", extra={"scheduling": "SILENT", "response": {"temp": 20}}),
                ToolResult(
                    "e",
                    "",
                    "f",
                    parts=(Media("image", "data:image/png;base64,iVBO"), Opaque(PART, {"x": 1})),
                    extra={"part": {"y": 1}},
                ),
            ),
        ),
    ),
    (
        "results and text",
        {
            "role": "user",
            "parts": [
                {"text": "see"},
                {"functionResponse": {"id": "a", "name": "f", "response": {"output": "1"}}},
            ],
        },
        Message("user", (TextPart("see"),), results=(ToolResult("a", "1", "f"),), extra={"order": "pr"}),
    ),
    (
        "a call that says more",
        {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "f", "args": {}, "z": 1}}]},
        Message("assistant", calls=(ToolCall("f", {}, "a"),), extra={"calls": {"0": {"functionCall": {"z": 1}}}}),
    ),
]


@pytest.mark.requirement("G1", "G2")
@pytest.mark.parametrize(("wire", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_a_content_is_understood_and_sent_on_as_it_came(wire: dict[str, Any], expected: Message):
    request = decode(contents=[wire])
    assert request.messages == (expected,)
    assert sent(request)["contents"] == [wire]


def test_both_spellings_are_understood_and_the_documented_one_is_sent():
    snake = {
        "contents": [
            {"parts": [{"inline_data": {"mime_type": "image/png", "data": "-_-_"}}]},
            {"role": "model", "parts": [{"function_call": {"name": "f"}, "thought_signature": "c2ln"}]},
            {"role": "function", "parts": [{"function_response": {"name": "f", "response": {"output": "1"}}}]},
        ],
        "system_instruction": "Be brief.",
        "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": {"type": "object"}}]}],
        "tool_config": {"function_calling_config": {"mode": "any", "allowed_function_names": ["f"]}},
        "generation_config": {"max_output_tokens": 5, "stop_sequences": ["x"], "top_p": 0.5, "seed": None},
    }
    request = decode_request(json.dumps(snake).encode(), model="models/m", stream=True)
    assert (request.model, request.stream) == ("m", True)
    assert sent(request) == {
        "contents": [
            {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "+/+/"}}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "1"}}}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "generationConfig": {"maxOutputTokens": 5, "stopSequences": ["x"], "topP": 0.5},
    }


@pytest.mark.requirement("R-F36")
def test_calls_and_results_without_ids_are_paired_by_name_and_order():
    def called(*names: str) -> dict[str, Any]:
        return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in names]}

    def answered(*names: str) -> dict[str, Any]:
        results = [{"functionResponse": {"name": name, "response": {"output": name}}} for name in names]
        return {"role": "user", "parts": results}

    contents = [USER, called("f", "g", "f"), answered("g", "f", "f"), called("f"), answered("f", "f", "h")]
    request = decode(contents=contents)
    ids = [[one.id for one in (*message.calls, *message.results)] for message in request.messages]
    one, two, three, four = (f"unnamed_call_{number}" for number in range(1, 5))
    assert ids == [[], [one, two, three], [two, one, three], [four], [four, "", ""]]
    assert sent(request)["contents"] == contents


def test_results_with_ids_leave_the_others_to_those_without():
    contents = [
        {"role": "model", "parts": [{"functionCall": {"name": "f", "id": "a"}}, {"functionCall": {"name": "f"}}]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "f", "id": "a"}},
                {"functionResponse": {"name": "", "response": {"output": "x"}}},
            ],
        },
    ]
    results = decode(contents=contents).messages[1].results
    assert [result.id for result in results] == ["a", "unnamed_call_1"]


def test_shapes_that_only_some_clients_send_are_understood():
    assert decode(contents=USER).messages == (HI,)
    odd = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": [1]}}, {"functionCall": {"name": "g"}}]}
    message = decode(contents=[odd]).messages[0]
    assert [call.arguments for call in message.calls] == [{}, {}]
    assert message.calls[0].notes == (Note("arguments_invalid", "no JSON object: [1]"),)
    assert decode(systemInstruction={"parts": []}).messages == (HI,)
    system = decode(systemInstruction={"role": "user", "parts": [{"text": "s"}]})
    assert system.messages[0] == Message("system", (TextPart("s"),), extra={"role": "user"})
    assert sent(system)["systemInstruction"] == {"role": "user", "parts": [{"text": "s"}]}


# ---------------------------------------------------------------------------------------------- tools and choice

OPENAPI = {
    "type": "OBJECT",
    "properties": {
        "city": {"type": "STRING", "nullable": True, "maxLength": "20", "example": "Paris"},
        "unit": {"type": "STRING", "format": "enum", "enum": ["C", "F"], "nullable": True},
        "days": {"type": "ARRAY", "items": {"type": "INTEGER", "minimum": 0}, "min_items": 1},
        "any": {"any_of": [{"type": "NUMBER"}, {"ref": "#/$defs/x"}], "nullable": True, "example": 1},
        "odd": {"type": "TYPE_UNSPECIFIED", "nullable": False, "title": "T"},
        "map": {"type": "OBJECT", "additional_properties": {"type": "BOOLEAN"}},
    },
    "required": ["city"],
    "propertyOrdering": ["city", "unit"],
    "defs": {"x": {"type": "NULL", "nullable": True}},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": ["string", "null"], "maxLength": 20, "examples": ["Paris"]},
        "unit": {"type": ["string", "null"], "enum": ["C", "F", None]},
        "days": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
        "any": {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/x"}, {"type": "null"}], "examples": [1]},
        "odd": {"title": "T"},
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
    "required": ["city"],
    "propertyOrdering": ["city", "unit"],
    "$defs": {"x": {"type": "null"}},
}


@pytest.mark.requirement("D3")
def test_a_schema_in_geminis_own_form_becomes_json_schema_and_is_sent_as_it_came():
    tools = [{"functionDeclarations": [{"name": "f", "description": "d", "parameters": OPENAPI}]}]
    request = decode(tools=tools)
    assert request.tools[0].parameters == SCHEMA
    assert sent(request)["tools"] == tools
    changed = msgspec.structs.replace(request.tools[0], parameters={"type": "object"})
    wire = sent(msgspec.structs.replace(request, tools=(changed,)))["tools"][0]["functionDeclarations"][0]
    assert wire == {"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}


def test_a_schema_of_the_answer_in_geminis_own_form_is_sent_as_it_came():
    config = {"responseMimeType": "application/json", "responseSchema": OPENAPI}
    request = decode(generationConfig=config)
    assert request.options.response_format == ResponseFormat(SCHEMA)
    assert sent(request)["generationConfig"] == config
    options = msgspec.structs.replace(request.options, response_format=ResponseFormat({}))
    wire = sent(msgspec.structs.replace(request, options=options))["generationConfig"]
    assert wire == {"responseMimeType": "application/json", "responseJsonSchema": {}}


def test_a_schema_that_is_nested_too_deeply_is_refused():
    schema: dict[str, Any] = {"type": "STRING"}
    for _ in range(100):
        schema = {"type": "ARRAY", "items": schema}
    with pytest.raises(UsageError, match=r"tools\[0\]\.functionDeclarations\[0\]\.parameters"):
        decode(tools=[{"functionDeclarations": [{"name": "f", "parameters": schema}]}])


@pytest.mark.requirement("A13")
def test_tools_of_the_upstream_are_kept_and_dropped_for_others():
    tools = [
        {"functionDeclarations": [{"name": "f"}, {"name": "g", "behavior": "BLOCKING"}]},
        {"googleSearch": {}},
        {"codeExecution": {}},
        {"urlContext": {}},
    ]
    request = decode(tools=tools)
    assert [(tool.name, tool.kind) for tool in request.tools] == [
        ("f", "function"),
        ("g", "function"),
        ("googleSearch", "googleSearch"),
        ("codeExecution", "codeExecution"),
        ("urlContext", "urlContext"),
    ]
    assert sent(request)["tools"] == tools
    foreign = msgspec.structs.replace(request, protocol="other")
    assert sent(foreign)["tools"] == [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}]
    assert request_notes(request) == ()
    assert request_notes(foreign)[0] == Note("tool_dropped", "`googleSearch` is a tool of `other`")
    together = decode(tools=[{"function_declarations": [{"name": "f"}], "google_search": {"x": 1}}])
    assert sent(together)["tools"] == [{"functionDeclarations": [{"name": "f"}]}, {"googleSearch": {"x": 1}}]


CHOICES: list[tuple[Any, ToolChoice]] = [
    (None, ToolChoice()),
    ({}, ToolChoice()),
    ({"mode": "AUTO"}, ToolChoice()),
    ({"mode": "MODE_UNSPECIFIED"}, ToolChoice()),
    ({"mode": "NONE"}, ToolChoice("none")),
    ({"mode": "ANY"}, ToolChoice("required")),
    ({"mode": "ANY", "allowedFunctionNames": ["get_weather"]}, ToolChoice("required", ("get_weather",))),
    ({"mode": "VALIDATED"}, ToolChoice()),
    ({"mode": "VALIDATED", "allowedFunctionNames": ["get_weather"]}, ToolChoice("auto", ("get_weather",))),
]


@pytest.mark.requirement("A10", "G1")
@pytest.mark.parametrize(("wire", "expected"), CHOICES)
def test_every_mode_of_calling_is_understood(wire: Any, expected: ToolChoice):
    config = {"functionCallingConfig": wire} if wire is not None else {}
    request = decode(tools=[WEATHER], toolConfig=config)
    assert request.tool_choice == expected
    assert again(request) == request
    if wire and wire["mode"] not in ("AUTO", "MODE_UNSPECIFIED"):
        assert sent(request)["toolConfig"] == config


def test_what_a_tool_config_says_besides_is_sent_but_for_arguments_in_pieces():
    calling = {"mode": "ANY", "streamFunctionCallArguments": True, "x": 1}
    config = {"functionCallingConfig": calling, "retrievalConfig": {"languageCode": "de"}}
    request = decode(tools=[WEATHER], toolConfig=config)
    assert sent(request)["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY", "x": 1},
        "retrievalConfig": {"languageCode": "de"},
    }
    assert sent(decode(toolConfig=config))["toolConfig"] == {"retrievalConfig": {"languageCode": "de"}}


# -------------------------------------------------------------------------------------------------------- options


@pytest.mark.requirement("C6", "G1")
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"maxOutputTokens": 5, "temperature": 0.5, "topP": 1, "seed": 7}, Options(5, 0.5, 1, 7)),
        ({"stopSequences": ["a", "b"], "candidateCount": 2}, Options(stop=("a", "b"), n=2)),
        ({"responseMimeType": "application/json"}, Options(response_format=ResponseFormat())),
        (
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
            Options(response_format=ResponseFormat({"type": "object"})),
        ),
        (
            {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}},
            Options(
                extra={
                    "generationConfig": {
                        "responseMimeType": "text/x.enum",
                        "responseSchema": {"type": "STRING", "enum": ["a"]},
                    }
                }
            ),
        ),
        (
            {"topK": 64, "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 8192}},
            Options(
                extra={
                    "generationConfig": {
                        "topK": 64,
                        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 8192},
                    }
                }
            ),
        ),
    ],
)
def test_options_are_understood_and_sent_on_as_they_came(config: dict[str, Any], expected: Options):
    request = decode(generationConfig=config)
    assert request.options == expected
    assert sent(request) == {"contents": [USER], "generationConfig": config}


def test_other_fields_of_the_body_are_sent_on():
    fields = {"safetySettings": [{"category": "c", "threshold": "t"}], "cachedContent": "c/1", "labels": {"a": "b"}}
    assert sent(decode(**fields)) == {"contents": [USER], **fields}
    assert sent(decode(generationConfig={"candidateCount": 1}, toolConfig=None)) == {"contents": [USER]}


@pytest.mark.requirement("R-T1")
def test_fields_that_would_send_the_request_elsewhere_are_never_sent():
    request = decode(**dict.fromkeys(ROUTING_FIELDS, "http://elsewhere"))
    assert request.options.extra.keys() >= ROUTING_FIELDS
    assert sent(request) == {"contents": [USER]}


def test_a_grammar_is_sent_as_its_fields():
    grammar = {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": {}}, "x": 1}
    wire = sent(Request("m", (HI,), options=Options(5, grammar=grammar)))
    assert wire == {
        "contents": [USER],
        "generationConfig": {"maxOutputTokens": 5, "responseMimeType": "application/json", "responseJsonSchema": {}},
        "x": 1,
    }


@pytest.mark.parametrize(
    ("model", "stream", "expected"),
    [
        ("gemini-2.5-pro", True, "/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        ("gemini-2.5-pro", False, "/models/gemini-2.5-pro:generateContent"),
        ("models/x", False, "/models/x:generateContent"),
        ("tunedModels/x", False, "/tunedModels/x:generateContent"),
        ("qwen3:8b?x=1#../é", False, "/models/qwen3%3A8b%3Fx%3D1%23..%2F%C3%A9:generateContent"),
        ("a/b", False, "/models/a%2Fb:generateContent"),
    ],
)
def test_the_model_and_the_method_stand_in_the_path(model: str, stream: bool, expected: str):
    assert path(Request(model, (HI,), stream=stream)) == expected


@pytest.mark.requirement("G3")
def test_a_request_of_another_protocol_is_sent_in_the_words_of_this_one():
    foreign = {"cache_control": {}}
    request = Request(
        "m",
        (
            Message("system", (TextPart("s", foreign),), extra={"role": "developer"}),
            Message("user", (TextPart("hi", foreign), Opaque("thinking", {"type": "thinking"})), extra=foreign),
            Message("assistant", reasoning="r", calls=(ToolCall("f", {}, "a"), ToolCall("f", {}, "b"))),
            Message("tool", results=(ToolResult("a", "1", extra=foreign),)),
            Message("tool", results=(ToolResult("b", "2", parts=(Opaque("x", {}),)),)),
            Message("system", (TextPart("t"),)),
            Message("user", (Media("image", "https://x/y.PNG", {"detail": "low"}), Media("audio", "data:,x"))),
        ),
        (Tool("f", extra=foreign), Tool("run", kind="custom", parameters={"type": "object"})),
        ToolChoice("named", ("f",), parallel=False),
        options=Options(extra=foreign),
        protocol="other",
    )
    skip = {"thoughtSignature": "skip_thought_signature_validator"}
    assert sent(request) == {
        "systemInstruction": {"parts": [{"text": "s"}, {"text": "t"}]},
        "contents": [
            USER,
            {
                "role": "model",
                "parts": [
                    {"text": "r", "thought": True},
                    {"functionCall": {"id": "a", "name": "f", "args": {}}, **skip},
                    {"functionCall": {"id": "b", "name": "f", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "a", "name": "f", "response": {"output": "1"}}},
                    {"functionResponse": {"id": "b", "name": "f", "response": {"output": "2"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"fileData": {"mimeType": "image/png", "fileUri": "https://x/y.PNG"}},
                    {"fileData": {"fileUri": "data:,x"}},
                ],
            },
        ],
        "tools": [
            {"functionDeclarations": [{"name": "f"}, {"name": "run", "parametersJsonSchema": {"type": "object"}}]}
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    }
    lost = ["opaque_dropped", "fields_dropped", "choice_not_sent", "system_moved"]
    assert [note.code for note in request_notes(request)] == lost


# --------------------------------------------------------------------------------------------------------- errors


def part(value: Any, role: str = "user") -> dict[str, Any]:
    return {"contents": [{"role": role, "parts": [value]}]}


@pytest.mark.requirement("G3")
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"contents": None}, "contents"),
        ({"contents": []}, "contents"),
        ({"contents": "hi"}, "contents"),
        ({"contents": ["hi"]}, "contents[0]"),
        ({"contents": [USER, {"role": "robot"}]}, "contents[1].role"),
        ({"contents": [{"parts": "hi"}]}, "contents[0].parts"),
        (part(7), "contents[0].parts[0]"),
        (part({"text": 7}), "contents[0].parts[0].text"),
        (part({"text": 7, "thought": True}), "contents[0].parts[0].text"),
        (part({"inlineData": 7}), "contents[0].parts[0].inlineData"),
        (part({"fileData": {"fileUri": 7}}), "contents[0].parts[0].fileData.fileUri"),
        (part({"functionCall": {}}), "contents[0].parts[0].functionCall.name"),
        (part({"functionResponse": 7}), "contents[0].parts[0].functionResponse"),
        ({"systemInstruction": 7}, "systemInstruction"),
        ({"tools": {}}, "tools"),
        ({"tools": [7]}, "tools[0]"),
        ({"tools": [{"functionDeclarations": {}}]}, "tools[0].functionDeclarations"),
        ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0].name"),
        ({"toolConfig": 7}, "toolConfig"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "MAYBE"}}}, "toolConfig.functionCallingConfig.mode"),
        ({"generationConfig": 7}, "generationConfig"),
        ({"generationConfig": {"maxOutputTokens": "many"}}, "generationConfig.maxOutputTokens"),
        ({"generationConfig": {"stopSequences": [7]}}, "generationConfig.stopSequences[0]"),
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
                "contents role parts text thought functionCall functionResponse name args id response inlineData fileData"
                " tools functionDeclarations parameters type properties toolConfig functionCallingConfig mode"
                " generationConfig responseMimeType responseSchema systemInstruction calls order".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=14,
)


@given(st.dictionaries(st.sampled_from(["contents", "tools", "toolConfig", "generationConfig"]), JSON))
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
MEDIA = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from(["https://x/y.png", "gs://b/o", "data:audio/wav;base64,QQ=="]),
    EXTRA,
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
PARTS = st.lists(st.builds(TextPart, TEXTS, EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
ANSWER = st.lists(st.builds(TextPart, TEXTS, EXTRA) | THOUGHT | OPAQUE, max_size=3).map(tuple)
ARGUMENTS = st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS | st.none(), max_size=2)
NOTES = st.sampled_from([(), (Note("trailing_comma"),)])
CALLS = st.lists(st.builds(ToolCall, NAMES, ARGUMENTS, FILLED, NOTES), max_size=2).map(tuple)
RESULTS = st.lists(
    st.builds(ToolResult, FILLED, TEXTS, NAMES, st.booleans(), st.lists(MEDIA | OPAQUE, max_size=1).map(tuple), EXTRA),
    max_size=2,
).map(tuple)
MESSAGE = (
    st.builds(Message, st.just("user"), PARTS, name=TEXTS, extra=EXTRA)
    | st.builds(Message, st.just("system"), PARTS, name=TEXTS)
    | st.builds(Message, st.just("assistant"), ANSWER, TEXTS, CALLS, extra=EXTRA)
    | st.builds(Message, st.just("tool"), results=RESULTS)
    | st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
)
SCHEMAS = st.none() | st.just({"type": "object"})
TOOL = (
    st.builds(
        Tool,
        NAMES,
        TEXTS,
        SCHEMAS,
        st.booleans(),
        st.sampled_from(["function", "custom"]),
        st.sampled_from(["", "fs"]),
        st.fixed_dictionaries({}, optional={"behavior": TEXTS, "response": st.just({"type": "STRING"})}),
    )
    | st.just(Tool("googleSearch", kind="googleSearch", extra={"googleSearch": {}}))
    | st.just(Tool("f", parameters={"type": "object"}, extra={"parameters": {"type": "OBJECT"}}))
)
CHOICE = st.builds(
    ToolChoice, st.sampled_from(["auto", "none", "required"]), st.lists(NAMES, max_size=2).map(tuple), st.booleans()
) | st.builds(ToolChoice, st.just("named"), NAMES.map(lambda name: (name,)), st.booleans())
FORMAT = st.none() | st.builds(ResponseFormat, SCHEMAS, st.sampled_from(["", "x"]), st.none() | st.booleans())
NUMBERS = st.none() | st.floats(0, 2)
GRAMMAR = {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": {"type": "array"}}}
OPTIONS = st.builds(
    Options,
    st.none() | st.integers(1, 9),
    NUMBERS,
    NUMBERS,
    st.none() | st.integers(0, 9),
    st.lists(TEXTS, max_size=2).map(tuple),
    st.integers(1, 3),
    FORMAT,
    st.sampled_from([{}, GRAMMAR, {"x_grammar": 1}]),
    st.fixed_dictionaries(
        {}, optional={"cachedContent": TEXTS, "api_base": TEXTS, "generationConfig": st.just({"topK": 5})}
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
    st.sampled_from(["", PROTOCOL]),
)
replace = msgspec.structs.replace


def on_messages(change: Callable[[Message], Message]) -> Callable[[Request], Request]:
    return lambda request: replace(request, messages=tuple(map(change, request.messages)))


def on_tools(change: Callable[[Tool], Tool]) -> Callable[[Request], Request]:
    return lambda request: replace(request, tools=tuple(map(change, request.tools)))


def on_parts(change: Callable[[Any], Any]) -> Callable[[Request], Request]:
    """`change` gives None for a part that is lost."""

    def kept(parts: Any) -> Any:
        return tuple(found for part in parts if (found := change(part)) is not None)

    return on_messages(
        lambda one: replace(
            one,
            parts=kept(one.parts),
            results=tuple(replace(result, parts=kept(result.parts)) for result in one.results),
        )
    )


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


def with_choice(change: Callable[[ToolChoice], ToolChoice]) -> Callable[[Request], Request]:
    return lambda request: replace(request, tool_choice=change(request.tool_choice))


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


#: Each loss of `LOSSES` as what it does to a request; the rest are losses of the wire's own variety.
SUFFERED: dict[str, Callable[[Request], Request]] = {
    "protocol": lambda request: replace(request, protocol=PROTOCOL),
    "opaque part": on_parts(
        lambda part: None if isinstance(part, Opaque) and (part.kind != PART or part.data == "odd") else part
    ),
    "empty text": on_parts(lambda part: None if part == TextPart("") else part),
    "media": on_parts(media),
    "reasoning": on_messages(reasoning),
    "names of messages": on_messages(lambda one: replace(one, name="")),
    "system messages": one_system,
    "empty message": lambda request: replace(
        request, messages=tuple(one for one in request.messages if not empty(one))
    ),
    "tool message": on_messages(by_content),
    "results in turn": results_in_turn,
    "call notes": on_messages(lambda one: replace(one, calls=tuple(replace(call, notes=()) for call in one.calls))),
    "custom tool": on_tools(lambda tool: replace(tool, kind="function") if tool.kind == "custom" else tool),
    "namespace": on_tools(lambda tool: replace(tool, namespace="")),
    "side effects": on_tools(lambda tool: replace(tool, side_effects=False)),
    "choice without functions": lambda request: (
        request if functions(request) else replace(request, tool_choice=ToolChoice())
    ),
    "allowed tools under none": with_choice(
        lambda choice: replace(choice, allowed=()) if choice.mode == "none" else choice
    ),
    "named choice": with_choice(lambda choice: replace(choice, mode="required") if choice.mode == "named" else choice),
    "allowed tools under auto": validated,
    "single calls": with_choice(lambda choice: replace(choice, parallel=True)),
    "routing fields": lambda request: replace(
        request,
        options=replace(
            request.options,
            extra={key: value for key, value in request.options.extra.items() if key not in ROUTING_FIELDS},
        ),
    ),
    "format": form,
    "grammar": grammar,
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {
    "model and stream",
    "words of another protocol",
    "foreign calls",
    "result without a name",
    "made ids",
    "streamed arguments",
}


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


#: Those that hold fields which nobody knows.
INVENTED = ("unknown fields", "results", "a call that says more")


@pytest.mark.requirement("G2")
@pytest.mark.parametrize(
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


# --------------------------------------------------------------------------------------------------- real clients

CLIENTS = Path(__file__).parents[3] / "shared" / "clients" / "requests.jsonl"
#: The file stands for long lists by their beginning and this.
LEFT_OUT = re.compile(r"<\d+ more>")
PATH = re.compile(r".*/models/([^:]+):(generateContent|streamGenerateContent)")


def real_requests() -> list[Any]:
    if not CLIENTS.is_file():
        return []
    rows = [json.loads(line) for line in CLIENTS.read_text(encoding="utf-8").splitlines()]
    found = [(at, row, PATH.match(row["path"])) for at, row in enumerate(rows)]
    return [
        pytest.param(match[1], match[2] == "streamGenerateContent", whole(row["body"]), id=f"{at}-{row['client']}")
        for at, row, match in found
        if match
    ]


def whole(value: Any) -> Any:
    match value:
        case list():
            return [whole(item) for item in value if not (isinstance(item, str) and LEFT_OUT.fullmatch(item))]
        case dict():
            return {key: whole(item) for key, item in value.items()}
        case _:
            return value


SPELLING = {
    "function_declarations": "functionDeclarations",
    "parameters_json_schema": "parametersJsonSchema",
    "response_json_schema": "responseJsonSchema",
}


def spelled(value: Any) -> Any:
    """Under the documented names."""
    match value:
        case list():
            return [spelled(item) for item in value]
        case dict():
            return {SPELLING.get(key, key): spelled(item) for key, item in value.items()}
        case _:
            return value


@pytest.mark.skipif(not CLIENTS.is_file(), reason="the shared requests are not beside the checkout")
@pytest.mark.requirement("G4")
@pytest.mark.parametrize(("model", "stream", "body"), real_requests())
def test_what_real_clients_send_is_understood_and_survives(model: str, stream: bool, body: dict[str, Any]):
    request = decode_request(json.dumps(body).encode(), model=model, stream=stream)
    assert again(request) == request
    assert path(request).startswith(f"/models/{model}:{'stream' if stream else 'generate'}")
    wire = sent(request)
    assert wire["contents"] == body["contents"]
    assert wire.get("tools", []) == spelled(body.get("tools", []))
    assert wire.get("systemInstruction") == body.get("systemInstruction")
    config = {key: value for key, value in body.get("generationConfig", {}).items() if key != "candidateCount"}
    assert wire.get("generationConfig", {}) == config
    assert all(isinstance(tool.parameters, dict) and tool.parameters["type"] == "object" for tool in request.tools)
