"""Databases: opened by URL, migrated once and forward only, and honest about what goes wrong."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from tests.cases import check_each
from tests.store import postgres
from tests.store.test_journal import run
from toolspeak.core.types import Message, TextPart
from toolspeak.errors import ConfigError, StoreDamagedError, StoreError, StoreFullError
from toolspeak.store import database as database_module
from toolspeak.store import db_engines as engines
from toolspeak.store import schema
from toolspeak.store.database import Database
from toolspeak.store.sessions import Store

ROOT = Path(__file__).parents[2]


# ---- URLs


@check_each(
    ("url", "said"),
    [
        ("", "invalid database URL"),
        ("/var/store.db", "invalid database URL"),
        ("mysql://root@localhost/x", "unsupported database `mysql`"),
        ("sqlite://relative/store.db", "must not contain a host"),
    ],
)
def test_a_url_that_cannot_be_used_says_which_can(url: str, said: str):
    with pytest.raises(ConfigError, match=said) as caught:
        Database(url)
    assert "sqlite:///" in caught.value.hint


def test_a_password_is_not_shown(tmp_path: Path):
    with pytest.raises(StoreError) as caught:
        Database("postgresql://anna:very-secret@127.0.0.1:1/x", patience=0.0)
    assert "very-secret" not in str(caught.value)
    assert "<redacted>@127.0.0.1:1" in str(caught.value)
    assert caught.value.retry_after


@pytest.mark.requirement("R-T19")
def test_a_file_can_be_read_by_its_owner_only(tmp_path: Path):
    path = tmp_path / "deep" / "store.db"
    before = os.umask(0)
    try:
        with Store(f"sqlite:///{path}") as store:
            run(_say(store, "hello"))
            files = [path, *path.parent.glob("store.db-*")]
            assert len(files) == 3
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_a_database_in_memory_is_one_for_all_threads():
    with Store("sqlite://") as store:
        session = run(_say(store, "hello"))
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(store.entries(session)))
        thread.start()
        thread.join(30)
        assert len(found[0]) == 1


async def _say(store: Store, text: str, session: str = "") -> str:
    journal = await store.journal(session)
    try:
        await journal.say(Message("user", (TextPart(text),)))
    finally:
        await journal.close()
    return journal.session


# ---- migrations


def _tables(database: Database) -> set[str]:
    return database.read(lambda connection: set(sa.inspect(connection).get_table_names()))


@pytest.mark.requirement("R-F41")
def test_migrations_make_the_tables_that_the_code_knows(url: str):
    database = Database(url)
    assert _tables(database) == {*schema.metadata.tables, schema.VERSION_TABLE}
    for name, table in schema.metadata.tables.items():
        made = database.read(lambda connection, name=name: sa.inspect(connection).get_columns(name))
        assert {column["name"] for column in made} == {column.name for column in table.columns}
        keys = database.read(lambda connection, name=name: sa.inspect(connection).get_pk_constraint(name))
        assert keys["constrained_columns"] == [column.name for column in table.primary_key]
    database.close()


def test_the_newest_revision_is_the_one_that_the_code_knows():
    revisions = sorted(Path(database_module.__file__).parent.glob("migrations/versions/*.py"))
    assert revisions[-1].name.startswith(schema.HEAD)


@pytest.mark.requirement("R-T8")
def test_everything_that_belongs_to_somebody_has_its_owner_in_its_key():
    for name, table in schema.metadata.tables.items():
        if name != "state":  # its keys are made with the tenant in them
            assert next(iter(table.primary_key)).name == "owner"


@pytest.mark.requirement("R-F41")
def test_a_newer_store_is_refused_and_left_as_it_is(url: str):
    database = Database(url)
    newer = sa.text("UPDATE toolspeak_version SET version_num = '9999'")
    database.write(lambda connection: connection.execute(newer))
    database.close()
    with pytest.raises(ConfigError, match="newer version of toolspeak"):
        Database(url)


@pytest.mark.requirement("R-F41")
def test_a_migration_that_fails_leaves_nothing_behind(url: str, monkeypatch: pytest.MonkeyPatch):
    real = database_module.migrate

    def failing(connection: sa.Connection) -> None:
        real(connection)
        raise StoreError("the power fails")

    monkeypatch.setattr("toolspeak.store.database.migrate", failing)
    with pytest.raises(StoreError, match="the power fails"):
        Database(url)
    monkeypatch.undo()
    database = Database(url)
    assert "sessions" in _tables(database)
    database.close()


_OPEN = "import sys; from toolspeak.store.database import Database; Database(sys.argv[1]).close()"


@pytest.mark.requirement("R-F41")
def test_several_processes_that_start_at_once_migrate_once(url: str):
    processes = [subprocess.Popen([sys.executable, "-c", _OPEN, url], stderr=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.communicate(timeout=120)[1] == b""
        assert process.returncode == 0
    database = Database(url)
    versions = database.read(lambda connection: connection.exec_driver_sql("SELECT * FROM toolspeak_version").all())
    assert [tuple(row) for row in versions] == [(schema.HEAD,)]
    database.close()


# ---- a disk that is full or fails


def _limit(database: Database, pages: int) -> None:
    """No room for more pages, in any connection."""

    def limited(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}")

    database.engine.dispose()
    event.listen(database.engine, "connect", limited)


@pytest.mark.requirement("R-F38")
def test_a_full_disk_is_a_typed_error_and_is_recovered_from_without_a_restart(tmp_path: Path):
    store = Store(f"sqlite:///{tmp_path}/store.db")
    session = run(_say(store, "small"))
    pages = store.database.read(lambda connection: connection.exec_driver_sql("PRAGMA page_count").scalar())
    assert pages is not None
    _limit(store.database, pages + 2)
    with pytest.raises(StoreFullError, match="no space left") as caught:
        run(_say(store, "x" * 100_000, session))
    assert caught.value.status == 507
    assert len(store.entries(session)) == 1  # nothing half visible, and reading goes on
    _limit(store.database, 1_000_000)
    run(_say(store, "x" * 100_000, session))
    assert len(store.entries(session)) == 2
    store.close()


_FULL = """
import asyncio, resource, signal, sys
from tests.store.test_database import _say
from toolspeak.errors import StoreError
from toolspeak.store.sessions import Store

store = Store(sys.argv[1])
session = asyncio.run(_say(store, "small"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
failures = 0
for _ in range(20):
    try:
        asyncio.run(_say(store, "x" * 50_000, session))
    except StoreError as error:
        failures += 1
        assert error.status in (503, 507), error
assert failures, "the limit does not bite"
whole = len(store.entries(session))
assert whole + failures == 21, (whole, failures)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
asyncio.run(_say(store, "x" * 50_000, session))
assert len(store.entries(session)) == whole + 1
"""


@pytest.mark.requirement("R-F38")
@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limits on files here")
def test_writes_that_the_system_refuses_are_typed_errors(tmp_path: Path):
    command = [sys.executable, "-c", _FULL, f"sqlite:///{tmp_path}/store.db"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.requirement("R-F38")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="cannot open the store"):
        Database(f"sqlite:///{tmp_path}/file/store.db")


# ---- locks


@pytest.mark.requirement("R-F39")
def test_a_lock_of_another_process_is_waited_for(tmp_path: Path):
    path = tmp_path / "store.db"
    store = Store(f"sqlite:///{path}")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, other.execute, ["COMMIT"])
    timer.start()
    run(_say(store, "waits"))
    assert len(store.sessions()) == 1
    timer.join()
    other.close()
    store.close()


@pytest.mark.requirement("R-F39")
def test_a_lock_that_does_not_end_is_a_typed_error_and_readers_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.store.db_engines._PRAGMAS", ("PRAGMA busy_timeout=20", *engines._PRAGMAS[1:]))  # pyright: ignore[reportPrivateUsage]
    path = tmp_path / "store.db"
    store = Store(Database(f"sqlite:///{path}", patience=0.1))
    session = run(_say(store, "before"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="is not responding") as caught:
        run(_say(store, "blocked"))
    assert (caught.value.status, caught.value.retry_after is not None) == (503, True)
    assert len(store.entries(session)) == 1
    other.execute("COMMIT")
    other.close()
    run(_say(store, "after"))
    store.close()


@pytest.mark.requirement("R-F39")
def test_many_writers_of_one_file_all_get_their_turn(tmp_path: Path):
    stores = [Store(f"sqlite:///{tmp_path}/store.db") for _ in range(4)]

    async def all_of_them() -> None:
        await asyncio.gather(*(_say(store, str(number)) for number in range(10) for store in stores))

    run(all_of_them())
    assert len(stores[0].sessions()) == 40
    for store in stores:
        store.close()


# ---- damage


@pytest.mark.requirement("R-F42")
@pytest.mark.parametrize(
    "content", [b"this is no database, though it is long enough " * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path, content: bytes):
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"store\.db") as caught:
        Database(f"sqlite:///{path}")
    assert isinstance(caught.value, StoreDamagedError)
    assert path.read_bytes() == content


# ---- a server that goes away


@pytest.mark.requirement("R-F40")
@pytest.mark.system("postgresql")
def test_a_server_that_restarts_in_the_middle_loses_no_commit_and_does_none_twice():
    server = postgres.Postgres()
    server.start()
    try:
        store = Store(server.url())
        texts = [f"message {number}" for number in range(30)]

        async def talk() -> str:
            journal = await store.journal()
            for number, text in enumerate(texts):
                if number in (7, 15, 23):
                    restarting = asyncio.get_running_loop().run_in_executor(None, _restart, server)
                    await journal.say(Message("user", (TextPart(text),)))
                    await restarting
                else:
                    await journal.say(Message("user", (TextPart(text),)))
            await journal.close()
            return journal.session

        entries = store.entries(run(talk()))
        assert [entry.text for entry in entries if isinstance(entry, Message)] == texts
        store.close()
    finally:
        server.remove()


def _restart(server: postgres.Postgres) -> None:
    server.stop()
    server.start()


@pytest.mark.requirement("R-F40")
@pytest.mark.system("postgresql")
def test_a_server_that_stays_away_is_a_typed_error_and_is_used_again_when_it_is_back():
    server = postgres.Postgres()
    server.start()
    try:
        store = Store(Database(server.url(), patience=0.5))
        session = run(_say(store, "before"))
        server.stop()
        with pytest.raises(StoreError) as caught:
            store.entries(session)
        assert (caught.value.status, caught.value.retry_after is not None) == (503, True)
        server.start()
        run(_say(store, "after", session))
        assert len(store.entries(session)) == 2
        store.close()
    finally:
        server.remove()


@pytest.mark.requirement("R-F40", "R-F44")
@pytest.mark.system("postgresql")
def test_when_all_connections_are_in_use_the_wait_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.store.db_engines._POOL_WAIT", 0.05)
    monkeypatch.setattr("toolspeak.store.db_engines._CONNECTIONS", 1)
    monkeypatch.setattr("toolspeak.store.db_engines._MORE_CONNECTIONS", 0)
    store = Store(postgres.server().url())
    with store.database.engine.connect():
        with pytest.raises(StoreError, match="all connections") as caught:
            store.sessions()
        assert (caught.value.status, caught.value.retry_after is not None) == (503, True)
    assert store.sessions() == []
    store.close()


@pytest.mark.requirement("R-F40")
@pytest.mark.system("postgresql")
def test_a_transaction_that_the_server_broke_off_is_done_again():
    store = Store(postgres.server().url())
    tries: list[int] = []

    def work(connection: sa.Connection) -> None:
        tries.append(1)
        if len(tries) == 1:
            connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
        if len(tries) == 2:
            connection.execute(sa.text("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$"))

    store.database.write(work)
    assert len(tries) == 3
    with pytest.raises(StoreError):  # what does not pass by itself is not tried again
        store.database.write(lambda connection: (tries.append(1), connection.execute(sa.text("SELECT 1/0"))))
    assert len(tries) == 4
    store.close()


# ---- the end


@pytest.mark.parametrize("end", [Database.close, Database.before_fork])
def test_a_connection_that_is_in_use_when_all_are_given_back_is_closed_when_it_comes_back(
    url: str, end: Callable[[Database], None]
):
    database = Database(url)
    used: list[Any] = []

    def work(connection: sa.Connection) -> None:
        used.append(connection.connection.driver_connection)
        end(database)
        assert connection.execute(sa.select(1)).scalar() == 1

    database.read(work)
    with pytest.raises((sqlite3.ProgrammingError, psycopg.OperationalError), match="closed"):
        used[0].execute("SELECT 1")
    assert _tables(database)  # as before, with a connection of its own
    database.close()


# ---- readers


def test_a_reader_sees_one_moment_however_many_questions_it_asks(url: str):
    store = Store(url)
    run(_say(store, "before"))
    count = sa.select(sa.func.count()).select_from(schema.entries)

    def twice(connection: sa.Connection) -> tuple[int, int]:
        first = connection.execute(count).scalar_one()
        writer = threading.Thread(target=lambda: run(_say(store, "meanwhile")))
        writer.start()
        writer.join(60)
        return first, connection.execute(count).scalar_one()

    assert store.database.read(twice) == (1, 1)
    assert store.database.read(lambda connection: connection.execute(count).scalar_one()) == 2
    store.close()


# ---- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_connections_of_its_own(url: str):
    store = Store(url)
    session = run(_say(store, "before"))
    child = os.fork()
    if not child:
        try:
            asyncio.run(_say(store, "by the child", session))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run(_say(store, "after", session))
    assert len(store.entries(session)) == 3
    store.close()
