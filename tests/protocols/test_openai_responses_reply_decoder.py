"""What upstreams of the Responses API answer: every shape is read the same however its bytes are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.protocols.stream_helpers import STYLES, fed, ways, with_bodies
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
from toolspeak.protocols.openai_responses import ReplyDecoder, decode_error

FIXTURES = Path(__file__).parent / "fixtures" / "openai_responses"


def call(index: int, name: str, arguments: str, identifier: str, *notes: Note) -> list[Event]:
    return [*started(index, name, arguments, identifier), CallEnd(index, notes=notes)]


def started(index: int, name: str, arguments: str, identifier: str) -> list[Event]:
    return [CallStart(index, name, identifier), CallArgs(index, arguments)]


def carried(item: dict[str, Any]) -> Event:
    return OpaqueSeen(Opaque(f"item:{item['type']}", item))


def thought(text: str, field: str, **item: Any) -> list[Event]:
    """Reasoning: the beginning of its item, its text, its item."""
    start = Opaque("start:reasoning", {"id": "rs_1", "field": field})
    return [OpaqueSeen(start), ReasoningDelta(text), carried({"id": "rs_1", "type": "reasoning", **item})]


def summaries(*texts: str) -> list[dict[str, str]]:
    return [{"type": "summary_text", "text": text} for text in texts]


OBJECT = Note("arguments_object", "the arguments were sent as JSON, not as text")
MISSING = Note("arguments_missing", "the call has no arguments")
STOP = Finish("stop")
CALLS = Finish("tool_calls")
_QUOTA, _INVALID = "insufficient_quota", "invalid_request_error"
EARLY = Failure("the stream ended before the reply was complete", "truncated")
USED = UsageSeen(Usage(12, 5, 8, 2))
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "rain", "queries": ["rain"]},
}
CITATION = OpaqueSeen(
    Opaque(
        "annotation:url_citation",
        {"type": "url_citation", "start_index": 0, "end_index": 4, "url": "https://example.com/", "title": "Rain"},
    )
)
SHORT_TURN: list[Event] = [
    *thought("Hm", "summary", summary=summaries("Hm")),
    TextDelta("Hello"),
    CITATION,
    *call(0, "f", '{"a":1}', "call_a"),
    *call(1, "run_code", '{"input":"x = 1"}', "call_b"),
]

#: Situation -> what it means, adjacent deltas joined, with ten characters of what a failure shows.
EXPECTED: dict[str, list[Event]] = {
    "plain_text.sse": [TextDelta("Hello, wörld \u2028 😀"), USED, STOP],
    "without_event_names.sse": [TextDelta("no names here"), STOP],
    "parallel_calls.sse": [
        *call(0, "get_weather", '{"city":"Paris"}', "call_a"),
        *call(1, "get_time", '{"zone":"UTC"}', "call_b"),
        USED,
        CALLS,
    ],
    "interleaved_calls.sse": [
        CallStart(0, "f", "call_a"),
        CallStart(1, "g", "call_b"),
        CallArgs(0, '{"a":'),
        CallArgs(1, '{"b":2}'),
        CallArgs(0, "1}"),
        CallEnd(0),
        CallEnd(1),
        CALLS,
    ],
    "reasoning_summary.sse": [
        *thought(
            "**Planning**\n\nThen do it.",
            "summary",
            summary=summaries("**Planning**", "Then do it."),
            encrypted_content="gAAAAB==",
        ),
        TextDelta("42"),
        USED,
        STOP,
    ],
    "reasoning_text.sse": [
        *thought("Let me think.", "content", summary=[], content=[{"type": "reasoning_text", "text": "Let me think."}]),
        TextDelta("Yes"),
        STOP,
    ],
    "summary_and_reasoning.sse": [
        *thought("In short", "summary", summary=summaries("In short")),
        TextDelta("A"),
        STOP,
    ],
    "custom_tool_call.sse": [
        *call(0, "run_code", '{"input":"print(\\"hi\\")\\n# é"}', "call_a"),
        *call(1, "f", "{}", "call_b"),
        CALLS,
    ],
    "namespace_call.sse": [*call(0, "crm__find", '{"id":7}', "call_a"), CALLS],
    "web_search_with_citations.sse": [carried(SEARCH), TextDelta("Rain today."), CITATION, STOP],
    "refusal.sse": [
        Noted(Note("refusal", "the upstream marked this text as a refusal")),
        TextDelta("I can't do that."),
        STOP,
    ],
    "cut_by_length_inside_a_call.sse": [
        *call(0, "f", '{"a":1}', "call_a"),
        *started(1, "write", '{"text":"once up', "call_b"),
        USED,
        Finish("length"),
    ],
    "cut_by_length_inside_custom_input.sse": [
        *started(0, "run_code", '{"input":"print(', "call_a"),
        Finish("length"),
    ],
    "content_filter.sse": [TextDelta("Well, "), Finish("content_filter")],
    "incomplete_for_another_reason.sse": [
        TextDelta("Well"),
        Noted(Note("finish_reason_derived", "the upstream's finish reason was `steered`")),
        Finish("length"),
    ],
    "failed.sse": [
        TextDelta("Half an"),
        USED,
        Failure("The model crashed", status=500, body='{"type":"r', code="server_error"),
    ],
    "failed_by_rate_limit.sse": [Failure("Slow down", status=429, body='{"type":"r', code="rate_limit_exceeded")],
    "cancelled.sse": [Failure("the upstream's response has the status `cancelled`", body='{"type":"r')],
    "error_event.sse": [Failure("It broke", status=500, body='{"type":"e', code="server_error")],
    "error_event_nested.sse": [
        Failure("You have no quota", status=429, body='{"type":"e', code=_QUOTA, error_type=_QUOTA)
    ],
    "ended_without_completed.sse": [TextDelta("Once upon"), EARLY],
    "done_without_completed.sse": [TextDelta("Once upon"), EARLY],
    "ended_inside_a_call.sse": [*started(0, "write", '{"text":"once', "call_a"), EARLY],
    "after_the_end.sse": [TextDelta("Hi"), STOP],
    "only_whole_items.sse": [*SHORT_TURN, CALLS],
    "only_the_response.sse": [*SHORT_TURN, USED, CALLS],
    "only_whole_parts.sse": [
        *SHORT_TURN[:4],
        *started(0, "f", '{"a":1}', "call_a"),
        CITATION,
        CallEnd(0),
        CALLS,
    ],
    "new_item_id_in_each_event.sse": [*call(0, "f", '{"a":1}', "call_a"), CALLS],
    "one_number_for_all_items.sse": [
        TextDelta("Calling"),
        *call(0, "f", '{"a":1}', "call_a"),
        *call(1, "f", '{"a":2}', "call_b"),
        CALLS,
    ],
    "unknown_events_items_and_parts.sse": [
        carried({"id": "h1", "type": "hologram_call", "status": "completed", "payload": [1]}),
        TextDelta("See."),
        OpaqueSeen(Opaque("content:output_hologram", {"type": "output_hologram", "data": "QQ=="})),
        STOP,
    ],
    "arguments_as_object_or_null.sse": [
        *call(0, "f", '{"a":[1,null]}', "call_a", OBJECT),
        *call(1, "g", "{}", "call_b", MISSING),
        CALLS,
    ],
    "duplicate_call_ids.sse": [
        *call(0, "f", "{}", "x"),
        *call(1, "g", '{"b":1}', "", Note("duplicate_call_id", "the call id `x` was used twice")),
        CALLS,
    ],
    "name_late_or_never.sse": [
        *call(0, "f", '{"a":1}', "call_a"),
        Noted(Note("call_without_name", "a call without a tool name was dropped")),
        CALLS,
    ],
    "pieces_missing.sse": [*call(0, "f", '{"a":1}', "call_a"), CALLS],
    "arguments_spaced_in_two_ways.sse": [*call(0, "f", '{"a": 1}', "call_a"), CALLS],
    "arguments_contradict.sse": [
        *started(0, "f", '{"a":2}', "call_a"),
        Failure("the upstream sent contradictory arguments for `f`"),
    ],
    "bad_event_among_good.sse": [
        TextDelta("ab"),
        Noted(
            Note("bad_events", 'unreadable events: 1; the first: {"type":"response.output_text.delta","delta":"lost')
        ),
        STOP,
    ],
    "bad_event_inside_a_call.sse": [
        *started(0, "f", '{"a":}', "call_a"),
        Noted(Note("bad_events", 'unreadable events: 1; the first: {"type":"response.func')),
        Failure("an event inside a call could not be decoded", body='{"type":"r'),
    ],
    "null_and_odd_fields.sse": [
        TextDelta("ok"),
        Noted(Note("item_dropped", "{'type': [], 'id': []}")),
        Noted(Note("content_part_dropped", "x")),
        UsageSeen(Usage(0, 0, 0)),
        STOP,
    ],
    "an_html_page.sse": [Failure("the upstream's reply is not a response object", body="<html><bod")],
    "whole_text.json": [TextDelta("Hello"), USED, STOP],
    "whole_items.json": [
        *thought("Hm", "summary", summary=summaries("Hm"), encrypted_content="gAAAAB=="),
        carried(SEARCH),
        TextDelta("Hello"),
        CITATION,
        *call(0, "f", '{"a": 1}', "call_a"),
        *call(1, "run_code", '{"input":"x"}', "call_b"),
        *call(2, "g", "{}", "call_c", MISSING),
        CALLS,
    ],
    "whole_incomplete.json": [
        *call(0, "f", '{"a": 1}', "call_a"),
        *started(1, "g", '{"x', "call_b"),
        Finish("length"),
    ],
    "whole_without_status.json": [
        TextDelta("Hi"),
        Noted(Note("finish_reason_derived", "the upstream's status was `missing`")),
        STOP,
    ],
    "whole_failed.json": [Failure("The model crashed", status=500, body='{ "id": "r', code="server_error")],
    "whole_error.json": [Failure("Model not found", body='{ "error":', code="model_not_found", error_type=_INVALID)],
    "whole_detail.json": [Failure("Not Found", body='{ "detail"')],
    "whole_in_progress.json": [Failure("the upstream has not finished its response", body='{ "id": "r')],
    "whole_without_output.json": [Failure("the upstream's response has no output", body='{ "id": "r')],
}


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def decode(data: bytes, stream: bool = True) -> list[Event]:
    return fed(ReplyDecoder(stream), [data])


def test_every_fixture_has_an_expectation():
    assert {path.name for path in FIXTURES.iterdir()} == EXPECTED.keys()


@pytest.mark.requirement("B10", "G2", "G3", "R-F7", "R-F16", "R-F19", "R-F21", "R-F22", "R-F23", "R-F24", "R-F25")
@check_each("name", EXPECTED)
def test_every_situation_is_read_as_it_is_meant(name: str):
    assert with_bodies(decode(fixture(name)), 10) == EXPECTED[name]


@pytest.mark.no_cover
@pytest.mark.requirement("R-F10", "R-F11", "R-F12")
@check_each("style", STYLES)
@check_each("name", EXPECTED)
def test_every_style_of_framing_means_the_same(name: str, style: str):
    data = STYLES[style](fixture(name))
    whole = decode(data)
    # What a failure shows is shown as it came, so it differs by style; by cut it does not.
    assert with_bodies(whole, 0) == with_bodies(EXPECTED[name], 0)
    assert fed(ReplyDecoder(stream=True), (data[at : at + 1] for at in range(len(data)))) == whole


@pytest.mark.no_cover
@pytest.mark.requirement("G1", "R-F15")
@check_each("stream", [True, False])
@check_each("name", EXPECTED)
def test_no_cut_changes_the_events(name: str, stream: bool):
    data = fixture(name)
    whole = decode(data, stream)
    for reads in ways(data, name):
        assert fed(ReplyDecoder(stream), reads) == whole


@pytest.mark.requirement("R-F46")
@check_each("name", EXPECTED)
def test_what_was_asked_for_does_not_matter(name: str):
    assert decode(fixture(name), stream=False) == decode(fixture(name), stream=True)


@pytest.mark.requirement("B6")
def test_a_call_that_was_cut_is_not_among_the_calls_of_the_reply():
    reply = fold(decode(fixture("cut_by_length_inside_a_call.sse")))
    assert reply.calls == (ToolCall("f", {"a": 1}, "call_a"),)
    assert (reply.finish_reason, reply.complete) == ("length", False)
    assert not fold(decode(fixture("cut_by_length_inside_custom_input.sse"))).calls


def test_one_read_gives_one_delta_of_each_kind():
    assert ReplyDecoder(stream=True).feed(fixture("parallel_calls.sse")) == EXPECTED["parallel_calls.sse"]


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.requirement("G3")
@check_each(
    ("status", "body", "headers", "failure"),
    [
        (429, b'{"error":{"message":"Slow down","code":"x"}}', {}, Failure("Slow down", "upstream", 429, code="x")),
        (504, b"<html>", {}, Failure("the upstream returned status 504", "timeout", 504)),
        (500, b"", {"x-request-id": "r1"}, Failure("the upstream returned status 500 (request r1)", status=500)),
        (400, b"bad", {}, Failure("bad", status=400)),
    ],
)
def test_an_error_status_is_a_failure(status: int, body: bytes, headers: dict[str, str], failure: Failure):
    found = decode_error(status, body, headers)
    assert msgspec.structs.replace(found, body="") == failure
