"""What a Gemini client gets from us: streams and answers that mean what the events mean."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols.documented_losses import documented_losses
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    FinishReason,
    Noted,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.types import Message, Note, Opaque, Request, TextPart, Usage
from toolspeak.errors import ToolChoiceError, UpstreamError, UpstreamTimeout, UsageError
from toolspeak.protocols.gemini import ReplyDecoder, ReplyEncoder, encode_error, encode_reply
from toolspeak.protocols.shared.framing import SSEDecoder

REQUEST = Request("m", (Message("user", (TextPart("hi"),)),), stream=True)
FACE: Any = {"id": "r1", "created": 7, "model": "m"}
ABOUT = {"modelVersion": "m", "responseId": "r1"}


def frames(*events: Event, sse: bool = True) -> list[Any]:
    face = ReplyEncoder(REQUEST, **FACE, sse=sse)
    data = b"".join(face.encode([event]) for event in events) + face.close()
    return [json.loads(frame) for frame in SSEDecoder().feed(data)] if sse else json.loads(data)  # type: ignore[arg-type]


def whole(*events: Event) -> Any:
    return json.loads(encode_reply(fold(events), REQUEST, **FACE))


def part(value: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [value], "role": "model"}, "index": 0}], **ABOUT}


def seen(kind: str, data: Any) -> OpaqueSeen:
    return OpaqueSeen(Opaque(f"gemini_{kind}", data))


CALL: list[Event] = [CallStart(0, "f", "a"), CallArgs(0, '{"x":'), CallArgs(0, "1}"), CallEnd(0)]
NO_USAGE = {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}


def last(word: str, **more: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": word, "index": 0}
    return {"candidates": [candidate], "usageMetadata": NO_USAGE, **ABOUT, **more}


@pytest.mark.requirement("G1", "G3")
def test_a_stream_has_the_shape_of_the_documentation():
    assert frames(
        ReasoningDelta("hm"), TextDelta("Hi \u2028"), *CALL, UsageSeen(Usage(10, 4, 6)), Finish("tool_calls")
    ) == [
        part({"text": "hm", "thought": True}),
        part({"text": "Hi \u2028"}),
        part({"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}}),
        last("STOP")
        | {
            "usageMetadata": {
                "promptTokenCount": 10,
                "candidatesTokenCount": 4,
                "totalTokenCount": 14,
                "cachedContentTokenCount": 6,
            }
        },
    ]
    assert ReplyEncoder(REQUEST, **FACE).encode([TextDelta("\u2028")]).isascii()


def test_a_client_that_did_not_ask_for_events_gets_an_array():
    assert frames(TextDelta("a"), TextDelta("b"), Finish("stop"), sse=False) == [
        part({"text": "a"}),
        part({"text": "b"}),
        last("STOP"),
    ]
    assert frames(Finish("stop"), sse=False) == [last("STOP")]
    assert frames(TextDelta("a"), Failure("gone", status=503), sse=False)[1] == {
        "error": {"code": 503, "message": "gone", "status": "UNAVAILABLE"}
    }


@pytest.mark.requirement("B6", "B11")
def test_a_call_goes_out_only_when_it_is_complete_and_right():
    face = ReplyEncoder(REQUEST, **FACE)
    assert face.encode(CALL[:-1]) == b""
    assert b'"functionCall"' in face.encode(CALL[-1:])
    assert frames(*CALL[:-1], Finish("length")) == [last("MAX_TOKENS")]
    assert frames(*CALL[:-1], CallEnd(0, valid=False), Finish("stop")) == [last("STOP")]
    assert frames(CallStart(0, "f"), CallArgs(0, "[1]"), CallEnd(0), Finish("stop")) == [last("STOP")]
    assert frames(CallStart(0, "f"), CallEnd(0), Finish("stop"))[0] == part({"functionCall": {"name": "f", "args": {}}})


WORDS: list[tuple[FinishReason, Any, str]] = [
    ("stop", None, "STOP"),
    ("tool_calls", None, "STOP"),
    ("unknown", None, "STOP"),
    ("length", None, "MAX_TOKENS"),
    ("content_filter", None, "SAFETY"),
    ("content_filter", "RECITATION", "RECITATION"),
    ("stop", "MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
    ("stop", "OTHER", "OTHER"),
    ("length", "RECITATION", "MAX_TOKENS"),
    ("stop", 7, "STOP"),
]


@pytest.mark.requirement("G3")
@check_each(("reason", "beside", "word"), WORDS)
def test_a_finish_reason_has_its_word_or_the_upstreams_own(reason: FinishReason, beside: Any, word: str):
    events = [seen("candidate", {"finishReason": beside})] if beside else []
    assert frames(*events, Finish(reason))[-1]["candidates"][0]["finishReason"] == word
    assert whole(*events, Finish(reason))["candidates"][0]["finishReason"] == word


def test_what_an_upstream_of_this_protocol_said_besides_is_passed_on():
    events = [
        seen("part", {"executableCode": {"code": "1"}}),
        TextDelta("Hi"),
        seen("part", {"text": "", "thoughtSignature": "cw=="}),
        seen("part", {"text": "", "thought": True, "thoughtSignature": "dA=="}),
        seen("call", {"name": "f", "thoughtSignature": "c2ln"}),
        *CALL,
        seen("candidate", {"groundingMetadata": {"x": 1}}),
        seen("usage", {"toolUsePromptTokenCount": 2}),
        seen("usage_of_a_later_day", {"x": 1}),
        seen("part", "no object"),
        OpaqueSeen(Opaque("thinking", {"type": "thinking"})),
        UsageSeen(Usage(10, 4, 0, 3)),
        Finish("tool_calls"),
    ]
    found = frames(*events)
    signed = {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"}
    usage = {
        "promptTokenCount": 8,
        "toolUsePromptTokenCount": 2,
        "candidatesTokenCount": 1,
        "thoughtsTokenCount": 3,
        "totalTokenCount": 14,
    }
    assert found[:-1] == [
        part({"executableCode": {"code": "1"}}),
        part({"text": "Hi"}),
        part({"text": "", "thoughtSignature": "cw=="}),
        part({"text": "", "thought": True, "thoughtSignature": "dA=="}),
        part(signed),
    ]
    assert found[-1]["candidates"][0]["groundingMetadata"] == {"x": 1}
    assert found[-1]["usageMetadata"] == usage
    answer = whole(*events)
    assert answer["candidates"][0]["content"]["parts"] == [
        {"text": "", "thought": True, "thoughtSignature": "dA=="},
        {"text": "Hi"},
        {"executableCode": {"code": "1"}},
        {"text": "", "thoughtSignature": "cw=="},
        signed,
    ]
    assert answer["usageMetadata"] == usage


def test_a_prompt_that_was_blocked_has_feedback_and_no_candidate():
    events = [seen("prompt", {"blockReason": "SAFETY"}), Finish("content_filter")]
    expected = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": NO_USAGE, **ABOUT}
    assert frames(*events) == [expected]
    assert whole(*events) == expected
    assert "candidates" in frames(TextDelta("a"), *events)[-1]


@pytest.mark.requirement("R-F6")
@check_each(
    ("failure", "error"),
    [
        (Failure("gone", "truncated"), {"code": 502, "message": "gone", "status": "UNAVAILABLE"}),
        (Failure("late", "timeout"), {"code": 504, "message": "late", "status": "DEADLINE_EXCEEDED"}),
        (Failure("slow", status=429), {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}),
        (Failure("odd", status=418), {"code": 418, "message": "odd", "status": "INVALID_ARGUMENT"}),
        (Failure("odd", status=599), {"code": 599, "message": "odd", "status": "INTERNAL"}),
    ],
)
def test_a_turn_that_breaks_ends_with_an_error_and_without_a_finish_reason(failure: Failure, error: Any):
    assert frames(TextDelta("a"), failure, TextDelta("late")) == [part({"text": "a"}), {"error": error}]
    assert whole(TextDelta("a"), failure) == {"error": error}


def test_a_turn_that_finished_with_an_error_is_one():
    broken = {"error": {"code": 502, "message": "the turn failed", "status": "UNAVAILABLE"}}
    assert frames(Finish("error")) == [broken]
    assert whole(Finish("error")) == broken


def test_an_extension_goes_into_the_last_response():
    face = ReplyEncoder(REQUEST, **FACE)
    assert face.encode([Noted(Note("x"))]) == b""
    assert b'"toolspeak":{"plan":"inline"}' in face.close({"plan": "inline"})
    assert face.close() == b""
    assert json.loads(encode_reply(Reply("a"), REQUEST, **FACE, extension={"n": 1}))["toolspeak"] == {"n": 1}


@pytest.mark.requirement("G3")
@check_each(
    ("error", "status", "word"),
    [
        (UsageError("`contents` is missing", hint="add one"), 400, "INVALID_ARGUMENT"),
        (UpstreamError("slow down", upstream_status=429), 429, "RESOURCE_EXHAUSTED"),
        (UpstreamTimeout("late"), 504, "DEADLINE_EXCEEDED"),
        (ToolChoiceError("no call"), 502, "UNAVAILABLE"),
    ],
)
def test_an_error_has_the_shape_of_the_protocol(error: Any, status: int, word: str):
    found, body = encode_error(error)
    assert (found, json.loads(body)) == (status, {"error": {"code": status, "message": str(error), "status": word}})


# --------------------------------------------------------------------------------------------------- round trips

TEXTS = st.text(max_size=8)
NAMES = st.sampled_from(["f", "g"])
ARGUMENTS = st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS, max_size=2)


REASONS: list[FinishReason] = ["stop", "length", "content_filter"]


@st.composite
def turns(draw: st.DrawFn) -> list[Event]:
    events: list[Event] = []
    for index in range(draw(st.integers(0, 5))):
        match draw(st.sampled_from(["text", "reasoning", "call", "cut", "part", "foreign", "note"])):
            case "text":
                events.append(TextDelta(draw(TEXTS)))
            case "reasoning":
                events.append(ReasoningDelta(draw(TEXTS)))
            case "call" | "cut" as kind:
                name = draw(NAMES)
                if kind == "call" and draw(st.booleans()):
                    events.append(seen("call", {"name": name, "thoughtSignature": "cw=="}))
                identifier = draw(st.sampled_from(["", f"id_{index}"]))
                text = json.dumps(draw(ARGUMENTS))
                events += [CallStart(index, name, identifier), CallArgs(index, text[:3]), CallArgs(index, text[3:])]
                events += [CallEnd(index)] if kind == "call" else []
            case "part":
                events.append(seen("part", draw(st.sampled_from([{"inlineData": {}}, {"text": "", "x": 1}]))))
            case "foreign":
                events.append(OpaqueSeen(Opaque("thinking", {})))
            case _:
                events.append(Noted(Note("x")))
    if draw(st.booleans()):
        events.append(seen("candidate", {"citationMetadata": {"x": 1}}))
    if draw(st.booleans()):
        events += [seen("usage", {"toolUsePromptTokenCount": 2}), UsageSeen(Usage(5, 9, 3, draw(st.integers(0, 9))))]
    return [*events, Finish(draw(st.sampled_from(REASONS)))]


def suffered(reply: Reply) -> Reply:
    """The listed losses of a reply."""
    kept = sorted((part for part in reply.opaque if part.kind != "thinking"), key=lambda part: part.kind)
    reason = "tool_calls" if reply.calls and reply.finish_reason == "stop" else reply.finish_reason
    return msgspec.structs.replace(reply, opaque=tuple(kept), notes=(), complete=True, finish_reason=reason)


def again(data: bytes, stream: bool) -> Reply:
    decoder = ReplyDecoder(stream)
    return fold(decoder.feed(data) + decoder.close())


@pytest.mark.requirement("G3")
@given(turns(), st.booleans())
def test_a_stream_comes_back_as_it_went_but_for_the_listed_losses(events: list[Event], sse: bool):
    face = ReplyEncoder(REQUEST, **FACE, sse=sse)
    found = again(face.encode(events) + face.close(), stream=True)
    assert suffered(found) == suffered(fold(events))


@pytest.mark.requirement("G3")
@given(turns())
def test_an_answer_comes_back_as_it_went_but_for_the_listed_losses(events: list[Event]):
    reply = fold(events)
    found = again(encode_reply(reply, REQUEST, **FACE), stream=False)
    assert suffered(found) == suffered(reply)


def test_every_listed_loss_of_a_reply_is_tested():
    by_property = {"notes and candidates", "incomplete calls", "opaque parts", "order"}
    elsewhere = {"other choices", "split calls", "created", "failure"}
    assert set(documented_losses("gemini", "reply")) == by_property | elsewhere
