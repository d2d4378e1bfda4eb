"""Await blocking work that runs in a separate thread.

The event loop's thread pool is not used: tools that hang would fill it, and a loop that closes waits for its pool.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a new thread and await its result. A cancelled thread cannot be killed and runs to its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except StopIteration as stop:
            # A future cannot carry StopIteration, which would end a generator that awaits it.
            error = RuntimeError(f"the function raised StopIteration: {stop}")
        except BaseException as raised:  # re-raised in the awaiting task
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(deliver, result, error)

    threading.Thread(target=copy_context().run, args=(run,), name="toolspeak-tool", daemon=True).start()
    return await future


def threadsafe(emit: Callable[[str], None]) -> Callable[[str], None]:
    """Wrap `emit` for another thread. The event loop calls it in order, and before it delivers the thread's result."""
    loop = asyncio.get_running_loop()

    def forward(piece: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(emit, piece)

    return forward
