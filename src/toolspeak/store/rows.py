"""Values of `core` as the JSON text of a column, and back.

Text that no database takes (zero characters, half surrogate pairs) is escaped, as JSON allows, so nothing is lost.
"""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from ..core.types import JSONValue
from ..errors import StoreDamagedError, UsageError

T = TypeVar("T")


class Unreadable(StoreDamagedError):
    """A column that holds something else than it should."""


def dump(value: object) -> str:
    """The JSON text of a value.

    Raises:
        UsageError: it is not JSON.
    """
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"this cannot be kept, since it is not JSON: {error}") from None
    # Half a surrogate pair cannot be UTF-8; backslashreplace writes the escape that JSON has for it.
    return text.encode("utf-8", "backslashreplace").decode()


def value_of(text: str) -> JSONValue:
    """The JSON value of a text.

    Raises:
        Unreadable: it is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def load(text: str, kind: type[T]) -> T:
    """The value of that kind that a text holds.

    Raises:
        Unreadable: it holds none.
    """
    try:
        return msgspec.convert(value_of(text), kind)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error)) from None


def escaped(text: str) -> str:
    """A text as it stands inside JSON: escaped pieces, one behind the other, are the whole, escaped."""
    return dump(text)[1:-1]


def unescaped(text: str) -> str:
    """The text that was escaped."""
    return load(f'"{text}"', str)
