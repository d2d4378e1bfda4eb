"""Tables of the store, the database's clock, and upsert statements.

Every row that belongs to a tenant has the owner in its primary key, and queries always name the owner. Values are plain
JSON in text columns. The SQL in `migrations` creates the tables, with their indexes and foreign keys.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
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


_TYPES: Mapping[str, type[TypeEngine[Any]]] = {
    "text": sa.Text,
    "integer": sa.Integer,
    "big_integer": sa.BigInteger,
    "double": sa.Double,
    "boolean": sa.Boolean,
    "binary": sa.LargeBinary,
}


def _table(name: str, key: str, numbers: str = "", **columns: str) -> sa.Table:
    """Return a table with the names of its columns: texts and numbers of its key, and the others by type."""
    typed = [("text", key), ("integer", numbers), *columns.items()]
    all_columns = [
        sa.Column(each, _TYPES[kind], primary_key=position < 2, autoincrement=False)
        for position, (kind, names) in enumerate(typed)
        for each in names.split()
    ]
    return sa.Table(name, metadata, *all_columns)


sessions = _table("sessions", "owner id", text="title about", double="created updated")

#: The entries of a session: messages (kind `message`), and answers without their rounds (kind `answer`).
_entry = {"text": "kind status body", "big_integer": "input_tokens output_tokens", "double": "created"}
entries = _table("entries", "owner session", "number", **_entry)

#: Pieces of streamed text of a running answer that are not yet part of a round, in order.
pieces = _table("pieces", "owner session", "entry number", text="text")

rounds = _table("rounds", "owner session", "entry number", text="body", double="created")

_call = {"text": "call_id state call result", "boolean": "side_effects", "double": "seconds started finished"}
calls = _table("calls", "owner session", "entry round number", **_call)

#: Changes of files by the tools of a session, in order. `body` is the change as JSON, without the content. `content` is
#: stored only with the first change of a file that has not been undone, because undo goes back to that one.
_change = {"integer": "entry round", "text": "call_id root path body", "binary": "content", "boolean": "undone"}
file_changes = _table("file_changes", "owner session", "number", **_change, double="created")

#: The current writer of each session. `written` counts its commits.
leases = _table("leases", "owner session", text="token holder", double="expires", big_integer="written")

#: The key-value store. The keys of values that belong to a tenant contain the tenant.
state = _table("state", "key", text="value", double="ends")

recordings = _table("recordings", "owner id", text="model body", double="created ends")


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
