"""Tables of the store, the database's clock, and upsert statements.

Every row that belongs to a tenant has the owner in its primary key, and queries always name the owner. Values are plain
JSON in text columns. `migrations` creates the tables and must not import this module, because a migration never changes
after its release.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

HEAD = "0002"
VERSION_TABLE = "toolspeak_version"

metadata = sa.MetaData()


class now(FunctionElement[float]):
    """SQL function for the time in seconds since the epoch, by the database's clock, which all writers share."""

    type: TypeEngine[float] = sa.Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _now_sqlite(element: now, compiler: "SQLCompiler", **_: object) -> str:  # pyright: ignore[reportUnusedFunction]
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _now_postgresql(element: now, compiler: "SQLCompiler", **_: object) -> str:  # pyright: ignore[reportUnusedFunction]
    return "extract(epoch from clock_timestamp())::double precision"


def _table(name: str, *items: SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, *items)


def _owned(*numbers: str, id: str = "session") -> list[sa.Column[Any]]:
    """Return the key columns of a table whose rows belong to a tenant: owner, id, and numbers."""
    texts = [sa.Column(name, sa.Text, primary_key=True) for name in ("owner", id)]
    return [*texts, *(sa.Column(name, sa.Integer, primary_key=True, autoincrement=False) for name in numbers)]


def _columns(kind: type[TypeEngine[Any]], *names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]


def _below(parent: str, *names: str) -> sa.ForeignKeyConstraint:
    """Return a foreign key to the parent table. Rows are deleted with their parent."""
    own = ["owner", "session", *names]
    theirs = ["owner", "id"] if parent == "sessions" else [*own[:-1], "number"]
    return sa.ForeignKeyConstraint(own, [f"{parent}.{name}" for name in theirs], ondelete="CASCADE")


sessions = _table(
    "sessions",
    *_owned(id="id"),
    *_columns(sa.Text, "title", "about"),
    *_columns(sa.Double, "created", "updated"),
    sa.Index("sessions_by_age", "owner", "updated"),
)

#: The entries of a session: messages (kind `message`), and answers without their rounds (kind `answer`).
entries = _table(
    "entries",
    *_owned("number"),
    *_columns(sa.Text, "kind", "status", "body"),
    *_columns(sa.BigInteger, "input_tokens", "output_tokens"),
    *_columns(sa.Double, "created"),
    _below("sessions"),
)

#: Pieces of streamed text of a running answer that are not yet part of a round, in order.
pieces = _table("pieces", *_owned("entry", "number"), *_columns(sa.Text, "text"), _below("entries", "entry"))

rounds = _table(
    "rounds",
    *_owned("entry", "number"),
    *_columns(sa.Text, "body"),
    *_columns(sa.Double, "created"),
    _below("entries", "entry"),
)

calls = _table(
    "calls",
    *_owned("entry", "round", "number"),
    *_columns(sa.Text, "call_id", "state"),
    *_columns(sa.Boolean, "side_effects"),
    *_columns(sa.Text, "call"),
    *_columns(sa.Text, "result", nullable=True),
    *_columns(sa.Double, "seconds"),
    *_columns(sa.Double, "started", "finished", nullable=True),
    _below("rounds", "entry", "round"),
)

#: Changes of files by the tools of a session, in order. `body` is the change as JSON, without the content. `content` is
#: stored only with the first change of a file that has not been undone, because undo goes back to that one.
file_changes = _table(
    "file_changes",
    *_owned("number"),
    *_columns(sa.Integer, "entry", "round"),
    *_columns(sa.Text, "call_id", "root", "path", "body"),
    *_columns(sa.LargeBinary, "content", nullable=True),
    *_columns(sa.Boolean, "undone"),
    *_columns(sa.Double, "created"),
    _below("sessions"),
    sa.Index("file_changes_by_root", "owner", "root", "created"),
)

#: The current writer of each session. `written` counts its commits.
leases = _table(
    "leases",
    *_owned(),
    *_columns(sa.Text, "token", "holder"),
    *_columns(sa.Double, "expires"),
    *_columns(sa.BigInteger, "written"),
    _below("sessions"),
)

#: The key-value store. The keys of values that belong to a tenant contain the tenant.
state = _table(
    "state",
    sa.Column("key", sa.Text, primary_key=True),
    *_columns(sa.Text, "value"),
    *_columns(sa.Double, "ends", nullable=True),
    sa.Index("state_by_end", "ends"),
)

recordings = _table(
    "recordings",
    *_owned(id="id"),
    *_columns(sa.Text, "model", "body"),
    *_columns(sa.Double, "created"),
    *_columns(sa.Double, "ends", nullable=True),
    sa.Index("recordings_by_age", "owner", "created"),
)


def upsert(
    connection: sa.Connection, table: sa.Table, values: Mapping[str, Any], where: sa.ColumnElement[bool] | None = None
) -> sa.Executable:
    """Return a statement that inserts a row, or updates the row with the same key if it matches `where`."""
    keys = [column.name for column in table.primary_key]
    updates = {name: value for name, value in values.items() if name not in keys}
    insert = _insert(connection, table).values(values)
    return insert.on_conflict_do_update(index_elements=keys, set_=updates, where=where)


def insert_new(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any] | None = None) -> sa.Executable:
    """Return a statement that inserts a row (or the rows passed to `execute`) unless its key exists."""
    insert = _insert(connection, table)
    return (insert.values(values) if values is not None else insert).on_conflict_do_nothing()


def _insert(connection: sa.Connection, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)
