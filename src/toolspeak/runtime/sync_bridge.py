"""Bridge from synchronous code to asyncio: an event loop in a background thread.

All bridges of a process share one loop. It starts on first use and stops when the last bridge that used it is closed or
garbage-collected, so a program may create many clients without closing them. When the interpreter exits, running
coroutines are cancelled, and nothing waits for the loop any more.
"""

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from ..errors import UpstreamError, UsageError

T = TypeVar("T")

#: Seconds for which the exiting interpreter waits for cancelled coroutines, so that sessions can be released.
_EXIT_SECONDS = 2.0


class LoopThread:
    """A reference-counted event loop in a background thread."""

    def __init__(self) -> None:
        # Reentrant, because the garbage collector may close a bridge at any point.
        self.lock = threading.RLock()
        #: Whether the interpreter is exiting. Nothing may wait for the loop then, because its thread may be gone.
        self.exiting = False
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def inside(self) -> bool:
        """Whether the caller runs in the loop's thread."""
        return self._thread is threading.current_thread()

    def acquire(self) -> asyncio.AbstractEventLoop:
        """Add a user and return the running loop. The caller must hold the lock."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_run_loop_thread, args=(self._loop,), name="toolspeak", daemon=True)
            self._thread.start()
        self._users += 1
        return self._loop

    def release(self) -> None:
        """Remove a user. When none is left, stop the loop and cancel its tasks."""
        with self.lock:
            self._users -= 1
            if self._users or self._loop is None or self._thread is None:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()

    def stop_at_exit(self) -> None:
        """Cancel all coroutines and stop the loop, without any output, because the interpreter exits."""
        with self.lock:
            self.exiting = True
            loop, thread = self._loop, self._thread
            self._loop = None  # so that a bridge that ends meanwhile does not stop it a second time
        if loop is not None and thread is not None:
            loop.set_exception_handler(lambda loop, context: None)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_EXIT_SECONDS)


_SHARED = LoopThread()
#: Loads the class. When the interpreter is exiting, threads that still use a client could not load it any more.
_EXECUTOR = ThreadPoolExecutor
atexit.register(_SHARED.stop_at_exit)
if hasattr(os, "register_at_fork"):
    # Forget the loop, because a forked process does not inherit its parent's threads.
    os.register_at_fork(after_in_child=_SHARED.__init__)


class SyncBridge:
    """Runs coroutines for threads without an event loop."""

    def __init__(self, shared: LoopThread | None = None) -> None:
        self._shared = shared or _SHARED
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._process = os.getpid()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the bridge cannot run coroutines any more."""
        return self._closed or self._shared.exiting

    @property
    def inside(self) -> bool:
        """Whether the caller runs in the loop's thread, where it must not wait for the loop."""
        return self._shared.inside

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. An interrupt (Ctrl-C) cancels it."""
        try:
            with self._shared.lock:
                if self._shared.inside:
                    message = "the synchronous client was called from its own event loop"
                    raise UsageError(message, hint="use `AsyncClient` there")
                future, stop = self._submit(coroutine)
        except UsageError:
            coroutine.close()
            raise
        try:
            return future.result()
        except BaseException:
            stop()
            raise

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine for a task of another event loop and return its result."""
        with self._shared.lock:
            future, stop = self._submit(coroutine)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            stop()
            raise

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine without waiting for it. Does nothing if the bridge is closed."""
        with self._shared.lock:
            if self.closed:
                coroutine.close()
            else:
                self._submit(coroutine)

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> tuple[Future[T], Callable[[], None]]:
        """Schedule a coroutine. The caller must hold the lock, so a concurrent `close` cannot miss the coroutine."""
        if self.closed:
            raise UsageError("the client is closed", hint="create a new client")
        if self._loop is None or self._process != os.getpid():
            self._process = os.getpid()
            self._tasks = set()
            self._loop = self._shared.acquire()
        loop = self._loop
        future: Future[T] = Future()
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            task = loop.create_task(self._run_into(coroutine, future))
            tasks.append(task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            tasks[0].cancel()  # `begin` was scheduled first, so it has run

        def stop() -> None:
            if not future.done():
                loop.call_soon_threadsafe(cancel)

        loop.call_soon_threadsafe(begin)
        return future, stop

    async def _run_into(self, coroutine: Coroutine[Any, Any, T], future: Future[T]) -> None:
        """Run a coroutine and pass its result or exception to `future`. An escaping exception might stop the loop."""
        try:
            result = await coroutine
        except asyncio.CancelledError:
            if self._shared.exiting:
                return  # only a daemon thread can still be waiting; it must not wake up to print a traceback
            if self._closed:
                future.set_exception(UsageError("the client was closed during a request"))
            else:
                future.set_exception(UpstreamError("the turn was cancelled internally, not by the caller"))
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Run `last`, then cancel all running coroutines. May be called more than once."""
        with self._shared.lock:
            loop, self._loop = self._loop, None
            closed, self._closed = self._closed, True
        if closed or loop is None or self._process != os.getpid() or self._shared.exiting:
            return
        if self._shared.inside:
            for task in self._tasks:
                task.cancel()
        else:
            asyncio.run_coroutine_threadsafe(self._end(last), loop).result()
        self._shared.release()

    def close_with(self, owner: object, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close the bridge when `owner` is garbage-collected. `last` must not reference the owner."""
        weakref.finalize(owner, self._close_without_waiting, last).atexit = False

    def _close_without_waiting(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close without blocking. The garbage collector may call this in any thread and at any point."""
        loop, self._loop = self._loop, None
        closed, self._closed = self._closed, True
        if closed or loop is None or self._process != os.getpid() or self._shared.exiting:
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


def _run_loop_thread(loop: asyncio.AbstractEventLoop) -> None:
    """Run until the loop is stopped. `SystemExit` and `KeyboardInterrupt` from a task go to the waiting thread only."""
    asyncio.set_event_loop(loop)
    try:
        stopped = False
        while not stopped:
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()
                stopped = True
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
