"""Sessions as lines of JSON, out of a store and into another: all that was said, nothing lost, one session at a time.

The first line says what it is and its version. Then follows, for each session, a line about it and a line for each
entry. Owners are not written: whoever reads the lines in owns what comes of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from ..core.text import printable
from ..core.types import MOST_TOKENS, JSONObject, JSONValue, Message, Usage, is_array, is_object
from ..engine.rounds.transcript import Answer, Entry
from ..errors import NoSessionError, UsageError
from . import session_rows as ledger
from .leases import Place
from .rows import dump
from .schema import sessions
from .sessions import LAST_TIME, SessionInfo, Store, checked_id

FORMAT = "toolspeak sessions"
VERSION = 1
#: No entry is longer; what is, is no export.
_LONGEST_LINE = 256 * 1024 * 1024
#: Sessions that are looked up at once.
_PAGE = 200
#: Titles that are made here are shorter; some were given.
_LONGEST_TITLE = 1000
#: Characters of the path to a value that are shown.
_LONGEST_PATH = 200


class Imported(NamedTuple):
    """What came of an import."""

    sessions: int
    #: Sessions that were there already, and stay as they are.
    skipped: int


def export(store: Store, ids: Sequence[str] = ()) -> Iterator[str]:
    """The lines of these sessions, or of all, the oldest first.

    Raises:
        NoSessionError: one of them is not there.
        StoreDamagedError: one of them cannot be understood.
    """
    yield dump({"format": FORMAT, "version": VERSION})
    for info in (store.info(each) for each in ids) if ids else _all(store):
        fields = {"id": info.id, "title": info.title, "created": info.created, "updated": info.updated}
        yield dump({"session": {**fields, "about": info.about}})
        for entry in store.entries(info.id):
            yield dump({"answer" if isinstance(entry, Answer) else "message": entry})


def _all(store: Store) -> Iterator[SessionInfo]:
    """By their ids, so that a session that is written into meanwhile is neither lost nor met twice."""
    last = ""
    while True:
        query = sa.select(sessions.c.id).where(sessions.c.owner == store.owner, sessions.c.id > last)
        some = list(
            store.database.read(lambda c, q=query: c.execute(q.order_by(sessions.c.id).limit(_PAGE)).scalars().all())
        )
        if not some:
            return
        last = some[-1]
        yield from (store.info(each) for each in some)


class _About(msgspec.Struct, frozen=True):
    id: str
    title: str = ""
    created: float = 0.0
    updated: float = 0.0
    about: JSONObject = {}


def import_lines(store: Store, lines: Iterable[str]) -> Imported:
    """Put the sessions of an export into a store; each is there whole or not at all.

    Raises:
        UsageError: a line is none of an export; those before it are there.
    """
    done = skipped = 0
    for about, entries in _sessions_in(lines):
        if _put(store, about, entries):
            done += 1
        else:
            skipped += 1
    return Imported(done, skipped)


def _sessions_in(lines: Iterable[str]) -> Iterator[tuple[_About, list[Entry]]]:
    about: _About | None = None
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        said = _read(line, number)
        if number == 1:
            _check(said)
        elif "session" in said:
            if about is not None:
                yield about, entries
            about, entries = _about(said["session"], number), []
        elif about is None:
            raise UsageError(f"line {number} belongs to no session")
        else:
            entries.append(_entry(said, number))
    if about is not None:
        yield about, entries


def _about(said: JSONValue, number: int) -> _About:
    about: _About = _converted(said, _About, number)
    try:
        checked_id(about.id)
    except NoSessionError as error:
        raise UsageError(f"line {number}: `session.id` cannot be an id: {error}") from None
    if about.title != printable(about.title, "") or len(about.title) > _LONGEST_TITLE:
        raise UsageError(
            f"line {number}: `session.title` must be one line of at most {_LONGEST_TITLE} characters that can be shown"
        )
    for name, moment in (("created", about.created), ("updated", about.updated)):
        _check_range(number, f"session.{name}", moment, LAST_TIME)
    return about


def _put(store: Store, about: _About, entries: Sequence[Entry]) -> bool:
    """Whether it was not there before."""
    place = Place(store.owner, about.id)
    fields = {"title": about.title, "about": dump(about.about), "created": about.created, "updated": about.updated}

    def written(connection: sa.Connection) -> bool:
        same = (sessions.c.owner == place.owner, sessions.c.id == place.session)
        if connection.execute(sa.select(sessions.c.id).where(*same)).scalar() is not None:
            return False
        connection.execute(sa.insert(sessions).values(owner=place.owner, id=place.session, **fields))
        for number, entry in enumerate(entries):
            _put_entry(connection, place, number, entry)
        # Its own title and time, not those of what was just written.
        connection.execute(sa.update(sessions).where(*same).values(title=about.title, updated=about.updated))
        return True

    return store.database.write(written)


def _put_entry(connection: sa.Connection, place: Place, number: int, entry: Entry) -> None:
    if isinstance(entry, Message):
        ledger.say(connection, place, number, entry)
        return
    ledger.begin(connection, place, number)
    for index, made in enumerate(entry.rounds):
        ledger.add_round(connection, place, number, index, made)
    # What was running there is not running here.
    status = "interrupted" if entry.status == "running" else entry.status
    ledger.end(connection, place, number, msgspec.structs.replace(entry, status=status))


def _read(line: str, number: int) -> JSONObject:
    if len(line) > _LONGEST_LINE:
        raise UsageError(f"line {number} is too long for an entry")
    try:
        value: JSONValue = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number} is not JSON: {error}") from None
    if not is_object(value):
        raise UsageError(f"line {number} is not an object")
    if path := _not_finite(value):
        raise UsageError(f"line {number}: `{path}` is not a number that JSON has a word for")
    return value


def _not_finite(value: JSONObject) -> str:
    """Where a number stands that is none, or that no float can hold, such as `NaN` or `1e999`; empty: nowhere."""
    # A link to what holds each value, so that a path is put together only where it is needed.
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
    return printable("".join(reversed(steps))[1 : _LONGEST_PATH + 1], " ")


def _check_range(number: int, path: str, value: float, most: float) -> None:
    if not 0 <= value <= most:
        raise UsageError(f"line {number}: `{path}` must be from 0 to {most:.0f}")


def _check(said: JSONObject) -> None:
    if said.get("format") != FORMAT:
        raise UsageError("this is no export of sessions", hint="`toolspeak sessions export` makes one")
    version = said.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UsageError(f"line 1: `version` must be a whole number from 1 on, not {version!r:.20}")
    if version > VERSION:
        raise UsageError(f"the export is of a newer version (format {version!r:.20})", hint="use that version")


def _entry(said: JSONObject, number: int) -> Entry:
    if "message" in said:
        return _converted(said["message"], Message, number)
    if "answer" in said:
        answer: Answer = _converted(said["answer"], Answer, number)
        for name in Usage.__struct_fields__:
            _check_range(number, f"answer.usage.{name}", getattr(answer.usage, name), MOST_TOKENS)
        _check_range(number, "answer.requests", answer.requests, MOST_TOKENS)
        for at, made in enumerate(answer.rounds):
            for index, record in enumerate(made.calls):
                path = f"answer.rounds[{at}].calls[{index}].seconds"
                _check_range(number, path, record.seconds, LAST_TIME)
        return answer
    raise UsageError(f"line {number} is neither a session, nor a message, nor an answer")


def _converted(value: JSONValue, kind: type[Any], number: int) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"line {number} cannot be understood: {error}") from None
