"""Where candidates stand in an answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.time_growth import assert_linear
from toolspeak.core.types import tools_from
from toolspeak.server.recording.candidate_spans import Mark, marks_in

TOOLS = tools_from([{"name": "clock", "parameters": {"type": "object"}}, {"name": "ping"}]) or ()
FENCED = '```json action\n{"tool": "clock", "parameters": {}}\n```'
TAGGED = '<tool_call>{"name": "clock", "arguments": {}}</tool_call>'
UNKNOWN = '<tool_call>{"name": "nope", "arguments": {}}</tool_call>'

#: A text, and the stretches of it that are candidates, with how many there are in each.
CASES = {
    "one": (f"Hello.\n{FENCED}\n", [(FENCED, 1)]),
    "two, one of them rejected": (f"{UNKNOWN}\n{FENCED}", [(UNKNOWN, 1), (FENCED, 1)]),
    "the same twice": (f"{TAGGED}\n{TAGGED}", [(TAGGED, 1), (TAGGED, 1)]),
    "two in one block": ("[clock(), ping()]", [("[clock(), ping()]", 2)]),
    "cut off": ('So: <tool_call>{"name": "clock", "argu', [('<tool_call>{"name": "clock", "argu', 1)]),
    "thought of": (f"<think>{TAGGED}</think>Hello.", [(TAGGED, 1)]),
    "none": ("There is nothing here.", []),
}


@pytest.mark.requirement("H3")
@check_each("name", CASES)
def test_candidates_are_found_again_where_they_stand(name: str):
    text, expected = CASES[name]
    candidates = ts.parse(text, TOOLS).candidates
    found = marks_in(text, candidates, TOOLS, "standard", "")
    assert [(text[mark.start : mark.end], len(mark.candidates)) for mark in found] == expected
    assert sorted(number for mark in found for number in mark.candidates) == list(range(len(candidates)))


def test_what_lacks_the_nonce_is_shown_whole():
    text = f"{TAGGED}\n<tool_call k7q2xm>{{}}</tool_call k7q2xm>"
    candidates = ts.parse(text, TOOLS, nonce="k7q2xm").candidates
    first = marks_in(text, candidates, TOOLS, "standard", "k7q2xm")[0]
    assert text[first.start : first.end] == TAGGED


def test_native_calls_stand_nowhere_and_documents_are_whole():
    native = ts.parse(TAGGED, TOOLS).candidates[0]
    assert marks_in("text", [msgspec.structs.replace(native, dialect="native")], TOOLS, "standard", "") == ()
    document = msgspec.structs.replace(native, dialect="envelope")
    assert marks_in("{...}", [document, document], TOOLS, "standard", "") == (Mark(0, 5, (0, 1)),)


def test_of_many_that_are_shown_whole_each_is_read_once():
    def finding(count: int) -> Callable[[], object]:
        text = f"`{TAGGED}` " * count
        candidates = ts.parse(text, TOOLS).candidates
        marks = marks_in(text, candidates, TOOLS, "standard", "")
        assert [text[mark.start : mark.end] for mark in marks] == [TAGGED] * count
        return lambda: marks_in(text, candidates, TOOLS, "standard", "")

    assert_linear(finding, 160)


def test_what_is_not_found_again_stands_nowhere():
    (found,) = ts.parse(TAGGED, tools=TOOLS).candidates
    assert marks_in("nothing of the kind", [found], TOOLS, "standard", "") == ()
