"""What goes wrong in a database, as errors of toolspeak: which pass by themselves, and what is said of the others.

Told by numbers and states, never by the texts of errors.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy import exc

from ..errors import StoreDamagedError, StoreError, StoreFullError

#: Seconds after which it is worth asking again.
_RETRY_AFTER = 5.0
_LATER = "try again a little later"
_REACH = "look whether the server runs, and whether host, port, user, password and the name of the database are right"

#: Primary codes of SQLite (its extended codes hold them in the low byte).
_SQLITE_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SQLITE_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SQLITE_FULL = {sqlite3.SQLITE_FULL}

#: States of PostgreSQL, or the classes that they begin with: connection lost, the server ends or starts, too many
#: connections, serialization failure, deadlock, a lock that was not to be had.
_POSTGRES_PASSING = ("08", "57P01", "57P02", "57P03", "53300", "40001", "40P01", "55P03", "25006")
_POSTGRES_FULL = ("53100",)
_POSTGRES_DAMAGED = ("XX001", "XX002")

#: What the drivers raise, without a word of SQLAlchemy, for a value that no column can hold.
REFUSED_VALUES = (OverflowError, UnicodeEncodeError)


def passes(error: exc.SQLAlchemyError) -> bool:
    """Whether the same transaction may well succeed a little later."""
    if not isinstance(error, exc.DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return _code(error.orig) in _SQLITE_PASSING
    state = _state(error)
    # A connection that cannot be made, or that broke, has no state.
    return state.startswith(_POSTGRES_PASSING) if state else isinstance(error, exc.OperationalError)


def translated(error: exc.SQLAlchemyError, where: str) -> StoreError:
    """What to tell the caller."""
    if isinstance(error, exc.TimeoutError):
        return _later(f"all connections to the store at {where} are in use")
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    # Without the statement and its values, which are other people's texts.
    said = " ".join(str(cause).split())[:300]
    state = _state(error)
    code = _code(cause) if isinstance(cause, sqlite3.Error) else 0
    if code in _SQLITE_FULL or state.startswith(_POSTGRES_FULL):
        return StoreFullError(f"there is no room left in the store at {where}: {said}", hint="free some, and go on")
    if code in _SQLITE_DAMAGED or state.startswith(_POSTGRES_DAMAGED):
        hint = "`toolspeak sessions doctor` looks at it; restore a copy, or name another one"
        return StoreDamagedError(f"the store at {where} is damaged: {said}", hint=hint)
    if isinstance(error, exc.DataError | exc.IntegrityError):
        return refused(error.orig or error, where)
    message = f"the store at {where} does not answer: {said}"
    if not passes(error):
        return StoreError(message)
    # Nobody is there, or nobody who knows this name: a restart looks the same from outside as a slip of the pen.
    return _later(message, _REACH if not state and not code else _LATER)


def refused(cause: BaseException, where: str) -> StoreError:
    """What to tell whoever gave a value that the database does not take: too large a number, half a character."""
    # Of a text that cannot be encoded, only the reason: the rest is somebody's text.
    said = cause.reason if isinstance(cause, UnicodeEncodeError) else " ".join(str(cause).split())[:300]
    return StoreError(f"the store at {where} cannot keep this: {said}")


def _later(message: str, hint: str = _LATER) -> StoreError:
    error = StoreError(message, hint=hint)
    error.retry_after = _RETRY_AFTER
    return error


def _code(error: sqlite3.Error) -> int:
    # Errors that the module itself raises have none.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _state(error: exc.SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, exc.DBAPIError) else None
    return getattr(cause, "sqlstate", None) or ""
