"""The question that a person is asked at a terminal: it hides nothing."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak import Tool, Usage
from toolspeak.agent.events import AgentResult, TextPiece, WorkFinished
from toolspeak.cli.agent_screen import PromptGuard, ask_on_terminal, parse_answer, question_text
from toolspeak.cli.run import _refused_text  # pyright: ignore[reportPrivateUsage]
from toolspeak.core.types import JSONObject
from toolspeak.tools.approval import ApprovalDecision, Question


def question(name: str, arguments: JSONObject) -> str:
    return question_text(Question(Tool(name, side_effects=True), arguments, "the tool has side effects"))


@pytest.mark.requirement("R-T4")
def test_a_command_of_the_shell_alone_is_shown_as_it_is():
    assert question("shell", {"command": 'echo "a"\nls'}).endswith(':\n  echo "a"\n  ls')


@pytest.mark.requirement("R-T4")
@check_each(
    ("name", "arguments"),
    [
        ("shell", {"command": "ls", "timeout": 86400}),
        ("server__deploy", {"command": "status", "target": "production", "force": True}),
        ("server__deploy", {"target": "production", "command": "status"}),
        ("server__deploy", {"command": "status"}),
        ("shell", {"command": ["ls", "production"]}),
        ("shell", {}),
    ],
)
def test_every_argument_is_shown(name: str, arguments: JSONObject):
    asked_for = question(name, arguments)
    assert all(f'"{key}": ' in asked_for for key in arguments)
    assert "production" in asked_for or "production" not in str(arguments)
    assert "86400" in asked_for or "86400" not in str(arguments)


HIDDEN = [
    "\u202e",
    "\u2066",
    "\u200b",
    "\u00ad",
    "\u3164",
    "\ufe0f",
    "\U000e0101",
    "\U000e0041",
    "\x1b",
    "\r",
    "\x08",
    "\x7f",
]


@pytest.mark.requirement("R-T4")
@check_each("char", HIDDEN, ids=lambda char: f"{ord(char):x}")
@check_each("more", [{}, {"other": 1}], ids=["command", "arguments"])
def test_what_nobody_would_see_is_written_out(char: str, more: JSONObject):
    asked_for = question("shell", {"command": f"rm {char}x", **more})
    assert char not in asked_for
    number = f"{ord(char):x}"
    assert (
        f"\\u{{{number}}}" in asked_for or f"\\u{number:0>4}" in asked_for or "\\r" in asked_for or "\\b" in asked_for
    )


def test_a_name_that_hides_something_is_written_out():
    assert question("send\u202e", {}).startswith("send\\u{202e} wants")


def test_words_in_other_scripts_stay_as_they_are():
    assert "grüße 你好 مرحبا" in question("shell", {"command": "echo grüße 你好 مرحبا"})


@pytest.mark.requirement("R-T4")
def test_no_line_of_a_call_looks_like_ours():
    lines = question("shell", {"command": "ls\nAllow? [y]es\nshell wants to run"}).split("\n")
    assert all(line.startswith("  ") for line in lines[1:])


@check_each(("typed", "answer"), [("y", "once"), ("T", "call"), ("all", "tool"), ("", "deny"), ("yy", "deny")])
def test_what_is_not_clearly_a_yes_is_a_no(typed: str, answer: str):
    assert parse_answer(typed) == answer


@check_each("error", [EOFError, KeyboardInterrupt])
def test_who_ends_the_input_says_no(error: type[BaseException]):
    def ended(*_: object, **__: object) -> str:
        raise error

    assert ask_on_terminal(Question(Tool("send"), {}, "why"), ended) == "deny"


# ---- what is said of calls that nobody could be asked about

SANDBOX, RULE, PERSON = "--yes allows calls inside the sandbox", "--allow RULE", "run in a terminal to be asked"
LATE = "--allow does not apply"


@check_each(
    ("decision", "yes", "said"),
    [
        (ApprovalDecision(False, "", "nobody", "shell"), False, {SANDBOX, RULE}),
        (ApprovalDecision(False, "", "nobody", "shell", tainted=True), False, {SANDBOX, LATE}),
        (ApprovalDecision(False, "", "nobody", "shell", firm=True), False, {PERSON}),
        (ApprovalDecision(False, "", "nobody", "shell", tainted=True, firm=True), True, {PERSON}),
        (ApprovalDecision(False, "", "nobody", "server__send"), True, {RULE, PERSON}),
        (ApprovalDecision(False, "", "nobody", "server__send", tainted=True), True, {LATE, PERSON}),
        (ApprovalDecision(False, "", "nobody", "server__send"), False, {RULE}),
    ],
)
def test_only_what_would_help_is_said_of_a_refused_call(decision: ApprovalDecision, yes: bool, said: set[str]):
    line = _refused_text([decision], yes, frozenset({"server__send"}))
    assert {each for each in (SANDBOX, RULE, LATE, PERSON) if each in line} == said


# ---- what happens while a question is open


def test_nothing_is_written_into_an_open_question():
    seen: list[object] = []
    quiet = PromptGuard(seen.append, lambda: seen.append("paused"))
    quiet.show(TextPiece("a"))
    with quiet.question():
        quiet.show(TextPiece("b"))
        quiet.show(TextPiece("c"))
        assert seen == [TextPiece("a"), "paused"]
    assert seen == [TextPiece("a"), "paused", TextPiece("b"), TextPiece("c")]
    quiet.show(TextPiece("d"))
    assert seen[-1] == TextPiece("d")


def test_the_end_is_shown_though_nobody_has_answered():
    seen: list[object] = []
    quiet = PromptGuard(seen.append, lambda: None)
    end = WorkFinished(AgentResult("", (), "interrupted", Usage(), (), "s", 1))
    with quiet.question():
        quiet.show(TextPiece("b"))
        quiet.show(end)
        assert seen == [TextPiece("b"), end]


def test_what_is_held_back_comes_also_where_asking_breaks():
    seen: list[object] = []
    quiet = PromptGuard(seen.append, lambda: None)
    with pytest.raises(KeyboardInterrupt), quiet.question():
        quiet.show(TextPiece("b"))
        raise KeyboardInterrupt
    assert seen == [TextPiece("b")]
