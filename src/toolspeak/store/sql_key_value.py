"""Key-value store in a database, shared by proxies on many machines.

Expiry is based on the database's clock. Keys contain untrusted input, so they are escaped and limited in length.
Expired values are deleted periodically. Above the size limit, the values that expire soonest are deleted as well.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import sqlalchemy as sa

from ..errors import StoreDamagedError, UsageError
from .database import Database
from .rows import UnreadableColumn, dump, escape, parse_json, unescape
from .schema import insert_new, now, state, upsert

T = TypeVar("T")
_MAX_VALUE_CHARS = 4 * 1024 * 1024  # maximum size of a value, as in the other key-value stores
_MAX_KEY_CHARS = 512  # longer keys are replaced by a hash, because PostgreSQL cannot index keys above 2.7 kB
_SWEEP_EVERY = 256  # number of writes by this process between two deletions of expired values
#: Maximum total size of the values with a TTL, because any client of a proxy can add some.
_MAX_TOTAL_CHARS = 1024 * 1024 * 1024


class SqlKeyValue:
    """Key-value store in a database. Methods are thread-safe and wait for the database."""

    def __init__(self, database: Database, max_chars: int = _MAX_TOTAL_CHARS) -> None:
        self._database = database
        self._max_chars = max_chars
        self._writes = itertools.count(1)

    def get(self, key: str) -> Any:
        """Return the value, or None if it is missing or expired."""
        query = sa.select(state.c.value).where(state.c.key == _row_key(key), _is_live())
        return _value(key, self._database.read(lambda connection: connection.execute(query).scalar()))

    def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        places = {_row_key(key): key for key in keys}
        listed = list(places)

        def read_values(connection: sa.Connection) -> dict[str, Any]:
            values: dict[str, Any] = {}
            for start in range(0, len(listed), _SWEEP_EVERY):
                some = state.c.key.in_(listed[start : start + _SWEEP_EVERY])
                rows = connection.execute(sa.select(state.c.key, state.c.value).where(some, _is_live()))
                values |= {places[place]: _value(places[place], text) for place, text in rows}
            return values

        return self._database.read(read_values) if listed else {}

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Store a JSON value, for `ttl` seconds or until it is deleted."""
        row = _row(key, value, ttl)
        self._database.write(lambda connection: connection.execute(upsert(connection, state, row)))
        self._sweep_periodically()

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        """Return the existing value, or store and return this one. Concurrent writers all get the same value."""
        row = _row(key, value, ttl)
        query = sa.select(state.c.value).where(state.c.key == row["key"], _is_live())

        def insert_or_read(connection: sa.Connection) -> str | None:
            connection.execute(upsert(connection, state, row, sa.not_(_is_live())))
            return connection.execute(query).scalar()

        self._sweep_periodically()
        stored = self._database.write(insert_or_read)
        # A value with a very short TTL may expire before it is read back.
        return _value(key, row["value"] if stored is None else stored)

    def update(self, changes: Mapping[str, T], update: Callable[[Any, T], Any], ttl: float) -> None:
        """Replace each value (None if missing) by `update` of the value and its change, in one transaction."""

        def replace(connection: sa.Connection) -> None:
            for key in sorted(changes):  # in order, so that two writers cannot wait for each other
                connection.execute(insert_new(connection, state, _row(key, None, ttl)))
                query = sa.select(state.c.value).where(state.c.key == _row_key(key)).with_for_update()
                value = update(_value(key, connection.execute(query).scalar()), changes[key])
                connection.execute(upsert(connection, state, _row(key, value, ttl)))

        self._sweep_periodically()
        self._database.write(replace)

    def delete(self, key: str) -> None:
        query = sa.delete(state).where(state.c.key == _row_key(key))
        self._database.write(lambda connection: connection.execute(query))

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys of unexpired values with a prefix, sorted."""
        start = escape(prefix)
        listed = sa.select(state.c.key).where(sa.func.substr(state.c.key, 1, len(start)) == start, _is_live())
        rows = self._database.read(lambda connection: list(connection.execute(listed).scalars()))
        return sorted(map(unescape, rows))

    def close(self) -> None:
        self._database.close()

    def sweep(self) -> None:
        """Delete expired values and, above the size limit, those that expire soonest."""
        self._database.write(self._delete_expired)

    def _sweep_periodically(self) -> None:
        if next(self._writes) % _SWEEP_EVERY == 0:
            self.sweep()

    def _delete_expired(self, connection: sa.Connection) -> None:
        connection.execute(sa.delete(state).where(sa.not_(_is_live())))
        ending = state.c.ends.is_not(None)
        size = sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(state.c.value)), 0)).where(ending)
        over = int(connection.execute(size).scalar_one()) - self._max_chars
        if over <= 0:
            return
        leaving: list[str] = []
        soonest = sa.select(state.c.key, sa.func.length(state.c.value)).where(ending).order_by(state.c.ends)
        for key, length in connection.execute(soonest):
            leaving.append(key)
            over -= length
            if over <= 0:
                break
        for start in range(0, len(leaving), _SWEEP_EVERY):
            connection.execute(sa.delete(state).where(state.c.key.in_(leaving[start : start + _SWEEP_EVERY])))


def _is_live() -> sa.ColumnElement[bool]:
    return sa.or_(state.c.ends.is_(None), state.c.ends > now())


def _row(key: str, value: Any, ttl: float | None) -> dict[str, Any]:
    text = dump(value)
    if len(text) > _MAX_VALUE_CHARS:
        raise UsageError(f"the value for `{key:.80}` is too large: {len(text)} characters")
    # Values are read back as JSON: tuples become lists, and keys become strings.
    return {"key": _row_key(key), "value": text, "ends": None if ttl is None else now() + ttl}


def _row_key(key: str) -> str:
    text = escape(key)
    if len(text) <= _MAX_KEY_CHARS:
        return text
    # Truncate before escaping, so no escape sequence is cut in two.
    return f"{escape(key[: _MAX_KEY_CHARS // 16])}#{hashlib.sha256(text.encode()).hexdigest()}"


def _value(key: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return parse_json(text)
    except UnreadableColumn as error:
        raise StoreDamagedError(f"the stored value for `{key:.80}` is unreadable: {error}") from None
