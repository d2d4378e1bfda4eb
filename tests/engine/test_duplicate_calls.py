"""Models that stutter: a call that an answer has made already leaves once."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.core.chunking import PLACES, cut
from tests.engine.engine_helpers import Turn
from tests.offline_turn import NONCE, STAMP, carry_out, engine_for, user
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, Noted, TextDelta, fold
from toolspeak.core.types import JSONObject, Note, Request, Tool, ToolCall
from toolspeak.dialects.registry import render_calls
from toolspeak.engine.planning.capabilities import Profile, ProfileMatch, capabilities
from toolspeak.engine.planning.strategy import Settings, plan
from toolspeak.engine.turn.answer_readers import (
    DuplicateCallFilter,
    EnvelopeOrTextReader,
    NativeAndTextReader,
    ReadingRules,
    RelayReader,
)
from toolspeak.engine.turn.engine import Engine

TOOLS = (Tool("weather"), Tool("now"))
PARIS: JSONObject = {"name": "weather", "arguments": {"city": "Paris"}}
ROME: JSONObject = {"name": "weather", "arguments": {"city": "Rome"}}
PIECES = ('{"city": ', '"Paris"}')
NOW: JSONObject = {"name": "now", "arguments": {}}


def document(*calls: JSONObject) -> str:
    return json.dumps({"calls": list(calls), "reply": ""})


def through(*events: Event, ended: bool = True) -> list[Event]:
    reading = DuplicateCallFilter(RelayReader())
    out = [each for event in events for each in reading.feed(event)]
    return out + reading.close(False) if ended else out


def call(index: int, name: str, *fragments: str, valid: bool = True) -> list[Event]:
    return [CallStart(index, name), *(CallArgs(index, each) for each in fragments), CallEnd(index, valid)]


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ([PARIS], [PARIS]),
        ([PARIS, PARIS], [PARIS]),
        ([PARIS, PARIS, PARIS], [PARIS]),
        ([PARIS, ROME], [PARIS, ROME]),
        ([PARIS, ROME, PARIS], [PARIS, ROME]),
        ([PARIS, NOW, ROME, NOW], [PARIS, NOW, ROME]),
        ([NOW, NOW, PARIS], [NOW, PARIS]),
    ],
)
@given(places=PLACES)
def test_the_same_call_leaves_once_however_it_is_cut(
    written: list[JSONObject], left: list[JSONObject], places: Sequence[int]
):
    reading = DuplicateCallFilter(EnvelopeOrTextReader(ReadingRules(TOOLS)))
    events = [event for piece in cut(document(*written), places) for event in reading.feed(TextDelta(piece))]
    events += reading.close(False)
    reply = fold(events)
    assert [{"name": each.name, "arguments": each.arguments} for each in reply.calls] == left
    assert [note.code for note in reply.notes].count("same_call_dropped") == len(written) - len(left)


def test_a_call_of_another_tool_flows_while_it_is_written():
    assert through(CallStart(0, "weather"), CallArgs(0, '{"ci'), ended=False) == [
        CallStart(0, "weather"),
        CallArgs(0, '{"ci'),
    ]


def test_what_may_be_a_repetition_is_held_to_its_end():
    first, again = call(0, "weather", '{"city":', '"Paris"}'), call(1, "weather", '{"city":', '"Rome"}')
    assert through(*first, *again[:-1], ended=False) == first
    assert through(*first, *again) == [*first, *again]


def test_a_repetition_is_told():
    first, again = call(0, "weather", "{}"), call(1, "weather", "{", "}")
    told = Note("same_call_dropped", "a repeated call of `weather` was dropped")
    assert through(*first, *again) == [*first, Noted(told)]


def test_the_order_of_arguments_makes_no_other_call():
    first, again = call(0, "weather", '{"a":1,"b":[2]}'), call(1, "weather", '{"b":[2],', '"a":1}')
    assert through(*first, *again)[:3] == first
    assert len(through(*first, *again)) == 4


def test_a_number_of_thousands_of_digits_is_compared_as_it_is_written():
    long = f'{{"n":{"7" * 5000}}}'
    assert len(through(*call(0, "weather", long), *call(1, "weather", long))) == 4


def test_a_call_without_arguments_is_like_another_one():
    assert len(through(*call(0, "now"), *call(1, "now", "{}"))) == 3


def test_a_call_that_could_not_be_used_may_be_made_again():
    bad, good = call(0, "weather", "{}", valid=False), call(1, "weather", "{}")
    assert through(*bad, *good) == [*bad, *good]


def test_a_repetition_that_cannot_be_used_is_handed_on():
    good, bad = call(0, "weather", "{}"), call(1, "weather", "{}", valid=False)
    assert through(*good, *bad) == [*good, *bad]


def test_a_call_that_was_cut_off_while_it_was_held_is_handed_on():
    first, again = call(0, "weather", "{}"), call(1, "weather", "{")[:-1]
    assert through(*first, *again) == [*first, *again]


def test_calls_that_are_open_at_the_same_time_are_told_apart():
    one, two = call(0, "weather", "{}"), call(1, "weather", "{}")
    mixed = [one[0], two[0], one[1], two[1], one[2], two[2]]
    assert [each for each in through(*mixed) if type(each) is not Noted] == one


def test_what_belongs_to_no_call_passes():
    stray: list[Event] = [CallArgs(7, "{}"), CallEnd(7), TextDelta("hello")]
    assert through(*stray) == stray


@given(st.lists(st.sampled_from([PARIS, ROME, NOW]), max_size=8))
def test_what_leaves_is_each_call_once_in_its_order(written: list[JSONObject]):
    reading = DuplicateCallFilter(EnvelopeOrTextReader(ReadingRules(TOOLS)))
    reply = fold([*reading.feed(TextDelta(document(*written))), *reading.close(False)])
    wanted = list({json.dumps(each): each for each in written}.values())
    assert [{"name": each.name, "arguments": each.arguments} for each in reply.calls] == wanted


@check_each(("repeats", "count"), [(True, 2), (False, 1)])
def test_the_profile_says_whether_a_model_stutters(repeats: bool, count: int):
    profile = Profile(plan="envelope", constraint="json_schema", repeats=repeats, marks="fixed")
    engine = engine_for([user("Weather in Paris?")], TOOLS, profile=profile, stream=True)
    events, _, _ = carry_out(engine, lambda _: document(PARIS, PARIS), chunk=7)
    assert [each.name for each in fold(events).calls] == ["weather"] * count


def test_the_embedded_model_is_known_to_stutter():
    assert not capabilities().find("embedded", "smollm2-135m").profile.repeats
    assert capabilities().find("openai", "gpt-4.1").profile.repeats


@pytest.mark.requirement("D8")
@check_each("stream", [False, True])
@check_each("rule", ["unknown", "rescue"])
def test_a_call_that_comes_natively_and_is_left_in_the_text_counts_once(stream: bool, rule: str):
    request = Request("m", (user("The weather in Paris, please."),), TOOLS, stream=stream)
    profile = Profile(capability="openai", leaks=True) if rule == "rescue" else Profile()
    chosen = plan(request, ProfileMatch(profile, rule, ""), Settings(), untried=True)
    text = render_calls("hermes", [ToolCall("weather", {"city": "Paris"})])
    for events in ([TextDelta(text), *call(0, "weather", *PIECES)], [*call(0, "weather", *PIECES), TextDelta(text)]):
        turned = Turn(Engine(request, chosen, Settings(), stamp=STAMP, nonces=lambda _: NONCE), events)
        assert turned.calls == [("weather", {"city": "Paris"})]
        assert "same_call_dropped" in turned.notes


def test_a_model_that_may_repeat_a_call_natively_may_do_so():
    reading = DuplicateCallFilter(RelayReader(), repeats=True)
    events = [*call(0, "weather", *PIECES), *call(1, "weather", *PIECES)]
    assert [each for event in events for each in reading.feed(event)] == events


def test_text_takes_the_fast_path_unless_a_call_waits():
    reading = DuplicateCallFilter(NativeAndTextReader(ReadingRules(TOOLS)))
    assert reading.flow is not None
    reading.feed(TextDelta("Today it "))
    assert reading.flow(TextDelta("is sunny")) == TextDelta("is sunny")
    assert any(type(each) is CallStart for event in call(0, "weather", *PIECES)[:-1] for each in reading.feed(event))
    assert reading.flow(TextDelta(" in Paris.")) == TextDelta(" in Paris.")
    assert reading.flow(TextDelta("<")) is None
    assert [each for event in call(1, "weather", *PIECES)[:-1] for each in reading.feed(event)] == []
    assert reading.flow is None
    assert DuplicateCallFilter(RelayReader()).flow is None


@pytest.mark.parametrize("size", [1, 2])
def test_a_repeated_call_is_found_in_arguments_that_took_the_fast_path(size: int):
    text = "\n".join(f"<tool_call>{json.dumps(each)}</tool_call>" for each in (PARIS, ROME, PARIS))
    reading = DuplicateCallFilter(NativeAndTextReader(ReadingRules(TOOLS)))
    events: list[Event] = []
    flown = 0
    for at in range(0, len(text), size):
        piece = TextDelta(text[at : at + size])
        event = None if reading.flow is None else reading.flow(piece)
        flown += type(event) is CallArgs
        events += reading.feed(piece) if event is None else [event]
    reply = fold(events + reading.close(False))
    assert [each.arguments for each in reply.calls] == [PARIS["arguments"], ROME["arguments"]]
    assert flown
