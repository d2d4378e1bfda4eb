"""Native calls: their arguments are read, repaired, aligned and judged like those of calls in text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.core.chunking import ANY_TEXT, PLACES, cut, joined
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, Judged, fold
from toolspeak.core.parsing.context import ParseContext
from toolspeak.core.types import Note, Tool
from toolspeak.engine.turn.native_call_checks import JsonPieces, NativeCalls

pytestmark = pytest.mark.requirement("B4", "B8")

WEATHER = Tool(
    "weather",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
TOOLS = (WEATHER, Tool("now"), Tool("mail", side_effects=True), Tool("shell"))
PARIS = '{"city":"Paris"}'


CallEvent: TypeAlias = CallStart | CallArgs | CallEnd


def read(*events: CallEvent, cut: bool = False, first: int = 0, whole: bool = False) -> list[Event]:
    calls = NativeCalls(ParseContext(TOOLS), first, whole=whole)
    out = [made for event in events for made in calls.feed(event)]
    return out + calls.close(cut)


def call(name: str, *fragments: str, index: int = 0, own: str = "c", end: bool = True) -> list[CallEvent]:
    pieces = [CallArgs(index, fragment) for fragment in fragments]
    return [CallStart(index, name, own), *pieces, *([CallEnd(index)] if end else [])]


def made(events: Iterable[Event]) -> list[tuple[str, object]]:
    return [(each.name, each.arguments) for each in fold(events).calls]


def codes(events: Iterable[Event]) -> list[str]:
    return [note.code for note in fold(events).notes]


# ---- one call


def test_a_call_goes_out_with_its_own_id_while_it_comes():
    calls = NativeCalls(ParseContext(TOOLS))
    assert calls.feed(CallStart(0, "weather", "abc")) == [CallStart(0, "weather", "abc")]
    assert calls.feed(CallArgs(0, '{"city": "Pa')) == [CallArgs(0, '{"city":"Pa')]
    assert calls.feed(CallArgs(0, "ris")) == [CallArgs(0, "ris")]
    end = joined(calls.feed(CallArgs(0, '"}')) + calls.feed(CallEnd(0)))
    assert end[:2] == [CallArgs(0, '"}'), CallEnd(0)]
    judged = end[2]
    assert isinstance(judged, Judged)
    assert (judged.candidate.verdict, judged.candidate.dialect) == ("call", "native")
    assert judged.candidate.arguments == {"city": "Paris"}
    assert calls.close(cut=False) == []


@check_each("fragments", [(), ("",), ("", ""), (" ",), ("", "\n", "")])
def test_a_call_without_arguments_has_an_empty_object(fragments: tuple[str, ...]):
    assert made(read(*call("now", *fragments))) == [("now", {})]


@check_each("fragments", [("", PARIS), (PARIS, ""), (" ", PARIS, " "), tuple(PARIS)])
def test_empty_fragments_mean_nothing(fragments: tuple[str, ...]):
    events = read(*call("weather", *fragments))
    assert made(events) == [("weather", {"city": "Paris"})]
    assert codes(events) == []


@check_each(
    ("fragment", "arguments", "told"),
    [
        ('{"city": "Paris",}', {"city": "Paris"}, ["trailing_comma"]),
        ("{'city': 'Paris'}", {"city": "Paris"}, ["single_quotes"]),
        ('{city: "Paris"}', {"city": "Paris"}, ["unquoted_key"]),
        ('{"city": "Paris"', {"city": "Paris"}, ["missing_closer"]),
        ('"{\\"city\\": \\"Paris\\"}"', {"city": "Paris"}, ["string_arguments"]),
        ('{"city": "Paris"} Done.', {"city": "Paris"}, ["trailing_text"]),
    ],
)
def test_broken_arguments_are_repaired_and_noted(fragment: str, arguments: object, told: list[str]):
    events = read(*call("weather", fragment))
    assert made(events) == [("weather", arguments)]
    assert codes(events) == told


@pytest.mark.requirement("B5")
@check_each(
    ("fragment", "arguments"),
    [
        ('{"city": "Paris", "days": "3"}', {"city": "Paris", "days": 3}),
        ('{"city": "Paris", "colour": "red"}', {"city": "Paris"}),
    ],
)
def test_arguments_are_aligned_to_the_schema(fragment: str, arguments: object):
    events = read(*call("weather", fragment))
    assert made(events) == [("weather", arguments)]
    assert codes(events)


@pytest.mark.requirement("B5", "B11")
def test_a_call_whose_arguments_do_not_fit_is_closed_as_invalid():
    events = read(*call("weather", "{}"))
    assert not any(isinstance(event, CallArgs) for event in events)
    (end,) = [event for event in events if isinstance(event, CallEnd)]
    assert not end.valid
    assert [note.code for note in end.notes] == ["arguments_invalid"]
    assert made(events) == []


@pytest.mark.requirement("B11")
@check_each("fragment", ['{"days": 3}', '{"days": 3, "days": }', '{"days": 3, !!! }', '{"days": 3' + "[" * 200])
def test_a_call_of_which_something_has_left_is_closed_as_valid_json(fragment: str):
    events = read(*call("weather", *fragment))
    sent = "".join(event.fragment for event in events if isinstance(event, CallArgs))
    assert json.loads(sent)["days"] == 3
    assert [event.valid for event in events if isinstance(event, CallEnd)] == [False]
    assert made(events) == []


@pytest.mark.requirement("B11")
def test_arguments_nobody_can_read_are_refused():
    events = read(*call("now", "}{"))
    (end,) = [event for event in events if isinstance(event, CallEnd)]
    assert (end.valid, made(events)) == (False, [])
    assert "arguments_invalid" in codes(events)


@pytest.mark.requirement("B4")
@check_each("name", ["mail", "shell"])
def test_a_repair_that_may_change_a_value_is_never_executed_where_it_changes_the_world(name: str):
    events = read(*call(name, '{"text": "rm -rf /tmp/x"'))
    assert made(events) == []
    assert "unsafe_repair" in codes(events)


@pytest.mark.requirement("B6")
@check_each("name", ["weather", "mail"])
def test_arguments_that_end_inside_a_string_are_incomplete_whatever_the_upstream_says(name: str):
    events = read(*call(name, '{"city": "Par'))
    assert made(events) == []
    assert [candidate.verdict for candidate in fold(events).candidates] == ["truncated"]


@pytest.mark.requirement("R-E6")
@check_each("fragment", ['{"city": "a", "city": "b"}', '{"city": "\\ud800"}'])
def test_what_no_reader_agrees_on_is_refused(fragment: str):
    assert made(read(*call("weather", fragment))) == []


@pytest.mark.requirement("R-E6")
def test_a_name_in_another_case_means_the_tool():
    assert [name for name, _ in made(read(*call("Weather", PARIS)))] == ["weather"]


@pytest.mark.requirement("R-E6")
@check_each("name", ["wether", "", "other.weather"])
def test_only_known_names_are_called(name: str):
    events = read(*call(name, PARIS))
    assert not any(isinstance(event, CallStart | CallArgs | CallEnd) for event in events)
    (candidate,) = fold(events).candidates
    assert candidate.verdict == "text"


# ---- the end


@pytest.mark.requirement("B6")
@check_each("end", [True, False])
@check_each("fragment", ["", '{"city": "Par', '{"city": "Paris"', "{"])
def test_a_call_that_was_cut_off_gets_no_end(fragment: str, end: bool):
    events = read(*call("weather", fragment, end=end), cut=True)
    assert CallStart(0, "weather", "c") in events
    assert not any(isinstance(event, CallEnd) for event in events)
    reply = fold(events)
    assert (reply.calls, reply.complete) == ((), False)
    assert [candidate.verdict for candidate in reply.candidates] == ["truncated"]


@pytest.mark.requirement("B6")
def test_a_limit_takes_only_the_call_that_it_hit():
    first, second = call("weather", PARIS, index=0), call("weather", '{"city": "Ro', index=1)
    assert made(read(*first, *second, cut=True)) == [("weather", {"city": "Paris"})]


def test_a_whole_call_needs_no_end_of_its_own():
    assert made(read(*call("weather", PARIS, end=False))) == [("weather", {"city": "Paris"})]
    assert made(read(*call("weather", PARIS, end=False), cut=True)) == [("weather", {"city": "Paris"})]


def test_what_comes_behind_the_end_of_a_call_is_ignored():
    events = read(*call("now", "{}"), CallArgs(0, "more"), CallEnd(0), CallArgs(7, "x"), CallEnd(7))
    assert made(events) == [("now", {})]


# ---- several calls


def test_calls_may_interleave_and_keep_their_ids():
    a, b = call("weather", PARIS, index=3, own="a"), call("now", "{}", index=1, own="b")
    mixed: list[CallEvent] = [a[0], b[0], a[1], b[1], b[2], a[2]]
    reply = fold(read(*mixed))
    assert [(each.name, each.id) for each in reply.calls] == [("weather", "a"), ("now", "b")]


def test_an_upstream_may_number_all_its_calls_alike():
    events = read(*call("weather", PARIS, own="a", end=False), *call("now", "{}", own="b", end=False))
    assert [(each.name, each.id) for each in fold(events).calls] == [("weather", "a"), ("now", "b")]


def test_a_dropped_call_takes_no_number():
    events = read(*call("nobody", "{}", index=0), *call("now", "{}", index=1, own="b"))
    assert CallStart(0, "now", "b") in events


def test_numbers_begin_where_they_are_told_to():
    events = read(*call("now", "{}"), *call("now", "{}", index=1), first=50)
    assert {event.index for event in events if isinstance(event, CallStart | CallArgs | CallEnd)} == {50, 51}


# ---- laws


_TEXTS = (PARIS, '{"city": "a\\u00e9\\ud83d\\ude00", "days": "2"}', "{'city': 'x'} y", "nonsense", "")


@given(st.lists(st.tuples(st.sampled_from(_TEXTS) | ANY_TEXT, PLACES), min_size=1, max_size=3))
def test_a_cut_between_fragments_never_changes_the_result(texts: list[tuple[str, list[int]]]):
    whole = [event for index, (text, _) in enumerate(texts) for event in call("weather", text, index=index)]
    pieces = [
        event
        for index, (text, places) in enumerate(texts)
        for event in call("weather", *cut(text, places), index=index)
    ]
    assert joined(read(*pieces)) == joined(read(*whole))


_PLAIN = st.dictionaries(
    st.sampled_from(["city", "days", "more"]),
    st.text(max_size=8) | st.integers() | st.booleans() | st.none() | st.lists(st.text(max_size=4), max_size=2),
).map(json.dumps)


@given(
    st.sampled_from(["weather", "now", "shell", "nobody"]), st.sampled_from(_TEXTS) | ANY_TEXT | _PLAIN, st.booleans()
)
def test_a_call_that_nobody_streams_is_read_when_it_is_whole_and_is_the_same(name: str, text: str, cut: bool):
    for end in (True, False):
        events = call(name, text[:5], text[5:], end=end)
        assert joined(read(*events, cut=cut, whole=True)) == joined(read(*events, cut=cut))


def test_nothing_of_a_call_that_nobody_streams_leaves_before_its_end():
    calls = NativeCalls(ParseContext(TOOLS), whole=True)
    assert calls.feed(CallStart(0, "weather", "abc")) == [CallStart(0, "weather", "abc")]
    assert calls.feed(CallArgs(0, PARIS)) == []
    assert made([CallStart(0, "weather", "abc"), *calls.feed(CallEnd(0))]) == [("weather", {"city": "Paris"})]
    assert calls.close(cut=False) == []


_EVENTS = st.one_of(
    st.builds(
        CallStart, st.integers(0, 2), st.sampled_from(["weather", "now", "shell", "nobody", ""]), st.text(max_size=2)
    ),
    st.builds(
        CallArgs,
        st.integers(0, 2),
        ANY_TEXT | st.sampled_from(['{"city":', '"Paris"', "}"]),
    ),
    st.builds(CallEnd, st.integers(0, 2)),
)


@given(st.lists(_EVENTS, max_size=20), st.booleans())
def test_no_order_of_events_does_harm(events: list[CallEvent], cut: bool):
    out = read(*events, cut=cut)
    for each in fold(out).calls:
        assert each.name in ("weather", "now", "shell")
        assert each.name != "weather" or isinstance(each.arguments["city"], str)


@pytest.mark.requirement("R-T12")
def test_what_stands_behind_the_arguments_is_shown_in_short_and_not_kept():
    pieces = JsonPieces()
    assert [token for tokens in pieces.feed('{"a": 1} ') for token in tokens]
    assert pieces.trailing_text == ""
    for _ in range(100):
        assert list(pieces.feed("more text ")) == []
    assert pieces.trailing_text == ("more text " * 100)[:64].rstrip()


def test_what_stands_behind_a_value_is_the_same_however_it_comes():
    text = "{}" + " " * 70 + "a" + " " * 70 + "b"
    whole, single = JsonPieces(), JsonPieces()
    list(whole.feed(text))
    for char in text:
        list(single.feed(char))
    assert whole.trailing_text == single.trailing_text == "a"


def test_nothing_stands_behind_a_value_that_has_no_end():
    pieces = JsonPieces()
    list(pieces.feed('{"a": "b'))
    assert pieces.trailing_text == ""


def test_a_note_of_a_repair_stands_with_its_call():
    events = read(*call("now", '{"a": 1,}'))
    assert fold(events).calls[0].notes == (Note("trailing_comma"),)
