"""The journal of one session over a database: each step committed before the agent goes on.

Holds the session's lease, renews it while it lives, and counts what it writes, so that a commit whose answer was lost
is not done again. Streamed text is written each second or every 4 KB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import sqlalchemy as sa

from ..core.types import Message, ToolResult
from ..engine.rounds.transcript import Answer, Entry, Round, repaired
from ..errors import SessionBusyError, StoreError, UsageError
from . import leases
from . import session_rows as ledger
from .database import Database

#: Streamed text is written when there is so much of it, or when so much time has passed: a crash loses no more.
FLUSH_BYTES = 4096
FLUSH_SECONDS = 1.0
#: Times that a lease is renewed before it would end.
_BEATS = 3


def _nothing() -> None:
    """There is nothing to note."""


class SqlJournal:
    """One session, held by one writer. Made by `Store.journal`."""

    def __init__(self, database: Database, lease: leases.Lease, next_entry: int) -> None:
        self._database = database
        self._lease = lease
        self._next_entry = next_entry
        #: The running answer, if there is one, and how many rounds and pieces of text it has.
        self._answer: int | None = None
        self._rounds = 0
        self._pieces = 0
        self._written = 0
        #: Text that is not written yet.
        self._text: list[str] = []
        self._bytes = 0
        #: One write at a time: `start` and `finish` come from several tasks.
        self._turn = asyncio.Lock()
        #: Why nothing more can be written.
        self._lost: SessionBusyError | None = None
        self._closed = False
        self._beats = asyncio.create_task(self._stay_alive())
        self._timer: asyncio.Task[None] | None = None

    @property
    def session(self) -> str:
        """The id under which it can be opened again."""
        return self._lease.place.session

    @property
    def lost(self) -> bool:
        """Whether another writer has taken the session over."""
        return self._lost is not None

    async def entries(self) -> tuple[Entry, ...]:
        """The conversation so far, as it can be gone on from."""
        found = await self._database.reading(lambda connection: ledger.entries_of(connection, self._lease.place))
        return tuple(repaired(entry) if isinstance(entry, Answer) else entry for entry in found)

    async def say(self, message: Message) -> None:
        """Something was said."""
        async with self._turn:
            await self._write(partial(self._with(ledger.say), self._next_entry, message), self._said)

    async def begin(self) -> None:
        """An answer begins; one that nobody has ended is interrupted."""
        await self._flush()
        async with self._turn:
            await self._write(partial(self._with(ledger.begin), self._next_entry), self._begun)

    async def stream(self, text: str) -> None:
        """A piece of text came."""
        self._running()
        self._text.append(text)
        self._bytes += len(text)  # ASCII is what most of it is; the limit need not be exact
        if self._bytes >= FLUSH_BYTES:
            await self._flush()
        elif self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._flush_later())

    async def plan(self, made: Round) -> None:
        """The model asked for these calls."""
        entry = self._running()
        ids = [record.call.id for record in made.calls]
        if len(set(ids)) != len(ids):
            raise UsageError("two calls of a round have the same id", hint="give each an id of its own")
        async with self._turn:
            await self._write(partial(self._with(ledger.add_round), entry, self._rounds, made), self._planned)

    async def start(self, call_id: str) -> None:
        """A call is about to run."""
        entry = self._running()
        async with self._turn:
            await self._write(partial(self._with(ledger.start), entry, self._rounds - 1, call_id))

    async def finish(self, result: ToolResult, seconds: float) -> None:
        """A call has a result."""
        entry = self._running()
        async with self._turn:
            await self._write(partial(self._with(ledger.finish), entry, self._rounds - 1, result, seconds))

    async def end(self, answer: Answer) -> None:
        """The answer is over."""
        entry = self._running()
        if answer.status == "running":
            raise UsageError("an answer that ends is not running")
        async with self._turn:
            await self._write(partial(self._with(ledger.end), entry, answer), self._ended)

    async def close(self) -> None:
        """Give the session back. What was streamed is written first, as far as that can be."""
        if self._closed:
            return
        with suppress(StoreError):
            await self._flush()
        self._closed = True
        for task in (self._beats, self._timer):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        try:
            await self._database.writing(lambda connection: leases.release(connection, self._lease))
        except StoreError:  # for others it ends by itself
            leases.let_go(self._lease)

    # ---- writing

    def _with(self, step: Callable[..., None]) -> Callable[..., None]:
        """A step of the ledger, in this session; the connection comes last."""

        def done(*arguments: object) -> None:
            *given, connection = arguments
            step(connection, self._lease.place, *given)

        return done

    async def _write(self, step: Callable[[sa.Connection], None], then: Callable[[], None] = _nothing) -> None:
        """Commit one step, exactly once, if the lease is still ours; `then` notes that it was. Only in turn."""
        if self._closed:
            raise UsageError("this journal is closed", hint="open the session again")
        if self._lost is not None:
            raise self._lost
        number = self._written + 1

        def fenced(connection: sa.Connection) -> None:
            if leases.move_on(connection, self._lease, number):
                step(connection)

        def committed() -> None:
            self._written = number
            then()

        try:
            await self._database.writing(fenced, committed)
        except SessionBusyError as error:
            self._lost = error
            raise

    def _said(self) -> None:
        self._next_entry += 1

    def _begun(self) -> None:
        self._answer, self._rounds, self._pieces = self._next_entry, 0, 0
        self._next_entry += 1

    def _planned(self) -> None:
        self._rounds += 1
        self._forget_text()

    def _ended(self) -> None:
        self._answer = None
        self._forget_text()

    def _flushed(self) -> None:
        self._pieces += 1

    async def _flush(self) -> None:
        async with self._turn:
            text = "".join(self._text)
            if not text or self._answer is None:
                return
            entry, number = self._answer, self._pieces
            self._forget_text()  # more may come meanwhile
            try:
                await self._write(partial(self._with(ledger.add_piece), entry, number, text), self._flushed)
            except BaseException:
                if self._pieces == number:
                    self._text.insert(0, text)
                    self._bytes += len(text)
                raise

    async def _flush_later(self) -> None:
        await asyncio.sleep(FLUSH_SECONDS)
        with suppress(StoreError):  # the next step says so, or succeeds
            await self._flush()

    def _forget_text(self) -> None:
        self._text, self._bytes = [], 0

    def _running(self) -> int:
        if self._answer is None:
            raise UsageError("no answer is running", hint="begin one first")
        return self._answer

    async def _stay_alive(self) -> None:
        """Renew the lease by the loop's clock, which does not jump."""
        while True:
            await asyncio.sleep(self._lease.seconds / _BEATS)
            try:
                await self._database.writing(lambda connection: leases.renew(connection, self._lease))
            except SessionBusyError as error:
                self._lost = error
                return
            except StoreError:
                continue  # away for a while; whether the lease is lost is seen when it is back
