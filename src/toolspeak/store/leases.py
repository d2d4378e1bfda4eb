"""Who may write into a session: one holder at a time, for a while, renewed by everything that it writes.

Times are the database's, so that writers on several machines agree. Each write first moves the lease on, in the same
transaction; who has lost it cannot commit any more, whatever its own clock says. The count in it tells whether a
commit whose answer was lost has happened.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import sqlalchemy as sa

from ..errors import NoSessionError, SessionBusyError
from . import holders
from .schema import leases, now, sessions
from .upsert import upsert

#: How long a session stays with a writer that says nothing: long enough for a stall, short enough to wait for.
LEASE_SECONDS = 30.0
#: No lease ends later than so many seconds from now.
_LONGEST = 4 * LEASE_SECONDS


#: Leases that this process gave back when the database could not hear it: few, so none is ever taken out again.
_let_go: set[str] = set()


class Place(NamedTuple):
    """A session: whose, and which."""

    owner: str
    session: str


class Lease(NamedTuple):
    """The right to write into a session."""

    place: Place
    token: str
    holder: str
    seconds: float = LEASE_SECONDS


def new_lease(place: Place, seconds: float = LEASE_SECONDS) -> Lease:
    """A lease that nobody has yet."""
    return Lease(place, holders.token(), holders.name(), seconds)


def take(connection: sa.Connection, lease: Lease) -> None:
    """Take a session that nobody holds, or whose holder has not been heard of.

    Raises:
        NoSessionError: there is no such session.
        SessionBusyError: somebody holds it.
    """
    owner, session = lease.place
    found = sa.select(sessions.c.id).where(sessions.c.owner == owner, sessions.c.id == session)
    if connection.execute(found).scalar() is None:
        raise NoSessionError(f"there is no session `{session:.80}`", hint="`toolspeak sessions list` shows them")
    last = _holder(connection, lease.place)[0]
    values = {"token": lease.token, "holder": lease.holder, "expires": now() + lease.seconds, "written": 0}
    # An end that lies further ahead than any can was set by a clock that has been put back since.
    free = sa.or_(
        leases.c.expires <= now(),
        leases.c.expires > now() + _LONGEST,
        leases.c.token == lease.token,
        sa.and_(leases.c.token == last, sa.literal(is_over(last))),
    )
    connection.execute(upsert(connection, leases, {"owner": owner, "session": session, **values}, free))
    if _holder(connection, lease.place)[0] != lease.token:
        raise busy(connection, lease.place)


def move_on(connection: sa.Connection, lease: Lease, written: int) -> bool:
    """Before the write of that number: renew the lease. Whether the write is still to be done.

    Raises:
        SessionBusyError: the lease is lost.
    """
    moved = sa.update(leases).where(*_mine(lease), leases.c.written == written - 1)
    values = {"expires": now() + lease.seconds, "written": written}
    if connection.execute(moved.values(values)).rowcount == 1:
        return True
    if _holder(connection, lease.place)[:2] == (lease.token, written):
        return False  # the answer to its commit was lost
    raise busy(connection, lease.place, lost=True)


def renew(connection: sa.Connection, lease: Lease) -> None:
    """Say that the holder lives.

    Raises:
        SessionBusyError: the lease is lost.
    """
    renewed = sa.update(leases).where(*_mine(lease)).values(expires=now() + lease.seconds)
    if connection.execute(renewed).rowcount != 1:
        raise busy(connection, lease.place, lost=True)


def release(connection: sa.Connection, lease: Lease) -> None:
    """Give the session back, if it is still held."""
    connection.execute(sa.delete(leases).where(*_mine(lease)))


def let_go(lease: Lease) -> None:
    """A session could not be given back: at least this process need not wait until it ends."""
    _let_go.add(lease.token)


def held(connection: sa.Connection, place: Place) -> bool:
    """Whether somebody holds a session."""
    mine = sa.select(leases.c.token).where(leases.c.owner == place.owner, leases.c.session == place.session)
    token = connection.execute(mine.where(leases.c.expires > now())).scalar()
    return token is not None and not is_over(token)


def is_over(token: str) -> bool:
    """Whether who has this mark is known to need its session no more, although its time has not ended."""
    return token in _let_go or holders.is_gone(token)


def busy(connection: sa.Connection, place: Place, *, lost: bool = False) -> SessionBusyError:
    """The error that says who holds a session, and until when."""
    _, _, holder, expires = _holder(connection, place)
    who = holder or "nobody any more"
    until = time.strftime("%H:%M:%S", time.gmtime(expires)) if expires else "now"
    message = f"the session `{place.session:.80}` is held by {who} until {until} UTC"
    if lost:
        message = f"the session `{place.session:.80}` was taken over: it is held by {who} until {until} UTC"
    hint = "end that one, or wait until then"
    return SessionBusyError(message, hint=hint, holder=holder, until=expires)


def _holder(connection: sa.Connection, place: Place) -> tuple[str, int, str, float]:
    found = sa.select(leases.c.token, leases.c.written, leases.c.holder, leases.c.expires)
    row = connection.execute(found.where(leases.c.owner == place.owner, leases.c.session == place.session)).first()
    return ("", 0, "", 0.0) if row is None else (row[0], row[1], row[2], row[3])


def _mine(lease: Lease) -> tuple[sa.ColumnElement[bool], ...]:
    owner, session = lease.place
    return leases.c.owner == owner, leases.c.session == session, leases.c.token == lease.token
