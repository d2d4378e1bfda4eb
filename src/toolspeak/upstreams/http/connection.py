"""One connection to a service: requests out, responses in, one at a time, for as long as both sides keep it. Bytes are decoded where they
arrive and wait until they are read; when too many wait, reading from the network stops. One timer serves the whole
life of a connection: a deadline that moves away costs one assignment, and the timer finds out when it fires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from ...errors import UpstreamError, UpstreamTimeout
from .response import Response

#: Bytes of a body that may wait to be read; then the service is made to wait.
MOST_WAITING = 256 * 1024
#: Larger requests are written piece by piece, so that a service that refuses one is heard before it has been sent.
WRITTEN_AT_ONCE = 64 * 1024
#: Seconds that an unused connection is kept. Many services close theirs after a minute.
KEEP = 30.0
#: Once the last word has been read, a response may take so many seconds and bytes to end; else the connection is not
#: worth keeping.
DRAIN = 0.5
MOST_DRAINED = 16 * 1024

_NEVER = float("inf")


class Timeouts(msgspec.Struct, frozen=True):
    """How long to wait, in seconds."""

    #: For a connection, the name and TLS included. A host that is there answers within a second.
    connect: float = 10.0
    #: For the first byte of the reply. Long, since a reply that is not streamed comes only when it is complete.
    first_byte: float = 600.0
    #: Between two reads of a reply.
    idle: float = 60.0
    #: For everything together, waiting before a retry included.
    total: float = 3600.0


class Cut(UpstreamError):
    """The connection ended before the reply did."""

    kind = "truncated"


class Connection(asyncio.Protocol):
    """Made by a pool, which is told when the connection may be used again (`keep`) and when it is gone (`lost`)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeouts: Timeouts,
        keep: Callable[[Connection], None],
        lost: Callable[[Connection], None],
    ) -> None:
        self.response = Response()
        #: A byte of the present response has come.
        self.heard = False
        self.gone = False
        self._loop = loop
        self._timeouts = timeouts
        self._keep = keep
        self._lost = lost
        self._transport = cast("asyncio.Transport", None)
        self._busy = False
        self._begun = False
        self._draining = False
        self._drained = 0
        self._error: UpstreamError | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._paused = False
        self._unsent: memoryview | None = None
        self._may_write = True
        self._waiter: asyncio.Future[None] | None = None
        self._farewell: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._armed = self._deadline = self._end = _NEVER

    # ------------------------------------------------------------------------------------ what its user calls

    @property
    def usable(self) -> bool:
        """Whether a request may be sent."""
        return not (self.gone or self._busy or self._transport.is_closing())

    @property
    def status(self) -> int:
        """The status of the response; 0 before it is known."""
        return self.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response, by lower-case name."""
        return self.response.headers

    def header(self, name: bytes) -> str:
        """One header of the response, by lower-case name."""
        return self.response.header(name)

    def start(self, head: bytes, payload: bytes, end: float) -> None:
        """Send a request; everything must be over at `end`, by the clock of the loop."""
        self.response.restart()
        self._busy = True
        self._begun = self.heard = False
        self._end = end
        self._wait(self._timeouts.first_byte)
        if self._transport.is_closing():
            # uvloop refuses to write then; the end of the connection is told by `connection_lost`.
            return
        if len(payload) <= WRITTEN_AT_ONCE:
            self._transport.write(head + payload)
        else:
            self._transport.write(head)
            self._unsent = memoryview(payload)
            self._pump()

    async def read(self) -> bytes:
        """The next piece of the body; nothing at its end.

        Raises:
            UpstreamTimeout: it takes too long.
            Cut: the connection ended before.
            UpstreamError: what comes is not HTTP.
        """
        while not self._pieces:
            if self.response.complete:
                return b""
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            await self._waiter
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._size = 0
        if self._paused:
            self._wait(self._timeouts.idle)
            self._go_on()
        return body

    def finish(self) -> None:
        """The user has read what it wants to know; what is left of the response decides whether this is kept."""
        self._pieces.clear()
        self._size = 0
        if self._paused:
            self._go_on()
        if self.response.complete or self.gone:
            self._rest()
        else:
            self._draining = True
            self._drained = 0
            self._end = _NEVER
            self._wait(DRAIN)

    async def abandon(self) -> None:
        """End the connection, and the exchange on it; when this returns it has ended."""
        self.abort()
        if not self.gone:
            self._farewell = self._farewell or self._loop.create_future()
            await self._farewell

    def abort(self, error: UpstreamError | None = None) -> None:
        """End the connection; who is waiting for it is told `error`."""
        self._error = self._error or error
        self._unsent = None
        self._transport.abort()
        if error is not None:
            self._wake()

    # ---------------------------------------------------------------------------------- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """What one read of the network brought."""
        if not self._busy:
            # Nobody asked: whatever this is, it must not be taken for the answer to the next request.
            self.abort()
            return
        self.heard = True
        response = self.response
        body = response.feed(data)
        if self._draining:
            self._drain(len(data))
            return
        if body:
            self._begun = True
            self._pieces.append(body)
            self._size += len(body)
            if self._size > MOST_WAITING and not self._paused:
                self._paused = True
                self._transport.pause_reading()
            if not response.complete:
                self._wait(self._timeouts.idle)
            self._wake()
        elif response.complete:
            self._wake()
        if response.error is not None:
            self.abort(response.error)

    def eof_received(self) -> None:
        """The service will say nothing more."""
        self.response.end()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.gone = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._error is None and not self.response.end():
            said = "ended before the reply did" if exc is None else f"broke: {exc}"
            self._error = Cut(f"the connection {said}")
            self._error.__cause__ = exc
        self._unsent = None
        self._wake()
        if self._farewell is not None and not self._farewell.done():
            self._farewell.set_result(None)
        self._lost(self)

    def pause_writing(self) -> None:
        """The service takes no more for now."""
        self._may_write = False

    def resume_writing(self) -> None:
        """The service takes more."""
        self._may_write = True
        self._pump()

    # --------------------------------------------------------------------------------------------- inside

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _go_on(self) -> None:
        """Let the service send again."""
        self._paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _pump(self) -> None:
        """Write what is left of a large request, as fast as the service takes it, until it answers.

        An informational response, `100 Continue` say, is no answer.
        """
        while self._unsent and self._may_write and not self.response.status and not self._transport.is_closing():
            piece, self._unsent = self._unsent[:WRITTEN_AT_ONCE], self._unsent[WRITTEN_AT_ONCE:]
            self._transport.write(piece)

    def _drain(self, size: int) -> None:
        self._drained += size
        if self.response.complete:
            self._rest()
        elif self._drained > MOST_DRAINED or self.response.error is not None:
            self.abort()

    def _rest(self) -> None:
        """No exchange is under way any more."""
        self._busy = self._draining = False
        if self.gone:
            return
        transport = self._transport
        sent = not self._unsent and not transport.get_write_buffer_size()
        if self.response.reusable and sent and not transport.is_closing():
            self._end = _NEVER
            self._wait(KEEP)
            self._keep(self)
        else:
            self.abort()

    def _wait(self, seconds: float) -> None:
        """From now on, so many seconds may pass until the next call of this."""
        when = self._loop.time() + seconds
        self._deadline = when if when < self._end else self._end
        if self._deadline < self._armed:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = self._deadline
        self._timer = self._loop.call_at(self._armed, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._armed = _NEVER
        now = self._loop.time()
        if now < self._deadline:
            self._arm()
        elif self._busy and not self._draining:
            if self._pieces and now < self._end:
                # The reader is slow, not the service.
                self._wait(self._timeouts.idle)
            else:
                self.abort(self._late(now))
        else:
            self.abort()

    def _late(self, now: float) -> UpstreamTimeout:
        times = self._timeouts
        if now >= self._end:
            return UpstreamTimeout(f"the reply took longer than {times.total:g} s")
        if self._begun:
            return UpstreamTimeout(f"no further byte of the reply within {times.idle:g} s")
        return UpstreamTimeout(f"no first byte of a reply within {times.first_byte:g} s")
