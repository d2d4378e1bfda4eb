"""Folding: a stream of events becomes the reply it means, in one way only."""

from __future__ import annotations

import msgspec
import pytest

from tests.cases import check_each
from toolspeak.core.events import (
    INCOMPLETE_NOTES,
    CallArgs,
    CallEnd,
    CallStart,
    Candidate,
    Event,
    Failure,
    Finish,
    Judged,
    Noted,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageSeen,
    final_events,
    fold,
)
from toolspeak.core.types import Note, Opaque, ToolCall, Usage
from toolspeak.errors import UsageError

REPAIRED = Note("trailing_comma", "one")


def test_no_events_are_an_empty_reply():
    reply = fold([])
    assert reply == Reply()
    assert reply.complete
    assert reply.finish_reason == "unknown"


def test_text_and_reasoning_are_joined_apart_from_each_other():
    reply = fold([TextDelta("a"), ReasoningDelta("x"), TextDelta("b"), ReasoningDelta("y")])
    assert (reply.text, reply.reasoning) == ("ab", "xy")


@pytest.mark.requirement("B8")
def test_the_fragments_of_a_call_are_joined_to_its_arguments():
    events = [CallStart(0, "f", "id7"), CallArgs(0, '{"a":'), CallArgs(0, "1}"), CallEnd(0, notes=(REPAIRED,))]
    reply = fold(events)
    assert reply.calls == (ToolCall("f", {"a": 1}, "id7", (REPAIRED,)),)
    assert reply.notes == (REPAIRED,)
    assert reply.complete


def test_a_call_without_fragments_has_no_arguments():
    assert fold([CallStart(0, "f"), CallEnd(0)]).calls == (ToolCall("f", {}),)


def test_calls_that_overlap_come_out_in_the_order_of_their_numbers():
    events = [CallStart(1, "b"), CallStart(0, "a"), CallArgs(1, '{"b":1}'), CallEnd(1), CallArgs(0, "{}"), CallEnd(0)]
    assert [(call.name, call.arguments) for call in fold(events).calls] == [("a", {}), ("b", {"b": 1})]


def test_a_call_that_ended_invalid_is_no_call_but_keeps_its_notes():
    reply = fold([CallStart(0, "f"), CallArgs(0, "{}"), CallEnd(0, False, (REPAIRED,))])
    assert (reply.calls, reply.notes, reply.complete) == ((), (REPAIRED,), True)


@pytest.mark.requirement("B6")
def test_a_call_that_never_ended_is_no_call_and_the_reply_is_incomplete():
    reply = fold([CallStart(0, "f"), CallArgs(0, '{"a":1')])
    assert (reply.calls, reply.complete) == ((), False)


@check_each("arguments", ["[]", '"text"', "1", "null", '{"a":', "{a:1}"])
def test_arguments_that_are_no_json_object_make_no_call(arguments: str):
    reply = fold([CallStart(0, "f"), CallArgs(0, arguments), CallEnd(0)])
    assert reply.calls == ()
    assert reply.notes == (Note("arguments_invalid", "the arguments of `f` are not a JSON object"),)


@pytest.mark.requirement("B6")
@check_each("code", ["truncated_call", "reasoning_unclosed"])
def test_a_note_that_the_text_ended_early_makes_the_reply_incomplete(code: str):
    assert code in INCOMPLETE_NOTES
    assert not fold([Noted(Note(code))]).complete


def test_another_note_leaves_the_reply_complete():
    reply = fold([Noted(REPAIRED), Noted(Note("reasoning_unopened"))])
    assert reply.notes == (REPAIRED, Note("reasoning_unopened"))
    assert reply.complete


def test_candidates_and_opaque_parts_are_kept_in_order():
    one, other = Candidate("f", "text", "in_fence"), Candidate("g", "call", "accepted")
    signature, image = Opaque("signature", "abc"), Opaque("image", {"url": "x"})
    reply = fold([Judged(one), OpaqueSeen(signature), Judged(other), OpaqueSeen(image)])
    assert reply.candidates == (one, other)
    assert reply.opaque == (signature, image)


def test_the_last_usage_and_the_last_finish_reason_count():
    events: list[Event] = [UsageSeen(Usage(1, 1)), Finish("stop"), UsageSeen(Usage(9, 3, 2)), Finish("length")]
    reply = fold(events)
    assert (reply.usage, reply.finish_reason) == (Usage(9, 3, 2), "length")


def test_a_failure_is_kept():
    failure = Failure("the connection broke", "network")
    assert fold([TextDelta("a"), failure]).failure == failure
    assert Failure("x").kind == "upstream"


def test_the_calls_also_go_by_the_name_that_sdk_users_know():
    reply = fold([CallStart(0, "f"), CallEnd(0)])
    assert reply.tool_calls is reply.calls


EVERY_EVENT: list[Event] = [
    TextDelta("t"),
    ReasoningDelta("r"),
    CallStart(0, "f", "i"),
    CallArgs(0, "{}"),
    CallEnd(0, False, (REPAIRED,)),
    Judged(Candidate("f", "text", "inline", "hermes", {"a": 1}, {"wrapper": "strong"}, (REPAIRED,))),
    Noted(REPAIRED),
    OpaqueSeen(Opaque("k", 1)),
    UsageSeen(Usage(1, 2, 3)),
    Finish("tool_calls"),
    Failure("m"),
]


@check_each("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
def test_an_event_survives_the_wire_as_itself(event: Event):
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


@check_each("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
def test_events_are_frozen(event: Event):
    with pytest.raises(AttributeError):
        setattr(event, event.__struct_fields__[0], None)


def test_what_is_no_event_is_refused():
    with pytest.raises(UsageError):
        fold(["text"])  # pyright: ignore[reportArgumentType]


@pytest.mark.requirement("R-T12")
def test_arguments_that_are_nested_too_deeply_are_not_a_call():
    deep = '{"city":' + "[" * 50_000 + "]" * 50_000 + "}"
    reply = fold([CallStart(0, "f"), CallArgs(0, deep), CallEnd(0)])
    assert reply.calls == ()
    assert [note.code for note in reply.notes] == ["arguments_invalid"]


@check_each("events", [[CallArgs(5, "{}")], [CallEnd(0)], [CallStart(0, "f"), CallEnd(0), CallArgs(0, "{}")]])
def test_a_call_that_goes_on_before_its_beginning_is_the_callers_mistake(events: list[Event]):
    with pytest.raises(UsageError, match="before its `CallStart` or after its `CallEnd`"):
        fold(events)


def test_what_lasts_of_a_turn_is_what_its_reply_stands_for_in_its_order():
    wrong: list[Event] = [CallStart(0, "f", "a"), CallArgs(0, "{}"), CallEnd(0, False)]
    right: list[Event] = [CallStart(1, "f", "b"), CallArgs(1, "{}"), CallEnd(1)]
    first: list[Event] = [ReasoningDelta("r"), OpaqueSeen(Opaque("k", 1)), TextDelta("a"), *wrong]
    second: list[Event] = [
        ReasoningDelta("s"),
        OpaqueSeen(Opaque("k", 2)),
        TextDelta("b"),
        *right,
        Finish("tool_calls"),
    ]
    events = [*first, *second]
    assert final_events(events, fold(events), len(first)) == [TextDelta("a"), *second]
    assert final_events(second, fold(second)) == second
