"""Replies of the Messages API, event by event, and errors."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols.stream_helpers import cut, fed, joined
from tests.protocols.test_anthropic_reply_decoder import EXPECTED, decode, fixture, noted
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    Event,
    Failure,
    Finish,
    ReasoningDelta,
    TextDelta,
    fold,
)
from toolspeak.protocols.anthropic import ReplyDecoder, decode_error
from toolspeak.protocols.anthropic import reply_decoder as anthropic_reply
from toolspeak.protocols.shared import reply_decoder as reading

# ------------------------------------------------------------------------------------------------ event by event


def event(kind: str, **fields: Any) -> bytes:
    body = json.dumps({"type": kind, **fields}, separators=(",", ":"), ensure_ascii=False)
    return f"event: {kind}\ndata: {body}\n\n".encode()


def delta(kind: str, index: int = 0, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def block(index: int = 0, **fields: Any) -> bytes:
    return event("content_block_start", index=index, content_block=fields)


def end(reason: str = "end_turn") -> bytes:
    return event("message_delta", delta={"stop_reason": reason}) + event("message_stop")


def read(*reads: bytes) -> list[Event]:
    return fed(ReplyDecoder(True), reads)


TEXT, MORE = block(type="text", text=""), delta("text_delta", text="a")
THINK, THOUGHT = block(1, type="thinking", thinking=""), delta("thinking_delta", 1, thinking="t")
SIGN = delta("signature_delta", 1, signature="s") + event("content_block_stop", index=1)
CALL = block(2, type="tool_use", id="x", name="f", input={})
ARGS = delta("input_json_delta", 2, partial_json=" ")
OPEN, CLOSE = delta("input_json_delta", 2, partial_json="{"), delta("input_json_delta", 2, partial_json="}")
SERVER = block(3, type="server_tool_use", name="s") + delta("input_json_delta", 3, partial_json="{}")
PING = event("ping")


@given(
    st.lists(
        st.sampled_from([MORE, THINK, THOUGHT, SIGN, CALL, ARGS, OPEN, CLOSE, SERVER, PING, b": ping\n\n", b"\n"]),
        max_size=25,
    )
)
def test_the_shortcut_for_runs_of_text_changes_nothing(reads: list[bytes]):
    reads = [TEXT, MORE, *reads, end()]
    # One byte at a time no shortcut can be taken.
    slow = read(*(bytes([byte]) for byte in b"".join(reads)))
    assert read(*reads) == slow
    assert read(b"".join(reads)) == slow
    assert read(*(b"".join(reads[at : at + 2]) for at in range(0, len(reads), 2))) == slow


def test_runs_of_one_text_are_read_by_the_shortcut(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(anthropic_reply.blocks, "decode_event", counted := Counted(anthropic_reply.blocks.decode_event))
    for opening, piece, expected in (
        (TEXT, MORE, TextDelta("a" * 16)),
        (THINK, THOUGHT, ReasoningDelta("t" * 16)),
        (CALL, ARGS, CallArgs(0, " " * 16)),
    ):
        decoder = ReplyDecoder(True)
        decoder.feed(opening)
        decoder.feed(piece)
        counted.calls = 0
        events = [made for at in (1, 2, 5, 7) for made in decoder.feed(piece * at)]
        assert joined([*decoder.feed(piece), *events]) == [expected]
        assert counted.calls == 0


class Counted:
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls = 0

    def __call__(self, payload: bytes) -> Any:
        self.calls += 1
        return self.inner(payload)


@check_each("odd", [b'"b","c"', b'"b"x', b'"\xff"', b"7"])
def test_a_run_with_something_else_in_it_is_read_with_care(odd: bytes):
    reads = [TEXT, MORE, MORE + MORE.replace(b'"a"', odd) + MORE, end()]
    slow = read(*(bytes([byte]) for byte in b"".join(reads)))
    assert read(*reads) == slow
    assert fold(slow).text.startswith("aa")


def test_events_that_differ_by_more_than_text_are_read_all_the_same():
    reads = [delta("text_delta", text=f"{n} ", padding="x" * n) for n in range(20)]
    assert read(TEXT, *reads, end())[0] == TextDelta("".join(f"{n} " for n in range(20)))


def test_a_text_with_an_escape_is_no_lesson():
    reads = [delta("text_delta", text=text) for text in ('"', "\n", "b")]
    assert read(TEXT, *reads, end())[0] == TextDelta('"\nb')


@pytest.mark.requirement("R-F15")
def test_bytes_that_are_no_text_are_replaced_and_noted_once():
    bad = MORE.replace(b'"a"', b'"\xff"')
    events = read(TEXT, bad, bad, MORE.replace(b'"a"', b'"\\ud83d!"'), end())
    assert events[:2] == [
        noted("invalid_text", "invalid characters were replaced"),
        TextDelta("\ufffd\ufffd\ufffd!"),
    ]


@pytest.mark.requirement("R-F17")
def test_an_event_beyond_the_limit_fails():
    events = read(delta("text_delta", text="x" * (17 * 1024 * 1024)), end())
    assert events == [Failure("an event is larger than 16777216 bytes")]


def test_a_body_beyond_the_limit_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "MAX_BODY", 10)
    decoder = ReplyDecoder(stream=False)
    assert decoder.feed(b'{"a":1') == []
    assert decoder.feed(b',"b":2') == [Failure("the reply is larger than 10 bytes", body='{"a":1,"b":2')]
    assert decoder.feed(b"}") == []
    assert decoder.close() == []


def test_calls_beyond_the_limit_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(anthropic_reply, "MAX_CALLS", 1)
    reply = fold(read(CALL, OPEN, CLOSE, block(3, type="tool_use", name="g"), end("tool_use")))
    assert [one.name for one in reply.calls] == ["f"]
    assert "calls_dropped" in [note.code for note in reply.notes]


@check_each("stream", [True, False])
@check_each("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"\xef"])
def test_nothing_is_a_truncated_answer(data: bytes, stream: bool):
    assert [one.kind for one in decode(data, stream) if isinstance(one, Failure)] == ["truncated"]


def test_a_stream_of_nothing_but_garbage_shows_its_beginning():
    events = decode(b"data: hello\n\ndata: world\n\n")
    assert events[-1] == Failure("the stream contained no readable events", body="hello")


@check_each(
    ("body", "message"),
    [
        (b'{"delta":7}', "the upstream's reply is not an Anthropic message"),
        (b"[" * 100_000, "the upstream's reply is not an Anthropic message"),
        (b'{"error":"out of memory"}', "out of memory"),
        (b'{"error":{"code":500}}', "the upstream returned an error without a message"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"error":' * 30 + b'"deep"' + b"}" * 30, "the upstream returned an error without a message"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(body: bytes, message: str):
    events = decode(body, stream=False)
    assert [one.message for one in events if isinstance(one, Failure)] == [message]


def test_a_whole_message_inside_a_stream_is_read():
    data = b"data: " + json.dumps(json.loads(fixture("whole_text.json"))).encode() + b"\n\n"
    assert decode(data) == EXPECTED["whole_text.json"]


def test_a_message_that_begins_with_content_is_read():
    begin = event("message_start", message={"content": [{"type": "text", "text": "Hi"}]})
    assert read(begin, MORE, end())[0] == TextDelta("Hia")


def test_a_decoder_knows_when_a_broken_connection_loses_nothing():
    decoder = ReplyDecoder(stream=True)
    decoder.feed(TEXT + MORE)
    assert not decoder.finished
    decoder.feed(event("message_delta", delta={"stop_reason": "end_turn"}))
    assert decoder.finished
    assert decoder.close() == [Finish("stop")]


def test_the_end_mark_of_other_protocols_says_nothing():
    done = b"data: [DONE]\n\n"
    events = read(TEXT, MORE, done, event("message_delta", delta={"stop_reason": "end_turn"}), done)
    assert events == [TextDelta("a"), Finish("stop")]


@check_each("reads", [[CALL], [CALL, OPEN]])
def test_a_call_that_the_end_of_the_message_ends(reads: list[bytes]):
    events = read(*reads, end("tool_use"))
    assert events[-2:] == [CallEnd(0), Finish("tool_calls")]
    assert CallEnd(0) not in read(*reads, end("max_tokens"))


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_raise(data: bytes, stream: bool):
    events = fed(ReplyDecoder(stream), cut(data, range(7, len(data), 7)))
    assert isinstance(events[-1], Failure | Finish)


WORDS = (
    "type index delta content_block message content text thinking partial_json signature citation id name input usage"
    " input_tokens stop_reason error citations"
).split()
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "f", "text", "thinking", "tool_use", "server_tool_use", "text_delta", "input_json_delta"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=25,
)
KINDS = "content_block_start content_block_delta content_block_stop message_start message_delta message ping x".split()


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(WORDS[1:]), JSON)), max_size=5))
def test_no_json_raises(values: list[tuple[str, dict[str, Any]]]):
    data = b"".join(event(kind, **fields) for kind, fields in values)
    events = decode(data + end())
    assert isinstance(events[-1], Failure | Finish)
    fold(events)


# --------------------------------------------------------------------------------------------------------- errors


@pytest.mark.requirement("G3")
@check_each(
    ("status", "body", "message", "kind"),
    [
        (529, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "Overloaded", "upstream"),
        (429, b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}', "slow down", "upstream"),
        (504, b'{"type":"error","error":{"type":"timeout_error","message":"too slow"}}', "too slow", "timeout"),
        (400, b'[{"error":{"message":"bad"}}]', "bad", "upstream"),
        (500, b"Internal Server Error", "Internal Server Error", "upstream"),
        (502, b"<html>\n<h1>Bad Gateway", "the upstream returned status 502", "upstream"),
        (503, b"", "the upstream returned status 503", "upstream"),
        (413, b"\xff", r"\xff", "upstream"),
        (400, b"[]", "the upstream returned status 400", "upstream"),
    ],
)
def test_an_error_answer_tells_what_went_wrong(status: int, body: bytes, message: str, kind: str):
    failure = decode_error(status, body, {})
    assert (failure.message, failure.kind, failure.status) == (message, kind, status)


@check_each(
    ("body", "headers"),
    [(b'{"error":"x","request_id":"req_1"}', {}), (b'{"error":"x","request_id":7}', {"request-id": "req_1"})],
)
def test_an_error_answer_names_the_request(body: bytes, headers: dict[str, str]):
    assert decode_error(400, body, headers).message == "x (request req_1)"


@check_each(
    ("kind", "status"),
    [("overloaded_error", 529), ("rate_limit_error", 429), ("timeout_error", 504), ("new_error", 0), (7, 0)],
)
def test_an_error_inside_a_stream_has_the_status_of_its_type(kind: Any, status: int):
    last = read(event("error", error={"type": kind, "message": "x"}))[-1]
    assert isinstance(last, Failure)
    assert (last.status, last.kind) == (status, "timeout" if status == 504 else "upstream")
    assert msgspec.structs.replace(last, body="", kind="", status=0) == Failure(
        "x", "", error_type=kind if kind != 7 else ""
    )
