"""Session leases: each session has at most one writer at a time. Every write renews the writer's lease.

Expiry is based on the database's clock, so writers on different machines agree. Each write first advances the lease in
the same transaction, so a writer that has lost its lease cannot commit, whatever its own clock says. The lease counts
the writes, which shows whether a commit whose confirmation was lost has happened.

A token identifies the process that holds a lease. If that process was killed on this machine, the lease is free at
once; on another machine, the lease has to expire.
"""

import hashlib
import os
import secrets
import socket
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from ..errors import NoSessionError, SessionBusyError
from .schema import leases, now, sessions, upsert

#: Seconds until a lease expires if its writer is silent: long enough to survive a stall, short enough to wait for.
LEASE_SECONDS = 30.0
_MAX_LEASE_SECONDS = 4 * LEASE_SECONDS
_PROC = Path("/proc")

#: Tokens of leases that this process could not release because the database was unavailable.
_abandoned: set[str] = set()


class SessionKey(NamedTuple):
    owner: str
    session: str


def rows_of(table: sa.Table, key: SessionKey) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.owner == key.owner, table.c.session == key.session


class SessionLease(NamedTuple):
    """The exclusive right to write to a session."""

    key: SessionKey
    token: str
    holder: str
    seconds: float = LEASE_SECONDS


def new_lease(key: SessionKey, seconds: float = LEASE_SECONDS) -> SessionLease:
    """Create a lease for this process. It must still be taken."""
    return SessionLease(key, new_token(), f"process {os.getpid()} on {socket.gethostname()}", seconds)


def take(connection: sa.Connection, lease: SessionLease) -> None:
    """Take the lease of a session that has no writer or whose lease has expired.

    Raises NoSessionError if there is no such session, and SessionBusyError if another writer holds the lease.
    """
    owner, session = lease.key
    exists = sa.select(sessions.c.id).where(sessions.c.owner == owner, sessions.c.id == session)
    if connection.execute(exists).scalar() is None:
        raise NoSessionError(f"there is no session `{session:.80}`", hint="see `toolspeak sessions list`")
    last = _current_holder(connection, lease.key)[0]
    values = {"token": lease.token, "holder": lease.holder, "expires": now() + lease.seconds, "written": 0}
    # If a lease expires too far in the future, the database's clock has been set back since.
    free = sa.or_(
        leases.c.expires <= now(),
        leases.c.expires > now() + _MAX_LEASE_SECONDS,
        leases.c.token == lease.token,
        sa.and_(leases.c.token == last, sa.literal(is_abandoned(last))),
    )
    connection.execute(upsert(connection, leases, {"owner": owner, "session": session, **values}, free))
    if _current_holder(connection, lease.key)[0] != lease.token:
        raise busy_error(connection, lease.key)


def advance(connection: sa.Connection, lease: SessionLease, written: int) -> bool:
    """Renew the lease before write number `written`; return False if that write has already been committed.

    Raises SessionBusyError if the lease is lost.
    """
    query = sa.update(leases).where(*_owned_rows(lease), leases.c.written == written - 1)
    if connection.execute(query.values({"expires": now() + lease.seconds, "written": written})).rowcount == 1:
        return True
    if _current_holder(connection, lease.key)[:2] == (lease.token, written):
        return False  # the write was committed, but its confirmation was lost
    raise busy_error(connection, lease.key, lost=True)


def renew(connection: sa.Connection, lease: SessionLease) -> None:
    """Extend the lease. Raises SessionBusyError if the lease is lost."""
    query = sa.update(leases).where(*_owned_rows(lease)).values(expires=now() + lease.seconds)
    if connection.execute(query).rowcount != 1:
        raise busy_error(connection, lease.key, lost=True)


def release(connection: sa.Connection, lease: SessionLease) -> None:
    """Release the lease, unless another writer has taken it."""
    connection.execute(sa.delete(leases).where(*_owned_rows(lease)))


def abandon(lease: SessionLease) -> None:
    """Mark a lease that could not be released, so this process does not have to wait until it expires."""
    _abandoned.add(lease.token)


def has_writer(connection: sa.Connection, key: SessionKey) -> bool:
    query = sa.select(leases.c.token).where(*rows_of(leases, key), leases.c.expires > now())
    token = connection.execute(query).scalar()
    return token is not None and not is_abandoned(token)


def is_abandoned(token: str) -> bool:
    """Whether the lease with this token is no longer used, even if it has not expired."""
    return token in _abandoned or has_exited(token)


def busy_error(connection: sa.Connection, key: SessionKey, *, lost: bool = False) -> SessionBusyError:
    """Return an error that names the holder of a session's lease and the time at which it expires."""
    _, _, holder, expires = _current_holder(connection, key)
    until = time.strftime("%H:%M:%S", time.gmtime(expires))
    state = f"is held by {holder} until {until} UTC" if holder else "has been released or removed"
    message = f"the session `{key.session:.80}` {'was taken over and ' if lost and holder else ''}{state}"
    hint = "stop that process, or wait until then" if holder else "open the session again"
    return SessionBusyError(message, hint=hint, holder=holder, until=expires)


def _current_holder(connection: sa.Connection, key: SessionKey) -> tuple[str, int, str, float]:
    query = sa.select(leases.c.token, leases.c.written, leases.c.holder, leases.c.expires)
    row = connection.execute(query.where(*rows_of(leases, key))).first()
    return ("", 0, "", 0.0) if row is None else (row[0], row[1], row[2], row[3])


def _owned_rows(lease: SessionLease) -> tuple[sa.ColumnElement[bool], ...]:
    return (*rows_of(leases, lease.key), leases.c.token == lease.token)


def new_token() -> str:
    """Return a unique token that identifies this process: random.machine.pid.start-time."""
    return ".".join((secrets.token_hex(16), _machine_id(), str(os.getpid()), _start_time(os.getpid())))


def has_exited(token: str) -> bool:
    """Whether the process that created this token is known to have exited."""
    _, *parts = token.split(".")
    if len(parts) != 3 or not parts[0] or parts[0] != _machine_id():
        return False
    _, process, start_time = parts
    return bool(start_time) and process.isdecimal() and _start_time(int(process)) != start_time


@cache
def _machine_id() -> str:
    """Return a hash of the boot id and the PID namespace, or an empty string if they are unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return hashlib.sha256(f"{boot} {(_PROC / 'self/ns/pid').readlink()}".encode()).hexdigest()[:16]
    except OSError:
        return ""


def _start_time(process: int) -> str:
    """Return the start time of a process in clock ticks since boot, or an empty string if it is not running."""
    try:
        text = (_PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # Skip the program name, which is in parentheses and may contain any character.
    fields = text.rpartition(")")[2].split()
    # A zombie process has exited, but its parent has not reaped it yet.
    return "" if fields[0] in "ZX" else fields[19]
