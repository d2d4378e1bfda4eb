"""A database: opened by URL, migrated, and asked in transactions that are carried out whole or not at all.

`read` and `write` block; `reading` and `writing` do the same in one of a few threads, for coroutines. What passes by
itself (a lock, a server that restarts) is tried again for a bounded time, so what is asked must bear being asked
twice: a commit whose answer was lost has happened. SQLite has one writer at a time, here and by its own lock.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from ..errors import NoStoreError, StoreError
from .db_engines import MISSING, made
from .db_errors import REFUSED_VALUES, passes, refused, translated
from .migrate import is_current, is_there, migrate

#: Threads that speak with one database: more would only wait, for SQLite's writer or for connections.
_THREADS = 4
#: Seconds for which something that passes by itself is waited for. A PostgreSQL server restarts in a few.
_PATIENCE = 15.0
#: Seconds for which somebody waits who only wants to read, and sits before it.
_SHORT_PATIENCE = 3.0
#: Pauses between two tries: the first, and the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5

T = TypeVar("T")


def _nothing() -> None:
    """There is nothing to do then."""


_all: weakref.WeakSet[Database] = weakref.WeakSet()


class Database:
    """One database.

    Args:
        url: `sqlite:///path`, `sqlite://` (in memory), or `postgresql://...`.
        patience: seconds for which a database that is away or busy is waited for.
        existing: only one in which there is a store already. Nothing is made, and it is not waited for long at first.

    Raises:
        NoStoreError: `existing`, and there is none.
        ConfigError: the URL cannot be used, or a newer version of toolspeak has been here.
        StoreError: it cannot be opened.
    """

    def __init__(self, url: str, *, patience: float = _PATIENCE, existing: bool = False) -> None:
        self.engine, self.where, self.in_memory = made(url, existing=existing)
        self._patience = min(patience, _SHORT_PATIENCE) if existing else patience
        self._is_sqlite = self.engine.dialect.name == "sqlite"
        self._writer = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        _all.add(self)
        try:
            if not self.read(is_current):
                if existing and not self.read(is_there):
                    raise NoStoreError(f"there is no store in the database {self.where}", hint=MISSING)
                self.write(migrate)
            self._patience = patience
        except BaseException:
            self.engine.dispose()
            raise

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """What `work` finds, in one transaction that changes nothing."""
        return self._patiently(lambda: self._once(work, write=False))

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """What `work` gives; what it changed has been committed. It may be called several times."""
        return self._patiently(lambda: self._once(work, write=True))

    async def reading(self, work: Callable[[sa.Connection], T]) -> T:
        """As `read`, and the event loop goes on meanwhile."""
        return await self._aside(self.read, work, _nothing)

    async def writing(self, work: Callable[[sa.Connection], T], then: Callable[[], None] = _nothing) -> T:
        """As `write`, and the event loop goes on meanwhile. `then` is called once the commit is known.

        Who is cancelled hears so when it is decided, and `then` has been called if it was.
        """
        return await self._aside(self.write, work, then)

    def close(self) -> None:
        """Give all connections and threads back."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        self.engine.dispose()

    def before_fork(self) -> None:
        """No connection may be shared by two processes; a database in memory cannot live on in a child."""
        if not self.in_memory:
            self.engine.dispose()

    def after_fork(self) -> None:
        """Threads do not come along."""
        self._threads = None
        self._writer = threading.Lock()

    async def _aside(
        self,
        way: Callable[[Callable[[sa.Connection], T]], T],
        work: Callable[[sa.Connection], T],
        then: Callable[[], None],
    ) -> T:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="toolspeak-store")
        future = asyncio.get_running_loop().run_in_executor(self._threads, way, work)
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:  # a transaction ends one way or the other, and soon
                cancelled = error
        if future.exception() is None:
            then()
        if cancelled is not None:
            raise cancelled
        return future.result()

    def _patiently(self, once: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return once()
            except exc.SQLAlchemyError as error:
                if not passes(error) or time.monotonic() + pause > deadline:
                    raise translated(error, self.where) from error
            except REFUSED_VALUES as error:
                raise refused(error, self.where) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _once(self, work: Callable[[sa.Connection], T], *, write: bool) -> T:
        options: dict[str, Any] = {"toolspeak_write": write}
        if not write and not self._is_sqlite:
            # All queries of a reader see the same moment, as they do in SQLite.
            options["isolation_level"] = "REPEATABLE READ"
        with self._alone(write), self.engine.execution_options(**options).begin() as connection:
            return work(connection)

    @contextmanager
    def _alone(self, write: bool) -> Generator[None]:
        """SQLite's writers wait for each other here, in order and without polling its lock."""
        if not (self._is_sqlite and (write or self.in_memory)):
            yield
            return
        if not self._writer.acquire(timeout=self._patience):
            raise StoreError(f"the store at {self.where} is busy", hint="try again a little later")
        try:
            yield
        finally:
            self._writer.release()


def _before_fork() -> None:
    for database in list(_all):
        database.before_fork()


def _after_fork() -> None:
    for database in list(_all):
        database.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
