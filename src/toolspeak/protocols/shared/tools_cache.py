"""The same tools for the same declarations: agents send them again with every request.

What comes again gives the very same tuple, so that whatever was worked out of it is found again by its identity (see
`core.reading.toolkit`). Nobody changes a tool, so nobody minds sharing one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

import msgspec

from ...core.types import JSONValue, Tool, is_array

#: How much each protocol keeps, in JSON, which is a fifth of the memory: the largest declarations, and all together.
#: Coding agents send up to 75 kB. Anybody may send tools, so that a number of declarations would be no bound.
MAX_KEPT_BYTES, MAX_KEPT_TOTAL = 256 * 1024, 2 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_Decode: TypeAlias = Callable[[JSONValue], tuple[Tool, ...]]


def kept_tools(decode: _Decode) -> _Decode:
    """The decoder of a `tools` field, which remembers what it read last."""
    kept: dict[bytes, tuple[Tool, ...]] = {}

    @wraps(decode)
    def decode_kept(value: JSONValue) -> tuple[Tool, ...]:
        source = _source(value)
        known = kept.get(source)
        if known is not None:
            return known
        tools = decode(value)
        # Only what is plain JSON: other values may look the same on the wire, and are not.
        if tools and source and msgspec.json.decode(source) == value:
            if sum(map(len, kept)) + len(source) > MAX_KEPT_TOTAL:
                kept.clear()
            kept[source] = tools
        return tools

    return decode_kept


def _source(value: JSONValue) -> bytes:
    """The declarations as bytes; nothing where they are not to be kept."""
    if not is_array(value):
        return b""
    try:
        source = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):  # whoever decodes it says what is wrong
        return b""
    return source if len(source) <= MAX_KEPT_BYTES else b""
