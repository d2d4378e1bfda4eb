"""Fast path of the tolerant JSON parser: a key, a simple value or the end of an object in one regular expression.

Each pattern matches only where the parser's states would produce the same tokens without a note, wherever the text is
cut into chunks: what must follow a closing quote is part of the pattern. Where no pattern matches, the states decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .containers import Containers, Output, State
from .tokens import END_STRING, PART, SCALAR, STRING

#: Building blocks of patterns for plain JSON: optional white space, one character of a string, a literal or number.
SPACES = r"[ \t\r\n]*+"
TEXT_CHAR = r"[^\"\\\x00-\x1f\ud800-\udfff]"
#: An ordinary key is short; longer ones are left to the states.
_KEY = rf'"({TEXT_CHAR}{{1,64}}+)"{SPACES}:'
_CHARS = r"[^\"\\\x00-\x1f\ud800-\udfff,]*+"
#: A comma before a quote may mean that the closing quote is missing.
_STRING = rf'"(?!"){_CHARS}(?:,(?!{SPACES}"){_CHARS})*+"'
#: After a string: a comma and the next key, or a closer that is not followed by text.
_AFTER_STRING = rf'(?={SPACES}(?:,{SPACES}{_KEY}|\}}(?!")[\s\ufeff]*+[^\s\ufeff\w]))'
WORD = r"(?:true|false|null|-?(?:0|[1-9][0-9]{0,14}+)(?:\.[0-9]{1,15}+)?+)"
_AFTER_WORD = rf'(?={SPACES}(?:,{SPACES}"|\}}))'

_FIRST_KEY = re.compile(SPACES + _KEY).match
_NEXT = re.compile(rf"{SPACES}(?:,{SPACES}{_KEY}|\}})").match
_VALUE = re.compile(rf"{SPACES}(?:({_STRING}){_AFTER_STRING}|({WORD}){_AFTER_WORD}|\{{)").match
#: A stop mark that begins with one of these could be mistaken for JSON by the patterns.
_JSON_STARTS = frozenset('"{},:-0123456789tfn')

#: Returns the new position; the old one when the text needs the states.
FastPath = Callable[[Output, Containers, str, int], int]


def _read_key(output: Output, containers: Containers, buf: str, pos: int) -> int:
    """The next key and its colon."""
    key = _FIRST_KEY(buf, pos) if containers.kinds[-1] in ("object", "brace") else None
    if key is None:
        return pos
    containers.emit_key(key[1])
    return key.end()


def _read_next(output: Output, containers: Containers, buf: str, pos: int) -> int:
    """A comma and the next key, or the end of the object."""
    match = _NEXT(buf, pos) if containers.kinds[-1] == "object" else None
    if match is None:
        return pos
    key = match[1]
    if key is None:
        containers.last_comma = False
        containers.pop()
    else:
        containers.emit_key(key)
    return match.end()


def _read_value(output: Output, containers: Containers, buf: str, pos: int) -> int:
    """A string, a literal, a number or an opening brace as the value of a key."""
    match = _VALUE(buf, pos) if containers.kinds[-1] == "object" else None
    if match is None:
        return pos
    if match.lastindex is None:
        containers.push("brace", "}")
    elif match[1]:
        emit = output.emit
        emit(STRING)
        emit(PART, match[1][1:-1])
        emit(END_STRING)
        containers.end_value(END_STRING)
    else:
        output.emit(SCALAR, match[3])
        containers.end_value(SCALAR)
    return match.end()


_FAST_PATHS: dict[State, FastPath] = {"key": _read_key, "after": _read_next, "value": _read_value}


def fast_paths(stop_starts: str) -> dict[State, FastPath]:
    """The fast path of each state that has one; none if a stop mark could be mistaken for JSON."""
    return _FAST_PATHS if _JSON_STARTS.isdisjoint(stop_starts) else {}
