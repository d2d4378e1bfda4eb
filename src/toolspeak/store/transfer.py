"""Export and import sessions as JSON Lines.

The first line contains the format and its version. Each session follows as one line of metadata, one line per entry and
one line per file change.
Owners are not exported: imported sessions belong to the importing owner.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from ..core.text import printable
from ..core.types import MAX_TOKEN_COUNT, JSONObject, JSONValue, Message, Usage, is_array, is_object
from ..engine.rounds.transcript import Answer, Entry
from ..errors import NoSessionError, UsageError
from . import session_rows as ledger
from .leases import SessionKey
from .rows import dump
from .schema import sessions
from .session_rows import StoredChange, insert_change
from .sessions import LAST_TIME, SessionInfo, Store, checked_id

FORMAT = "toolspeak sessions"
VERSION = 2
_MAX_NUMBER = 2**31 - 1  # the largest value of an integer column
_MAX_LINE_CHARS = 256 * 1024 * 1024
_PAGE = 200
_MAX_TITLE_CHARS = 1000
_MAX_PATH_CHARS = 200


class ImportResult(NamedTuple):
    sessions: int
    skipped: int  # number of sessions that already existed and were not changed


def export(store: Store, ids: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of an export of these sessions, or of all sessions.

    Raises NoSessionError if a session does not exist, and StoreDamagedError if a session is unreadable.
    """
    yield dump({"format": FORMAT, "version": VERSION})
    for info in (store.info(each) for each in ids) if ids else _all(store):
        fields = {"id": info.id, "title": info.title, "created": info.created, "updated": info.updated}
        yield dump({"session": {**fields, "about": info.about}})
        for entry in store.entries(info.id):
            yield dump({"answer" if isinstance(entry, Answer) else "message": entry})
        for change in store.changes(info.id):
            yield dump({"file_change": change})


def _all(store: Store) -> Iterator[SessionInfo]:
    """Yield all sessions in order of id, so concurrent writes do not cause any to be skipped or repeated."""
    last = ""
    while True:
        query = sa.select(sessions.c.id).where(sessions.c.owner == store.owner, sessions.c.id > last)
        query = query.order_by(sessions.c.id).limit(_PAGE)
        some = store.database.read(lambda connection, query=query: connection.execute(query).scalars().all())
        if not some:
            return
        last = some[-1]
        yield from (store.info(each) for each in some)


class _SessionHeader(msgspec.Struct, frozen=True):
    id: str
    title: str = ""
    created: float = 0.0
    updated: float = 0.0
    about: JSONObject = {}


def import_lines(store: Store, lines: Iterable[str]) -> ImportResult:
    """Import the sessions in an export. Each session is imported completely or not at all.

    Raises UsageError if a line is invalid; the sessions before it have been imported.
    """
    added = [_put(store, session) for session in _sessions_in(lines)]
    return ImportResult(added.count(True), added.count(False))


class _Session(NamedTuple):
    about: _SessionHeader
    entries: list[Entry]
    changes: list[StoredChange]


def _sessions_in(lines: Iterable[str]) -> Iterator[_Session]:
    session: _Session | None = None
    for number, line in enumerate(lines, 1):
        record = _read(line, number)
        if number == 1:
            _check_header(record)
        elif "session" in record:
            if session is not None:
                yield session
            session = _Session(_about(record["session"], number), [], [])
        elif session is None:
            raise UsageError(f"line {number} is an entry, but comes before the first session")
        elif "file_change" in record:
            session.changes.append(_change(record["file_change"], number))
        else:
            session.entries.append(_entry(record, number))
    if session is not None:
        yield session


def _about(value: JSONValue, number: int) -> _SessionHeader:
    about: _SessionHeader = _convert(value, _SessionHeader, number)
    try:
        checked_id(about.id)
    except NoSessionError as error:
        raise UsageError(f"line {number}: `session.id` is invalid: {error}") from None
    if about.title != printable(about.title, "") or len(about.title) > _MAX_TITLE_CHARS:
        allowed = f"one line of at most {_MAX_TITLE_CHARS} printable characters"
        raise UsageError(f"line {number}: `session.title` must be {allowed}")
    _check_range(number, "session.created", about.created, LAST_TIME)
    _check_range(number, "session.updated", about.updated, LAST_TIME)
    return about


def _put(store: Store, session: _Session) -> bool:
    """Write a session; return False if it already exists."""
    about = session.about
    key = SessionKey(store.owner, about.id)
    fields = {"title": about.title, "about": dump(about.about), "created": about.created, "updated": about.updated}

    def written(connection: sa.Connection) -> bool:
        same = (sessions.c.owner == key.owner, sessions.c.id == key.session)
        if connection.execute(sa.select(sessions.c.id).where(*same)).scalar() is not None:
            return False
        connection.execute(sa.insert(sessions).values(owner=key.owner, id=key.session, **fields))
        for number, entry in enumerate(session.entries):
            _put_entry(connection, key, number, entry)
        for change in session.changes:
            insert_change(connection, key, change)
        # Restore the title and the time, which were changed when the entries were added.
        connection.execute(sa.update(sessions).where(*same).values(title=about.title, updated=about.updated))
        return True

    return store.database.write(written)


def _put_entry(connection: sa.Connection, key: SessionKey, number: int, entry: Entry) -> None:
    if isinstance(entry, Message):
        ledger.say(connection, key, number, entry)
        return
    ledger.begin(connection, key, number)
    for index, round_ in enumerate(entry.rounds):
        # Diffs have lines of their own.
        calls = tuple(msgspec.structs.replace(record, diffs=()) for record in round_.calls)
        ledger.add_round(connection, key, number, index, msgspec.structs.replace(round_, calls=calls))
    # An answer that was running when it was exported is no longer running.
    status = "interrupted" if entry.status == "running" else entry.status
    ledger.end(connection, key, number, msgspec.structs.replace(entry, status=status))


def _read(line: str, number: int) -> JSONObject:
    if len(line) > _MAX_LINE_CHARS:
        raise UsageError(f"line {number} is too long (limit: {_MAX_LINE_CHARS} characters)")
    try:
        value: JSONValue = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number} is not valid JSON: {error}") from None
    if not is_object(value):
        raise UsageError(f"line {number} is not a JSON object")
    if path := _non_finite_path(value):
        raise UsageError(f"line {number}: `{path}` is not a finite number")
    return value


def _non_finite_path(value: JSONObject) -> str:
    """Return the path of a number that is not finite, such as `NaN` or `1e999`; empty if there is none."""
    # Each value is linked to its parent, so a path is built only if needed.
    waiting: list[tuple[JSONValue, Any]] = [(value, None)]
    while waiting:
        each, above = waiting.pop()
        if isinstance(each, float) and not isfinite(each):
            return _path(above)
        if is_object(each):
            waiting += [(inner, (f".{key:.80}", above)) for key, inner in each.items()]
        elif is_array(each):
            waiting += [(inner, (f"[{at}]", above)) for at, inner in enumerate(each)]
    return ""


def _path(link: Any) -> str:
    steps: list[str] = []
    while link is not None:
        step, link = link
        steps.append(step)
    return printable("".join(reversed(steps))[1 : _MAX_PATH_CHARS + 1], " ")


def _check_range(number: int, path: str, value: float, most: float) -> None:
    if not 0 <= value <= most:
        raise UsageError(f"line {number}: `{path}` must be from 0 to {most:.0f}")


def _check_header(header: JSONObject) -> None:
    if header.get("format") != FORMAT:
        raise UsageError("this file is not an export of sessions", hint="create one with `toolspeak sessions export`")
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UsageError(f"line 1: `version` must be an integer of at least 1, not {version!r:.20}")
    if version > VERSION:
        raise UsageError(f"the export has a newer format ({version!r:.20})", hint="upgrade toolspeak")


def _entry(line_value: JSONObject, number: int) -> Entry:
    if "message" in line_value:
        return _convert(line_value["message"], Message, number)
    if "answer" not in line_value:
        raise UsageError(f"line {number} is not a session, a message or an answer")
    answer: Answer = _convert(line_value["answer"], Answer, number)
    for name in Usage.__struct_fields__:
        _check_range(number, f"answer.usage.{name}", getattr(answer.usage, name), MAX_TOKEN_COUNT)
    _check_range(number, "answer.requests", answer.requests, MAX_TOKEN_COUNT)
    for at, round_ in enumerate(answer.rounds):
        for index, record in enumerate(round_.calls):
            path = f"answer.rounds[{at}].calls[{index}]"
            _check_range(number, f"{path}.started", record.started, LAST_TIME)
            _check_range(number, f"{path}.seconds", record.seconds, LAST_TIME)
    return answer


def _change(value: JSONValue, number: int) -> StoredChange:
    stored: StoredChange = _convert(value, StoredChange, number)
    _check_range(number, "file_change.entry", stored.entry, _MAX_NUMBER)
    _check_range(number, "file_change.round", stored.round, _MAX_NUMBER)
    _check_range(number, "file_change.change.mode", stored.change.mode, 0o777)
    return stored


def _convert(value: JSONValue, kind: type[Any], number: int) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"line {number} is invalid: {error}") from None
