"""A bridge for callers who do not speak asyncio: one event loop in a thread of its own.

Started when it is first needed, ended when it is closed or the program ends. Above: `client`. Below: `errors`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from typing import Any, TypeVar

from .errors import UsageError

__all__ = ["Portal"]

T = TypeVar("T")


class Portal:
    """Runs coroutines for threads that have no event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. An interrupt (Ctrl-C) cancels it."""
        try:
            future = self._submit(coroutine)
        except UsageError:
            coroutine.close()
            raise
        try:
            return future.result()
        except FutureCancelled:
            raise UsageError("the client was closed while it was in use") from None
        except BaseException:
            future.cancel()
            raise

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        # Under the lock, so that `close` comes either before, and is noticed, or after, and cancels it.
        with self._lock:
            if self._closed:
                raise UsageError("the client is closed", hint="make a new one")
            if self._thread is threading.current_thread():
                raise UsageError(
                    "a coroutine of the client waits for the client itself", hint="use `AsyncClient` there"
                )
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="toolspeak", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """End the loop and everything that still runs in it."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            if thread is not threading.current_thread():
                thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
