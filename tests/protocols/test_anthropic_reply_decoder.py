"""What upstreams answer over the Messages API: every shape, read the same however its bytes are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each
from tests.protocols.stream_helpers import STYLES, cut, fed, ways, with_bodies
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
from toolspeak.protocols.anthropic import ReplyDecoder

FIXTURES = Path(__file__).parent / "fixtures" / "anthropic"


def opaque(kind: str, data: Any) -> OpaqueSeen:
    return OpaqueSeen(Opaque(kind, data))


def noted(code: str, detail: str) -> Noted:
    return Noted(Note(code, detail))


def begun(index: int, name: str, arguments: str, identifier: str) -> list[Event]:
    return [CallStart(index, name, identifier), CallArgs(index, arguments)]


def call(index: int, name: str, arguments: str, identifier: str, *notes: Note) -> list[Event]:
    return [*begun(index, name, arguments, identifier), CallEnd(index, notes=notes)]


USED = UsageSeen(Usage(25, 15))
DONE: list[Event] = [USED, Finish("stop")]
CALLED: list[Event] = [USED, Finish("tool_calls")]
STARTED = UsageSeen(Usage(25, 1))
EARLY = Failure("the stream ended before the reply was complete", "truncated")
CITATION = {
    "type": "char_location",
    "cited_text": "The grass is green.",
    "document_index": 0,
    "document_title": "Facts",
    "start_char_index": 0,
    "end_char_index": 20,
}
SIGNED = {"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCgIYAhIM"}

#: Situation -> what it means, adjacent deltas joined. The first ten characters of `Failure.body` are enough.
EXPECTED: dict[str, list[Event]] = {
    "plain_text.sse": [TextDelta("Hello, wörld \u2028 😀"), *DONE],
    "text_then_call.sse": [
        TextDelta("Okay, let me see."),
        *call(0, "get_weather", '{"city": "Paris"}', "toolu_a"),
        UsageSeen(Usage(472, 89)),
        Finish("tool_calls"),
    ],
    "parallel_calls.sse": [
        *call(0, "f", '{"a":1}', "toolu_a"),
        *call(1, "g", '{"b":2}', "toolu_b"),
        *CALLED,
    ],
    "call_without_arguments.sse": [
        CallStart(0, "now", "toolu_a"),
        CallStart(1, "now", "toolu_b"),
        CallArgs(0, "{}"),
        CallEnd(0),
        CallArgs(1, "{}"),
        CallEnd(1),
        *CALLED,
    ],
    "thinking_with_signature.sse": [
        ReasoningDelta("Let me see."),
        opaque("thinking", SIGNED),
        TextDelta("Yes."),
        *DONE,
    ],
    "thinking_without_signature.sse": [ReasoningDelta("Hm."), TextDelta("Yes."), *DONE],
    "thinking_omitted.sse": [
        opaque("thinking", {"type": "thinking", "thinking": "", "signature": "EqQB"}),
        TextDelta("Yes."),
        *DONE,
    ],
    "redacted_thinking.sse": [
        opaque("redacted_thinking", {"type": "redacted_thinking", "data": "EmwKAhgB"}),
        TextDelta("Yes."),
        *DONE,
    ],
    "citations.sse": [
        TextDelta("I read: grass is green"),
        opaque("citations", [CITATION]),
        TextDelta("."),
        *DONE,
    ],
    "web_search.sse": [
        TextDelta("I'll look."),
        opaque(
            "server_tool_use",
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "weather"}},
        ),
        opaque(
            "web_search_tool_result",
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {
                        "type": "web_search_result",
                        "title": "W",
                        "url": "https://example.com",
                        "encrypted_content": "EqgfC",
                        "page_age": None,
                    }
                ],
            },
        ),
        TextDelta("Sunny."),
        opaque("usage", {"server_tool_use": {"web_search_requests": 1}}),
        UsageSeen(Usage(10682, 510)),
        Finish("stop"),
    ],
    "toolset_call.sse": [
        opaque("tool_use", {"id": "toolu_a", "toolset_name": "computer"}),
        *call(0, "left_click", '{"x":1}', "toolu_a"),
        *CALLED,
    ],
    "cache_usage.sse": [
        TextDelta("Hi"),
        opaque("usage", {"cache_creation_input_tokens": 200, "service_tier": "standard"}),
        UsageSeen(Usage(3210, 7, 3000)),
        Finish("stop"),
    ],
    "stop_sequence.sse": [
        TextDelta("Hi"),
        opaque("stop", {"stop_reason": "stop_sequence", "stop_sequence": "END"}),
        *DONE,
    ],
    "paused_turn.sse": [TextDelta("Hi"), opaque("stop", {"stop_reason": "pause_turn"}), *DONE],
    "refusal.sse": [
        TextDelta("I"),
        opaque(
            "stop",
            {
                "stop_reason": "refusal",
                "stop_details": {"type": "refusal", "category": "cyber", "explanation": None},
            },
        ),
        USED,
        Finish("content_filter"),
    ],
    "context_window_exceeded.sse": [
        TextDelta("Hi"),
        opaque("stop", {"stop_reason": "model_context_window_exceeded"}),
        USED,
        Finish("length"),
    ],
    "compaction.sse": [
        opaque("compaction", {"type": "compaction", "content": "So far: all", "encrypted_content": "Eq"}),
        TextDelta("Hi"),
        *DONE,
    ],
    "cut_by_length_inside_a_call.sse": [
        *call(0, "f", '{"a":1}', "toolu_a"),
        *begun(1, "write", '{"text":"once up', "toolu_b"),
        USED,
        Finish("length"),
    ],
    "cut_by_length_before_arguments.sse": [
        CallStart(0, "now", "toolu_a"),
        CallStart(1, "write", "toolu_b"),
        CallArgs(0, "{}"),
        CallEnd(0),
        USED,
        Finish("length"),
    ],
    "error_first.sse": [Failure("Overloaded", "upstream", 529, '{"type":"e', error_type="overloaded_error")],
    "error_inside_stream.sse": [
        TextDelta("Half an"),
        STARTED,
        Failure("Internal server error", "upstream", 500, '{"type":"e', error_type="api_error"),
    ],
    "error_that_is_no_json.sse": [STARTED, Failure("out of luck", body="out of luc")],
    "unknown_events.sse": [
        noted("unknown_event", "an event of type `new_thing` was skipped"),
        noted("unknown_delta", "a delta of type `new_delta` was skipped"),
        TextDelta("Hi"),
        *DONE,
    ],
    "unknown_block.sse": [
        opaque("block:hologram", {"type": "hologram", "beam": "ab", "size": 2}),
        TextDelta("Hi"),
        *DONE,
    ],
    "ended_without_finish.sse": [TextDelta("Once upon"), STARTED, EARLY],
    "ended_inside_a_call.sse": [*begun(0, "write", '{"text":"once', "toolu_a"), STARTED, EARLY],
    "finish_without_message_stop.sse": [TextDelta("Hi"), *DONE],
    "message_stop_without_finish.sse": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream's finish reason was `missing`"),
        STARTED,
        Finish("stop"),
    ],
    "last_event_cut.sse": [
        TextDelta("Hi"),
        noted("bad_events", 'unreadable events: 1; the first: {"type":"message_delta","delta":{"stop_re'),
        STARTED,
        EARLY,
    ],
    "bad_event_among_good.sse": [
        TextDelta("ab"),
        noted("bad_events", 'unreadable events: 1; the first: {"type":"content_block_delta","index":0,"delta":{"te'),
        *DONE,
    ],
    "bad_event_inside_a_call.sse": [
        *begun(0, "f", '{"a":', "toolu_a"),
        noted("bad_events", 'unreadable events: 1; the first: {"type":"cont'),
        STARTED,
        Failure("an event inside a call could not be decoded", body='{"type":"c'),
    ],
    "arguments_at_once.sse": [
        *call(0, "f", '{"a":[1,null]}', "toolu_a"),
        *call(1, "g", '{"b":2}', "toolu_b", Note("arguments_object", "the arguments were sent as JSON, not as text")),
        *CALLED,
    ],
    "arguments_not_json.sse": [*call(0, "f", '{"a":oops}', "toolu_a"), *CALLED],
    "one_index_for_all_blocks.sse": [
        TextDelta("Hi"),
        *call(0, "f", '{"a":1}', "toolu_a"),
        *call(1, "f", '{"a":2}', "toolu_b"),
        *CALLED,
    ],
    "interleaved_blocks.sse": [
        *begun(0, "f", '{"a":', "toolu_a"),
        *begun(1, "g", '{"b":2}', "toolu_b"),
        CallArgs(0, "1}"),
        CallEnd(0),
        CallEnd(1),
        *CALLED,
    ],
    "duplicate_ids.sse": [
        *call(0, "f", "{}", "x"),
        *call(1, "f", "{}", "", Note("duplicate_call_id", "the call id `x` was used twice")),
        *CALLED,
    ],
    "call_without_a_name.sse": [
        TextDelta("Hi"),
        noted("call_without_name", "a call without a tool name was dropped"),
        noted("unknown_delta", "a delta of type `input_json_delta` was skipped"),
        *DONE,
    ],
    "finish_reason_end_turn_with_calls.sse": [
        *call(0, "f", "{}", "toolu_a"),
        noted("finish_reason_derived", "the upstream's finish reason was `end_turn`"),
        *CALLED,
    ],
    "finish_reason_calls_without_calls.sse": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream's finish reason was `tool_use`"),
        *DONE,
    ],
    "finish_reason_unknown.sse": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream's finish reason was `banana`"),
        *DONE,
    ],
    "only_deltas.sse": [
        ReasoningDelta("Hm"),
        TextDelta("Hi"),
        noted("unknown_delta", "a delta of type `input_json_delta` was skipped"),
        UsageSeen(Usage(0, 15)),
        Finish("stop"),
    ],
    "data_lines_only.sse": [
        TextDelta("ab"),
        UsageSeen(Usage()),
        Finish("stop"),
    ],
    "null_and_empty_fields.sse": [
        TextDelta("ok"),
        noted("unknown_block", "a block without a type was skipped"),
        Finish("stop"),
    ],
    "after_the_end.sse": [TextDelta("Hi"), *DONE],
    "an_html_page.sse": [Failure("the upstream's reply is not an Anthropic message", body="<html><bod")],
    "whole_text.json": [TextDelta("Hello"), UsageSeen(Usage(25, 1)), Finish("stop")],
    "whole_everything.json": [
        ReasoningDelta("Hm"),
        opaque("thinking", {"type": "thinking", "thinking": "Hm", "signature": "Eq"}),
        opaque("redacted_thinking", {"type": "redacted_thinking", "data": "Em"}),
        TextDelta("See"),
        opaque("citations", [CITATION]),
        *call(0, "f", '{"a":1}', "toolu_a"),
        *call(1, "now", "{}", "toolu_b"),
        STARTED,
        Finish("tool_calls"),
    ],
    "whole_cut_inside_a_call.json": [
        *call(0, "f", '{"a":1}', "toolu_a"),
        CallStart(1, "write", "toolu_b"),
        STARTED,
        Finish("length"),
    ],
    "whole_without_finish.json": [
        TextDelta("Hi"),
        noted("finish_reason_derived", "the upstream's finish reason was `missing`"),
        Finish("stop"),
    ],
    "whole_error.json": [Failure("model: nope", "upstream", 404, '{ "type": ', error_type="not_found_error")],
    "whole_without_content.json": [Failure("the upstream's reply has no content", body='{"id": "ms')],
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
    assert fed(ReplyDecoder(True), cut(data, range(1, len(data)))) == whole


@pytest.mark.no_cover
@pytest.mark.requirement("R-F15")
@check_each("name", EXPECTED)
def test_no_cut_changes_the_events(name: str):
    data = fixture(name)
    expected = decode(data)
    for reads in ways(data, name):
        assert fed(ReplyDecoder(True), reads) == expected


@pytest.mark.requirement("R-F46")
@check_each("name", EXPECTED)
def test_what_was_asked_for_does_not_matter(name: str):
    assert decode(fixture(name), stream=False) == decode(fixture(name), stream=True)


@pytest.mark.requirement("B6")
@check_each("name", ["cut_by_length_inside_a_call.sse", "whole_cut_inside_a_call.json"])
def test_a_call_that_was_cut_is_not_among_the_calls_of_the_reply(name: str):
    reply = fold(decode(fixture(name)))
    assert reply.calls == (ToolCall("f", {"a": 1}, "toolu_a"),)
    assert (reply.finish_reason, reply.complete) == ("length", False)


@pytest.mark.requirement("R-F24")
def test_arguments_that_are_no_json_make_no_call():
    reply = fold(decode(fixture("arguments_not_json.sse")))
    assert reply.calls == ()
    assert [note.code for note in reply.notes] == ["arguments_invalid"]
