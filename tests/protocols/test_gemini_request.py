"""Requests to generateContent: what clients send is understood, and comes out again as it went in."""

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
    Note,
    Opaque,
    Request,
    ResponseFormat,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResult,
    tools_from,
)
from toolspeak.errors import UsageError
from toolspeak.protocols.gemini import decode_request, encode_request, path, request_notes

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
@check_each(("wire", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
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
    assert message.calls[0].notes == (Note("arguments_invalid", "the arguments are not a JSON object: [1]"),)
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
    assert request_notes(foreign)[0] == Note(
        "tool_dropped", "`googleSearch`: the upstream's protocol does not support tools of kind `googleSearch`"
    )
    own = tools_from([{"type": "google_search", "timeRangeFilter": {}}, {"type": "codeExecution"}, {"type": "mcp"}])
    asked = msgspec.structs.replace(foreign, tools=own)
    assert sent(asked)["tools"] == [{"googleSearch": {"timeRangeFilter": {}}}, {"codeExecution": {}}]
    assert [note.detail for note in request_notes(asked)] == [
        "`mcp`: the upstream's protocol does not support tools of kind `mcp`"
    ]
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
@check_each(("wire", "expected"), CHOICES)
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
