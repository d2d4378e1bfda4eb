"""Check the integrity of a store: find damage in the database file, unreadable sessions and interrupted answers.

The check is read-only unless repair is requested. Repair does what opening each session would do.
"""

import msgspec
import sqlalchemy as sa

from ..errors import ToolspeakError
from . import leases
from . import session_rows as ledger
from .leases import SessionKey
from .schema import HEAD, entries, sessions
from .sessions import Store

#: Maximum number of reported file problems. A damaged file can have thousands.
_MAX_FILE_PROBLEMS = 20


class DamagedSession(msgspec.Struct, frozen=True):
    session: str
    what: str


class StoreReport(msgspec.Struct, frozen=True):
    where: str
    schema: str
    sessions: int
    file: tuple[str, ...] = ()  # problems with the file, as reported by the database
    damaged: tuple[DamagedSession, ...] = ()
    #: Sessions with an interrupted answer. Opening a session repairs it.
    unfinished: tuple[str, ...] = ()
    repaired: int = 0

    @property
    def good(self) -> bool:
        """Whether neither the file nor any session is damaged."""
        return not (self.file or self.damaged)


def check(store: Store, *, repair: bool = False) -> StoreReport:
    listed = sa.select(sessions.c.id).where(sessions.c.owner == store.owner).order_by(sessions.c.id)
    running = sa.select(entries.c.session).where(entries.c.owner == store.owner, entries.c.status == "running")
    ids = store.database.read(lambda connection: list(connection.execute(listed).scalars()))
    broken_off = store.database.read(lambda connection: sorted(set(connection.execute(running).scalars())))
    damaged: list[DamagedSession] = []
    for each in ids:
        try:
            store.entries(each)
        except ToolspeakError as error:
            damaged.append(DamagedSession(each, str(error.args[0])))
    bad = {finding.session for finding in damaged}
    repaired = sum(_repair(store, each) for each in broken_off if each not in bad) if repair else 0
    file = store.database.read(_file_problems)
    return StoreReport(store.database.where, HEAD, len(ids), file, tuple(damaged), tuple(broken_off), repaired)


def _repair(store: Store, session: str) -> int:
    """Repair a session; return the number of repaired answers, or 0 if the session is in use."""
    lease = leases.new_lease(SessionKey(store.owner, session))

    def repaired(connection: sa.Connection) -> int:
        leases.take(connection, lease)
        count = ledger.repair(connection, lease.key)
        leases.release(connection, lease)
        return count

    try:
        return store.database.write(repaired)
    except ToolspeakError:
        return 0


def _file_problems(connection: sa.Connection) -> tuple[str, ...]:
    """Return the problems that SQLite finds in its file. PostgreSQL checks its own files."""
    if connection.dialect.name != "sqlite":
        return ()
    problems = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA integrity_check({_MAX_FILE_PROBLEMS})")]
    lost = [f"orphaned row in `{row[0]}`" for row in connection.exec_driver_sql("PRAGMA foreign_key_check")]
    return (*(line for line in problems if line != "ok"), *lost[:_MAX_FILE_PROBLEMS])
