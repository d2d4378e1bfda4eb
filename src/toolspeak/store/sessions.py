"""The session store: open, list, search, read and remove the sessions of one owner.

A `Store` is bound to one owner and must never return another owner's sessions.
"""

import secrets
from collections.abc import Iterable
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
from .leases import SessionKey
from .rows import UnreadableColumn, dump, escape, parse_json
from .schema import calls, entries, insert_new, now, pieces, rounds, sessions
from .schema import leases as lease_table
from .session_rows import StoredChange, last_changed

_DEFAULT_LIMIT = 100
#: One day before the end of the year 9999, the latest time that can be displayed in every time zone.
LAST_TIME: Final = 253402300799.0 - 86_400.0


def new_id() -> str:
    """Return a random 128-bit id, which cannot be guessed."""
    return secrets.token_hex(16)


class SessionInfo(msgspec.Struct, frozen=True):
    id: str
    title: str
    created: float
    updated: float
    entries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    holder: str = ""  # name of the current writer; empty if there is none
    about: JSONObject = {}  # metadata set by the creator of the session


class Store:
    """The sessions of one owner.

    Args:
        url: `sqlite:///path`, `sqlite://` (in memory), `postgresql://...`, or an open database.
        owner: the tenant; empty for a store without tenants.
        existing: open only an existing store; create nothing.

    A store that cannot be written can still be read; writing raises `StoreReadOnlyError`. Opening raises the same
    errors as `Database`.
    """

    def __init__(self, url: str | Database, owner: str = "", *, existing: bool = False) -> None:
        self.database = url if isinstance(url, Database) else Database(url, existing=existing, read_only=True)
        self.owner = escape(owner)

    def of(self, owner: str) -> "Store":
        """Return the store of another owner in the same database."""
        return Store(self.database, owner)

    def close(self) -> None:
        """Close the database, including for the stores of other owners that share it."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def journal(
        self,
        session: str = "",
        *,
        about: JSONObject | None = None,
        lease_seconds: float = leases.LEASE_SECONDS,
        keep: int | None = None,
        create: bool = False,
    ) -> SqlJournal:
        """Open a session for writing: a new one, or an existing one after repair. `keep` deletes all later entries.

        `create` gives a new session this id.

        Raises NoSessionError if this owner has no such session, SessionBusyError if another writer holds it, and
        StoreDamagedError if it is unreadable.
        """
        key = SessionKey(self.owner, checked_id(session) if session else new_id())
        lease = leases.new_lease(key, lease_seconds)
        about_json = dump(about or {})

        def opened(connection: sa.Connection) -> int:
            if create or not session:
                texts = {"owner": key.owner, "id": key.session, "title": "", "about": about_json}
                connection.execute(insert_new(connection, sessions, {**texts, "created": now(), "updated": now()}))
            leases.take(connection, lease)
            ledger.repair(connection, key)
            if keep is not None:
                ledger.shorten(connection, key, keep)
            return ledger.next_entry(connection, key)

        return SqlJournal(self.database, lease, await self.database.writing(opened))

    def entries(self, session: str) -> tuple[Entry, ...]:
        """Return the conversation as stored, without repair.

        Raises NoSessionError if this owner has no such session, and StoreDamagedError if the session is unreadable.
        """
        key = SessionKey(self.owner, checked_id(session))

        def read_entries(connection: sa.Connection) -> tuple[Entry, ...]:
            _info(connection, key)
            return ledger.entries_of(connection, key)

        return self.database.read(read_entries)

    def info(self, session: str) -> SessionInfo:
        """Return a summary of a session. Raises NoSessionError if this owner has no such session."""
        key = SessionKey(self.owner, checked_id(session))
        return self.database.read(lambda connection: _info(connection, key))

    def sessions(self, text: str = "", *, limit: int = _DEFAULT_LIMIT, offset: int = 0) -> list[SessionInfo]:
        """Return the sessions, most recently updated first; with `text`, only those that contain it."""
        query = _listing(self.owner).order_by(sessions.c.updated.desc(), sessions.c.id)
        if text:
            query = query.where(_mentions(text))
        return self.database.read(lambda connection: _infos(connection.execute(query.limit(limit).offset(offset))))

    def find(self, beginning: str) -> str:
        """Return the session id that begins with `beginning`.

        Raises NoSessionError if no id matches, and UsageError if several ids match.
        """
        start = checked_id(beginning)
        query = sa.select(sessions.c.id).where(sessions.c.owner == self.owner)
        query = query.where(sa.func.substr(sessions.c.id, 1, len(start)) == start).limit(2)
        matches = self.database.read(lambda connection: list(connection.execute(query).scalars()))
        if not matches:
            raise _no_session(beginning)
        if len(matches) > 1:
            raise UsageError(f"several session ids begin with `{beginning:.80}`", hint="use more of the id")
        return matches[0]

    def changes(self, session: str) -> tuple[StoredChange, ...]:
        """Return the file changes of a session, including those that have been undone.

        Raises NoSessionError if this owner has no such session, and StoreDamagedError if the session is unreadable.
        """
        key = SessionKey(self.owner, self.info(session).id)
        return self.database.read(lambda connection: ledger.changes_of(connection, key))

    def last_changed(self, root: str) -> str:
        """Return the id of the session that changed files in a work directory last; empty if there is none."""
        return self.database.read(lambda connection: last_changed(connection, self.owner, root)) or ""

    def rename(self, session: str, title: str) -> None:
        """Set the title of a session. Raises NoSessionError if this owner has no such session."""
        key = SessionKey(self.owner, checked_id(session))
        if not self.database.write(lambda connection: ledger.rename(connection, key, title)):
            raise _no_session(session)

    def remove(self, session: str, *, force: bool = False) -> None:
        """Remove a session and everything in it.

        Raises NoSessionError if there is no such session, and SessionBusyError without `force` if it has a writer.
        """
        key = SessionKey(self.owner, checked_id(session))

        def removed(connection: sa.Connection) -> None:
            if not force and leases.has_writer(connection, key):
                raise leases.busy_error(connection, key)
            connection.execute(sa.delete(sessions).where(sessions.c.owner == key.owner, sessions.c.id == key.session))

        self.info(session)
        self.database.write(removed)


def checked_id(session: str) -> str:
    """Return the id if its syntax is valid; otherwise raise `NoSessionError`, because no session can have it."""
    if not session.isascii() or not session.isalnum() or len(session) > 64:
        raise _no_session(session)
    return session


def _no_session(session: str) -> NoSessionError:
    return NoSessionError(f"there is no session `{session:.80}`", hint="see `toolspeak sessions list`")


def _listing(owner: str) -> sa.Select[*tuple[Any, ...]]:
    def summed(what: sa.ColumnElement[int]) -> sa.ScalarSelect[int]:
        own = (entries.c.owner == sessions.c.owner, entries.c.session == sessions.c.id)
        return sa.select(sa.func.coalesce(what, 0)).where(*own).scalar_subquery()

    lease, row = lease_table.c, sessions.c
    active_lease = sa.and_(lease.owner == row.owner, lease.session == row.id, lease.expires > now())
    # Sum as floats, which do not overflow and are exact for every realistic sum.
    counts = (entries.c.input_tokens, entries.c.output_tokens)
    tokens = [summed(sa.func.sum(sa.cast(column, sa.Double))) for column in counts]
    columns: list[sa.ColumnElement[Any]] = [row.id, row.title, row.created, row.updated]
    columns += [summed(sa.func.count(entries.c.number)), *tokens, lease.holder, lease.token, row.about]
    return sa.select(*columns).select_from(sessions.outerjoin(lease_table, active_lease)).where(row.owner == owner)


def _infos(rows: Iterable[Any]) -> list[SessionInfo]:
    """Convert rows with the columns of `_listing` to summaries."""
    infos: list[SessionInfo] = []
    for id, title, created, updated, count, input_tokens, output_tokens, holder, token, about in rows:
        numbers = (int(count), int(input_tokens), int(output_tokens))
        writer = "" if token is None or leases.is_abandoned(token) else holder
        infos.append(SessionInfo(id, title, _time(created), _time(updated), *numbers, writer, _about(about)))
    return infos


def _time(value: object) -> float:
    """Return the value if it is a valid time, else 0, so one bad row does not make a list fail."""
    return value if isinstance(value, float) and 0.0 <= value <= LAST_TIME else 0.0


def _about(text: str) -> JSONObject:
    """Return the metadata, or {} if it is unreadable, so one bad row does not make a list fail."""
    try:
        value = parse_json(text)
    except UnreadableColumn:
        return {}
    return value if is_object(value) else {}


def _info(connection: sa.Connection, key: SessionKey) -> SessionInfo:
    rows = _infos(connection.execute(_listing(key.owner).where(sessions.c.id == key.session)))
    if not rows:
        raise _no_session(key.session)
    return rows[0]


def _mentions(text: str) -> sa.ColumnElement[bool]:
    """Return a condition that searches messages, answers, calls and results for a text, ignoring case."""
    part = escape(text).lower()

    def contains(table: sa.Table, column: sa.Column[str]) -> sa.ColumnElement[bool]:
        match = sa.func.lower(column).contains(part, autoescape=True)
        return sa.exists().where(table.c.owner == sessions.c.owner, table.c.session == sessions.c.id, match)

    columns = ((entries, entries.c.body), (pieces, pieces.c.text), (rounds, rounds.c.body))
    return sa.or_(*(contains(*each) for each in (*columns, (calls, calls.c.call), (calls, calls.c.result))))
