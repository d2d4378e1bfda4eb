"""Requests of Gemini's: options, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols.test_gemini_request import HI, USER, decode, sent
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
from toolspeak.protocols.gemini import decode_request, encode_request, path, request_notes
from toolspeak.protocols.shared.fields import ROUTING_FIELDS

# -------------------------------------------------------------------------------------------------------- options


@pytest.mark.requirement("C6", "G1")
@check_each(
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


@check_each(
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


def of_another_protocol() -> Request:
    foreign = {"cache_control": {}}
    return Request(
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


@pytest.mark.requirement("G3")
def test_a_request_of_another_protocol_is_sent_in_the_words_of_this_one():
    skip = {"thoughtSignature": "skip_thought_signature_validator"}
    assert sent(of_another_protocol()) == {
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
                ],
            },
        ],
        "tools": [
            {"functionDeclarations": [{"name": "f"}, {"name": "run", "parametersJsonSchema": {"type": "object"}}]}
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    }


@pytest.mark.requirement("G3")
def test_what_of_a_request_of_another_protocol_cannot_be_sent_is_noted():
    lost = ["opaque_dropped", "fields_dropped", "media_dropped", "choice_not_sent", "system_moved"]
    assert [note.code for note in request_notes(of_another_protocol())] == lost


# --------------------------------------------------------------------------------------------------------- errors


def part(value: Any, role: str = "user") -> dict[str, Any]:
    return {"contents": [{"role": role, "parts": [value]}]}


@pytest.mark.requirement("G3")
@check_each(
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


@pytest.mark.requirement("C8")
def test_what_belongs_to_a_format_that_is_not_sent_is_not_sent_either():
    config = {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}, "topK": 3}
    request = decode(generationConfig=config)
    assert sent(request)["generationConfig"] == config
    options = msgspec.structs.replace(request.options, response_format=None)
    assert sent(msgspec.structs.replace(request, options=options))["generationConfig"] == {"topK": 3}
