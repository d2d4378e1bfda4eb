"""The HTTP side of uvicorn, with limits that it lacks: how long and how large the head of a request may be, and how
long an answer may wait for its reader.

A client that sends its headers one byte a minute, or headers without end, would otherwise be listened to for ever:
before a body, behind it (trailers) or behind another request. Trailers are read and forgotten, since a header that
comes after the request was let in is none. What a complete request may be is decided by `guard` and `limits`.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn._types import ASGI3Application, ASGISendCallable
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ..access.origin_guard import MOST_HEADERS
from ..observe.request_context import STALLS, Stalls
from .response_writer import Writer

#: Besides the headers there are a request line and what stands between the lines.
_MOST_HEAD = MOST_HEADERS + 16 * 1024
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
#: Requests that may wait behind the one that is answered. No client of today sends any; each takes memory.
_MOST_WAITING = 8
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class CarefulProtocol(HttpToolsProtocol):
    """One connection of a client."""

    #: Seconds for the whole head of a request, and between two pieces of its body.
    head_seconds = 10.0
    body_seconds = 30.0
    #: Seconds for the rest of a body whose request was answered without it. Who is cut off at once may lose the answer.
    rest_seconds = 10.0
    #: Seconds in which a client that is too slow must take some of what waits for it.
    write_seconds = 60.0

    _stalls: Stalls | None = None
    _stalled: asyncio.TimerHandle | None = None
    _timer: asyncio.TimerHandle | None = None
    #: Bytes that are neither a whole head nor some of a body: of a head, of trailers, of the lines between chunks.
    _loose = 0
    #: Whether what came last took a request further, so that there is more time again.
    _further = False
    _in_head = False
    _complete = True
    #: The request that is being answered; uvicorn itself remembers the one that came last.
    _answered: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Whoever connects has something to say soon."""
        super().connection_made(transport)
        self._wait(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop()
        self._moves()
        super().connection_lost(exc)
        # Whoever leaves leaves all that it asked, also the first of several requests.
        self.pipeline.clear()
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Listen, within limits."""
        self._further = self._complete and not self._loose  # the first piece of a request
        self._loose += len(data)
        super().data_received(data)
        if self._loose > _MOST_HEAD:
            self._refuse(_TOO_LARGE)
        elif self._complete and (not self._loose or self._answering()):
            self._stop()  # one that comes in one piece, as most do, needs no timer
            self._rest()
        elif self._further or self._timer is None:
            self._wait(self.head_seconds if self._complete or self._in_head else self.body_seconds)

    def _rest(self) -> None:
        """uvicorn limits how long it is silent between two requests, but not behind a body that it did not read."""
        if not self._answering() and self.timeout_keep_alive_task is None:
            seconds = self.timeout_keep_alive
            self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def pause_writing(self) -> None:
        """The client does not take what it asked for; who holds it up for ever is dropped, with all that is kept."""
        super().pause_writing()
        self._moves()
        self._stall()
        self._stalled = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It does again."""
        self._moves()
        if self._stalls is not None:
            self._stalls.end()
        super().resume_writing()

    def _stall(self) -> None:
        """How long it is waited for the client is told with the request that is answered."""
        if self._answered is not None:
            kept = cast("dict[str, object]", self._answered.scope)
            self._stalls = cast("Stalls", kept.setdefault(STALLS, Stalls()))
            self._stalls.begin()

    def _moves(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def on_message_begin(self) -> None:
        self._complete = False
        self._in_head = self._further = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._loose = 0
        self._further = True
        super().on_headers_complete()
        if len(self.pipeline) > _MOST_WAITING:
            self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        if app is service_unavailable:  # what uvicorn says to one client too many is no protocol's word
            from .overload import turned_away  # loaded when that happens

            app = cast("ASGI3Application", turned_away)
        send = cast("ASGISendCallable", Writer(cycle).send)
        super()._start_asgi_task(cycle, lambda scope, receive, _: app(scope, receive, send))

    def on_body(self, body: bytes) -> None:
        self._loose = 0
        self._further = not self.cycle.response_complete
        super().on_body(body)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._complete and not self._in_head and self.cycle.response_complete:
            self._stop()
            self._timer = self.loop.call_later(self.rest_seconds, self.transport.close)

    def on_message_complete(self) -> None:
        self._complete = True
        self._loose = 0
        super().on_message_complete()

    def _wait(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if self.flow.read_paused:  # it is we who do not listen
            self._wait(self.body_seconds)
        else:
            self._refuse(_TOO_LATE)

    def _refuse(self, answer: bytes) -> None:
        self._stop()
        if self.transport.is_closing():
            return
        if self._silent():
            self.transport.write(answer)
        self.transport.close()

    def _silent(self) -> bool:
        """Whether nothing is said, or being said, so that an answer is not put into the middle of another."""
        if self._answered is None:
            return True
        if self._in_head:
            return not self._answering()
        return self._answered is self.cycle and not self._answered.response_started

    def send_400_response(self, msg: str) -> None:
        """What is no request, also behind one that is: there is no place for an answer in the middle of another."""
        if self._answering():
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Whoever asks for a WebSocket is answered over HTTP; that is nothing for the log."""

    def _answering(self) -> bool:
        return self._answered is not None and not self._answered.response_complete
