"""What our own face answers: a stream and its fold say the same, and clients find what they look for."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
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
from toolspeak.core.types import Message, Note, Opaque, Options, Request, Tool, ToolCall, Usage
from toolspeak.errors import (
    ConfigError,
    SchemaError,
    ToolChoiceError,
    ToolspeakError,
    UpstreamError,
    UpstreamTimeout,
    UsageError,
)
from toolspeak.protocols.openai_chat import ReplyDecoder, ReplyEncoder, encode_error, encode_reply
from toolspeak.protocols.openai_chat.reply_encoder import ChoicesEncoder
from toolspeak.protocols.openai_chat.request import LEGACY
from toolspeak.protocols.shared.framing import SSEDecoder

PLAIN = Request("m", (Message("user"),), (Tool("f"), Tool("run", kind="custom")))
WITH_USAGE = msgspec.structs.replace(PLAIN, options=Options(extra={"stream_options": {"include_usage": True}}))
OLD = msgspec.structs.replace(PLAIN, options=Options(extra={LEGACY: True}))
CALL: list[Event] = [CallStart(3, "f", "a"), CallArgs(3, '{"x":'), CallArgs(3, "1}"), CallEnd(3)]
CUSTOM: list[Event] = [CallStart(4, "run", "b"), CallArgs(4, '{"input":"pri'), CallArgs(4, 'nt(\\n)"}'), CallEnd(4)]


def encoder(request: Request = PLAIN) -> ReplyEncoder:
    return ReplyEncoder(request, id="chatcmpl-1", created=7, model="m")


def streamed(events: list[Event], request: Request = PLAIN, extension: dict[str, Any] | None = None) -> list[Any]:
    """The documents of the stream, each as a client reads it; `[DONE]` as text."""
    face = encoder(request)
    frames = SSEDecoder().feed(face.encode(events) + face.close(extension))
    return [frame.decode() if frame == b"[DONE]" else json.loads(frame) for frame in frames if isinstance(frame, bytes)]


def deltas(events: list[Event], request: Request = PLAIN) -> list[Any]:
    return [one["choices"][0]["delta"] for one in streamed(events, request)[:-1]]


def whole(events: list[Event], request: Request = PLAIN) -> Any:
    return json.loads(encode_reply(fold(events), request, id="chatcmpl-1", created=7, model="m"))


@pytest.mark.requirement("G1", "G3")
def test_a_text_streams_with_a_role_first_and_a_reason_last():
    documents = streamed([TextDelta("Hel"), TextDelta('lo "é"\n'), Finish("stop")])
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    expected = [({"role": "assistant", "content": ""}, None), ({"content": "Hel"}, None)]
    expected += [({"content": 'lo "é"\n'}, None), ({}, "stop")]
    assert documents == [
        *(frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in expected),
        "[DONE]",
    ]


def test_nothing_to_say_is_no_bytes():
    face = encoder()
    assert face.encode([]) == b""
    assert face.encode([Noted(Note("x")), UsageSeen(Usage(1)), Finish("stop"), CallEnd(0)]) == b""


@pytest.mark.requirement("G3")
def test_usage_is_sent_only_to_those_who_asked():
    events: list[Event] = [TextDelta("a"), UsageSeen(Usage(5, 2, 4, 1)), Finish("stop")]
    assert not any("usage" in one for one in streamed(events)[:-1])
    last = streamed(events, WITH_USAGE, {"requests": 1})[-2]
    assert last["choices"] == []
    assert last["toolspeak"] == {"requests": 1}
    assert last["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    assert streamed(events, PLAIN, {"requests": 1})[-2]["toolspeak"] == {"requests": 1}


@pytest.mark.requirement("B10", "G1")
def test_reasoning_goes_into_its_field():
    assert deltas([ReasoningDelta("hm"), TextDelta("a")])[1:3] == [{"reasoning_content": "hm"}, {"content": "a"}]
    assert whole([ReasoningDelta("hm"), TextDelta("a")])["choices"][0]["message"]["reasoning_content"] == "hm"


@pytest.mark.requirement("G3")
def test_calls_are_numbered_from_zero_and_end_with_their_reason():
    documents = streamed([*CALL, Finish("stop")])
    assert [one["choices"][0]["delta"].get("tool_calls") for one in documents[1:-2]] == [
        [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"x":'}}],
        [{"index": 0, "function": {"arguments": "1}"}}],
    ]
    assert documents[-2]["choices"][0]["finish_reason"] == "tool_calls"
    choice = whole([*CALL, Finish("stop")])["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    ]


@pytest.mark.requirement("A13")
def test_a_call_of_a_custom_tool_has_its_input_as_text():
    custom = {"id": "b", "type": "custom", "custom": {"name": "run", "input": "print(\n)"}}
    assert deltas([*CALL, *CUSTOM])[4] == {"tool_calls": [{"index": 1, **custom}]}
    assert whole([*CALL, *CUSTOM])["choices"][0]["message"]["tool_calls"][1] == custom


@check_each(
    "events",
    [
        [*CUSTOM[:-1], CallEnd(4, valid=False)],
        [*CUSTOM[:-2], CallEnd(4)],
        [CUSTOM[0], CallArgs(4, '{"input":7}'), CallEnd(4)],
        [CUSTOM[0], CallArgs(4, "[]"), CallEnd(4)],
        CUSTOM[:-1],
    ],
)
def test_a_custom_call_without_an_input_is_not_sent(events: list[Event]):
    assert deltas(events) == [{"role": "assistant", "content": ""}, {}]
    assert streamed(events)[-2]["choices"][0]["finish_reason"] == "stop"


def test_a_client_of_the_old_kind_gets_one_function_call():
    second: list[Event] = [CallStart(9, "f", "z"), CallArgs(9, "{}"), CallEnd(9)]
    assert deltas([*CALL, *second], OLD)[1:-1] == [
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": '{"x":'}},
        {"function_call": {"arguments": "1}"}},
    ]
    choice = whole([*CALL, *second], OLD)["choices"][0]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"x":1}'}
    assert streamed([*CALL], OLD)[-2]["choices"][0]["finish_reason"] == "function_call"


@pytest.mark.requirement("G3")
@check_each("called", [False, True])
@check_each("reason", ["stop", "tool_calls", "length", "content_filter", "unknown"])
def test_the_finish_reason_fits_what_was_sent(reason: FinishReason, called: bool):
    events: list[Event] = [*(CALL if called else []), Finish(reason)]
    said = "tool_calls" if called else "stop"
    expected = reason if reason in ("length", "content_filter") else said
    assert streamed(events)[-2]["choices"][0]["finish_reason"] == expected
    assert whole(events)["choices"][0]["finish_reason"] == expected


@pytest.mark.requirement("R-F6")
@check_each(
    ("last", "kind", "code"),
    [
        (Failure("it broke", "truncated"), "upstream_error", "truncated"),
        (Failure("it broke", "timeout"), "timeout_error", "timeout"),
        (Failure("it broke", "upstream", 429), "rate_limit_error", "upstream"),
    ],
)
def test_a_failure_ends_the_stream_with_an_error_and_no_end_mark(last: Failure, kind: str, code: str):
    face = encoder()
    data = face.encode([TextDelta("a"), last, TextDelta("b"), Finish("stop")])
    assert face.encode([TextDelta("c"), *CALL]) == b""
    assert face.close() == b""
    frames = [json.loads(frame) for frame in SSEDecoder().feed(data) if isinstance(frame, bytes)]
    error = {"error": {"message": "it broke", "type": kind, "param": None, "code": code}}
    assert frames[-1] == error
    assert len(frames) == 3
    assert json.loads(encode_reply(Reply(failure=last), PLAIN, id="x", created=1, model="m")) == error


def test_a_turn_that_ended_in_an_error_is_an_error():
    assert "error" in streamed([TextDelta("a"), Finish("error")])[-1]
    assert "error" in whole([TextDelta("a"), Finish("error")])


@pytest.mark.requirement("R-F14")
def test_no_character_of_a_text_can_end_a_line_for_any_client():
    odd = "a\u2028\u2029\u0085\x0b\x0c\r\n\x1c\x1d\x1eb\ud800"
    face = ReplyEncoder(PLAIN, id="x\u2028", created=7, model="m\u0085")
    data = face.encode([TextDelta(odd), TextDelta(odd), ReasoningDelta(odd), Failure(odd)]).decode()
    assert len([line for line in data.splitlines() if line]) == 5
    assert (
        odd.replace("\ud800", "\ufffd")
        in json.loads(data.split("\n\n")[1].removeprefix("data: "))["choices"][0]["delta"]["content"]
    )
    assert json.loads(encode_reply(fold([TextDelta(odd)]), PLAIN, id="x", created=1, model="m"))


def test_carried_parts_are_put_together():
    events: list[Event] = [
        OpaqueSeen(Opaque("annotations", [1])),
        OpaqueSeen(Opaque("annotations", [2])),
        OpaqueSeen(Opaque("audio", {"id": "x"})),
        OpaqueSeen(Opaque("signature", "secret")),
    ]
    assert deltas(events)[1:-1] == [{"annotations": [1]}, {"annotations": [2]}, {"audio": {"id": "x"}}]
    message = whole(events)["choices"][0]["message"]
    assert (message["annotations"], message["audio"]) == ([1, 2], {"id": "x"})
    assert "signature" not in message


def test_a_whole_answer_carries_the_extension_and_usage():
    reply = Reply(text="a", finish_reason="stop", usage=Usage(1, 2))
    body = json.loads(encode_reply(reply, PLAIN, id="x", created=1, model="m", extension={"plan": "inline"}))
    assert body["toolspeak"] == {"plan": "inline"}
    assert body["usage"]["total_tokens"] == 3
    assert "toolspeak" not in json.loads(encode_reply(reply, PLAIN, id="x", created=1, model="m"))


# --------------------------------------------------------------------------------------------------- round trips

TEXT = st.text(max_size=12)
CALLS = st.lists(
    st.builds(ToolCall, st.just("f"), st.dictionaries(TEXT, st.integers(0, 9) | TEXT, max_size=2))
    | st.builds(ToolCall, st.just("run"), st.fixed_dictionaries({"input": TEXT})),
    max_size=3,
)


@pytest.mark.requirement("G2", "G3")
@given(
    TEXT, TEXT, CALLS, st.builds(Usage, *[st.integers(0, 99)] * 4), st.sampled_from(["stop", "length"]), st.randoms()
)
def test_stream_and_answer_mean_the_same_and_come_back(
    text: str, reasoning: str, calls: list[ToolCall], usage: Usage, reason: FinishReason, chance: Any
):
    calls = [msgspec.structs.replace(call, id=f"id{at}") for at, call in enumerate(calls)]
    if calls and reason == "stop":
        reason = "tool_calls"
    if reason == "length":  # an input that was cut cannot be told from one that was not
        calls = [call for call in calls if call.name == "f"]
    events: list[Event] = [ReasoningDelta(reasoning)] if reasoning else []
    events += [TextDelta(piece) for piece in text]
    for at, call in enumerate(calls):
        arguments = msgspec.json.encode(call.arguments).decode()
        cut = chance.randrange(len(arguments) + 1)
        pieces = [piece for piece in (arguments[:cut], arguments[cut:]) if piece]
        events += [CallStart(at, call.name, call.id), *(CallArgs(at, piece) for piece in pieces), CallEnd(at)]
    events += [UsageSeen(usage), Finish(reason)]
    reply = fold(events)
    face = encoder(WITH_USAGE)
    stream = b"".join(face.encode([event]) for event in events) + face.close()
    answer = encode_reply(reply, WITH_USAGE, id="x", created=1, model="m")
    for data in (stream, answer):
        decoder = ReplyDecoder(stream=True)
        assert fold(decoder.feed(data) + decoder.close()) == reply


# --------------------------------------------------------------------------------------------------------- errors


@pytest.mark.requirement("G3")
@check_each(
    ("error", "status", "kind", "code"),
    [
        (UsageError("x"), 400, "invalid_request_error", "usage_error"),
        (SchemaError("x"), 400, "invalid_request_error", "schema_error"),
        (ConfigError("x"), 400, "invalid_request_error", "config_error"),
        (ToolChoiceError("x"), 502, "server_error", "tool_choice_error"),
        (ToolspeakError("x"), 500, "server_error", "toolspeak_error"),
        (UpstreamError("x"), 502, "server_error", "upstream_error"),
        (UpstreamError("x", upstream_status=429), 429, "rate_limit_error", "upstream_error"),
        (UpstreamError("x", upstream_status=401), 401, "authentication_error", "upstream_error"),
        (UpstreamError("x", upstream_status=418), 418, "invalid_request_error", "upstream_error"),
        (UpstreamError("x", upstream_status=200), 502, "server_error", "upstream_error"),
        (UpstreamTimeout("x"), 504, "timeout_error", "upstream_timeout"),
    ],
)
def test_an_error_has_the_shape_and_status_that_clients_know(error: ToolspeakError, status: int, kind: str, code: str):
    found, body = encode_error(error)
    assert found == status
    assert json.loads(body) == {"error": {"message": "x", "type": kind, "param": None, "code": code}}


# ---- several answers


def _choices(*steps: tuple[int, list[Event]]) -> bytes:
    """The stream of two answers; each step is the number of an answer and some of its events."""
    current = [0]
    request = msgspec.structs.replace(WITH_USAGE, tools=(), options=Options(n=2, extra=WITH_USAGE.options.extra))
    face = ChoicesEncoder(request, lambda: current[0], id="chatcmpl-1", created=7, model="m")
    out = b""
    for current[0], events in steps:
        out += face.encode(events)
    return out + face.close({"plan": "pass"})


def _documents(data: bytes) -> list[Any]:
    frames = [frame for frame in SSEDecoder().feed(data) if isinstance(frame, bytes)]
    return [json.loads(frame) for frame in frames if frame != b"[DONE]"]


@pytest.mark.requirement("C8")
def test_several_answers_begin_in_order_and_keep_their_numbers():
    logprobs: list[Event] = [OpaqueSeen(Opaque("logprobs", {"content": []}))]
    sent = _choices(
        (1, [Noted(Note("x"))]), (1, [TextDelta("b")]), (0, [TextDelta("a")]), (1, logprobs), (1, [Finish("length")])
    )
    choices = [choice for document in _documents(sent) for choice in document["choices"]]
    assert [(each["index"], each["delta"]) for each in choices] == [
        (0, {"role": "assistant", "content": ""}),
        (1, {"role": "assistant", "content": ""}),
        (1, {"content": "b"}),
        (0, {"content": "a"}),
        (1, {}),
        (0, {}),
        (1, {}),
    ]
    assert [each["finish_reason"] for each in choices[-2:]] == ["stop", "length"]
    assert sent.count(b"[DONE]") == 1


@pytest.mark.requirement("C8")
def test_several_answers_have_one_usage_and_one_extension():
    *_, last = _documents(_choices((0, [TextDelta("a")]), (1, [UsageSeen(Usage(3, 2))])))
    assert (last["choices"], last["usage"]["total_tokens"], last["toolspeak"]) == ([], 5, {"plan": "pass"})


@pytest.mark.requirement("C8")
def test_several_empty_answers_are_answers():
    choices = [choice for document in _documents(_choices()) for choice in document["choices"]]
    assert [each["index"] for each in choices] == [0, 0, 1, 1]


@pytest.mark.requirement("C8")
@check_each("begun", [False, True])
def test_a_failure_ends_the_stream_of_several_answers(begun: bool):
    before: list[tuple[int, list[Event]]] = [(0, [TextDelta("a")])] if begun else []
    sent = _choices(*before, (1, [Failure("it fell over"), Finish("error")]))
    assert "it fell over" in _documents(sent)[-1]["error"]["message"]
    assert b"[DONE]" not in sent


# ---- refusals


NO: list[Event] = [Noted(Note("refusal", "")), TextDelta("I "), TextDelta("won't."), Finish("stop")]
AGAIN: list[Event] = [Noted(Note("refusal", "")), Noted(Note("retry_refusal", "")), TextDelta("Yes."), Finish("stop")]


@pytest.mark.requirement("C8")
@check_each(("events", "content", "refusal"), [(NO, None, "I won't."), (AGAIN, "Yes.", None), (NO[:1], "", None)])
def test_a_refusal_has_a_field_of_its_own(events: list[Event], content: str | None, refusal: str | None):
    reply = fold([*events, Finish("stop")])
    message = json.loads(encode_reply(reply, PLAIN, id="a", created=7, model="m"))["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (content, refusal)
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed(events)[:-1]]
    for field, text in {"content": content, "refusal": refusal}.items():
        assert "".join(delta.get(field) or "" for delta in deltas) == (text or "")


@pytest.mark.requirement("C8")
def test_a_refusal_of_an_upstream_reaches_the_client_as_one():
    answer = json.dumps(
        {"choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]}
    ).encode()
    decoder = ReplyDecoder(False)
    reply = fold([*decoder.feed(answer), *decoder.close()])
    message = json.loads(encode_reply(reply, PLAIN, id="a", created=7, model="m"))["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (None, "No.")
