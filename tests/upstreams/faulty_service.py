"""A loopback service that misbehaves on purpose, in the same way for the same seed.

An answer is a list of steps: bytes to send, and things that go wrong. `FAULTS` names every way to spoil an answer and
what must come of it; `Chaos` plays them over kept connections, in an order that a seed decides or a test says.
Nothing here waits for a clock: a delay is some turns of the loop, a stall lasts until the client has gone.
"""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import TypeAlias

import msgspec

from tests.upstreams.loopback_server import chunked, cut, head


class Do(Enum):
    """What a service may do besides sending bytes."""

    #: Let the client run for some turns of the loop.
    WAIT = auto()
    #: Say nothing more, until the client has gone.
    STALL = auto()
    #: Drop the connection, so that the client's side breaks.
    RESET = auto()
    #: Close this side, in order.
    CLOSE = auto()
    #: Say that nothing more comes, but go on listening.
    HALF_CLOSE = auto()


Step: TypeAlias = bytes | Do
Steps: TypeAlias = Sequence[Step]

_ENDS = (Do.STALL, Do.RESET, Do.CLOSE, Do.HALF_CLOSE)


# ------------------------------------------------------------------------------------------ a good answer


def chunk(delta: dict[str, object], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def error_event(message: str = "overloaded", code: int = 529) -> bytes:
    return b"data: " + msgspec.json.encode({"error": {"message": message, "code": code}}) + b"\n\n"


PIECES = ("Grüße", " aus", " Köln", " \N{CLOUD WITH RAIN}", " line\u2028end\x85")
TEXT = "".join(PIECES)
EVENTS = (*(chunk({"content": piece}) for piece in PIECES), chunk({}, "stop"), b"data: [DONE]\n\n")
BODY = b"".join(EVENTS)
TYPE = "Content-Type: text/event-stream"
CHUNKED = head(TYPE, "Transfer-Encoding: chunked")
GOOD = CHUNKED + chunked(EVENTS)
JSON = "Content-Type: application/json"


#: An answer that must never be taken for one.
EVIL_TEXT = "evil"


def by_length(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    return head(*(headers or (TYPE,)), f"Content-Length: {len(body)}", status=status) + body


EVIL = by_length(chunk({"content": EVIL_TEXT}, "stop"))


def deflated(data: bytes, window: int = zlib.MAX_WBITS) -> bytes:
    packer = zlib.compressobj(wbits=window)
    return packer.compress(data) + packer.flush()


def anywhere(dice: random.Random, data: bytes, cuts: int = 8) -> list[Step]:
    """The bytes, cut at random places, with a wait here and there."""
    places = sorted(dice.randrange(len(data) + 1) for _ in range(cuts))
    steps: list[Step] = []
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        if start < end:
            steps.append(data[start:end])
        if dice.random() < 0.3:
            steps.append(Do.WAIT)
    return steps


# ------------------------------------------------------------------------------------------------ faults


class Fault(msgspec.Struct, frozen=True):
    """A way to answer, and what must come of it.

    `outcome` is `whole` (the text, complete), `failed` (the beginning of the text, then a failure) or `raised`.
    """

    name: str
    outcome: str
    steps: Callable[[random.Random], Steps]


_FAULTS: list[Fault] = []


def _fault(outcome: str, name: str, steps: Callable[[random.Random], Steps]) -> None:
    _FAULTS.append(Fault(name, outcome, steps))


def _sent(outcome: str, name: str, data: bytes, *after: Step) -> None:
    """Bytes that are cut anywhere."""
    _fault(outcome, name, lambda dice: [*anywhere(dice, data), *after])


def _early(dice: random.Random, end: Do) -> Steps:
    """An end in the middle of the text: behind its first event, before its last."""
    least, most = GOOD.index(EVENTS[0]) + len(EVENTS[0]), GOOD.index(EVENTS[-2])
    return [*anywhere(dice, GOOD[: dice.randrange(least, most)]), Do.WAIT, Do.WAIT, end]


def _status(status: str, *headers: str) -> bytes:
    return by_length(b'{"error":{"message":"no"}}', JSON, *headers, status=status)


_sent("whole", "as it should be", GOOD)
_fault("whole", "byte by byte", lambda dice: cut(GOOD, 1))
_fault("whole", "cut everywhere and late", lambda dice: [step for piece in cut(GOOD, 7) for step in (piece, Do.WAIT)])
_sent("whole", "by length", by_length(BODY))
_sent("whole", "to the end", head(TYPE) + BODY, Do.CLOSE)
_sent("whole", "to the half-close", head(TYPE) + BODY, Do.HALF_CLOSE)
_sent("whole", "after hints", head(status="100 Continue") + head("Link: </x>", status="103 Early Hints") + GOOD)
_sent("whole", "with trailers", CHUNKED + chunked(EVENTS, last=False) + b"0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n")
_sent("whole", "with extensions", CHUNKED + b"%x;a=b;c\r\n%b\r\n0;d\r\n\r\n" % (len(BODY), BODY))
_sent("whole", "odd headers", head("X-Empty:", "X-Latin: \xe4\xf6", "CONTENT-TYPE:text/event-stream ") + BODY, Do.CLOSE)
_sent("whole", "many headers", head(TYPE, *(f"X-{n}: {n}" for n in range(500)), f"Content-Length: {len(BODY)}") + BODY)
_sent("whole", "close announced", head(TYPE, "Connection: close", f"Content-Length: {len(BODY)}") + BODY, Do.CLOSE)
_sent("whole", "old", b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + BODY, Do.CLOSE)
_sent("whole", "gzip", by_length(gzip.compress(BODY, mtime=0), TYPE, "Content-Encoding: gzip"))
_sent(
    "whole",
    "gzip in two members",
    by_length(gzip.compress(BODY[:99], mtime=0) + gzip.compress(BODY[99:]), TYPE, "Content-Encoding: x-gzip"),
)
_sent("whole", "deflate", by_length(deflated(BODY), TYPE, "Content-Encoding: deflate"))
_sent("whole", "deflate, raw", by_length(deflated(BODY, -15), TYPE, "Content-Encoding: Deflate"))
_sent("whole", "byte order mark", by_length(b"\xef\xbb\xbf" + BODY))
_sent("whole", "CRLF", by_length(BODY.replace(b"\n", b"\r\n")))
_sent("whole", "CR", by_length(BODY.replace(b"\n", b"\r")))
_sent("whole", "comments", by_length(b": hello\n\nretry: 5\n\n" + BODY.replace(b"data: ", b": ping\nid: 7\ndata:")))
_sent("whole", "several lines", by_length(BODY.replace(b',"choices"', b'\ndata: ,"choices"')))
_sent("whole", "the last blank line forgotten", by_length(BODY.removesuffix(b"\n\n")))
_sent("whole", "no [DONE]", by_length(b"".join(EVENTS[:-1])))
_sent("whole", "one event of garbage", by_length(EVENTS[0] + b"data: {nonsense\n\n" + b"".join(EVENTS[1:])))
_sent("whole", "cut behind the last word", CHUNKED + chunked(EVENTS, last=False), Do.CLOSE)
_sent("whole", "stalled behind the last word", CHUNKED + chunked(EVENTS, last=False), Do.STALL)
_sent("whole", "reset behind the end", GOOD, Do.WAIT, Do.RESET)
_sent("whole", "closed behind the end", GOOD, Do.CLOSE)
# In one piece: what comes later than that may come behind the next request, and then nobody can tell.
_fault("whole", "garbage behind the end", lambda dice: [GOOD + b"\x00garbage"])
_fault("whole", "a second answer behind the first", lambda dice: [GOOD + EVIL])

_fault("failed", "reset in the middle", lambda dice: _early(dice, Do.RESET))
_fault("failed", "closed in the middle", lambda dice: _early(dice, Do.CLOSE))
_fault("failed", "half-closed in the middle", lambda dice: _early(dice, Do.HALF_CLOSE))
_fault("failed", "stalled in the middle", lambda dice: _early(dice, Do.STALL))
_sent("failed", "garbage in the middle", CHUNKED + chunked(EVENTS[:2], last=False) + b"\xff\x00zz\r\n")
_sent("failed", "an error in the middle", by_length(EVENTS[0] + error_event() + EVENTS[1]))
_sent("failed", "to the end, too early", head(TYPE) + EVENTS[0] + EVENTS[1], Do.CLOSE)
_sent("failed", "a wrong length", head(TYPE, "Content-Length: 99999") + EVENTS[0] + EVENTS[1], Do.CLOSE)
_sent("failed", "[DONE] without a reason", by_length(EVENTS[0] + EVENTS[-1]))

_fault("raised", "closed at once", lambda dice: [Do.CLOSE])
_fault("raised", "reset at once", lambda dice: [Do.RESET])
_fault("raised", "stalled at once", lambda dice: [Do.STALL])
_fault(
    "raised", "stalled in the head", lambda dice: [*anywhere(dice, CHUNKED[: dice.randrange(len(CHUNKED))]), Do.STALL]
)
_fault("raised", "garbage", lambda dice: [dice.randbytes(200), Do.CLOSE])
_sent("raised", "another protocol", b"SSH-2.0-OpenSSH_9\r\n")
_sent("raised", "a head without end", b"HTTP/1.1 200 OK\r\n" + b"X-Filler: 0123456789\r\n" * 4000)
_sent("raised", "two lengths", head(TYPE, "Content-Length: 5", "Content-Length: 6") + b"hello")
_sent("raised", "length and chunks", head(TYPE, "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n")
_sent("raised", "a web page", by_length(b"<html>Sign in</html>", "Content-Type: text/html"))
_sent("raised", "nothing", by_length(b""))
_sent("raised", "no content", head(status="204 No Content"))
_sent("raised", "an error with a good status", by_length(b'{"error":{"message":"no"}}', JSON))
_sent("raised", "an error first", by_length(error_event() + BODY))
_sent("raised", "a cut body", head(JSON, "Content-Length: 999") + b'{"choices":[', Do.CLOSE)
_sent("raised", "gzip that is none", by_length(BODY, TYPE, "Content-Encoding: gzip"))
_sent(
    "raised", "a bomb", by_length(gzip.compress(b": " + b"ping" * 3_000_000, mtime=0), TYPE, "Content-Encoding: gzip")
)
_sent("raised", "brotli", by_length(b"\x8b\x02\x80hello\x03", TYPE, "Content-Encoding: br"))
_sent("raised", "gzip in secret", by_length(gzip.compress(BODY, mtime=0)))
_sent("raised", "moved", head("Location: http://127.0.0.1:1/", "Content-Length: 0", status="302 Found"))
_sent("raised", "upgraded", head("Upgrade: h2c", "Connection: upgrade", status="101 Switching Protocols"))
for _code in ("400 Bad Request", "401 Unauthorized", "404 Not Found", "429 Too Many Requests", "503 Unavailable"):
    _sent("raised", _code, _status(_code))

#: By name.
FAULTS = {fault.name: fault for fault in _FAULTS}


# ------------------------------------------------------------------------------------------------ server

#: Which answer the request of this number gets.
Choose: TypeAlias = Callable[[int], Steps]


class Chaos:
    """Plays the steps that `choose` names, over connections that it keeps where the steps allow it."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self.port = 0
        #: Requests and connections so far, and connections that are open.
        self.requests = 0
        self.connections = 0
        self.open = 0
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        self.connections += 1
        self.open += 1
        try:
            # uvloop raises a RuntimeError for a connection that the client has closed.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError, RuntimeError):
                while await self._request(reader):
                    if not await self._play(reader, writer):
                        break
        finally:
            writer.transport.abort()
            self.open -= 1

    async def _request(self, reader: asyncio.StreamReader) -> bool:
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        (length,) = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")]
        await reader.readexactly(length)
        self.requests += 1
        return True

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Do the steps; gives whether the connection goes on."""
        for step in self._choose(self.requests - 1):
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            for _ in range(4 if step is Do.WAIT else 1):
                await asyncio.sleep(0)
            if step in _ENDS:
                await self._end(step, reader, writer)
                return False
        return True

    async def _end(self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if step is Do.RESET:
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        elif step is Do.CLOSE:
            writer.close()
            await writer.wait_closed()
        else:
            if step is Do.HALF_CLOSE:
                writer.write_eof()
            while await reader.read(65536):
                pass


@asynccontextmanager
async def misbehaving(choose: Choose) -> AsyncIterator[Chaos]:
    chaos = Chaos(choose)
    server = await asyncio.start_server(chaos.handle, "127.0.0.1", 0)
    chaos.port = server.sockets[0].getsockname()[1]
    try:
        yield chaos
    finally:
        server.close()
        for task in tuple(chaos.tasks):
            task.cancel()
        await asyncio.gather(*chaos.tasks, return_exceptions=True)
        await server.wait_closed()


def seeded(seed: int) -> tuple[Choose, Callable[[int], Fault]]:
    """Faults in an order that the seed decides: what to play, and which fault that was."""
    names = sorted(FAULTS)

    def fault(number: int) -> Fault:
        return FAULTS[random.Random(f"{seed} {number}").choice(names)]

    return lambda number: fault(number).steps(random.Random(f"{seed} {number} steps")), fault


def in_order(*answers: bytes | Steps | str, seed: int = 0) -> Choose:
    """These answers, one after the other, the last one for ever: bytes, steps, or the names of faults."""

    def choose(number: int) -> Steps:
        answer = answers[min(number, len(answers) - 1)]
        if isinstance(answer, bytes):
            return [answer]
        return FAULTS[answer].steps(random.Random(f"{seed} {number}")) if isinstance(answer, str) else answer

    return choose


def every(outcome: str) -> Iterable[str]:
    """The names of the faults with this outcome."""
    return [name for name, fault in FAULTS.items() if fault.outcome == outcome]
