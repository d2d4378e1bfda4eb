"""A Python function as a model.

`messages -> text`, also as an `async` function, a generator or an asynchronous generator of pieces of text.
A function that may block runs in a thread of its own, so that it blocks nobody else. What the function raises becomes an `UpstreamError` whose cause it is.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TypeAlias

import msgspec

from ..core.events import Event, TextDelta
from ..core.types import JSONObject, JSONValue, Request
from ..errors import UpstreamError, UpstreamTimeout, UsageError
from .base import Batches, Ending, settled, shorten
from .codecs import codec
from .threads import drained

#: What a function may give: text, or events where it knows more than text (calls of its own, reasoning, usage).
Piece: TypeAlias = str | Event
Answer: TypeAlias = Piece | Iterator[Piece] | AsyncIterator[Piece] | Awaitable[Piece | AsyncIterator[Piece]]
#: It is given `messages`, or `request`, or both, by what its parameters are called.
ModelFunction: TypeAlias = Callable[..., Answer]


class FunctionUpstream:
    """A model made of `function`.

    Closing an answer cancels an `async` function where it waits, and a generator at its next piece. A plain
    function cannot be interrupted: its thread is let go, and what it returns is dropped.
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
        """Call the function."""
        return settled(self._answer(request))

    async def close(self) -> None:
        """Nothing is held between requests."""

    async def _answer(self, request: Request) -> Batches:
        call = self._call(request)
        ending = Ending()
        try:
            async with aclosing(_pieces(call, self._async)) as pieces:
                async for batch in pieces:
                    events = [_event(piece) for piece in batch if piece != ""]
                    ending.see(events)
                    yield events
        except UpstreamError:
            raise
        except (Exception, SystemExit) as error:
            kind = UpstreamTimeout if isinstance(error, TimeoutError) else UpstreamError
            said = shorten(f"{type(error).__name__}: {error}")
            raise kind(f"the model function `{self.name}` raised {said}") from error
        yield ending.missing()

    def _call(self, request: Request) -> Callable[[], Answer]:
        """The call to make: by name where the function asks for `request`, else with the messages alone."""
        if "request" not in self._parameters:
            return partial(self._function, openai_messages(request))
        given: list[JSONValue] = []
        named: dict[str, JSONValue] = {}
        for name, parameter in self._parameters.items():
            if name in ("messages", "request"):
                value = request if name == "request" else openai_messages(request)
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    given.append(value)
                else:
                    named[name] = value
        return partial(self._function, *given, **named)


def openai_messages(request: Request) -> list[JSONObject]:
    """The messages of a request as plain dicts in OpenAI's shape."""
    body = msgspec.json.decode(codec("openai_chat").encode(request))
    return body["messages"]


async def _pieces(call: Callable[[], Answer], is_async: bool) -> AsyncGenerator[list[Answer], None]:
    """What a function gives, whatever kind of function it is."""
    if is_async:
        answer = call()
    else:
        later: list[Answer] = []
        async with aclosing(drained(partial(_iterated, call, later))) as batches:
            async for batch in batches:
                yield batch
        if not later:
            return
        answer = later[0]
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


def _iterated(call: Callable[[], Answer], later: list[Answer]) -> Generator[Answer, None, None]:
    """Run in a thread: the pieces of a function that blocks; `later` gets what the event loop has to wait for."""
    answer = call()
    if isinstance(answer, Iterator):
        yield from answer
    elif isinstance(answer, Awaitable | AsyncIterator):
        # A plain function may well return such a thing: a `lambda`, a method behind a decorator.
        later.append(answer)
    else:
        yield answer


def _event(piece: Answer) -> Event:
    if isinstance(piece, str):
        return TextDelta(piece)
    if isinstance(piece, Event):
        return piece
    raise TypeError(f"a model function gives text, not a `{type(piece).__name__}`")


def _parameters(function: ModelFunction) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        # Some built-in functions tell nothing about themselves.
        return {}


def _is_async(function: ModelFunction) -> bool:
    """Whether calling it only makes something to wait for, and so blocks nobody."""
    while isinstance(function, partial):
        function = function.func
    bodies = (function, type(function).__call__)
    return any(inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body) for body in bodies)
