"""The connections to one place that wait for their next request, in one event loop. The last one used is the first one used again, so that the others grow old and
close. How many are in use at once is not bounded here: whoever asks decides that.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator

from ...errors import UpstreamError, UpstreamTimeout
from .address import Address
from .connection import Connection, Timeouts

#: Unused connections that are kept.
MOST_IDLE = 256

_HTTP = ("http/1.1", None)


class Pool:
    """Connections to `where`; it belongs to the event loop it is made in."""

    def __init__(self, where: Address, tls: ssl.SSLContext | None, timeouts: Timeouts) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = False
        self._where = where
        self._tls = tls
        self._timeouts = timeouts
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._watch = self._until_the_loop_ends()

    def __len__(self) -> int:
        """How many connections there are, in use or not."""
        return len(self._all)

    @property
    def idle(self) -> int:
        """How many connections wait for a request."""
        return len(self._idle)

    def take(self) -> Connection | None:
        """A connection that was used before, if there is one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def connect(self, end: float) -> Connection:
        """A new connection, not later than `end`.

        Raises:
            UpstreamError: it cannot be made; asking again may help, unless the certificate is refused.
        """
        where, seconds = self._where, self._timeouts.connect
        left = end - self.loop.time()
        try:
            async with asyncio.timeout(min(seconds, left)):
                transport, connection = await self.loop.create_connection(
                    self._made, where.host, where.port, ssl=self._tls
                )
        except TimeoutError as error:
            if left < seconds:
                raise UpstreamTimeout(f"the reply took longer than {self._timeouts.total:g} s") from error
            raise UpstreamTimeout(
                f"no connection to `{where.authority}` within {seconds:g} s", should_retry=True
            ) from error
        except (OSError, UnicodeError) as error:
            again = not isinstance(error, ssl.SSLCertVerificationError | UnicodeError)
            raise UpstreamError(f"cannot connect to `{where.authority}`: {error}", should_retry=again) from error
        if not connection.gone:
            self._all.add(connection)
        spoken = transport.get_extra_info("ssl_object")
        if self.closed:
            await connection.abandon()
            raise UpstreamError("this upstream was closed", should_retry=False)
        if spoken is not None and spoken.selected_alpn_protocol() not in _HTTP:
            await connection.abandon()
            raise UpstreamError(f"`{where.authority}` wants to speak `{spoken.selected_alpn_protocol()}`")
        return connection

    async def watch(self) -> None:
        """From now on, connections end with the event loop, whether somebody closes them or not."""
        await anext(self._watch)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Before a loop ends it closes the asynchronous generators that have begun in it: this one waits for that."""
        try:
            yield
        finally:
            self.close()
            await asyncio.gather(*(connection.abandon() for connection in tuple(self._all)))

    async def end(self) -> None:
        """Close, and wait until every connection has ended."""
        if not self.closed:
            await self._watch.aclose()

    def close(self) -> None:
        """End every connection; exchanges under way fail."""
        self.closed = True
        for connection in tuple(self._all):
            connection.abort(UpstreamError("this upstream was closed", should_retry=False))

    def _made(self) -> Connection:
        return Connection(self.loop, self._timeouts, self._keep, self._lost)

    def _keep(self, connection: Connection) -> None:
        if self.closed or len(self._idle) >= MOST_IDLE:
            connection.abort()
        else:
            self._idle.append(connection)

    def _lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
