"""One HTTP request on a client connection, and its response: the ASGI messages, and what they become on the wire."""

import asyncio
import logging
from collections.abc import Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ..asgi import Application, Scope

if TYPE_CHECKING:
    from ..access.auth import Caller
    from ..routes import Route
    from .client_connection import ClientConnection

_log = logging.getLogger("toolspeak.server")
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
#: The first line of a response, by status.
STATUS_LINES = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode("ascii") for status in range(100, 600)
}
#: Statuses of responses that have no body.
_STATUSES_WITHOUT_BODY = frozenset({204, 304})
_CLOSE = b"connection: close\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_FAILED = b"Internal Server Error"


class HttpRequest:
    """One request and its response. `run` answers it with an ASGI application."""

    __slots__ = (
        "_body _chunked _delivered _event _expects_100 _head _remaining admitted connection disconnected "
        "gathers keep_alive more_body on_lost on_pause response_complete response_started scope size"
    ).split()

    def __init__(
        self,
        connection: "ClientConnection",
        scope: Scope,
        *,
        keep_alive: bool = True,
        expects_100: bool = False,
        body: bytes | None = None,
    ) -> None:
        """`body`: the complete body, if it has arrived with the head."""
        self.connection = connection
        self.scope = scope
        self.keep_alive = keep_alive
        self.disconnected = self.response_started = self.response_complete = False
        #: The route and the caller, once the fast path has admitted the request.
        self.admitted: tuple[Route, Caller] | None = None
        #: Whether the request starts only when its body is complete.
        self.gathers = False
        self.more_body = body is None
        self.size = 0 if body is None else len(body)  # bytes of the body that wait to be read
        #: Called when the client has disconnected; and when writing to it must pause (True) or may go on (False).
        self.on_lost: Callable[[], None] | None = None
        self.on_pause: Callable[[bool], None] | None = None
        self._body: list[bytes] = [] if body is None else [body]
        self._event: asyncio.Event | None = None
        self._delivered = False  # whether the end of the body was delivered
        self._expects_100 = expects_100
        self._head = b""
        self._chunked = False
        self._remaining = 0

    def add_body(self, piece: bytes) -> None:
        self._body.append(piece)
        self.size += len(piece)
        self._wake()

    def end_body(self) -> None:
        self.more_body = False
        self._wake()

    def take_body(self) -> bytes:
        """Return what has arrived of the body since the last call."""
        pieces, self._body, self.size = self._body, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def take_whole_body(self) -> bytes:
        """Return the complete body. `receive` then only waits for the client to disconnect."""
        self._delivered = True
        return self.take_body()

    def put_back(self, body: bytes) -> None:
        """Undo `take_whole_body`."""
        self._delivered = False
        self._body, self.size = [body], len(body)

    def lose_client(self) -> None:
        if self.response_complete:
            return
        self.disconnected = True
        self._wake()
        if self.on_lost is not None:
            self.on_lost()
        elif self.gathers:
            self.connection.start_gathered(self)

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next ASGI message: a piece of the body, or that the client has disconnected."""
        if self._expects_100 and not self.connection.transport.is_closing():
            self._expects_100 = False
            self.connection.transport.write(_CONTINUE)
        while not (self.disconnected or self.response_complete):
            if not self._delivered and (self._body or not self.more_body):
                self._delivered = not self.more_body
                return {"type": "http.request", "body": self.take_body(), "more_body": self.more_body}
            self.connection.resume_reading()
            self._event = asyncio.Event()
            await self._event.wait()
        return {"type": "http.disconnect"}

    async def run(self, app: Application) -> None:
        """Answer the request with an application. If that fails, the client gets a 500 or a cut-off response."""
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                _log.exception("the application failed")
            self._end_incomplete()
            if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
                raise
        else:
            if not self.response_complete and not self.disconnected:
                _log.error("the application did not complete its response")
                self._end_incomplete()

    def _end_incomplete(self) -> None:
        if self.response_complete or self.disconnected:
            return
        if self.response_started:
            self.connection.transport.close()
            return
        length = str(len(_FAILED)).encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length)]
        self.start(500, [*headers, (b"connection", b"close")])
        self.write(_FAILED, False)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Handle an ASGI message: the start of the response or a chunk of its body."""
        connection = self.connection
        if connection.write_paused and not self.disconnected:
            await connection.drain()
        if self.disconnected:
            return
        if not self.response_started:
            self.start(message["status"], message["headers"])
        elif not self.response_complete:
            self.write(message["body"], message.get("more_body", False))
        else:
            raise RuntimeError(f"`{message['type']}` after the end of the response")

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Prepare the head, which is sent with the first chunk of the body."""
        self._expects_100 = False
        lines = [STATUS_LINES[status]]
        lines += [b"%b: %b\r\n" % header for header in self.connection.server_state.default_headers]
        sized = False
        for name, value in headers:
            if name == b"content-length":
                sized = True
                self._remaining = int(value)
            elif name == b"connection" and b"close" in value:
                self.keep_alive = False
                continue  # the connection header is added below
            lines.append(b"%b: %b\r\n" % (name, value))
        if not self.keep_alive:
            lines.append(_CLOSE)
        if not sized and self.scope["method"] != "HEAD" and status not in _STATUSES_WITHOUT_BODY:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        head = b"".join(lines)
        # All headers are checked together.
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise RuntimeError("a header contains a line break")
        self.response_started = True
        self._head = head + b"\r\n"

    def write(self, body: bytes, more: bool) -> None:
        """Write a chunk of the body, without waiting for the client to read."""
        if self.scope["method"] == "HEAD":
            self._remaining, body = 0, b""
        elif self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = body if more else body + b"0\r\n\r\n"
        else:
            self._remaining -= len(body)
        if self._remaining < 0 or (self._remaining and not more):
            raise RuntimeError("the body does not match its content-length")
        data, self._head = self._head + body, b""
        if data:
            self.connection.transport.write(data)
        if not more:
            self.finish()

    def finish(self) -> None:
        """End the response, after its last byte was written."""
        self.response_complete = True
        if self._event is not None:
            self._event.set()
        if not self.keep_alive:
            self.connection.transport.close()
        self.connection.response_ended()
