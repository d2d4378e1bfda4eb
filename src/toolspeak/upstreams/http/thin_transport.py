"""The transport for everyday use: HTTP/1.1 over kept connections, with as little work for each request as there can be. TLS is
verified. A connection that had gone while it was kept is replaced once, if no byte of an answer had come. Proxies and
HTTP/2 are for `httpx2`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from functools import cache

from ...core.events import Event, Noted
from ...core.types import Note
from ...errors import UpstreamError
from .address import header_block
from .connection import Connection, Cut, Timeouts
from .pool import Pool
from .retry import Retry, World
from .service import Service

#: Paths whose heads are kept ready; some protocols name the model in the path.
_MOST_HEADS = 256


class HttpUpstream(Service):
    """A service that speaks `protocol` below `base_url`."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        protocol: str = "openai_chat",
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        provider: str = "",
        model: str = "",
        tls: ssl.SSLContext | None = None,
        retry: Retry | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__(
            base_url, api_key, protocol, timeouts, headers, provider=provider, model=model, retry=retry, world=world
        )
        self._tls = (tls or _default_tls()) if self._address.secure else None
        self._block = header_block(self._address, self._lines)
        self._heads: dict[str, bytes] = {}
        #: Connections belong to the event loop that made them.
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    async def close(self) -> None:
        """Drop every connection; exchanges under way fail."""
        await super().close()
        here = asyncio.get_running_loop()
        for loop, pool in tuple(self._pools.items()):
            if loop is here:
                await pool.end()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(pool.close)

    async def aside(self, target: str, payload: bytes = b"", *, seconds: float = 5.0, most: int = 1 << 20) -> bytes:
        """What the host answers beside the protocol, at this absolute path: by GET, or by POST with a payload.

        Raises:
            UpstreamError: not with status 200, or not in that time; more than `most` bytes are not read.
        """
        _check_target(target)
        length = b"Content-Length: %d\r\n" % len(payload) if payload else b""
        head = b"%b %b HTTP/1.1\r\n%b%b\r\n" % (b"POST" if payload else b"GET", target.encode(), self._block, length)
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        connection = await (self._pools.get(loop) or await self._pool(loop)).connect(end)
        try:
            connection.start(head, payload, end)
            body = piece = await connection.read()
            if connection.status != 200:
                raise UpstreamError("the service does not say that", upstream_status=connection.status)
            while piece and len(body) <= most:
                piece = await connection.read()
                body += piece
            return body
        finally:
            # Not worth keeping: such questions are rare.
            await connection.abandon()

    async def _post(self, path: str, payload: bytes, end: float, notes: list[Event]) -> tuple[Connection, bytes]:
        head = b"%b%d\r\n\r\n" % (self._heads.get(path) or self._head(path), len(payload))
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = await self._pool(loop)
        connection = pool.take()
        if connection is not None:
            try:
                return connection, await _sent(connection, head, payload, end)
            except Cut as error:
                if connection.heard or self._closed:
                    raise
                notes.append(Noted(Note("upstream_retry", f"asked again at once: a kept connection was gone: {error}")))
        connection = await pool.connect(end)
        return connection, await _sent(connection, head, payload, end)

    def _head(self, path: str) -> bytes:
        """Everything before the length of the payload."""
        target = f"{self._address.path}{path}"
        _check_target(target)
        head = b"POST %b HTTP/1.1\r\n%bContent-Length: " % (target.encode(), self._block)
        if len(self._heads) < _MOST_HEADS:
            self._heads[path] = head
        return head

    async def _pool(self, loop: asyncio.AbstractEventLoop) -> Pool:
        for other in [other for other in self._pools if other.is_closed()]:
            del self._pools[other]
        pool = self._pools[loop] = Pool(self._address, self._tls, self.timeouts)
        await pool.watch()
        return pool


def _check_target(target: str) -> None:
    """Before it becomes a line of a request: nothing may end that line, or part it otherwise."""
    if not target.isascii() or not target.isprintable() or " " in target:
        raise UpstreamError("the path of the request holds a character that it cannot hold")


async def _sent(connection: Connection, head: bytes, payload: bytes, end: float) -> bytes:
    """Send a request; gives the first piece of the body that answers it."""
    try:
        connection.start(head, payload, end)
        return await connection.read()
    except BaseException:
        await connection.abandon()
        raise


@cache
def _default_tls() -> ssl.SSLContext:
    """Certificates and names are verified. Made once: it takes longer than many an exchange."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
