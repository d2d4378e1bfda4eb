"""HTTP/1.1 responses, one after the other, read from bytes wherever they are cut.

No sockets and no clock: bytes go in, the status, the headers and the bytes of the body come out.
"""

from __future__ import annotations

import httptools

from ...errors import UpstreamError

#: Bytes of a head with the informational responses before it, of all trailers, and of reads one after the other that
#: bring nothing of the body. Servers in use accept 8 to 64 KiB of headers themselves.
MOST_HEAD = 64 * 1024
#: Bytes of a header line that are neither name nor value: colon, space, and the end of the line.
_AROUND = 4


class Response:
    """A response as it arrives; `restart` makes it ready for the next one on the same connection."""

    __slots__ = (
        "_body",
        "_feed",
        "_parser",
        "_raw",
        "_trailers",
        "_without_body",
        "complete",
        "error",
        "reusable",
        "started",
        "status",
    )

    def __init__(self) -> None:
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._feed = self._parser.feed_data
        self.restart()

    def restart(self) -> None:
        """Forget the last response."""
        #: 0 until the status line of the final response has been read.
        self.status = 0
        #: All headers of the final response are there.
        self.started = False
        #: The whole response is there.
        self.complete = False
        #: What comes is not a response, or one with too long a head. What came before that counts.
        self.error: UpstreamError | None = None
        #: It is complete, and another one may follow on the same connection.
        self.reusable = False
        self._raw: dict[bytes, bytes] = {}
        self._trailers = 0
        #: Bytes since the beginning, the end of the head, or the last read with a part of the body.
        self._without_body = 0

    @property
    def headers(self) -> dict[str, str]:
        """By lower-case name; of a header that comes twice, the last. Content encodings are one list."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self._raw.items()}

    def header(self, name: bytes) -> str:
        """The value of a header, by lower-case name."""
        return self._raw.get(name, b"").decode("latin-1")

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; gives the part of it that belongs to the body. Look at `error` then."""
        room = MOST_HEAD - self._without_body
        if len(data) > room and not self.started:
            # Cut where the head must have ended, so that it does not matter where the network cuts.
            self._parse(data[:room])
            data = data[room:]
            if not self.started:
                self._too_long()
        self._parse(data)
        if self._without_body > MOST_HEAD or self._trailers > MOST_HEAD:
            self._too_long()
        pieces = self._body
        if not pieces:
            return b""
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return body

    def _parse(self, data: bytes) -> None:
        if self.error is not None:
            return
        self._without_body += len(data)
        try:
            self._feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.reusable = False
            # What stands behind a complete response is never read.
            if not self.complete and self.error is None:
                upgrade = isinstance(error, httptools.HttpParserUpgrade)
                self.error = UpstreamError(f"the answer is not HTTP: {'another protocol' if upgrade else error}")

    def _too_long(self) -> None:
        self.error = self.error or UpstreamError(f"the head of the answer is longer than {MOST_HEAD} bytes")

    def end(self) -> bool:
        """The connection has ended. Gives whether nothing is missing."""
        framed = b"content-length" in self._raw or b"transfer-encoding" in self._raw
        self.reusable = False
        self.complete = self.complete or (self.started and not framed)
        return self.complete

    # What follows is called by the parser.

    def on_message_begin(self) -> None:
        """The first byte of a response: behind a complete one nobody has asked for it."""
        self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nobody asked for."""
        if not self.started:
            name = name.lower()
            if name == b"content-encoding" and name in self._raw:
                value = self._raw[name] + b", " + value
            self._raw[name] = value
        elif not self.complete:
            self._trailers += len(name) + len(value) + _AROUND

    def on_headers_complete(self) -> None:
        """The end of a head."""
        if self.complete:
            return
        status = self._parser.get_status_code()
        if status < 100:
            self.error = UpstreamError("the answer is not HTTP: its status is below 100")
            raise self.error  # the parser reads no further
        if status < 200:
            # An informational response: the real one follows.
            self._raw.clear()
        else:
            self.status = status
            self.started = True
            self._without_body = 0

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if not self.complete:
            self._without_body = 0
            self._body.append(body)

    def on_message_complete(self) -> None:
        """The end of a response."""
        if self.started and not self.complete and self._trailers <= MOST_HEAD:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()
