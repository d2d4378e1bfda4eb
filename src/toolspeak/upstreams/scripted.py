"""`Scripted`: a test double for upstreams, which plays prepared turns.

It is deterministic and uses neither network nor clock: the same script always gives the same batches. It is part of the
public API, so applications can use it in their own tests.
"""

import inspect
import random
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TypeAlias, TypeVar

import msgspec

from ..core.events import CallArgs, CallEnd, CallStart, Event, FinishReason, ReasoningDelta, TextDelta
from ..core.types import Request, ToolCall, Usage
from ..errors import UsageError
from .base import Batches, ReplyCompleter, normalize_failures
from .codecs import codec

#: Default token usage of a turn. Round numbers are easy to spot in a sum.
USAGE = Usage(input_tokens=10, output_tokens=5)

#: How deeply functions that return functions may be nested.
_MAX_NESTED_FUNCTIONS = 8


class Randomly(msgspec.Struct, frozen=True):
    """Cuts a turn into pieces of random size, up to `most`. The same seed gives the same sizes."""

    seed: int
    most: int = 16


#: How to cut a turn into pieces: None for no cuts, one size for all pieces, a list of sizes (plus the rest), or random.
Chunk: TypeAlias = int | Sequence[int] | Randomly | None


class Turn(msgspec.Struct, frozen=True):
    """A scripted turn: its content, and optional settings."""

    content: "Script"
    finish: FinishReason | None = None
    usage: Usage | None = None
    #: How to cut this turn. None means as set for the `Scripted` upstream.
    chunk: Chunk = None
    #: For captured bytes: their protocol, and whether they are a stream. None means detect it.
    protocol: str = "openai_chat"
    stream: bool | None = None


#: The content of a turn: text, events, the captured bytes of a reply, an exception to raise, an asynchronous source of
#: batches (for tests that control timing), or a plain or `async` function of the request that returns one of these.
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
    """An upstream that plays one of `turns` per request. With `again`, the last turn is repeated forever.

    `requests` lists the received requests. `cancelled` lists the indexes of turns that were closed early.
    """

    def __init__(
        self, *turns: Script, chunk: Chunk = None, again: bool = False, provider: str = "scripted", base_url: str = ""
    ) -> None:
        self.provider = provider
        self.base_url = base_url
        self.requests: list[Request] = []
        self.cancelled: list[int] = []
        self._turns = turns
        self._chunk = chunk
        self._again = again

    def open(self, request: Request) -> Batches:
        return normalize_failures(self._play(request))

    async def close(self) -> None:
        """Do nothing: no resources are used."""

    async def _play(self, request: Request) -> Batches:
        at = len(self.requests)
        self.requests.append(request)
        ended = False
        try:
            turn = await _resolve(self._turn(at), request)
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
        message = f"the script has {len(self._turns)} turns, but turn {at + 1} was requested"
        hint = "add turns, or set `again=True` to repeat the last one; `requests` lists the requests so far"
        raise UsageError(message, hint=hint)


def calls(*tool_calls: ToolCall) -> list[Event]:
    """Return the events of native tool calls. Calls without an id get `call_0`, `call_1` and so on."""
    events: list[Event] = []
    for index, call in enumerate(tool_calls):
        arguments = msgspec.json.encode(call.arguments).decode()
        events += CallStart(index, call.name, call.id or f"call_{index}"), CallArgs(index, arguments), CallEnd(index)
    return events


async def _resolve(script: Script, request: Request) -> Turn:
    """Resolve a script to a `Turn`. If the script is an exception, raise it."""
    outer = Turn("")
    for _ in range(_MAX_NESTED_FUNCTIONS):
        if isinstance(script, Turn):
            outer, script = script, script.content
        elif isinstance(script, BaseException):
            raise script
        elif callable(script):
            result = script(request)
            script = await result if inspect.isawaitable(result) else result
        else:
            return msgspec.structs.replace(outer, content=script)
    raise UsageError("a scripted function returns functions too many times", hint="return the content of the turn")


async def _batches(turn: Turn, chunk: Chunk) -> Batches:
    completer = ReplyCompleter(turn.finish, turn.usage or USAGE)
    async with aclosing(_pieces(turn, chunk)) as batches:
        async for batch in batches:
            completer.see(batch)
            yield batch
    if not isinstance(turn.content, bytes):  # captured bytes are replayed unchanged
        yield completer.missing()


async def _pieces(turn: Turn, chunk: Chunk) -> Batches:
    match turn.content:
        case bytes() as capture:
            decoder = codec(turn.protocol).decoder(capture.lstrip()[:1] != b"{" if turn.stream is None else turn.stream)
            for piece in _cut(capture, chunk):
                yield decoder.feed(piece)
            yield decoder.close()
        case str() as text:
            for piece in _cut(text, chunk):
                yield [TextDelta(piece)]
        case AsyncIterable() as source:
            try:
                async for batch in source:
                    yield list(batch)
            finally:
                if isinstance(source, AsyncGenerator):
                    await source.aclose()
        case Sequence() as events:
            for piece in (piece for event in events for piece in _cut_event(event, chunk)):
                yield [piece]
        case _:
            raise UsageError(f"invalid turn: `{type(turn.content).__name__}`")


def _cut_event(event: Event, chunk: Chunk) -> list[Event]:
    """Cut an event into smaller events, as they would arrive in a stream."""
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
    pieces: list[_Cuttable] = []
    at = 0
    for size in _sizes(chunk, len(whole)):
        pieces.append(whole[at : at + size])
        at += size
    return [piece for piece in [*pieces, whole[at:]] if piece]


def _sizes(chunk: Chunk, length: int) -> Iterator[int]:
    """Yield the sizes of the pieces. The remainder becomes the last piece."""
    match chunk:
        case None:
            return
        case int():
            yield from [_positive(chunk)] * (length // chunk)
        case Randomly(seed, most):
            rng = random.Random(seed)
            remaining = length
            while remaining > 0:
                size = rng.randint(1, _positive(most))
                remaining -= size
                yield size
        case _:
            yield from map(_positive, chunk)


def _positive(size: int) -> int:
    if size < 1:
        raise UsageError(f"the size of a piece must be at least 1, not {size}")
    return size
