"""One request as seen from outside: its id, when it came, when its answer began, with which status.

A trip stands between the application and the server that sends. It adds the id to every answer, and every line of the
log that is written on its way names it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, MutableMapping
from contextvars import ContextVar
from typing import Any, TypeAlias

from ..asgi import Scope, Send, header
from .ids import new_id

#: Where the server puts how long it has waited for the reader of an answer.
STALLS = "toolspeak.stalls"

#: An id of a client's own is taken if it can stand in a header, a log and a label.
_SANE = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
#: What is written down for a client that left before it was answered.
GONE = 499

#: Seconds: until the last byte, until the first one, and those that we added.
Times: TypeAlias = tuple[float, float, float]


class Stalls:
    """How long a connection has waited for its client to read, in seconds."""

    __slots__ = ("_since", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since = 0.0

    def begin(self) -> None:
        """It waits from now on."""
        self._since = time.perf_counter()

    def end(self) -> None:
        """It waits no longer."""
        if self._since:
            self.seconds += time.perf_counter() - self._since
            self._since = 0.0


class Trip:
    """One request on its way."""

    __slots__ = ("_id", "_send", "began", "logged", "scope", "started", "status")

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope = scope
        self.started = time.perf_counter()
        #: When the answer began, and its status; nothing before.
        self.began = 0.0
        self.status = GONE
        #: Whether it has its line in the log: who knows most about a request writes it.
        self.logged = False
        self._send = send
        given = header(scope, b"x-request-id")
        self._id = given if given and _SANE.fullmatch(given) else ""

    @property
    def id(self) -> str:
        """The client's own id, else one of ours."""
        if not self._id:
            self._id = new_id()
        return self._id

    def named(self, identifier: str) -> None:
        """Go by this id, unless the client has given one."""
        self._id = self._id or identifier

    def send(self, message: MutableMapping[str, Any]) -> Awaitable[None]:
        """Sends a message on. No coroutine of its own, since every piece of a stream passes here."""
        if message["type"] == "http.response.start":
            self.began = time.perf_counter()
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], (b"x-request-id", self.id.encode())]}
        return self._send(message)

    @property
    def stalled(self) -> float:
        """Seconds in which the client did not take what there was for it."""
        stalls: Stalls | None = self.scope.get(STALLS)
        return stalls.seconds if stalls is not None else 0.0

    def seconds(self) -> float:
        """How long it has taken."""
        return time.perf_counter() - self.started

    def times(self, waited: float) -> Times:
        """What it has taken, of which it has waited so long for others."""
        whole = self.seconds()
        first = self.began - self.started if self.began else whole
        return whole, first, max(0.0, whole - waited - self.stalled)


#: The trip that the current task is on.
CURRENT: ContextVar[Trip | None] = ContextVar("toolspeak_trip", default=None)
