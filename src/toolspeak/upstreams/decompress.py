"""Bodies that a service compresses although it was not asked to: gzip and deflate, with a cap.

Above: `answer`. Below: zlib. A few kilobytes can stand for gigabytes, so what comes out is bounded by what went in and
by a size, and is never made before it is allowed.
"""

from __future__ import annotations

import zlib

from ..errors import UpstreamError

__all__ = ["FREE", "MOST_PLAIN", "MOST_RATIO", "Inflater", "inflater"]

#: Bytes that may come out of one body. The largest answer that is read in one piece is half of it.
MOST_PLAIN = 64 * 1024 * 1024
#: How many times larger a body may become, beyond what is free. Streams of similar events reach about 60; a bomb 1000.
MOST_RATIO = 200
FREE = 1024 * 1024

_GZIP = 16 + zlib.MAX_WBITS
#: Content codings that are understood, by RFC 9110, section 8.4.1.
_CODINGS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}


def inflater(encoding: str) -> Inflater | None:
    """What undoes a content encoding; None where there is nothing to undo.

    Raises:
        UpstreamError: the encoding is not understood.
    """
    coding = encoding.strip().lower()
    if coding in ("", "identity"):
        return None
    if coding not in _CODINGS:
        # What it is called is not shown: a header may hold anything.
        raise UpstreamError("the reply is compressed in a way that was not asked for")
    return Inflater(_CODINGS[coding])


class Inflater:
    """Turns a compressed body into a plain one, wherever it is cut."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)
        self._begun = False
        self._held = b""
        self._in = 0
        self._out = 0

    def feed(self, data: bytes) -> bytes:
        """What these bytes stand for.

        Raises:
            UpstreamError: they are not what the header says, or far too much.
        """
        self._in += len(data)
        data = self._begin(data) if not self._begun else data
        plain: list[bytes] = []
        try:
            while data:
                plain.append(self._take(data))
                data = self._stream.unused_data
                if data and self._window == _GZIP:
                    # Another member may follow, by RFC 1952; behind anything else nothing may.
                    self._stream = zlib.decompressobj(self._window)
                elif data:
                    break
        except zlib.error as error:
            raise UpstreamError(f"the reply is not compressed as it says: {error}") from error
        return b"".join(plain)

    @property
    def whole(self) -> bool:
        """Whether the end has been seen."""
        return self._stream.eof or not self._in

    def _begin(self, data: bytes) -> bytes:
        """By RFC 9110 `deflate` has zlib's two bytes before it; some services leave them out."""
        data, self._held = self._held + data, b""
        if len(data) < 2:
            self._held = data
            return b""
        self._begun = True
        if self._window == zlib.MAX_WBITS and (data[0] & 15 != 8 or (data[0] << 8 | data[1]) % 31):
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        return data

    def _take(self, data: bytes) -> bytes:
        allowed = min(MOST_PLAIN, FREE + MOST_RATIO * self._in) - self._out
        # One byte more than allowed tells whether there is more.
        plain = self._stream.decompress(data, allowed + 1)
        self._out += len(plain)
        if len(plain) > allowed:
            raise UpstreamError(f"the reply is larger than {self._out - 1} bytes once it is no longer compressed")
        return plain
