"""What Gemini and those who speak like it answer: every shape, read the same however its bytes are cut."""

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
from toolspeak.protocols.gemini import ReplyDecoder, decode_error
from toolspeak.protocols.gemini.reply_decoder import ArrayDecoder
from toolspeak.protocols.shared import unstreamed_calls
from toolspeak.protocols.shared.framing import FrameError

FIXTURES = Path(__file__).parent / "fixtures" / "gemini"


def call(index: int, name: str, arguments: str, identifier: str = "", *notes: Note) -> list[Event]:
    return [CallStart(index, name, identifier), CallArgs(index, arguments), CallEnd(index, notes=notes)]


def seen(kind: str, data: object) -> OpaqueSeen:
    return OpaqueSeen(Opaque(f"gemini_{kind}", data))


def noted(code: str, detail: str) -> Noted:
    return Noted(Note(code, detail))


STOP = Finish("stop")
CALLS = Finish("tool_calls")
EARLY = Failure("the stream ended before the reply was complete", "truncated")
HARASSMENT = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}]

#: Situation -> what it means, adjacent deltas joined. The first characters of `Failure.body` are enough.
EXPECTED: dict[str, list[Event]] = {
    "plain_text.sse": [
        TextDelta("Hello, wörld \u2028 😀"),
        seen("usage", {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 4}]}),
        UsageSeen(Usage(4, 5, 0)),
        STOP,
    ],
    "function_call.sse": [
        seen("call", {"name": "get_weather", "thoughtSignature": "Ci4B0e2Kb/abc="}),
        *call(0, "get_weather", '{"city":"Paris"}'),
        UsageSeen(Usage(50, 22, 0, 12)),
        CALLS,
    ],
    "parallel_calls.sse": [
        TextDelta("Let me see."),
        seen("call", {"name": "get_weather", "thoughtSignature": "c2ln"}),
        *call(0, "get_weather", '{"city":"Paris"}', "a1"),
        *call(1, "get_weather", '{"city":"Rome"}', "a2"),
        noted("duplicate_call_id", "the call id `a2` was used twice"),
        *call(2, "now", "{}"),
        CALLS,
    ],
    "thoughts.sse": [
        ReasoningDelta("Let me think."),
        seen("part", {"text": "", "thought": True, "thoughtSignature": "c2lnMQ=="}),
        TextDelta("42"),
        seen("part", {"text": "", "thoughtSignature": "c2lnMg=="}),
        seen("usage", {"toolUsePromptTokenCount": 7}),
        UsageSeen(Usage(107, 31, 64, 30)),
        STOP,
    ],
    "grounding.sse": [
        TextDelta("It won."),
        seen("candidate", {"safetyRatings": HARASSMENT}),
        TextDelta(" Twice."),
        seen(
            "candidate",
            {
                "citationMetadata": {
                    "citationSources": [{"startIndex": 0, "endIndex": 7, "uri": "https://example.org"}]
                },
                "groundingMetadata": {
                    "webSearchQueries": ["who won"],
                    "groundingChunks": [{"web": {"uri": "https://example.org", "title": "example"}}],
                },
            },
        ),
        STOP,
    ],
    "code_execution.sse": [
        TextDelta("I run it."),
        seen("part", {"executableCode": {"language": "PYTHON", "code": "print(1)"}}),
        seen("part", {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}),
        TextDelta("One."),
        STOP,
    ],
    "image_out.sse": [seen("part", {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}), STOP],
    "safety_stop.sse": [
        TextDelta("How to"),
        seen(
            "candidate",
            {
                "safetyRatings": [
                    {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}
                ]
            },
        ),
        Finish("content_filter"),
    ],
    "recitation.sse": [
        seen("candidate", {"finishReason": "RECITATION"}),
        UsageSeen(Usage(3, 0, 0)),
        Finish("content_filter"),
    ],
    "prompt_blocked.sse": [
        noted("prompt_blocked", "PROHIBITED_CONTENT"),
        seen("prompt", {"blockReason": "PROHIBITED_CONTENT"}),
        UsageSeen(Usage(3, 0, 0)),
        Finish("content_filter"),
    ],
    "malformed_function_call.sse": [
        noted("malformed_call", "Malformed function call: print(default_api.get_weather(city='Paris'))"),
        seen(
            "candidate",
            {
                "finishReason": "MALFORMED_FUNCTION_CALL",
                "finishMessage": "Malformed function call: print(default_api.get_weather(city='Paris'))",
            },
        ),
        STOP,
    ],
    "unexpected_tool_call.sse": [
        noted("unexpected_call", "the upstream's finish reason was `UNEXPECTED_TOOL_CALL`"),
        seen("candidate", {"finishReason": "UNEXPECTED_TOOL_CALL"}),
        STOP,
    ],
    "max_tokens.sse": [TextDelta("Once upon"), Finish("length")],
    "finish_reason_unknown.sse": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream's finish reason was `OTHER`"),
        seen("candidate", {"finishReason": "OTHER"}),
        STOP,
    ],
    "error_inside_stream.sse": [
        TextDelta("Half an"),
        Failure("The model is overloaded.", "upstream", 503, '{"error":{"code":503', code="UNAVAILABLE"),
    ],
    "error_event.sse": [
        Failure("Quota exceeded", "upstream", 429, '{"error":{"message"', retry_after=34.0, code="RESOURCE_EXHAUSTED")
    ],
    "ended_without_finish.sse": [TextDelta("Once upon"), EARLY],
    "two_candidates.sse": [
        TextDelta("a"),
        noted("other_choices_dropped", "the upstream sent several answers; the first was used"),
        TextDelta("b"),
        STOP,
    ],
    "null_and_empty_fields.sse": [TextDelta("ok"), UsageSeen(Usage(0, 0, 0)), STOP],
    "bad_event_among_good.sse": [
        TextDelta("ab"),
        noted("bad_events", 'unreadable events: 1; the first: {"candidates":[{"content":{"parts":[{"text":"lost'),
        STOP,
    ],
    "odd_calls.sse": [
        *call(0, "f", '{"a":1}', "", Note("arguments_text", "the arguments were sent as text, not as JSON")),
        *call(1, "g", "{}"),
        noted("call_without_name", "a call without a tool name was dropped"),
        noted("call_in_pieces", "a call to `h` with streamed arguments was dropped"),
        CALLS,
    ],
    "done_mark.sse": [TextDelta("Hi"), STOP],
    "invalid_utf8.sse": [
        noted("invalid_text", "invalid characters were replaced"),
        TextDelta("a\ufffd"),
        STOP,
    ],
    "array_stream.json": [
        TextDelta('He said "[{\\" and left.'),
        *call(0, "f", '{"a":[1,{"b":"}]"}]}'),
        UsageSeen(Usage(2, 3, 0)),
        CALLS,
    ],
    "array_cut.json": [
        TextDelta("Once"),
        noted("bad_events", 'unreadable events: 1; the first: {"candidates": [{"content": {"parts": [{"text": " upon'),
        EARLY,
    ],
    "array_error.json": [
        Failure(
            "API key not valid. Please pass a valid API key.",
            "upstream",
            400,
            '{ "error": { "code": 400',
            code="INVALID_ARGUMENT",
        )
    ],
    "whole_calls.json": [
        ReasoningDelta("Thinking..."),
        TextDelta("I look."),
        seen("part", {"text": "", "thoughtSignature": "c2ln"}),
        *call(0, "get_weather", '{"city":"Paris"}'),
        UsageSeen(Usage(9, 4, 0)),
        CALLS,
    ],
    "whole_without_finish.json": [
        TextDelta("Hello"),
        noted("finish_reason_derived", "the upstream's finish reason was `missing`"),
        STOP,
    ],
    "whole_without_candidates.json": [
        UsageSeen(Usage(3, 0, 0)),
        Failure("the upstream's reply has no candidates", body='{"usageMetadata"'),
    ],
    "whole_error.json": [
        Failure("Resource has been exhausted", "upstream", 429, '{"error":{"code":429', code="RESOURCE_EXHAUSTED")
    ],
    "an_html_page.sse": [Failure("the upstream's reply is not a Gemini response", body="<html><body>502")],
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
    assert {path.name for path in FIXTURES.iterdir()} == EXPECTED.keys()


@pytest.mark.requirement(
    "G3", "B10", "R-F7", "R-F15", "R-F16", "R-F19", "R-F21", "R-F22", "R-F23", "R-F24", "R-F25", "R-F46"
)
@check_each("stream", [True, False])
@check_each("name", EXPECTED)
def test_every_situation_is_read_as_it_is_meant_whatever_was_asked_for(name: str, stream: bool):
    expected = EXPECTED[name]
    assert shortened(decode(fixture(name), (), stream), expected) == expected


@pytest.mark.requirement("G1", "R-F15")
@check_each("name", EXPECTED)
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


@pytest.mark.requirement("B6", "B11")
def test_the_fold_of_a_stream_is_its_reply():
    reply = fold(decode(fixture("parallel_calls.sse")))
    assert reply.calls == (
        ToolCall("get_weather", {"city": "Paris"}, "a1"),
        ToolCall("get_weather", {"city": "Rome"}, "a2"),
        ToolCall("now", {}),
    )
    assert reply.text == "Let me see."


def test_a_decoder_knows_when_nothing_more_can_be_lost():
    decoder = ReplyDecoder(stream=True)
    assert not decoder.finished
    decoder.feed(fixture("plain_text.sse"))
    assert decoder.finished
    broken = ReplyDecoder(stream=True)
    broken.feed(fixture("error_event.sse"))
    assert broken.finished
    assert broken.feed(b"data: {}\n\n") == []
    assert broken.close() == []


def test_nothing_is_an_answer_that_was_cut():
    assert decode(b"") == [Failure("the stream ended without any events", "truncated")]
    assert decode(b"", (), stream=False) == [Failure("the upstream returned an empty reply", "truncated")]


def test_arguments_that_are_no_object_are_left_to_the_engine():
    body = b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":[1]}}]},"finishReason":"STOP"}]}'
    events = decode(body, (), stream=False)
    assert events[:3] == call(0, "f", "[1]")
    assert fold(events).calls == ()


def test_too_many_calls_are_dropped_with_a_note(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unstreamed_calls, "MAX_CALLS", 1)
    part = '{"functionCall":{"name":"f"}}'
    body = f'{{"candidates":[{{"content":{{"parts":[{part},{part}]}},"finishReason":"STOP"}}]}}'
    assert decode(body.encode())[3:] == [noted("calls_dropped", "calls after the first 1 were dropped"), CALLS]


def test_a_prompt_that_is_blocked_twice_is_told_once():
    chunk = b'data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n'
    assert len([event for event in decode(chunk * 2) if isinstance(event, Noted)]) == 1
    whole = decode(b'{"promptFeedback":{"blockReason":"SAFETY"}}', (), stream=False)
    assert whole[-1] == Finish("content_filter")


def test_a_finish_message_is_carried_also_with_a_plain_reason():
    events = decode(b'data: {"candidates":[{"finishReason":"STOP","finishMessage":"done"}]}\n\n')
    assert events == [seen("candidate", {"finishReason": "STOP", "finishMessage": "done"}), STOP]


# -------------------------------------------------------------------------------------------------------- arrays


@pytest.mark.requirement("R-F17")
def test_an_element_that_never_ends_is_refused():
    decoder = ArrayDecoder(limit=10)
    assert decoder.feed(b'[{"a":1},') == [b'{"a":1}']
    assert decoder.feed(b'{"b":"xxxxxxxxxx') == [FrameError("an element is larger than 10 bytes")]
    assert decoder.feed(b'"}]') == []
    assert decoder.close() == []


def test_what_stands_between_elements_is_skipped():
    decoder = ArrayDecoder()
    assert decoder.feed(b'[1, "{", [2], {"a":"\\') + decoder.feed(b'""}]') == [b"[2]", b'{"a":"\\""}']
    assert decoder.close() == []


@given(st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.lists(st.integers()), max_size=2)))
def test_an_array_comes_apart_as_it_was_put_together(values: list[object]):
    data = msgspec.json.encode(values)
    for step in (1, 3, len(data)):
        decoder = ArrayDecoder()
        frames = [frame for at in range(0, len(data), step) for frame in decoder.feed(data[at : at + step])]
        assert [msgspec.json.decode(frame) for frame in frames] == values  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------- errors

ERROR = b'{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[%s]}}'
SLOW = Failure("slow down", "upstream", 429, code="RESOURCE_EXHAUSTED")


@pytest.mark.requirement("G3")
@check_each(
    ("status", "body", "expected"),
    [
        (429, ERROR % b"7", SLOW),
        (429, ERROR % b'{"retryDelay":"1.5s"}', msgspec.structs.replace(SLOW, retry_after=1.5)),
        (429, ERROR % b'{"retryDelay":"soon"}', SLOW),
        (400, b'[{"error":{"message":"bad"}}]', Failure("bad", "upstream", 400)),
        (504, b'{"error":{"message":"late"}}', Failure("late", "timeout", 504)),
        (502, b"<html>", Failure("the upstream returned status 502", "upstream", 502)),
        (500, b"plain words", Failure("plain words", "upstream", 500)),
        (500, b"[]", Failure("the upstream returned status 500", "upstream", 500)),
        (500, b'{"error":7}', Failure("the upstream returned status 500", "upstream", 500)),
    ],
)
def test_an_error_status_becomes_a_failure(status: int, body: bytes, expected: Failure):
    assert shortened([decode_error(status, body, {})], []) == [expected]


def test_a_status_is_told_by_its_word_where_there_is_no_number():
    events = decode(b'data: {"error":{"message":"busy","status":"UNAVAILABLE"}}\n\n')
    assert shortened(events, []) == [Failure("busy", "upstream", 503, code="UNAVAILABLE")]
    events = decode(b'data: {"error":{"message":"odd","status":7,"code":1}}\n\n')
    assert shortened(events, []) == [Failure("odd", "upstream", 0)]


@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_make_it_fall(data: bytes, stream: bool):
    decode(data, (), stream)
    decode(b"data: " + data + b"\n\n", (), stream)
    decode(b"[{" + data + b"}]", (), stream)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                "candidates content parts text thought functionCall name args id index finishReason error code status"
                " message details usageMetadata promptFeedback blockReason".split()
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
    decode(b"data: " + body + b"\n\n")
    decode_error(500, body, {})
