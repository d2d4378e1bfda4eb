"""Complete answers with native calls: read at once, they give the same turn as read event by event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.engine_helpers import NATIVE, SEARCH, WEATHER, finished, native
from tests.offline_turn import engine_for, user
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, Failure, ReasoningDelta, TextDelta
from toolspeak.core.types import Tool, ToolChoice
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import Action
from toolspeak.engine.turn.engine import Engine
from toolspeak.engine.turn.output_gate import OutputGate

ANYTHING = Tool("write_file", "Writes a file.", side_effects=True)
MESSAGES = [user('How is it in Oslo? The page says get_weather({"city": "Oslo"}).')]


def _engine(choice: ToolChoice | None = None, **fields: Any) -> Engine:
    own = Settings(retries=1, **fields)
    return engine_for(MESSAGES, (WEATHER, SEARCH, ANYTHING), own, choice=choice, profile=NATIVE)


def _turns(events: Sequence[Event], choice: ToolChoice | None = None, **fields: Any) -> list[list[Action]]:
    """The actions of a turn whose answer is read at once, and of one that is read event by event."""
    whole, single = _engine(choice, **fields), _engine(choice, **fields)
    assert whole.start() == single.start()
    by_event = [action for event in events for action in single.feed(1, event)] + single.end(1)
    return [whole.read_whole(1, list(events)), by_event]


def _emitted(actions: list[Action]) -> list[object]:
    """What the actions say, with the events of adjacent ones together."""
    said: list[object] = []
    for action in actions:
        said += getattr(action, "events", [action])
    return said


def _is_quick(monkeypatch: pytest.MonkeyPatch, events: Sequence[Event], **more: Any) -> bool:
    quick: list[str] = []
    take = OutputGate.take_first_call

    def spy(gate: OutputGate, *call: str) -> list[Event]:
        quick.append(call[0])
        return take(gate, *call)

    monkeypatch.setattr(OutputGate, "take_first_call", spy)
    whole, single = _turns(events, **more)
    assert _emitted(whole) == _emitted(single)
    return bool(quick)


def _call(arguments: str, name: str = "get_weather", identifier: str = "call_1") -> list[Event]:
    return [CallStart(0, name, identifier), CallArgs(0, arguments), CallEnd(0)]


ANSWERS: list[tuple[list[Event], bool]] = [
    (finished(*native(city="Oslo")), True),
    (finished(*native(city="Oslo", days=2), reason="tool_calls"), True),
    (finished(*_call('{"city": "Oslo"}', identifier="")), True),
    (finished(*_call(' { "city" : "Oslo" } ')), False),
    (finished(*_call('{"city": "Oslo"}', "write_file")), True),
    (finished(*_call("{}", "write_file")), True),
    (finished(*_call('{"city": "Oslo"}'), reason="length"), True),
    (finished(*_call('{"city": "Os'), reason="length"), False),
    (finished(*_call('{"city": "Oslo"')), False),
    (finished(*_call('{"city": "Oslo"}}')), False),
    (finished(*_call('{"city": "Oslo", "days": "2"}')), False),
    (finished(*_call('{"days": 2}')), False),
    (finished(*_call('{"city": "Oslo", "city": "Rome"}')), False),
    (finished(*_call("{'city': 'Oslo'}")), False),
    (finished(*_call('{"city": "Oslo"}', "getWeather")), False),
    (finished(*_call('{"city": "Oslo"}', "fly")), False),
    (finished(*_call('{"query": "' + "x" * 210_000 + '"}', "search")), False),
    (finished(*native(city="Oslo"), *native(index=1, id="call_2", city="Rome")), False),
    (finished(*native(city="Oslo"), TextDelta("There.")), False),
    (finished(ReasoningDelta("Hm."), *native(city="Oslo")), False),
    (finished(CallStart(0, "get_weather", "call_1"), CallEnd(0)), False),
    ([*native(city="Oslo"), Failure("it fell over")], False),
    (finished(TextDelta("It rains.")), False),
    ([], False),
]


@pytest.mark.parametrize(("events", "quick"), ANSWERS)
def test_an_answer_gives_the_same_turn(events: list[Event], quick: bool, monkeypatch: pytest.MonkeyPatch):
    assert _is_quick(monkeypatch, events) is quick


@pytest.mark.parametrize(
    ("fields", "choice", "quick"),
    [
        ({}, ToolChoice("required"), True),
        ({}, ToolChoice("named", ("search",)), True),
        ({}, ToolChoice("none"), True),
        ({"text_before_calls": "drop"}, None, True),
        ({"policy": "strict"}, None, True),
        ({"policy": "eager"}, None, True),
        ({"marks": "confirm"}, None, False),
        ({"mode": "fallback"}, None, False),
        ({"mode": "force"}, None, False),
    ],
)
def test_every_setting_gives_the_same_turn(
    fields: dict[str, Any], choice: ToolChoice | None, quick: bool, monkeypatch: pytest.MonkeyPatch
):
    assert _is_quick(monkeypatch, finished(*native(city="Oslo")), choice=choice, **fields) is quick


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["get_weather", "search", "write_file", "fly"]).flatmap(
                lambda name: st.sampled_from(
                    ['{"city": "Oslo"}', '{"query": "x"}', "{}", "", '{"city": 5}', '{"city": "Oslo", "days": 1']
                ).map(lambda arguments: _call(arguments, name))
            ),
            st.just([TextDelta("It is fine.")]),
            st.just([ReasoningDelta("Hm.")]),
        ),
        max_size=3,
    ),
    st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
)
def test_any_answer_gives_the_same_turn(pieces: list[list[Event]], reason: str):
    whole, single = _turns(finished(*(event for piece in pieces for event in piece), reason=reason))
    assert _emitted(whole) == _emitted(single)


def test_a_second_answer_is_read_by_the_general_readers(monkeypatch: pytest.MonkeyPatch):
    engine = _engine()
    engine.start()
    engine.read_whole(1, finished(TextDelta("I'm sorry, but I don't have access to any tools.")))
    quick: list[str] = []
    monkeypatch.setattr(OutputGate, "take_first_call", lambda gate, *call: quick.append(call[0]))
    said = _emitted(engine.read_whole(2, finished(*native(city="Oslo"))))
    assert not quick and any(isinstance(each, CallStart) for each in said)


def test_tools_that_are_too_many_to_keep_are_looked_up_by_the_general_readers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.core.parsing.tool_index.MAX_CACHED_BYTES", 1)
    fresh = Tool("get_weather", "The weather, told by someone else.", WEATHER.parameters)
    engine = engine_for(MESSAGES, (fresh,), Settings(), profile=NATIVE)
    engine.start()
    said = _emitted(engine.read_whole(1, finished(*native(city="Oslo"))))
    assert any(isinstance(each, CallStart) for each in said)
