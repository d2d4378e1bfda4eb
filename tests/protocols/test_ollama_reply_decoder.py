"""What Ollama and those who speak like it answer: every shape, read the same however its bytes are cut."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

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
    Noted,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.types import Note, Opaque, ToolCall, Usage
from toolspeak.protocols.ollama import ReplyDecoder, decode_error
from toolspeak.protocols.ollama import reply_decoder as ollama_reply
from toolspeak.protocols.shared import unstreamed_calls
from toolspeak.protocols.shared.framing import MAX_EVENT

FIXTURES = Path(__file__).parent / "fixtures" / "ollama"


def call(index: int, name: str, arguments: str, identifier: str = "", *notes: Note) -> list[Event]:
    return [CallStart(index, name, identifier), CallArgs(index, arguments), CallEnd(index, notes=notes)]


def noted(code: str, detail: str) -> Noted:
    return Noted(Note(code, detail))


STOP = Finish("stop")
CALLS = Finish("tool_calls")
EARLY = Failure("the stream ended before the reply was complete", "truncated")
SILENT = "the reply is empty because the request had no messages"

#: Situation -> what it means, adjacent deltas joined. The first characters of `Failure.body` are enough.
EXPECTED: dict[str, list[Event]] = {
    "plain_text.ndjson": [
        TextDelta("Hello, wörld \u2028 😀"),
        OpaqueSeen(
            Opaque(
                "ollama_timings",
                {
                    "total_duration": 4883583458,
                    "load_duration": 1334875,
                    "prompt_eval_duration": 342546000,
                    "eval_duration": 4535599000,
                },
            )
        ),
        UsageSeen(Usage(26, 282)),
        STOP,
    ],
    "tool_call.ndjson": [*call(0, "get_weather", '{"city":"Tokyo"}'), UsageSeen(Usage(169, 15)), CALLS],
    "parallel_calls.ndjson": [
        TextDelta("I look."),
        *call(0, "f", '{"a":1}', "call_a"),
        *call(1, "g", "{}", "call_b"),
        noted("duplicate_call_id", "the call id `call_b` was used twice"),
        *call(2, "g", '{"x":[]}'),
        CALLS,
    ],
    "thinking.ndjson": [ReasoningDelta("Let me think."), TextDelta("42"), UsageSeen(Usage(0, 9)), STOP],
    "cut_by_length.ndjson": [TextDelta("Once upon"), Finish("length")],
    "model_loaded.ndjson": [noted("model_loaded", SILENT), STOP],
    "model_unloaded.ndjson": [noted("model_unloaded", SILENT), STOP],
    "done_without_reason.ndjson": [
        TextDelta("Hi"),
        OpaqueSeen(Opaque("ollama_timings", {"total_duration": 8113331500})),
        UsageSeen(Usage(61, 0)),
        STOP,
    ],
    "done_reason_unknown.ndjson": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream's finish reason was `banana`"),
        STOP,
    ],
    "error_inside_stream.ndjson": [
        TextDelta("Half an"),
        Failure("an error was encountered while running the model: unexpected EOF", body='{"error":"an error'),
    ],
    "ended_without_done.ndjson": [TextDelta("Once upon a time"), EARLY],
    "last_line_cut.ndjson": [
        TextDelta("Once"),
        noted(
            "bad_events",
            'unreadable events: 1; the first: {"model":"qwen3","created_at":"2026-11-15T05:00:00.1Z","message":{"role":"assis',
        ),
        EARLY,
    ],
    "bad_line_among_good.ndjson": [
        TextDelta("ab"),
        noted("bad_events", 'unreadable events: 2; the first: {"message":{"content":"lost'),
        STOP,
    ],
    "null_and_empty_fields.ndjson": [TextDelta("ok"), UsageSeen(Usage(0, 0)), STOP],
    "odd_calls.ndjson": [
        *call(0, "f", '{"a":1}', "", Note("arguments_text", "the arguments were sent as text, not as JSON")),
        *call(1, "g", "{}"),
        noted("call_without_name", "a call without a tool name was dropped"),
        *call(2, "h", "{}"),
        CALLS,
    ],
    "images.ndjson": [OpaqueSeen(Opaque("ollama_images", ["iVBORw0KGgo="])), STOP],
    "blank_lines_and_no_last_end.ndjson": [TextDelta("ab"), STOP],
    "invalid_utf8.ndjson": [
        noted("invalid_text", "invalid characters were replaced"),
        TextDelta("a\ufffd"),
        STOP,
    ],
    "whole_calls.json": [
        ReasoningDelta("hm"),
        TextDelta("I look."),
        *call(0, "get_weather", '{"city":"Tokyo"}'),
        UsageSeen(Usage(169, 18)),
        CALLS,
    ],
    "whole_pretty.json": [TextDelta("Hello"), STOP],
    "whole_error.json": [Failure('model "nope" not found', body='{"error":"model')],
    "an_html_page.ndjson": [
        noted("bad_events", "unreadable events: 1; the first: <html><body>502 Bad Gateway</body></html>"),
        Failure("the upstream's reply is not an Ollama chat reply", body="<html><body>502"),
    ],
    "nothing.ndjson": [Failure("the stream ended without any events", "truncated")],
}
#: Those that depend on what was asked for.
WHOLE: dict[str, list[Event]] = {
    "whole_without_done.json": [
        TextDelta("Hello"),
        noted("finish_reason_derived", "the upstream's finish reason was `missing`"),
        STOP,
    ],
}


def joined(events: Iterable[Event]) -> list[Event]:
    """Adjacent deltas of one kind as one."""
    out: list[Event] = []
    for event in events:
        match out[-1] if out else None, event:
            case (TextDelta(before), TextDelta(text)):
                out[-1] = TextDelta(before + text)
            case (ReasoningDelta(before), ReasoningDelta(text)):
                out[-1] = ReasoningDelta(before + text)
            case _:
                out.append(event)
    return out


def decode(data: bytes, cuts: Iterable[int] = (), stream: bool = True) -> list[Event]:
    decoder = ReplyDecoder(stream)
    events: list[Event] = []
    for begin, end in pairwise([0, *cuts, len(data)]):
        events += decoder.feed(data[begin:end])
    return joined(events + decoder.close())


def shortened(events: Iterable[Event], like: list[Event]) -> list[Event]:
    """The events with no more of a failure's body than the expected one has."""
    size = next((len(event.body) for event in like if isinstance(event, Failure)), 0)
    return [
        msgspec.structs.replace(event, body=event.body[:size]) if isinstance(event, Failure) else event
        for event in events
    ]


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def test_every_fixture_has_an_expectation():
    assert {path.name for path in FIXTURES.iterdir()} == EXPECTED.keys() | WHOLE.keys()


@pytest.mark.requirement(
    "G3", "B10", "R-F7", "R-F15", "R-F16", "R-F19", "R-F21", "R-F22", "R-F23", "R-F24", "R-F25", "R-F46"
)
@check_each("stream", [True, False])
@check_each("name", EXPECTED)
def test_every_situation_is_read_as_it_is_meant_whatever_was_asked_for(name: str, stream: bool):
    expected = EXPECTED[name]
    assert shortened(decode(fixture(name), (), stream), expected) == expected


@pytest.mark.requirement("R-F7")
@check_each("name", WHOLE)
def test_only_a_whole_answer_need_not_say_that_it_is_done(name: str):
    assert decode(fixture(name), (), stream=False) == WHOLE[name]
    assert decode(fixture(name))[-1] == EARLY


@pytest.mark.requirement("G1", "R-F15")
@check_each("name", [*EXPECTED, *WHOLE])
def test_no_cut_changes_the_events(name: str):
    data = fixture(name)
    whole = decode(data)
    assert decode(data, range(1, len(data))) == whole
    chance = random.Random(name)
    for _ in range(20):
        assert decode(data, sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(1, 12)))) == whole


@pytest.mark.requirement("R-F10", "R-F12")
@check_each("name", EXPECTED)
def test_other_line_ends_and_a_byte_order_mark_change_nothing(name: str):
    expected = shortened(EXPECTED[name], [])
    for data in (fixture(name).replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + fixture(name)):
        assert shortened(decode(data), []) == expected
        assert shortened(decode(data, range(1, len(data))), []) == expected


def test_the_fold_of_a_stream_is_its_reply():
    reply = fold(decode(fixture("whole_calls.json")))
    assert (reply.text, reply.reasoning) == ("I look.", "hm")
    assert reply.calls == (ToolCall("get_weather", {"city": "Tokyo"}),)


def test_a_decoder_knows_when_nothing_more_can_be_lost():
    decoder = ReplyDecoder(stream=True)
    assert not decoder.finished
    decoder.feed(fixture("plain_text.ndjson"))
    assert decoder.finished
    broken = ReplyDecoder(stream=True)
    broken.feed(fixture("error_inside_stream.ndjson"))
    assert broken.finished
    assert broken.feed(b"{}\n") == []
    assert broken.close() == []


@pytest.mark.requirement("R-F17")
def test_a_line_that_never_ends_is_refused():
    data = b'{"message":{"content":"' + b"x" * MAX_EVENT
    assert shortened(decode(data), []) == [Failure(f"a line is longer than {MAX_EVENT} bytes")]


def test_too_much_that_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ollama_reply, "MAX_BODY", 10)
    assert shortened(decode(b"x\n" * 6), []) == [Failure("the reply is larger than 10 bytes")]


def test_too_many_calls_are_dropped_with_a_note(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unstreamed_calls, "MAX_CALLS", 1)
    part = '{"function":{"name":"f"}}'
    events = decode(f'{{"message":{{"tool_calls":[{part},{part}]}},"done":true}}'.encode())
    assert events[3:] == [noted("calls_dropped", "calls after the first 1 were dropped"), CALLS]


@pytest.mark.requirement("G3")
@check_each(
    ("status", "body", "expected"),
    [
        (404, b'{"error":"model \\"x\\" not found"}', Failure('model "x" not found', "upstream", 404)),
        (401, b'{"error":"unauthorized","signin_url":"u"}', Failure("unauthorized", "upstream", 401)),
        (504, b'{"error":"late"}', Failure("late", "timeout", 504)),
        (502, b"<html>", Failure("the upstream returned status 502", "upstream", 502)),
        (404, b"404 page not found", Failure("404 page not found", "upstream", 404)),
    ],
)
def test_an_error_status_becomes_a_failure(status: int, body: bytes, expected: Failure):
    assert shortened([decode_error(status, body, {})], []) == [expected]


@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_make_it_fall(data: bytes, stream: bool):
    decode(data, (), stream)
    decode(b"{" + data + b"}\n", (), stream)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                "message content thinking images tool_calls function name arguments id done done_reason error eval_count"
                " total_duration".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_shape_makes_it_fall(value: object):
    body = msgspec.json.encode(value)
    decode(body, (), stream=False)
    decode(body + b"\n")
    decode_error(500, body, {})
