"""A bridge for callers who do not speak asyncio: one event loop in a thread of its own.

All portals of a process share one loop. It is started when it is first needed and ended when the last portal
that used it is closed or forgotten, so that a program may make as many clients as it likes and close none.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ..errors import UpstreamError, UsageError

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread, for as long as somebody uses it."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close something in the middle of anything.
        self.lock = threading.RLock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def inside(self) -> bool:
        """Whether the caller runs in the loop's own thread."""
        return self._thread is threading.current_thread()

    def acquire(self) -> asyncio.AbstractEventLoop:
        """The running loop, for one more user. Only under the lock."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="toolspeak", daemon=True)
            self._thread.start()
        self._users += 1
        return self._loop

    def release(self) -> None:
        """One user less; with the last of them the loop ends, and everything that still runs in it."""
        with self.lock:
            self._users -= 1
            if self._users or self._loop is None or self._thread is None:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()

    def forget(self) -> None:
        """A forked process has none of the threads of its parent."""
        self.__init__()


_SHARED = LoopThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED.forget)


class Portal:
    """Runs coroutines for threads that have no event loop."""

    def __init__(self, shared: LoopThread | None = None) -> None:
        self._shared = shared or _SHARED
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._process = os.getpid()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether nothing runs here any more."""
        return self._closed

    @property
    def inside(self) -> bool:
        """Whether the caller runs in the loop itself, and so must not wait for it."""
        return self._shared.inside

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. An interrupt (Ctrl-C) cancels it."""
        try:
            with self._shared.lock:
                if self._shared.inside:
                    raise UsageError(
                        "a coroutine of the client waits for the client itself", hint="use `AsyncClient` there"
                    )
                future, stop = self._submit(coroutine)
        except UsageError:
            coroutine.close()
            raise
        try:
            return future.result()
        except BaseException:
            stop()
            raise

    def send(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Let a coroutine run without waiting for it; not at all where the portal is closed."""
        with self._shared.lock:
            if self._closed:
                coroutine.close()
            else:
                self._submit(coroutine)

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> tuple[Future[T], Callable[[], None]]:
        """Under the lock, so that `close` comes either before, and is noticed, or after, and cancels it."""
        if self._closed:
            raise UsageError("the client is closed", hint="make a new one")
        if self._loop is None or self._process != os.getpid():
            self._process = os.getpid()
            self._tasks = set()
            self._loop = self._shared.acquire()
        loop = self._loop
        future: Future[T] = Future()
        begun: list[asyncio.Task[None]] = []

        def begin() -> None:
            task = loop.create_task(self._carry_out(coroutine, future))
            begun.append(task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            begun[0].cancel()  # by then it has begun

        def stop() -> None:
            if not future.done():
                loop.call_soon_threadsafe(cancel)

        loop.call_soon_threadsafe(begin)
        return future, stop

    async def _carry_out(self, coroutine: Coroutine[Any, Any, T], future: Future[T]) -> None:
        """Whatever the coroutine raises goes to who waits for it: what leaves a task ends the loop, or is lost."""
        try:
            result = await coroutine
        except asyncio.CancelledError:
            if self._closed:
                future.set_exception(UsageError("the client was closed while it was in use"))
            else:
                future.set_exception(UpstreamError("the turn was cancelled from inside"))
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """End everything that still runs here; `last` is run before that. It may be called twice."""
        with self._shared.lock:
            loop, self._loop = self._loop, None
            closed, self._closed = self._closed, True
        if closed or loop is None or self._process != os.getpid():
            return
        if self._shared.inside:
            for task in self._tasks:
                task.cancel()
        else:
            asyncio.run_coroutine_threadsafe(self._end(last), loop).result()
        self._shared.release()

    def close_with(self, owner: object, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close, without waiting for it, once the owner is forgotten. `last` must not know the owner."""
        weakref.finalize(owner, self._forgotten, last).atexit = False

    def _forgotten(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Called by the garbage collector, in any thread and in the middle of anything: it must not wait."""
        loop, self._loop = self._loop, None
        closed, self._closed = self._closed, True
        if closed or loop is None or self._process != os.getpid():
            return

        async def end() -> None:
            try:
                await self._end(last)
            finally:
                self._shared.release()

        loop.call_soon_threadsafe(lambda: loop.create_task(end()))

    async def _end(self, last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        try:
            if last is not None:
                await last()
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        _run_on(loop)
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _run_on(loop: asyncio.AbstractEventLoop) -> None:
    """Until the loop is stopped. A task that raises one of these keeps it for whoever waits, and ends nobody else."""
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue
        return
