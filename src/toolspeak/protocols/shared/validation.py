"""Validation of request fields. Every error names the invalid field."""

from collections.abc import Iterator
from math import isfinite

from ...core.types import JSONObject, JSONValue, is_array, is_object
from ...errors import UsageError

#: Integers below this limit can be represented exactly as floats.
_MAX_EXACT_INT = 2**53


def type_error(path: str, expected: str, value: JSONValue) -> UsageError:
    actual = "null" if value is None else type(value).__name__
    return UsageError(f"`{path}` must be {expected}, not `{actual}`")


def text_field(value: JSONValue, path: str) -> str:
    """Validate an optional string. Null and a missing field become an empty string."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise type_error(path, "a string", value)


def bool_field(value: JSONValue, path: str, default: bool) -> bool:
    """Validate an optional boolean. Null and a missing field become the default."""
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise type_error(path, "true or false", value)


def int_field(value: JSONValue, path: str, *, positive: bool = False) -> int | None:
    """Validate an integer or null."""
    if positive and type(value) in (int, float) and value < 1:
        raise UsageError(f"`{path}` must be at least 1, not {value}")
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and abs(value) < _MAX_EXACT_INT and value.is_integer():
        return int(value)  # JSON has one number type, and some clients write 1 as 1.0
    raise type_error(path, "an integer", value)


def number_field(value: JSONValue, path: str) -> float | None:
    """Validate a number or null."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(f"`{path}` must be a finite number, not {value}")
        return value
    raise type_error(path, "a number", value)


def array_field(value: JSONValue, path: str) -> list[JSONValue]:
    """Validate an optional list. Null and a missing field become an empty list."""
    if value is None:
        return []
    if is_array(value):
        return value
    raise type_error(path, "a list", value)


def object_field(value: JSONValue, path: str) -> JSONObject:
    """Validate a required object."""
    if is_object(value):
        return value
    raise type_error(path, "an object", value)


def objects_field(value: JSONValue, path: str) -> Iterator[tuple[JSONObject, str]]:
    """Validate an optional list of objects. Yield each with its path."""
    for at, item in enumerate(array_field(value, path)):
        yield object_field(item, f"{path}[{at}]"), f"{path}[{at}]"


def texts_field(value: JSONValue, path: str) -> tuple[str, ...]:
    """Validate an optional list of strings."""
    return tuple(text_field(item, f"{path}[{at}]") for at, item in enumerate(array_field(value, path)))


def name_field(fields: JSONObject, path: str) -> str:
    """Validate the required field `name` of an object."""
    name = text_field(fields.get("name"), f"{path}.name")
    if not name:
        raise UsageError(f"`{path}.name` is missing")
    return name
