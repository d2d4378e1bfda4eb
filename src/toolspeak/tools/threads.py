"""Await blocking work that runs in a separate thread.

The event loop's thread pool is not used: tools that hang would fill it, and a loop that closes waits for its pool.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a new thread and await its result. A cancelled thread cannot be killed and runs to its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            deliver = partial(future.set_result, work())
        except StopIteration as stop:
            # A future cannot carry StopIteration, which would end a generator that awaits it.
            deliver = partial(future.set_exception, RuntimeError(f"the function raised StopIteration: {stop}"))
        except BaseException as raised:  # re-raised in the awaiting task
            deliver = partial(future.set_exception, raised)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if future.done() else deliver())

    threading.Thread(target=copy_context().run, args=(run,), name="toolspeak-tool", daemon=True).start()
    return await future


def threadsafe(emit: Callable[[str], None]) -> Callable[[str], None]:
    """Wrap `emit` for another thread. The event loop calls it in order, and before it delivers the thread's result."""
    loop = asyncio.get_running_loop()

    def forward(piece: str) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(emit, piece)

    return forward
