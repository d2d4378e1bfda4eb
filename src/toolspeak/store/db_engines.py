"""URLs of databases, and how each kind is spoken to: files that only their owner reads, safe commits, bounded waits."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool, StaticPool

from ..config import shown_url
from ..errors import ConfigError, NoStoreError, StoreError

#: Milliseconds that SQLite waits for the lock of another process before it says so; `Database` then asks again.
_SQLITE_WAIT = 5_000
#: Connections of one process to PostgreSQL: as many as threads, and some for those who ask without one.
_CONNECTIONS, _MORE_CONNECTIONS = 4, 8
#: Seconds that somebody waits for one of them.
_POOL_WAIT = 10.0
#: Seconds for a connection to be made, and milliseconds for a statement and for a lock.
_CONNECT_WAIT = 5
_STATEMENT_WAIT, _LOCK_WAIT, _IDLE_WAIT = 30_000, 10_000, 60_000

_SCHEMES = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_HINT = "use sqlite:///PATH, sqlite:// (in memory) or postgresql://USER@HOST/NAME"

#: What to do where a store was to be read that is not there.
MISSING = "look whether it is written as it should be; the first `toolspeak run` or `chat` makes one"

#: `synchronous=FULL`: in WAL mode, `NORMAL` may lose the last commits when the power fails.
_PRAGMAS = (
    f"PRAGMA busy_timeout={_SQLITE_WAIT}",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA journal_mode=WAL",
)
#: One thread makes a file at a time, and nobody opens it meanwhile.
_making = threading.Lock()


class _Pool(QueuePool):
    """Connections that are kept for the next one who asks, until the pool is given up.

    SQLAlchemy closes those that lie in the pool then. One that is in use comes back later, to a pool that nobody knows
    any more: it would stay open until the garbage collector finds it.
    """

    _given_up = False

    def dispose(self) -> None:
        # First, so that one that comes back meanwhile is closed by this thread or by the one that brings it.
        self._given_up = True
        super().dispose()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        if self._given_up:
            super().dispose()


def made(url: str, *, existing: bool = False) -> tuple[sa.Engine, str, bool]:
    """How to reach the database, what it is called where people read it, and whether it is in memory.

    With `existing`, no file is made.
    """
    try:
        parsed = sa.make_url(url)
    except exc.ArgumentError:
        raise ConfigError("this is not the URL of a database", hint=_HINT) from None
    driver = _SCHEMES.get(parsed.drivername)
    if driver is None:
        raise ConfigError(f"databases of the kind `{parsed.drivername:.40}` are not known", hint=_HINT)
    parsed = parsed.set(drivername=driver)
    if driver.startswith("postgresql"):
        return _postgresql(parsed), f"`{shown_url(url)}`", False
    if parsed.host:
        raise ConfigError(f"`{shown_url(url):.200}` names a host, and SQLite has none", hint=_HINT)
    return _sqlite(parsed, existing)


def _postgresql(url: sa.URL) -> sa.Engine:
    waits = {"statement_timeout": _STATEMENT_WAIT, "lock_timeout": _LOCK_WAIT}
    waits["idle_in_transaction_session_timeout"] = _IDLE_WAIT
    options = " ".join(f"-c {name}={value}" for name, value in waits.items())
    said = {"connect_timeout": _CONNECT_WAIT, "application_name": "toolspeak", "options": options}
    said |= {"keepalives_idle": 30, "tcp_user_timeout": _STATEMENT_WAIT}
    arguments: dict[str, Any] = {name: value for name, value in said.items() if name not in url.query}
    try:
        # A server that went away takes idle connections with it: each is looked at before it is used.
        return sa.create_engine(
            url,
            connect_args=arguments,
            poolclass=_Pool,
            pool_size=_CONNECTIONS,
            max_overflow=_MORE_CONNECTIONS,
            pool_timeout=_POOL_WAIT,
            pool_pre_ping=True,
            hide_parameters=True,
        )
    except ImportError:
        raise ConfigError("PostgreSQL needs a package", hint="pip install 'toolspeak[postgres]'") from None


def _sqlite(url: sa.URL, existing: bool) -> tuple[sa.Engine, str, bool]:
    path = url.database or ""
    in_memory = path in ("", ":memory:")
    if not in_memory:
        file = Path(path).expanduser()
        if existing and not file.exists():
            raise NoStoreError(f"there is no store at `{file}`", hint=MISSING)
        _private(file)
        url, path = url.set(database=str(file)), str(file)
    pool = {"poolclass": StaticPool} if in_memory else {"poolclass": _Pool, "pool_timeout": _POOL_WAIT}
    engine = sa.create_engine(url, connect_args={"check_same_thread": False}, hide_parameters=True, **pool)
    event.listen(engine, "connect", _connected)
    event.listen(engine, "begin", _begun)
    return engine, "`memory`" if in_memory else f"`{path}`", in_memory


def _private(file: Path) -> None:
    """Make the file, so that nobody else can ever read it; SQLite gives the files beside it the same rights.

    One that is there is never opened but by SQLite: whoever closes any descriptor of a file drops all locks that the
    process has on it, those of other connections, too. Another process then thinks that nobody is there, and removes
    the log that this one goes on writing to.
    """
    try:
        with _making:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make(Path(os.path.realpath(file)))
    except OSError as error:
        hint = "make it accessible, or name another one with TOOLSPEAK_STORE"
        raise StoreError(f"cannot open the store `{file}`: {error.strerror or error}", hint=hint) from None


def _make(file: Path) -> None:
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        wrong = errno.EISDIR if file.is_dir() else 0 if os.access(file, os.R_OK | os.W_OK) else errno.EACCES
        if wrong:
            raise OSError(wrong, os.strerror(wrong)) from None


def _connected(connection: sqlite3.Connection, _: object) -> None:
    # Transactions begin where we say so, not where the module thinks that they should.
    connection.isolation_level = None
    # SQLite's own knows ASCII only; so both databases find the same.
    connection.create_function("lower", 1, _lower, deterministic=True)
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _begun(connection: sa.Connection) -> None:
    # A writer that begins as a reader cannot wait for its turn: somebody may have written since it began.
    write = connection.get_execution_options().get("toolspeak_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
