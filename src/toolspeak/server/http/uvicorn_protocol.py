"""uvicorn's HTTP protocol with additional timeouts and size limits, and a faster response writer.

By itself, uvicorn waits forever for slow or endless headers: before a body, after it (trailers), or when pipelined.
Trailers are discarded, because the access check has already happened. Responses that a client does not read time
out. Limits for complete requests are in `origin_guard` and `limits`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from typing import Any, cast

from uvicorn._types import ASGI3Application, ASGISendCallable
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ...errors import ToolspeakError
from ..access.origin_guard import MAX_HEADER_BYTES
from ..asgi import Receive, Scope, Send, error_headers, read_body, respond
from ..observe.request_context import STALLS_KEY, WriteStalls
from ..proxy.client_protocols import client_protocol
from ..routes import find_route, route_for_headers

#: Size limit for the request line, headers and separators together.
_MAX_HEAD_BYTES = MAX_HEADER_BYTES + 16 * 1024
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
#: Maximum number of pipelined requests per connection. Each takes memory, and today's clients do not pipeline.
_MAX_PIPELINED = 8
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
#: Statuses of responses that have no body.
_STATUSES_WITHOUT_BODY = frozenset({204, 304})
_CLOSE = b"connection: close\r\n"
#: Maximum size of a request body to read and discard. Closing while the client still sends may lose the response.
_MAX_DISCARDED_BYTES = 256 * 1024


class LimitedHttpProtocol(HttpToolsProtocol):
    """One client connection."""

    #: Timeouts in seconds for the complete head of a request, and between two chunks of its body.
    head_seconds = 10.0
    body_seconds = 30.0
    #: Timeout in seconds for the rest of a request body after the response. Closing at once may lose the response.
    rest_seconds = 10.0
    #: Timeout in seconds for a client that does not read the response.
    write_seconds = 60.0

    _write_stalls: WriteStalls | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _timer: asyncio.TimerHandle | None = None
    #: Bytes received of an incomplete head, of trailers, or of chunk headers.
    _pending_bytes = 0
    #: Whether the last data advanced a request; progress restarts the timer.
    _progressed = False
    _in_head = False
    _complete = True
    #: The request being answered; uvicorn's `cycle` is the most recently received one.
    _current: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._start_timer(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers and cancel all requests of the connection."""
        self._stop_timer()
        self._cancel_stall()
        super().connection_lost(exc)
        # Also cancel earlier pipelined requests.
        self.pipeline.clear()
        if self._current is not None and not self._current.response_complete:
            self._current.disconnected = True
            self._current.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Parse received data, within limits."""
        self._progressed = self._complete and not self._pending_bytes  # true for the first data of a request
        self._pending_bytes += len(data)
        super().data_received(data)
        if self._pending_bytes > _MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE)
        elif self._complete and (not self._pending_bytes or self._answering()):
            self._stop_timer()  # most requests arrive in one piece and need no timer
            if not self._answering() and self.timeout_keep_alive_task is None:
                # uvicorn does not limit idle time after a body that the application did not read.
                idle = self.timeout_keep_alive
                self.timeout_keep_alive_task = self.loop.call_later(idle, self.timeout_keep_alive_handler)
        elif self._progressed or self._timer is None:
            self._start_timer(self.head_seconds if self._complete or self._in_head else self.body_seconds)

    def pause_writing(self) -> None:
        """Start the timer for a client that does not read, and measure how long it blocks the response."""
        super().pause_writing()
        self._cancel_stall()
        if self._current is not None:
            extras = cast("dict[str, object]", self._current.scope)
            self._write_stalls = cast("WriteStalls", extras.setdefault(STALLS_KEY, WriteStalls()))
            self._write_stalls.begin()
        self._stall_timer = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer for a client that does not read."""
        self._cancel_stall()
        if self._write_stalls is not None:
            self._write_stalls.end()
        super().resume_writing()

    def _cancel_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def on_message_begin(self) -> None:
        self._complete = False
        self._in_head = self._progressed = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._pending_bytes = 0
        self._progressed = True
        super().on_headers_complete()
        if len(self.pipeline) > _MAX_PIPELINED:
            self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._current = cycle
        if app is service_unavailable:  # uvicorn's plain-text response matches no client protocol
            app = cast("ASGI3Application", reject_overloaded)
        send = cast("ASGISendCallable", ResponseWriter(cycle).send)
        super()._start_asgi_task(cycle, lambda scope, receive, _: app(scope, receive, send))

    def on_body(self, body: bytes) -> None:
        self._pending_bytes = 0
        self._progressed = not self.cycle.response_complete
        super().on_body(body)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._complete and not self._in_head and self.cycle.response_complete:
            self._stop_timer()
            self._timer = self.loop.call_later(self.rest_seconds, self.transport.close)

    def on_message_complete(self) -> None:
        self._complete = True
        self._pending_bytes = 0
        super().on_message_complete()

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._timed_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timed_out(self) -> None:
        if self.flow.read_paused:  # the server itself paused reading, so the client is not late
            self._start_timer(self.body_seconds)
        else:
            self._refuse(_TOO_LATE)

    def _refuse(self, answer: bytes) -> None:
        self._stop_timer()
        if self.transport.is_closing():
            return
        if self._can_respond():
            self.transport.write(answer)
        self.transport.close()

    def _can_respond(self) -> bool:
        """Whether an error response can be written now without corrupting another response."""
        if self._current is None:
            return True
        if self._in_head:
            return not self._answering()
        return self._current is self.cycle and not self._current.response_started

    def send_400_response(self, msg: str) -> None:
        """Respond to malformed data, or drop the connection if another response is being written."""
        if self._answering():
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a WebSocket request gets an HTTP response."""

    def _answering(self) -> bool:
        return self._current is not None and not self._current.response_complete


# ---- response writer


class ResponseWriter:
    """Writes one response like uvicorn, but in fewer steps.

    The head and the first chunk of the body are sent in one write. All headers are checked for line breaks together.
    The state stays in uvicorn's cycle object, so uvicorn still handles errors, keep-alive and the next request.
    """

    __slots__ = ("_cycle", "_head")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._head = b""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Handle an ASGI message: the start of the response or a chunk of its body."""
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        if not cycle.response_started:
            self._prepare_head(message["status"], message["headers"])
        elif not cycle.response_complete:
            self._write_body(message["body"], message.get("more_body", False))
        else:
            raise RuntimeError(f"`{message['type']}` after the end of the response")

    def _prepare_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        cycle = self._cycle
        cycle.waiting_for_100_continue = False
        lines = [STATUS_LINE[status]]
        lines += [b"%b: %b\r\n" % header for header in cycle.default_headers]
        for name, value in headers:
            if name == b"content-length":
                cycle.chunked_encoding = False
                cycle.expected_content_length = int(value)
            elif name == b"connection" and b"close" in value:
                cycle.keep_alive = False
                continue  # the connection header is added below
            lines.append(b"%b: %b\r\n" % (name, value))
        if not cycle.keep_alive:
            lines.append(_CLOSE)
        if cycle.chunked_encoding is None and cycle.scope["method"] != "HEAD" and status not in _STATUSES_WITHOUT_BODY:
            cycle.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise RuntimeError("a header contains a line break")
        cycle.response_started = True
        self._head = head + b"\r\n"

    def _write_body(self, body: bytes, more: bool) -> None:
        cycle = self._cycle
        if cycle.scope["method"] == "HEAD":
            cycle.expected_content_length, body = 0, b""
        elif cycle.chunked_encoding:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = body if more else body + b"0\r\n\r\n"
        else:
            cycle.expected_content_length -= len(body)
        if cycle.expected_content_length < 0 or (cycle.expected_content_length and not more):
            raise RuntimeError("the body does not match its content-length")
        data, self._head = self._head + body, b""
        if data:
            cycle.transport.write(data)
        if not more:
            self._finish()

    def _finish(self) -> None:
        cycle = self._cycle
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()


# ---- too many connections


class ServerOverloaded(ToolspeakError):
    """The server has no file descriptors left for more connections."""

    status = 503
    retry_after = 1.0


async def reject_overloaded(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with 503 in the client's protocol, because SDKs cannot parse uvicorn's plain text, then close."""
    with suppress(ToolspeakError):
        await read_body(scope, receive, _MAX_DISCARDED_BYTES)
    error = ServerOverloaded("too many connections at the moment", hint="retry in a second")
    status, body = client_protocol(_error_protocol(scope)).error(error)
    await respond(send, status, body, headers=[*error_headers(error), (b"connection", b"close")])


def _error_protocol(scope: Scope) -> str:
    """Return the client's protocol, judging by the request path."""
    method, path = scope["method"], scope["path"]
    route = find_route(method, path)
    if route is not None:
        return route_for_headers(route, scope["headers"]).error_protocol
    from ..unsupported import unsupported_error  # rarely needed, so imported on demand

    return unsupported_error(method, path).error_protocol
