"""A model that plays prepared turns: the test double for everything that asks an upstream.

No network, no clock, no chance: the same script gives the same batches. Part of the public API, so that
programs built on toolspeak can be tested the way toolspeak is.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TypeAlias, TypeVar

import msgspec

from ..core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
)
from ..core.types import Request, ToolCall, Usage
from ..errors import UsageError
from .base import Batches, Ending, settled
from .codecs import codec

#: What a turn costs unless it says otherwise: round numbers, easy to see in a sum.
USAGE = Usage(input_tokens=10, output_tokens=5)

#: A script whose functions return functions has to end somewhere.
_MOST_FUNCTIONS = 8


class Randomly(msgspec.Struct, frozen=True):
    """Pieces of random size, the same for the same seed."""

    seed: int
    most: int = 16


#: How a turn is cut: not at all, into pieces of one size, into pieces of these sizes and the rest, at random.
Chunk: TypeAlias = int | Sequence[int] | Randomly | None


class Turn(msgspec.Struct, frozen=True):
    """A turn with more to say about it than its content."""

    content: Script
    finish: FinishReason | None = None
    usage: Usage | None = None
    #: How to cut this turn; without it, as its script says.
    chunk: Chunk = None
    #: The protocol of a capture of the wire, and whether it is a stream; without the latter, it is looked at.
    protocol: str = "openai_chat"
    stream: bool | None = None


#: What a turn may be: text; events; a capture of the wire; what goes wrong; a source of batches, for tests that
#: decide when something comes; or a function, also an `async` one, that answers the request with one of these.
Script: TypeAlias = (
    str
    | bytes
    | Sequence[Event]
    | BaseException
    | AsyncIterable[Sequence[Event]]
    | Turn
    | Callable[[Request], "Script | Awaitable[Script]"]
)


class Scripted:
    """Plays `turns`, one for each request; with `again`, the last one for ever.

    `requests` holds what was asked, `cancelled` the positions of the turns that were closed before their end.
    """

    def __init__(
        self,
        *turns: Script,
        chunk: Chunk = None,
        again: bool = False,
        provider: str = "scripted",
        base_url: str = "",
    ) -> None:
        self.provider = provider
        self.base_url = base_url
        self.requests: list[Request] = []
        self.cancelled: list[int] = []
        self._turns = turns
        self._chunk = chunk
        self._again = again

    def open(self, request: Request) -> Batches:
        """The next turn."""
        return settled(self._play(request))

    async def close(self) -> None:
        """Nothing is held."""

    async def _play(self, request: Request) -> Batches:
        at = len(self.requests)
        self.requests.append(request)
        ended = False
        try:
            turn = await _answer(self._turn(at), request)
            chunk = self._chunk if turn.chunk is None else turn.chunk
            async with aclosing(_batches(turn, chunk)) as batches:
                async for batch in batches:
                    yield batch
            ended = True
        except Exception:
            ended = True
            raise
        finally:
            if not ended:
                self.cancelled.append(at)

    def _turn(self, at: int) -> Script:
        if at < len(self._turns):
            return self._turns[at]
        if self._again and self._turns:
            return self._turns[-1]
        raise UsageError(
            f"the script has {len(self._turns)} turns and was asked for turn {at + 1}",
            hint="`requests` holds what was asked; give it more turns, or `again=True` to repeat the last",
        )


def calls(*made: ToolCall) -> list[Event]:
    """The events of native calls. A call without an id gets `call_0`, `call_1` ..."""
    events: list[Event] = []
    for index, call in enumerate(made):
        arguments = msgspec.json.encode(call.arguments).decode()
        events += CallStart(index, call.name, call.id or f"call_{index}"), CallArgs(index, arguments), CallEnd(index)
    return events


async def _answer(script: Script, request: Request) -> Turn:
    """The turn that a script means for this request."""
    outer = Turn("")
    for _ in range(_MOST_FUNCTIONS):
        if isinstance(script, Turn):
            outer, script = script, script.content
        elif isinstance(script, BaseException):
            raise script
        elif callable(script):
            given = script(request)
            script = await given if inspect.isawaitable(given) else given
        else:
            return msgspec.structs.replace(outer, content=script)
    raise UsageError("a turn is a function that returns nothing but functions")


async def _batches(turn: Turn, chunk: Chunk) -> Batches:
    """A turn as the reads that bring it."""
    match turn.content:
        case bytes() as capture:
            # What the wire said stands as it is: nothing is added.
            for batch in _decoded(capture, turn, chunk):
                yield batch
        case str() as text:
            for batch in _complete(turn, [[TextDelta(piece)] for piece in _cut(text, chunk)]):
                yield batch
        case AsyncIterable() as source:
            async with aclosing(_awaited(turn, source)) as batches:
                async for batch in batches:
                    yield batch
        case Sequence() as events:
            for batch in _complete(turn, [[piece] for event in events for piece in _cut_event(event, chunk)]):
                yield batch
        case _:
            raise UsageError(f"a turn cannot be a `{type(turn.content).__name__}`")


def _decoded(capture: bytes, turn: Turn, chunk: Chunk) -> Iterator[list[Event]]:
    stream = capture.lstrip()[:1] != b"{" if turn.stream is None else turn.stream
    decoder = codec(turn.protocol).decoder(stream)
    for piece in _cut(capture, chunk):
        yield decoder.feed(piece)
    yield decoder.close()


async def _awaited(turn: Turn, source: AsyncIterable[Sequence[Event]]) -> Batches:
    """Batches as they come, and what they lack."""
    ending = Ending(turn.finish, turn.usage or USAGE)
    try:
        async for batch in source:
            ending.see(batch)
            yield list(batch)
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
    yield ending.missing()


def _complete(turn: Turn, batches: list[list[Event]]) -> Iterator[list[Event]]:
    """Prepared batches, and what they lack."""
    ending = Ending(turn.finish, turn.usage or USAGE)
    for batch in batches:
        ending.see(batch)
        yield batch
    yield ending.missing()


def _cut_event(event: Event, chunk: Chunk) -> list[Event]:
    """An event as the pieces that a stream would bring it in."""
    match event:
        case TextDelta(text):
            return [TextDelta(piece) for piece in _cut(text, chunk)]
        case ReasoningDelta(text):
            return [ReasoningDelta(piece) for piece in _cut(text, chunk)]
        case CallArgs(index, fragment):
            return [CallArgs(index, piece) for piece in _cut(fragment, chunk)]
        case _:
            return [event]


_Cuttable = TypeVar("_Cuttable", str, bytes)


def _cut(whole: _Cuttable, chunk: Chunk) -> list[_Cuttable]:
    """`whole` in pieces, none of them empty."""
    pieces: list[_Cuttable] = []
    at = 0
    for size in _sizes(chunk, len(whole)):
        pieces.append(whole[at : at + size])
        at += size
    return [piece for piece in [*pieces, whole[at:]] if piece]


def _sizes(chunk: Chunk, length: int) -> Iterator[int]:
    """The sizes of the pieces; what they leave over is the last piece."""
    match chunk:
        case None:
            return
        case int():
            yield from [_positive(chunk)] * (length // chunk)
        case Randomly(seed, most):
            rng = random.Random(seed)
            left = length
            while left > 0:
                size = rng.randint(1, _positive(most))
                left -= size
                yield size
        case _:
            yield from map(_positive, chunk)


def _positive(size: int) -> int:
    if size < 1:
        raise UsageError(f"a piece cannot have {size} characters")
    return size
