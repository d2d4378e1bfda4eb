"""Write each step of a session, and its file changes, to their rows, and read them back.

Every function takes a session key and a connection with an open transaction. Every query names the owner.
"""

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
import sqlalchemy as sa

from ..core.text import printable
from ..core.types import Message, ToolCall, ToolResult
from ..engine.rounds.transcript import Answer, CallRecord, Entry, FileDiff, Round, with_result
from ..errors import StoreDamagedError, UsageError
from .leases import SessionKey, rows_of
from .rows import UnreadableColumn, dump, escape, load, unescape
from .schema import calls, entries, file_changes, now, pieces, rounds, sessions
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


_MAX_TITLE_CHARS = 80  # maximum length of a session's title, which is the beginning of its first user message


def say(connection: sa.Connection, key: SessionKey, number: int, message: Message) -> None:
    _add(connection, key, number, "message", "complete", dump(message))
    untitled = sa.update(sessions).where(*_session(key), sessions.c.title == "")
    if message.role == "user" and (title := _title(message.text)):
        connection.execute(untitled.values(title=title))


def begin(connection: sa.Connection, key: SessionKey, number: int) -> None:
    """Begin an answer, after repairing an earlier unfinished one."""
    repair(connection, key)
    _add(connection, key, number, "answer", "running", dump(Answer(status="running")))


def add_piece(connection: sa.Connection, key: SessionKey, entry: int, number: int, text: str) -> None:
    columns = {"owner": key.owner, "session": key.session, "entry": entry, "number": number}
    connection.execute(sa.insert(pieces).values(**columns, text=escape(text)))


def add_round(connection: sa.Connection, key: SessionKey, entry: int, number: int, round_: Round) -> None:
    """Add a round with planned calls. It replaces the pieces of text streamed so far, which it contains."""
    _delete_pieces(connection, key, entry)
    columns = {"owner": key.owner, "session": key.session, "entry": entry}
    body = dump(msgspec.structs.replace(round_, calls=()))
    connection.execute(sa.insert(rounds).values(**columns, number=number, body=body, created=now()))
    for index, record in enumerate(round_.calls):
        connection.execute(sa.insert(calls).values(**columns, round=number, number=index, **_call_columns(record)))
        for each in record.diffs:
            insert_diff(connection, key, (entry, number, record.call.id), each)


def start(connection: sa.Connection, key: SessionKey, entry: int, number: int, call_id: str, at: float) -> None:
    """Mark a call as started at this time. Raises UsageError unless it is planned in this round."""
    planned = sa.update(calls).where(*_call(key, entry, number, call_id), calls.c.state == "planned")
    if connection.execute(planned.values(state="started", started=at or None)).rowcount != 1:
        raise UsageError(f"the call `{call_id:.80}` is not planned in this round or has already started")


def finish(
    connection: sa.Connection, key: SessionKey, entry: int, number: int, result: ToolResult, seconds: float
) -> None:
    """Store the result of a call. Raises UsageError if the call is not in this round or already has a result."""
    open_ = sa.update(calls).where(*_call(key, entry, number, result.id), calls.c.state != "finished")
    values = {"state": "finished", "result": dump(result), "seconds": seconds, "finished": now()}
    if connection.execute(open_.values(values)).rowcount != 1:
        raise UsageError(f"the call `{result.id:.80}` is not in this round or already has a result")


def end(connection: sa.Connection, key: SessionKey, entry: int, answer: Answer) -> None:
    """End an answer. Its rounds have already been stored."""
    _close_calls(connection, key, entry)
    _delete_pieces(connection, key, entry)
    _finish_entry(connection, key, entry, answer)
    connection.execute(sa.update(sessions).where(*_session(key)).values(updated=now()))


def repair(connection: sa.Connection, key: SessionKey) -> int:
    """Repair a session after a crash: interrupt running answers and close their calls. Return how many there were."""
    is_running = (*rows_of(entries, key), entries.c.status == "running", entries.c.kind == "answer")
    unfinished = connection.execute(sa.select(entries.c.number, entries.c.body).where(*is_running)).all()
    for number, body in unfinished:
        with _readable(key):
            answer = load(body, Answer)
            text = _streamed_text(connection, key, number)
        _close_calls(connection, key, number)
        _delete_pieces(connection, key, number)
        answer = msgspec.structs.replace(answer, content=answer.content + text, status="interrupted")
        _finish_entry(connection, key, number, answer)
    return len(unfinished)


def shorten(connection: sa.Connection, key: SessionKey, keep: int) -> None:
    """Delete all entries after the first `keep`. A title that was taken from a deleted message is deleted, too."""
    later = (*rows_of(entries, key), entries.c.number >= keep)
    if keep == 0:
        bodies = connection.execute(sa.select(entries.c.body).where(*later, entries.c.kind == "message")).scalars()
        with _readable(key):
            titles = {_title(load(body, Message).text) for body in bodies}
        connection.execute(sa.update(sessions).where(*_session(key), sessions.c.title.in_(titles)).values(title=""))
    connection.execute(sa.delete(file_changes).where(*rows_of(file_changes, key), file_changes.c.entry >= keep))
    connection.execute(sa.delete(entries).where(*later))


def rename(connection: sa.Connection, key: SessionKey, title: str) -> bool:
    renamed = sa.update(sessions).where(*_session(key)).values(title=escape(_title(title)))
    return connection.execute(renamed).rowcount == 1


def next_entry(connection: sa.Connection, key: SessionKey) -> int:
    last = connection.execute(sa.select(sa.func.max(entries.c.number)).where(*rows_of(entries, key))).scalar()
    return 0 if last is None else last + 1


def entries_of(connection: sa.Connection, key: SessionKey) -> tuple[Entry, ...]:
    """Return the whole conversation. Raises StoreDamagedError if part of it is unreadable."""
    listed = sa.select(entries.c.number, entries.c.kind, entries.c.status, entries.c.body)
    rows = connection.execute(listed.where(*rows_of(entries, key)).order_by(entries.c.number)).all()
    with _readable(key):
        rounds_by_entry = _rounds_of(connection, key)
        by_number = {number: _entry(kind, body, rounds_by_entry[number]) for number, kind, _, body in rows}
        for number in (row.number for row in rows if row.status == "running"):
            # The answer is still being written, so return the text so far.
            text = _streamed_text(connection, key, number)
            by_number[number] = msgspec.structs.replace(by_number[number], content=text)  # type: ignore[type-var]
    return tuple(by_number[number] for number in sorted(by_number))


def changes_of(connection: sa.Connection, key: SessionKey) -> tuple[StoredChange, ...]:
    """Return all file changes of a session, oldest first. Raises StoreDamagedError if one of them is unreadable."""
    with _readable(key):
        return stored_changes(connection, key)


def _add(connection: sa.Connection, key: SessionKey, number: int, kind: str, status: str, body: str) -> None:
    columns = {"owner": key.owner, "session": key.session, "number": number, "created": now()}
    tokens = {"input_tokens": 0, "output_tokens": 0}
    connection.execute(sa.insert(entries).values(**columns, kind=kind, status=status, body=body, **tokens))
    connection.execute(sa.update(sessions).where(*_session(key)).values(updated=now()))


def _finish_entry(connection: sa.Connection, key: SessionKey, number: int, answer: Answer) -> None:
    changed = sa.update(entries).where(*rows_of(entries, key), entries.c.number == number)
    body, usage = dump(msgspec.structs.replace(answer, rounds=())), answer.usage
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    connection.execute(changed.values(status=answer.status, body=body, **tokens))


def _close_calls(connection: sa.Connection, key: SessionKey, entry: int) -> None:
    """Give each call without a result an error result. The state of the call stays unchanged."""
    without = (*rows_of(calls, key), calls.c.entry == entry, calls.c.result.is_(None))
    listed = sa.select(calls.c.round, calls.c.number, calls.c.state, calls.c.call).where(*without)
    for number, index, state, text in connection.execute(listed).all():
        with _readable(key):
            record = with_result(_record((text, state, False, None, None, 0.0)))
        which = sa.update(calls).where(*without, calls.c.round == number, calls.c.number == index)
        connection.execute(which.values(result=dump(record.result)))


def _streamed_text(connection: sa.Connection, key: SessionKey, entry: int) -> str:
    listed = sa.select(pieces.c.text).where(*rows_of(pieces, key), pieces.c.entry == entry).order_by(pieces.c.number)
    return "".join(map(unescape, connection.execute(listed).scalars()))


def _delete_pieces(connection: sa.Connection, key: SessionKey, entry: int) -> None:
    connection.execute(sa.delete(pieces).where(*rows_of(pieces, key), pieces.c.entry == entry))


def _call_columns(record: CallRecord) -> dict[str, object]:
    call = {"call_id": escape(record.call.id), "call": dump(record.call), "side_effects": record.side_effects}
    result = None if record.result is None else dump(record.result)
    times = {"started": record.started or None, "seconds": record.seconds}
    return {**call, "state": record.state, "result": result, **times}


def _rounds_of(connection: sa.Connection, key: SessionKey) -> dict[int, list[Round]]:
    order = (calls.c.entry, calls.c.round, calls.c.number)
    columns = (calls.c.call, calls.c.state, calls.c.side_effects, calls.c.result, calls.c.started, calls.c.seconds)
    listed = sa.select(calls.c.entry, calls.c.round, *columns)
    calls_by_round: dict[tuple[int, int], list[CallRecord]] = defaultdict(list)
    rounds_by_entry: dict[int, list[Round]] = defaultdict(list)
    diffs = diffs_of(connection, key)
    for entry, number, *values in connection.execute(listed.where(*rows_of(calls, key)).order_by(*order)):
        record = _record(values)
        calls_by_round[entry, number].append(with_diffs(record, diffs.get((entry, number, record.call.id), ())))
    all_rounds = sa.select(rounds.c.entry, rounds.c.number, rounds.c.body).where(*rows_of(rounds, key))
    for entry, number, body in connection.execute(all_rounds.order_by(rounds.c.entry, rounds.c.number)):
        round_ = msgspec.structs.replace(load(body, Round), calls=tuple(calls_by_round[entry, number]))
        rounds_by_entry[entry].append(round_)
    return rounds_by_entry


def _record(columns: Sequence[object]) -> CallRecord:
    call, state, side_effects, result, started, seconds = columns
    read = None if result is None else load(str(result), ToolResult)
    fields = {"state": state, "side_effects": bool(side_effects), "started": started or 0.0, "seconds": seconds}
    try:
        bare = msgspec.convert({"call": {"name": "", "arguments": {}}, **fields}, CallRecord)
    except msgspec.ValidationError as error:
        raise UnreadableColumn(str(error)) from None
    return msgspec.structs.replace(bare, call=load(str(call), ToolCall), result=read)


def _entry(kind: str, body: str, rounds_: Sequence[Round]) -> Entry:
    if kind == "message":
        return load(body, Message)
    if kind != "answer":
        raise UnreadableColumn(f"unknown entry kind `{kind:.40}`")
    return msgspec.structs.replace(load(body, Answer), rounds=tuple(rounds_))


@contextmanager
def _readable(key: SessionKey) -> Generator[None]:
    """Name the session in the error about an unreadable column."""
    try:
        yield
    except UnreadableColumn as error:
        hint = "`toolspeak sessions doctor` lists damaged sessions; other sessions are not affected"
        raise StoreDamagedError(f"the session `{key.session:.80}` is unreadable: {error}", hint=hint) from None


def _title(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return printable(f"{line[: _MAX_TITLE_CHARS - 1].rstrip()}…" if line[_MAX_TITLE_CHARS:] else line, " ").strip()


def _session(key: SessionKey) -> tuple[sa.ColumnElement[bool], ...]:
    return sessions.c.owner == key.owner, sessions.c.id == key.session


def _call(key: SessionKey, entry: int, number: int, call_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    where = (calls.c.entry == entry, calls.c.round == number, calls.c.call_id == escape(call_id))
    return (*rows_of(calls, key), *where)
