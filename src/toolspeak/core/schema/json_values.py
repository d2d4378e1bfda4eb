"""JSON as Python values: what kind a value is, whether it can be judged at all, how it is spelled and named.

Small questions that alignment, problems and schemas all ask. Pure functions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ..types import JSONValue, is_array, is_object

#: Reads the JSON in a string: a value, or `ValueError`.
ParseText: TypeAlias = Callable[[str], JSONValue]
Path: TypeAlias = tuple[str | int, ...]

#: Deepest nesting of arguments and of schemas, so that recursion stays far from Python's own limit.
MAX_DEPTH = 64
#: Most values in one set of arguments: what 1 MiB of JSON can hold.
MAX_VALUES = 600_000
#: Largest integer, in bits: about what a double can reach, and far below what makes decimal conversion slow.
MAX_INTEGER_BITS = 1024
#: A text of this many characters counts as one value more.
CHARS_PER_VALUE = 1024
#: Longest path in a sentence.
MAX_PATH_CHARS = 120

_KINDS: tuple[tuple[type, str], ...] = (
    (type(None), "null"),
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
_IGNORED_IN_OPTIONS = str.maketrans("", "", " \t\r\n_-")
_IGNORED_IN_KEYS = str.maketrans("", "", "_-")


def type_name(value: JSONValue) -> str:
    """The JSON type of a value that `fault` found nothing wrong with."""
    return next(name for kind, name in _KINDS if isinstance(value, kind))


def fold(text: str) -> str:
    """A text without what people vary in the spelling of an option. A leading sign is not spelling."""
    text = text.strip().casefold()
    return text[:1] + text[1:].translate(_IGNORED_IN_OPTIONS)


def fold_key(key: str) -> str:
    """A key without what people vary in its spelling."""
    return key.casefold().translate(_IGNORED_IN_KEYS)


def json_text(value: JSONValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def strict_json(text: str) -> JSONValue:
    """The value of a JSON text; raises `ValueError` for anything else."""
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def fault(value: JSONValue) -> str:
    """Why a value cannot be judged at all: not JSON, too deep, too much. Empty: it can."""
    stack: list[tuple[JSONValue, int]] = [(value, 1)]
    count = 0
    while stack:
        item, depth = stack.pop()
        count += 1
        if count > MAX_VALUES:
            return f"`arguments` hold more than {MAX_VALUES} values"
        if type(item) is str and item.isascii():  # most values are
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
        elif trouble := _scalar_fault(item):
            return f"`arguments` hold {trouble}"
    return ""


def _scalar_fault(value: JSONValue) -> str:
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
    """How much work a look at the whole value is."""
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


def suits(value: JSONValue, wanted: frozenset[str]) -> bool:
    name = type_name(value)
    return name in wanted or (name == "integer" and "number" in wanted)


def named(path: Path) -> str:
    """A path in backticks, such as `a.b[0]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    text = text.replace("`", "'") or "arguments"
    return f"`{text}`" if len(text) <= MAX_PATH_CHARS else f"`{text[:MAX_PATH_CHARS]}…`"
