"""What a session holds, as rows: each step of an answer written, and the whole read back.

Every function takes a connection that is in a transaction, and a place; every query names the owner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import sqlalchemy as sa

from ..core.text import printable
from ..core.types import Message, ToolCall, ToolResult, Usage
from ..engine.rounds.transcript import Answer, CallRecord, Entry, Round, answered
from ..errors import StoreDamagedError, UsageError
from .leases import Place
from .rows import Unreadable, dump, escaped, load, unescaped
from .schema import calls, entries, now, pieces, rounds, sessions

#: A session is listed by the beginning of what was said first.
_LONGEST_TITLE = 80


def say(connection: sa.Connection, place: Place, number: int, message: Message) -> None:
    """Something was said."""
    _add(connection, place, number, "message", "complete", dump(message), Usage())
    untitled = sa.update(sessions).where(*_session(place), sessions.c.title == "")
    if message.role == "user" and (title := _title(message.text)):
        connection.execute(untitled.values(title=title))


def begin(connection: sa.Connection, place: Place, number: int) -> None:
    """An answer begins; one that was never ended is over."""
    repair(connection, place)
    _add(connection, place, number, "answer", "running", dump(Answer(status="running")), Usage())


def add_piece(connection: sa.Connection, place: Place, entry: int, number: int, text: str) -> None:
    """More text of a running answer."""
    key = {"owner": place.owner, "session": place.session, "entry": entry, "number": number}
    connection.execute(sa.insert(pieces).values(**key, text=escaped(text)))


def add_round(connection: sa.Connection, place: Place, entry: int, number: int, made: Round) -> None:
    """Calls are planned; the text until here is that of their round."""
    _forget_pieces(connection, place, entry)
    key = {"owner": place.owner, "session": place.session, "entry": entry}
    body = dump(msgspec.structs.replace(made, calls=()))
    connection.execute(sa.insert(rounds).values(**key, number=number, body=body, created=now()))
    for index, record in enumerate(made.calls):
        connection.execute(sa.insert(calls).values(**key, round=number, number=index, **_call_columns(record)))


def start(connection: sa.Connection, place: Place, entry: int, number: int, call_id: str) -> None:
    """A call is about to run.

    Raises:
        UsageError: it is not one of the planned calls of this round.
    """
    planned = sa.update(calls).where(*_call(place, entry, number, call_id), calls.c.state == "planned")
    if connection.execute(planned.values(state="started", started=now())).rowcount != 1:
        raise UsageError(f"the call `{call_id:.80}` is not planned in this round, or was started already")


def finish(
    connection: sa.Connection, place: Place, entry: int, number: int, result: ToolResult, seconds: float
) -> None:
    """A call has a result.

    Raises:
        UsageError: it is no call of this round, or has one already.
    """
    open_ = sa.update(calls).where(*_call(place, entry, number, result.id), calls.c.state != "finished")
    values = {"state": "finished", "result": dump(result), "seconds": seconds, "finished": now()}
    if connection.execute(open_.values(values)).rowcount != 1:
        raise UsageError(f"the call `{result.id:.80}` is none of this round, or has a result already")


def end(connection: sa.Connection, place: Place, entry: int, answer: Answer) -> None:
    """An answer is over; its rounds are there already."""
    _close_calls(connection, place, entry)
    _forget_pieces(connection, place, entry)
    _finish_entry(connection, place, entry, answer)
    connection.execute(sa.update(sessions).where(*_session(place)).values(updated=now()))


def repair(connection: sa.Connection, place: Place) -> int:
    """Put right what a crash has left behind: running answers are interrupted, open calls get a result. How many."""
    running = sa.select(entries.c.number, entries.c.body).where(
        *_of(entries, place), entries.c.status == "running", entries.c.kind == "answer"
    )
    found = connection.execute(running).all()
    for number, body in found:
        try:
            answer = load(body, Answer)
        except Unreadable as error:
            raise _damaged(place, error) from None
        text = "".join(_pieces(connection, place, number))
        _close_calls(connection, place, number)
        _forget_pieces(connection, place, number)
        answer = msgspec.structs.replace(answer, content=answer.content + text, status="interrupted")
        _finish_entry(connection, place, number, answer)
    return len(found)


def next_entry(connection: sa.Connection, place: Place) -> int:
    """The number of the entry that comes next."""
    last = connection.execute(sa.select(sa.func.max(entries.c.number)).where(*_of(entries, place))).scalar()
    return 0 if last is None else last + 1


def entries_of(connection: sa.Connection, place: Place) -> tuple[Entry, ...]:
    """The whole conversation.

    Raises:
        StoreDamagedError: a part of it cannot be understood.
    """
    made = _rounds_of(connection, place)
    listed = sa.select(entries.c.number, entries.c.kind, entries.c.status, entries.c.body)
    rows = connection.execute(listed.where(*_of(entries, place)).order_by(entries.c.number)).all()
    try:
        found = {number: _entry(kind, body, made[number]) for number, kind, _, body in rows}
        for number in (row.number for row in rows if row.status == "running"):
            # Still being written; whoever reads sees as far as it came.
            text = "".join(_pieces(connection, place, number))
            found[number] = msgspec.structs.replace(found[number], content=text)  # type: ignore[type-var]
    except Unreadable as error:
        raise _damaged(place, error) from None
    return tuple(found[number] for number in sorted(found))


# ---- single rows


def _add(connection: sa.Connection, place: Place, number: int, kind: str, status: str, body: str, usage: Usage) -> None:
    key = {"owner": place.owner, "session": place.session, "number": number, "created": now()}
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    connection.execute(sa.insert(entries).values(**key, kind=kind, status=status, body=body, **tokens))
    connection.execute(sa.update(sessions).where(*_session(place)).values(updated=now()))


def _finish_entry(connection: sa.Connection, place: Place, number: int, answer: Answer) -> None:
    changed = sa.update(entries).where(*_of(entries, place), entries.c.number == number)
    usage = answer.usage
    connection.execute(
        changed.values(
            status=answer.status,
            body=dump(msgspec.structs.replace(answer, rounds=())),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
        )
    )


def _close_calls(connection: sa.Connection, place: Place, entry: int) -> None:
    """Calls without a result get one that says so. How far they had got stays visible."""
    without = (*_of(calls, place), calls.c.entry == entry, calls.c.result.is_(None))
    listed = sa.select(calls.c.round, calls.c.number, calls.c.state, calls.c.call).where(*without)
    for number, index, state, text in connection.execute(listed).all():
        try:
            record = answered(_record((text, state, False, None, 0.0)))
        except Unreadable as error:
            raise _damaged(place, error) from None
        which = sa.update(calls).where(*without, calls.c.round == number, calls.c.number == index)
        connection.execute(which.values(result=dump(record.result)))


def _pieces(connection: sa.Connection, place: Place, entry: int) -> Iterable[str]:
    listed = sa.select(pieces.c.text).where(*_of(pieces, place), pieces.c.entry == entry).order_by(pieces.c.number)
    try:
        return [unescaped(text) for text in connection.execute(listed).scalars()]
    except Unreadable as error:
        raise _damaged(place, error) from None


def _forget_pieces(connection: sa.Connection, place: Place, entry: int) -> None:
    connection.execute(sa.delete(pieces).where(*_of(pieces, place), pieces.c.entry == entry))


def _call_columns(record: CallRecord) -> dict[str, object]:
    result = None if record.result is None else dump(record.result)
    return {
        "call_id": escaped(record.call.id),
        "state": record.state,
        "side_effects": record.side_effects,
        "call": dump(record.call),
        "result": result,
        "seconds": record.seconds,
    }


# ---- reading


def _rounds_of(connection: sa.Connection, place: Place) -> dict[int, list[Round]]:
    """Entry -> its rounds, in order."""
    order = (calls.c.entry, calls.c.round, calls.c.number)
    listed = sa.select(
        calls.c.entry, calls.c.round, calls.c.call, calls.c.state, calls.c.side_effects, calls.c.result, calls.c.seconds
    )
    made: dict[tuple[int, int], list[CallRecord]] = defaultdict(list)
    found: dict[int, list[Round]] = defaultdict(list)
    try:
        for entry, number, *columns in connection.execute(listed.where(*_of(calls, place)).order_by(*order)):
            made[entry, number].append(_record(columns))
        all_rounds = sa.select(rounds.c.entry, rounds.c.number, rounds.c.body).where(*_of(rounds, place))
        for entry, number, body in connection.execute(all_rounds.order_by(rounds.c.entry, rounds.c.number)):
            found[entry].append(msgspec.structs.replace(load(body, Round), calls=tuple(made[entry, number])))
    except Unreadable as error:
        raise _damaged(place, error) from None
    return found


def _record(columns: Sequence[object]) -> CallRecord:
    call, state, side_effects, result, seconds = columns
    read = None if result is None else load(str(result), ToolResult)
    fields = {"state": state, "side_effects": bool(side_effects), "seconds": seconds}
    try:
        bare = msgspec.convert({"call": {"name": "", "arguments": {}}, **fields}, CallRecord)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error)) from None
    return msgspec.structs.replace(bare, call=load(str(call), ToolCall), result=read)


def _entry(kind: str, body: str, made: Sequence[Round]) -> Entry:
    if kind == "message":
        return load(body, Message)
    if kind != "answer":
        raise Unreadable(f"an entry of the kind `{kind:.40}`")
    return msgspec.structs.replace(load(body, Answer), rounds=tuple(made))


def _damaged(place: Place, error: Unreadable) -> StoreDamagedError:
    hint = "`toolspeak sessions doctor` lists what is damaged; other sessions are not concerned"
    return StoreDamagedError(f"the session `{place.session:.80}` cannot be understood: {error}", hint=hint)


def _title(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return printable(line[:_LONGEST_TITLE], " ").strip()


def _session(place: Place) -> tuple[sa.ColumnElement[bool], ...]:
    return sessions.c.owner == place.owner, sessions.c.id == place.session


def _of(table: sa.Table, place: Place) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.owner == place.owner, table.c.session == place.session


def _call(place: Place, entry: int, number: int, call_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    where = (calls.c.entry == entry, calls.c.round == number, calls.c.call_id == escaped(call_id))
    return (*_of(calls, place), *where)
