"""Values and bodies without keys: what a person or a store is given instead of what a client sent.

Every text passes the filter of the log; fields that hold keys are not shown at all, nor is what stands behind the name
of one in JSON within a text, such as the arguments of a call.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec

from ...core.json_repair.literals import has_surrogate, replace_surrogates
from ...core.types import JSONValue, is_object
from ...protocols.shared.fields import HIDING_ESCAPES
from ..observe.logs import may_hold_keys, redacted

_HIDDEN = "***"
#: Fields of a body that are keys.
_OWN_FIELDS = (
    "api_key",
    "api-key",
    "apikey",
    "authorization",
    "authorization_token",
    "x-api-key",
    "x-goog-api-key",
)
#: And those that hold some, or ways to somewhere with keys in them.
_HOLDERS = ("extra_headers", "headers", "proxy", "proxies")
_KEY_FIELDS = frozenset({*_OWN_FIELDS, *_HOLDERS})
#: What may stand around a name without making another one of it.
_AROUND = string.whitespace + "\xa0"
#: One of these is in every name of a field that is a key.
_STEMS = ("api_key", "api-key", "apikey", "authorization")
#: What is in the JSON of every value that has such a field; how any name ends that something stands behind.
_KEY_MARKS = (
    *_STEMS,
    *(f'{name}":' for name in _HOLDERS),
    *(msgspec.json.encode(space).decode()[1:-1].lower() + '":' for space in _AROUND),
)

#: What may stand between a name and its colon in what is not quite JSON, and how far that is looked at.
_BETWEEN, _WINDOW = (_AROUND + "\"'\\").encode(), 16

#: Such a name, the quotes behind it and before its text, and what stands between; quotes in JSON within JSON have
#: backslashes. Each run has a bound, so that the time is linear.
_FIELD = re.compile(
    rf"(?:{'|'.join(sorted(_OWN_FIELDS, key=len, reverse=True))})"
    r"""\s{0,8}\\{0,31}(["'])\s{0,16}:\s{0,16}(\\{0,31})(["'])""",
    re.IGNORECASE,
)
#: How far before a name its quote is looked for.
_BEFORE = 8
#: There is no such field in fewer characters.
_SHORTEST = len('"apikey":"x')


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
    return _without_fields(redacted(text, secrets))


def _without_fields(text: str) -> str:
    """A text without the texts of fields that are keys, in whatever JSON there is in it."""
    if len(text) < _SHORTEST:
        return text
    lowered = text.lower()
    if not any(stem in lowered for stem in _STEMS):
        return text
    pieces: list[str] = []
    done = 0
    for field in _FIELD.finditer(text):
        at = field.start()
        # Within another one's text; or the end of a longer name.
        if at < done or text[max(at - _BEFORE, 0) : at].rstrip(_AROUND)[-1:] != field[1]:
            continue
        end = _end_of(text, field.end(), field[3], len(field[2]))
        if end > field.end():
            pieces += text[done : field.end()], _HIDDEN
            done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def _end_of(text: str, begin: int, quote: str, depth: int) -> int:
    """Where a JSON text ends that began behind a quote with so many backslashes; the end of all if it has none."""
    end = begin
    while (found := text.find(quote, end)) >= 0:
        before = found
        while before > end and text[before - 1] == "\\":
            before -= 1
        # A quote within it has twice as many and one more; backslashes at its end stand before those of its quote.
        if found - before < depth:
            return before  # what it stands in ends, so that it was cut
        if (found - before - depth) % (2 * depth + 2) == 0:
            return found - depth
        end = found + 1
    return len(text)


def cleaned(value: JSONValue, secrets: Sequence[str]) -> JSONValue:
    """A value without keys. Bodies are nested 64 deep at most when they come here."""
    # One look at its JSON text tells what there may be to take out: to look at each text in it takes ten times as long.
    try:
        text = msgspec.json.encode(value).decode()
        escaped = [msgspec.json.encode(secret).decode()[1:-1] for secret in secrets if secret]
    except (ValueError, OverflowError, TypeError):  # half a character, or a number beyond 64 bits
        return _cleaned(value, lambda each: cleaned_text(each, secrets))
    if may_hold_keys(text, escaped):
        return _cleaned(value, lambda each: cleaned_text(each, secrets))
    lowered = text.lower()
    return _cleaned(value, _without_fields) if any(mark in lowered for mark in _KEY_MARKS) else value


def _cleaned(value: JSONValue, clean: Callable[[str], str]) -> JSONValue:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):  # structs hold tuples
        return [_cleaned(each, clean) for each in cast("Sequence[JSONValue]", value)]
    if is_object(value):
        return {
            clean(name): _HIDDEN if _is_key(name) and each else _cleaned(each, clean) for name, each in value.items()
        }
    return value


def _is_key(name: str) -> bool:
    return name.strip(_AROUND).lower() in _KEY_FIELDS
