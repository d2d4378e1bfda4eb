"""The first transport: one HTTP/1.1 exchange for each request, on asyncio streams.

Above: the client, by the seam. Below: `address` (where, and with which headers), `response` (bytes to body),
`codecs` (body to events). It verifies TLS, follows no redirect, never retries, and lets go of the connection when
its answer is closed. The key stands in one header and nowhere else: what an upstream says in an error is freed of
it before anybody sees it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import aclosing, suppress
from functools import cache
from typing import TypeVar

import msgspec

from ..core.events import Event, Failure, Finish, Noted
from ..core.model import Note, Request
from ..errors import UpstreamError, UpstreamTimeout, UsageError
from .address import address, header_block, secrets_in
from .codecs import Decoder, codec
from .response import Response
from .seam import Batches, cleaned, error_of, settled, shorten

__all__ = ["HttpUpstream", "Timeouts"]

#: Bytes of one read.
_READ = 64 * 1024
#: Of what an error says, this much is read.
MOST_ERROR = 64 * 1024

#: What a content type says about a reply: whether it is a stream. Any other is taken to be what was asked for.
_STREAMS = {"text/event-stream": True, "application/x-ndjson": True, "application/json": False}

#: What stands in the place of a secret.
_HIDDEN = "***"
#: The beginning of a secret at the end of a text that was cut; anything shorter tells nothing.
_SHORTEST_PART = 4

T = TypeVar("T")


class Timeouts(msgspec.Struct, frozen=True):
    """How long to wait, in seconds."""

    #: For a connection, the name and TLS included. A host that is there answers within a second.
    connect: float = 10.0
    #: For the first byte of the reply. Long, since a reply that is not streamed comes only when it is complete.
    first_byte: float = 600.0
    #: Between two reads of a reply.
    idle: float = 60.0
    #: For everything together.
    total: float = 3600.0


class HttpUpstream:
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
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._codec = codec(protocol)
        self._address = address(base_url)
        self.base_url = self._address.url
        self.protocol = protocol
        self.provider = provider or self._codec.provider
        self.timeouts = timeouts or Timeouts()
        given = {self._codec.key_header: f"{self._codec.key_prefix}{api_key}"} if api_key else {}
        extra = dict(headers)
        self._headers = header_block(self._address, given | extra)
        self._secrets = secrets_in([api_key, *extra.values()])
        self._tls = (tls or _default_tls()) if self._address.secure else None
        self._writers: set[asyncio.StreamWriter] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"HttpUpstream({self.base_url!r}, protocol={self.protocol!r}, provider={self.provider!r})"

    def open(self, request: Request) -> Batches:
        """Post the request and read the reply."""
        return settled(self._exchange(request), self._clean)

    async def close(self) -> None:
        """Drop every connection; exchanges under way fail."""
        self._closed = True
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _exchange(self, request: Request) -> Batches:
        if self._closed:
            raise UsageError("this upstream is closed")
        payload = self._codec.encode(request)
        waits = _Waits(self.timeouts)
        reader, writer = await self._connect(waits)
        self._writers.add(writer)
        try:
            if self._closed:
                raise UpstreamError("this upstream was closed")
            # Not drained: the payload is in memory anyway, and a service may answer before it has read it all.
            # One that has gone already is found out by the first read, but uvloop says so here.
            with suppress(RuntimeError):
                writer.write(self._head(request, len(payload)) + payload)
            async with aclosing(self._reply(request, _Body(reader, waits))) as batches:
                async for batch in batches:
                    yield batch
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def _connect(self, waits: _Waits) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = self._address
        connecting = asyncio.open_connection(where.host, where.port, ssl=self._tls, limit=_READ)
        try:
            return await waits.within(self.timeouts.connect, connecting, f"connection to `{where.authority}`")
        except OSError as error:
            raise UpstreamError(f"cannot connect to `{where.authority}`: {error}") from error

    def _head(self, request: Request, length: int) -> bytes:
        target = f"{self._address.path}{self._codec.path(request)}"
        line = f"POST {target} HTTP/1.1\r\n".encode("ascii")
        return b"%bContent-Length: %d\r\n%b\r\n" % (line, length, self._headers)

    async def _reply(self, request: Request, body: _Body) -> Batches:
        """The events of a reply, from its first byte on."""
        piece = await body.read()
        response = body.response
        if response.status >= 300:
            raise await self._refused(body, piece)
        decoder = self._codec.decoder(_is_stream(response, request, self._shown(piece)))
        try:
            while piece:
                events = decoder.feed(piece)
                yield events
                if _last(events) is not None:
                    # Some services keep the connection after the last word; there is nothing left to wait for.
                    return
                piece = await body.read()
            yield decoder.close()
        except (_Cut, UpstreamTimeout) as error:
            yield _ended_by(error, decoder)

    async def _refused(self, body: _Body, said: bytes) -> UpstreamError:
        """What an answer that is no reply means."""
        status = body.response.status
        if status < 400:
            hint = "a redirect is not followed: set the base URL to where the service is"
            return UpstreamError(f"`{self._address.authority}` answered {status}", hint=hint, upstream_status=status)
        with suppress(UpstreamError):
            # Whatever breaks here, the status alone is worth telling.
            while len(said) < MOST_ERROR and (piece := await body.read()):
                said += piece
        for secret in self._secrets:
            said = said.replace(secret.encode("latin-1"), _HIDDEN.encode())
        return error_of(cleaned(self._codec.error(status, said[:MOST_ERROR], body.response.headers), self._clean))

    def _shown(self, body: bytes) -> str:
        return shorten(self._clean(body[:_READ].decode("utf-8", "replace")))

    def _clean(self, text: str) -> str:
        """A text without the key; it may have been cut inside it."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
            for size in range(len(secret) - 1, _SHORTEST_PART - 1, -1):
                if text.endswith(secret[:size]):
                    text = f"{text[:-size]}{_HIDDEN}"
        return text


class _Cut(UpstreamError):
    """The connection ended before the reply did."""


class _Waits:
    """The clocks of one exchange."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self._end = asyncio.get_running_loop().time() + timeouts.total

    async def within(self, seconds: float, waiting: Awaitable[T], what: str) -> T:
        """Wait, but not longer than this, nor longer than all may take together."""
        left = self._end - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(seconds, left)):
                return await waiting
        except TimeoutError as error:
            if left < seconds:
                raise UpstreamTimeout(f"the reply took longer than {self.timeouts.total:g} s") from error
            raise UpstreamTimeout(f"no {what} within {seconds:g} s") from error


class _Body:
    """The body of a reply, read by read."""

    def __init__(self, reader: asyncio.StreamReader, waits: _Waits) -> None:
        self.response = Response()
        self._reader = reader
        self._waits = waits
        self._seconds = waits.timeouts.first_byte
        self._awaited = "first byte of a reply"

    async def read(self) -> bytes:
        """The next piece; nothing at the end."""
        while not self.response.complete:
            try:
                data = await self._waits.within(self._seconds, self._reader.read(_READ), self._awaited)
            except OSError as error:
                raise _Cut(f"the connection broke: {error}") from error
            if not data:
                if self.response.whole():
                    break
                raise _Cut("the connection ended before the reply did")
            if piece := self.response.feed(data):
                self._seconds, self._awaited = self._waits.timeouts.idle, "further byte of the reply"
                return piece
        return b""


def _is_stream(response: Response, request: Request, shown: str) -> bool:
    """Whether a reply is a stream: some services stream unasked, some do not when asked.

    Raises:
        UpstreamError: it is nothing that a model could have said.
    """
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UpstreamError("the reply is compressed, which was not asked for", upstream_status=response.status)
    if media == "text/html":
        hint = "check the base URL; for OpenAI's protocol it usually ends in /v1"
        message = "the service answered with a web page"
        raise UpstreamError(message, hint=hint, upstream_status=response.status, body=shown)
    return _STREAMS.get(media, request.stream)


def _ended_by(error: UpstreamError, decoder: Decoder) -> list[Event]:
    """The end of a reply that did not come to its end; it is whole where the model had said why it stopped.

    Raises:
        UpstreamTimeout: it is not whole, and may never be.
    """
    if isinstance(error, UpstreamTimeout) and not decoder.finished:
        raise error
    events = decoder.close()
    last = _last(events)
    if isinstance(last, Finish):
        return [Noted(Note("connection_cut", f"behind the last word: {error}")), *events]
    said = last.body if last is not None else ""
    return [*(event for event in events if event is not last), Failure(str(error), "truncated", body=said)]


def _last(events: list[Event]) -> Finish | Failure | None:
    """The event behind which nothing comes."""
    for event in reversed(events):
        if isinstance(event, Finish | Failure):
            return event
    return None


@cache
def _default_tls() -> ssl.SSLContext:
    """Certificates and names are verified. Made once: it takes longer than many an exchange."""
    return ssl.create_default_context()
