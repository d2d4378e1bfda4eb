"""Heads of requests that were parsed and admitted before.

A client repeats the head of its requests byte for byte, except for the value of Content-Length. A repeated head needs
neither parsing nor another access check, as long as the keys are the same. Heads contain keys, so only a keyed hash of
each is kept, and nothing that was in its credential headers.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from ..access.auth import Caller
from ..asgi import Scope

if TYPE_CHECKING:
    from ..routes import Route

#: Number of heads to keep. A client has one or two, unless it adds a header with a new value to each request.
_MAX_HEADS = 1024
#: Headers that are needed after the access check.
_KEPT_HEADERS = frozenset({b"x-request-id", b"traceparent", b"tracestate"})
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: ?([0-9]{1,6})\r\n", re.IGNORECASE).search


class KnownHead(NamedTuple):
    """What is known about a head. `version` is that of the keys when the caller was admitted."""

    scope: Scope
    route: Route
    caller: Caller
    version: object


class SplitRequest(NamedTuple):
    """A complete request: the hash of its head, and its body."""

    digest: bytes
    body: bytes


class KnownHeads:
    """A bounded table of heads."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, KnownHead] = {}
        self._key = os.urandom(16)

    def split(self, data: bytes) -> SplitRequest | None:
        """Split data that is exactly one request with a Content-Length. Returns None for any other data."""
        end = data.find(_END)
        length = _LENGTH(data, 0, end + 2) if end > 0 else None
        if length is None or len(data) != end + len(_END) + int(length[1]):
            return None
        at, after = length.span(1)
        digest = blake2b(data[:at], digest_size=16, key=self._key)
        digest.update(data[after:end])
        return SplitRequest(digest.digest(), data[end + len(_END) :])

    def get(self, digest: bytes) -> KnownHead | None:
        return self._by_digest.get(digest)

    def remember(self, digest: bytes, scope: Scope, route: Route, caller: Caller, version: object) -> None:
        """Remember a head that was parsed and admitted."""
        headers = [each for each in scope["headers"] if each[0] in _KEPT_HEADERS]
        if len(self._by_digest) >= _MAX_HEADS:
            self._by_digest.clear()
        self._by_digest[digest] = KnownHead({**scope, "headers": headers}, route, caller, version)
