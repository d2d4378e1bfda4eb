"""Database access: open by URL, migrate the schema, run atomic transactions, translate errors.

`read` and `write` block; `reading` and `writing` run them in a thread, for coroutines. Transient errors (a lock, a
server restart) are retried for a limited time. Transactions must therefore be idempotent: if the confirmation of a
commit is lost, a retry repeats it. SQLite allows one writer at a time, so writers take turns. Errors are classified by
error codes, never by their texts.
"""

import asyncio
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from ..errors import ConfigError, NoStoreError, StoreDamagedError, StoreError, StoreFullError, StoreReadOnlyError
from .db_engines import MISSING_STORE_HINT, open_engine
from .schema import HEAD, VERSION_TABLE

#: Threads per database. More threads would only wait for SQLite's single writer or for connections.
_THREADS = 4
_PATIENCE = 15.0  # seconds for which transient errors are retried: enough for a PostgreSQL server to restart
#: Seconds for which opening an existing store is retried. Shorter, because a person is waiting for the output.
_SHORT_PATIENCE = 3.0
#: First and longest pause between attempts, in seconds (exponential backoff).
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
#: Errors that drivers raise for a value that no column can store, not wrapped by SQLAlchemy.
REJECTED_VALUE_ERRORS = (OverflowError, UnicodeEncodeError)

T = TypeVar("T")


def nothing() -> None:
    """Do nothing."""


_all: "weakref.WeakSet[Database]" = weakref.WeakSet()


class Database:
    """A database that holds a store. Raises StoreError if it cannot be opened.

    Args:
        url: `sqlite:///path`, `sqlite://` (in memory), or `postgresql://...`. Raises ConfigError if it is invalid, or
            the store was written by a newer version of toolspeak.
        patience: seconds for which operations are retried if the database is busy or unavailable.
        existing: open only an existing store; create nothing and give up early. Raises NoStoreError if there is none.
        read_only: if an SQLite file cannot be written, open it for reading. Writing then raises `StoreReadOnlyError`.
    """

    def __init__(
        self, url: str, *, patience: float = _PATIENCE, existing: bool = False, read_only: bool = False
    ) -> None:
        self.engine, self.where, self.in_memory = open_engine(url, existing=existing, read_only=read_only)
        self._patience = min(patience, _SHORT_PATIENCE) if existing else patience
        self._is_sqlite = self.engine.dialect.name == "sqlite"
        self._writer = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        _all.add(self)
        try:
            if not self.read(is_current):
                if existing and self.read(_revision) is None:
                    raise NoStoreError(f"there is no store in the database {self.where}", hint=MISSING_STORE_HINT)
                self.write(migrate)
            self._patience = patience
        except BaseException:
            self.engine.dispose()
            raise

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in a read-only transaction and return its result."""
        return self._with_retries(lambda: self._once(work, write=False))

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in a transaction, commit, and return its result. Retries may call `work` several times."""
        return self._with_retries(lambda: self._once(work, write=True))

    async def reading(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `read` in a thread, so the event loop is not blocked."""
        return await self._in_thread(self.read, work, nothing)

    async def writing(self, work: Callable[[sa.Connection], T], then: Callable[[], None] = nothing) -> T:
        """Run `write` in a thread, so the event loop is not blocked; call `then` after the commit.

        A cancellation takes effect only after the transaction has ended. `then` is called if it was committed.
        """
        return await self._in_thread(self.write, work, then)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        self.engine.dispose()

    def before_fork(self) -> None:
        """Close idle connections, because two processes must not share one. An in-memory database stays open."""
        if not self.in_memory:
            self.engine.dispose()

    def after_fork(self) -> None:
        """Reset threads and locks in the child, which does not inherit threads."""
        self._threads = None
        self._writer = threading.Lock()

    async def _in_thread(
        self,
        operation: Callable[[Callable[[sa.Connection], T]], T],
        work: Callable[[sa.Connection], T],
        then: Callable[[], None],
    ) -> T:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="toolspeak-store")
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, operation, work)
        except RuntimeError:  # the interpreter exits and starts no more threads, but the session must still be written
            result = operation(work)
            then()
            return result
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:  # wait for the transaction, which ends soon
                cancelled = error
        if future.exception() is None:
            then()
        if cancelled is not None:
            raise cancelled
        return future.result()

    def _with_retries(self, once: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return once()
            except exc.SQLAlchemyError as error:
                if not is_transient(error) or time.monotonic() + pause > deadline:
                    raise store_error(error, self.where) from error
            except REJECTED_VALUE_ERRORS as error:
                raise rejected_value_error(error, self.where) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _once(self, work: Callable[[sa.Connection], T], *, write: bool) -> T:
        options: dict[str, Any] = {"toolspeak_write": write}
        if not write and not self._is_sqlite:
            # All queries of a transaction must see the same snapshot, as they do in SQLite.
            options["isolation_level"] = "REPEATABLE READ"
        with self._exclusively(write), self.engine.execution_options(**options).begin() as connection:
            return work(connection)

    @contextmanager
    def _exclusively(self, write: bool) -> Generator[None]:
        """Let one SQLite writer run at a time, which avoids polling SQLite's own lock."""
        if not (self._is_sqlite and (write or self.in_memory)):
            yield
            return
        if not self._writer.acquire(timeout=self._patience):
            raise StoreError(f"the store at {self.where} is busy", hint=_RETRY_HINT)
        try:
            yield
        finally:
            self._writer.release()


def _before_fork() -> None:
    for database in list(_all):
        database.before_fork()


def _after_fork() -> None:
    for database in list(_all):
        database.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


# Schemas migrate forward only, in one transaction.

#: Arbitrary number of the PostgreSQL advisory lock that lets one process migrate at a time.
_MIGRATION_LOCK = 0x746F6F6C
_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text))


def is_current(connection: sa.Connection) -> bool:
    """Whether the schema is up to date. Raises ConfigError if the store was written by a newer version of toolspeak."""
    revision = _revision(connection)
    if revision is not None and revision > HEAD:
        schemas = f"schema {revision}; this version supports {HEAD}"
        message = f"the store was written by a newer version of toolspeak ({schemas})"
        raise ConfigError(message, hint="upgrade toolspeak, or use another database")
    return revision == HEAD


def migrate(connection: sa.Connection) -> None:
    """Bring the schema up to date. `connection` must be in an exclusive transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
    if is_current(connection):  # another process has already migrated it
        return
    # Imported only if a migration is needed, because Alembic is slow to import.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    settings = Config()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    script = ScriptDirectory.from_config(settings)

    def steps(revision: object, _: object) -> list[object]:
        return script._upgrade_revs(HEAD, revision)  # type: ignore[arg-type]  # pyright: ignore

    with EnvironmentContext(settings, script, fn=steps, destination_rev=HEAD) as environment:  # type: ignore[arg-type]
        environment.configure(connection=connection, version_table=VERSION_TABLE, transactional_ddl=True)
        environment.run_migrations()


def run_migration(name: str) -> None:
    """Run the SQL of a migration, which is written for PostgreSQL. SQLite has other names for two types."""
    from alembic import op

    connection = op.get_bind()
    script = (_MIGRATIONS / "versions" / f"{name}.sql").read_text(encoding="utf-8")
    if connection.dialect.name == "sqlite":
        script = script.replace("DOUBLE PRECISION", "DOUBLE").replace("BYTEA", "BLOB")
    for statement in script.split(";")[:-1]:
        connection.exec_driver_sql(statement)


def _revision(connection: sa.Connection) -> str | None:
    """Return the schema revision of the database, or None if it contains no store."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(sa.select(_VERSION.c.version_num)).scalar()


_RETRY_AFTER = 5.0
_RETRY_HINT = "try again in a few seconds"
_UNREACHABLE_HINT = "check that the server is running and that host, port, user, password and database name are correct"

#: Primary result codes of SQLite (the low byte of its extended codes).
_SQLITE_TRANSIENT = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SQLITE_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

#: PostgreSQL's SQLSTATE codes (or prefixes) for lost connection, server shutdown or startup, too many connections,
#: serialization failure, deadlock, lock not available and read-only transaction.
_POSTGRES_TRANSIENT = ("08", "57P01", "57P02", "57P03", "53300", "40001", "40P01", "55P03", "25006")
_POSTGRES_FULL = ("53100",)
_POSTGRES_DAMAGED = ("XX001", "XX002")


def is_transient(error: exc.SQLAlchemyError) -> bool:
    """Whether the same transaction may succeed if it is retried."""
    if not isinstance(error, exc.DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return _code(error.orig) in _SQLITE_TRANSIENT
    state = _state(error)
    # Errors of a failed or broken connection have no SQLSTATE.
    return state.startswith(_POSTGRES_TRANSIENT) if state else isinstance(error, exc.OperationalError)


def store_error(error: exc.SQLAlchemyError, where: str) -> StoreError:
    if isinstance(error, exc.TimeoutError):
        return _retryable(f"all connections to the store at {where} are in use")
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    # Omit the SQL statement and its values, which may contain user text.
    detail = " ".join(str(cause).split())[:300]
    state = _state(error)
    code = _code(cause) if isinstance(cause, sqlite3.Error) else 0
    if code == sqlite3.SQLITE_FULL or state.startswith(_POSTGRES_FULL):
        return StoreFullError(f"no space left in the store at {where}: {detail}", hint="free some space and try again")
    if code in _SQLITE_DAMAGED or state.startswith(_POSTGRES_DAMAGED):
        hint = "check it with `toolspeak sessions doctor`, then restore a backup or use another store"
        return StoreDamagedError(f"the store at {where} is damaged: {detail}", hint=hint)
    if code == sqlite3.SQLITE_READONLY:
        hint = "check its permissions, copy it to a disk that can be written, or set TOOLSPEAK_STORE to another store"
        return StoreReadOnlyError(f"the store at {where} can be read but not written: {detail}", hint=hint)
    if isinstance(error, exc.DataError | exc.IntegrityError):
        return rejected_value_error(error.orig or error, where)
    message = f"the store at {where} is not responding: {detail}"
    if not is_transient(error):
        return StoreError(message)
    # If the error has no code, the server may be restarting, or the address may be mistyped.
    return _retryable(message, _UNREACHABLE_HINT if not state and not code else _RETRY_HINT)


def rejected_value_error(cause: BaseException, where: str) -> StoreError:
    """Return the error for a value that the database rejects: a number out of range, or a lone surrogate."""
    # Use only the reason of an encoding error, because its message quotes the user's text.
    detail = cause.reason if isinstance(cause, UnicodeEncodeError) else " ".join(str(cause).split())[:300]
    return StoreError(f"the store at {where} cannot store this value: {detail}")


def _retryable(message: str, hint: str = _RETRY_HINT) -> StoreError:
    error = StoreError(message, hint=hint)
    error.retry_after = _RETRY_AFTER
    return error


def _code(error: sqlite3.Error) -> int:
    # Errors that the `sqlite3` module itself raises have no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _state(error: exc.SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, exc.DBAPIError) else None
    return getattr(cause, "sqlstate", None) or ""
