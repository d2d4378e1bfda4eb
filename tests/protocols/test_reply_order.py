"""An answer that is not streamed stands in the order in which it came, for a client of the upstream's own protocol.

Clients send back what they were given: thinking that was moved is refused, and reasoning without its call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai import types
from openai.types.responses import Response

from tests.cases import check_each
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    final_events,
    fold,
)
from toolspeak.core.types import Opaque, Request

pytestmark = pytest.mark.requirement("G3")

FACE: Any = {"id": "x_1", "created": 7, "model": "m"}
CITED = {"type": "web_search_result_location", "url": "u", "title": "t", "encrypted_index": "EI", "cited_text": "c"}
#: A page of results that the service's own search found.
FOUND = {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "EE", "page_age": None}
ANTHROPIC: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "one", "signature": "S1"},
    {"type": "text", "text": "I search."},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]},
    {"type": "text", "text": "Rain", "citations": [CITED]},
    {"type": "text", "text": " and sun.", "citations": [CITED, CITED]},
    {"type": "thinking", "thinking": "two", "signature": "S2"},
    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
    {"type": "thinking", "thinking": "", "signature": "S3"},
    {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {"x": 2}},
]
GEMINI: list[dict[str, Any]] = [
    {"text": "one", "thought": True},
    {"text": "Hello world", "thoughtSignature": "cw=="},
    {"text": " again"},
    {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "ZQ=="},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {"text": "two", "thought": True, "thoughtSignature": "dA=="},
    {"text": "after"},
    {"functionCall": {"id": "f1", "name": "f", "args": {"x": 1}}, "thoughtSignature": "Zg=="},
    {"functionCall": {"id": "f2", "name": "f", "args": {"x": 2}}},
    {"text": "", "thoughtSignature": "RQ=="},
]


def _message(number: int, phase: str, text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    head = {"id": f"msg_x_1_{number}", "type": "message", "status": "completed", "role": "assistant"}
    return {**head, "content": [part], "phase": phase}


def _function_call(number: int, identifier: str) -> dict[str, Any]:
    item = {"id": f"fc_x_1_{number}", "type": "function_call", "status": "completed", "call_id": identifier}
    return {**item, "name": "f", "arguments": '{"x":1}'}


RESPONSES: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E1"},
    _message(1, "commentary", "Let me see."),
    {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "E2"},
    _function_call(3, "call_1"),
    {"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "E3"},
    _function_call(5, "call_2"),
    _message(6, "final_answer", "Done."),
]


def anthropic_answer(content: Any) -> Any:
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use", "usage": {}}


def gemini_answer(parts: Any) -> Any:
    return {"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}]}


def responses_answer(output: Any) -> Any:
    return {"object": "response", "status": "completed", "output": output}


def gemini_parts(answer: Any) -> Any:
    return answer["candidates"][0]["content"]["parts"]


ANSWERS: dict[str, tuple[list[dict[str, Any]], Callable[[Any], Any], Callable[[Any], Any], Callable[[bytes], Any]]] = {
    "anthropic": (
        ANTHROPIC,
        anthropic_answer,
        lambda answer: answer["content"],
        lambda data: AnthropicMessage.model_validate_json(data, strict=True),
    ),
    "gemini": (GEMINI, gemini_answer, gemini_parts, types.GenerateContentResponse.model_validate_json),
    "openai_responses": (
        RESPONSES,
        responses_answer,
        lambda answer: answer["output"],
        lambda data: Response.model_validate_json(data, strict=True),
    ),
}


def whole(protocol: str, events: Sequence[Event]) -> bytes:
    codec = import_module(f"toolspeak.protocols.{protocol}")
    reply = fold(events)
    request = Request("m", (), protocol=protocol)
    return codec.encode_reply(reply, request, **FACE, events=final_events(events, reply))


def content(protocol: str, *events: Event) -> Any:
    return ANSWERS[protocol][2](json.loads(whole(protocol, events)))


def decoded(protocol: str, answer: Any) -> list[Event]:
    decoder = import_module(f"toolspeak.protocols.{protocol}").ReplyDecoder(stream=False)
    return decoder.feed(json.dumps(answer).encode()) + decoder.close()


@check_each("protocol", ANSWERS)
def test_what_the_upstream_said_is_told_in_its_order_and_fits_the_types_of_the_sdk(protocol: str):
    said, answer, content_in, validate = ANSWERS[protocol]
    data = whole(protocol, decoded(protocol, answer(said)))
    assert content_in(json.loads(data)) == said
    validate(data)


def call(number: int, valid: bool = True) -> list[Event]:
    return [CallStart(number, "f", f"id{number}"), CallArgs(number, '{"x":1}'), CallEnd(number, valid)]


@check_each("protocol", ANSWERS)
def test_a_call_that_came_to_nothing_has_no_place(protocol: str):
    found = json.dumps(content(protocol, TextDelta("a"), *call(0, valid=False), *call(1), Finish("tool_calls")))
    assert "id1" in found
    assert "id0" not in found


@check_each("protocol", ANSWERS)
def test_a_turn_that_broke_is_an_error_whatever_came_before(protocol: str):
    assert "error" in json.loads(whole(protocol, [TextDelta("a"), Failure("it broke"), Finish("error")]))


# ------------------------------------------------------------------------------------------------ one protocol


def test_a_block_of_anthropic_goes_on_until_another_begins():
    found = content(
        "anthropic",
        TextDelta(""),
        ReasoningDelta("o"),
        ReasoningDelta("ne"),
        TextDelta("a"),
        TextDelta(""),
        TextDelta("b"),
        OpaqueSeen(Opaque("audio", {"id": "of another protocol"})),
        Finish("stop"),
    )
    assert found == [{"type": "thinking", "thinking": "one", "signature": ""}, {"type": "text", "text": "ab"}]


def test_what_nothing_was_said_of_is_cited_in_a_block_of_its_own():
    (block,) = content("anthropic", OpaqueSeen(Opaque("citations", [CITED])), Finish("stop"))
    assert block == {"type": "text", "text": "", "citations": [CITED]}


def test_events_of_a_call_that_the_reply_does_not_have_are_no_block():
    codec: Any = import_module("toolspeak.protocols.anthropic")
    reply = fold([TextDelta("a"), Finish("stop")])
    answer = codec.encode_reply(reply, Request("m", ()), **FACE, events=[*call(0), TextDelta("a")])
    assert json.loads(answer)["content"] == [{"type": "text", "text": "a"}]


def test_a_signature_of_gemini_is_not_joined_to_what_it_does_not_sign():
    signature = {"text": "", "thoughtSignature": "cw=="}
    found = content("gemini", ReasoningDelta("a"), OpaqueSeen(Opaque("gemini_part", signature)), Finish("stop"))
    assert found == [{"text": "a", "thought": True}, signature]


def test_a_signed_text_of_gemini_is_not_joined_to_the_one_before_it():
    parts = [{"text": "Hello "}, {"text": "world", "thoughtSignature": "cw=="}]
    assert content("gemini", *decoded("gemini", gemini_answer(parts))) == parts


def test_pieces_of_a_text_of_gemini_are_one_part():
    found = content("gemini", TextDelta("a"), TextDelta("b"), OpaqueSeen(Opaque("gemini_part", {"x": 1})))
    assert found == [{"text": "ab"}, {"x": 1}]


def test_the_last_message_of_a_response_that_was_cut_is_incomplete():
    phase = OpaqueSeen(Opaque("start:message", {"phase": "commentary"}))
    (item,) = content("openai_responses", phase, TextDelta("a"), Finish("length"))
    assert (item["status"], item["phase"]) == ("incomplete", "commentary")
