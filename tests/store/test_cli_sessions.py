"""`toolspeak sessions`: what agents have done, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from tests.store.test_journal import run
from tests.store.test_sessions import begun
from toolspeak.cli import main
from toolspeak.core.model import Message, TextPart, ToolCall, ToolResult
from toolspeak.core.record import Answer, CallRecord, Round
from toolspeak.store.schema import entries
from toolspeak.store.sessions import Store


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the store is, as the configuration says."""
    url = f"sqlite:///{tmp_path}/sessions.db"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOOLSPEAK_STORE", url)
    monkeypatch.chdir(tmp_path)
    return url


def invoke(*arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(main, ["sessions", *arguments], **more)


def test_an_empty_store_has_nothing_to_list(place: str):
    listed = invoke("list")
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert json.loads(invoke("list", "--json").stdout) == []
    looked = invoke("doctor")
    assert looked.exit_code == 0
    assert "0 sessions" in looked.stdout


def test_sessions_are_listed_searched_and_shown(place: str):
    with Store(place) as store:
        weather, other = begun(store, "Shall I take an umbrella?"), begun(store, "Good morning")
    lines = invoke("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [other[:12], weather[:12]]
    assert "Shall I take an umbrella?" in lines[1]
    found = json.loads(invoke("list", "--search", "UMBRELLA", "--json").stdout)
    assert [each["id"] for each in found] == [weather]
    assert len(invoke("list", "--limit", "1").stdout.splitlines()) == 1
    shown = invoke("show", weather[:8]).stdout
    for part in (
        "user:",
        "umbrella",
        "round 1: I look.",
        'get_weather {"city": "Oslo"}',
        "gave: rain",
        "It rains in Oslo.",
    ):
        assert part in shown
    whole = json.loads(invoke("show", weather, "--json").stdout)
    assert [entry["kind"] for entry in whole["conversation"]] == ["message", "answer"]
    assert whole["conversation"][1]["rounds"][0]["calls"][0]["result"]["content"] == "rain"


@pytest.mark.requirement("R-T20")
def test_no_text_plays_tricks_with_the_terminal(place: str):
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    call = CallRecord(ToolCall(f"f{evil}", {"a": evil}, "c1"))

    async def converse() -> str:
        with Store(place) as store:
            journal = await store.journal()
            await journal.say(Message("user", (TextPart(f"{evil}title\nsecond line {evil}"),)))
            await journal.begin()
            await journal.plan(Round(evil, (call,)))
            await journal.start("c1")
            await journal.finish(ToolResult("c1", evil + "x" * 5000, "f"), 0.0)
            await journal.end(Answer(evil))
            await journal.close()
            return journal.session

    session = run(converse())
    for output in (invoke("list").output, invoke("show", session, color=True).output):
        plain = output.replace("\x1b[1m", "").replace("\x1b[0m", "")  # our own bold
        assert not {"\x1b", "\x07", "\u202e"} & set(plain)
    assert "--json prints all" in invoke("show", session).output


def test_sessions_go_out_and_come_in(place: str, tmp_path: Path):
    with Store(place) as store:
        one, _ = begun(store, "Grüße"), begun(store, "two")
    file = tmp_path / "out.jsonl"
    assert invoke("export", "-o", str(file)).exit_code == 0
    assert invoke("export").stdout_bytes == file.read_bytes()
    assert len(invoke("export", one[:8]).stdout.splitlines()) == 4
    other = f"sqlite:///{tmp_path}/other.db"
    assert invoke("--store", other, "import", str(file)).stdout == "2 sessions; 0 were there already\n"
    assert (
        invoke("--store", other, "import", "-", input=file.read_bytes()).stdout == "0 sessions; 2 were there already\n"
    )
    assert invoke("--store", other, "export").stdout_bytes == file.read_bytes()
    assert invoke("--store", other, "--owner", "anna", "export").stdout.count("\n") == 1


def test_sessions_are_removed(place: str):
    with Store(place) as store:
        one, two = begun(store, "one"), begun(store, "two")
    assert invoke("rm", one).stdout == f"`{one}` is gone\n"
    assert [line.split()[0] for line in invoke("list").stdout.splitlines()] == [two[:12]]


def test_what_somebody_writes_into_is_removed_only_by_force(place: str):
    async def converse() -> tuple[Result, Result]:
        with Store(place) as store:
            journal = await store.journal()
            refused, forced = invoke("rm", journal.session), invoke("rm", "--force", journal.session)
            await journal.close()
            return refused, forced

    refused, forced = run(converse())
    assert refused.exit_code == 2
    assert "is held by process" in refused.stderr
    assert forced.exit_code == 0


@pytest.mark.requirement("R-F42")
def test_the_doctor_names_what_is_damaged_and_repairs_what_was_broken_off(place: str):
    with Store(place) as store:
        bad, broken_off = begun(store, "bad"), begun(store, "broken off", done=False)
        damage = sa.update(entries).where(entries.c.session == bad, entries.c.number == 0).values(body="{")
        store.database.write(lambda connection: connection.execute(damage))
    looked = invoke("doctor")
    assert looked.exit_code == 1
    assert f"damaged: {bad}" in looked.stdout
    assert f"broken off: {broken_off}" in looked.stdout
    told = json.loads(invoke("doctor", "--repair", "--json").stdout)
    assert (told["good"], told["repaired"], [each["session"] for each in told["damaged"]]) == (False, 1, [bad])
    assert "broken off" not in invoke("doctor").stdout
    assert invoke("rm", bad).exit_code == 0
    assert "everything can be read" in invoke("doctor").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "nosuch"), "there is no session `nosuch`"),
        (("show", "'; DROP TABLE sessions; --"), "there is no session"),
        (("rm", "nosuch"), "there is no session"),
        (("export", "nosuch"), "there is no session"),
        (("import", "/nowhere/file"), "cannot read"),
        (("export", "-o", "/nowhere/file"), "cannot write"),
        (("--store", "mysql://x/y", "list"), "kind `mysql`"),
        (("--store", "postgresql://anna:secret@db/x", "list"), "does not take a password"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_status(place: str, arguments: tuple[str, ...], said: str):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr.splitlines()[0]
    assert "secret" not in done.output


@pytest.mark.parametrize("data", [b"\xff\xfe", b"no json\n", b'{"format": "toolspeak sessions", "version": 1}\n\xff\n'])
def test_a_file_that_is_no_export_is_refused(place: str, data: bytes):
    done = invoke("import", "-", input=data)
    assert done.exit_code == 2
    assert "line" in done.stderr


def test_every_command_has_help_and_the_group_has_examples():
    helped = invoke("--help").output
    for name in ("list", "show", "export", "import", "rm", "doctor"):
        assert f"toolspeak sessions {name}" in helped
        assert invoke(name, "--help").exit_code == 0
