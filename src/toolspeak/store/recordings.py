"""Requests of a server that are kept beyond its memory: one JSON text each, for a bounded time.

What is written here has passed the filter that takes keys out.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from ..core.types import JSONValue
from ..errors import UsageError
from .database import Database
from .rows import dump, escaped, value_of
from .schema import now, recordings
from .upsert import insert_new

#: Seconds that a recording is kept: long enough to look at last week's question.
KEPT = 14 * 24 * 3600.0
#: Recordings between two looks for those whose time is over.
_EVERY = 200


class Recordings:
    """The recordings of one owner."""

    def __init__(self, database: Database, owner: str = "", kept: float = KEPT) -> None:
        self._database = database
        self._owner = escaped(owner)
        self._kept = kept
        self._added = 0

    def add(self, identifier: str, model: str, told: JSONValue) -> None:
        """Keep one: everything about a request, as a JSON value."""
        self.add_all([(identifier, model, told)])

    def add_all(self, several: Iterable[tuple[str, str, JSONValue]]) -> None:
        """Keep several, each by its id and its model, in one transaction: that costs as much as one does."""
        rows = [
            {"owner": self._owner, "id": escaped(identifier), "model": escaped(model), "body": dump(told)}
            for identifier, model, told in several
        ]
        if not rows:
            return
        after = self._added + len(rows)
        is_time = not self._added or self._added // _EVERY != after // _EVERY

        def work(connection: sa.Connection) -> None:
            moment = float(connection.execute(sa.select(now())).scalar_one())
            # One microsecond apart, so that it is known which of those that are kept together came last.
            times = [{"created": moment + number * 1e-6, "ends": moment + self._kept} for number in range(len(rows))]
            connection.execute(
                insert_new(connection, recordings), [{**row, **time} for row, time in zip(rows, times, strict=True)]
            )
            if is_time:
                connection.execute(sa.delete(recordings).where(recordings.c.ends < now()))

        self._database.write(work)
        self._added = after

    def find(self, beginning: str) -> JSONValue:
        """The one whose id begins like this; None when there is none.

        Raises:
            UsageError: there are several.
        """
        start = escaped(beginning)
        query = sa.select(recordings.c.body).where(recordings.c.owner == self._owner, recordings.c.ends >= now())
        query = query.where(sa.func.substr(recordings.c.id, 1, len(start)) == start).limit(2)
        found = self._database.read(lambda connection: list(connection.execute(query).scalars()))
        if len(found) > 1:
            raise UsageError(f"several requests begin with `{beginning:.80}`", hint="write more of the id")
        return value_of(found[0]) if found else None

    def last(self) -> JSONValue:
        """The newest; None when there is none."""
        query = sa.select(recordings.c.body).where(recordings.c.owner == self._owner, recordings.c.ends >= now())
        query = query.order_by(recordings.c.created.desc()).limit(1)
        found = self._database.read(lambda connection: connection.execute(query).scalar())
        return value_of(found) if found is not None else None
