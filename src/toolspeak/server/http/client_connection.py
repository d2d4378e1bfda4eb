"""One client connection: reads HTTP/1.1 requests, within limits, and hands each to the application.

A complete model request is first offered to the fast path of the application (`App.wants` and `App.take`), which needs
no task. All others become ASGI requests. A server must not wait forever for slow or endless headers: before a body,
after it (trailers), or when pipelined. Trailers are discarded, because the access check has already happened. Responses
that a client does not read time out. Limits for complete requests are in `origin_guard` and `limits`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import httptools

from ...errors import ToolspeakError
from ..access.origin_guard import MAX_HEADER_BYTES
from ..asgi import Application, Headers, Receive, Scope, Send, error_headers, read_body, respond
from ..observe.request_context import STALLS_KEY, WriteStalls
from ..proxy.client_protocols import client_protocol
from ..routes import find_route, route_for_headers
from .http_request import HttpRequest
from .known_heads import KnownHead

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.server import ServerState

    from ..app import App

#: Size limit for the request line, headers and separators together.
_MAX_HEAD_BYTES = MAX_HEADER_BYTES + 16 * 1024
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_INVALID = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 30\r\n"
    b"connection: close\r\n\r\nInvalid HTTP request received."
)
#: Maximum number of pipelined requests per connection. Each takes memory, and today's clients do not pipeline.
_MAX_PIPELINED = 8
#: If more bytes of a body than this are buffered, reading from the socket pauses.
_MAX_BUFFERED = 64 * 1024
_NEVER = float("inf")
#: Maximum size of a request body to read and discard. Closing while the client still sends may lose the response.
_MAX_DISCARDED_BYTES = 256 * 1024


class ClientConnection(asyncio.Protocol):
    """One client connection. uvicorn creates it and calls `shutdown`."""

    #: Timeouts in seconds for the complete head of a request, and between two chunks of its body.
    head_seconds = 10.0
    body_seconds = 30.0
    #: Timeout in seconds for the rest of a request body after the response. Closing at once may lose the response.
    rest_seconds = 10.0
    write_seconds = 60.0  # timeout in seconds for a client that does not read the response
    #: Timeout in seconds for the rest of a response to a client that has closed its sending side.
    half_closed_seconds = 10.0

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self.loop = _loop or asyncio.get_running_loop()
        self.transport = cast("asyncio.Transport", None)
        self.server_state = server_state
        #: The request being answered; None if there is none.
        self.current: HttpRequest | None = None
        self._app = cast("Application", cast("Any", config).loaded_app)
        #: The application, if it can answer ordinary model requests without a task.
        self._fast_path = cast("App | None", config.app if hasattr(config.app, "known_heads") else None)
        #: False while a request is parsed that the fast path could not take.
        self._takes_fast_path = True
        self._max_connections = config.limit_concurrency
        self._keep_alive_seconds = config.timeout_keep_alive
        self._parser = httptools.HttpRequestParser(self)
        # A client may announce that it will close and still send more; the first request is answered all the same.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._addresses: dict[str, Any] = {}
        #: The last request whose head has arrived.
        self.newest: HttpRequest | None = None
        self._waiting: deque[HttpRequest] = deque()
        # What has arrived of the head.
        self._url = b""
        self._headers: Headers = []
        self._expects_100 = False
        self._in_head = False
        self._complete = True
        #: Bytes received of an incomplete head, of trailers, or of chunk headers.
        self._pending_bytes = 0
        #: Whether the last data advanced a request; progress restarts the timer.
        self._progressed = False
        self._timer: asyncio.TimerHandle | None = None
        #: Event loop time at which the connection is closed unless data arrives.
        self._idle_until = _NEVER
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._write_stalls: WriteStalls | None = None
        self._read_paused = False
        self._writable: asyncio.Event | None = None
        self.write_paused = False

    # ---- for the event loop and uvicorn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer for the first request."""
        self.transport = cast("asyncio.Transport", transport)
        self.server_state.connections.add(cast("Any", self))
        secure = transport.get_extra_info("sslcontext") is not None
        self._addresses = {
            "server": _address(transport.get_extra_info("sockname")),
            "client": _address(transport.get_extra_info("peername")),
            "scheme": "https" if secure else "http",
        }
        self._start_timer(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers and cancel all requests of the connection."""
        self.server_state.connections.discard(cast("Any", self))
        for timer in (self._timer, self._idle_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._idle_timer = self._stall_timer = None
        self._waiting.clear()
        if self._writable is not None:
            self._writable.set()
        if self.newest is not None:
            self.newest.lose_client()
        if self.current is not None:
            self.current.lose_client()
        self._parser = cast("httptools.HttpRequestParser", None)  # it refers back to this object

    def data_received(self, data: bytes) -> None:
        """Parse received data, within limits."""
        self._idle_until = _NEVER
        split = version = None
        self._takes_fast_path = True
        if self._fast_path is not None and self._complete and not self._pending_bytes and not self.answering:
            split = self._fast_path.known_heads.split(data)
            version = split and self._fast_path.version()  # before the access check, during which it may change
            head = split and self._fast_path.known_heads.by_digest.get(split[0])
            if split and head and head.version == version and self._take_known(head, data, split[1]):
                return
        self._progressed = self._complete and not self._pending_bytes  # true for the first data of a request
        self._pending_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # a WebSocket request gets an HTTP response
        except httptools.HttpParserError:
            self._refuse_invalid()
            return
        if split is not None and version is not None and self._takes_fast_path:
            self._remember(split[0], data, version)
        if self._pending_bytes > _MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE)
        elif self._complete and (not self._pending_bytes or self.answering):
            self._stop_timer()  # most requests arrive in one piece and need no timer
            if not self.answering:
                self._wait_for_request()
        elif self._progressed or self._timer is None:
            self._start_timer(self.head_seconds if self._complete or self._in_head else self.body_seconds)

    def eof_received(self) -> bool:
        """Return whether to go on with the response: for a while, if the client had announced to close.

        Any other client has probably left, which looks the same as a closed sending side.
        """
        current, secure = self.current, self._addresses["scheme"] == "https"
        if current is None or not self.answering or not self._complete or current.keep_alive or secure:
            return False
        self._stop_timer()
        self._timer = self.loop.call_later(self.half_closed_seconds, self.transport.close)
        return True

    def pause_writing(self) -> None:
        """Start the timer for a client that does not read, and measure how long it blocks the response."""
        self._cancel_stall()
        current = self.current
        if current is not None:
            self._write_stalls = cast("WriteStalls", current.scope.setdefault(STALLS_KEY, WriteStalls()))
            self._write_stalls.begin()
            if current.on_pause is not None:
                current.on_pause(True)
        self._writable = asyncio.Event()
        self.write_paused = True
        self._stall_timer = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer for a client that does not read."""
        self._cancel_stall()
        if self._write_stalls is not None:
            self._write_stalls.end()
        writable, self._writable = self._writable, None
        self.write_paused = False
        if writable is not None:
            writable.set()
        if self.current is not None and self.current.on_pause is not None:
            self.current.on_pause(False)

    def shutdown(self) -> None:
        """Close the connection, after the response that is under way."""
        if self.newest is None or self.newest.response_complete:
            self.transport.close()
        else:
            self.newest.keep_alive = False

    def break_off(self) -> None:
        """Close the connection after the current response, and drop the requests that wait for it."""
        self._waiting.clear()
        if self.current is not None:
            self.current.keep_alive = False

    # ---- for requests

    @property
    def answering(self) -> bool:
        return self.current is not None and not self.current.response_complete

    async def drain(self) -> None:
        """Wait until the client has read enough of what was written."""
        if self._writable is not None:
            await self._writable.wait()

    def resume_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self.transport.resume_reading()

    def response_ended(self) -> None:
        """Continue with the next pipelined request, or wait for one."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._read_paused:
            self.resume_reading()
        if self._waiting:
            self._start(self._waiting.popleft())
        else:
            self._wait_for_request()
        if not self._complete and not self._in_head and self.newest is not None and self.newest.response_complete:
            self._stop_timer()
            self._timer = self.loop.call_later(self.rest_seconds, self.transport.close)

    # ---- for the parser

    def on_message_begin(self) -> None:
        self._complete = self._expects_100 = False
        self._in_head = self._progressed = True
        self._url = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # later ones are trailers
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self._expects_100 = True
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._pending_bytes = 0
        self._progressed = True
        parser = self._parser
        url = httptools.parse_url(self._url)
        path = url.path.decode("ascii")
        version = parser.get_http_version()
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "root_path": "",
            "headers": self._headers,
            "method": parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            **self._addresses,
        }
        keep_alive = version != "1.0" and parser.should_keep_alive()
        self.newest = request = HttpRequest(self, scope, keep_alive=keep_alive, expects_100=self._expects_100)
        if not self.answering:
            self._start(request)
        else:
            self._pause_reading()
            self._waiting.append(request)
            if len(self._waiting) > _MAX_PIPELINED:
                self.transport.abort()

    def on_body(self, body: bytes) -> None:
        self._pending_bytes = 0
        request = self.newest
        assert request is not None
        self._progressed = not request.response_complete
        if not request.response_complete:
            request.add_body(body)
            if request.size > _MAX_BUFFERED and not request.gathers:
                self._pause_reading()

    def on_message_complete(self) -> None:
        self._complete = True
        self._pending_bytes = 0
        request = self.newest
        assert request is not None
        if not request.response_complete:
            request.end_body()
            if request.gathers and request is self.current:
                self._start(request)

    # ---- requests whose head is known

    def _take_known(self, head: KnownHead, data: bytes, body: bytes) -> bool:
        """Answer a request whose head is known, without parser and task. Returns False if it needs them."""
        fast_path = self._fast_path
        if fast_path is None or self._overloaded():
            return False
        scope = {**head.scope, **self._addresses}
        if head.keys:
            scope["headers"] = [*scope["headers"], *head.credentials(data[: len(data) - len(body)])]
        request = HttpRequest(self, scope, body=body)
        request.admitted = (head.route, head.caller)
        before = self.current, self.newest
        self.current = self.newest = request
        if fast_path.take(request):
            self._stop_timer()  # that of a new connection
            return True
        self.current, self.newest = before
        self._takes_fast_path = False
        return False

    def _remember(self, digest: bytes, data: bytes, version: object) -> None:
        """Remember the head of an admitted request that the parser found complete."""
        request, fast_path = self.newest, self._fast_path
        if fast_path is None or request is None or request.admitted is None or not request.keep_alive:
            return
        route, caller = request.admitted
        if self._complete and fast_path.may_remember(caller):
            fast_path.known_heads.remember(digest, data, request.scope, route, caller, version)

    # ---- internal

    def _start(self, request: HttpRequest) -> None:
        """Start answering a request: by the fast path once its body is complete, or else in a task."""
        self.current = request
        fast_path = self._fast_path if self._takes_fast_path else None
        if self._overloaded():
            self.start_task(request, reject_overloaded)
            return
        if fast_path is not None and (request.gathers or fast_path.wants(request)):
            request.gathers = request.more_body
            if request.gathers or fast_path.take(request):
                return
        self.start_task(request, self._app)

    def start_gathered(self, request: HttpRequest) -> None:
        """Let the application record and count a request whose client left before its body was complete."""
        request.gathers = False
        self.start_task(request, self._app)

    def start_task(self, request: HttpRequest, app: Application) -> None:
        task = self.loop.create_task(request.run(app))
        tasks = self.server_state.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _overloaded(self) -> bool:
        limit, state = self._max_connections, self.server_state
        return limit is not None and (len(state.connections) >= limit or len(state.tasks) >= limit)

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def _cancel_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _wait_for_request(self) -> None:
        """Close the connection if no data arrives for a while. The timer is not moved for each request."""
        self._idle_until = self.loop.time() + self._keep_alive_seconds
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_at(self._idle_until, self._check_idle)

    def _check_idle(self) -> None:
        self._idle_timer = None
        if self.loop.time() >= self._idle_until:
            self.transport.close()
        elif self._idle_until != _NEVER:
            self._idle_timer = self.loop.call_at(self._idle_until, self._check_idle)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._timed_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timed_out(self) -> None:
        if self._read_paused:  # the server itself paused reading, so the client is not late
            self._start_timer(self.body_seconds)
        else:
            self._refuse(_TOO_LATE)

    def _refuse(self, response: bytes) -> None:
        self._stop_timer()
        if self.transport.is_closing():
            return
        if self._can_respond():
            self.transport.write(response)
        self.transport.close()

    def _can_respond(self) -> bool:
        """Whether an error response can be written now without corrupting another response."""
        if self.current is None:
            return True
        if self._in_head:
            return not self.answering
        return self.current is self.newest and not self.current.response_started

    def _refuse_invalid(self) -> None:
        """Respond to malformed data, or drop the connection if another response is being written."""
        if self.answering:
            self.transport.abort()
        else:
            self.transport.write(_INVALID)
            self.transport.close()


def _address(name: object) -> tuple[str, int] | None:
    if not isinstance(name, tuple):
        return None
    parts = cast("tuple[Any, ...]", name)
    return (str(parts[0]), int(parts[1])) if len(parts) > 1 else None


# ---- too many connections


class ServerOverloaded(ToolspeakError):
    """The server has no file descriptors left for more connections."""

    status = 503
    retry_after = 1.0


async def reject_overloaded(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with 503 in the client's protocol, then close."""
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
