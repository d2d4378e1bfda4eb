"""Blocking work in a thread of its own, awaited.

Not in the shared pool of the event loop: a tool that hangs would fill the pool for everybody, and a loop that ends
waits for its pool.
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
    """What `work` returns or raises. Who stops waiting leaves the thread behind: a thread cannot be ended."""
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
            # A future refuses this one, since it would end a generator that awaits it.
            error = RuntimeError(f"the function raised StopIteration: {stop}")
        except BaseException as raised:  # delivered to whoever waits
            error = raised
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            loop.call_soon_threadsafe(deliver, result, error)

    threading.Thread(target=copy_context().run, args=(run,), name="toolspeak-tool", daemon=True).start()
    return await future


def threadsafe(emit: Callable[[str], None]) -> Callable[[str], None]:
    """`emit` for the use of another thread: called in the loop, in order, and before the thread's own result."""
    loop = asyncio.get_running_loop()

    def handed_over(piece: str) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(emit, piece)

    return handed_over
