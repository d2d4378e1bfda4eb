"""Decodes the response of a service into events, whatever the transport is. Supports gzip and deflate.

A reply releases its connection as soon as the last event has been read, and closes it if the reply is truncated.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol

from ...core.events import Event, Failure, Finish, Noted, UsageSeen
from ...core.types import Note, Request
from ...errors import UpstreamError, UpstreamTimeout
from ...protocols.shared.choices_decoder import ChoicesDecoder
from ...protocols.shared.reply_decoder import BaseReplyDecoder
from ..base import DEADLINE, OTHER_ANSWERS, error_of, redact_batch, shorten
from ..codecs import Codec
from .connection import HttpResponse, TruncatedReply

#: Maximum bytes to read from the body of an error response.
MAX_ERROR_BYTES = 64 * 1024
#: Maximum bytes to quote from an unexpected web page.
_MAX_PAGE_BYTES = 4096
#: Seconds to wait after the finish reason for the rest of the reply (usage and the end marker).
AFTER_FINISH_SECONDS = 3.0

#: Content types, and whether they mean a stream. For any other type, the request decides.
_STREAMS = {"text/event-stream": True, "application/x-ndjson": True, "application/json": False}

#: Events that end a reply; events that are not part of the answer, so a failure after only these still counts as one
#: before the first event; events that may quote text from the service, which must be redacted.
_FINAL_EVENTS = frozenset({Finish, Failure})
_METADATA_EVENTS = frozenset({Noted, UsageSeen})
_QUOTING_EVENTS = frozenset({Failure, Noted})

Clean = Callable[[str], str]


class IncomingResponse(Protocol):
    """A response whose head has arrived."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """All headers by lower-case name."""
        ...

    def header(self, name: bytes) -> str:
        """Return the header with this lower-case name, or an empty string."""
        ...

    async def read(self) -> bytes:
        """Return the next piece of the body, or empty bytes at its end."""
        ...

    def finish(self) -> None:
        """Release the connection, because the rest of the body is not needed."""

    async def abandon(self) -> None:
        """Close the connection."""


class ReplyStream:
    def __init__(
        self,
        source: IncomingResponse,
        first: bytes | None,
        decoder: BaseReplyDecoder,
        inflate: Inflater | None,
        clean: Clean,
    ) -> None:
        #: Whether the reply has ended and its connection has been released.
        self.over = False
        self._source = source
        self._first = first
        self._decoder = decoder
        self._inflate = inflate
        self._clean = clean
        self._unread: list[Event] = []
        #: Deadline for the rest of the reply; 0 until the finish reason has arrived.
        self._rest_deadline = 0.0

    async def first(self) -> list[Event]:
        """Return the first batch that contains a part of the answer, preceded by all earlier events."""
        before: list[Event] = []
        while events := await self.next():
            if type(events[-1]) is Failure and all(type(event) in _METADATA_EVENTS for event in events[:-1]):
                raise error_of(events[-1])
            if before:
                events = [*before, *events]
            if self.over or holds_content(events):
                return events
            before = events
        return before

    async def next(self) -> list[Event]:
        """Return the next batch, or an empty one at the end."""
        if self._unread:
            events, self._unread = self._unread, []
            return events
        try:
            while not self.over:
                piece, self._first = self._first, None
                if piece is None:
                    piece = await (self._read_after_finish() if self._decoder.finished else self._source.read())
                events = self.decode(piece) if piece else self.end()
                if events:
                    return events
        except (TruncatedReply, UpstreamTimeout) as error:
            return await self._end_truncated(error)
        return []

    async def _read_after_finish(self) -> bytes:
        """Read what follows the finish reason, for a short time and not beyond the deadline of the turn."""
        now = asyncio.get_running_loop().time()
        if not self._rest_deadline:
            self._rest_deadline = now + min(AFTER_FINISH_SECONDS, (DEADLINE.get() - now) / 2)
        try:
            async with asyncio.timeout_at(self._rest_deadline):
                return await self._source.read()
        except TimeoutError as error:
            raise UpstreamTimeout("the reply did not end after its finish reason") from error

    async def abandon(self) -> None:
        """Close the connection, because the rest of the reply is not needed."""
        self.over = True
        await self._source.abandon()

    @property
    def finished(self) -> bool:
        """Whether the finish reason has arrived. Only usage and the end marker may follow."""
        return self._decoder.finished

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    def unread(self, events: list[Event]) -> None:
        """Let `next` return these events again."""
        self._unread = events

    def decode(self, piece: bytes) -> list[Event]:
        if self._inflate is not None:
            piece = self._inflate.feed(piece)
        events = self._decoder.feed(piece)
        kinds = set(map(type, events))
        if not kinds.isdisjoint(_FINAL_EVENTS):
            return self._finish_with(events)
        return events if kinds.isdisjoint(_QUOTING_EVENTS) else redact_batch(events, self._clean)

    def end(self) -> list[Event]:
        """Return the last events, at the end of the body."""
        if self._inflate is not None and not self._inflate.complete:
            raise TruncatedReply("the compressed reply is incomplete")
        return self._finish_with(self._decoder.close())

    def _finish_with(self, events: list[Event]) -> list[Event]:
        """Return the last events, redacted, and release the connection. Some services would keep it open."""
        self.over = True
        self._source.finish()
        if _QUOTING_EVENTS.isdisjoint(map(type, events)):
            return events
        for at, event in enumerate(events):
            if type(event) is Failure:
                events = events[: at + 1]
        return redact_batch(events, self._clean)

    async def _end_truncated(self, error: UpstreamError) -> list[Event]:
        """Handle a truncated reply. If its finish reason has arrived, the answer is complete.

        A body that is not streamed is a failure if it is shorter than announced, even if it can be decoded, because
        nothing else shows where it ends.
        """
        await self.abandon()
        finished = self._decoder.finished
        if isinstance(error, UpstreamTimeout) and not finished:
            raise error
        events = self._finish_with(self._decoder.close())
        last = next((event for event in events if type(event) in _FINAL_EVENTS), None)
        if isinstance(last, Finish):
            if finished:
                return [Noted(Note("connection_cut", f"after the end of the answer: {error}")), *events]
            events = [event for event in events if type(event) in _METADATA_EVENTS]
        body = last.body if isinstance(last, Failure) else ""
        return [*(event for event in events if event is not last), Failure(str(error), "truncated", body=body)]


def holds_content(events: list[Event]) -> bool:
    """Whether a batch contains a part of the answer."""
    return not _METADATA_EVENTS.issuperset(map(type, events))


def is_ordinary(response: HttpResponse) -> bool:
    """Whether a response is a successful, uncompressed reply. `open_reply` then raises no error."""
    headers = response.raw_headers
    return response.status < 300 and b"content-encoding" not in headers and not _is_page(headers.get(b"content-type"))


@lru_cache(64)
def _is_page(content_type: bytes | None) -> bool:
    return content_type is not None and _without_parameters(content_type.decode("latin-1")) == "text/html"


def _without_parameters(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def open_reply(
    source: IncomingResponse,
    first: bytes | None,
    codec: Codec,
    request: Request,
    clean: Clean,
    never: tuple[bytes, ...] | None = None,
) -> ReplyStream:
    """Return the reply in a successful response. `first`: the first piece of its body; None if it is still to be read.

    Unless `never` is None, events carry their raw bytes, except bytes that contain one of the secrets in `never`.
    """
    encoding = source.header(b"content-encoding")
    inflate = inflater(encoding) if encoding else None
    media = _without_parameters(source.header(b"content-type"))
    if media == "text/html":
        hint = "check the base URL; for OpenAI's protocol it usually ends in /v1"
        page = _plain(inflate, first or b"")[:_MAX_PAGE_BYTES].decode("utf-8", "backslashreplace")
        message = "the service answered with a web page"
        raise UpstreamError(message, hint=hint, upstream_status=source.status, body=shorten(clean(page)))
    streams, n = _STREAMS.get(media, request.stream), request.options.n
    deliver = OTHER_ANSWERS.get() if n > 1 and codec.several_answers else None
    if deliver is None:
        decoder = codec.decoder(streams)
    else:
        decoder = ChoicesDecoder(streams, codec.decoder, n, lambda at, events: deliver(at, redact_batch(events, clean)))
    if never is not None:
        decoder.capture_raw(never)
    return ReplyStream(source, first, decoder, inflate, clean)


async def read_error_body(source: IncomingResponse, body: bytes) -> bytes:
    """Return as much of the body of an error response as can be read. Failures are ignored: the status is enough."""
    try:
        inflate = inflater(source.header(b"content-encoding"))
        body = _plain(inflate, body)
        while len(body) < MAX_ERROR_BYTES and (piece := await source.read()):
            body += _plain(inflate, piece)
    except UpstreamError:
        pass
    return body[:MAX_ERROR_BYTES]


def _plain(inflate: Inflater | None, data: bytes) -> bytes:
    return data if inflate is None else inflate.feed(data)


#: Maximum bytes per body after decompression. Protects against zip bombs, where a few kilobytes expand to gigabytes.
#: The largest reply that may be read in one piece is half of this.
MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
#: Maximum compression ratio, ignoring the first bytes. Streams of similar events reach about 60, a zip bomb 1000.
MAX_RATIO = 200
RATIO_FREE_BYTES = 1024 * 1024

#: Maximum bytes per body before decompression, because an endless body may expand to nothing.
MAX_COMPRESSED_BYTES = MAX_DECOMPRESSED_BYTES
#: Maximum gzip members per body. Some services send one per event. Each costs a few microseconds, even if empty.
MAX_MEMBERS = 100_000
#: Size of the first piece to decompress of each member. It then doubles, so few bytes beyond the end are copied.
_FIRST_PIECE = 256

_GZIP = 16 + zlib.MAX_WBITS
_NON_ZERO = re.compile(rb"[^\0]")
#: Supported content codings (RFC 9110, section 8.4.1).
_CODINGS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}
#: Codings that change nothing.
_IDENTITY = ("", "identity")


def inflater(encoding: str) -> Inflater | None:
    """Return the decompressor for a Content-Encoding header, or None if the body is not compressed."""
    codings = [coding for part in encoding.lower().split(",") if (coding := part.strip()) not in _IDENTITY]
    if not codings:
        return None
    if len(codings) > 1 or codings[0] not in _CODINGS:
        # Do not quote the name, because a header may contain anything.
        raise UpstreamError("the reply is compressed in a way that was not requested")
    return Inflater(_CODINGS[codings[0]])


class Inflater:
    """Decompresses a body incrementally, with limits."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)
        self._started = False
        self._pending = b""
        self._in = 0
        self._out = 0
        self._members = 1

    def feed(self, data: bytes) -> bytes:
        self._in += len(data)
        if self._in > MAX_COMPRESSED_BYTES:
            raise UpstreamError(f"the compressed reply is larger than {MAX_COMPRESSED_BYTES} bytes")
        data = self._begin(data) if not self._started else data
        plain: list[bytes] = []
        view = memoryview(data)
        at, size = 0, _FIRST_PIECE
        try:
            while at < len(data):
                if self._stream.eof:
                    at = self._next_member(data, at)
                    size = _FIRST_PIECE
                    if at == len(data):
                        break
                piece = view[at : at + size]
                plain.append(self._take(piece))
                at += len(piece) - len(self._stream.unused_data)
                size *= 2
        except zlib.error as error:
            raise UpstreamError(f"the compressed reply is invalid: {error}") from error
        return b"".join(plain)

    def _next_member(self, data: bytes, at: int) -> int:
        if self._window != _GZIP:
            return len(data)  # only gzip (RFC 1952) allows several members
        following = _NON_ZERO.search(data, at)  # zero padding may follow a member
        at = len(data) if following is None else following.start()
        if at < len(data):
            self._members += 1
            if self._members > MAX_MEMBERS:
                raise UpstreamError(f"the compressed reply has more than {MAX_MEMBERS} members")
            self._stream = zlib.decompressobj(self._window)
        return at

    @property
    def complete(self) -> bool:
        return self._stream.eof or not self._in

    def _begin(self, data: bytes) -> bytes:
        """Detect raw deflate. RFC 9110 requires zlib's two-byte header, but some services omit it."""
        data, self._pending = self._pending + data, b""
        if len(data) < 2:
            self._pending = data
            return b""
        self._started = True
        if self._window == zlib.MAX_WBITS and (data[0] & 15 != 8 or (data[0] << 8 | data[1]) % 31):
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        return data

    def _take(self, data: memoryview) -> bytes:
        allowed = min(MAX_DECOMPRESSED_BYTES, RATIO_FREE_BYTES + MAX_RATIO * self._in) - self._out
        # Ask for one byte more than allowed, to detect excess output.
        plain = self._stream.decompress(data, allowed + 1)
        self._out += len(plain)
        if len(plain) > allowed:
            raise UpstreamError(f"the reply is larger than {self._out - 1} bytes after decompression")
        return plain
