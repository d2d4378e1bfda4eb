"""`toolspeak undo`, and the diffs that `run`, `chat` and `sessions show` print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.cases import size
from tests.cli_agent_helpers import Played, Terminal, alone, served
from toolspeak.cli import main
from toolspeak.cli.agent_screen import coloured_diff
from toolspeak.engine.planning.capabilities import capabilities

pytest.importorskip("sqlalchemy")
pytestmark = [
    pytest.mark.requirement("F10"),
    pytest.mark.skipif(sys.platform == "win32", reason="files cannot be opened relative to folders"),
]

EDIT = ("edit_file", {"path": "notes.txt", "old": "3 crowns", "new": "4 \x1b[31mcrowns"})
WRITE = ("write_file", {"path": "new/file.txt", "content": "x\n"})
BEFORE = {"notes.txt": "Bread costs 3 crowns.\n"}
AFTER = {"new/file.txt": "x\n", "notes.txt": "Bread costs 4 \x1b[31mcrowns.\n"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield alone(tmp_path, monkeypatch)
    capabilities().configure()


def texts(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in sorted(folder.rglob("*")) if each.is_file()}


def invoke(*arguments: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, arguments, prog_name="toolspeak")


def work(*made: tuple[str, dict[str, Any]], json_events: bool = False) -> Result:
    """A session that makes these calls in one answer."""
    rules = [argument for name in ("edit_file", "write_file", "shell") for argument in ("--allow", name)]
    with served(Played(("", made), "Done.")) as url:
        return invoke("run", "Go.", "--upstream", url, *rules, *(["--json"] if json_events else []))


# ---- diffs


@pytest.mark.requirement("F8")
def test_run_shows_what_changed_without_control_characters():
    result = work(EDIT)
    assert "  -Bread costs 3 crowns.\n  +Bread costs 4 \\x1b[31mcrowns.\n" in result.stderr
    assert "\x1b" not in result.output
    assert result.stdout == "Done.\n"


def test_every_change_is_an_event_of_json_where_that_is_wanted():
    events = [json.loads(line) for line in work(EDIT, WRITE, json_events=True).stdout.splitlines()]
    changed = [event for event in events if event["type"] == "file_changed"]
    assert [event["path"] for event in changed] == ["notes.txt", "new/file.txt"]
    assert changed[1]["diff"] == "--- /dev/null\n+++ b/new/file.txt\n@@ -0,0 +1,1 @@\n+x\n"


def test_a_stored_session_shows_its_diffs():
    work(EDIT)
    (session,) = json.loads(invoke("sessions", "list", "--json").stdout)
    shown = invoke("sessions", "show", session["id"]).stdout
    assert "  -Bread costs 3 crowns.\n  +Bread costs 4 \\x1b[31mcrowns.\n" in shown
    told = json.loads(invoke("sessions", "show", session["id"], "--json").stdout)
    (record,) = told["conversation"][1]["rounds"][0]["calls"]
    assert [each["path"] for each in record["diffs"]] == ["notes.txt"]
    assert "-Bread costs 3 crowns." in record["diffs"][0]["diff"]


def test_a_chat_shows_the_diff_and_shows_it_again_when_a_round_is_expanded():
    with served(Played(("", [WRITE]), "Done.")) as url:
        arguments = ("chat", "--upstream", url, "--allow", "write_file")
        result = CliRunner(catch_exceptions=False).invoke(main, arguments, input="Go.\n/show 1\n")
    assert result.stdout.count("+++ b/new/file.txt") == 2


def test_on_a_terminal_a_chat_prints_the_diff_above_its_answer():
    with served(Played(("", [WRITE]), "Done.")) as url:
        terminal = Terminal("chat", "--upstream", url, "--allow", "write_file", "--no-store")
        try:
            terminal.wait_for("Type /help")
            terminal.type("Go.\r")
            terminal.wait_for("+++ b/new/file.txt")
            terminal.wait_for("+x")
            terminal.wait_for("Done.")
        finally:
            terminal.close()


def test_the_lines_of_a_diff_are_coloured_and_a_long_one_is_shortened():
    diff = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-- a\n+b\t\r\n c\n"
    colours = {"@@ -1,2 +1,2 @@": "cyan", "-- a": "red", "+b\t\\r": "green"}
    shown = ["--- a/f", "+++ b/f", *colours, " c"]
    assert coloured_diff(diff) == "\n".join(f"  {click.style(line, fg=colours.get(line))}" for line in shown)
    assert coloured_diff(diff, 3).endswith("\x1b[0m\n  [3 more lines]\x1b[0m")


# ---- undo


@pytest.mark.requirement("F4", "F5")
@pytest.mark.system("bubblewrap")
@pytest.mark.parametrize("number", [2, 6, 20])
def test_all_edits_of_one_answer_survive_with_yes_and_are_undone(folder: Path, number: int):
    edits = [("edit_file", {"path": "list.txt", "old": f"<{at}>", "new": f"[{at}]"}) for at in range(number)]
    for _ in range(size(2, 100)):
        (folder / "list.txt").write_text("".join(f"<{at}>\n" for at in range(number)))
        with served(Played(("", edits), "Done.")) as url:
            assert invoke("run", "Go.", "--upstream", url, "--yes").exit_code == 0
        assert (folder / "list.txt").read_text() == "".join(f"[{at}]\n" for at in range(number))
        assert invoke("undo", "--yes").output == "restored list.txt\n"
        assert (folder / "list.txt").read_text() == "".join(f"<{at}>\n" for at in range(number))


def test_the_last_session_of_the_work_directory_is_undone_once(folder: Path):
    work(EDIT, WRITE)
    assert texts(folder) == AFTER
    looked = invoke("undo", "--dry-run")
    assert (looked.exit_code, looked.output) == (0, "would restore notes.txt\nwould delete new/file.txt\n")
    assert texts(folder) == AFTER
    done = invoke("undo", "--yes")
    assert (done.exit_code, done.output) == (0, "restored notes.txt\ndeleted new/file.txt\n")
    assert texts(folder) == BEFORE
    assert not (folder / "new").exists()
    again = invoke("undo", "--yes")
    assert (again.exit_code, again.stdout) == (0, "Nothing to undo in this work directory\n")
    assert "toolspeak sessions list" in again.stderr


def test_undo_goes_back_session_by_session(folder: Path):
    work(EDIT)
    between = texts(folder)
    work(WRITE)
    assert invoke("undo", "--yes").output == "deleted new/file.txt\n"
    assert texts(folder) == between
    assert invoke("undo", "--yes").output == "restored notes.txt\n"
    assert texts(folder) == BEFORE


def test_a_session_can_be_named_by_the_beginning_of_its_id_and_the_result_is_json(folder: Path):
    work(EDIT)
    work(WRITE)
    listed = json.loads(invoke("sessions", "list", "--json").stdout)
    told = json.loads(invoke("undo", listed[1]["id"][:12], "--yes", "--json").stdout)
    assert told == {
        "session": listed[1]["id"],
        "files": [{"root": str(folder), "path": "notes.txt", "action": "restored", "reason": ""}],
        "ran_shell": False,
        "complete": True,
        "dry_run": False,
    }
    assert texts(folder) == {**AFTER, **BEFORE}


def test_a_file_that_someone_else_changed_is_refused_and_the_status_says_so(folder: Path):
    work(EDIT, WRITE)
    (folder / "notes.txt").write_text("theirs")
    done = invoke("undo", "--yes")
    assert done.exit_code == 1
    assert done.output == "refused notes.txt: someone else has changed it since\ndeleted new/file.txt\n"
    assert texts(folder) == {"notes.txt": "theirs"}
    assert invoke("undo").exit_code == 1, "nothing can be done, so nobody has to be asked"


def test_only_the_work_directory_is_touched(folder: Path, tmp_path: Path):
    work(EDIT)
    (session,) = json.loads(invoke("sessions", "list", "--json").stdout)
    done = invoke("undo", session["id"], "--yes", "--workdir", str(tmp_path))
    assert (done.exit_code, done.output) == (1, f"refused notes.txt: it is in another work directory, {folder}\n")
    assert invoke("undo", "--yes", "--workdir", str(folder)).exit_code == 0


def test_commands_of_the_shell_are_named_as_not_undone():
    work(("shell", {"command": "echo x > made"}), EDIT)
    done = invoke("undo", "--yes")
    assert "note: the session also ran shell commands; what they changed is not recorded" in done.stderr


def test_where_nobody_can_be_asked_nothing_is_done(folder: Path):
    work(EDIT)
    for arguments in (["undo"], ["undo", "--json"]):
        done = invoke(*arguments)
        assert done.exit_code == 2
        assert "there is no terminal to ask for approval" in done.stderr
        assert "add --yes" in done.stderr
    assert texts(folder) != BEFORE


@pytest.mark.parametrize(("typed", "status"), [("y\n", 0), ("\n", 1)])
def test_on_a_terminal_the_user_is_asked(folder: Path, typed: str, status: int):
    work(EDIT)
    terminal = Terminal("undo")
    try:
        terminal.wait_for("would restore notes.txt")
        terminal.wait_for("[y/N]")
        terminal.type(typed)
        assert terminal.process.wait(30) == status
    finally:
        terminal.close()
    assert (texts(folder) == BEFORE) is (status == 0)


def test_a_session_that_does_not_exist_is_an_error():
    done = invoke("undo", "f00")
    assert done.exit_code == 2
    assert "there is no session `f00`" in done.stderr


def test_the_help_says_what_is_covered_and_has_examples():
    told = " ".join(invoke("undo", "--help").stdout.split())
    assert "Changes made by shell commands are not recorded and cannot be undone." in told
    assert "toolspeak undo 3f2a --yes" in told
