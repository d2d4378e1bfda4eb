"""The tables of the store, and the clock of the database.

Everything that belongs to somebody has its owner in its key, so that no query can find another's. Values are plain
JSON in text columns: nothing is revived from them but the values of `core`. The tables are made by `migrations`, which
must not import this module: what they did once stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

#: The newest revision under `migrations/versions`.
HEAD = "0001"
VERSION_TABLE = "toolspeak_version"

metadata = sa.MetaData()


class now(FunctionElement[float]):
    """Seconds since the epoch by the database's clock, which all writers share."""

    type: TypeEngine[float] = sa.Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _now_sqlite(element: now, compiler: SQLCompiler, **_: object) -> str:  # pyright: ignore[reportUnusedFunction]
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _now_postgresql(element: now, compiler: SQLCompiler, **_: object) -> str:  # pyright: ignore[reportUnusedFunction]
    return "extract(epoch from clock_timestamp())::double precision"


def _owned(*names: str) -> list[sa.Column[str] | sa.Column[int]]:
    """The key of a table whose rows belong to a session: its owner, its id, and numbers."""
    texts = [sa.Column("owner", sa.Text, primary_key=True), sa.Column("session", sa.Text, primary_key=True)]
    return [*texts, *(sa.Column(name, sa.Integer, primary_key=True, autoincrement=False) for name in names)]


def _below(parent: str, *names: str) -> sa.ForeignKeyConstraint:
    """Rows go when what they belong to goes."""
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

#: What was said (`message`), and answers without their rounds (`answer`).
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

#: Text of a running answer that no round and no end holds yet, in the order in which it came.
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

#: Who may write into a session. `written` counts what this holder has committed.
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

#: The `State` seam. Its keys hold the tenant where there is one.
state = sa.Table(
    "state",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("ends", sa.Double, nullable=True),
    sa.Index("state_by_end", "ends"),
)

#: What happened to single requests, for those who ask later.
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
