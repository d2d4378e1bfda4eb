"""`toolspeak sessions`: what agents have done, on the command line."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from tests.store import postgres
from tests.store.test_journal import run
from tests.store.test_sessions import begun
from toolspeak.cli import main
from toolspeak.core.types import Message, Note, TextPart, ToolCall, ToolResult
from toolspeak.engine.rounds.transcript import Answer, CallRecord, Round
from toolspeak.store import database
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
    Store(place).close()
    listed = invoke("list")
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert json.loads(invoke("list", "--json").stdout) == []
    looked = invoke("doctor")
    assert looked.exit_code == 0
    assert "0 sessions" in looked.stdout


@pytest.mark.parametrize(
    "arguments", [["list"], ["list", "--search", "x"], ["show", "x"], ["export"], ["rm", "x"], ["doctor", "--repair"]]
)
def test_a_store_that_is_only_read_is_not_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
):
    missing = invoke("--store", f"sqlite:///{tmp_path}/sesions/typo.db", *arguments)
    assert missing.exit_code == 2
    assert f"there is no store at `{tmp_path}/sesions/typo.db`" in missing.output
    assert "check the path or URL" in missing.output
    assert "there is no store at" in invoke(*arguments).output  # the configured one: as a mistyped setting
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_somebody_else_gets_no_tables_by_being_looked_at(place: str, tmp_path: Path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = other.read_bytes()
    assert "there is no store in the database" in invoke("--store", f"sqlite:///{other}", "list").output
    (tmp_path / "empty.db").touch()
    assert "there is no store in the database" in invoke("--store", f"sqlite:///{tmp_path}/empty.db", "list").output
    with sqlite3.connect(other) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()
    assert len(before) == len(other.read_bytes())


def test_where_nobody_has_named_a_store_and_nothing_is_kept_yet_nothing_is_listed(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("TOOLSPEAK_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    listed = invoke("list")
    assert (listed.exit_code, listed.output) == (0, "No sessions yet. Start one with: toolspeak chat\n")
    assert "there is no session `x`" in invoke("show", "x").output
    assert list(tmp_path.iterdir()) == []


def test_an_import_makes_the_store_that_it_fills(place: str, tmp_path: Path):
    (tmp_path / "none.jsonl").touch()
    assert invoke("import", str(tmp_path / "none.jsonl")).exit_code == 0
    assert invoke("list").exit_code == 0


def test_a_server_that_is_not_there_is_told_soon_and_with_what_to_look_at(place: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(database, "_SHORT_PATIENCE", 0.1)
    told = invoke("--store", "postgresql://me@127.0.0.1:9/x", "list")
    assert told.exit_code == 2
    assert "is not responding" in told.output
    assert "check that the server is running and that host, port, user" in told.output


@pytest.mark.system("postgresql")
def test_a_postgresql_database_without_a_store_gets_no_tables_by_being_looked_at(place: str):
    url = postgres.server().url()
    assert "there is no store in the database" in invoke("--store", url, "list").output
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    Store(url).close()
    assert invoke("--store", url, "list").exit_code == 0
    missing = invoke("--store", url + "x", "list")
    assert missing.exit_code == 2
    assert "database name are correct" in missing.output


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
        "Shall I take an umbrella?\n" + weather,
        "\nYou:\nShall I take an umbrella?\n",
        '▾ round 1\nI look.\n→ get_weather {"city":"Oslo"}\n✓ rain\n',
        "\nIt rains in Oslo.\n",
    ):
        assert part in shown
    whole = json.loads(invoke("show", weather, "--json").stdout)
    assert [entry["kind"] for entry in whole["conversation"]] == ["message", "answer"]
    assert whole["conversation"][1]["rounds"][0]["calls"][0]["result"]["content"] == "rain"


def test_a_chat_of_the_page_is_shown_without_what_only_the_page_needs(place: str):
    notes = (Note("page_plan", "inline"), Note("page_seconds", "3.5"), Note("page_error", "error: it is down\x1b[2J"))

    async def chat(store: Store) -> str:
        journal = await store.journal(about={"from": "page", "model": "tiny"})
        await journal.say(Message("user", (TextPart("Good morning"),)))
        await journal.begin()
        await journal.end(Answer(status="failed", notes=notes))
        await journal.close()
        return journal.session

    with Store(place) as store:
        name = run(chat(store))
    assert invoke("list").stdout == f"{name[:12]}  just now        Good morning  (tiny, on the page, 0 tokens)\n"
    shown = invoke("show", name).stdout
    assert shown.endswith("\n\nAnswer:\nerror: it is down\n")
    assert "page_" not in shown


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (200_000, "2 days ago")]
)
def test_sessions_are_listed_with_their_age(place: str, monkeypatch: pytest.MonkeyPatch, seconds: int, text: str):
    with Store(place) as store:
        begun(store, "Good morning")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seconds)
    assert f"  {text} " in invoke("list").stdout
    monkeypatch.setattr(time, "time", lambda: now + 90 * 86_400)
    assert time.strftime("  %Y-%m-%d", time.localtime(now)) in invoke("list").stdout


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
    assert invoke("--store", other, "import", str(file)).stdout == "Imported 2 sessions; 0 already existed\n"
    assert (
        invoke("--store", other, "import", "-", input=file.read_bytes()).stdout
        == "Imported 0 sessions; 2 already existed\n"
    )
    assert invoke("--store", other, "export").stdout_bytes == file.read_bytes()
    assert invoke("--store", other, "--owner", "anna", "export").stdout.count("\n") == 1


def test_sessions_are_removed(place: str):
    with Store(place) as store:
        one, two = begun(store, "one"), begun(store, "two")
    assert invoke("rm", one).stdout == f"Removed `{one}`\n"
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
    assert f"interrupted: {broken_off}" in looked.stdout
    told = json.loads(invoke("doctor", "--repair", "--json").stdout)
    assert (told["good"], told["repaired"], [each["session"] for each in told["damaged"]]) == (False, 1, [bad])
    assert "interrupted" not in invoke("doctor").stdout
    assert invoke("rm", bad).exit_code == 0
    assert "All sessions are readable" in invoke("doctor").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "nosuch"), "there is no session `nosuch`"),
        (("show", "'; DROP TABLE sessions; --"), "there is no session"),
        (("rm", "nosuch"), "there is no session"),
        (("export", "nosuch"), "there is no session"),
        (("import", "/nowhere/file"), "cannot read"),
        (("export", "-o", "/nowhere/file"), "cannot write"),
        (("--store", "mysql://x/y", "list"), "unsupported database `mysql`"),
        (("--store", "postgresql://anna:secret@db/x", "list"), "must not contain a password"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_status(place: str, arguments: tuple[str, ...], said: str):
    Store(place).close()
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
