"""Cache of decoded tool declarations, because agents resend the same tools with every request.

Equal declarations yield the identical tuple, so data derived from it can be cached by identity (see
`core.parsing.tool_index`). Tools are immutable and safe to share.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

import msgspec

from ...core.types import JSONValue, Tool, is_array

#: Cache limits per protocol, in bytes of JSON (a fifth of the memory used): one entry, and all entries together.
#: Coding agents send up to 75 kB. Any client may send tools, so the number of entries would not be a bound.
MAX_CACHED_BYTES, MAX_CACHED_TOTAL = 256 * 1024, 2 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_Decode: TypeAlias = Callable[[JSONValue], tuple[Tool, ...]]


def cached_tools(decode: _Decode) -> _Decode:
    """Decorate the decoder of a `tools` field with a cache."""
    cache: dict[bytes, tuple[Tool, ...]] = {}

    @wraps(decode)
    def decode_cached(value: JSONValue) -> tuple[Tool, ...]:
        key = _cache_key(value)
        cached = cache.get(key)
        if cached is not None:
            return cached
        tools = decode(value)
        # Plain JSON only: other values may encode to the same bytes without being equal.
        if tools and key and msgspec.json.decode(key) == value:
            if sum(map(len, cache)) + len(key) > MAX_CACHED_TOTAL:
                cache.clear()
            cache[key] = tools
        return tools

    return decode_cached


def _cache_key(value: JSONValue) -> bytes:
    """Return the declarations as bytes; empty if they must not be cached."""
    if not is_array(value):
        return b""
    try:
        key = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):  # the decoder reports the error
        return b""
    return key if len(key) <= MAX_CACHED_BYTES else b""
