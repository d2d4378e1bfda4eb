"""One HTTP/1.1 response, read from bytes wherever they are cut.

No sockets and no clock: bytes go in, the status, the headers and the bytes of the body come out. Above: `http`.
Below: the parser of httptools, which is strict about everything that could hide a second response in the first.
"""

from __future__ import annotations

import httptools

from ..errors import UpstreamError

__all__ = ["MOST_HEAD", "Response"]

#: Bytes that may come without any of the body among them. It bounds headers, trailers, and informational responses
#: one after the other; servers in use accept 8 to 64 KiB of headers themselves.
MOST_HEAD = 64 * 1024


class Response:
    """A response as it arrives."""

    def __init__(self) -> None:
        #: 0 until the status line of the final response has been read.
        self.status = 0
        #: By lower-case name; of a header that comes twice, the last.
        self.headers: dict[str, str] = {}
        #: All headers of the final response are there.
        self.started = False
        #: The whole response is there.
        self.complete = False
        self._body: list[bytes] = []
        self._without_body = 0
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> bytes:
        """Take what one read brought; gives the part of it that belongs to the body.

        Raises:
            UpstreamError: this is not a response, or one with too long a head.
        """
        if self.complete:
            return b""
        self._without_body += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # What stands behind a complete response is never read.
            if not self.complete:
                raise UpstreamError(f"the answer is not HTTP: {error}") from error
        if self._without_body > MOST_HEAD:
            raise UpstreamError(f"the head of the answer is longer than {MOST_HEAD} bytes")
        body = b"".join(self._body)
        self._body.clear()
        return body

    def whole(self) -> bool:
        """Whether nothing is missing, now that the connection has ended."""
        framed = "content-length" in self.headers or "transfer-encoding" in self.headers
        return self.complete or (self.started and not framed)

    # What follows is called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nobody asked for."""
        if not self.started:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The end of a head."""
        status = self._parser.get_status_code()
        if status < 200:
            # An informational response: the real one follows.
            self.headers.clear()
        else:
            self.status = status
            self.started = True

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if not self.complete:
            self._without_body = 0
            self._body.append(body)

    def on_message_complete(self) -> None:
        """The end of a response."""
        self.complete = self.started
