"""Cache of decoded tool declarations, because agents resend the same tools with every request.

Equal declarations yield the same tuple object, so derived data can be cached by object identity (see
`core.parsing.tool_index`). Tools are immutable and therefore safe to share.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

import msgspec

from ...core.types import JSONValue, Tool, is_array

#: Limits for one entry and for all entries of a protocol, in bytes of JSON (about a fifth of the memory used). Coding
#: agents send up to 75 kB. The size is limited, not the number of entries, because clients can send tools of any size.
MAX_CACHED_BYTES, MAX_CACHED_TOTAL = 256 * 1024, 2 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_Decode: TypeAlias = Callable[[JSONValue], tuple[Tool, ...]]


def cached_tools(decode: _Decode) -> _Decode:
    """Decorator that adds a cache to the decoder of a `tools` field."""
    cache: dict[bytes, tuple[Tool, ...]] = {}

    @wraps(decode)
    def decode_cached(value: JSONValue) -> tuple[Tool, ...]:
        key = _cache_key(value)
        cached = cache.get(key)
        if cached is not None:
            return cached
        tools = decode(value)
        # Cache only plain JSON, because different Python values can encode to the same bytes.
        if tools and key and msgspec.json.decode(key) == value:
            if sum(map(len, cache)) + len(key) > MAX_CACHED_TOTAL:
                cache.clear()
            cache[key] = tools
        return tools

    return decode_cached


def _cache_key(value: JSONValue) -> bytes:
    """Return the encoded declarations as the cache key, or empty bytes if they cannot be cached."""
    if not is_array(value):
        return b""
    try:
        key = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):  # the decoder reports the error
        return b""
    return key if len(key) <= MAX_CACHED_BYTES else b""
