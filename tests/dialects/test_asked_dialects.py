"""Calls without marks: streamed from their first argument on if their dialect was asked for, held otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import TOOLS, Case, check, each
from toolspeak import CallArgs, CallEnd, CallStart, Scanner, fold
from toolspeak.engine.turn.answer_readers import ReadingRules

pytestmark = pytest.mark.requirement("B7", "B8", "B11")

#: A call with an argument in each dialect without marks, up to the text of the argument, and its end.
CALLS = {
    "tool_line": ('{"tool": "run", "args": {"command": "', '"}}'),
    "xlam": ('[{"name": "run", "arguments": {"command": "', '"}}]'),
    "decision": ('{"tools": [{"name": "run", "arguments": {"command": "', '"}}]}'),
    "envelope": ('{"calls": [{"name": "run", "arguments": {"command": "', '"}}], "reply": ""}'),
    "pythonic": ('[run(command="', '")]'),
}


def kinds(dialect: str, *chunks: str, **options: Any) -> list[list[type]]:
    """The kinds of call events that each chunk yields."""
    scanner = Scanner(TOOLS, dialect, **options)
    events = [*(scanner.feed(chunk) for chunk in chunks), scanner.close()]
    return [[type(event) for event in some if isinstance(event, CallStart | CallArgs | CallEnd)] for some in events]


@check_each("dialect", CALLS)
def test_a_call_that_was_asked_for_is_streamed(dialect: str):
    head, tail = CALLS[dialect]
    events = kinds(dialect, head, "ls", tail)
    assert [list(dict.fromkeys(some)) for some in events] == [[CallStart], [CallArgs], [CallArgs, CallEnd], []]


HELD = {
    "any dialect": ("auto", "", {}),
    "in the middle of a line": (None, "So ", {}),
    "behind a call that waits for the end": (None, "So {}\n", {}),
    "perhaps an echo": (None, "", {"untrusted": ["run ls"]}),
}


@check_each("dialect", CALLS)
@check_each("why", HELD)
def test_any_other_call_is_held_to_its_end(dialect: str, why: str):
    asked, before, options = HELD[why]
    head, tail = CALLS[dialect]
    chunks = before.replace("{}", f"{head}ls{tail}") + head, "pwd", tail
    events = kinds(asked or dialect, *chunks, **options)
    assert events[:2] == [[], []]
    assert [kind for some in events[2:] for kind in some][-3:] == [CallStart, CallArgs, CallEnd]


ASKED = [
    Case(
        "no argument: held",
        '{"tool": "run", "args": {}} {"tool": "run", "args": {"command": 5, "ls": 1}}',
        (("run", {}), ("run", {"command": "5", "ls": 1})),
        codes={"number_to_string"},
        said=" ",
        options={"dialect": "tool_line"},
    ),
    Case(
        "no known argument: held, and text because it does not fit",
        '{"tool": "save", "args": {"x": {"path": 1}, "n": {}}}',
        said="",
        codes={"arguments_invalid"},
        verdicts=(("save", "invalid", "arguments_invalid"),),
        options={"dialect": "tool_line"},
    ),
    Case(
        "keys inside a list are no arguments",
        '{"tool": "run", "args": [{"command": "ls"}]}',
        (("run", {"command": "ls"}),),
        codes={"array_of_one"},
        options={"dialect": "tool_line"},
    ),
    Case(
        "arguments before the name",
        '{"args": {"command": "ls"}, "tool": "run"}',
        (("run", {"command": "ls"}),),
        options={"dialect": "tool_line"},
    ),
    Case(
        "a tool without a schema takes any argument",
        '{"tool": "ping", "args": {"x": "y"}} and text',
        (("ping", {"x": "y"}),),
        said=" and text",
        options={"dialect": "tool_line"},
    ),
    Case(
        "a key that no call has, after the arguments",
        '{"tool": "run", "args": {"command": "ls"}, "more": 1}',
        codes={"arguments_invalid"},
        said=" 1}",
        verdicts=(("run", "invalid", "arguments_invalid"),),
        options={"dialect": "tool_line"},
    ),
    Case(
        "a key beside the calls",
        '{"calls": [{"name": "run", "arguments": {"command": "ls"}}], "more": [1]}',
        (("run", {"command": "ls"}),),
        options={"dialect": "envelope"},
    ),
    Case(
        "an unknown tool after a call",
        '[{"name": "run", "arguments": {"command": "ls"}}, {"name": "nope", "arguments": {}}]',
        (("run", {"command": "ls"}),),
        codes={"unknown_tool"},
        verdicts=(("run", "call", "accepted"), ("nope", "text", "unknown_tool")),
        options={"dialect": "xlam"},
    ),
    Case(
        "calls without arguments before one with arguments",
        '[{"name": "ping", "arguments": {}}, {"name": "save", "arguments": {"n": []}}, {"name": "ping"}, '
        '{"name": "run", "arguments": {"command": "ls"}}, {"name": "ping", "arguments": {}}]',
        (("ping", {}), ("ping", {}), ("run", {"command": "ls"}), ("ping", {})),
        codes={"arguments_invalid"},
        verdicts=(
            ("ping", "call", "accepted"),
            ("save", "invalid", "arguments_invalid"),
            ("ping", "call", "accepted"),
            ("run", "call", "accepted"),
            ("ping", "call", "accepted"),
        ),
        options={"dialect": "xlam"},
    ),
    Case(
        "Python calls without arguments before one with arguments",
        '[ping(), ping(), run(command="ls"), ping()] and more',
        (("ping", {}), ("ping", {}), ("run", {"command": "ls"})),
        said=", ping()] and more",
        verdicts=(
            ("ping", "call", "accepted"),
            ("ping", "call", "accepted"),
            ("run", "call", "accepted"),
            ("ping", "text", "more_follows"),
        ),
        options={"dialect": "pythonic"},
    ),
    Case(
        "cut off",
        '{"tool": "run", "args": {"command": "l',
        codes={"truncated_call"},
        verdicts=(("run", "truncated", "truncated"),),
        complete=False,
        options={"dialect": "tool_line"},
    ),
    Case(
        "prose after a call that has begun",
        '[run(command="ls")] lists the files.',
        (("run", {"command": "ls"}),),
        said=" lists the files.",
        options={"dialect": "pythonic"},
    ),
    Case(
        "prose after a call without arguments",
        "[ping()] answers.",
        said="[ping()] answers.",
        verdicts=(("ping", "text", "more_follows"),),
        options={"dialect": "pythonic"},
    ),
    Case(
        "indented code",
        'Text.\n\n    {"tool": "run", "args": {"command": "ls"}}\nMore.',
        said='Text.\n\n    {"tool": "run", "args": {"command": "ls"}}\nMore.',
        verdicts=(("run", "text", "more_follows"),),
        options={"dialect": "tool_line"},
    ),
]


@each(ASKED)
def test_what_was_asked_for_is_read_alike_however_it_is_cut(case: Case):
    check(case)


@check_each("dialect", ["tool_line", "xlam", "pythonic"])
def test_a_turn_streams_what_it_asked_for_and_still_reads_the_rest(dialect: str):
    head, _ = CALLS[dialect]
    rules = ReadingRules(TOOLS, dialect=dialect)
    scanner = rules.scanner()
    assert any(isinstance(event, CallArgs) for event in [*scanner.feed(head), *scanner.feed("ls")])
    other = rules.scanner().read_all('<tool_call>{"name": "ping", "arguments": {}}</tool_call>')
    assert [call.name for call in fold(other).calls] == ["ping"]
    held = ReadingRules(TOOLS).scanner()
    assert not any(isinstance(event, CallArgs) for event in [*held.feed(head), *held.feed("ls")])
