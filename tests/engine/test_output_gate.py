"""The gate: what leaves a turn, when, under which number and id, and what is kept back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.core.chunking import PLACES, cut, joined
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Noted,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    fold,
)
from toolspeak.core.types import Note, Opaque, ToolChoice
from toolspeak.engine.turn.output_gate import CHECKED, LIVE, OutputGate, TextPolicy

pytestmark = pytest.mark.requirement("B11")

AUTO = ToolChoice()
BAD = Note("arguments_invalid", "`f`: it does not fit")
REFUSAL = "I'm sorry, but I don't have access to the weather."


def gate(choice: ToolChoice = AUTO, *, checked: bool = False, text: TextPolicy = "opening") -> OutputGate:
    made = OutputGate(choice, lambda index: f"emulated_7_{index}", CHECKED if checked else LIVE)
    made.begin(text)
    return made


def call(
    name: str, *fragments: str, index: int = 0, own: str = "", end: Literal["valid", "invalid", "none"] = "valid"
) -> list[Event]:
    pieces = [CallArgs(index, fragment) for fragment in fragments]
    ends: dict[str, list[Event]] = {"valid": [CallEnd(index)], "invalid": [CallEnd(index, False, (BAD,))], "none": []}
    return [CallStart(index, name, own), *pieces, *ends[end]]


def names(events: Iterable[Event]) -> list[str]:
    return [event.name for event in events if isinstance(event, CallStart)]


def text(events: Iterable[Event]) -> str:
    return fold(event for event in events if isinstance(event, TextDelta)).text


def codes(events: Iterable[Event]) -> list[str]:
    return [event.note.code for event in events if isinstance(event, Noted)]


# ---- text


def test_an_ordinary_answer_flows_at_once():
    passing = gate()
    assert passing.take([TextDelta("The weather ")]) == [TextDelta("The weather ")]
    assert passing.take([TextDelta("is fine.")]) == [TextDelta("is fine.")]
    assert passing.text_emitted


PART = OpaqueSeen(Opaque("signature", "S1"))


@check_each("policy", ["opening", "until_call"])
def test_what_stands_behind_a_held_text_does_not_overtake_it(policy: TextPolicy):
    passing = gate(text=policy)
    assert passing.take([PART, TextDelta("I'm "), TextDelta("sorry"), PART, ReasoningDelta("hm")]) == [PART]
    assert passing.take([TextDelta(", but"), PART]) == []
    held = [TextDelta("I'm sorry"), PART, ReasoningDelta("hm"), TextDelta(", but"), PART]
    assert passing.take(call("f", "{}", own="a")) == [*held, *call("f", "{}", own="a")]
    assert passing.take([PART]) == [PART]


def test_what_stands_behind_a_text_goes_with_it_when_it_turns_out_to_be_none_to_hold():
    passing = gate()
    assert passing.take([TextDelta("I'm sorry"), PART]) == []
    assert passing.take([TextDelta(" for the wait.")]) == [TextDelta("I'm sorry"), PART, TextDelta(" for the wait.")]


def test_white_space_keeps_nothing_waiting():
    passing = gate()
    assert passing.take([TextDelta("\n"), ReasoningDelta("hm"), PART]) == [ReasoningDelta("hm"), PART]
    assert passing.release() == []
    assert not passing.text_emitted


def test_what_stands_behind_a_text_that_is_thrown_away_goes_with_it():
    passing = gate()
    passing.take([TextDelta(REFUSAL), PART])
    passing.begin("opening")
    assert passing.release() == []


def test_the_answer_before_can_still_be_let_go_with_what_stands_in_it():
    passing = gate()
    passing.take([TextDelta(REFUSAL), PART])
    passing.begin("opening")
    passing.take([TextDelta("I'm")])
    assert passing.release(REFUSAL) == [TextDelta(REFUSAL), PART]


def test_a_text_in_place_of_the_held_one_stands_where_that_began():
    passing = gate(text="until_call")
    passing.take([TextDelta("a"), PART, TextDelta("b")])
    assert passing.release("ab!") == [TextDelta("ab!"), PART]
    passing.begin("until_call")
    assert passing.release("") == []


def test_parts_pass_where_a_call_does_not_let_the_text_go():
    passing = gate(text="to_end")
    assert passing.take([TextDelta("a"), PART]) == [PART]


def test_an_opening_that_may_be_a_refusal_is_held_and_dropped_when_it_is_asked_again():
    passing = gate()
    assert [passing.take([TextDelta(char)]) for char in REFUSAL] == [[]] * len(REFUSAL)
    assert (passing.held_text, passing.text_emitted) == (REFUSAL, False)
    passing.begin("opening")
    assert passing.held_text == ""
    assert passing.take([TextDelta("Sunny.")]) == [TextDelta("Sunny.")]


def test_a_refusal_that_nobody_asks_about_again_is_given_out():
    passing = gate()
    passing.take([TextDelta(REFUSAL)])
    assert passing.release() == [TextDelta(REFUSAL)]
    assert passing.text_emitted
    assert passing.release() == []


def test_an_opening_that_turns_out_to_be_none_leaves_whole():
    passing = gate()
    assert passing.take([TextDelta("I'm ")]) == []
    assert passing.take([TextDelta("happy to help.")]) == [TextDelta("I'm happy to help.")]
    assert passing.held_text == ""


def test_no_more_than_160_characters_are_held():
    passing = gate()
    long = f"I'm sorry, but I don't have access to {'very ' * 40}many things."
    out = [event for char in long for event in passing.take([TextDelta(char)])]
    first = out[0]
    assert isinstance(first, TextDelta)
    assert len(first.text) <= 160
    assert text(out) == long


def test_a_call_lets_the_text_before_it_go():
    passing = gate()
    assert passing.take([TextDelta("I cannot"), *call("f", "{}")])[:2] == [
        TextDelta("I cannot"),
        CallStart(0, "f", "emulated_7_0"),
    ]
    assert passing.take([TextDelta(" say more.")]) == [TextDelta(" say more.")]


@check_each("choice", [ToolChoice("required"), ToolChoice("named", ("f",))])
@check_each("checked", [True, False])
def test_where_a_call_is_demanded_text_is_held_until_it_comes(choice: ToolChoice, checked: bool):
    passing = gate(choice, checked=checked, text="until_call")
    assert passing.take([TextDelta("Let me look. " * 100)]) == []
    out = passing.take(call("f", "{}"))
    assert text(out[:1]) == "Let me look. " * 100
    assert names(out) == ["f"]
    assert text(passing.take([TextDelta("Done.")])) == "Done."


def test_a_checked_call_that_does_not_stand_lets_no_text_go():
    passing = gate(ToolChoice("required"), checked=True, text="until_call")
    assert text(passing.take([TextDelta("Let me look."), *call("f", "{}", end="invalid")])) == ""
    assert passing.held_text == "Let me look."


def test_text_that_must_be_checked_is_held_past_calls_and_may_be_replaced():
    passing = gate(text="to_end")
    assert text(passing.take([TextDelta("{'a'"), *call("f", "{}"), TextDelta(": 1}")])) == ""
    assert passing.held_text == "{'a': 1}"
    assert passing.release('{"a":1}') == [TextDelta('{"a":1}')]
    assert passing.release() == []


@pytest.mark.requirement("A12")
def test_a_decision_says_nothing_but_calls():
    passing = gate(text="never")
    out = passing.take([TextDelta("Thinking."), *call("f", "{}"), TextDelta("Done.")]) + passing.release()
    assert (text(out), names(out)) == ("", ["f"])
    assert not passing.text_emitted
    assert passing.release("something") == []


def test_white_space_does_not_count_as_text_that_has_left():
    passing = gate(text="until_call")
    passing.take([TextDelta("\n\n")])
    assert passing.release() == []
    assert not passing.text_emitted


@check_each("chunk", [1, 2, 100])
@check_each("policy", ["live", "opening", "until_call"])
@check_each(
    ("answer", "expected"),
    [
        (["\n\n", "f", " \n", "f", "\n"], "f f"),
        (["\n", "Sunny.\n", "f", "\n", "f"], "\nSunny.\n f f"),
        (["f", "\n\nDone. "], "f \n\nDone. "),
        (["f", "\n", "g", "\nDone.\n", "f", "\n"], "f g \nDone.\n f"),
    ],
)
@pytest.mark.requirement("B8")
def test_white_space_beside_a_call_is_dropped_unless_text_follows(
    answer: list[str], expected: str, policy: TextPolicy, chunk: int
):
    passing = gate(text=policy)
    out: list[Event] = []
    for index, part in enumerate(answer):
        is_call = part in ("f", "g")
        pieces = [part[at : at + chunk] for at in range(0, len(part), chunk)]
        out += passing.take(call(part, "{}", index=index) if is_call else [TextDelta(piece) for piece in pieces])
    out += passing.release()
    shown = [
        event.text if isinstance(event, TextDelta) else event.name
        for event in joined(out)
        if isinstance(event, TextDelta | CallStart)
    ]
    assert " ".join(shown) == expected


def test_what_is_relayed_keeps_its_white_space():
    passing = OutputGate(AUTO, str, trims=False)
    passing.begin("live")
    events = [TextDelta("\n"), *call("f", "{}", own="a"), TextDelta("\n")]
    assert passing.take(events) == events


# ---- text that contains a rejected call


@check_each("policy", ["live", "opening"])
def test_text_is_held_from_a_rejected_call_on(policy: TextPolicy):
    passing = OutputGate(AUTO, str, without_calls=lambda text: text.replace("<call>", ""))
    passing.begin(policy)
    assert text(passing.take([TextDelta("Sunny. ")])) == "Sunny. "
    passing.hold_text()
    assert passing.take([TextDelta("<call>"), TextDelta(" Done.")]) == []
    assert text(passing.release()) == " Done."


def test_text_with_a_rejected_call_goes_before_the_next_call_without_its_markup():
    passing = OutputGate(AUTO, str, without_calls=lambda text: text.replace("<call>", ""))
    passing.begin("live")
    passing.hold_text()
    out = passing.take([TextDelta("<call>\n"), *call("f", "{}"), TextDelta("Done.")])
    assert (text(out), names(out)) == ("Done.", ["f"])


# ---- text before calls that is dropped


def test_text_before_a_call_is_dropped_on_demand():
    passing = gate(text="without_call")
    out = passing.take([TextDelta("Let me look."), *call("f", "{}"), TextDelta("Done.")]) + passing.release()
    assert (text(out), names(out)) == ("", ["f"])
    assert [event.note.code for event in out if isinstance(event, Noted)] == ["text_dropped"]


def test_text_without_a_call_comes_at_the_end():
    passing = gate(text="without_call")
    assert passing.take([TextDelta("Sunny. "), TextDelta("Warm.")]) == []
    assert text(passing.release()) == "Sunny. Warm."


def test_everything_that_is_neither_text_nor_call_passes():
    events: list[Event] = [ReasoningDelta("Hm."), Noted(Note("x"))]
    assert gate(text="never").take(events) == events


# ---- tool_choice


@pytest.mark.requirement("A10")
@check_each("checked", [True, False])
@check_each(
    ("choice", "left", "dropped"),
    [
        (AUTO, ["f", "g", "f"], []),
        (ToolChoice("required"), ["f", "g", "f"], []),
        (ToolChoice("none"), [], ["call_not_allowed"] * 3),
        (ToolChoice("named", ("f",)), ["f"], ["call_not_allowed", "extra_call_dropped"]),
        (ToolChoice("named", ("g",)), ["g"], ["call_not_allowed", "call_not_allowed"]),
        (ToolChoice("required", ("g",)), ["g"], ["call_not_allowed", "call_not_allowed"]),
        (ToolChoice("auto", ("f",)), ["f", "f"], ["call_not_allowed"]),
        (ToolChoice(parallel=False), ["f"], ["extra_call_dropped"] * 2),
        (ToolChoice("required", ("f", "g"), parallel=False), ["f"], ["extra_call_dropped"] * 2),
    ],
)
def test_only_what_tool_choice_allows_leaves(choice: ToolChoice, left: list[str], dropped: list[str], checked: bool):
    passing = gate(choice, checked=checked)
    out = passing.take([*call("f", "{}"), *call("g", "{}", index=1), *call("f", "{}", index=2)])
    assert (names(out), codes(out)) == (left, dropped)
    assert passing.emitted_calls == len(left) == len(fold(out).calls)


@pytest.mark.requirement("A10")
@check_each("checked", [True, False])
def test_of_two_calls_that_come_at_the_same_time_only_one_leaves(checked: bool):
    passing = gate(ToolChoice(parallel=False), checked=checked)
    f, g = call("f", "{}"), call("g", "{}", index=1)
    out = passing.take([f[0], g[0], f[1], g[1], g[2], f[2]])
    assert len(fold(out).calls) == len(names(out)) == 1
    assert codes(out) == ["extra_call_dropped"]


@pytest.mark.requirement("A10")
def test_at_most_one_call_holds_for_the_whole_turn():
    passing = gate(ToolChoice(parallel=False))
    out = passing.take(call("f", end="invalid"))
    out += passing.take(call("g", "{}", index=1))
    passing.begin("opening")
    out += passing.take(call("g", "{}"))
    out += passing.take(call("f", '{"a":1}', index=1))
    out += passing.take(call("f", '{"a":2}', index=2))
    assert names(out) == ["f"]
    assert [made.arguments for made in fold(out).calls] == [{"a": 1}]
    assert codes(out) == ["arguments_invalid", "extra_call_dropped", "extra_call_dropped", "extra_call_dropped"]


def test_nothing_of_a_dropped_call_leaves():
    out = gate(ToolChoice("none")).take(call("f", '{"a":', "1}"))
    assert [type(event) for event in out] == [Noted]


# ---- live calls


@pytest.mark.requirement("B8")
def test_a_live_call_leaves_as_it_comes():
    passing = gate()
    assert passing.take([CallStart(0, "f")]) == [CallStart(0, "f", "emulated_7_0")]
    assert passing.take([CallArgs(0, '{"a":')]) == [CallArgs(0, '{"a":')]
    assert passing.emitted_calls == 0
    assert passing.take([CallArgs(0, "1}"), CallEnd(0)]) == [CallArgs(0, "1}"), CallEnd(0)]
    assert (passing.emitted_calls, passing.spoiled) == (1, False)


def test_a_live_call_that_is_wrong_when_something_of_it_has_left_is_closed_and_spoils_the_turn():
    passing = gate()
    out = passing.take(call("f", "{}", end="invalid"))
    assert out == [CallStart(0, "f", "emulated_7_0"), CallArgs(0, "{}"), CallEnd(0, False, (BAD,))]
    assert (passing.emitted_calls, passing.spoiled) == (0, True)
    assert passing.finish() == []


@pytest.mark.requirement("B6")
def test_a_call_that_was_cut_when_something_of_it_has_left_spoils_the_turn_and_gets_no_end():
    passing = gate()
    out = passing.take(call("f", '{"a":', end="none"))
    assert passing.spoiled
    passing.begin("opening")
    assert passing.spoiled
    assert not any(isinstance(event, CallEnd) for event in out + passing.finish())


def test_a_live_call_that_is_wrong_before_anything_has_left_may_be_made_again():
    passing = gate()
    out = passing.take(call("f", end="invalid"))
    assert out == [CallStart(0, "f", "emulated_7_0"), Noted(BAD)]
    assert not passing.spoiled
    passing.begin("opening")
    again = passing.take(call("f", '{"a":1}', index=5, own="other"))
    assert again == [CallArgs(0, '{"a":1}'), CallEnd(0)]
    assert passing.finish() == []
    assert [(made.id, made.arguments) for made in fold(out + again).calls] == [("emulated_7_0", {"a": 1})]


@pytest.mark.requirement("B6")
def test_a_call_that_was_cut_before_anything_has_left_may_be_made_again():
    passing = gate()
    out = passing.take(call("f", end="none"))
    passing.begin("opening")
    out += passing.take(call("f", '{"a":1}'))
    assert names(out) == ["f"]
    assert [made.arguments for made in fold(out).calls] == [{"a": 1}]


def test_an_announced_call_is_closed_when_another_is_made_in_its_place():
    passing = gate()
    passing.take(call("f", end="invalid"))
    passing.begin("opening")
    first, second, third, *rest = passing.take(call("g", "{}"))
    assert first == CallArgs(0, "{}")
    assert isinstance(second, CallEnd)
    assert (second.index, second.valid, [note.code for note in second.notes]) == (0, False, ["arguments_invalid"])
    assert third == CallStart(1, "g", "emulated_7_1")
    assert rest == [CallArgs(1, "{}"), CallEnd(1)]
    assert passing.finish() == []


def test_what_flows_is_known_beforehand():
    passing = gate(text="live")
    assert (passing.text_streams, passing.streaming_call) == (False, -1)
    passing.take([TextDelta(" ")])
    assert not passing.text_streams
    passing.take([TextDelta("Sunny."), CallStart(0, "f"), CallArgs(0, "{")])
    assert (passing.text_streams, passing.streaming_call) == (False, 0)  # white space after the call waits
    passing.take([CallArgs(0, "}"), CallEnd(0)])
    assert passing.streaming_call == -1
    passing.begin("never")
    assert not passing.text_streams


def test_an_announced_call_that_is_never_made_is_closed_at_the_end():
    passing = gate()
    out = passing.take(call("f", end="invalid"))
    passing.begin("opening")
    out += passing.take([TextDelta("Sunny.")])
    out += passing.finish()
    assert isinstance(out[-1], CallEnd)
    assert not out[-1].valid
    assert fold(out).calls == ()
    assert passing.finish() == []


def test_several_announced_calls_are_made_again_in_any_order():
    passing = gate()
    out = passing.take(
        [*call("f", end="invalid"), *call("g", end="invalid", index=1), *call("f", end="invalid", index=2)]
    )
    assert names(out) == ["f", "g"]  # the second `f` goes on with the first, of which nothing has left
    passing.begin("opening")
    out += passing.take([*call("g", '{"b":2}'), *call("f", '{"a":1}', index=1)])
    assert names(out) == ["f", "g"]
    assert [(made.name, made.arguments) for made in fold(out).calls] == [("f", {"a": 1}), ("g", {"b": 2})]
    assert passing.finish() == []


def test_all_announced_calls_are_closed_at_the_end():
    passing = gate()
    out = passing.take([*call("f", end="invalid"), *call("g", end="none", index=1)])
    passing.begin("opening")
    ends = [event.index for event in passing.finish() if isinstance(event, CallEnd) and not event.valid]
    assert (names(out), ends) == (["f", "g"], [0, 1])


# ---- checked calls


def test_a_checked_call_leaves_whole_when_it_is_valid():
    passing = gate(checked=True)
    assert passing.take(call("f", '{"a":', "1}", end="none")) == []
    note = Note("trailing_comma")
    assert passing.take([CallEnd(0, True, (note,))]) == [
        CallStart(0, "f", "emulated_7_0"),
        CallArgs(0, '{"a":1}'),
        CallEnd(0, True, (note,)),
    ]


def test_a_checked_call_without_arguments_has_an_empty_object():
    assert CallArgs(0, "{}") in gate(checked=True).take(call("f"))


def test_nothing_of_a_checked_call_leaves_that_is_not_valid():
    passing = gate(checked=True)
    out = passing.take([*call("f", '{"a":1}', end="invalid"), *call("g", '{"b":', index=1, end="none")])
    assert out == [Noted(BAD)]
    assert (passing.emitted_calls, passing.spoiled) == (0, False)
    passing.begin("opening")
    assert passing.finish() == []


# ---- calls that are held while they are short


def held(most: int = 8) -> OutputGate:
    made = OutputGate(AUTO, lambda index: f"emulated_7_{index}", most)
    made.begin("opening")
    return made


def test_a_short_call_leaves_whole_when_it_is_valid_and_not_at_all_when_it_is_not():
    passing = held()
    assert passing.take(call("f", '{"a"', ":1}", end="none")) == []
    assert passing.take([CallEnd(0)]) == [*call("f", '{"a":1}', own="emulated_7_0")]
    assert passing.take(call("f", '{"a":2}', index=1, end="invalid")) == [Noted(BAD)]
    assert not passing.spoiled


def test_a_long_call_streams_from_the_limit_on():
    passing = held()
    assert passing.take(call("f", '{"a":', end="none")) == []
    begun = [CallStart(0, "f", "emulated_7_0"), CallArgs(0, '{"a":"xyz')]
    assert passing.take([CallArgs(0, '"xyz')]) == begun
    assert passing.streaming_call == -1
    assert passing.take([CallArgs(0, '"}'), CallEnd(0)]) == [CallArgs(0, '"}'), CallEnd(0)]
    assert passing.emitted_calls == 1


def test_a_long_call_waits_for_an_earlier_one():
    passing = held()
    long = '{"a":"long"}'
    assert passing.take([CallStart(0, "f"), CallStart(1, "g"), CallArgs(1, long), CallArgs(0, "{}")]) == []
    out = passing.take([CallEnd(0)])
    assert out == [*call("f", "{}", own="emulated_7_0"), CallStart(1, "g", "emulated_7_1"), CallArgs(1, long)]
    assert passing.take([CallEnd(1)]) == [CallEnd(1)]


def test_a_long_call_that_turns_out_to_be_one_too_many_is_dropped():
    passing = OutputGate(ToolChoice(parallel=False), str, 8)
    passing.begin("opening")
    long = '{"a":"long"}'
    passing.take([CallStart(0, "f"), CallStart(1, "g"), CallArgs(1, long), CallArgs(0, "{}")])
    assert names(passing.take([CallEnd(0), CallArgs(1, " "), CallEnd(1)])) == ["f"]


# ---- numbers and ids


@pytest.mark.requirement("A11")
def test_calls_without_an_id_get_one_of_ours():
    out = gate().take([*call("f", "{}", index=7), *call("g", "{}", index=3)])
    assert [event for event in out if isinstance(event, CallStart)] == [
        CallStart(0, "f", "emulated_7_0"),
        CallStart(1, "g", "emulated_7_1"),
    ]
    assert [event.index for event in out if isinstance(event, CallArgs | CallEnd)] == [0, 0, 1, 1]


@pytest.mark.requirement("A11")
def test_native_ids_stay_and_doubles_are_renamed():
    passing = gate()
    out = passing.take(
        [*call("f", "{}", own="x"), *call("f", "{}", index=1, own="y"), *call("f", "{}", index=2, own="x")]
    )
    passing.begin("live")
    out += passing.take(call("f", "{}", own="y"))
    assert [made.id for made in fold(out).calls] == ["x", "y", "emulated_7_2", "emulated_7_3"]


def test_events_of_calls_that_never_began_are_ignored():
    assert gate().take([CallArgs(3, "{}"), CallEnd(3)]) == []


# ---- laws

_NAMES = st.sampled_from(["f", "g", "h"])
_ENDS: st.SearchStrategy[Literal["valid", "invalid", "none"]] = st.sampled_from(["valid", "invalid", "none"])
_TEXTS = st.sampled_from([REFUSAL, "I'm", " sorry", "Sunny.", "\n", "I cannot access " * 20, "x" * 170])
_CHOICES = st.sampled_from(
    [
        AUTO,
        ToolChoice("none"),
        ToolChoice("required"),
        ToolChoice("named", ("f",)),
        ToolChoice("auto", ("f", "g")),
        ToolChoice(parallel=False),
    ]
)
_POLICIES: st.SearchStrategy[TextPolicy] = st.sampled_from(
    ["live", "opening", "until_call", "to_end", "without_call", "never"]
)
#: One part of an answer: a text, or a call (name, arguments, end).
_PARTS = st.lists(_TEXTS | st.tuples(_NAMES, st.sampled_from(["", '{"a":"long text"}']), _ENDS), max_size=5)
_ANSWERS = st.lists(st.tuples(_POLICIES, _PARTS), min_size=1, max_size=3)

Part = str | tuple[str, str, Literal["valid", "invalid", "none"]]


def play(
    answers: list[tuple[TextPolicy, list[Part]]], places: Sequence[int], choice: ToolChoice, most: int
) -> tuple[OutputGate, list[Event]]:
    """A turn whose texts and arguments are cut at the places: the gate behind it, and what has left."""
    passing = OutputGate(choice, lambda index: f"emulated_7_{index}", most)
    left: list[Event] = []
    for policy, parts in answers:
        passing.begin(policy)
        for index, part in enumerate(parts):
            if isinstance(part, str):
                events: list[Event] = [TextDelta(piece) for piece in cut(part, places)]
            else:
                name, arguments, end = part
                pieces = [piece for piece in cut(arguments, places) if piece]
                events = call(name, *pieces, index=index, own="same", end=end)
            for event in events:
                flows = (
                    passing.text_streams
                    if isinstance(event, TextDelta)
                    else passing.streaming_call == getattr(event, "index", "")
                )
                out = passing.take([event])
                assert not (flows and isinstance(event, TextDelta | CallArgs)) or out == [event]
                left += out
    left += passing.release() + passing.finish()
    return passing, joined(left)


@given(_ANSWERS, PLACES, _CHOICES, st.sampled_from([LIVE, 8, CHECKED]))
def test_a_cut_never_changes_what_leaves(
    answers: list[tuple[TextPolicy, list[Part]]], places: Sequence[int], choice: ToolChoice, most: int
):
    (whole, all_at_once), (pieces, in_pieces) = (play(answers, cuts, choice, most) for cuts in ((), places))
    assert in_pieces == all_at_once
    assert (pieces.emitted_calls, pieces.text_emitted, pieces.spoiled) == (
        whole.emitted_calls,
        whole.text_emitted,
        whole.spoiled,
    )


@given(_ANSWERS, _CHOICES, st.sampled_from([LIVE, 8, CHECKED]))
def test_what_leaves_is_always_in_order(answers: list[tuple[TextPolicy, list[Part]]], choice: ToolChoice, most: int):
    passing, left = play(answers, [], choice, most)
    reply = fold(left)  # every fragment and end belongs to a call that has begun
    starts = [event for event in left if isinstance(event, CallStart)]
    ends = [event.index for event in left if isinstance(event, CallEnd)]
    assert [event.index for event in starts] == list(range(len(starts)))
    assert len({event.id for event in starts}) == len(starts)
    assert len(set(ends)) == len(ends)
    assert all(choice.permits(event.name) for event in starts)
    assert len(starts) <= 1 or not choice.single
    assert passing.emitted_calls == len(reply.calls)
    for index in ends:
        sent = "".join(event.fragment for event in left if isinstance(event, CallArgs) and event.index == index)
        assert isinstance(json.loads(sent or "{}"), dict)
    if most == CHECKED:
        assert len(reply.calls) == len(starts)


# ---- marks


@check_each(
    ("text", "shown"),
    [
        ('```json action k7q2xm\n{"tool": "nope"}\n```', '```json action\n{"tool": "nope"}\n```'),
        ("~~~json action k7q2xm\n", "~~~json action\n"),
        ("<tool_call k7q2xm>oops</tool_call>", "<tool_call>oops</tool_call>"),
        ("The mark is k7q2xm.", "The mark is k7q2xm."),
        ("```json action k7q2xmore", "```json action k7q2xmore"),
    ],
)
@check_each("policy", ["live", "to_end"])
def test_a_call_that_came_to_nothing_is_shown_without_its_mark(text: str, shown: str, policy: TextPolicy):
    made = OutputGate(AUTO, str, LIVE, "k7q2xm")
    made.begin(policy)
    note = Noted(BAD)
    out = made.take([TextDelta("a "), note]) + made.take([TextDelta(text), note]) + made.release()
    assert fold(out).text == f"a {shown}"


@check_each("size", [1, 7, 100])
def test_a_document_that_is_held_is_shown_without_its_mark_however_it_was_cut(size: int):
    text = '{"nonce": "k7q2xm", "tools": []} and {"nonce":"k7q2xm","tools":[]}'
    made = OutputGate(AUTO, str, LIVE, "k7q2xm")
    made.begin("to_end")
    for at in range(0, len(text), size):
        made.take([TextDelta(text[at : at + size])])
    assert fold(made.release()).text == '{"tools": []} and {"tools":[]}'


def test_without_marks_nothing_is_taken_out():
    made = OutputGate(AUTO, str)
    made.begin("live")
    assert made.take([TextDelta("```json action k7q2xm\n")]) == [TextDelta("```json action k7q2xm\n")]
