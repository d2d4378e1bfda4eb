"""Properties of JSON values: type, size, spelling, and whether they can be validated at all."""

import json
import math
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ..types import JSONValue, is_array, is_object

#: Parses JSON inside a string; returns a value or raises `ValueError`.
ParseText: TypeAlias = Callable[[str], JSONValue]
Path: TypeAlias = tuple[str | int, ...]

#: Maximum nesting of arguments and schemas; keeps recursion far from Python's own limit.
MAX_DEPTH = 64
#: Maximum number of values in the arguments of one call: as many as 1 MiB of JSON can hold.
MAX_VALUES = 600_000
#: Maximum size of an integer in bits: about the range of a double, and small enough for fast decimal conversion.
MAX_INTEGER_BITS = 1024
#: Number of characters of text that take as much work as one value.
CHARS_PER_VALUE = 1024
#: Maximum length of a path in a message.
MAX_PATH_CHARS = 120

_SCALARS = ((type(None), "null"), (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"))
_KINDS: tuple[tuple[type, str], ...] = (*_SCALARS, (list, "array"), (dict, "object"))
_IGNORED_IN_OPTIONS = str.maketrans("", "", " \t\r\n_-")
_IGNORED_IN_KEYS = str.maketrans("", "", "_-")


def type_name(value: JSONValue) -> str:
    """Return the JSON type of a value that has no `unusable_reason`."""
    return next(name for kind, name in _KINDS if isinstance(value, kind))


def fold(text: str) -> str:
    """Normalise the spelling of an option: case, spaces, dashes, underscores. A leading sign is kept."""
    text = text.strip().casefold()
    return text[:1] + text[1:].translate(_IGNORED_IN_OPTIONS)


def fold_key(key: str) -> str:
    """Normalise the spelling of a key: case, dashes, underscores."""
    return key.casefold().translate(_IGNORED_IN_KEYS)


def json_text(value: JSONValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def encode_json(value: object) -> bytes | None:
    """Encode a value as JSON. Return None if it cannot be encoded."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def strict_json(text: str) -> JSONValue:
    """Parse strict JSON. Raises `ValueError` if the text is invalid."""
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def has_respelled_float(text: str) -> bool:
    """Whether a number in strict JSON text is spelled in another way than its value would be, such as `1.10`."""
    spellings: list[str] = []
    msgspec.json.Decoder(float_hook=spellings.append).decode(text)
    return any(json_text(float(spelling)) != spelling for spelling in spellings)


def unusable_reason(value: JSONValue) -> str:
    """Return why a value cannot be validated at all: not JSON, too deep, too large. Empty: it can be validated.

    The model reads this text when it is asked to correct its call.
    """
    stack: list[tuple[JSONValue, int]] = [(value, 1)]
    count = 0
    while stack:
        item, depth = stack.pop()
        count += 1
        if count > MAX_VALUES:
            return f"`arguments` hold more than {MAX_VALUES} values"
        if type(item) is str and item.isascii():  # the most common case
            continue
        if depth > MAX_DEPTH and isinstance(item, dict | list):
            return f"`arguments` are nested deeper than {MAX_DEPTH} levels"
        if is_object(item):
            keys: list[JSONValue] = [*item]
            if not all(isinstance(key, str) for key in keys):
                return "`arguments` hold a key that is not a string"
            stack += [(each, depth + 1) for each in (*keys, *item.values())]
        elif is_array(item):
            stack += [(each, depth + 1) for each in item]
        elif reason := _scalar_reason(item):
            return f"`arguments` hold {reason}"
    return ""


def _scalar_reason(value: JSONValue) -> str:
    match value:
        case str():
            return "" if _is_unicode(value) else "half of a surrogate pair"
        case bool() | None:
            return ""
        case int():
            return "a number that is too large" if value.bit_length() > MAX_INTEGER_BITS else ""
        case float():
            return "" if math.isfinite(value) else "a number that is not finite"
        case _:
            return f"a `{type(value).__name__}`, which is not JSON"


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def weight(value: JSONValue) -> int:
    """Return how much work it is to visit the whole value, measured in values."""
    total = 0
    stack = [value]
    while stack:
        item = stack.pop()
        total += 1
        if is_object(item):
            stack += item.values()
        elif is_array(item):
            stack += item
        elif isinstance(item, str):
            total += len(item) // CHARS_PER_VALUE
    return total


def has_type(value: JSONValue, types: frozenset[str]) -> bool:
    name = type_name(value)
    return name in types or (name == "integer" and "number" in types)


def path_text(path: Path) -> str:
    """Format a path in backticks, such as `a.b[0]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    text = text.replace("`", "'") or "arguments"
    return f"`{text}`" if len(text) <= MAX_PATH_CHARS else f"`{text[:MAX_PATH_CHARS]}…`"
