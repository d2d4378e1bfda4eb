"""Reading the fields of a request body, each reader naming the field in its error, and writing JSON.

Above: every other module of `openai_chat`. Below: `core.model`, `errors`.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from ..core.literals import replace_surrogates
from ..core.model import JSONObject, JSONValue, is_array, is_object
from ..errors import UsageError

__all__ = [
    "BESIDE",
    "PROTOCOL",
    "array_field",
    "bool_field",
    "int_field",
    "number_field",
    "object_field",
    "text_field",
    "to_wire",
    "without",
]

PROTOCOL: Final = "openai_chat"

#: Where `extra` keeps the fields that stood beside the object which holds the named ones.
BESIDE: Final = "beside"


def _wrong(path: str, wanted: str, value: JSONValue) -> UsageError:
    given = "null" if value is None else type(value).__name__
    return UsageError(f"`{path}` must be {wanted}, not `{given}`")


def text_field(value: JSONValue, path: str) -> str:
    """A text; null and absence are the empty text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise _wrong(path, "a string", value)


def bool_field(value: JSONValue, path: str, default: bool) -> bool:
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise _wrong(path, "true or false", value)


def int_field(value: JSONValue, path: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _wrong(path, "an integer", value)


def number_field(value: JSONValue, path: str) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise _wrong(path, "a number", value)


def array_field(value: JSONValue, path: str) -> list[JSONValue]:
    """A list; null and absence are the empty list."""
    if value is None:
        return []
    if is_array(value):
        return value
    raise _wrong(path, "a list", value)


def object_field(value: JSONValue, path: str) -> JSONObject:
    if is_object(value):
        return value
    raise _wrong(path, "an object", value)


_encode = msgspec.json.Encoder().encode


def to_wire(value: JSONValue) -> bytes:
    """JSON bytes of a value; half a surrogate pair, which no bytes can carry, becomes U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return replace_surrogates(json.dumps(value, ensure_ascii=False)).encode()


def without(value: JSONObject, *known: str) -> JSONObject:
    """What an object says besides the known fields."""
    return {key: item for key, item in value.items() if key not in known}
