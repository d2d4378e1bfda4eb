"""Recorded requests of a server in a database, each stored as JSON and deleted after a retention time.

Their statistics are in the key-value state of the same database.

Recordings must be redacted before they are stored here.
"""

from collections.abc import Iterable, Iterator

import sqlalchemy as sa

from ..core.types import JSONValue
from ..errors import UsageError
from .database import Database
from .rows import dump, escape, parse_json
from .schema import insert_new, now, recordings
from .sql_key_value import SqlKeyValue

RETENTION_SECONDS = 14 * 24 * 3600.0  # retention time: long enough to look up a request from last week
_PAGE = 50  # number of recordings that are read at a time
_SWEEP_EVERY = 200  # number of recordings added between two deletions of expired ones


class Recordings:
    def __init__(self, database: Database, owner: str = "", retention: float = RETENTION_SECONDS) -> None:
        self._database = database
        self.state = SqlKeyValue(database)
        self._owner = escape(owner)
        self._retention = retention
        self._added = 0

    def add_all(self, several: Iterable[tuple[str, str, JSONValue]]) -> None:
        """Store several recordings (id, model, body) in one transaction, which costs about as much as storing one."""
        rows = [
            {"owner": self._owner, "id": escape(identifier), "model": escape(model), "body": dump(body)}
            for identifier, model, body in several
        ]
        if not rows:
            return
        after = self._added + len(rows)
        is_time = not self._added or self._added // _SWEEP_EVERY != after // _SWEEP_EVERY

        def work(connection: sa.Connection) -> None:
            moment = float(connection.execute(sa.select(now())).scalar_one())
            # Times are one microsecond apart, to preserve the order within a batch.
            ends = moment + self._retention
            timed = [{**row, "created": moment + number * 1e-6, "ends": ends} for number, row in enumerate(rows)]
            connection.execute(insert_new(connection, recordings), timed)
            if is_time:
                connection.execute(sa.delete(recordings).where(recordings.c.ends < now()))

        self._database.write(work)
        self._added = after

    def find(self, beginning: str) -> JSONValue:
        """Return the recording whose id begins with `beginning`, or None. Raises UsageError if several ids match."""
        start = escape(beginning)
        query = self._bodies().where(sa.func.substr(recordings.c.id, 1, len(start)) == start).limit(2)
        matches = self._database.read(lambda connection: list(connection.execute(query).scalars()))
        if len(matches) > 1:
            raise UsageError(f"several request ids begin with `{beginning:.80}`", hint="use more of the id")
        return parse_json(matches[0]) if matches else None

    def between(self, since: float, until: float) -> Iterator[JSONValue]:
        """Yield the recordings that were stored in a range of time, newest first."""
        created = recordings.c.created
        count = _PAGE
        while count == _PAGE:
            query = self._bodies().add_columns(created).where(created >= since, created < until)
            query = query.order_by(created.desc()).limit(_PAGE)
            rows = self._database.read(lambda connection, query=query: list(connection.execute(query)))
            for body, until in rows:  # noqa: B007 - the next page ends where this one does
                yield parse_json(body)
            count = len(rows)

    def last(self) -> JSONValue:
        query = self._bodies().order_by(recordings.c.created.desc()).limit(1)
        body = self._database.read(lambda connection: connection.execute(query).scalar())
        return parse_json(body) if body is not None else None

    def _bodies(self) -> sa.Select[str]:
        return sa.select(recordings.c.body).where(recordings.c.owner == self._owner, recordings.c.ends >= now())
