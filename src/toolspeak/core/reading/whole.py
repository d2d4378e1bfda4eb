"""The shortest way through arguments that came whole: one match says that they are plain, one parser reads them.

What is plain is a part of strict JSON, and of that only what the tolerant reader takes as it stands, without a note
and without a doubt: where it would ask what follows a quote, the answer is part of the pattern. Strings may hold the
escapes that are written again as they were. Everything else is left to the tolerant reader, which comes to the same.
Above: `builder`, `dialects`. Below: `lenient_json` for its limits, `model`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import msgspec

from ..lenient_json import MAX_SIZE
from ..model import JSONObject

__all__ = ["Whole", "whole_object"]

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
    """The arguments of a call: the object, its strict text, and where it ends in the text that was read."""

    value: JSONObject
    text: str
    end: int


def whole_object(buf: str, pos: int, stops: tuple[str, ...]) -> Whole | None:
    """The plain object at `pos`; `None`: there is none, or not all of it, or it is not plain."""
    found = _OBJECT(buf, pos)
    if found is None or found.end() - pos > MAX_SIZE or not _are_harmless(stops):
        return None
    raw = found.group()
    value: JSONObject = _decode(raw)
    text = _encode(value).decode()
    # A key that stands twice is read once, and takes at least its own colon along. None of them is escaped.
    return Whole(value, text, found.end()) if raw.count(":") == text.count(":") else None


@lru_cache(maxsize=64)
def _are_harmless(stops: tuple[str, ...]) -> bool:
    return all(map(_HARMLESS, stops))
