"""A Python function as a model: `messages -> text`.

The function may be plain, `async`, a generator or an asynchronous generator of text. Functions that may block run in a
separate thread. If the function raises an exception, it becomes the cause of an `UpstreamError`.
"""

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from contextvars import copy_context
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import msgspec

from ..core.events import Event, TextDelta
from ..core.types import JSONObject, JSONValue, Request
from ..errors import UpstreamError, UpstreamTimeout, UsageError
from .base import Batches, ReplyCompleter, normalize_failures, shorten
from .codecs import codec

#: A piece of output: text, or an event if there is more than text (tool calls, reasoning, usage).
Piece: TypeAlias = str | Event
ModelOutput: TypeAlias = Piece | Iterator[Piece] | AsyncIterator[Piece] | Awaitable[Piece | AsyncIterator[Piece]]
#: A model function. Its parameter names decide whether it is called with `messages`, `request` or both.
ModelFunction: TypeAlias = Callable[..., ModelOutput]


class FunctionUpstream:
    """An upstream that calls a Python function.

    Closing an answer cancels an `async` function at its current `await`, and a generator at its next item. A plain
    function cannot be interrupted, so its thread is abandoned and its result dropped.
    """

    provider = "callable"
    base_url = ""

    def __init__(self, function: ModelFunction) -> None:
        if not callable(function):
            raise UsageError(f"a model function must be callable, not a `{type(function).__name__}`")
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self._function = function
        self._parameters = _parameters(function)
        self._async = _is_async(function)

    def __repr__(self) -> str:
        return f"FunctionUpstream({self.name})"

    def open(self, request: Request) -> Batches:
        return normalize_failures(self._answer(request))

    async def close(self) -> None:
        """Do nothing: no resources are kept between requests."""

    async def _answer(self, request: Request) -> Batches:
        call = self._call(request)
        completer = ReplyCompleter()
        try:
            async with aclosing(_pieces(call, self._async)) as pieces:
                async for batch in pieces:
                    events = [_event(piece) for piece in batch if piece != ""]
                    completer.see(events)
                    yield events
        except UpstreamError:
            raise
        except (Exception, SystemExit) as error:
            kind = UpstreamTimeout if isinstance(error, TimeoutError) else UpstreamError
            message = shorten(f"{type(error).__name__}: {error}")
            raise kind(f"the model function `{self.name}` raised {message}") from error
        yield completer.missing()

    def _call(self, request: Request) -> Callable[[], ModelOutput]:
        """Bind the arguments by name if the function has a parameter `request`, else pass only the messages."""
        if "request" not in self._parameters:
            return partial(self._function, openai_messages(request))
        positional: list[JSONValue] = []
        keywords: dict[str, JSONValue] = {}
        for name, parameter in self._parameters.items():
            if name in ("messages", "request"):
                value = request if name == "request" else openai_messages(request)
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    positional.append(value)
                else:
                    keywords[name] = value
        return partial(self._function, *positional, **keywords)


def openai_messages(request: Request) -> list[JSONObject]:
    """Return the messages of a request as plain dicts in OpenAI's format."""
    body = msgspec.json.decode(codec("openai_chat").encode(request))
    return body["messages"]


async def _pieces(call: Callable[[], ModelOutput], is_async: bool) -> AsyncGenerator[list[ModelOutput], None]:
    """Yield the output of a model function of any kind, in batches."""
    if is_async:
        answer = call()
    else:
        deferred: list[ModelOutput] = []
        async with aclosing(iterate_in_thread(partial(_iterate_blocking, call, deferred))) as batches:
            async for batch in batches:
                yield batch
        if not deferred:
            return
        answer = deferred[0]
    if isinstance(answer, Awaitable):
        answer = await answer
    if not isinstance(answer, AsyncIterator):
        yield [answer]
        return
    try:
        async for piece in answer:
            yield [piece]
    finally:
        if isinstance(answer, AsyncGenerator):
            await answer.aclose()


def _iterate_blocking(
    call: Callable[[], ModelOutput], deferred: list[ModelOutput]
) -> Generator[ModelOutput, None, None]:
    """Yield the output of a function that may block. Runs in a thread, so an awaitable result goes to `deferred`."""
    answer = call()
    if isinstance(answer, Iterator):
        yield from answer
    elif isinstance(answer, Awaitable | AsyncIterator):
        # A plain function, such as a `lambda` or a decorated method, may return an awaitable.
        deferred.append(answer)
    else:
        yield answer


def _event(piece: ModelOutput) -> Event:
    if isinstance(piece, str):
        return TextDelta(piece)
    if isinstance(piece, Event):
        return piece
    raise TypeError(f"a model function must return text, not a `{type(piece).__name__}`")


def _parameters(function: ModelFunction) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        # Some built-in functions have no signature.
        return {}


def _is_async(function: ModelFunction) -> bool:
    """Whether calling the function only returns an awaitable or asynchronous iterator, without blocking."""
    while isinstance(function, partial):
        function = function.func
    candidates = (function, type(function).__call__)
    return any(
        inspect.iscoroutinefunction(candidate) or inspect.isasyncgenfunction(candidate) for candidate in candidates
    )


#: Back-pressure: the thread waits while this many items are queued, so a fast source does not fill the memory.
MAX_QUEUED_ITEMS = 64

Item = TypeVar("Item")


async def iterate_in_thread(source: Callable[[], Generator[Item, None, None]]) -> AsyncGenerator[list[Item], None]:
    """Run the generator `source` in a new thread and yield its items in batches.

    Exceptions of the generator are raised here. Closing this iterator abandons the thread, which then ends at its next
    item or with the process. The event loop's thread pool is not used, because a few slow models would block
    everything else in the pool, and a loop that closes waits for its pool.
    """
    queue = _ThreadQueue[Item](asyncio.get_running_loop())
    work = copy_context().run
    threading.Thread(target=work, args=(queue.work, source), name="toolspeak-model", daemon=True).start()
    try:
        while True:
            items, ended = await queue.take()
            if items:
                yield items
            if ended:
                break
        if queue.error is not None:
            raise queue.error
    finally:
        queue.stop()


class _ThreadQueue(Generic[Item]):
    """A bounded queue from a thread to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.error: BaseException | None = None
        self._loop = loop
        self._items: deque[Item] = deque()
        self._room = threading.Semaphore(MAX_QUEUED_ITEMS)
        self._wakeup = asyncio.Event()
        self._ended = False
        self._stopped = False

    async def take(self) -> tuple[list[Item], bool]:
        """Wait for items. Returns all queued items, and whether the source has ended."""
        await self._wakeup.wait()
        self._wakeup.clear()
        # Read `_ended` before the items: whatever arrives later sets the event again.
        ended = self._ended
        items = [self._items.popleft() for _ in range(len(self._items))]
        if items:
            self._room.release(len(items))
        return items, ended

    def stop(self) -> None:
        """Make the thread stop at its next item."""
        self._stopped = True
        self._room.release()

    def work(self, source: Callable[[], Generator[Item, None, None]]) -> None:
        """Put every item of `source` into the queue. Runs in the thread."""
        try:
            with closing(source()) as items:
                for item in items:
                    self._room.acquire()
                    if self._stopped:
                        break
                    self._items.append(item)
                    self._notify()
        except BaseException as error:
            # Catch even SystemExit, which would only end the thread and leave its reader waiting.
            self.error = error
        self._ended = True
        self._notify()

    def _notify(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._wakeup.set)
        except RuntimeError:
            # The loop is closed, so the items have no reader.
            self._stopped = True
