"""Values that clients send again and again: agents repeat the whole conversation with every request.

A `ResentValues` maps the bytes of a JSON value to its decoded form, so each message is decoded only once. It can also
keep the bytes that a decoded value has in a request to an upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: Maximum size of the keys of one generation, and of one key, in bytes. Values take about three times as much memory.
MAX_BYTES, MAX_VALUE_BYTES = 2 * 1024 * 1024, 64 * 1024


class _Generation(Generic[T]):
    def __init__(self) -> None:
        self.size = 0
        self.by_bytes: dict[bytes, T] = {}
        #: Values and their bytes for an upstream, by the identity of the value.
        self.wires: dict[int, tuple[T, bytes]] = {}


class ResentValues(Generic[T]):
    """A bounded table of decoded values. What was not used for a whole generation is forgotten.

    Args:
        decode: decodes the bytes of a value. A value for which it returns None is not kept.
        encode: returns the bytes of a decoded value for an upstream.
    """

    def __init__(self, decode: Callable[[bytes], T | None], encode: Callable[[T], bytes]) -> None:
        self._decode = decode
        self._encode = encode
        self._young: _Generation[T] = _Generation()
        self._old: _Generation[T] = _Generation()

    def get(self, data: bytes) -> T | None:
        """Return the decoded value of these bytes; None if it cannot be decoded."""
        value = self._young.by_bytes.get(data)
        if value is not None:
            return value
        value = self._old.by_bytes.get(data)
        if value is None:
            value = self._decode(data)
        if value is not None and len(data) <= MAX_VALUE_BYTES:
            self._keep(data, value)
        return value

    def wire(self, value: T) -> bytes | None:
        """Return the bytes of a value for an upstream; None if the value is not in the table."""
        kept = self._young.wires.get(id(value))
        return kept[1] if kept is not None and kept[0] is value else None

    def _keep(self, data: bytes, value: T) -> None:
        if self._young.size + len(data) > MAX_BYTES:
            self._old, self._young = self._young, _Generation()
        young = self._young
        young.size += len(data)
        young.by_bytes[data] = value
        young.wires[id(value)] = (value, self._encode(value))
