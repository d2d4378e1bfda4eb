"""Journal of one session in a database: each step is committed before the agent continues.

The journal renews the session's lease. It numbers its writes, so a commit whose confirmation was lost is not repeated.
Streamed text is written every second or every 4 KB.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import sqlalchemy as sa

from ..core.types import Message, ToolResult
from ..engine.rounds.transcript import Answer, Entry, Round, close_open_calls
from ..errors import SessionBusyError, StoreError, UsageError
from . import leases
from . import session_rows as ledger
from .database import Database, nothing
from .session_interface import FileChange

#: Streamed text is written after this many bytes or seconds, so a crash loses no more than that.
FLUSH_BYTES = 4096
FLUSH_SECONDS = 1.0
_RENEWALS_PER_LEASE = 3


class SqlJournal:
    """A `SessionJournal` in a database, opened by `Store.journal`. It has no other writer."""

    def __init__(self, database: Database, lease: leases.SessionLease, next_entry: int) -> None:
        self._database = database
        self._lease = lease
        self._next_entry = next_entry
        #: Entry number of the running answer, and its number of rounds and of pieces of text.
        self._answer: int | None = None
        self._rounds = 0
        self._pieces = 0
        self._written = 0
        self._text: list[str] = []
        self._bytes = 0
        #: Allows one write at a time, because several tasks call `start` and `finish`.
        self._write_lock = asyncio.Lock()
        #: The error that every later write raises, once the lease is lost.
        self._lost: SessionBusyError | None = None
        self._closed = False
        self._heartbeat = asyncio.create_task(self._renew_lease())
        self._timer: asyncio.Task[None] | None = None

    @property
    def session(self) -> str:
        return self._lease.key.session

    async def entries(self) -> tuple[Entry, ...]:
        stored = await self._database.reading(lambda connection: ledger.entries_of(connection, self._lease.key))
        return tuple(close_open_calls(entry) if isinstance(entry, Answer) else entry for entry in stored)

    async def say(self, *messages: Message) -> None:

        def say_all(connection: sa.Connection) -> None:
            for number, message in enumerate(messages, first):
                ledger.say(connection, self._lease.key, number, message)

        def committed() -> None:
            self._next_entry = first + len(messages)

        async with self._write_lock:
            first = self._next_entry
            await self._write(say_all, committed)

    async def begin(self) -> None:
        """Begin an answer. An earlier unfinished one is marked as interrupted."""
        await self._flush()
        await self._commit(ledger.begin, self._next_entry, then=self._on_begin)

    async def stream(self, text: str) -> None:
        self._running_answer()
        self._text.append(text)
        self._bytes += len(text)  # counts characters: most text is ASCII, and the limit need not be exact
        if self._bytes >= FLUSH_BYTES:
            await self._flush()
        elif self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._flush_later())

    async def plan(self, round_: Round) -> None:
        entry = self._running_answer()
        ids = [record.call.id for record in round_.calls]
        if len(set(ids)) != len(ids):
            raise UsageError("two calls in a round have the same id", hint="use unique call ids")
        await self._commit(ledger.add_round, entry, self._rounds, round_, then=self._on_plan)

    async def start(self, call_id: str, at: float = 0.0) -> None:
        await self._commit(ledger.start, self._running_answer(), self._rounds - 1, call_id, at)

    async def change(self, call_id: str, change: FileChange) -> None:
        await self._commit(ledger.add_change, self._running_answer(), self._rounds - 1, call_id, change)

    async def changes(self) -> tuple[FileChange, ...]:
        stored = await self._database.reading(lambda connection: ledger.changes_of(connection, self._lease.key))
        return tuple(each.change for each in stored if not each.undone)

    async def mark_undone(self, root: str, path: str) -> None:
        await self._commit(ledger.mark_undone, root, path)

    async def finish(self, result: ToolResult, seconds: float) -> None:
        await self._commit(ledger.finish, self._running_answer(), self._rounds - 1, result, seconds)

    async def end(self, answer: Answer) -> None:
        entry = self._running_answer()
        if answer.status == "running":
            raise UsageError("the status of an ended answer must not be `running`")
        await self._commit(ledger.end, entry, answer, then=self._on_end)

    async def close(self) -> None:
        """Write pending text if possible, and release the session."""
        if self._closed:
            return
        with suppress(StoreError):
            await self._flush()
        self._closed = True
        for task in (self._heartbeat, self._timer):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        try:
            await self._database.writing(lambda connection: leases.release(connection, self._lease))
        except StoreError:  # other processes have to wait until the lease expires
            leases.abandon(self._lease)

    async def _commit(self, step: Callable[..., None], *values: object, then: Callable[[], None] = nothing) -> None:
        """Commit one step, which is a function of `session_rows`."""
        async with self._write_lock:
            await self._write(lambda connection: step(connection, self._lease.key, *values), then)

    async def _write(self, step: Callable[[sa.Connection], None], then: Callable[[], None]) -> None:
        """Commit one step exactly once, then call `then`. The caller must hold `_write_lock`."""
        if self._closed:
            raise UsageError("the journal is closed", hint="open the session again")
        if self._lost is not None:
            raise self._lost
        number = self._written + 1

        def fenced(connection: sa.Connection) -> None:
            if leases.advance(connection, self._lease, number):
                step(connection)

        def committed() -> None:
            self._written = number
            then()

        try:
            await self._database.writing(fenced, committed)
        except SessionBusyError as error:
            self._lost = error
            raise

    def _on_begin(self) -> None:
        self._answer, self._rounds, self._pieces = self._next_entry, 0, 0
        self._next_entry += 1

    def _on_plan(self) -> None:
        self._rounds += 1
        self._clear_text()

    def _on_end(self) -> None:
        self._answer = None
        self._clear_text()

    def _on_flush(self) -> None:
        self._pieces += 1

    async def _flush(self) -> None:
        async with self._write_lock:
            text = "".join(self._text)
            if not text or self._answer is None:
                return
            entry, number = self._answer, self._pieces
            self._clear_text()  # more text may arrive during the write
            piece = (self._lease.key, entry, number, text)
            try:
                await self._write(lambda connection: ledger.add_piece(connection, *piece), self._on_flush)
            except BaseException:
                if self._pieces == number:
                    self._text.insert(0, text)
                    self._bytes += len(text)
                raise

    async def _flush_later(self) -> None:
        await asyncio.sleep(FLUSH_SECONDS)
        with suppress(StoreError):  # the text is kept, and the next write tries again
            await self._flush()

    def _clear_text(self) -> None:
        self._text, self._bytes = [], 0

    def _running_answer(self) -> int:
        if self._answer is None:
            raise UsageError("no answer is running", hint="call `begin` first")
        return self._answer

    async def _renew_lease(self) -> None:
        """Renew the lease periodically, timed by the event loop's monotonic clock."""
        while True:
            await asyncio.sleep(self._lease.seconds / _RENEWALS_PER_LEASE)
            try:
                await self._database.writing(lambda connection: leases.renew(connection, self._lease))
            except SessionBusyError as error:
                self._lost = error
                return
            except StoreError:
                continue  # the database is unavailable; the next renewal shows whether the lease is lost
