"""Create the initial tables: sessions and their contents, leases, key-value state, recordings.

Revision ID: 0001
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None


def _key(*numbers: str) -> list[sa.Column[str] | sa.Column[int]]:
    texts = [sa.Column(name, sa.Text, primary_key=True) for name in ("owner", "session")]
    return [*texts, *(sa.Column(name, sa.Integer, primary_key=True, autoincrement=False) for name in numbers)]


def _needed(kind: type[TypeEngine[Any]], *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


def _below(parent: str, *names: str) -> sa.ForeignKeyConstraint:
    own = ["owner", "session", *names]
    theirs = ["owner", "id"] if parent == "sessions" else [*own[:-1], "number"]
    return sa.ForeignKeyConstraint(own, [f"{parent}.{name}" for name in theirs], ondelete="CASCADE")


def upgrade() -> None:
    _sessions()
    _answers()
    _rest()


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        *_needed(sa.Text, "title", "about"),
        *_needed(sa.Double, "created", "updated"),
    )
    op.create_index("sessions_by_age", "sessions", ["owner", "updated"])
    op.create_table(
        "leases",
        *_key(),
        *_needed(sa.Text, "token", "holder"),
        *_needed(sa.Double, "expires"),
        *_needed(sa.BigInteger, "written"),
        _below("sessions"),
    )


def _answers() -> None:
    op.create_table(
        "entries",
        *_key("number"),
        *_needed(sa.Text, "kind", "status", "body"),
        *_needed(sa.BigInteger, "input_tokens", "output_tokens"),
        *_needed(sa.Double, "created"),
        _below("sessions"),
    )
    op.create_table("pieces", *_key("entry", "number"), *_needed(sa.Text, "text"), _below("entries", "entry"))
    op.create_table(
        "rounds",
        *_key("entry", "number"),
        *_needed(sa.Text, "body"),
        *_needed(sa.Double, "created"),
        _below("entries", "entry"),
    )
    op.create_table(
        "calls",
        *_key("entry", "round", "number"),
        *_needed(sa.Text, "call_id", "state"),
        sa.Column("side_effects", sa.Boolean, nullable=False),
        *_needed(sa.Text, "call"),
        sa.Column("result", sa.Text),
        *_needed(sa.Double, "seconds"),
        sa.Column("started", sa.Double),
        sa.Column("finished", sa.Double),
        _below("rounds", "entry", "round"),
    )


def _rest() -> None:
    op.create_table(
        "state", sa.Column("key", sa.Text, primary_key=True), *_needed(sa.Text, "value"), sa.Column("ends", sa.Double)
    )
    op.create_index("state_by_end", "state", ["ends"])
    op.create_table(
        "recordings",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        *_needed(sa.Text, "model", "body"),
        *_needed(sa.Double, "created"),
        sa.Column("ends", sa.Double),
    )
    op.create_index("recordings_by_age", "recordings", ["owner", "created"])
