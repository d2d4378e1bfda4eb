"""Request context: the request id, the response status and the timings of one HTTP request.

The context wraps the ASGI `send` to add the `x-request-id` header to the response. Log lines written while the request
is handled contain the same id.
"""

import os
import re
import time
from collections.abc import Awaitable, Iterator, MutableMapping
from contextvars import ContextVar
from typing import Any, TypeAlias

from ..asgi import Scope, Send, header

STALLS_KEY = "toolspeak.stalls"  # scope key of the connection's `WriteStalls`

#: Valid client-supplied request ids: safe in headers, log lines and labels. Others are ignored.
_VALID_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
CLIENT_CLOSED = 499  # status recorded for a client that disconnected before the response started
#: Size of an id in bytes, and number of ids per read from the system's random source.
_ID_BYTES, _IDS_PER_READ = 16, 64

#: Seconds until the last byte, seconds until the first byte, and overhead in seconds.
Times: TypeAlias = tuple[float, float, float]


def _generate_ids() -> Iterator[str]:
    while True:
        random_bytes, owner = os.urandom(_ID_BYTES * _IDS_PER_READ), os.getpid()
        for start in range(0, len(random_bytes), _ID_BYTES):
            if os.getpid() != owner:  # a forked child must not reuse its parent's ids
                break
            yield random_bytes[start : start + _ID_BYTES].hex()


_id_source = _generate_ids()


def new_id() -> str:
    """Return an unguessable id of 32 hexadecimal digits (128 random bits).

    Random bytes are read for many ids at once, because a system call per id would dominate the cost.
    """
    return next(_id_source)


class WriteStalls:
    """Seconds that a connection has spent waiting for its client to read."""

    __slots__ = ("_since", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since = 0.0

    def begin(self) -> None:
        self._since = time.perf_counter()

    def end(self) -> None:
        if self._since:
            self.seconds += time.perf_counter() - self._since
            self._since = 0.0


class RequestContext:
    """The id, status and timings of one request."""

    __slots__ = ("_id", "_send", "logged", "response_started", "scope", "started", "status", "upstream")

    def __init__(self, scope: Scope, send: Send, identifier: str = "") -> None:
        self.scope = scope
        self.started = time.perf_counter()
        #: Time at which the response started; 0 until then.
        self.response_started = 0.0
        self.status = CLIENT_CLOSED
        #: Whether the access log line has been written. The layer with the most detail writes it.
        self.logged = False
        #: Name of the upstream that answered, if there were several to choose from.
        self.upstream = ""
        self._send = send
        client_id = header(scope, b"x-request-id") if scope["headers"] else ""
        self._id = client_id if client_id and _VALID_ID.fullmatch(client_id) else identifier

    @property
    def id(self) -> str:
        """The request id sent by the client, or else a generated one."""
        if not self._id:
            self._id = new_id()
        return self._id

    def set_default_id(self, identifier: str) -> None:
        """Use this id unless the client sent one."""
        self._id = self._id or identifier

    def send(self, message: MutableMapping[str, Any]) -> Awaitable[None]:
        """Forward an ASGI message. This is not a coroutine, to save time for every chunk of a stream."""
        if message["type"] == "http.response.start":
            self.response_started = time.perf_counter()
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], (b"x-request-id", self.id.encode())]}
        return self._send(message)

    def seconds(self) -> float:
        """Return the seconds since the request arrived."""
        return time.perf_counter() - self.started

    def times(self, wait_seconds: float) -> Times:
        """Return the timings; `wait_seconds` is the time spent waiting for upstreams and tools."""
        total = self.seconds()
        first = self.response_started - self.started if self.response_started else total
        stalls: WriteStalls | None = self.scope.get(STALLS_KEY)
        stall_seconds = stalls.seconds if stalls is not None else 0.0  # waiting for the client to read
        return total, first, max(0.0, total - wait_seconds - stall_seconds)


#: The context of the request that the current task handles.
CURRENT: ContextVar[RequestContext | None] = ContextVar("toolspeak_request", default=None)
