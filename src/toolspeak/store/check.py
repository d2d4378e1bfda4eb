"""Looks through a store: is the file whole, can every session be understood, what did a crash leave behind.

Reads only, unless it is told to repair; then it does what opening each session would do.
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from ..errors import ToolspeakError
from . import leases
from . import session_rows as ledger
from .leases import Place
from .schema import HEAD, entries, sessions
from .sessions import Store

#: Findings about the file itself; one that is broken has thousands.
_MOST_FINDINGS = 20


class Finding(msgspec.Struct, frozen=True):
    """A session that something is the matter with."""

    session: str
    what: str


class Report(msgspec.Struct, frozen=True):
    """What was found."""

    where: str
    schema: str
    sessions: int
    #: What is wrong with the file, in the words of its database.
    file: tuple[str, ...] = ()
    #: Sessions that cannot be read.
    damaged: tuple[Finding, ...] = ()
    #: Sessions in which an answer was broken off; opening them repairs that.
    unfinished: tuple[str, ...] = ()
    repaired: int = 0

    @property
    def good(self) -> bool:
        """Whether nothing is lost."""
        return not (self.file or self.damaged)


def check(store: Store, *, repair: bool = False) -> Report:
    """Look through the sessions of an owner, and at the file that they are in."""
    listed = sa.select(sessions.c.id).where(sessions.c.owner == store.owner).order_by(sessions.c.id)
    running = sa.select(entries.c.session).where(entries.c.owner == store.owner, entries.c.status == "running")
    ids = store.database.read(lambda connection: list(connection.execute(listed).scalars()))
    broken_off = store.database.read(lambda connection: sorted(set(connection.execute(running).scalars())))
    damaged = tuple(finding for each in ids if (finding := _look(store, each)) is not None)
    bad = {finding.session for finding in damaged}
    repaired = sum(_repair(store, each) for each in broken_off if each not in bad) if repair else 0
    file = store.database.read(_file)
    return Report(store.database.where, HEAD, len(ids), file, damaged, tuple(broken_off), repaired)


def _look(store: Store, session: str) -> Finding | None:
    try:
        store.entries(session)
    except ToolspeakError as error:
        return Finding(session, str(error.args[0]))
    return None


def _repair(store: Store, session: str) -> int:
    """Answers that are no longer running; none where somebody writes into the session."""
    lease = leases.new_lease(Place(store.owner, session))

    def repaired(connection: sa.Connection) -> int:
        leases.take(connection, lease)
        count = ledger.repair(connection, lease.place)
        leases.release(connection, lease)
        return count

    try:
        return store.database.write(repaired)
    except ToolspeakError:
        return 0


def _file(connection: sa.Connection) -> tuple[str, ...]:
    """What SQLite finds wrong with its file. PostgreSQL looks after its own."""
    if connection.dialect.name != "sqlite":
        return ()
    found = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_FINDINGS})")]
    lost = [f"a row of `{row[0]}` belongs to nothing" for row in connection.exec_driver_sql("PRAGMA foreign_key_check")]
    return (*(line for line in found if line != "ok"), *lost[:_MOST_FINDINGS])
