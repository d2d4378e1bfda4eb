"""Values and bodies without keys: what a person or a store is given instead of what a client sent.

Every text passes the filter of the log; fields that hold keys are not shown at all. Above: `shown`, the pages. Below:
`logs`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from typing import cast

import msgspec

from ...core.model import JSONValue, is_object
from ...core.reading.literals import has_surrogate, replace_surrogates
from ...protocols.common import HIDING_ESCAPES
from ..logs import may_hold_keys, redacted

__all__ = ["body_of", "cleaned", "cleaned_text"]

_HIDDEN = "***"
#: Fields of a body that hold keys, or ways to somewhere with keys in them.
_KEY_FIELDS = frozenset(
    {
        "api_key",
        "api-key",
        "apikey",
        "authorization",
        "authorization_token",
        "x-api-key",
        "x-goog-api-key",
        "extra_headers",
        "headers",
        "proxy",
        "proxies",
    }
)
#: What may stand around a name without making another one of it.
_AROUND = string.whitespace + "\xa0"
#: How these names end in JSON; and how any name does that something stands behind. In a text within it, quotes have a
#: backslash before them.
_KEY_MARKS = (
    *(f'{name}":' for name in _KEY_FIELDS),
    *(msgspec.json.encode(space).decode()[1:-1].lower() + '":' for space in _AROUND),
)

#: What may stand between a name and its colon in what is not quite JSON, and how far that is looked at.
_BETWEEN, _WINDOW = (_AROUND + "\"'\\").encode(), 16


def body_of(data: bytes) -> JSONValue:
    """What a client sent, as JSON; or else as a text, to the first field in it that may hold a key."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        data = data.replace(b"\0", b"")  # in other encodings they stand between the letters
        at = min(_places(data.lower()), default=len(data))
        left = f"{_HIDDEN} ({len(data) - at} more bytes)" if at < len(data) else ""
        return data[:at].decode("utf-8", "replace") + left


def _places(lowered: bytes) -> Iterator[int]:
    """Where each kind of what may be, or hide, a field with a key stands first."""
    for name in _KEY_FIELDS:
        if (place := _after_name(lowered, name.encode())) >= 0:
            yield place
    for escaped in HIDING_ESCAPES:
        if (place := lowered.find(escaped)) >= 0:
            yield lowered.rfind(b'"', 0, place) + 1  # it may be the end of a key that has begun before


def _after_name(lowered: bytes, name: bytes) -> int:
    """Where the first field of that name has its value; -1: there is none."""
    end = 0
    while (start := lowered.find(name, end)) >= 0:
        end = start + len(name)
        # If there is nothing else within sight, the colon may stand behind it.
        if lowered[end : end + _WINDOW].lstrip(_BETWEEN)[:1] in (b":", b"=", b""):
            return end
    return -1


def cleaned_text(text: str, secrets: Sequence[str]) -> str:
    """A text that can be encoded, without keys."""
    if not text.isascii() and has_surrogate(text):
        text = replace_surrogates(text)
    return redacted(text, secrets)


def cleaned(value: JSONValue, secrets: Sequence[str]) -> JSONValue:
    """A value without keys. Bodies are nested 64 deep at most when they come here."""
    return value if _is_clean(value, secrets) else _cleaned(value, secrets)


def _is_clean(value: JSONValue, secrets: Sequence[str]) -> bool:
    """Whether there is nothing to take out, by its JSON text: to look at each text in it takes ten times as long."""
    try:
        text = msgspec.json.encode(value).decode()
        escaped = [msgspec.json.encode(secret).decode()[1:-1] for secret in secrets if secret]
    except (ValueError, OverflowError, TypeError):  # half a character, or a number beyond 64 bits
        return False
    if may_hold_keys(text, escaped):
        return False
    lowered = text.lower()
    return not any(mark in lowered for mark in _KEY_MARKS)


def _cleaned(value: JSONValue, secrets: Sequence[str]) -> JSONValue:
    if isinstance(value, str):
        return cleaned_text(value, secrets)
    if isinstance(value, list | tuple):  # structs hold tuples
        return [_cleaned(each, secrets) for each in cast("Sequence[JSONValue]", value)]
    if is_object(value):
        return {
            cleaned_text(name, secrets): _HIDDEN if _is_key(name) and each else _cleaned(each, secrets)
            for name, each in value.items()
        }
    return value


def _is_key(name: str) -> bool:
    return name.strip(_AROUND).lower() in _KEY_FIELDS
