"""Create SQLAlchemy engines by URL, with private SQLite files, durable commits and timeouts."""

import errno
import os
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool, StaticPool

from ..config import redacted_url
from ..core.text import system_reason
from ..errors import ConfigError, NoStoreError, StoreError, StoreReadOnlyError

#: Milliseconds that SQLite waits for a lock held by another process. `Database` then retries.
_SQLITE_WAIT = 5_000
#: PostgreSQL connections per process: one per thread, and additional ones for blocking callers.
_CONNECTIONS, _MORE_CONNECTIONS = 4, 8
_POOL_WAIT = 10.0
#: Timeouts of PostgreSQL: in seconds for connecting; in milliseconds for a statement, a lock and an idle transaction.
_CONNECT_WAIT = 5
_STATEMENT_WAIT, _LOCK_WAIT, _IDLE_WAIT = 30_000, 10_000, 60_000

_SCHEMES = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_URL_HINT = "use sqlite:///PATH, sqlite:// (in memory) or postgresql://USER@HOST/NAME"

MISSING_STORE_HINT = "check the path or URL; the first `toolspeak run` or `chat` creates a store"

#: Settings for each SQLite connection. In WAL mode, `synchronous=NORMAL` could lose commits in a power failure.
_PRAGMAS = (
    f"PRAGMA busy_timeout={_SQLITE_WAIT}",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA journal_mode=WAL",
)
#: Settings for a database that cannot be written: all but those for writing.
_READ_PRAGMAS = _PRAGMAS[:1] + _PRAGMAS[3:4]
_create_lock = threading.Lock()


class _ConnectionPool(QueuePool):
    """A connection pool that also closes connections returned after `dispose`.

    SQLAlchemy closes only the idle connections. A connection in use would return to the disposed pool and stay open
    until it is garbage-collected.
    """

    _disposed = False

    def dispose(self) -> None:
        # Set first: a connection returned during `dispose` is then closed by this thread or by the returning one.
        self._disposed = True
        super().dispose()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        if self._disposed:
            super().dispose()


def open_engine(url: str, *, existing: bool = False, read_only: bool = False) -> tuple[sa.Engine, str, bool]:
    """Create the engine for a URL. Return it, a name for messages, and whether the database is in memory.

    With `existing`, no file is created. With `read_only`, a file that cannot be written is opened for reading.
    """
    try:
        parsed = sa.make_url(url)
    except exc.ArgumentError:
        raise ConfigError("invalid database URL", hint=_URL_HINT) from None
    driver = _SCHEMES.get(parsed.drivername)
    if driver is None:
        raise ConfigError(f"unsupported database `{parsed.drivername:.40}`", hint=_URL_HINT)
    parsed = parsed.set(drivername=driver)
    if driver.startswith("postgresql"):
        return _postgresql_engine(parsed), f"`{redacted_url(url)}`", False
    if parsed.host:
        raise ConfigError(f"SQLite URL `{redacted_url(url):.200}` must not contain a host", hint=_URL_HINT)
    return _sqlite_engine(parsed, existing, read_only)


def _postgresql_engine(url: sa.URL) -> sa.Engine:
    waits = {"statement_timeout": _STATEMENT_WAIT, "lock_timeout": _LOCK_WAIT}
    waits["idle_in_transaction_session_timeout"] = _IDLE_WAIT
    options = " ".join(f"-c {name}={value}" for name, value in waits.items())
    defaults = {"connect_timeout": _CONNECT_WAIT, "application_name": "toolspeak", "options": options}
    defaults |= {"keepalives_idle": 30, "tcp_user_timeout": _STATEMENT_WAIT}
    arguments: dict[str, Any] = {name: value for name, value in defaults.items() if name not in url.query}
    # A server restart breaks idle connections, so each one is tested before use (pre-ping).
    pool: dict[str, Any] = {"poolclass": _ConnectionPool, "pool_timeout": _POOL_WAIT, "pool_pre_ping": True}
    pool |= {"pool_size": _CONNECTIONS, "max_overflow": _MORE_CONNECTIONS}
    try:
        return sa.create_engine(url, connect_args=arguments, hide_parameters=True, **pool)
    except ImportError:
        raise ConfigError("PostgreSQL support is not installed", hint="pip install 'toolspeak[postgres]'") from None


def _sqlite_engine(url: sa.URL, existing: bool, read_only: bool) -> tuple[sa.Engine, str, bool]:
    path = url.database or ""
    in_memory = path in ("", ":memory:")
    read_only = read_only and not in_memory and _is_unwritable(Path(path).expanduser())
    if not in_memory:
        file = Path(path).expanduser()
        if existing and not file.exists():
            raise NoStoreError(f"there is no store at `{file}`", hint=MISSING_STORE_HINT)
        if not read_only:
            _create_private_file(file)
        url, path = _read_only_url(url, file) if read_only else url.set(database=str(file)), str(file)
    pool = {"poolclass": StaticPool} if in_memory else {"poolclass": _ConnectionPool, "pool_timeout": _POOL_WAIT}
    engine = sa.create_engine(url, connect_args={"check_same_thread": False}, hide_parameters=True, **pool)
    event.listen(engine, "connect", partial(_set_up_connection, _READ_PRAGMAS if read_only else _PRAGMAS))
    event.listen(engine, "begin", _begin_transaction)
    return engine, "`memory`" if in_memory else f"`{path}`", in_memory


def _is_unwritable(file: Path) -> bool:
    """Whether an existing database can be read but not written, because of its permissions or a read-only disk."""
    if not os.access(file, os.R_OK) or not file.is_file():
        return False
    return not os.access(file, os.W_OK) or not os.access(Path(os.path.realpath(file)).parent, os.W_OK | os.X_OK)


def _read_only_url(url: sa.URL, file: Path) -> sa.URL:
    """Return the URL that opens a database for reading.

    SQLite needs to create an index for the write-ahead log, even if there is no log. `immutable` prevents that. It must
    not be used if there is a log, because SQLite would ignore the log, and with it the latest commits.
    """
    real = Path(os.path.realpath(file))
    log, index = Path(f"{real}-wal"), Path(f"{real}-shm")
    has_log = log.exists() and log.stat().st_size > 0
    if has_log and not index.exists() and not os.access(real.parent, os.W_OK):
        message = f"cannot read the write-ahead log of the store `{file}` in a read-only folder"
        raise StoreReadOnlyError(message, hint=f"copy `{real.name}` and `{log.name}` to a folder that can be written")
    query = {"mode": "ro", "uri": "true"} | ({} if has_log else {"immutable": "1"})
    return url.set(database=Path(os.path.abspath(file)).as_uri(), query=query)


def _create_private_file(file: Path) -> None:
    """Create the file so that only its owner can read it. SQLite gives its auxiliary files the same permissions.

    Only SQLite may open an existing file. Closing any descriptor of a file drops all POSIX locks that the process has
    on it, including those of other connections. Another process would then consider the database unused and remove the
    write-ahead log that this process still writes to.
    """
    try:
        with _create_lock:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create_file(Path(os.path.realpath(file)))
    except OSError as error:
        hint = "check its permissions, or set TOOLSPEAK_STORE to another store"
        raise StoreError(f"cannot open the store `{file}`: {system_reason(error)}", hint=hint) from None


def _create_file(file: Path) -> None:
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        wrong = errno.EISDIR if file.is_dir() else 0 if os.access(file, os.R_OK | os.W_OK) else errno.EACCES
        if wrong:
            raise OSError(wrong, os.strerror(wrong)) from None


def _set_up_connection(pragmas: tuple[str, ...], connection: sqlite3.Connection, _: object) -> None:
    # The sqlite3 module must not start transactions; `_begin_transaction` does.
    connection.isolation_level = None
    # SQLite's own `lower` handles only ASCII; this one behaves as in PostgreSQL.
    connection.create_function("lower", 1, _lower, deterministic=True)
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(pragma)
    cursor.close()


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _begin_transaction(connection: sa.Connection) -> None:
    # A transaction that begins with a read cannot wait for the write lock later, because its snapshot may be outdated.
    write = connection.get_execution_options().get("toolspeak_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
