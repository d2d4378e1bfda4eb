"""Streams without `alt=sse`: one JSON array whose elements arrive one by one.

Incremental, linear and bounded, as `framing` is.
"""

from __future__ import annotations

import re

from ..shared.framing import MAX_EVENT, FrameError

#: What opens, closes or quotes in JSON; an escape is taken together with what it escapes.
_MARKS = re.compile(rb'\\.|[\\"{}\[\]]', re.DOTALL).finditer
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")


class ArrayDecoder:
    """The objects and arrays that an array holds, each as its bytes. What stands between them is skipped."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._depth = 0
        self._quoted = self._broken = False
        #: A backslash at the end of a read: what it escapes is still to come.
        self._tail = b""
        self._element = bytearray()

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """The elements that these bytes complete."""
        frames: list[bytes | FrameError] = []
        if self._broken:
            return frames
        data, self._tail = self._tail + data, b""
        begin = 0
        for mark in _MARKS(data):
            token = mark[0]
            if token == b'"':
                self._quoted = not self._quoted
            elif token == b"\\":
                self._tail = token
            elif not self._quoted and token in _OPENING:
                begin = mark.start() if self._depth == 1 else begin
                self._depth += 1
            elif not self._quoted and token in _CLOSING:
                self._depth -= 1
                if self._depth == 1:
                    frames.append(bytes(self._element + data[begin : mark.end()]))
                    self._element.clear()
        if self._depth > 1:
            self._element += data[begin : len(data) - len(self._tail)]
        return frames if len(self._element) <= self._limit else [*frames, self._break()]

    def _break(self) -> FrameError:
        self._broken = True
        return FrameError(f"an element is larger than {self._limit} bytes")

    def close(self) -> list[bytes | FrameError]:
        """What was still open when the stream ended."""
        rest = b"" if self._broken else bytes(self._element)
        self._broken = True
        return [rest] if rest else []
