"""A turn in which nothing is to be done: it says what the engine would say, action for action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

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
)
from toolspeak.core.types import Message, Note, Opaque, Request, TextPart, Tool, ToolChoice, Usage
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Plan, Settings, plan
from toolspeak.engine.turn.actions import Action, AskUpstream, Done, Emit, StopAttempt
from toolspeak.engine.turn.engine import Engine
from toolspeak.engine.turn.passthrough_turn import PassthroughTurn, is_passthrough

STAMP = 17
REQUEST = Request("m", (Message("user", (TextPart("How is the weather?"),)),), stream=True)


def planned(request: Request, **settings: str) -> Plan:
    return plan(request, Capabilities().find("openai", "m", "http://127.0.0.1:9/v1"), Settings(**settings))  # type: ignore[arg-type]


def passage(*notes: Note, request: Request = REQUEST) -> PassthroughTurn:
    return PassthroughTurn(request, planned(request, mode="off"), stamp=STAMP, notes=notes)


def engine(*notes: Note, request: Request = REQUEST) -> Engine:
    nonces: Callable[[int], str] = lambda counter: f"abc{counter}"  # noqa: E731
    planned_turn = planned(request, mode="off")
    return Engine(request, planned_turn, Settings(mode="off"), stamp=STAMP, nonces=nonces, notes=notes)


def told(turn: PassthroughTurn | Engine, events: Sequence[Event]) -> tuple[list[Event], list[Action]]:
    """The events of a turn, and its other actions."""
    actions = [*turn.start()]
    for event in events:
        actions += turn.feed(1, event)
    actions += turn.end(1)
    emitted = [event for action in actions if isinstance(action, Emit) for event in action.events]
    return emitted, [action for action in actions if not isinstance(action, Emit)]


WORDS = st.text("abc {}[]`<>\n", max_size=12)


@st.composite
def calls(draw: st.DrawFn) -> list[Event]:
    """A call, of which the end may be missing."""
    index = draw(st.integers(0, 2))
    name, own = draw(st.sampled_from(["ping", "pong"])), draw(st.sampled_from(["", "call_1"]))
    pieces = draw(st.lists(st.sampled_from(["{", "}", '{"a":1}']), max_size=2))
    ends = draw(st.sampled_from([[], [CallEnd(index)], [CallEnd(index, False, (Note("arguments_invalid", "x"),))]]))
    return [CallStart(index, name, own), *(CallArgs(index, piece) for piece in pieces), *ends]


ANY_EVENTS = st.lists(
    st.one_of(
        calls(),
        st.one_of(
            WORDS.map(TextDelta),
            WORDS.map(ReasoningDelta),
            st.builds(lambda code: Noted(Note(code, "seen")), st.sampled_from(["odd", "even"])),
            st.just(OpaqueSeen(Opaque("audio", {"id": "a"}))),
            st.builds(lambda spent, said: UsageSeen(Usage(spent, said)), st.integers(0, 9), st.integers(0, 9)),
            st.sampled_from(["stop", "length", "tool_calls", "content_filter"]).map(Finish),  # type: ignore[arg-type]
        ).map(lambda event: [event]),
    ),
    max_size=8,
).map(lambda pieces: [event for piece in pieces for event in piece])
ENDS = st.sampled_from([[], [Failure("it fell over", "upstream", 500)], [Finish("stop")]])


REQUESTS = [
    REQUEST,
    msgspec.structs.replace(REQUEST, tools=(Tool("ping"),)),
    msgspec.structs.replace(REQUEST, tools=(Tool("ping"),), tool_choice=ToolChoice("none")),
    msgspec.structs.replace(REQUEST, tools=(Tool("pong"), Tool("pong")), tool_choice=ToolChoice("required")),
]


@given(ANY_EVENTS, ENDS, st.sampled_from([(), (Note("seen", "before"),)]), st.sampled_from(REQUESTS))
@pytest.mark.requirement("C5")
def test_it_says_what_the_engine_says(events: list[Event], end: list[Event], notes: tuple[Note, ...], request: Request):
    given_events = [*events, *end]
    assert told(passage(*notes, request=request), given_events) == told(engine(*notes, request=request), given_events)


@check_each(
    ("changed", "events", "code"),
    [
        ({}, [TextDelta("x")], "no_tools"),
        ({"tools": (Tool("ping"),), "tool_choice": ToolChoice("none")}, [TextDelta("x")], "tool_choice_none"),
        ({"tools": (Tool("ping"),)}, [TextDelta("x")], "not_called"),
        ({"tools": (Tool("ping"),)}, [TextDelta("x"), Finish("length")], "length"),
        ({"tools": (Tool("ping"),)}, [Failure("it fell over")], "upstream_failed"),
        ({"tools": (Tool("ping"),)}, [CallStart(0, "ping"), CallArgs(0, "{}"), CallEnd(0)], ""),
    ],
)
def test_the_record_says_why_there_is_no_call(changed: dict[str, object], events: list[Event], code: str):
    turn = passage(request=msgspec.structs.replace(REQUEST, **changed))
    (done,) = [action for action in told(turn, events)[1] if isinstance(action, Done)]
    assert done.outcome.trace.no_call_code == code


@pytest.mark.requirement("C5")
def test_the_request_goes_up_as_it_is_and_the_answer_comes_back_as_it_is():
    turn = passage()
    assert turn.start() == [AskUpstream(1, REQUEST)]
    assert turn.feed(1, TextDelta("It rains.")) == [Emit([TextDelta("It rains.")])]
    assert turn.feed(1, UsageSeen(Usage(3, 2))) == []
    assert turn.feed(1, Finish("stop")) == []
    last, done = turn.end(1)
    assert last == Emit([UsageSeen(Usage(3, 2)), Finish("stop")])
    assert isinstance(done, Done)
    assert (done.outcome.requests, done.outcome.warnings, done.outcome.failure) == (1, (), None)
    (attempt,) = done.outcome.trace.attempts
    assert (attempt.phase, attempt.raw, attempt.usage) == ("relay", "It rains.", Usage(3, 2))


def test_a_call_that_nobody_offered_a_tool_for_goes_on_with_an_id_of_its_own():
    turn = passage()
    turn.start()
    call: list[Event] = [CallStart(0, "ping"), CallArgs(0, "{}"), CallEnd(0)]
    emitted = [event for each in call for action in turn.feed(1, each) for event in cast("Emit", action).events]
    assert emitted == told(engine(), call)[0][: len(emitted)]
    assert [type(event) for event in emitted] == [CallStart, CallArgs, CallEnd]
    assert turn.feed(1, ReasoningDelta("hm")) == [Emit([ReasoningDelta("hm")])]


def test_a_failure_stops_it_and_nothing_is_heard_behind_it():
    turn = passage()
    turn.start()
    failure = Failure("it fell over", "upstream", 500)
    stop, last, done = turn.feed(1, failure)
    assert (stop, last) == (StopAttempt(1), Emit([UsageSeen(Usage()), failure, Finish("error")]))
    assert isinstance(done, Done)
    assert done.outcome.failure == failure
    assert turn.feed(1, TextDelta("more")) == turn.end(1) == []


def test_what_belongs_to_another_attempt_is_ignored():
    turn = passage()
    turn.start()
    assert turn.feed(2, TextDelta("x")) == turn.end(2) == []


_TOOL = Tool("ping")


@check_each(
    ("changed", "settings", "does"),
    [
        ({}, {}, True),
        ({"tools": (_TOOL,)}, {}, False),
        ({"tools": (_TOOL,)}, {"mode": "off"}, True),
        ({"tools": (_TOOL,), "tool_choice": ToolChoice("required")}, {"mode": "off"}, True),
        ({"tool_choice": ToolChoice("required")}, {}, False),
        ({"tool_choice": ToolChoice("none")}, {}, False),
    ],
)
def test_only_a_request_that_is_not_to_be_changed_passes(
    changed: dict[str, object], settings: dict[str, str], does: bool
):
    request = msgspec.structs.replace(REQUEST, **changed)
    assert is_passthrough(request, planned(request, **settings)) is does


def split_actions(actions: Sequence[Action]) -> tuple[list[Event], list[Action]]:
    emitted = [event for action in actions if isinstance(action, Emit) for event in action.events]
    return emitted, [action for action in actions if not isinstance(action, Emit)]


def read_whole(events: list[Event], at: int, request: Request = REQUEST) -> tuple[list[Event], list[Action]]:
    """The actions of a turn that gets the events from a place on in one step."""
    turn = passage(request=request)
    actions = [*turn.start()]
    for event in events[:at]:
        actions += turn.feed(1, event)
    return split_actions([*actions, *turn.read_whole(1, events[at:])])


@given(ANY_EVENTS, ENDS, st.integers(0, 20), st.sampled_from(REQUESTS))
def test_the_rest_of_an_answer_is_read_as_event_by_event(
    events: list[Event], end: list[Event], at: int, request: Request
):
    assert read_whole([*events, *end], min(at, len(events)), request) == told(passage(request=request), [*events, *end])


CUT: list[Event] = [CallStart(0, "ping", "c1"), CallArgs(0, '{"a":')]
ENDED: list[Event] = [UsageSeen(Usage(3, 2)), Finish("length")]


@check_each(
    ("events", "at"),
    [
        ([], 0),
        ([TextDelta("x"), *ENDED], 0),
        ([TextDelta("x"), *ENDED], 1),
        ([UsageSeen(Usage(1)), Finish("stop"), TextDelta("x")], 2),
        ([*CUT, *ENDED], 0),
        ([*CUT, *ENDED], 2),
        ([*CUT, CallArgs(0, "1}"), CallEnd(0), UsageSeen(Usage(3, 2)), Finish("stop")], 4),
        ([TextDelta("x"), Failure("it fell over"), *ENDED], 1),
        ([ReasoningDelta("Hm."), TextDelta("x"), *ENDED], 1),
    ],
)
def test_an_answer_that_arrives_in_two_steps_is_read_as_event_by_event(events: list[Event], at: int):
    assert read_whole(events, at) == told(passage(), events)
