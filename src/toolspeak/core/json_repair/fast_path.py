"""Fast path of the tolerant JSON parser: one regular expression reads a key, a simple value or the end of an object.

A pattern matches only if the state machine would emit the same tokens without a note, however the text is chunked. So
it includes the text that must follow a closing quote. If no pattern matches, the state machine takes over.
"""

import re
from collections.abc import Callable

from .containers import Containers, Output, State
from .tokens import END_STRING, PART, SCALAR, STRING

#: Building blocks of patterns for plain JSON: optional white space, and one character of a string.
SPACES = r"[ \t\r\n]*+"
TEXT_CHAR = r"[^\"\\\x00-\x1f\ud800-\udfff]"
#: An escape that strict JSON spells the same way.
ESCAPE = r'\\["\\/bfnrt]'
#: Ordinary keys are short; longer ones are left to the state machine.
_KEY = rf'"({TEXT_CHAR}{{1,64}}+)"{SPACES}:'
_CHARS = r"[^\"\\\x00-\x1f\ud800-\udfff,]*+"
#: Excludes a comma before a quote, because the closing quote may be missing there.
_STRING = rf'"(?!"){_CHARS}(?:(?:{ESCAPE}|,(?!{SPACES}")){_CHARS})*+"'
#: What must follow a string: a comma and the next key, or a closing brace that no text follows.
_AFTER_STRING = rf'(?={SPACES}(?:,{SPACES}{_KEY}|\}}(?!")[\s\ufeff]*+[^\s\ufeff\w]))'
WORD = r"(?:true|false|null|-?(?:0|[1-9][0-9]{0,14}+)(?:\.[0-9]{1,15}+)?+)"
_AFTER_WORD = rf'(?={SPACES}(?:,{SPACES}"|\}}))'

_FIRST_KEY = re.compile(SPACES + _KEY).match
_NEXT = re.compile(rf"{SPACES}(?:,{SPACES}{_KEY}|\}})").match
_VALUE = re.compile(rf"{SPACES}(?:({_STRING}){_AFTER_STRING}|({WORD}){_AFTER_WORD}|\{{)").match
#: The patterns could mistake a stop mark that begins with one of these characters for JSON.
_JSON_STARTS = frozenset('"{},:-0123456789tfn')

#: Function that returns the new position, or the old one if the text needs the state machine.
FastPath = Callable[[Output, Containers, str, int], int]


def _read_key(output: Output, containers: Containers, buf: str, pos: int) -> int:
    key = _FIRST_KEY(buf, pos) if containers.kinds[-1] in ("object", "brace") else None
    if key is None:
        return pos
    containers.emit_key(key[1])
    return key.end()


def _read_next(output: Output, containers: Containers, buf: str, pos: int) -> int:
    """Read a comma and the next key, or the end of the object."""
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
    """Read the value of a key: a string, a literal, a number or an opening brace."""
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
    """Return the fast paths by state; there are none if a stop mark could be mistaken for JSON."""
    return _FAST_PATHS if _JSON_STARTS.isdisjoint(stop_starts) else {}
