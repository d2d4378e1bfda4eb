"""Insert a row, or change the one that is there: the one thing that SQLAlchemy says differently for each database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def _insert(connection: sa.Connection, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def upsert(
    connection: sa.Connection,
    table: sa.Table,
    values: Mapping[str, Any],
    where: sa.ColumnElement[bool] | None = None,
) -> sa.Executable:
    """Insert a row; where there is one with this key, change it, if `where` holds."""
    keys = [column.name for column in table.primary_key]
    changed = {name: value for name, value in values.items() if name not in keys}
    return (
        _insert(connection, table).values(values).on_conflict_do_update(index_elements=keys, set_=changed, where=where)
    )


def insert_new(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any] | None = None) -> sa.Executable:
    """Insert a row, or those that it is carried out with; where there is one with this key, it stays."""
    insert = _insert(connection, table)
    return (insert.values(values) if values is not None else insert).on_conflict_do_nothing()
