"""The `State` seam over a database, so that proxies on many machines share one memory.

Expiry is by the database's clock. Keys come from outside in part, so they are escaped and bounded before they are
keys of rows. What has ended is swept up now and then, and what ends soonest goes first when there is too much.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from ..errors import StoreDamagedError, UsageError
from .database import Database
from .rows import Unreadable, dump, escaped, unescaped, value_of
from .schema import now, state
from .upsert import upsert

#: A value larger than this does not belong here; as in the other states.
_LARGEST_VALUE = 4 * 1024 * 1024
#: An index of PostgreSQL takes no key above 2.7 kB; a longer one is known by its hash.
_LONGEST_KEY = 512
#: Writes of this process between two sweeps.
_SWEEP_EVERY = 256
#: Characters that all values with an end may take together: anybody who may ask a proxy fills it.
_MOST_CHARACTERS = 1024 * 1024 * 1024


class SqlState:
    """Values under keys in a database. Every method may be called from any thread, and waits for the database."""

    def __init__(self, database: Database, most: int = _MOST_CHARACTERS) -> None:
        self._database = database
        self._most = most
        self._writes = itertools.count(1)

    def get(self, key: str) -> Any:
        """The value, or None when there is none (any more)."""
        found = sa.select(state.c.value).where(state.c.key == _place(key), _lives())
        return _value(key, self._database.read(lambda connection: connection.execute(found).scalar()))

    def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        """The living values among these keys."""
        places = {_place(key): key for key in keys}
        listed = list(places)

        def found(connection: sa.Connection) -> dict[str, Any]:
            values: dict[str, Any] = {}
            for start in range(0, len(listed), _SWEEP_EVERY):
                some = state.c.key.in_(listed[start : start + _SWEEP_EVERY])
                rows = connection.execute(sa.select(state.c.key, state.c.value).where(some, _lives()))
                values |= {places[place]: _value(places[place], text) for place, text in rows}
            return values

        return self._database.read(found) if listed else {}

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Keep a JSON value, for `ttl` seconds or until it is deleted."""
        row = _row(key, value, ttl)
        self._database.write(lambda connection: connection.execute(upsert(connection, state, row)))
        self._sweep_sometimes()

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        """The value there is; if there is none, this one, kept. One of several writers wins, all see the winner."""
        row = _row(key, value, ttl)
        found = sa.select(state.c.value).where(state.c.key == row["key"], _lives())

        def settled(connection: sa.Connection) -> str | None:
            connection.execute(upsert(connection, state, row, sa.not_(_lives())))
            return connection.execute(found).scalar()

        self._sweep_sometimes()
        kept = self._database.write(settled)
        # What ends at once is gone before it can be looked at.
        return _value(key, row["value"] if kept is None else kept)

    def delete(self, key: str) -> None:
        """Forget a value."""
        gone = sa.delete(state).where(state.c.key == _place(key))
        self._database.write(lambda connection: connection.execute(gone))

    def keys(self, prefix: str = "") -> list[str]:
        """The keys of living values, sorted."""
        start = escaped(prefix)
        begins = sa.func.substr(state.c.key, 1, len(start)) == start
        listed = sa.select(state.c.key).where(begins, _lives())
        found = self._database.read(lambda connection: list(connection.execute(listed).scalars()))
        return sorted(map(unescaped, found))

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def sweep(self) -> None:
        """Remove what has ended, and what ends soonest where all of it takes too much room."""
        self._database.write(self._swept)

    def _sweep_sometimes(self) -> None:
        if next(self._writes) % _SWEEP_EVERY == 0:
            self.sweep()

    def _swept(self, connection: sa.Connection) -> None:
        connection.execute(sa.delete(state).where(sa.not_(_lives())))
        ending = state.c.ends.is_not(None)
        size = sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(state.c.value)), 0)).where(ending)
        over = int(connection.execute(size).scalar_one()) - self._most
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


def _lives() -> sa.ColumnElement[bool]:
    return sa.or_(state.c.ends.is_(None), state.c.ends > now())


def _row(key: str, value: Any, ttl: float | None) -> dict[str, Any]:
    text = dump(value)
    if len(text) > _LARGEST_VALUE:
        raise UsageError(f"the value for `{key:.80}` is too large to keep: {len(text)} characters")
    # A value that was never JSON (a tuple, a key that is a number) is given back as what JSON makes of it.
    return {"key": _place(key), "value": text, "ends": None if ttl is None else now() + ttl}


def _place(key: str) -> str:
    text = escaped(key)
    if len(text) <= _LONGEST_KEY:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    # Cut where nothing that was escaped can be cut in two.
    return f"{escaped(key[: _LONGEST_KEY // 16])}#{digest}"


def _value(key: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return value_of(text)
    except Unreadable as error:
        raise StoreDamagedError(f"what the store holds for `{key:.80}` cannot be understood: {error}") from None
