"""`toolspeak run`: one task, its answer, its events, and its exit status."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from tests.cli_agent_helpers import READ, Played, Terminal, alone, served
from toolspeak.cli import main
from toolspeak.cli.config import load_config
from toolspeak.cli.run import reported_failures
from toolspeak.core.events import Event
from toolspeak.core.types import Request
from toolspeak.engine.planning.capabilities import capabilities
from toolspeak.store import open_store
from toolspeak.tools.sandbox import Sandbox

pytest.importorskip("sqlalchemy")

RAW = str(Path(__file__).parent / "tools" / "mcp_raw_server.py")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield alone(tmp_path, monkeypatch)
    capabilities().configure()


def run(*arguments: str, said: str = "") -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, ("run", *arguments), input=said, prog_name="toolspeak")


@pytest.mark.requirement("F1", "F8", "H2")
def test_the_answer_goes_to_standard_output_and_the_rounds_to_standard_error():
    with served(Played(READ, "Three crowns.")) as url:
        result = run("What does bread cost?", "--upstream", url)
    assert result.exit_code == 0
    assert result.stdout == "Three crowns.\n"
    assert "→ read_file(notes.txt)" in result.stderr
    assert "✓ read_file: " in result.stderr
    assert "Bread costs 3 crowns." in result.stderr
    assert "▸ round 1: read_file(notes.txt)" in result.stderr


@pytest.mark.requirement("F8")
def test_every_event_is_a_line_of_json_where_that_is_wanted():
    with served(Played(READ, "Three crowns.")) as url:
        result = run("What does bread cost?", "--upstream", url, "--json", "--no-store")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind] == [
        "round_started", "text", "call_started", "result_ready", "round_complete", "round_started", "text", "finished",
    ]  # fmt: skip
    assert events[-1]["result"]["content"] == "Three crowns."


@pytest.mark.requirement("F1")
def test_a_call_of_no_tool_is_answered_also_beside_calls_that_run():
    model = Played(("", [READ[1][0], ("fly", {"to": "Oslo"})]), "Three crowns.")
    with served(model) as url:
        result = run("What does bread cost?", "--upstream", url, "--no-store")
    assert result.stdout == "Three crowns.\n"
    assert "✓ read_file: " in result.stderr
    assert "✗ fly: " in result.stderr
    said = "\n".join(message.text for message in model.asked[-1].messages)
    assert "Bread costs 3 crowns." in said
    assert "There is no tool `fly`. Nothing was run." in said


@pytest.mark.requirement("F6", "R-T4")
def test_what_changes_something_is_not_run_where_nobody_can_be_asked(folder: Path):
    write = ("", [("write_file", {"path": "new.txt", "content": "x"}), ("shell", {"command": "touch other.txt"})])
    with served(Played(write, "I may not.")) as url:
        result = run("Write.", "--upstream", url)
    assert result.stdout == "I may not.\n"
    assert result.stderr.count("not allowed") == 2
    assert "2 calls were refused, because there is no terminal to ask for approval (write_file, shell)" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.requirement("F6", "H6")
@pytest.mark.parametrize(("typed", "status", "shown"), [("y\n", 0, "Written."), ("\x03", 130, "interrupted")])
def test_on_a_terminal_a_question_is_answered_or_interrupted(folder: Path, typed: str, status: int, shown: str):
    write = ("", [("write_file", {"path": "new.txt", "content": "x"})])
    with served(Played(write, "Written.")) as url:
        terminal = Terminal("run", "Write.", "--upstream", url, "--tools", "files", "--no-store")
        try:
            terminal.wait_for("Allow?")
            terminal.wait_for(": ")
            terminal.type(typed)
            terminal.wait_for(shown)
            assert terminal.process.wait(30) == status, terminal.seen
        finally:
            terminal.close()
    assert (folder / "new.txt").exists() is (status == 0)


@pytest.mark.system("bubblewrap")
@pytest.mark.requirement("F6")
@pytest.mark.parametrize("tools", ["shell,files", "files"])
def test_yes_counts_inside_the_sandbox_also_for_files_and_after_results(folder: Path, tools: str):
    outside = ("write_file", {"path": "../out.txt", "content": "x"})
    write = ("", [("write_file", {"path": "new.txt", "content": "x"}), outside])
    with served(Played(READ, write, "Half of it.")) as url:
        result = run("Write.", "--upstream", url, "--yes", "--tools", tools, "--no-store")
    assert "refused" not in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["new.txt", "notes.txt"]
    assert not (folder.parent / "out.txt").exists()


@pytest.mark.system("bubblewrap")
@pytest.mark.requirement("F6")
def test_yes_lets_the_shell_change_what_is_in_the_work_directory(folder: Path):
    with served(Played(("", [("shell", {"command": "echo y > other.txt"})]), "Done.")) as url:
        run("Write.", "--upstream", url, "--yes", "--no-store")
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", "other.txt"]


@pytest.mark.requirement("F13")
@pytest.mark.parametrize("how", ["flag", "configuration"])
def test_with_read_only_no_tool_with_side_effects_is_offered(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str):
    if how == "configuration":
        monkeypatch.setenv("TOOLSPEAK_APPROVAL", "read-only")
    write = ("", [("write_file", {"path": "new.txt", "content": "x"})])
    model = Played(READ, write, "I cannot.")
    with served(model) as url:
        flags = ["--approval", "read-only"] if how == "flag" else []
        result = run("Write.", "--upstream", url, "--no-store", *flags)
    prompt = "\n".join(message.text for message in model.asked[0].messages)
    assert ("read_file" in prompt, "write_file" in prompt, "shell(" in prompt) == (True, False, False)
    assert (result.exit_code, [path.name for path in folder.iterdir()]) == (0, ["notes.txt"])


@pytest.mark.system("bubblewrap")
@pytest.mark.requirement("F13")
@pytest.mark.parametrize("how", ["flag", "configuration"])
def test_auto_means_the_same_as_yes(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str):
    if how == "configuration":
        monkeypatch.setenv("TOOLSPEAK_APPROVAL", "auto")
    write = ("", [("write_file", {"path": "new.txt", "content": "x"})])
    with served(Played(READ, write, "Done.")) as url:
        flags = ["--approval", "auto"] if how == "flag" else []
        result = run("Write.", "--upstream", url, "--no-store", *flags)
    assert "refused" not in result.stderr
    assert (folder / "new.txt").exists()


@pytest.mark.requirement("F13")
def test_a_flag_beats_the_configured_approval_and_flags_may_not_contradict_each_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOOLSPEAK_APPROVAL", "auto")
    write = ("", [("write_file", {"path": "new.txt", "content": "x"})])
    with served(Played(write, "I may not.")) as url:
        refused = run("Write.", "--upstream", url, "--no-store", "--approval", "ask")
        both = run("Write.", "--upstream", url, "--no-store", "--yes", "--approval", "read-only")
    assert "1 call was refused" in refused.stderr
    assert (both.exit_code, "--yes contradicts --approval read-only" in both.stderr) == (2, True)


def test_a_file_in_the_working_directory_cannot_allow_calls(folder: Path):
    (folder / "toolspeak.toml").write_text('approval = "auto"\n')
    write = ("", [("write_file", {"path": "new.txt", "content": "x"})])
    with served(Played(write, "I may not.")) as url:
        run("Write.", "--upstream", url, "--no-store")
    assert not (folder / "new.txt").exists()


@pytest.mark.requirement("F6")
def test_yes_counts_nowhere_else(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Sandbox, "problem", lambda _: "there is none")
    write = ("", [("write_file", {"path": "new.txt", "content": "x"}), ("shell", {"command": "echo y > other.txt"})])
    with served(Played(write, "I may not.")) as url:
        result = run("Write.", "--upstream", url, "--yes", "--no-store")
    assert "2 calls were refused" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt"]


@pytest.mark.requirement("F6", "R-T4")
def test_a_rule_does_not_count_after_results_and_that_is_said(folder: Path):
    write = ("", [("write_file", {"path": "new.txt", "content": "x"})])
    with served(Played(READ, write, "I may not.")) as url:
        result = run("Write.", "--upstream", url, "--allow", "write_file", "--no-store")
    assert "1 call was refused" in result.stderr
    assert "--allow does not apply after tool results" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt"]


def test_the_help_says_what_is_covered():
    told = " ".join(run("--help").stdout.split())
    assert "shell commands and file changes in the work directory" in told
    assert "Applies until the model has read its first tool result" in told


def test_the_task_can_come_from_standard_input():
    model = Played("Three crowns.")
    with served(model) as url:
        result = run("-", "--upstream", url, "--no-store", said="What does bread cost?\n")
    assert result.stdout == "Three crowns.\n"
    assert "What does bread cost?" in model.asked[0].messages[-1].text
    assert run("-", said=" \n").exit_code == 2


@pytest.mark.requirement("F7")
def test_a_session_that_ended_before_its_first_message_takes_a_task():
    with open_store(load_config({}).store) as store:
        empty = asyncio.run(_made(store))
    assert "pass a task" in run("--session", empty, "--upstream", "http://127.0.0.1:1/v1").stderr
    with served(Played("Hello.")) as url:
        result = run("Hi.", "--session", empty[:12], "--upstream", url)
    assert (result.exit_code, result.stdout) == (0, "Hello.\n")


async def _made(store: Any) -> str:
    journal = await store.journal("")
    await journal.close()
    return journal.session


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_output_that_is_full_is_told_in_one_line(more: tuple[str, ...]):
    with served(Played("Three crowns.")) as url, Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "toolspeak", "run", "Hi.", "--upstream", url, "--no-store", *more]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=os.environ, timeout=60, check=False
        )
    assert done.returncode == 1
    assert "error: no space left on device\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_who_reads_no_more_is_told_nothing():
    with pytest.raises(BrokenPipeError), reported_failures():
        raise BrokenPipeError


def test_an_interrupt_that_nobody_takes_has_its_status():
    with pytest.raises(SystemExit) as left, reported_failures():
        raise KeyboardInterrupt
    assert left.value.code == 130


@pytest.mark.requirement("F6")
def test_a_rule_allows_the_calls_that_it_covers(folder: Path):
    write = ("", [("write_file", {"path": path, "content": "x"}) for path in ("a.txt", "b.md", "../c.txt")])
    with served(Played(write, "One of them.")) as url:
        result = run("Write.", "--upstream", url, "--allow", "write_file(*.txt)", "--no-store")
    assert result.stderr.count("not allowed") == 2
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "notes.txt"]


@pytest.mark.requirement("F1")
def test_a_limit_is_told_by_the_exit_status():
    turns = [("", [("read_file", {"path": "notes.txt", "offset": at})]) for at in (1, 2)]
    with served(Played(*turns, "That is all I know.")) as url:
        result = run("Read.", "--upstream", url, "--max-rounds", "2", "--no-store")
    assert result.exit_code == 3
    assert result.stdout == "That is all I know.\n"
    assert "2 rounds have been made" in result.stderr


@pytest.mark.requirement("F1", "F7")
def test_what_failed_can_be_gone_on_with():
    with served(Played(READ)) as url:
        failed = run("What does bread cost?", "--upstream", url)
    assert failed.exit_code == 1
    assert "error: " in failed.stderr
    session = failed.stderr.rpartition("--session ")[2].strip()
    model = Played("Three crowns.")
    with served(model) as url:
        resumed = run("--session", session[:10], "--upstream", url)
    assert (resumed.exit_code, resumed.stdout) == (0, "Three crowns.\n")
    assert any("3 crowns" in message.text for message in model.asked[0].messages)


def test_final_output_is_printed():
    with served(Played(("", [("final_output", {"summary": "All done."})]))) as url:
        assert run("Do it.", "--upstream", url, "--no-store").stdout == "All done.\n"


@pytest.mark.requirement("H6")
def test_why_there_was_no_call_is_said_in_one_line():
    with served(Played("Hello.")) as url:
        assert run("Hi.", "--upstream", url, "--no-store", "--tools", "files").stderr == ""
    with served(Played("I cannot do that, I have no tools." * 2)) as url:
        result = run("Hi.", "--upstream", url, "--no-store", "--tools", "none")
    assert "no tool call: no tools reached the model" in result.stderr


@check_each(
    ("arguments", "told"),
    [
        ((), "missing task"),
        (("-",), 'hint: write `toolspeak run "TASK"`, or use - to read the task from stdin'),
        (("x", "--model", "nope"), "unknown model `nope`"),
        (("x", "--tools", "fiels", "--model", "embedded:no-such-model"), "hint: did you mean `files`?"),
        (("x", "--tools", "rockets", "--upstream", "http://127.0.0.1:1/v1"), "unknown tool group `rockets`"),
        (("x", "--workdir", "/", "--upstream", "http://127.0.0.1:1/v1"), "`/`"),
        (("x", "--mcp-config", "none.json", "--upstream", "http://127.0.0.1:1/v1"), "none.json"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], told: str):
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.requirement("F5")
def test_tools_of_mcp_servers_come_from_a_file(folder: Path):
    pytest.importorskip("mcp")
    server = {"command": sys.executable, "args": [RAW, str(folder)], "readOnly": ["echo"]}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": {"raw": server}}))
    model = Played(("", [("raw__echo", {"text": "hello"})]), "It says hello.")
    with served(model) as url:
        result = run("Echo.", "--upstream", url, "--tools", "none", "--mcp-config", "servers.json", "--no-store")
    assert result.stdout == "It says hello.\n"
    assert "✓ raw__echo" in result.stderr


class _Endless(Played):
    """Says one thing and waits until it is told to end."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.over = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> list[Event]:
        self.begun.set()
        self.over.wait(20)
        return []


@pytest.mark.requirement("F7")
@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_ends_it_in_order(times: int):
    model = _Endless()
    with served(model) as url:
        command = [sys.executable, "-m", "toolspeak", "run", "Wait.", "--upstream", url, "--tools", "none"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
        try:
            assert model.begun.wait(20)
            for _ in range(times):
                process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=20)
        finally:
            process.kill()
            model.over.set()
    assert process.returncode == 130
    assert "interrupted" in told
    assert times == 2 or "Resume: toolspeak run --session" in told


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_on_a_terminal_stages_are_shown_and_the_answer_is_formatted():
    class Slow(Played):
        def __call__(self, request: Request) -> list[Event]:
            assert asked.wait(30)  # until the stage has been seen
            return super().__call__(request)

    asked = threading.Event()
    refusal = "I can't help with that, because I have no tools."
    with served(Slow(refusal, READ, "Bread costs **three crowns**.")) as url:
        terminal = Terminal("run", "What does bread cost?", "--upstream", url, "--no-store")
        try:
            terminal.wait_for("reading ")
            terminal.wait_for(" tokens")
            asked.set()
            terminal.wait_for("\x1b[36m→\x1b[0m read_file(notes.txt)")
            terminal.wait_for("\x1b[32m✓\x1b[0m read_file")
            terminal.wait_for("Bread costs \x1b[1mthree crowns\x1b[0m")
            assert terminal.process.wait(30) == 0
        finally:
            terminal.close()


def test_an_upstream_that_cannot_be_reached_is_reported_once():
    result = run("Hi.", "--upstream", "http://127.0.0.1:1/v1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].startswith("error: cannot connect to `127.0.0.1:1`: connection refused")
    assert "Errno" not in result.stderr
    assert "Resume" not in result.stderr
    assert result.stderr.count("cannot connect") == 1


def test_control_sequences_of_a_model_do_not_reach_a_pipe():
    with served(Played("\x1b[2J\x1b]0;title\x07Three crowns.")) as url:
        result = run("What does bread cost?", "--upstream", url, "--no-store")
    assert result.stdout == "Three crowns.\n"


def test_a_retry_within_a_round_is_an_event_with_its_reason():
    with served(Played("I can't help with that, because I have no tools.", "Three crowns.")) as url:
        result = run("What does bread cost?", "--upstream", url, "--no-store", "--json")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["reason"] for event in events if event["type"] == "retry_started"] == ["the model refused"]
    assert events[0]["tokens"] > 100  # the tools are counted, too
