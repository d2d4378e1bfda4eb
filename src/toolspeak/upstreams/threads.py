"""A blocking iteration as an asynchronous one, in a thread of its own.

Not in the shared pool of the event loop: a model may take minutes, a few of them would fill the pool for
everybody, and a loop that ends waits for its pool.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import copy_context
from typing import Generic, TypeVar

#: Items that may wait to be taken; the thread then waits as well, so that a fast source does not fill memory.
MOST_WAITING = 64

Item = TypeVar("Item")


async def drained(source: Callable[[], Generator[Item, None, None]]) -> AsyncGenerator[list[Item], None]:
    """What `source` yields in a thread, in batches of what has come since the last look.

    What it raises is raised here. When this is closed, the thread is let go: it ends at its next item, or,
    if it never comes to one, with the process.
    """
    handover = _Handover[Item](asyncio.get_running_loop())
    work = copy_context().run
    threading.Thread(target=work, args=(handover.work, source), name="toolspeak-model", daemon=True).start()
    try:
        while True:
            items, ended = await handover.take()
            if items:
                yield items
            if ended:
                break
        if handover.error is not None:
            raise handover.error
    finally:
        handover.stop()


class _Handover(Generic[Item]):
    """Where the thread puts what the event loop takes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.error: BaseException | None = None
        self._loop = loop
        self._items: deque[Item] = deque()
        self._room = threading.Semaphore(MOST_WAITING)
        self._news = asyncio.Event()
        self._ended = False
        self._stopped = False

    async def take(self) -> tuple[list[Item], bool]:
        """What has come, and whether that was all."""
        await self._news.wait()
        self._news.clear()
        # In this order: what comes after the look at `_ended` sets the news again.
        ended = self._ended
        items = [self._items.popleft() for _ in range(len(self._items))]
        if items:
            self._room.release(len(items))
        return items, ended

    def stop(self) -> None:
        """Nothing will be taken any more."""
        self._stopped = True
        self._room.release()

    def work(self, source: Callable[[], Generator[Item, None, None]]) -> None:
        """Run in the thread: everything that `source` yields."""
        try:
            self._pass_on(source())
        except BaseException as error:
            # Also what would end a program: here it would end the thread and leave its reader waiting.
            self.error = error
        self._ended = True
        self._tell()

    def _pass_on(self, items: Generator[Item, None, None]) -> None:
        try:
            for item in items:
                self._room.acquire()
                if self._stopped:
                    break
                self._items.append(item)
                self._tell()
        finally:
            items.close()

    def _tell(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:
            # The loop is closed: nobody is left to be told.
            self._stopped = True
