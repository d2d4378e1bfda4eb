"""HTTP/1.1 connections: a response parser, a connection, and a connection pool.

A connection carries one request at a time. Received bytes are parsed at once and buffered until they are read. If too
many are buffered, reading from the socket pauses (back-pressure). Each connection has a single timer, which checks the
deadline only when it fires. This makes it cheap to move the deadline.
"""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import cast

import httptools
import msgspec

from ...core.text import system_reason
from ...errors import UpstreamError, UpstreamTimeout
from .address import BaseUrl

#: Maximum size of a response head (with preceding informational responses), of all trailers together, and of the data
#: between two pieces of a body. Common servers accept 8 to 64 KiB of headers.
MAX_HEAD_BYTES = 64 * 1024
#: Bytes in a header line in addition to name and value: colon, space and line end.
_HEADER_OVERHEAD = 4


class HttpResponse:
    """An incremental parser for the responses on one connection, without sockets or a clock."""

    __slots__ = tuple(
        "_body _feed _parser _trailers _without_body complete error raw_headers reusable started status".split()
    )

    def __init__(self) -> None:
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._feed = self._parser.feed_data
        self.restart()

    def restart(self) -> None:
        #: The status code; 0 until the head of the final response has arrived.
        self.status = 0
        #: Whether all headers of the final response have arrived.
        self.started = False
        #: Whether the response is complete.
        self.complete = False
        #: The error if the data is not a valid response or its head is too long. Bytes parsed before stay valid.
        self.error: UpstreamError | None = None
        #: Whether the response is complete and the connection can carry another one.
        self.reusable = False
        #: Headers by lower-case name.
        self.raw_headers: dict[bytes, bytes] = {}
        self._trailers = 0
        #: Number of bytes since the start, the end of the head, or the last piece of the body.
        self._without_body = 0

    @property
    def headers(self) -> dict[str, str]:
        """Headers by lower-case name. If a header is repeated, the last one wins, but content encodings are joined."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.raw_headers.items()}

    def header(self, name: bytes) -> str:
        return self.raw_headers.get(name, b"").decode("latin-1")

    def feed(self, data: bytes) -> bytes:
        """Parse received bytes and return those that belong to the body. Check `error` afterwards."""
        room = MAX_HEAD_BYTES - self._without_body
        if len(data) > room and not self.started:
            # Split the data at the size limit, so the result does not depend on how the network splits it.
            self._parse(data[:room])
            data = data[room:]
            if not self.started:
                self._too_long()
        self._parse(data)
        if self._without_body > MAX_HEAD_BYTES or self._trailers > MAX_HEAD_BYTES:
            self._too_long()
        pieces = self._body
        if not pieces:
            return b""
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return body

    def _parse(self, data: bytes) -> None:
        if self.error is not None:
            return
        self._without_body += len(data)
        try:
            self._feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.reusable = False
            # Bytes after a complete response are never parsed.
            if not self.complete and self.error is None:
                upgrade = isinstance(error, httptools.HttpParserUpgrade)
                self.error = UpstreamError(f"the response is not HTTP: {'another protocol' if upgrade else error}")

    def _too_long(self) -> None:
        self.error = self.error or UpstreamError(f"the response head is longer than {MAX_HEAD_BYTES} bytes")

    def end(self) -> bool:
        """Handle the end of the connection. Returns whether the response is complete."""
        framed = b"content-length" in self.raw_headers or b"transfer-encoding" in self.raw_headers
        self.reusable = False
        self.complete = self.complete or (self.started and not framed)
        return self.complete

    # Callbacks for the parser.

    def on_message_begin(self) -> None:
        """Do not reuse the connection if bytes follow a complete response, because they are unsolicited."""
        self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. Trailers are not stored, but count towards the size limit."""
        if not self.started:
            name = name.lower()
            if name == b"content-encoding" and name in self.raw_headers:
                value = self.raw_headers[name] + b", " + value
            self.raw_headers[name] = value
        elif not self.complete:
            self._trailers += len(name) + len(value) + _HEADER_OVERHEAD

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        status = self._parser.get_status_code()
        if status < 100:
            self.error = UpstreamError("the response is not HTTP: its status is below 100")
            raise self.error  # stops the parser
        if status < 200:
            # This is an informational response, and the final one follows.
            self.raw_headers.clear()
        else:
            self.status = status
            self.started = True
            self._without_body = 0

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self._without_body = 0
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self.started and not self.complete and self._trailers <= MAX_HEAD_BYTES:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()


#: If more body bytes than this are buffered, reading from the socket pauses.
MAX_BUFFERED_BYTES = 256 * 1024
#: Larger requests are written in pieces of this size, so an early rejection is noticed before everything is sent.
WRITE_CHUNK_BYTES = 64 * 1024
#: Seconds to keep an idle connection open. Many services close idle connections after a minute.
KEEP_ALIVE_SECONDS = 30.0
#: Limits for draining the rest of a response before the connection is reused. If one is exceeded, it is closed.
DRAIN_SECONDS = 0.5
MAX_DRAIN_BYTES = 16 * 1024

_NEVER = float("inf")


class Timeouts(msgspec.Struct, frozen=True):
    """Timeouts for one request, in seconds."""

    #: Time to connect, including name resolution and TLS.
    connect: float = 10.0
    #: Time until the first byte of the reply. Long, because a reply that is not streamed arrives only when complete.
    first_byte: float = 600.0
    #: Maximum time between two reads of a reply.
    idle: float = 60.0
    #: Time for the whole request and its reply, including retry delays.
    total: float = 3600.0


class TruncatedReply(UpstreamError):
    """The connection ended before the reply was complete."""

    kind = "truncated"


class HttpConnection(asyncio.Protocol):
    """One HTTP connection. Calls `keep` when it becomes idle, and `lost` when it has ended."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeouts: Timeouts,
        keep: "Callable[[HttpConnection], None]",
        lost: "Callable[[HttpConnection], None]",
    ) -> None:
        self.response = HttpResponse()
        #: Whether a byte of the current response has arrived.
        self.has_response_bytes = False
        self.disconnected = False
        #: Called instead of waking a reader, when bytes, the end or an error has arrived.
        self.on_ready: Callable[[], None] | None = None
        self._loop = loop
        self._timeouts = timeouts
        self._keep = keep
        self._lost = lost
        self._transport = cast("asyncio.Transport", None)
        self._busy = False
        self._body_started = False
        self._draining = False
        self._drained = 0
        self._error: UpstreamError | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._paused = False
        self._unsent: memoryview | None = None
        self._may_write = True
        self._waiter: asyncio.Future[None] | None = None
        self._end_waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = self._deadline = self._end = _NEVER

    # ---- for callers

    @property
    def usable(self) -> bool:
        return not (self.disconnected or self._busy or self._transport.is_closing())

    @property
    def status(self) -> int:
        """The status code of the response; 0 before it has arrived."""
        return self.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.response.headers

    def header(self, name: bytes) -> str:
        return self.response.header(name)

    def start(self, head: bytes, payload: bytes, end: float) -> None:
        """Send a request. Its response must be complete at `end` (event loop time)."""
        self.response.restart()
        self._busy = True
        self._body_started = self.has_response_bytes = False
        self._end = end
        self._set_deadline(self._timeouts.first_byte)
        if self._transport.is_closing():
            # uvloop cannot write to a closing transport. `connection_lost` reports the end later.
            return
        if len(payload) <= WRITE_CHUNK_BYTES:
            self._transport.write(head + payload)
        else:
            self._transport.write(head)
            self._unsent = memoryview(payload)
            self._write_rest()

    @property
    def failed(self) -> bool:
        """Whether the response ended with an error, after all bytes that `read_now` still returns."""
        return self._error is not None

    async def read(self) -> bytes:
        """Return the next piece of the body, or empty bytes at its end."""
        while not self._pieces:
            if self.response.complete:
                return b""
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            await self._waiter
        return self.read_now()

    @property
    def whole_body(self) -> bytes:
        """The body of a response that arrived in one piece; empty if it did not. It is still to be read."""
        pieces = self._pieces
        return pieces[0] if self.response.complete and len(pieces) == 1 else b""

    def read_now(self) -> bytes:
        """Return what has arrived of the body and was not yet read."""
        pieces = self._pieces
        if not pieces:
            return b""
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._size = 0
        if self._paused:
            self._set_deadline(self._timeouts.idle)
            self._resume_reading()
        return body

    def finish(self) -> None:
        """Finish with the current response: drain the rest of it, then reuse or close the connection."""
        self.on_ready = None
        self._pieces.clear()
        self._size = 0
        if self._paused:
            self._resume_reading()
        if self.response.complete or self.disconnected:
            self._release()
        else:
            self._draining = True
            self._drained = 0
            self._end = _NEVER
            self._set_deadline(DRAIN_SECONDS)

    async def abandon(self) -> None:
        """Close the connection and wait until it is closed."""
        self.abort()
        if not self.disconnected:
            self._end_waiter = self._end_waiter or self._loop.create_future()
            await self._end_waiter

    def abort(self, error: UpstreamError | None = None) -> None:
        """Close the connection at once. `error` is raised in a waiting reader."""
        self._error = self._error or error
        self._unsent = None
        self._transport.abort()
        if error is not None:
            self._wake()

    # ---- for the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            # Unsolicited data must not be mistaken for the response to the next request.
            self.abort()
            return
        self.has_response_bytes = True
        response = self.response
        body = response.feed(data)
        if self._draining:
            self._drain(len(data))
            return
        if body:
            self._body_started = True
            self._pieces.append(body)
            self._size += len(body)
            if self._size > MAX_BUFFERED_BYTES and not self._paused:
                self._paused = True
                self._transport.pause_reading()
            if not response.complete:
                self._set_deadline(self._timeouts.idle)
            self._wake()
        elif response.complete:
            self._wake()
        if response.error is not None:
            self.abort(response.error)

    def eof_received(self) -> None:
        self.response.end()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.disconnected = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._error is None and not self.response.end():
            reason = "ended before the reply was complete" if exc is None else f"broke: {exc}"
            self._error = TruncatedReply(f"the connection {reason}")
            self._error.__cause__ = exc
        self._unsent = None
        self._wake()
        if self._end_waiter is not None and not self._end_waiter.done():
            self._end_waiter.set_result(None)
        self._lost(self)

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._write_rest()

    # ---- internal

    def _wake(self) -> None:
        if self.on_ready is not None:
            self.on_ready()
            return
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _resume_reading(self) -> None:
        self._paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _write_rest(self) -> None:
        """Write the rest of a large request as fast as the service accepts it. Stops when a response arrives.

        Informational responses such as `100 Continue` do not count.
        """
        while self._unsent and self._may_write and not self.response.status and not self._transport.is_closing():
            piece, self._unsent = self._unsent[:WRITE_CHUNK_BYTES], self._unsent[WRITE_CHUNK_BYTES:]
            self._transport.write(piece)

    def _drain(self, size: int) -> None:
        self._drained += size
        if self.response.complete:
            self._release()
        elif self._drained > MAX_DRAIN_BYTES or self.response.error is not None:
            self.abort()

    def _release(self) -> None:
        """Return the connection to the pool, or close it if it cannot be reused."""
        self._busy = self._draining = False
        if self.disconnected:
            return
        transport = self._transport
        sent = not self._unsent and not transport.get_write_buffer_size()
        if self.response.reusable and sent and not transport.is_closing():
            self._end = _NEVER
            self._set_deadline(KEEP_ALIVE_SECONDS)
            self._keep(self)
        else:
            self.abort()

    def _set_deadline(self, seconds: float) -> None:
        when = self._loop.time() + seconds
        self._deadline = when if when < self._end else self._end
        if self._deadline < self._timer_at:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._timer_at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = _NEVER
        now = self._loop.time()
        if now < self._deadline:
            self._arm()
        elif self._busy and not self._draining:
            if self._pieces and now < self._end:
                # Data is waiting to be read, so the reader is slow and not the service.
                self._set_deadline(self._timeouts.idle)
            else:
                self.abort(self._timeout_error(now))
        else:
            self.abort()

    def _timeout_error(self, now: float) -> UpstreamTimeout:
        times = self._timeouts
        if now >= self._end:
            return UpstreamTimeout(f"the reply took longer than {times.total:g} s")
        if self._body_started:
            return UpstreamTimeout(f"no more bytes of the reply within {times.idle:g} s")
        return UpstreamTimeout(f"no first byte of the reply within {times.first_byte:g} s")


#: Maximum number of idle connections.
MAX_IDLE_CONNECTIONS = 256

_HTTP1_ALPN = ("http/1.1", None)


class ConnectionPool:
    """The connections to one service, for the event loop in which the pool is created.

    The most recently used connection is reused first, so surplus connections stay idle and are closed. The number of
    connections in use is not limited here.
    """

    #: Whether connections to an address are refused, whatever name led there.
    refuses: Callable[[str], bool] | None = None

    def __init__(self, where: BaseUrl, tls: ssl.SSLContext | None, timeouts: Timeouts) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = False
        self._where = where
        self._tls = tls
        self._timeouts = timeouts
        self._idle: list[HttpConnection] = []
        self._all: set[HttpConnection] = set()
        self._watch = self._until_the_loop_ends()

    def __len__(self) -> int:
        return len(self._all)

    @property
    def idle(self) -> int:
        return len(self._idle)

    def take(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def connect(self, end: float) -> HttpConnection:
        """Open a new connection. Raises UpstreamTimeout if that is not done before `end` (event loop time)."""
        where, seconds = self._where, self._timeouts.connect
        remaining = end - self.loop.time()
        make = partial(HttpConnection, self.loop, self._timeouts, self._keep, self._lost)
        try:
            async with asyncio.timeout(min(seconds, remaining)):
                transport, connection = await self.loop.create_connection(make, where.host, where.port, ssl=self._tls)
        except TimeoutError as error:
            if remaining < seconds:
                raise UpstreamTimeout(f"the reply took longer than {self._timeouts.total:g} s") from error
            message = f"no connection to `{where.authority}` within {seconds:g} s"
            raise UpstreamTimeout(message, should_retry=True) from error
        except (OSError, UnicodeError) as error:
            retry = not isinstance(error, ssl.SSLCertVerificationError | UnicodeError)
            raise UpstreamError(
                f"cannot connect to `{where.authority}`: {_reason(error)}", should_retry=retry
            ) from error
        if not connection.disconnected:
            self._all.add(connection)
        tls_object = transport.get_extra_info("ssl_object")
        if self.closed:
            await connection.abandon()
            raise UpstreamError("this upstream was closed", should_retry=False)
        if self.refuses is not None and self.refuses(transport.get_extra_info("peername")[0]):
            await connection.abandon()
            raise UpstreamError(f"the address of `{where.authority}` is not allowed", should_retry=False)
        if tls_object is not None and tls_object.selected_alpn_protocol() not in _HTTP1_ALPN:
            await connection.abandon()
            raise UpstreamError(f"`{where.authority}` requires the protocol `{tls_object.selected_alpn_protocol()}`")
        return connection

    async def watch(self) -> None:
        """Ensure that the connections end with the event loop, even if the pool is never closed."""
        await anext(self._watch)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Close the pool when the event loop ends: a loop that shuts down closes its asynchronous generators."""
        try:
            yield
        finally:
            self.close()
            await asyncio.gather(*(connection.abandon() for connection in tuple(self._all)))

    async def end(self) -> None:
        """Close all connections and wait until they have ended."""
        if not self.closed:
            await self._watch.aclose()

    def close(self) -> None:
        """Close all connections. Requests in progress fail."""
        self.closed = True
        for connection in tuple(self._all):
            connection.abort(UpstreamError("this upstream was closed", should_retry=False))

    def _keep(self, connection: HttpConnection) -> None:
        if self.closed or len(self._idle) >= MAX_IDLE_CONNECTIONS:
            connection.abort()
        else:
            self._idle.append(connection)

    def _lost(self, connection: HttpConnection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)


def _reason(error: Exception) -> str:
    """Describe a failed connection without the numbers and addresses in the system's message."""
    if isinstance(error, socket.gaierror):
        return "unknown host"
    # If a host has several addresses, asyncio joins their messages, and the exception has no number.
    number = re.search(r"\[Errno (\d+)\]", str(error))
    return os.strerror(int(number[1])).lower() if number else system_reason(error)
