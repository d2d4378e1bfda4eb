"""One candidate: what goes out, when, and what is said about it in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Candidate, Event, Judged, Noted
from toolspeak.core.json_repair.tokens import END_OBJECT, END_STRING, KEY, OBJECT, PART, SCALAR, STRING
from toolspeak.core.parsing.acceptance import Evidence, Wrapper
from toolspeak.core.parsing.call_builder import CallBuilder
from toolspeak.core.parsing.context import ParseContext
from toolspeak.core.parsing.fast_paths import WholeObject
from toolspeak.core.types import Note, Tool

pytestmark = pytest.mark.requirement("B11")

TEXT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOLS = (Tool("f", parameters=TEXT), Tool("mail", side_effects=True))

A_STRING = [(KEY, "a"), (STRING, ""), (PART, "x"), (END_STRING, "")]
WHOLE = [(OBJECT, ""), *A_STRING, (END_OBJECT, "")]
NOT_FITTING = [(OBJECT, ""), (END_OBJECT, "")]


def begin(
    wrapper: Wrapper = "strong", *, context: ParseContext | None = None, **evidence: Any
) -> tuple[ParseContext, CallBuilder]:
    context = context or ParseContext(TOOLS)
    return context, CallBuilder(context, Evidence("d", wrapper, **evidence))


def candidate(events: list[Event]) -> Candidate:
    """The one that was judged, as the last event."""
    judged = [event.candidate for event in events if isinstance(event, Judged)]
    assert len(judged) == 1
    assert isinstance(events[-1], Judged)
    return judged[0]


def verdict(events: list[Event]) -> tuple[str, str]:
    return candidate(events).verdict, candidate(events).reason


# ---- live


@pytest.mark.requirement("B8")
def test_a_call_in_marks_goes_out_as_it_comes():
    context, builder = begin()
    assert builder.index == -1
    assert builder.arguments is None
    assert builder.take_name("f")
    assert context.collect() == [CallStart(0, "f")]
    assert (builder.state, builder.index, context.commits) == ("live", 0, 1)
    builder.tokens(WHOLE[:3])
    assert context.collect() == [CallArgs(0, '{"a":"')]
    builder.tokens(WHOLE[3:])
    assert context.collect() == [CallArgs(0, 'x"')]
    builder.note(Note("trailing_comma"))
    builder.end()
    events = context.collect()
    assert events[:2] == [CallArgs(0, "}"), CallEnd(0, True, (Note("trailing_comma"),))]
    assert candidate(events) == Candidate(
        name="f",
        verdict="call",
        reason="accepted",
        dialect="d",
        arguments={"a": "x"},
        evidence={
            "dialect": "d",
            "wrapper": "strong",
            "known": True,
            "line_start": True,
            "answer_start": True,
            "in_fence": False,
            "in_code": False,
            "in_reasoning": False,
            "echo": False,
        },
        notes=(Note("trailing_comma"),),
    )
    assert (builder.state, context.calls_seen, context.calls_valid) == ("done", 1, 1)


def test_tokens_that_make_nothing_certain_send_nothing():
    context, builder = begin()
    builder.take_name("f")
    context.collect()
    builder.tokens([(OBJECT, "")])
    assert context.collect() == []


def test_nothing_of_a_live_call_leaves_that_does_not_fit_and_of_which_nothing_has_left():
    context, builder = begin()
    builder.take_name("f")
    builder.tokens(NOT_FITTING)
    builder.end()
    start, end, _ = events = context.collect()
    assert start == CallStart(0, "f")
    assert isinstance(end, CallEnd)
    assert (end.index, end.valid, [note.code for note in end.notes]) == (0, False, ["arguments_invalid"])
    assert end.notes[0].detail.startswith("`f`: ")
    assert verdict(events) == ("invalid", "arguments_invalid")
    assert candidate(events).arguments == {}
    assert (context.calls_seen, context.calls_valid) == (1, 0)


@check_each("finish", [CallBuilder.end, lambda builder: builder.fail("not_json")], ids=["end", "fail"])
def test_a_live_call_of_which_something_has_left_is_closed_as_valid_json(finish: Callable[[CallBuilder], None]):
    context, builder = begin()
    builder.take_name("f")
    builder.tokens([(OBJECT, ""), (KEY, "other"), (SCALAR, "1")])
    flowed = [event.fragment for event in context.collect() if isinstance(event, CallArgs)]
    finish(builder)
    events = context.collect()
    flowed += [event.fragment for event in events if isinstance(event, CallArgs)]
    assert "".join(flowed) == '{"other":1}'
    assert [event.valid for event in events if isinstance(event, CallEnd)] == [False]


def test_what_is_wrong_is_told_in_short():
    context, builder = begin(context=ParseContext(None))
    builder.take_name("f" * 600)
    builder.fail("not_json")
    assert len(candidate(context.collect()).notes[0].detail) == 500


def test_arguments_that_come_before_the_name_wait_for_it():
    context, builder = begin()
    builder.tokens(WHOLE)
    assert context.collect() == []
    builder.take_name("f")
    assert context.collect() == [CallStart(0, "f")]
    builder.end()
    assert context.collect()[0] == CallArgs(0, '{"a":"x"}')


def test_a_note_is_kept_once():
    context, builder = begin()
    builder.note(Note("a"), Note("b"))
    builder.note(Note("a"), Note("a", "detail"))
    builder.take_name("g")
    assert candidate(context.collect()).notes[:3] == (Note("a"), Note("b"), Note("a", "detail"))


def test_calls_are_numbered_in_the_order_they_go_out():
    context, first = begin()
    _, second = begin(context=context)
    second.take_name("f")
    first.take_name("f")
    assert context.collect() == [CallStart(0, "f"), CallStart(1, "f")]


# ---- refused repairs


@pytest.mark.requirement("R-E6")
@check_each("code", ["duplicate_key", "nan", "lone_surrogate"])
def test_what_no_repair_can_mend_is_refused(code: str):
    context, builder = begin()
    builder.take_name("f")
    builder.tokens(WHOLE)
    builder.note(Note(code))
    builder.end()
    events = context.collect()
    assert verdict(events) == ("invalid", "arguments_invalid")
    assert candidate(events).notes[-1] == Note("arguments_invalid", f"`f`: refused: {code}")


@pytest.mark.requirement("B4")
def test_a_repair_that_may_have_changed_a_value_never_reaches_a_tool_that_changes_the_world():
    context, builder = begin()
    builder.take_name("mail")
    builder.tokens(WHOLE)
    builder.note(Note("missing_closer"))
    builder.end()
    events = context.collect()
    assert verdict(events) == ("invalid", "arguments_invalid")
    assert [note.code for note in candidate(events).notes] == ["missing_closer", "unsafe_repair", "arguments_invalid"]
    assert candidate(events).notes[1].detail == "`mail` has side effects; the arguments were repaired"
    assert candidate(events).notes[2].detail == "`mail`: a repair may have changed a value"


def test_the_same_repair_is_good_enough_for_a_tool_that_only_reads():
    context, builder = begin()
    builder.take_name("f")
    builder.tokens(WHOLE)
    builder.note(Note("missing_closer"))
    builder.end()
    assert verdict(context.collect()) == ("call", "accepted")


def test_a_harmless_repair_is_good_enough_for_a_tool_that_changes_the_world():
    context, builder = begin()
    builder.take_name("mail")
    builder.tokens(WHOLE)
    builder.note(Note("trailing_comma"))
    builder.end()
    assert verdict(context.collect()) == ("call", "accepted")


# ---- names that are none


@pytest.mark.requirement("B7", "R-E6")
@check_each(
    ("name", "note"),
    [
        ("mial", Note("near_miss", "`mial` is not a tool; `mail` is")),
        ("weather", Note("unknown_tool", "`weather` is not a tool")),
    ],
)
def test_a_name_that_is_not_on_offer_is_no_call(name: str, note: Note):
    context, builder = begin()
    assert not builder.take_name(name)
    events = context.collect()
    assert len(events) == 1
    assert verdict(events) == ("text", "unknown_tool")
    assert candidate(events).notes == (note,)
    assert (builder.state, builder.reason, builder.stops_region) == ("rejected", "unknown_tool", False)


def test_what_comes_after_a_rejected_name_is_dropped():
    context, builder = begin()
    builder.take_name("nobody")
    context.collect()
    builder.tokens(WHOLE)
    builder.go_live()
    builder.end()
    builder.cut()
    assert context.collect() == []


def test_an_empty_name_is_no_name():
    context, builder = begin(context=ParseContext(None))
    assert not builder.take_name("")
    assert verdict(context.collect()) == ("text", "no_name")


@pytest.mark.requirement("B7", "B10")
def test_a_call_inside_reasoning_is_recognised_and_is_none():
    context, builder = begin(in_reasoning=True, in_fence=True)
    assert not builder.take_name("f")
    assert verdict(context.collect()) == ("reasoning", "reasoning")
    assert builder.stops_region


@pytest.mark.requirement("B7", "B10")
@check_each(("answer_end", "expected"), [(True, ("call", "accepted")), (False, ("reasoning", "reasoning"))])
def test_a_call_that_ends_reasoning_counts_if_the_answer_ends_with_it(answer_end: bool, expected: tuple[str, str]):
    context, builder = begin(in_reasoning=True)
    assert builder.take_name("f")
    builder.tokens(WHOLE)
    builder.end()
    builder.resolve_tail(answer_end)
    assert verdict(context.collect()) == expected


def test_a_candidate_that_is_not_rejected_stops_nothing():
    _, builder = begin()
    assert not builder.stops_region
    builder.take_name("f")
    assert not builder.stops_region


def test_a_call_that_ends_before_it_had_a_name_is_none():
    context, builder = begin()
    builder.tokens(WHOLE)
    builder.end()
    assert verdict(context.collect()) == ("text", "no_name")


# ---- held


def test_a_bare_call_is_held_to_its_end_and_then_goes_out_whole():
    context, builder = begin("bare")
    assert builder.take_name("f")
    builder.tokens(WHOLE)
    assert context.collect() == []
    assert (builder.state, context.commits) == ("held", 0)
    builder.end()
    events = context.collect()
    assert events[:3] == [CallStart(0, "f"), CallArgs(0, '{"a":"x"}'), CallEnd(0)]
    assert verdict(events) == ("call", "accepted")
    assert candidate(events).evidence["fits"] is True
    assert context.commits == 1


def test_a_bare_call_that_does_not_fit_is_text():
    context, builder = begin("bare")
    builder.take_name("f")
    builder.tokens(NOT_FITTING)
    builder.end()
    events = context.collect()
    assert len(events) == 1
    assert verdict(events) == ("text", "does_not_fit")
    assert candidate(events).arguments == {}


@check_each(("answer_end", "is_call"), [(True, True), (False, False)])
def test_a_weak_call_waits_for_what_follows_it(answer_end: bool, is_call: bool):
    context, builder = begin("weak")
    builder.take_name("f")
    builder.tokens(WHOLE)
    builder.end()
    assert context.collect() == []
    assert builder.state == "tail"
    assert builder.resolve_tail(answer_end) is is_call
    events = context.collect()
    assert verdict(events) == (("call", "accepted") if is_call else ("text", "more_follows"))
    assert candidate(events).arguments == {"a": "x"}
    assert candidate(events).evidence["answer_end"] is answer_end
    assert (len(events) > 1) is is_call


def test_a_strong_call_may_be_held_until_it_has_shown_structure():
    context, builder = begin()
    builder.take_name("f", hold=True)
    builder.tokens(WHOLE[:4])
    assert context.collect() == []
    builder.go_live()
    assert context.collect() == [CallStart(0, "f"), CallArgs(0, '{"a":"x')]
    builder.go_live()
    assert context.collect() == []


def test_a_strong_call_that_goes_live_without_arguments_sends_only_its_name():
    context, builder = begin()
    builder.take_name("f", hold=True)
    builder.go_live()
    assert context.collect() == [CallStart(0, "f")]


def test_a_strong_call_that_is_held_to_its_end_is_a_call_or_is_closed_as_invalid():
    context, builder = begin()
    builder.take_name("f", hold=True)
    builder.tokens(NOT_FITTING)
    builder.end()
    events = context.collect()
    assert [type(event) for event in events] == [CallStart, CallArgs, CallEnd, Judged]
    assert verdict(events) == ("invalid", "arguments_invalid")


def test_weak_evidence_never_goes_live():
    context, builder = begin("weak")
    builder.take_name("f")
    builder.go_live()
    assert builder.state == "held"
    assert context.collect() == []


# ---- echoes


@pytest.mark.requirement("R-E4")
@check_each(("echoed", "expected"), [("x", ("text", "echo")), ("y", ("call", "accepted"))])
def test_a_name_that_stands_in_an_untrusted_text_is_held_until_its_arguments_are_compared(echoed: str, expected: Any):
    context, builder = begin(context=ParseContext(TOOLS, untrusted=(f"f(a={echoed!r})",)))
    builder.take_name("f")
    builder.tokens(WHOLE)
    builder.go_live()
    assert context.collect() == []
    builder.end()
    assert verdict(context.collect()) == expected


@pytest.mark.requirement("R-E4")
@check_each(("first", "expected"), [("f", ("text", "echo")), ("", ("call", "accepted"))])
def test_a_call_is_compared_with_copied_texts_where_another_one_precedes_it(first: str, expected: Any):
    """A candidate without a name is the document around the calls."""
    context = ParseContext(TOOLS, copied=lambda: ("f(a='x')",))
    block: list[CallBuilder] = []
    for _ in range(2):
        block.append(CallBuilder(context, Evidence("hermes", "strong"), block=block))
    if first:
        block[0].take_name(first)
    block[1].take_name("f")
    block[1].tokens(WHOLE)
    block[1].end()
    assert verdict(context.collect()) == expected


@pytest.mark.requirement("R-E3")
def test_a_call_without_the_nonce_is_noted_where_it_counts():
    context = ParseContext(TOOLS, nonce="k7q2xm", unmarked_counts=True)
    builder = CallBuilder(context, Evidence("hermes", "strong", nonce=False, unmarked_counts=True))
    builder.take_name("f")
    builder.tokens(WHOLE)
    builder.end()
    events = context.collect()
    assert verdict(events) == ("call", "accepted")
    assert [note.code for event in events if isinstance(event, CallEnd) for note in event.notes] == ["unmarked"]


# ---- cut and failed


@pytest.mark.requirement("B6")
def test_a_live_call_that_is_cut_sends_what_it_has_and_never_ends():
    context, builder = begin()
    builder.take_name("f")
    for token in WHOLE[:4]:
        builder.token(token)
    builder.cut()
    events = context.collect()
    assert events[:3] == [
        CallStart(0, "f"),
        CallArgs(0, '{"a":"x'),
        Noted(Note("truncated_call", "the text ended inside a call to `f`")),
    ]
    assert verdict(events) == ("truncated", "truncated")
    assert candidate(events).arguments is None
    assert (context.calls_seen, context.calls_valid, builder.state) == (1, 0, "done")


@pytest.mark.requirement("B6")
@check_each(("name", "shown"), [("f", "f"), (None, "?")])
def test_a_held_call_in_marks_that_is_cut_leaves_a_note(name: str | None, shown: str):
    context, builder = begin()
    if name:
        builder.take_name(name, hold=True)
    builder.cut()
    events = context.collect()
    assert events[0] == Noted(Note("truncated_call", f"the text ended inside a call to `{shown}`"))
    assert verdict(events) == ("truncated", "truncated")
    assert context.calls_seen == 0


@check_each("wrapper", ["weak", "bare"])
def test_a_cut_candidate_with_weak_evidence_is_meant_when_it_names_a_tool(wrapper: Wrapper):
    context, builder = begin(wrapper)
    builder.take_name("f")
    builder.cut()
    events = context.collect()
    assert events[0] == Noted(Note("truncated_call", "the text ended inside a call to `f`"))
    assert verdict(events) == ("truncated", "truncated")


@check_each("wrapper", ["weak", "bare"])
def test_a_cut_candidate_with_weak_evidence_and_no_name_is_only_text(wrapper: Wrapper):
    context, builder = begin(wrapper)
    builder.cut()
    events = context.collect()
    assert len(events) == 1
    assert verdict(events) == ("truncated", "truncated")


def test_a_live_call_that_fails_is_closed_as_valid_json():
    context, builder = begin()
    builder.take_name("f")
    builder.tokens([*WHOLE[:4]])
    builder.fail("not_json")
    events = context.collect()
    assert events[:3] == [CallStart(0, "f"), CallArgs(0, '{"a":"x'), CallArgs(0, '"}')]
    assert events[3] == CallEnd(0, False, (Note("arguments_invalid", "`f`: not_json"),))
    assert verdict(events) == ("invalid", "arguments_invalid")


@check_each("name", ["f", None])
def test_a_candidate_that_fails_before_it_went_out_is_text(name: str | None):
    context, builder = begin("bare")
    if name:
        builder.take_name(name)
    builder.fail("not_a_call")
    events = context.collect()
    assert len(events) == 1
    assert verdict(events) == ("text", "not_a_call")


@check_each("again", [CallBuilder.end, CallBuilder.cut, CallBuilder.go_live, lambda b: b.fail("x")])
def test_what_is_decided_stays_decided(again: Any):
    context, builder = begin()
    builder.take_name("f")
    builder.tokens(WHOLE)
    builder.end()
    context.collect()
    again(builder)
    assert context.collect() == []
    assert builder.state == "done"


def test_tokens_behind_the_end_send_nothing():
    context, builder = begin()
    builder.take_name("f")
    builder.tokens(WHOLE)
    builder.end()
    context.collect()
    builder.tokens([(KEY, "b"), (SCALAR, "1")])
    assert context.collect() == []


# ---- blocks that must end well


def test_a_call_may_have_to_wait_for_the_end_of_its_block():
    context = ParseContext(TOOLS)
    builder = CallBuilder(context, Evidence("d", "bare"), waits=True)
    builder.take_name("f")
    builder.tokens(WHOLE)
    builder.end()
    assert (builder.state, context.collect()) == ("tail", [])
    builder.decide()
    assert verdict(context.collect()) == ("call", "accepted")


def test_a_call_whose_block_did_not_end_well_is_text():
    context = ParseContext(TOOLS)
    builder = CallBuilder(context, Evidence("d", "bare"), waits=True)
    builder.take_name("f")
    builder.tokens(WHOLE)
    builder.end()
    builder.fail("not_json")
    assert verdict(context.collect()) == ("text", "not_json")


@check_each(
    ("dialect", "line_start", "enough"), [("pythonic", True, True), ("pythonic", False, False), ("name", True, False)]
)
def test_the_end_of_the_line_is_enough_for_a_list_of_python_calls_that_began_it(
    dialect: str, line_start: bool, enough: bool
):
    assert CallBuilder(ParseContext(TOOLS), Evidence(dialect, "bare", line_start=line_start)).line_is_enough is enough


# ---- at once

AT_ONCE = WholeObject({"a": "x"}, '{"a":"x"}', 9, 2)


@check_each("wrapper", ["strong", "bare"])
def test_a_call_that_comes_at_once_is_told_like_one_that_comes_in_tokens(wrapper: Wrapper):
    context, builder = begin(wrapper)
    assert builder.take_call("f", AT_ONCE)
    other, beside = begin(wrapper)
    beside.take_name("f")
    beside.tokens(WHOLE)
    beside.end()
    events = context.collect()
    assert events[:3] == [CallStart(0, "f"), CallArgs(0, '{"a":"x"}'), CallEnd(0, True)]
    assert events[3:] == [event for event in other.collect() if isinstance(event, Judged)]
    assert (builder.state, builder.name, context.calls_seen, context.calls_valid) == ("done", "f", 1, 1)
    assert candidate(events).arguments == {"a": "x"}


def test_arguments_that_come_at_once_follow_a_name():
    context, builder = begin()
    builder.take_name("f")
    assert builder.take_arguments(AT_ONCE)
    assert context.collect()[:3] == [CallStart(0, "f"), CallArgs(0, '{"a":"x"}'), CallEnd(0, True)]
    assert builder.state == "done"


@check_each(
    ("name", "arguments", "evidence"),
    [
        ("nobody", AT_ONCE, {}),
        ("f", WholeObject({}, "{}", 2, 1), {}),
        ("f", WholeObject({"a": "x", "b": 1}, "", 2, 3), {}),
        ("f", AT_ONCE, {"in_reasoning": True, "in_fence": True}),
        ("F", AT_ONCE, {}),
    ],
    ids=["an unknown tool", "arguments that do not fit", "an unknown argument", "reasoning", "another spelling"],
)
def test_a_call_that_is_not_plainly_one_is_not_taken_at_once_and_leaves_no_trace(
    name: str, arguments: WholeObject, evidence: dict[str, Any]
):
    context, builder = begin(**evidence)
    before = builder.evidence
    assert not builder.take_call(name, arguments)
    assert (builder.state, builder.name, builder.evidence, builder.arguments) == ("new", "", before, None)
    assert context.collect() == []


def test_arguments_are_not_taken_at_once_without_a_name_or_when_they_do_not_fit():
    context, builder = begin()
    assert not builder.take_arguments(AT_ONCE)
    builder.take_name("f")
    assert not builder.take_arguments(WholeObject({}, "{}", 2, 1))
    assert builder.state == "live"
    assert context.collect() == [CallStart(0, "f")]
