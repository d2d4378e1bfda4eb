"""Heads of requests that were parsed and admitted before.

A client repeats the head of its requests byte for byte, except for the value of Content-Length. A repeated head needs
neither parsing nor another access check, as long as the keys are the same. Heads contain keys, so only a keyed hash of
each is kept, and where a client's own keys are, because they must be redacted. A head with a query that may contain a
key is not kept.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from ..access.auth import CREDENTIAL_HEADERS, Caller, own_secrets
from ..asgi import Scope

if TYPE_CHECKING:
    from ..routes import Route

#: Number of heads to keep. A client has one or two, unless it adds a header with a new value to each request.
_MAX_HEADS = 1024
_MAX_KEPT_BYTES = 2048  # maximum size of the path, the query and the headers of a head that is kept
#: Headers that are needed after the access check.
_KEPT_HEADERS = frozenset({b"x-request-id", b"traceparent", b"tracestate", b"user-agent"})
_END = b"\r\n\r\n"
_CREDENTIAL = re.compile(rb"(?<=\r\n)(%b):([^\r\n]*)" % b"|".join(sorted(CREDENTIAL_HEADERS)), re.IGNORECASE).finditer
_LENGTH = re.compile(rb"\r\ncontent-length: ?([0-9]{1,6})\r\n", re.IGNORECASE).search


class KnownHead(NamedTuple):
    """What is known about a head. `version` is that of the keys when the caller was admitted."""

    scope: Scope
    route: Route
    caller: Caller
    version: object
    #: The client's own keys: the name of the header, the start of its value counted from the end of the head or, if it
    #: precedes Content-Length, from its beginning, and its length.
    keys: tuple[tuple[bytes, int, int], ...] = ()

    def credentials(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the headers with the client's own keys. `data` is the head, with its end."""
        size = len(data)
        return [(name, data[start % size : start % size + length]) for name, start, length in self.keys]


class KnownHeads:
    """A bounded table of heads."""

    def __init__(self) -> None:
        self.by_digest: dict[bytes, KnownHead] = {}
        self._key = os.urandom(16)

    def split(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Split data that is exactly one request with a Content-Length into the hash of its head and its body.

        Returns None for any other data.
        """
        end = data.find(_END)
        length = _LENGTH(data, 0, end + 2) if end > 0 else None
        if length is None or len(data) != end + len(_END) + int(length[1]):
            return None
        at, after = length.span(1)
        digest = blake2b(data[:at], digest_size=16, key=self._key)
        digest.update(data[after:end])
        return digest.digest(), data[end + len(_END) :]

    def remember(self, digest: bytes, data: bytes, scope: Scope, route: Route, caller: Caller, version: object) -> None:
        """Remember a head that was parsed and admitted, unless its query may contain a key."""
        query = scope["query_string"]
        if b"key" in query or b"%" in query:
            return
        headers = [each for each in scope["headers"] if each[0] in _KEPT_HEADERS]
        if len(scope["raw_path"]) + len(query) + sum(len(value) for _, value in headers) > _MAX_KEPT_BYTES:
            return
        keys = _key_positions(data[: data.find(_END) + len(_END)], scope)
        if keys is None:
            return
        if len(self.by_digest) >= _MAX_HEADS:
            self.by_digest.clear()
        self.by_digest[digest] = KnownHead({**scope, "headers": headers}, route, caller, version, keys)


def _key_positions(head: bytes, scope: Scope) -> tuple[tuple[bytes, int, int], ...] | None:
    """Return where a head contains keys of the client's own. None if they are not where they are expected."""
    if not own_secrets(scope):
        return ()
    length = _LENGTH(head)
    assert length is not None
    values: list[tuple[bytes, bytes]] = []
    keys: list[tuple[bytes, int, int]] = []
    for match in _CREDENTIAL(head):
        name, value, start = match[1].lower(), match[2], match.start(2)
        values.append((name, value.strip()))
        keys.append((name, start if start < length.start() else start - len(head), len(value)))
    sent = [(name, value.strip()) for name, value in scope["headers"] if name in CREDENTIAL_HEADERS]
    return tuple(keys) if values == sent else None
