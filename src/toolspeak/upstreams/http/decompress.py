"""Bodies that a service compresses although it was not asked to: gzip and deflate, with a cap. A few kilobytes can stand for gigabytes, so what comes out is bounded by what went in and
by a size, and is never made before it is allowed.
"""

from __future__ import annotations

import re
import zlib

from ...errors import UpstreamError

#: Bytes that may come out of one body. The largest answer that is read in one piece is half of it.
MOST_PLAIN = 64 * 1024 * 1024
#: How many times larger a body may become, beyond what is free. Streams of similar events reach about 60; a bomb 1000.
MOST_RATIO = 200
FREE = 1024 * 1024

#: Bytes that may go in, for a body may go on for ever and stand for nothing.
MOST_PACKED = MOST_PLAIN
#: Members of one body. Some services make one for each event; each costs some microseconds, however little it holds.
MOST_MEMBERS = 100_000
#: Bytes of a member that are looked at first, then twice as many: what lies behind its end is copied once.
_FIRST_PIECE = 256

_GZIP = 16 + zlib.MAX_WBITS
_OTHER = re.compile(rb"[^\0]")
#: Content codings that are understood, by RFC 9110, section 8.4.1.
_CODINGS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}
#: Members of the list that change nothing.
_NOTHING = ("", "identity")


def _padding(data: bytes, at: int) -> int:
    """Where zeros that fill up a block, or a tape, end."""
    found = _OTHER.search(data, at)
    return len(data) if found is None else found.start()


def inflater(encoding: str) -> Inflater | None:
    """What undoes a content encoding, which is a list; None where there is nothing to undo.

    Raises:
        UpstreamError: the encoding is not understood.
    """
    codings = [coding for part in encoding.lower().split(",") if (coding := part.strip()) not in _NOTHING]
    if not codings:
        return None
    if len(codings) > 1 or codings[0] not in _CODINGS:
        # What it is called is not shown: a header may hold anything.
        raise UpstreamError("the reply is compressed in a way that was not asked for")
    return Inflater(_CODINGS[codings[0]])


class Inflater:
    """Turns a compressed body into a plain one, wherever it is cut."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)
        self._begun = False
        self._held = b""
        self._in = 0
        self._out = 0
        self._members = 1

    def feed(self, data: bytes) -> bytes:
        """What these bytes stand for.

        Raises:
            UpstreamError: they are not what the header says, or far too much.
        """
        self._in += len(data)
        if self._in > MOST_PACKED:
            raise UpstreamError(f"the compressed reply is larger than {MOST_PACKED} bytes")
        data = self._begin(data) if not self._begun else data
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
            raise UpstreamError(f"the reply is not compressed as it says: {error}") from error
        return b"".join(plain)

    def _next_member(self, data: bytes, at: int) -> int:
        """Where the next member begins; the end of the data, where none does."""
        if self._window != _GZIP:
            return len(data)  # another member may follow by RFC 1952; behind anything else nothing may
        at = _padding(data, at)
        if at < len(data):
            self._members += 1
            if self._members > MOST_MEMBERS:
                raise UpstreamError(f"the compressed reply has more than {MOST_MEMBERS} members")
            self._stream = zlib.decompressobj(self._window)
        return at

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

    def _take(self, data: memoryview) -> bytes:
        allowed = min(MOST_PLAIN, FREE + MOST_RATIO * self._in) - self._out
        # One byte more than allowed tells whether there is more.
        plain = self._stream.decompress(data, allowed + 1)
        self._out += len(plain)
        if len(plain) > allowed:
            raise UpstreamError(f"the reply is larger than {self._out - 1} bytes once it is no longer compressed")
        return plain
