"""Write the file changes of a session to their rows, and read them back.

Every function takes a session key and a connection with an open transaction. Every query names the owner.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from ..engine.rounds.transcript import CallRecord, FileDiff
from .leases import SessionKey, rows_of
from .rows import dump, escape, load, unescape
from .schema import calls, file_changes, now
from .session_interface import FileChange, not_running


class StoredChange(msgspec.Struct, frozen=True):
    """A file change and the call that made it."""

    entry: int
    round: int
    call_id: str
    change: FileChange
    undone: bool = False


def add_change(
    connection: sa.Connection, key: SessionKey, entry: int, round_: int, call_id: str, change: FileChange
) -> None:
    """Record that a running call is about to change a file. Raises UsageError if the call is not running."""
    running = sa.select(calls.c.number).where(*rows_of(calls, key))
    running = running.where(calls.c.entry == entry, calls.c.round == round_, calls.c.call_id == escape(call_id))
    if connection.execute(running.where(calls.c.state == "started", calls.c.result.is_(None))).first() is None:
        raise not_running(call_id)
    file = _file(key, change.root, change.path)
    if connection.execute(sa.select(file_changes.c.number).where(*file).limit(1)).first() is not None:
        change = msgspec.structs.replace(change, content=None)
    insert_change(connection, key, StoredChange(entry, round_, call_id, change))


def insert_change(connection: sa.Connection, key: SessionKey, stored: StoredChange) -> None:
    """Add a change after the last one of the session."""
    change = stored.change
    last = connection.execute(sa.select(sa.func.max(file_changes.c.number)).where(*rows_of(file_changes, key))).scalar()
    place = {"owner": key.owner, "session": key.session, "number": 0 if last is None else last + 1}
    call = {"entry": stored.entry, "round": stored.round, "call_id": escape(stored.call_id)}
    file = {"root": escape(change.root), "path": escape(change.path), "content": change.content}
    body = dump(msgspec.structs.replace(change, content=None))
    values = {**place, **call, **file, "body": body, "undone": stored.undone, "created": now()}
    connection.execute(sa.insert(file_changes).values(values))


def insert_diff(connection: sa.Connection, key: SessionKey, call: tuple[int, int, str], diff: FileDiff) -> None:
    """Add a diff that is only shown, because the change was made elsewhere: in another session, or by the proxy."""
    change = FileChange("", diff.path, "", "", diff=diff.diff)
    insert_change(connection, key, StoredChange(*call, change, undone=True))


def stored_changes(connection: sa.Connection, key: SessionKey) -> tuple[StoredChange, ...]:
    """Return all changes of a session, oldest first. Raises UnreadableColumn if a change is unreadable."""
    query = sa.select(file_changes).where(*rows_of(file_changes, key)).order_by(file_changes.c.number)
    return tuple(_stored(row) for row in connection.execute(query).mappings())


def mark_undone(connection: sa.Connection, key: SessionKey, root: str, path: str) -> None:
    """Mark the changes of a file as undone. Their content is no longer needed."""
    connection.execute(sa.update(file_changes).where(*_file(key, root, path)).values(undone=True, content=None))


def diffs_of(connection: sa.Connection, key: SessionKey) -> Mapping[tuple[int, int, str], Sequence[FileDiff]]:
    """Return the diffs of a session by entry, round and call id. Raises UnreadableColumn if a change is unreadable."""
    columns = file_changes.c
    query = sa.select(columns.entry, columns.round, columns.call_id, columns.body)
    diffs: dict[tuple[int, int, str], list[FileDiff]] = defaultdict(list)
    for entry, number, call_id, body in connection.execute(
        query.where(*rows_of(file_changes, key)).order_by(columns.number)
    ):
        change = load(body, FileChange)
        diffs[entry, number, unescape(call_id)].append(FileDiff(change.path, change.diff))
    return diffs


def with_diffs(record: CallRecord, diffs: Sequence[FileDiff]) -> CallRecord:
    """Add diffs to a call, unless it failed: then its changes were recorded but not made."""
    failed = record.state == "finished" and record.result is not None and record.result.error
    return record if failed else msgspec.structs.replace(record, diffs=tuple(each for each in diffs if each.diff))


def last_changed(connection: sa.Connection, owner: str, root: str) -> str | None:
    """Return the session that changed files in a work directory last, not counting what has been undone."""
    query = sa.select(file_changes.c.session).where(file_changes.c.owner == owner, file_changes.c.root == escape(root))
    query = query.where(file_changes.c.undone.is_(False))
    return connection.execute(query.order_by(file_changes.c.created.desc()).limit(1)).scalar()


def _stored(row: sa.RowMapping) -> StoredChange:
    change = msgspec.structs.replace(load(row["body"], FileChange), content=row["content"])
    return StoredChange(row["entry"], row["round"], unescape(row["call_id"]), change, bool(row["undone"]))


def _file(key: SessionKey, root: str, path: str) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the condition for the changes of a file that have not been undone."""
    same = (file_changes.c.root == escape(root), file_changes.c.path == escape(path))
    return (*rows_of(file_changes, key), *same, file_changes.c.undone.is_(False))
