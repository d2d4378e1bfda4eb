"""Encode values as JSON text for a column, and decode them.

Characters that databases reject (NUL, lone surrogates) are JSON-escaped, so nothing is lost.
"""

import json
from typing import TypeVar

import msgspec

from ..core.types import JSONValue
from ..errors import StoreDamagedError, UsageError

T = TypeVar("T")


class UnreadableColumn(StoreDamagedError):
    """A database column has unexpected content."""


def dump(value: object) -> str:
    """Encode a value as JSON text. Raises UsageError if the value cannot be encoded as JSON."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the value cannot be stored as JSON: {error}") from None
    # A lone surrogate is not valid UTF-8; backslashreplace writes its JSON escape.
    return text.encode("utf-8", "backslashreplace").decode()


def parse_json(text: str) -> JSONValue:
    """Decode JSON text. Raises UnreadableColumn if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableColumn(str(error)) from None


def load(text: str, kind: type[T]) -> T:
    """Decode JSON text as a value of type `kind`. Raises UnreadableColumn if the text is not a value of that type."""
    try:
        return msgspec.convert(parse_json(text), kind)
    except msgspec.ValidationError as error:
        raise UnreadableColumn(str(error)) from None


def escape(text: str) -> str:
    """JSON-escape text, without adding quotes, so escaped pieces can be concatenated."""
    return dump(text)[1:-1]


def unescape(text: str) -> str:
    return load(f'"{text}"', str)
