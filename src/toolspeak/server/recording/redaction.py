"""Redaction of request bodies and JSON values before they are shown or stored.

Every text is redacted like a log line. In addition, fields that contain keys are masked, also in JSON inside a text,
such as the arguments of a tool call.
"""

import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec

from ...core.json_repair.literals import has_surrogate, replace_surrogates
from ...core.types import JSONValue, is_object
from ...protocols.shared.fields import ASCII_ESCAPES
from ..observe.logs import may_contain_keys, redact

_MASK = "***"
#: Names of fields whose value is a key.
_KEY_FIELD_NAMES = tuple("api_key api-key apikey authorization authorization_token x-api-key x-goog-api-key".split())
#: Names of fields that contain keys or URLs with credentials.
_CONTAINER_FIELDS = ("extra_headers", "headers", "proxy", "proxies")
_KEY_FIELDS = frozenset({*_KEY_FIELD_NAMES, *_CONTAINER_FIELDS})
_PADDING = string.whitespace + "\xa0"  # whitespace that is ignored around a field name
#: Substrings for a fast pre-check: every name of a key field contains one of these.
_STEMS = ("api_key", "api-key", "apikey", "authorization")
#: Substrings for a fast pre-check: lowercased JSON with a key field contains one of these. Names may end in whitespace.
_KEY_MARKS = (
    *_STEMS,
    *(f'{name}":' for name in _CONTAINER_FIELDS),
    *(msgspec.json.encode(space).decode()[1:-1].lower() + '":' for space in _PADDING),
)

#: Characters that may separate a name from its colon in malformed JSON, and how many of them to skip.
_SEPARATORS, _WINDOW = (_PADDING + "\"'\\").encode(), 16

#: Matches a key field up to the opening quote of its value. In JSON inside JSON, quotes are escaped. Every repetition
#: is bounded, so matching takes linear time.
_KEY_FIELD_PATTERN = re.compile(
    rf"(?:{'|'.join(sorted(_KEY_FIELD_NAMES, key=len, reverse=True))})"
    r"""\s{0,8}\\{0,31}(["'])\s{0,16}:\s{0,16}(\\{0,31})(["'])""",
    re.IGNORECASE,
)
_QUOTE_WINDOW = 8  # maximum distance between a name and its opening quote
_MIN_FIELD_CHARS = len('"apikey":"x')  # length of the shortest text that can contain a key field


def parse_body(data: bytes) -> JSONValue:
    """Parse a request body. If it is not JSON, return it as text, cut before the first possible key field."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        data = data.replace(b"\0", b"")  # UTF-16 and UTF-32 have null bytes between the letters
        cut = min(_suspect_positions(data.lower()), default=len(data))
        suffix = f"{_MASK} ({len(data) - cut} more bytes)" if cut < len(data) else ""
        return data[:cut].decode("utf-8", "replace") + suffix


def _suspect_positions(lowered: bytes) -> Iterator[int]:
    """Yield the first position of each pattern that may be a key field or hide one."""
    for name in _KEY_FIELDS:
        if (place := _value_position(lowered, name.encode())) >= 0:
            yield place
    for escaped in ASCII_ESCAPES:
        if (place := lowered.find(escaped)) >= 0:
            yield lowered.rfind(b'"', 0, place) + 1  # the escape may be the end of a name that started earlier


def _value_position(lowered: bytes, name: bytes) -> int:
    """Return the position after the first occurrence of a field name; -1 if there is none."""
    end = 0
    while (start := lowered.find(name, end)) >= 0:
        end = start + len(name)
        # If the window contains only separators, a colon may still follow.
        if lowered[end : end + _WINDOW].lstrip(_SEPARATORS)[:1] in (b":", b"=", b""):
            return end
    return -1


def redact_text(text: str, secrets: Sequence[str]) -> str:
    """Redact a text and replace lone surrogates, so it can be encoded."""
    if not text.isascii() and has_surrogate(text):
        text = replace_surrogates(text)
    return _redact_key_fields(redact(text, secrets))


def _redact_key_fields(text: str) -> str:
    """Mask the values of key fields in JSON inside a text."""
    if len(text) < _MIN_FIELD_CHARS:
        return text
    lowered = text.lower()
    if not any(stem in lowered for stem in _STEMS):
        return text
    pieces: list[str] = []
    done = 0
    for field in _KEY_FIELD_PATTERN.finditer(text):
        start = field.start()
        # Skip matches inside a masked value, and names that are only the end of a longer name.
        if start < done or text[max(start - _QUOTE_WINDOW, 0) : start].rstrip(_PADDING)[-1:] != field[1]:
            continue
        end = _string_end(text, field.end(), field[3], len(field[2]))
        if end > field.end():
            pieces += text[done : field.end()], _MASK
            done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def _string_end(text: str, begin: int, quote: str, depth: int) -> int:
    """Return the end of a JSON string whose opening quote has `depth` backslashes; the end of the text if unclosed."""
    end = begin
    while (position := text.find(quote, end)) >= 0:
        before = position
        while before > end and text[before - 1] == "\\":
            before -= 1
        # Inner quotes have 2 * depth + 1 backslashes. Backslashes that end the string precede those of its quote.
        if position - before < depth:
            return before  # the enclosing string ends here, so this string is incomplete
        if (position - before - depth) % (2 * depth + 2) == 0:
            return position - depth
        end = position + 1
    return len(text)


def redact_value(value: JSONValue, secrets: Sequence[str]) -> JSONValue:
    """Redact a JSON value, which is at most 64 levels deep."""
    # Check the encoded JSON first, because visiting every string takes ten times as long.
    try:
        text = msgspec.json.encode(value).decode()
        escaped = [msgspec.json.encode(secret).decode()[1:-1] for secret in secrets if secret]
    except (ValueError, OverflowError, TypeError):  # a lone surrogate, or a number beyond 64 bits
        return _redact(value, lambda each: redact_text(each, secrets))
    if may_contain_keys(text, escaped):
        return _redact(value, lambda each: redact_text(each, secrets))
    lowered = text.lower()
    return _redact(value, _redact_key_fields) if any(mark in lowered for mark in _KEY_MARKS) else value


def _redact(value: JSONValue, clean: Callable[[str], str]) -> JSONValue:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):  # tuples come from structs
        return [_redact(each, clean) for each in cast("Sequence[JSONValue]", value)]
    if is_object(value):
        return {
            clean(name): _MASK if each and name.strip(_PADDING).lower() in _KEY_FIELDS else _redact(each, clean)
            for name, each in value.items()
        }
    return value
