"""What our own face answers over the Messages API: a stream and its fold say the same, in the shape that clients know."""

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
from toolspeak.core.types import Media, Message, Note, Opaque, Request, TextPart, Tool, ToolCall, ToolResult, Usage
from toolspeak.errors import (
    ConfigError,
    NotKeptError,
    ToolChoiceError,
    ToolspeakError,
    UpstreamError,
    UpstreamTimeout,
    UsageError,
)
from toolspeak.protocols.anthropic import ReplyDecoder, ReplyEncoder, encode_error, encode_reply
from toolspeak.protocols.shared.framing import ServerEvent, SSEDecoder

ASKED = Request("m", (Message("user"),))
CALL: list[Event] = [CallStart(3, "f", "a"), CallArgs(3, '{"x":'), CallArgs(3, "1}"), CallEnd(3)]


def encoder() -> ReplyEncoder:
    return ReplyEncoder(ASKED, id="msg_1", created=7, model="m")


def read(data: bytes) -> list[Any]:
    """The documents of a stream, as a client reads them; each frame names its event as its document does."""
    frames = [frame for frame in SSEDecoder().feed(data) if isinstance(frame, ServerEvent)]
    documents = [json.loads(frame.data) for frame in frames]
    assert [frame.event for frame in frames] == [one["type"] for one in documents]
    return documents


def streamed(*events: Event, extension: dict[str, Any] | None = None) -> list[Any]:
    face = encoder()
    return read(face.encode(events) + face.close(extension))


def blocks(*events: Event) -> list[Any]:
    """What stands between the beginning and the end of the message, in short."""
    inner = streamed(*events)[1:-2]
    for one in inner:
        one.pop("type")
    return inner


def whole(*events: Event) -> Any:
    return json.loads(encode_reply(fold(events), ASKED, id="msg_1", created=7, model="m"))


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"index": index}


@pytest.mark.requirement("G1", "G3")
@pytest.mark.requirement("G5")
def test_a_stream_begins_with_an_estimate_and_ends_with_what_was_counted():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    asked = Request(
        "m",
        (
            Message("system", (TextPart("You are a helpful assistant. " * 50),)),
            Message("user", (TextPart("What is the weather in Paris?"), Media("image", "data:image/png;base64,QQ=="))),
            Message("assistant", calls=(ToolCall("f", {"city": "Paris"}, "a"),)),
            Message("tool", results=(ToolResult("a", "rain"),)),
        ),
        (Tool("f", "Tells the weather.", schema),),
    )

    def started(events: list[Event], request: Request = asked) -> tuple[int, int]:
        face = ReplyEncoder(request, id="msg_1", created=7, model="m")
        frames = read(face.encode(events) + face.close())
        return frames[0]["message"]["usage"]["input_tokens"], frames[-2]["usage"]["input_tokens"]

    said: list[Event] = [TextDelta("a"), UsageSeen(Usage(321, 1)), Finish("stop")]
    estimate, counted = started(said)
    assert (300 < estimate < 500, counted) == (True, 321)
    assert started([said[1], said[0], said[2]]) == (321, 321)  # an upstream that tells it first is believed
    assert started([said[0], said[2]], Request("m", ()))[0] == 0


def test_a_text_streams_inside_one_block_of_one_message():
    documents = streamed(UsageSeen(Usage(9, 5, 4)), TextDelta("Hel"), TextDelta('lo "é"\n'), Finish("stop"))
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    ends = {"stop_reason": None, "stop_sequence": None}
    assert documents == [
        {"type": "message_start", "message": {**message, **ends, "usage": {**usage, "output_tokens": 0}}},
        {"type": "content_block_start", **start(0, type="text", text="")},
        {"type": "content_block_delta", **delta(0, "text_delta", text="Hel")},
        {"type": "content_block_delta", **delta(0, "text_delta", text='lo "é"\n')},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {**usage, "output_tokens": 5},
        },
        {"type": "message_stop"},
    ]


def test_nothing_to_say_is_no_bytes():
    face = encoder()
    assert face.encode([]) == b""
    silent: list[Event] = [
        Noted(Note("x")),
        UsageSeen(Usage(1)),
        Finish("stop"),
        CallEnd(0),
        TextDelta(""),
        ReasoningDelta(""),
        OpaqueSeen(Opaque("annotations", [1])),
        OpaqueSeen(Opaque("reasoning", {"type": "reasoning"})),
    ]
    assert b"".join(face.encode([event]) for event in silent) == b""
    assert [one["type"] for one in read(face.close())] == ["message_start", "message_delta", "message_stop"]


@pytest.mark.requirement("B10", "G1")
def test_thoughts_texts_and_calls_are_blocks_behind_each_other():
    other = [CallStart(9, "g", "b"), CallEnd(9)]
    assert blocks(ReasoningDelta("h"), ReasoningDelta("m"), TextDelta("a"), *CALL, *other, TextDelta("b")) == [
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="h"),
        delta(0, "thinking_delta", thinking="m"),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "text_delta", text="a"),
        stop(1),
        start(2, type="tool_use", id="a", name="f", input={}),
        delta(2, "input_json_delta", partial_json='{"x":'),
        delta(2, "input_json_delta", partial_json="1}"),
        stop(2),
        start(3, type="tool_use", id="b", name="g", input={}),
        delta(3, "input_json_delta", partial_json="{}"),
        stop(3),
        start(4, type="text", text=""),
        delta(4, "text_delta", text="b"),
        stop(4),
    ]


@pytest.mark.requirement("G3")
def test_calls_whose_ends_come_late_still_follow_each_other():
    events: list[Event] = [
        CallStart(0, "f", "a"),
        CallArgs(0, "{}"),
        CallStart(1, "g", "b"),
        CallArgs(0, " "),
        CallArgs(1, '{"y":'),
        CallEnd(0),
        CallArgs(1, "2}"),
        CallEnd(1),
    ]
    assert blocks(*events) == [
        start(0, type="tool_use", id="a", name="f", input={}),
        delta(0, "input_json_delta", partial_json="{}"),
        stop(0),
        start(1, type="tool_use", id="b", name="g", input={}),
        delta(1, "input_json_delta", partial_json='{"y":'),
        delta(1, "input_json_delta", partial_json="2}"),
        stop(1),
    ]


def test_calls_that_are_mixed_keep_their_numbers():
    events: list[Event] = [CallStart(0, "f", "a"), CallStart(1, "g", "b"), CallArgs(0, "{}"), CallEnd(0), CallEnd(1)]
    assert [one["index"] for one in blocks(*events)] == [0, 1, 0, 0, 1, 1]


@pytest.mark.requirement("B6")
def test_a_call_that_was_cut_is_closed_as_the_service_does_it():
    documents = streamed(CallStart(0, "f", "a"), CallArgs(0, '{"x"'), Finish("length"))
    assert [one["type"] for one in documents[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
    assert documents[-2]["delta"]["stop_reason"] == "max_tokens"


def test_a_call_without_an_id_gets_one():
    assert blocks(CallStart(0, "f"))[0]["content_block"]["id"] == "toolu_msg_1_0"
    assert whole(CallStart(0, "f"), CallEnd(0))["content"][0]["id"] == "toolu_msg_1_0"


# ---------------------------------------------------------------------------------------------------- what is carried

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "d"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
CITED = {"type": "char_location", "cited_text": "x"}


def carried(data: dict[str, Any]) -> OpaqueSeen:
    return OpaqueSeen(Opaque(data["type"], data))


@pytest.mark.requirement("B10", "G3")
def test_a_signature_goes_into_the_block_of_its_thought():
    assert blocks(ReasoningDelta("hm"), carried(THOUGHT), TextDelta("a"))[2:4] == [
        delta(0, "signature_delta", signature="s"),
        stop(0),
    ]
    assert whole(ReasoningDelta("hm"), carried(THOUGHT))["content"] == [THOUGHT]
    assert blocks(carried(THOUGHT)) == [
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="s"),
        stop(0),
    ]
    assert len(blocks(carried(THOUGHT | {"thinking": ""}))) == 3
    assert whole(ReasoningDelta("hm"))["content"] == [THOUGHT | {"signature": ""}]


@pytest.mark.requirement("G3")
def test_blocks_of_the_service_are_sent_on():
    assert blocks(TextDelta("a"), carried(REDACTED), carried(SEARCH), carried(FOUND))[2:] == [
        stop(0),
        start(1, **REDACTED),
        stop(1),
        start(2, **(SEARCH | {"input": {}})),
        delta(2, "input_json_delta", partial_json='{"query":"q"}'),
        stop(2),
        start(3, **FOUND),
        stop(3),
    ]
    content = whole(carried(REDACTED), carried(SEARCH), carried(FOUND), TextDelta("a"))["content"]
    assert content == [REDACTED, SEARCH, FOUND, {"type": "text", "text": "a"}]


@pytest.mark.requirement("G3")
def test_a_block_of_a_type_that_nobody_knows_is_sent_on_and_a_part_of_another_protocol_is_not():
    unknown = {"type": "hologram", "beam": "x"}
    seen = OpaqueSeen(Opaque("block:hologram", unknown))
    assert blocks(seen) == [start(0, **unknown), stop(0)]
    assert whole(seen)["content"] == [unknown]
    assert blocks(carried({"type": "image_url", "image_url": {"url": "u"}})) == []
    assert whole(OpaqueSeen(Opaque("block:other", unknown)))["content"] == []


def test_what_a_text_cites_goes_into_its_block_and_ends_it():
    cites = OpaqueSeen(Opaque("citations", [CITED]))
    assert blocks(TextDelta("a"), cites, TextDelta("b"), Finish("stop")) == [
        start(0, type="text", text=""),
        delta(0, "text_delta", text="a"),
        delta(0, "citations_delta", citation=CITED),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "text_delta", text="b"),
        stop(1),
    ]
    assert [one["index"] for one in blocks(cites)] == [0, 0, 0]
    assert whole(TextDelta("a"), cites)["content"] == [{"type": "text", "text": "a", "citations": [CITED]}]


def test_what_a_call_says_besides_goes_into_its_block():
    beside = OpaqueSeen(Opaque("tool_use", {"id": "a", "toolset_name": "computer"}))
    assert blocks(beside, *CALL)[0]["content_block"]["toolset_name"] == "computer"
    assert whole(beside, *CALL)["content"][0]["toolset_name"] == "computer"


@pytest.mark.requirement("G5")
def test_tokens_of_the_cache_are_counted_as_the_service_does():
    events = [
        OpaqueSeen(Opaque("usage", {"cache_creation_input_tokens": 200, "service_tier": "standard"})),
        UsageSeen(Usage(3210, 7, 3000)),
    ]
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 3000,
        "output_tokens": 7,
        "service_tier": "standard",
    }
    assert streamed(*events)[-2]["usage"] == usage
    assert whole(*events)["usage"] == usage


def test_an_odd_opaque_part_is_left_out():
    odd = [OpaqueSeen(Opaque(kind, 7)) for kind in ("thinking", "citations", "tool_use", "stop", "usage", "compaction")]
    assert blocks(*odd) == []
    assert whole(*odd)["content"] == []


@pytest.mark.requirement("G3")
@check_each("called", [False, True])
@check_each("reason", ["stop", "tool_calls", "length", "content_filter", "unknown"])
def test_the_stop_reason_fits_what_was_sent(reason: FinishReason, called: bool):
    events: list[Event] = [*(CALL if called else []), Finish(reason)]
    said = "tool_use" if called else "end_turn"
    expected = {"length": "max_tokens", "content_filter": "refusal"}.get(reason, said)
    assert streamed(*events)[-2]["delta"] == {"stop_reason": expected, "stop_sequence": None}
    assert whole(*events)["stop_reason"] == expected


@pytest.mark.requirement("G3")
@check_each(
    ("said", "reason", "fits"),
    [
        ({"stop_reason": "stop_sequence", "stop_sequence": "END"}, "stop", True),
        ({"stop_reason": "pause_turn"}, "stop", True),
        ({"stop_reason": "model_context_window_exceeded"}, "length", True),
        ({"stop_reason": "refusal", "stop_details": {"type": "refusal"}}, "content_filter", True),
        ({"stop_reason": "pause_turn"}, "length", False),
    ],
)
def test_what_the_service_said_of_the_end_is_sent_on_where_it_still_holds(
    said: dict[str, Any], reason: FinishReason, fits: bool
):
    events: list[Event] = [OpaqueSeen(Opaque("stop", said)), Finish(reason)]
    expected = {"stop_sequence": None, **(said if fits else {"stop_reason": "max_tokens"})}
    assert streamed(*events)[-2]["delta"] == expected
    assert whole(*events).items() >= expected.items()


# --------------------------------------------------------------------------------------------------------- failures


@pytest.mark.requirement("R-F6")
@check_each(
    ("last", "kind"),
    [
        (Failure("it broke", "truncated"), "api_error"),
        (Failure("it broke", "timeout"), "timeout_error"),
        (Failure("it broke", "upstream", 429), "rate_limit_error"),
        (Failure("it broke", "upstream", 529), "overloaded_error"),
    ],
)
def test_a_failure_ends_the_stream_with_an_error_and_no_end(last: Failure, kind: str):
    face = encoder()
    data = face.encode([TextDelta("a"), last, TextDelta("b"), Finish("stop")])
    assert face.encode([TextDelta("c"), *CALL]) == b""
    assert face.close() == b""
    error = {"type": "error", "error": {"type": kind, "message": "it broke"}}
    assert read(data)[-1] == error
    assert len(read(data)) == 4
    assert json.loads(encode_reply(Reply(failure=last), ASKED, id="x", created=1, model="m")) == error


def test_a_turn_that_ended_in_an_error_is_an_error():
    assert streamed(TextDelta("a"), Finish("error"))[-1]["type"] == "error"
    assert whole(TextDelta("a"), Finish("error"))["type"] == "error"


@pytest.mark.requirement("R-F14")
def test_no_character_of_a_text_can_end_a_line_for_any_client():
    odd = "a\u2028\u2029\u0085\x0b\x0c\r\n\x1c\x1d\x1eb\ud800"
    face = ReplyEncoder(ASKED, id="x\u2028", created=7, model="m\u0085")
    events = [TextDelta(odd), TextDelta(odd), ReasoningDelta(odd), CallStart(0, "f"), CallArgs(0, odd), Failure(odd)]
    data = face.encode(events).decode()
    assert all(line.startswith(("event: ", "data: ")) for line in data.splitlines() if line)
    assert read(data.encode())[3]["delta"]["text"] == odd.replace("\ud800", "\ufffd")


def test_the_extension_stands_in_the_last_event_and_in_the_answer():
    assert streamed(TextDelta("a"), extension={"requests": 1})[-1] == {
        "type": "message_stop",
        "toolspeak": {"requests": 1},
    }
    body = json.loads(encode_reply(Reply(text="a"), ASKED, id="x", created=1, model="m", extension={"plan": "inline"}))
    assert body["toolspeak"] == {"plan": "inline"}
    assert "toolspeak" not in whole(TextDelta("a"))


# ------------------------------------------------------------------------------------------------------- round trips

TEXT = st.text(max_size=8)
CALLS = st.lists(
    st.builds(ToolCall, st.just("f"), st.dictionaries(TEXT, st.integers(0, 9) | TEXT, max_size=2)), max_size=3
)
CARRIED = st.lists(
    st.sampled_from([Opaque("redacted_thinking", REDACTED), Opaque("server_tool_use", SEARCH)]), max_size=2
)
STOPS = st.sampled_from([None, {"stop_reason": "stop_sequence", "stop_sequence": "X"}, {"stop_reason": "pause_turn"}])


@st.composite
def turns(draw: st.DrawFn) -> list[Event]:
    """A turn as an upstream of this protocol gives it, in the order in which a whole answer tells it."""
    thought, text, calls = draw(TEXT), draw(TEXT), draw(CALLS)
    events: list[Event] = [ReasoningDelta(piece) for piece in thought]
    if draw(st.booleans()):
        signed = {"type": "thinking", "thinking": thought, "signature": "s"}
        events.append(OpaqueSeen(Opaque("thinking", signed)))
    events += [OpaqueSeen(part) for part in draw(CARRIED)]
    events += [TextDelta(piece) for piece in text]
    if text and draw(st.booleans()):
        events.append(OpaqueSeen(Opaque("citations", [CITED])))
    for at, call in enumerate(calls):
        arguments = msgspec.json.encode(call.arguments).decode()
        middle = draw(st.integers(0, len(arguments)))
        events.append(CallStart(at, call.name, f"id{at}"))
        events += [CallArgs(at, piece) for piece in (arguments[:middle], arguments[middle:]) if piece]
        events.append(CallEnd(at))
    # The last call of a whole answer that was cut may be half of one, so here only texts are cut.
    reason: FinishReason = "tool_calls" if calls else draw(st.sampled_from(["stop", "length", "content_filter"]))
    said = draw(STOPS)
    if said and reason == "stop":
        events.append(OpaqueSeen(Opaque("stop", said)))
    created = draw(st.integers(0, 9))
    if created:
        events.append(OpaqueSeen(Opaque("usage", {"cache_creation_input_tokens": created})))
    cached = draw(st.integers(0, 9))
    usage = Usage(draw(st.integers(0, 9)) + created + cached, draw(st.integers(0, 9)), cached, draw(st.integers(0, 9)))
    return [*events, UsageSeen(usage), Finish(reason)]


@pytest.mark.requirement("G2", "G3")
@given(turns())
def test_stream_and_answer_mean_the_same_and_come_back(events: list[Event]):
    reply = fold(events)
    face = encoder()
    stream = b"".join(face.encode([event]) for event in events) + face.close()
    answer = encode_reply(reply, ASKED, id="x", created=1, model="m")
    for data in (stream, answer):
        decoder = ReplyDecoder(stream=True)
        assert fold(decoder.feed(data) + decoder.close()) == reply


# ------------------------------------------------------------------------------------------------------------ errors


@pytest.mark.requirement("G3")
@check_each(
    ("error", "status", "kind"),
    [
        (UsageError("x"), 400, "invalid_request_error"),
        (ConfigError("x"), 400, "invalid_request_error"),
        (ToolChoiceError("x"), 502, "api_error"),
        (ToolspeakError("x"), 500, "api_error"),
        (UpstreamError("x"), 502, "api_error"),
        (UpstreamError("x", upstream_status=401), 401, "authentication_error"),
        (UpstreamError("x", upstream_status=403), 403, "permission_error"),
        (UpstreamError("x", upstream_status=404), 404, "not_found_error"),
        (UpstreamError("x", upstream_status=413), 413, "request_too_large"),
        (UpstreamError("x", upstream_status=418), 418, "invalid_request_error"),
        (UpstreamError("x", upstream_status=429), 429, "rate_limit_error"),
        (UpstreamError("x", upstream_status=529), 529, "overloaded_error"),
        (UpstreamError("x", upstream_status=200), 502, "api_error"),
        (UpstreamTimeout("x"), 504, "timeout_error"),
    ],
)
def test_an_error_has_the_shape_and_status_that_clients_know(error: ToolspeakError, status: int, kind: str):
    found, body = encode_error(error)
    assert found == status
    assert json.loads(body) == {"type": "error", "error": {"type": kind, "message": "x"}}


@pytest.mark.requirement("G5")
def test_a_thread_that_nobody_has_kept_is_an_error_that_makes_clients_send_everything():
    status, body = encode_error(NotKeptError("x"))
    assert (status, json.loads(body)["error"]["details"]) == (400, {"error_code": "thread_not_found"})
