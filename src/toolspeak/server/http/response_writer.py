"""Writes an answer to the connection of its client: what uvicorn does with each message of ASGI, in fewer steps.

The head waits for the first piece of the body and leaves with it, in one write. The headers are our own, so they need
no look at each of them: what nobody may put into one, a line break, is looked for in all of them at once. The state of
the answer stays where uvicorn keeps it, which sees to everything else: errors, keep-alive, the next request.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

#: Answers that have no body, whatever they say.
_BODILESS = frozenset({204, 304})
_CLOSE = b"connection: close\r\n"


class Writer:
    """The sending side of one request."""

    __slots__ = ("_cycle", "_head")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._head = b""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message of ASGI: first the head, then the body, in pieces or as a whole."""
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        if not cycle.response_started:
            self._begin(message["status"], message["headers"])
        elif not cycle.response_complete:
            self._go_on(message["body"], message.get("more_body", False))
        else:
            raise RuntimeError(f"`{message['type']}` behind the end of an answer")

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
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
                continue  # said below
            lines.append(b"%b: %b\r\n" % (name, value))
        if not cycle.keep_alive:
            lines.append(_CLOSE)
        if cycle.chunked_encoding is None and cycle.scope["method"] != "HEAD" and status not in _BODILESS:
            cycle.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise RuntimeError("a header holds a line break")
        cycle.response_started = True
        self._head = head + b"\r\n"

    def _go_on(self, body: bytes, more: bool) -> None:
        cycle = self._cycle
        if cycle.scope["method"] == "HEAD":
            cycle.expected_content_length, body = 0, b""
        elif cycle.chunked_encoding:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = body if more else body + b"0\r\n\r\n"
        else:
            cycle.expected_content_length -= len(body)
        if cycle.expected_content_length < 0 or (cycle.expected_content_length and not more):
            raise RuntimeError("the body is not as long as the head says")
        data, self._head = self._head + body, b""
        if data:
            cycle.transport.write(data)
        if not more:
            self._end()

    def _end(self) -> None:
        cycle = self._cycle
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
