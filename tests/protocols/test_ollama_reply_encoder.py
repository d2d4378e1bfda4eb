"""What an Ollama client gets from us: lines and answers that mean what the events mean."""

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
from toolspeak.errors import ToolChoiceError, UpstreamError, UsageError
from toolspeak.protocols.ollama import ReplyDecoder, ReplyEncoder, encode_error, encode_reply

REQUEST = Request("m", (Message("user", (TextPart("hi"),)),), stream=True)
LOAD = Request("m", ())
FACE: Any = {"id": "r1", "created": 1790000000, "model": "m"}
ABOUT = {"model": "m", "created_at": "2026-09-21T14:13:20Z"}


def lines(*events: Event, request: Request = REQUEST) -> list[Any]:
    face = ReplyEncoder(request, **FACE)
    data = b"".join(face.encode([event]) for event in events) + face.close()
    return [json.loads(line) for line in data.splitlines()]


def whole(*events: Event, request: Request = REQUEST) -> Any:
    return json.loads(encode_reply(fold(events), request, **FACE))


def piece(**message: Any) -> dict[str, Any]:
    return {**ABOUT, "message": {"role": "assistant", "content": "", **message}, "done": False}


def last(reason: str, **more: Any) -> dict[str, Any]:
    return {**piece(), "done": True, "done_reason": reason, **more}


CALL: list[Event] = [CallStart(0, "f", "a"), CallArgs(0, '{"x":'), CallArgs(0, "1}"), CallEnd(0)]
TIMES = {"total_duration": 5, "eval_duration": 3}


@pytest.mark.requirement("G1", "G3")
def test_a_stream_has_the_shape_of_the_documentation():
    assert lines(
        ReasoningDelta("hm"),
        TextDelta("Hi \u2028"),
        *CALL,
        CallStart(3, "g"),
        CallEnd(3),
        UsageSeen(Usage(10, 4, 6)),
        Finish("tool_calls"),
    ) == [
        piece(thinking="hm"),
        piece(content="Hi \u2028"),
        piece(tool_calls=[{"id": "a", "function": {"index": 0, "name": "f", "arguments": {"x": 1}}}]),
        piece(tool_calls=[{"function": {"index": 1, "name": "g", "arguments": {}}}]),
        last("stop", prompt_eval_count=10, eval_count=4),
    ]
    assert ReplyEncoder(REQUEST, **FACE).encode([TextDelta("\u2028")]).isascii()


@pytest.mark.requirement("G1", "G3")
def test_an_answer_has_the_shape_of_the_documentation():
    assert whole(
        ReasoningDelta("hm"),
        TextDelta("Hi"),
        *CALL,
        OpaqueSeen(Opaque("ollama_images", ["QQ=="])),
        OpaqueSeen(Opaque("ollama_timings", TIMES)),
        UsageSeen(Usage(10, 4, 6)),
        Finish("tool_calls"),
    ) == last("stop", prompt_eval_count=10, eval_count=4, **TIMES) | {
        "message": {
            "role": "assistant",
            "content": "Hi",
            "thinking": "hm",
            "images": ["QQ=="],
            "tool_calls": [{"id": "a", "function": {"index": 0, "name": "f", "arguments": {"x": 1}}}],
        }
    }


@pytest.mark.requirement("B6", "B11")
def test_a_call_goes_out_only_when_it_is_complete_and_right():
    face = ReplyEncoder(REQUEST, **FACE)
    assert face.encode(CALL[:-1]) == b""
    assert b'"tool_calls"' in face.encode(CALL[-1:])
    assert lines(*CALL[:-1], Finish("length")) == [last("length")]
    assert lines(*CALL[:-1], CallEnd(0, valid=False), Finish("stop")) == [last("stop")]
    assert lines(CallStart(0, "f"), CallArgs(0, "[1]"), CallEnd(0), Finish("stop")) == [last("stop")]


WORDS: list[tuple[FinishReason, str]] = [
    ("stop", "stop"),
    ("tool_calls", "stop"),
    ("unknown", "stop"),
    ("content_filter", "stop"),
    ("length", "length"),
]


@pytest.mark.requirement("G3")
@check_each(("reason", "word"), WORDS)
def test_a_finish_reason_has_its_word(reason: FinishReason, word: str):
    assert lines(Finish(reason)) == [last(word)]
    assert whole(Finish(reason)) == last(word)


def test_a_request_without_messages_is_answered_by_load():
    assert lines(Finish("stop"), request=LOAD) == [last("load")]
    assert whole(Finish("stop"), request=LOAD) == last("load")


def test_what_an_upstream_of_this_protocol_said_besides_is_passed_on():
    found = lines(
        OpaqueSeen(Opaque("ollama_images", ["QQ=="])),
        OpaqueSeen(Opaque("ollama_timings", TIMES)),
        OpaqueSeen(Opaque("ollama_images", "odd")),
        OpaqueSeen(Opaque("ollama_timings", "odd")),
        OpaqueSeen(Opaque("thinking", {})),
        Finish("stop"),
    )
    assert found == [piece(images=["QQ=="]), last("stop", **TIMES)]


@pytest.mark.requirement("R-F6")
def test_a_turn_that_breaks_ends_with_an_error_and_is_never_done():
    failure = Failure("the upstream is gone", "truncated")
    assert lines(TextDelta("a"), failure, TextDelta("late")) == [
        piece(content="a"),
        {"error": "the upstream is gone"},
    ]
    assert whole(TextDelta("a"), failure) == {"error": "the upstream is gone"}
    assert lines(Finish("error")) == [{"error": "the turn failed"}]
    assert whole(Finish("error")) == {"error": "the turn failed"}


def test_an_extension_goes_into_the_last_line():
    face = ReplyEncoder(REQUEST, **FACE)
    assert face.encode([Noted(Note("x"))]) == b""
    assert b'"toolspeak":{"plan":"inline"}' in face.close({"plan": "inline"})
    assert face.close() == b""
    assert json.loads(encode_reply(Reply("a"), REQUEST, **FACE, extension={"n": 1}))["toolspeak"] == {"n": 1}


@pytest.mark.requirement("G3")
@check_each(
    ("error", "status"),
    [
        (UsageError("`messages` is wrong"), 400),
        (UpstreamError("no such model", upstream_status=404), 404),
        (ToolChoiceError("no call"), 502),
    ],
)
def test_an_error_has_the_shape_of_the_protocol(error: Any, status: int):
    found, body = encode_error(error)
    assert (found, json.loads(body)) == (status, {"error": str(error)})


# --------------------------------------------------------------------------------------------------- round trips

TEXTS = st.text(max_size=8)
ARGUMENTS = st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS, max_size=2)


@st.composite
def turns(draw: st.DrawFn) -> list[Event]:
    events: list[Event] = []
    for index in range(draw(st.integers(0, 5))):
        match draw(st.sampled_from(["text", "reasoning", "call", "cut", "images", "foreign", "note"])):
            case "text":
                events.append(TextDelta(draw(TEXTS)))
            case "reasoning":
                events.append(ReasoningDelta(draw(TEXTS)))
            case "call" | "cut" as kind:
                identifier = draw(st.sampled_from(["", f"id_{index}"]))
                text = json.dumps(draw(ARGUMENTS))
                events += [CallStart(index, "f", identifier), CallArgs(index, text[:3]), CallArgs(index, text[3:])]
                events += [CallEnd(index)] if kind == "call" else []
            case "images":
                events.append(OpaqueSeen(Opaque("ollama_images", ["QQ=="])))
            case "foreign":
                events.append(OpaqueSeen(Opaque("thinking", {})))
            case _:
                events.append(Noted(Note("x")))
    if draw(st.booleans()):
        events += [OpaqueSeen(Opaque("ollama_timings", TIMES)), UsageSeen(Usage(5, 9, 3, 2))]
    return [*events, Finish(draw(st.sampled_from(["stop", "length", "content_filter"])))]


def suffered(reply: Reply) -> Reply:
    """The listed losses of a reply."""
    images = [image for part in reply.opaque if part.kind == "ollama_images" for image in part.data]
    kept = [Opaque("ollama_images", images)] if images else []
    kept += [part for part in reply.opaque if part.kind == "ollama_timings"]
    reason = reply.finish_reason
    if reason != "length":
        reason = "tool_calls" if reply.calls else "stop"
    usage = msgspec.structs.replace(reply.usage, cached_tokens=0, reasoning_tokens=0)
    return msgspec.structs.replace(
        reply, opaque=tuple(kept), notes=(), complete=True, finish_reason=reason, usage=usage
    )


def again(data: bytes, stream: bool) -> Reply:
    decoder = ReplyDecoder(stream)
    return fold(decoder.feed(data) + decoder.close())


@pytest.mark.requirement("G3")
@given(turns())
def test_a_stream_comes_back_as_it_went_but_for_the_listed_losses(events: list[Event]):
    face = ReplyEncoder(REQUEST, **FACE)
    found = again(face.encode(events) + face.close(), stream=True)
    assert suffered(found) == suffered(fold(events))


@pytest.mark.requirement("G3")
@given(turns())
def test_an_answer_comes_back_as_it_went_but_for_the_listed_losses(events: list[Event]):
    reply = fold(events)
    found = again(encode_reply(reply, REQUEST, **FACE), stream=False)
    assert suffered(found) == suffered(reply)


def test_every_listed_loss_of_a_reply_is_tested():
    by_property = {
        "content filter",
        "cached and reasoning tokens",
        "notes and candidates",
        "incomplete calls",
        "opaque parts",
    }
    elsewhere = {"failure", "logprobs", "id"}
    assert set(documented_losses("ollama", "reply")) == by_property | elsewhere
