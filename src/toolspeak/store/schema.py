"""Tables of the store, the database's clock, and upsert statements.

Every row that belongs to a tenant has the owner in its primary key, and queries always name the owner. Values are plain
JSON in text columns. `migrations` creates the tables and must not import this module, because a migration never changes
after its release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

#: The newest revision under `migrations/versions`.
HEAD = "0002"
VERSION_TABLE = "toolspeak_version"

metadata = sa.MetaData()


class now(FunctionElement[float]):
    """SQL function for the time in seconds since the epoch, by the database's clock, which all writers share."""

    type: TypeEngine[float] = sa.Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _now_sqlite(element: now, compiler: SQLCompiler, **_: object) -> str:  # pyright: ignore[reportUnusedFunction]
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _now_postgresql(element: now, compiler: SQLCompiler, **_: object) -> str:  # pyright: ignore[reportUnusedFunction]
    return "extract(epoch from clock_timestamp())::double precision"


def _owned(*names: str) -> list[sa.Column[str] | sa.Column[int]]:
    """Return the key columns of a table whose rows belong to a session: owner, session id, and numbers."""
    texts = [sa.Column("owner", sa.Text, primary_key=True), sa.Column("session", sa.Text, primary_key=True)]
    return [*texts, *(sa.Column(name, sa.Integer, primary_key=True, autoincrement=False) for name in names)]


def _below(parent: str, *names: str) -> sa.ForeignKeyConstraint:
    """Return a foreign key to the parent table. Rows are deleted with their parent."""
    own = ["owner", "session", *names]
    theirs = ["owner", "id"] if parent == "sessions" else [*own[:-1], "number"]
    return sa.ForeignKeyConstraint(own, [f"{parent}.{name}" for name in theirs], ondelete="CASCADE")


sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("about", sa.Text, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("updated", sa.Double, nullable=False),
    sa.Index("sessions_by_age", "owner", "updated"),
)

#: The entries of a session: messages (kind `message`), and answers without their rounds (kind `answer`).
entries = sa.Table(
    "entries",
    metadata,
    *_owned("number"),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("output_tokens", sa.BigInteger, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    _below("sessions"),
)

#: Pieces of streamed text of a running answer that are not yet part of a round, in order.
pieces = sa.Table(
    "pieces",
    metadata,
    *_owned("entry", "number"),
    sa.Column("text", sa.Text, nullable=False),
    _below("entries", "entry"),
)

rounds = sa.Table(
    "rounds",
    metadata,
    *_owned("entry", "number"),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    _below("entries", "entry"),
)

calls = sa.Table(
    "calls",
    metadata,
    *_owned("entry", "round", "number"),
    sa.Column("call_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("side_effects", sa.Boolean, nullable=False),
    sa.Column("call", sa.Text, nullable=False),
    sa.Column("result", sa.Text, nullable=True),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("started", sa.Double, nullable=True),
    sa.Column("finished", sa.Double, nullable=True),
    _below("rounds", "entry", "round"),
)

#: Changes of files by the tools of a session, in order. `body` is the change as JSON, without the content.
file_changes = sa.Table(
    "file_changes",
    metadata,
    *_owned("number"),
    sa.Column("entry", sa.Integer, nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("call_id", sa.Text, nullable=False),
    sa.Column("root", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    #: Only with the first change of a file that has not been undone, because undo goes back to that one.
    sa.Column("content", sa.LargeBinary, nullable=True),
    sa.Column("undone", sa.Boolean, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    _below("sessions"),
    sa.Index("file_changes_by_root", "owner", "root", "created"),
)

#: The current writer of each session. `written` counts its commits.
leases = sa.Table(
    "leases",
    metadata,
    *_owned(),
    sa.Column("token", sa.Text, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("expires", sa.Double, nullable=False),
    sa.Column("written", sa.BigInteger, nullable=False),
    _below("sessions"),
)

#: The key-value store. The keys of values that belong to a tenant contain the tenant.
state = sa.Table(
    "state",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("ends", sa.Double, nullable=True),
    sa.Index("state_by_end", "ends"),
)

#: Recorded requests.
recordings = sa.Table(
    "recordings",
    metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("ends", sa.Double, nullable=True),
    sa.Index("recordings_by_age", "owner", "created"),
)


# ---- upsert statements, whose syntax differs between databases


def upsert(
    connection: sa.Connection,
    table: sa.Table,
    values: Mapping[str, Any],
    where: sa.ColumnElement[bool] | None = None,
) -> sa.Executable:
    """Return a statement that inserts a row, or updates the row with the same key if it matches `where`."""
    keys = [column.name for column in table.primary_key]
    updates = {name: value for name, value in values.items() if name not in keys}
    return (
        _insert(connection, table).values(values).on_conflict_do_update(index_elements=keys, set_=updates, where=where)
    )


def insert_new(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any] | None = None) -> sa.Executable:
    """Return a statement that inserts a row (or the rows passed to `execute`) unless its key exists."""
    insert = _insert(connection, table)
    return (insert.values(values) if values is not None else insert).on_conflict_do_nothing()


def _insert(connection: sa.Connection, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)
