"""The store: the sessions of one owner in a database, opened for writing, listed, searched, read, removed.

A `Store` speaks for one owner and can name no other, so nobody finds another's sessions.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import sqlalchemy as sa

from ..core.types import JSONObject, is_object
from ..engine.rounds.transcript import Entry
from ..errors import NoSessionError, UsageError
from . import leases
from . import session_rows as ledger
from .database import Database
from .journal import SqlJournal
from .leases import Place
from .rows import Unreadable, dump, escaped, value_of
from .schema import calls, entries, now, pieces, rounds, sessions
from .schema import leases as lease_table
from .upsert import insert_new

#: Sessions that are listed unless more are asked for.
_LISTED = 100
#: The end of the year 9999, in UTC less a day: no clock that is right goes beyond, and every one shows it.
LAST_TIME: Final = 253402300799.0 - 86_400.0


def new_id() -> str:
    """128 random bits: nobody finds another's by guessing."""
    return secrets.token_hex(16)


class SessionInfo(msgspec.Struct, frozen=True):
    """A session as it is listed."""

    id: str
    title: str
    created: float
    updated: float
    #: What was said and answered, together.
    entries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: Who writes into it now; empty: nobody.
    holder: str = ""
    #: What whoever made it has said of it.
    about: JSONObject = {}


class Store:
    """The sessions of one owner.

    Args:
        url: `sqlite:///path`, `sqlite://` (in memory), `postgresql://...`, or a database that is open.
        owner: whose they are; nobody's in particular unless said.
        existing: only a store that is there already; nothing is made.

    Raises:
        NoStoreError: `existing`, and there is none.
        ConfigError: the URL cannot be used, or a newer version of toolspeak has been here.
        StoreError: it cannot be opened.
    """

    def __init__(self, url: str | Database, owner: str = "", *, existing: bool = False) -> None:
        self.database = url if isinstance(url, Database) else Database(url, existing=existing)
        self.owner = escaped(owner)

    def of(self, owner: str) -> Store:
        """The sessions of somebody else, in the same database."""
        return Store(self.database, owner)

    def close(self) -> None:
        """Give the connections back, also those of other owners' stores in this database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- writing

    async def journal(
        self, session: str = "", *, about: JSONObject | None = None, lease_seconds: float = leases.LEASE_SECONDS
    ) -> SqlJournal:
        """A session to write into: a new one, or one that there is, repaired.

        Raises:
            NoSessionError: this owner has no such session.
            SessionBusyError: somebody else writes into it.
            StoreDamagedError: it cannot be understood.
        """
        place = Place(self.owner, checked_id(session) if session else new_id())
        lease = leases.new_lease(place, lease_seconds)
        said = dump(about or {})

        def opened(connection: sa.Connection) -> int:
            if not session:
                _create(connection, place, said)
            leases.take(connection, lease)
            ledger.repair(connection, place)
            return ledger.next_entry(connection, place)

        next_entry = await self.database.writing(opened)
        return SqlJournal(self.database, lease, next_entry)

    # ---- reading

    def entries(self, session: str) -> tuple[Entry, ...]:
        """A conversation, as it is now; nothing is repaired.

        Raises:
            NoSessionError: this owner has no such session.
            StoreDamagedError: it cannot be understood.
        """
        place = Place(self.owner, checked_id(session))

        def found(connection: sa.Connection) -> tuple[Entry, ...]:
            _listed_one(connection, place)
            return ledger.entries_of(connection, place)

        return self.database.read(found)

    def info(self, session: str) -> SessionInfo:
        """What is listed of a session.

        Raises:
            NoSessionError: this owner has no such session.
        """
        place = Place(self.owner, checked_id(session))
        return self.database.read(lambda connection: _listed_one(connection, place))

    def sessions(self, text: str = "", *, limit: int = _LISTED, offset: int = 0) -> list[SessionInfo]:
        """The sessions, the last one first; with a text, only those in which it was said or answered."""
        query = _listing(self.owner).order_by(sessions.c.updated.desc(), sessions.c.id)
        if text:
            query = query.where(_mentions(text))
        return self.database.read(lambda connection: _infos(connection.execute(query.limit(limit).offset(offset))))

    def find(self, beginning: str) -> str:
        """The session whose id begins like this.

        Raises:
            NoSessionError: there is none.
            UsageError: there are several.
        """
        start = checked_id(beginning)
        query = sa.select(sessions.c.id).where(sessions.c.owner == self.owner)
        query = query.where(sa.func.substr(sessions.c.id, 1, len(start)) == start).limit(2)
        found = self.database.read(lambda connection: list(connection.execute(query).scalars()))
        if not found:
            raise NoSessionError(f"there is no session `{beginning:.80}`", hint="`toolspeak sessions list` shows them")
        if len(found) > 1:
            raise UsageError(f"several sessions begin with `{beginning:.80}`", hint="write more of the id")
        return found[0]

    # ---- removing

    def remove(self, session: str, *, force: bool = False) -> None:
        """Remove a session and everything in it.

        Raises:
            NoSessionError: this owner has no such session.
            SessionBusyError: somebody writes into it, and `force` is not set.
        """
        place = Place(self.owner, checked_id(session))

        def removed(connection: sa.Connection) -> None:
            if not force and leases.held(connection, place):
                raise leases.busy(connection, place)
            gone = sa.delete(sessions).where(sessions.c.owner == place.owner, sessions.c.id == place.session)
            connection.execute(gone)

        self.info(session)
        self.database.write(removed)


def checked_id(session: str) -> str:
    """What can be an id; anything else is one of nobody's."""
    if not session.isascii() or not session.isalnum() or len(session) > 64:
        raise NoSessionError(f"there is no session `{session:.80}`", hint="`toolspeak sessions list` shows them")
    return session


def _create(connection: sa.Connection, place: Place, about: str, title: str = "") -> None:
    values = {"owner": place.owner, "id": place.session, "title": title, "about": about}
    connection.execute(insert_new(connection, sessions, {**values, "created": now(), "updated": now()}))


def _listing(owner: str) -> sa.Select[*tuple[Any, ...]]:
    def summed(what: sa.ColumnElement[int]) -> sa.ScalarSelect[int]:
        own = (entries.c.owner == sessions.c.owner, entries.c.session == sessions.c.id)
        return sa.select(sa.func.coalesce(what, 0)).where(*own).scalar_subquery()

    held = sa.and_(
        lease_table.c.owner == sessions.c.owner, lease_table.c.session == sessions.c.id, lease_table.c.expires > now()
    )
    columns: list[sa.ColumnElement[Any]] = [
        sessions.c.id,
        sessions.c.title,
        sessions.c.created,
        sessions.c.updated,
        summed(sa.func.count(entries.c.number)),
        # As floats, which do not overflow, and are exact for every sum that is true.
        summed(sa.func.sum(sa.cast(entries.c.input_tokens, sa.Double))),
        summed(sa.func.sum(sa.cast(entries.c.output_tokens, sa.Double))),
        lease_table.c.holder,
        lease_table.c.token,
        sessions.c.about,
    ]
    return sa.select(*columns).select_from(sessions.outerjoin(lease_table, held)).where(sessions.c.owner == owner)


def _infos(rows: Iterable[Any]) -> list[SessionInfo]:
    """In the order of the columns above."""
    found: list[SessionInfo] = []
    for id, title, created, updated, count, given, made, holder, token, about in rows:
        numbers = (int(count), int(given), int(made))
        writer = "" if token is None or leases.is_over(token) else holder
        found.append(SessionInfo(id, title, _time(created), _time(updated), *numbers, writer, _about(about)))
    return found


def _time(value: object) -> float:
    """A time; 0 for what cannot be one. A list must not fail because of one row."""
    return value if isinstance(value, float) and 0.0 <= value <= LAST_TIME else 0.0


def _about(text: str) -> JSONObject:
    """A list must not fail because of one row."""
    try:
        value = value_of(text)
    except Unreadable:
        return {}
    return value if is_object(value) else {}


def _listed_one(connection: sa.Connection, place: Place) -> SessionInfo:
    rows = _infos(connection.execute(_listing(place.owner).where(sessions.c.id == place.session)))
    if not rows:
        raise NoSessionError(f"there is no session `{place.session}`", hint="`toolspeak sessions list` shows them")
    return rows[0]


def _mentions(text: str) -> sa.ColumnElement[bool]:
    """Sessions in which a text stands, in any case: in what was said, answered, called, or given back."""
    part = escaped(text).lower()

    def stands(table: sa.Table, column: sa.Column[str]) -> sa.ColumnElement[bool]:
        holds = sa.func.lower(column).contains(part, autoescape=True)
        return sa.exists().where(table.c.owner == sessions.c.owner, table.c.session == sessions.c.id, holds)

    return sa.or_(
        stands(entries, entries.c.body),
        stands(pieces, pieces.c.text),
        stands(rounds, rounds.c.body),
        stands(calls, calls.c.call),
        stands(calls, calls.c.result),
    )
