"""The shortest way through arguments that came whole: one match says that they are plain, one parser reads them.

What is plain is a part of strict JSON, and of that only what the tolerant reader takes as it stands, without a note
and without a doubt: where it would ask what follows a quote, the answer is part of the pattern. Strings may hold the
escapes that are written again as they were. Everything else is left to the tolerant reader, which comes to the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, cast

import msgspec

from ..json_repair.containers import MAX_SIZE, Allowance
from ..types import JSONObject, JSONValue

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode

_S = r"[ \t\r\n]*+"
_TEXT = r"[^\"\\\x00-\x1f\ud800-\udfff]"
_CHARS = r"[^\"\\\x00-\x1f\ud800-\udfff,]*+"
#: Escapes of which there is one spelling. An escaped slash would come back bare.
_ESCAPE = r'\\["\\bfnrt]'
_KEY = rf'"{_TEXT}{{1,64}}+"{_S}:'
#: No text behind a closer, nor a quote right behind it: then the quote before it would be doubted.
_ENDS = r'(?!")[\s\ufeff]*+[^\s\ufeff\w]'
#: As the value of a key. A comma before a quote may mean that the closing quote was forgotten.
_STRING = (
    rf'"{_CHARS}(?:(?:{_ESCAPE}|,(?!{_S}")){_CHARS})*+"'
    rf"(?={_S}(?:,{_S}{_KEY}|\}}{_ENDS}))"
)
#: As an element of an array.
_ELEMENT = rf'"(?!"){_TEXT}*+(?:{_ESCAPE}{_TEXT}*+)*+"(?={_S}(?:,{_S}"|\]{_ENDS}))'
_WORD = r"(?:true|false|null|-?(?:0|[1-9][0-9]{0,14}+)(?:\.[0-9]{1,15}+)?+)"


def _object(value: str) -> str:
    return rf"\{{{_S}(?>{_KEY}{_S}{value}{_S}(?:,{_S}(?=\")|(?=\}})))*+\}}"


def _array(item: str) -> str:
    return rf"\[{_S}(?>{item}{_S}(?:,{_S}(?!\])|(?=\])))*+\]"


def _plain_object() -> str:
    """An object that is plain through and through, with objects and arrays in it. What is nested deeper is rare."""
    simple = rf"{_STRING}|{_WORD}(?={_S}[,\}}])"
    item = rf"{_ELEMENT}|{_WORD}(?={_S}[,\]])"
    inner = _object(rf"(?>{simple}|{_array(rf'(?>{item})')})")
    return _object(rf"(?>{simple}|{inner}|{_array(rf'(?>{item}|{inner})')})")


_OBJECT = re.compile(_plain_object()).match
#: A mark that ends a value could stand where the patterns see JSON, unless it begins like this.
_HARMLESS = re.compile(r'\s*(?:[^\s"{}\[\]:,\-0-9tfn]|\[[/A-Z])').match


class Whole(NamedTuple):
    """The arguments of a call: the object, its strict text, where it ends in the text that was read, and of how many
    values it consists."""

    value: JSONObject
    text: str
    end: int
    values: int


def whole_object(
    buf: str, pos: int, stops: tuple[str, ...], allowance: Allowance | None = None, besides: int = 0
) -> Whole | None:
    """The plain object at `pos`; `None`: there is none, or not all of it, or it is not plain, or it is more than the
    allowance leaves for it `besides` other values. Whoever uses it pays for it."""
    found = _OBJECT(buf, pos)
    if found is None or found.end() - pos > MAX_SIZE or not _are_harmless(stops):
        return None
    raw = found.group()
    value: JSONObject = _decode(raw)
    text = _encode(value).decode()
    if raw.count(":") != text.count(":"):
        return None  # a key that stands twice is read once, and takes at least its own colon along; none is escaped
    values = _count(value)
    return Whole(value, text, found.end(), values) if allowance is None or values + besides <= allowance.left else None


def _count(value: JSONValue) -> int:
    """The values that a value consists of, itself included."""
    if isinstance(value, dict):
        return 1 + sum(map(_count, cast("JSONObject", value).values()))
    return 1 + sum(map(_count, cast("list[JSONValue]", value))) if isinstance(value, list) else 1


@lru_cache(maxsize=64)
def _are_harmless(stops: tuple[str, ...]) -> bool:
    return all(map(_HARMLESS, stops))
