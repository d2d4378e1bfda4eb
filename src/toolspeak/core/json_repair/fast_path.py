"""The short way through JSON that is plainly strict: a key, a simple value or the end of an object in one step each.

`Plain` adds nothing to what `Keys` understands. Each pattern matches only where the states below would come to the
same tokens without a note, however the text is cut: what must stand behind a closing quote is part of the pattern.
Where none matches, the states read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from .containers import Allowance, State
from .keys import Keys
from .tokens import END_STRING, PART, SCALAR, STRING

_S = r"[ \t\r\n]*+"
_TEXT = r"[^\"\\\x00-\x1f\ud800-\udfff]"
#: An ordinary key is short; a longer one is read by the states.
_KEY = rf'"({_TEXT}{{1,64}}+)"{_S}:'
_CHARS = r"[^\"\\\x00-\x1f\ud800-\udfff,]*+"
#: A comma before a quote may mean that the closing quote was forgotten.
_STRING = rf'"(?!"){_CHARS}(?:,(?!{_S}"){_CHARS})*+"'
#: Behind a string: a comma and the next key, or a closer that no text follows.
_BEHIND_STRING = rf'(?={_S}(?:,{_S}{_KEY}|\}}(?!")[\s\ufeff]*+[^\s\ufeff\w]))'
_WORD = r"(?:true|false|null|-?(?:0|[1-9][0-9]{0,14}+)(?:\.[0-9]{1,15}+)?+)"
_BEHIND_WORD = rf'(?={_S}(?:,{_S}"|\}}))'

_FIRST_KEY = re.compile(_S + _KEY).match
_NEXT = re.compile(rf"{_S}(?:,{_S}{_KEY}|\}})").match
_VALUE = re.compile(rf"{_S}(?:({_STRING}){_BEHIND_STRING}|({_WORD}){_BEHIND_WORD}|\{{)").match
#: A mark that ends the value and begins with one of these could stand where the patterns see JSON.
_OWN = frozenset('"{},:-0123456789tfn')


class Plain(Keys):
    """Reads in one step what needs no thought."""

    def __init__(self, *, stops: tuple[str, ...] = (), call: bool = False, allowance: Allowance | None = None) -> None:
        super().__init__(stops=stops, call=call, allowance=allowance)
        self._short = self._SHORT if _OWN.isdisjoint(self._stop_starts) else {}

    def _short_key(self, buf: str, pos: int) -> int:
        """The next key and its colon."""
        key = _FIRST_KEY(buf, pos) if self._kinds[-1] in ("object", "brace") else None
        if key is None:
            return pos
        self._emit_key(key[1])
        return key.end()

    def _short_after(self, buf: str, pos: int) -> int:
        """A comma and the next key, or the end of the object."""
        found = _NEXT(buf, pos) if self._kinds[-1] == "object" else None
        if found is None:
            return pos
        key = found[1]
        if key is None:
            self._last_comma = False
            self._pop()
        else:
            self._emit_key(key)
        return found.end()

    def _short_value(self, buf: str, pos: int) -> int:
        """A string, a word or a brace as the value of a key."""
        found = _VALUE(buf, pos) if self._kinds[-1] == "object" else None
        if found is None:
            return pos
        kind = found.lastindex
        if kind is None:
            self._push("brace", "}")
        elif found[1]:
            self._emit(STRING)
            self._emit(PART, found[1][1:-1])
            self._emit(END_STRING)
            self._ended(END_STRING)
        else:
            self._emit(SCALAR, found[3])
            self._ended(SCALAR)
        return found.end()

    _SHORT: ClassVar[dict[State, Callable[..., int]]] = {
        "key": _short_key,
        "after": _short_after,
        "value": _short_value,
    }
