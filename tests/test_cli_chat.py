"""`toolspeak chat`: line by line from a pipe, and on a terminal of its own."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from tests.cases import check_each
from tests.cli_agent_helpers import READ, Played, Terminal, alone, served
from toolspeak import Note, Tool, ToolCall, ToolResult, Usage
from toolspeak.agent.events import (
    AgentResult,
    CallStarted,
    OutputPiece,
    ResultReady,
    RoundComplete,
    RoundStarted,
    TextPiece,
    ThoughtPiece,
    WorkFinished,
)
from toolspeak.cli import main
from toolspeak.cli.agent_screen import (
    LineScreen,
    LiveScreen,
    ask_on_terminal,
    call_text,
    clean,
    closing_line,
    parse_answer,
    question_text,
    round_text,
)
from toolspeak.core.events import Event
from toolspeak.core.types import Request
from toolspeak.engine.planning.capabilities import capabilities
from toolspeak.engine.rounds.transcript import CallRecord, Round
from toolspeak.tools.approval import Question

pytest.importorskip("sqlalchemy")


#: What a terminal is told when a line can be typed.
READY = "\x1b[?2004h"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield alone(tmp_path, monkeypatch)
    capabilities().configure()


def chat(lines: str, *arguments: str) -> Result:
    runner = CliRunner(catch_exceptions=False)
    return runner.invoke(main, ("chat", *arguments), input=lines, prog_name="toolspeak")


# ---- from a pipe


@pytest.mark.requirement("H2", "F8")
def test_lines_are_answered_and_rounds_can_be_opened():
    model = Played(READ, "Three crowns.", "You asked for the price.")
    with served(model) as url:
        result = chat("What does bread cost?\n\n/show\n/show 1\nWhat did I ask?\n/quit\n", "--upstream", url)
    out = result.stdout
    assert result.exit_code == 0
    assert out.index("I read it.") < out.index("→ read_file(notes.txt)") < out.index("Three crowns.")
    collapsed, _, opened = out.partition("▾ round 1")
    assert collapsed.count("▸ round 1: read_file(notes.txt)") == 2  # as it happened, and on /show
    assert 'read_file {"path":"notes.txt"}' in opened
    assert "Bread costs 3 crowns." in opened
    assert "You asked for the price." in opened
    assert "Resume: toolspeak chat --session" in result.stderr


@pytest.mark.requirement("H2")
def test_what_was_said_last_can_be_undone():
    model = Played("Hello.", READ, "Three crowns.", "Four.")
    lines = "Hi.\nWhat does bread cost?\n/undo\nWhat does milk cost?\n/undo\n/undo\n/undo\n"
    with served(model) as url:
        result = chat(lines, "--upstream", url)
    last = model.asked[-1]
    said = "\n".join(message.text for message in last.messages)
    assert "Hi." in said
    assert "milk" in said
    assert "bread" not in said
    assert "nothing to undo" in result.stderr


@pytest.mark.requirement("F7", "H2")
def test_another_session_can_be_taken_up():
    with served(Played("Hello.")) as url:
        first = chat("Hi.\n", "--upstream", url)
    session = first.stderr.rpartition("--session ")[2].strip()
    model = Played("You said hi.")
    with served(model) as url:
        second = chat(f"/resume\n/resume {session[:8]}\nWhat did I say?\n", "--upstream", url)
    assert session[:8] in second.stdout
    assert f"Session {session}" in second.stdout
    assert any(message.text == "Hi." for message in model.asked[0].messages)


def test_an_interrupted_answer_is_resumed():
    model = Played(READ)
    with served(model) as url:
        first = chat("What does bread cost?\n", "--upstream", url)
    session = first.stderr.rpartition("--session ")[2].strip()
    with served(Played("Three crowns.")) as url:
        assert "Three crowns." in chat("/resume\n", "--upstream", url, "--session", session).stdout


@pytest.mark.requirement("H2")
def test_tools_modes_and_help_are_shown():
    model = Played("A.", "B.")
    with served(model) as url:
        result = chat(
            "/help\n/tools\n/mode\n/mode chat-only\nA?\n/mode force\nB?\n/mode odd\n/what\n/show\n",
            "--upstream", url, "--no-store",
        )  # fmt: skip
    assert "/undo" in result.stdout
    assert "* shell" in result.stdout
    assert "mode: default" in result.stdout
    assert "mode: chat-only" in result.stdout
    assert "unknown mode `odd`" in result.stderr
    assert "unknown command `/what`" in result.stderr
    chat_only, forced = ("\n".join(message.text for message in request.messages) for request in model.asked)
    assert "read_file" not in chat_only
    assert "read_file" in forced


def test_without_tools_there_are_none():
    with served(Played()) as url:
        assert "no tools" in chat("/tools\n/resume\n", "--upstream", url, "--tools", "none", "--no-store").stdout


def test_a_line_that_gets_no_answer_makes_the_exit_status_1():
    failed = chat("Hi.\n/tools\n", "--upstream", "http://127.0.0.1:1/v1", "--no-store")
    assert failed.exit_code == 1
    assert chat("/nonsense\n", "--upstream", "http://127.0.0.1:1/v1", "--no-store").exit_code == 1
    assert chat("/tools\n", "--upstream", "http://127.0.0.1:1/v1", "--no-store").exit_code == 0


def test_a_session_that_is_not_kept_is_not_offered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.cli.agent_options.find_spec", lambda name: None)
    with served(Played("Hello.")) as url:
        result = chat("Hi.\n", "--upstream", url)
    assert "the session is not saved" in result.stderr
    assert "go on with" not in result.stderr


# ---- on a terminal


@pytest.fixture
def endless() -> Iterator[Any]:
    class Endless(Played):
        """Waits with its first turn until it is let go, and then goes on as any other."""

        def __init__(self) -> None:
            super().__init__(("", [("shell", {"command": "echo hi"})]), "I may not.")
            self.begun, self.over = threading.Event(), threading.Event()

        def __call__(self, request: Request) -> list[Event]:
            if not self.begun.is_set():
                self.begun.set()
                self.over.wait(30)
                return []
            return super().__call__(request)

    model = Endless()
    yield model
    model.over.set()


@pytest.mark.requirement("H2", "F6", "F7")
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_on_a_terminal_ctrl_c_cancels_the_round_and_calls_have_to_be_allowed(endless: Any):
    pytest.importorskip("prompt_toolkit")
    with served(endless) as url:
        terminal = Terminal("chat", "--upstream", url)
        try:
            terminal.wait_for(READY)
            terminal.type("Wait.\r")
            assert endless.begun.wait(30)
            terminal.type("\x03")
            terminal.wait_for("interrupted:")
            terminal.wait_for("cancelled")
            endless.over.set()
            terminal.wait_for(READY)
            terminal.type("Say hi.\r")
            terminal.wait_for("Allow?")
            terminal.type("n\r")
            terminal.wait_for("I may not.")
            terminal.wait_for(READY)
            terminal.type("\x04")
            terminal.wait_for("Resume:")
            assert terminal.process.wait(30) == 0
        finally:
            terminal.close()


# ---- the parts


LOOK = ToolCall("look", {"at": "home"}, "c1")
MADE = Round("Hm.", (CallRecord(LOOK, "finished", False, ToolResult("c1", "\x1b[31mno", "look", True), 0.5),))


def _result(status: Any = "complete", notes: tuple[Note, ...] = (), content: str = "Done.") -> AgentResult:
    return AgentResult(content, (), status, Usage(), notes, "s", 1)


@pytest.mark.requirement("H2")
def test_the_round_under_way_is_redrawn_and_collapses_to_one_line():
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, color_system=None, width=100, height=20)
    screen = LiveScreen(console)
    for event in (
        RoundStarted(1),
        TextPiece("I will look.\n"),
        ThoughtPiece("hm"),
        CallStarted(LOOK),
        OutputPiece("c1", "one\ntwo\n\x1b]0;evil\x07three\nfour\nfive"),
        ResultReady(LOOK, ToolResult("c1", "no", "look", True)),
        RoundComplete(1, MADE),
        RoundStarted(2),
        TextPiece("Done."),
        WorkFinished(_result(notes=(Note("limit_rounds", "2 rounds have been made"),))),
    ):
        screen.show(event)
    text = written.getvalue()
    assert "I will look." in text
    assert "→ look(home)" in text
    assert "    five" in text
    assert "✗ look(home)" in text
    assert "\x1b]0;evil" not in text
    end = text.rpartition("▸ round 1: look(home) (0.5 s, 1 failed)")[2]
    assert "I will look." not in end
    assert "Done." in end
    assert "stopped: 2 rounds have been made" in end


@pytest.mark.requirement("R-T20")
def test_nothing_that_is_shown_steers_the_terminal():
    assert clean("a\x1b[2Jb\x9bmc\r\nd\te\u202e") == "abc\nd\te"
    assert "\x1b" not in round_text(1, MADE)
    assert call_text(ToolCall("x\x1b", {"a": 1, "b": "\x1b"})).isprintable()


@pytest.mark.requirement("H6")
@check_each(
    ("result", "line"),
    [
        (_result(), ""),
        (_result("failed", (Note("failed", "it is down"),)), "error: it is down"),
        (_result("interrupted", (Note("interrupted", "cancelled"),)), "interrupted: cancelled"),
        (_result(notes=(Note("loop_broken", "again and again"),)), "stopped: again and again"),
        (
            _result(notes=(Note("no_call", "no tools reached the model"),)),
            "no tool call: no tools reached the model",
        ),
    ],
)
def test_the_end_is_told_in_one_line(result: AgentResult, line: str):
    assert closing_line(result) == line
    said: list[str] = []
    LineScreen(said.append).show(WorkFinished(result))
    assert list(map(click.unstyle, said)) == ([line] if line else [])


@pytest.mark.requirement("F6")
def test_who_is_asked_sees_the_whole_call_and_says_yes_clearly():
    shell = Tool("shell", side_effects=True)
    question = Question(shell, {"command": "rm -rf \x1b[8m/"}, "the tool has side effects", tainted=True)
    assert question_text(question).endswith(":\n  rm -rf \\u{1b}[8m/")
    assert "check carefully" in question_text(question)
    assert '"a": 1' in question_text(Question(shell, {"a": 1}, "why", sandboxed=True))
    assert [parse_answer(typed) for typed in ("y", " YES ", "t", "a", "n", "", "maybe")] == [
        "once", "once", "call", "tool", "deny", "deny", "deny",
    ]  # fmt: skip

    def gone(*_: object, **__: object) -> str:
        raise EOFError

    assert ask_on_terminal(question, gone) == "deny"
    assert ask_on_terminal(question, lambda *_, **__: "y") == "once"
