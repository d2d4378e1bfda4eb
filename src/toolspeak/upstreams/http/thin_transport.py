"""The default transport: HTTP/1.1 over pooled keep-alive connections, with minimal work per request.

TLS certificates are verified. If a pooled connection turns out to be closed, and no byte of a response has arrived, the
request is sent once more on a new connection. Proxies and HTTP/2 need `httpx2_transport`.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from functools import cache
from typing import Unpack

from ...config import TransportRoute
from ...core.events import Event, Failure, Noted
from ...core.types import JSONValue, Note, Request, is_array, is_object
from ...errors import ConfigError, UpstreamError
from ...protocols.shared.fields import read_json
from ..base import Batches, redact_batch
from .address import header_block
from .connection import ConnectionPool, HttpConnection, Timeouts, TruncatedReply
from .event_stream import ReplyStream, holds_content, is_ordinary, open_reply
from .retry import Retry
from .service import Posted, Service, ServiceOptions

#: Limits on lists of models: seconds, bytes, names, and the length of a name. The longest known list, a broker's with
#: about 400 models, is half that size.
LIST_SECONDS = 5.0
_MAX_LIST_BYTES, _MAX_LISTED, MAX_NAME_CHARS = 2 * 1024 * 1024, 2000, 256
#: Maximum number of cached request heads. Some protocols put the model into the path, so there may be many.
_MAX_CACHED_HEADS = 256


class HttpUpstream(Service):
    """A service at `base_url` that speaks `protocol`."""

    #: Whether connections to an address are refused.
    refuses: Callable[[str], bool] | None = None

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        protocol: str = "openai_chat",
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        tls: ssl.SSLContext | None = None,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(base_url, api_key, protocol, timeouts, headers, **options)
        self._tls = (tls or _default_tls()) if self._address.secure else None
        self._block = header_block(self._address, self._lines)
        self._heads: dict[str, bytes] = {}
        #: One pool per event loop, because connections belong to the loop that opened them.
        self._pools: dict[asyncio.AbstractEventLoop, ConnectionPool] = {}

    async def close(self) -> None:
        await super().close()
        here = asyncio.get_running_loop()
        for loop, pool in tuple(self._pools.items()):
            if loop is here:
                await pool.end()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(pool.close)

    async def aside(self, target: str, payload: bytes = b"", *, seconds: float = 5.0, most: int = 1 << 20) -> bytes:
        """Request a path that is not part of the protocol: GET, or POST if there is a payload."""
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
                raise UpstreamError("the service does not offer this path", upstream_status=connection.status)
            while piece and len(body) <= most:
                piece = await connection.read()
                body += piece
            return body
        finally:
            # Pooling is not worthwhile, because such requests are rare.
            await connection.abandon()

    async def model_names(self) -> tuple[str, ...]:
        """Return the names of the upstream's models. Raises UpstreamError if it does not list them."""
        path, list_field, name_field = self._codec.model_list or ("", "", "")
        if not path:
            raise UpstreamError("the protocol has no list of models")
        target = f"{self._address.path}{self._version}{path}"
        body = read_json(await self.aside(target, seconds=LIST_SECONDS, most=_MAX_LIST_BYTES))
        rows = body.get(list_field) if is_object(body) else None
        if not is_array(rows):
            raise UpstreamError("the upstream does not list its models", upstream_status=200)
        names = (_model_name(row.get(name_field)) for row in rows if is_object(row))
        return tuple(dict.fromkeys(name for name in names if name))[:_MAX_LISTED]

    async def _post(self, path: str, posted: Posted) -> tuple[HttpConnection, bytes]:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = await self._pool(loop)
        connection, posted.connection = posted.connection, None
        sent = connection is not None
        connection = connection or pool.take()
        head, payload, end = self._full_head(path, posted.payload), posted.payload, posted.end
        if connection is not None:
            try:
                return connection, await _send(connection, head, payload, end, sent=sent)
            except TruncatedReply as error:
                if connection.has_response_bytes or self._closed:
                    raise
                note = Note("upstream_retry", f"retried at once: a pooled connection was closed: {error}")
                posted.notes.append(Noted(note))
        connection = await pool.connect(end)
        return connection, await _send(connection, head, payload, end)

    def post_now(self, request: Request, on_ready: Callable[[], None], *, passthrough_bytes: bool) -> Posted | None:
        """Send a request at once, if there is an idle connection. `on_ready` is called when `poll` has more to return.

        Call `resume` if the rest has to wait, or `abort`.
        """
        pool = self._pools.get(asyncio.get_running_loop())
        if pool is None or not pool.idle or self._closed:
            return None
        never = self._never if self._passes_bytes(request, passthrough_bytes) else None
        posted = self._prepare(request, never)
        head = self._full_head(self._version + self._codec.path(request), posted.payload)
        connection = pool.take()  # after everything that may raise an error
        if connection is None:
            return None
        posted.connection = connection
        connection.on_ready = on_ready
        connection.start(head, posted.payload, posted.end)
        return posted

    def poll(self, posted: Posted) -> list[Event] | None:
        """Return the events that have arrived; None if only `resume` can go on.

        `posted.over` tells the end. If `posted.ends`, the end has arrived and is returned next time.
        """
        connection, answer = posted.connection, posted.answer
        assert connection is not None
        if answer is None:
            if not connection.status:
                return None if connection.failed else []
            if not is_ordinary(connection.response):
                return None
            events = self._decode_whole(posted, connection)
            if events is not None:
                return self._started(posted, events)
            answer = self._open(posted, connection)
        piece = connection.read_now()
        if not piece and not connection.response.complete:
            return None if connection.failed else []
        events = answer.decode(piece) if piece else []
        if not events and not answer.over and connection.response.complete:
            events = answer.end()
        posted.over = answer.over
        posted.ends = connection.response.complete and not answer.over
        if posted.started or not events:
            return events
        if type(events[-1]) is Failure or not (answer.over or holds_content(events)):
            answer.unread(events)
            return None
        return self._started(posted, events)

    def _decode_whole(self, posted: Posted, connection: HttpConnection) -> list[Event] | None:
        """Return the events of an ordinary reply that has arrived completely, or None."""
        decode, body = self._codec.decode_reply, connection.whole_body
        events = decode(body) if decode is not None and body and not posted.request.stream else None
        if events is not None:
            posted.over = True
            connection.finish()
        return events

    def _open(self, posted: Posted, connection: HttpConnection) -> ReplyStream:
        posted.answer = open_reply(connection, None, self._codec, posted.request, self._clean, posted.never)
        return posted.answer

    def _started(self, posted: Posted, events: list[Event]) -> list[Event]:
        """Return the first events of a reply, after the notes about its request."""
        posted.started = True
        return [*redact_batch(posted.notes, self._clean), *events] if posted.notes else events

    def unread(self, posted: Posted, events: list[Event]) -> None:
        """Let `resume` return these events, which `poll` has returned, again."""
        assert posted.connection is not None
        answer = posted.answer or self._open(posted, posted.connection)
        answer.over = posted.over
        answer.unread(events)

    async def resume(self, posted: Posted) -> Batches:
        """Yield the rest of the events, waiting for them and retrying as `open` does."""
        async with aclosing(self._rest(posted)) as batches:
            async for batch in batches:
                yield batch

    def _full_head(self, path: str, payload: bytes) -> bytes:
        return b"%b%d\r\n\r\n" % (self._heads.get(path) or self._head(path), len(payload))

    def _head(self, path: str) -> bytes:
        """Return the request head up to the value of Content-Length."""
        target = f"{self._address.path}{path}"
        _check_target(target)
        head = b"POST %b HTTP/1.1\r\n%bContent-Length: " % (target.encode(), self._block)
        if len(self._heads) < _MAX_CACHED_HEADS:
            self._heads[path] = head
        return head

    async def _pool(self, loop: asyncio.AbstractEventLoop) -> ConnectionPool:
        for other in [other for other in self._pools if other.is_closed()]:
            del self._pools[other]
        pool = self._pools[loop] = ConnectionPool(self._address, self._tls, self.timeouts)
        pool.refuses = self.refuses
        await pool.watch()
        return pool


def _model_name(value: JSONValue) -> str:
    """Return a model name from a list entry; empty if it is invalid or not printable."""
    name = value.removeprefix("models/") if isinstance(value, str) else ""
    return name if len(name) <= MAX_NAME_CHARS and name.isprintable() else ""


def _check_target(target: str) -> None:
    """Reject characters that could end or split the request line."""
    if not target.isascii() or not target.isprintable() or " " in target:
        raise UpstreamError("the request path contains an invalid character")


async def _send(connection: HttpConnection, head: bytes, payload: bytes, end: float, *, sent: bool = False) -> bytes:
    """Send a request, unless it was `sent` already, and return the first piece of the response body."""
    try:
        if not sent:
            connection.start(head, payload, end)
        return await connection.read()
    except BaseException:
        await connection.abandon()
        raise


@cache
def _default_tls() -> ssl.SSLContext:
    """Return TLS settings that verify certificates and host names. Cached, because creating them is slow."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def open_service(
    route: TransportRoute,
    base_url: str,
    api_key: str = "",
    protocol: str = "openai_chat",
    timeouts: Timeouts | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    provider: str = "",
    retry: Retry | None = None,
) -> Service:
    """Return the service at `base_url`, with the transport that `route` selects. Adds a note if a proxy is used."""
    common = (base_url, api_key, protocol, timeouts, headers or {})
    if route.transport == "thin":
        return HttpUpstream(*common, provider=provider, retry=retry)
    from .httpx2_transport import Httpx2Upstream

    notes = (Note("proxy_used", f"sent through the proxy set by {route.variable}"),) if route.proxy else ()
    try:
        return Httpx2Upstream(*common, provider=provider, retry=retry, proxy=route.proxy.reveal(), notes=notes)
    except ConfigError as error:
        if route.variable:
            error.hint = f'{error.hint}; or bypass the proxy set by {route.variable}: transport = "thin"'
        raise
