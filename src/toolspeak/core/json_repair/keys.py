"""The keys of tolerant JSON, and strings that might be keys.

`Keys` adds to `Closers` the state in which a key must come and the state behind one. A string in an array or an
argument list is kept like a key until it is known that no colon follows; the first key of a brace decides whether
it is an object or a Python set.
"""

from __future__ import annotations

import re

from .bare_words import ELLIPSES
from .closers import Closers
from .containers import State
from .literals import escape_text, has_surrogate, read_word
from .lookahead import (
    CLOSERS,
    COLONS,
    COMMAS,
    FLAG,
    LOOKAHEAD,
    OPENERS,
    QUOTES,
    begins,
    key_behind_comma,
    named_argument_ahead,
    number_behind_comma,
    quoted_colon,
    quoted_key_at,
)
from .strings import MORE
from .tokens import ARRAY, END_OBJECT, END_STRING, SCALAR

_BARE_KEY = re.compile(r"[^:=：＝\s,，;；{}\[\]()\"'“”<>|*]+").match


class Keys(Closers):
    """The states in which a key must come, or the colon behind it."""

    # ---- a key must come, or the end of the object

    def _key(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if char in CLOSERS:
            return self._close(buf, pos, final)
        if char in COMMAS:
            self._note("extra_comma")
            return pos + 1
        if char in QUOTES or char in "\\<":
            return self._open_string(buf, pos, final, maybe_key=True)
        if char in ".…":
            return self._ellipsis(buf, pos, final)
        if self._kinds[-1] == "call":
            return self._argument_word(buf, pos, final)
        if char in OPENERS:
            return self._opener_for_key(char, pos)
        return self._bare_key(buf, pos, final)

    def _ellipsis(self, buf: str, pos: int, final: bool) -> int:
        found = begins(buf, pos, ELLIPSES)
        if found is None:
            return len(buf) if final else MORE
        if not found:
            self._give_up("not_an_object")
            return pos
        self._note("ellipsis")
        self._last_comma = False
        return pos + (3 if buf[pos] == "." else 1)

    def _argument_word(self, buf: str, pos: int, final: bool) -> int:
        """In an argument list: a name with `=` or `:`, or a value without a name."""
        named = self._ahead(named_argument_ahead, buf, pos, final)
        if named is None:
            return MORE
        if named:
            return self._bare_key(buf, pos, final)
        self._emit_place()
        return pos

    def _opener_for_key(self, char: str, pos: int) -> int:
        """Braces are doubled by templates; or the object before this one was not closed."""
        if char == "{" and self._kinds[-1] == "brace":
            self._note("doubled_braces")
            self._become("wrap")
            self._push("brace", "}")
            return pos + 1
        if char == "{" and self._kinds[-2] == "array":
            self._note("missing_closer")
            self._pop()
            self._state = "value"
            return pos
        self._give_up("not_an_object")
        return pos

    def _bare_key(self, buf: str, pos: int, final: bool) -> int:
        key = _BARE_KEY(buf, pos)
        end = pos if key is None else key.end()
        if end == len(buf) and end - pos <= LOOKAHEAD and not final:
            return MORE
        if key is None or end - pos > LOOKAHEAD:
            self._give_up("not_an_object")
            return pos
        word = key.group().removeprefix("--")
        self._flags = len(word) < end - pos
        if has_surrogate(word):
            self._note("lone_surrogate")
        if self._kinds[-1] != "call":
            self._note("unquoted_key")
        self._kept = [escape_text(word)]
        self._quoted = False
        self._state = "colon"
        return end

    # ---- a key has been read, or a string that might be one; a colon must come

    def _colon(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if char in COLONS:
            return self._colon_seen(buf, pos, final)
        if self._kinds[-1] in ("array", "call"):
            self._lone_string()
            return pos
        if char in QUOTES:
            return self._quote_after_key(buf, pos, final)
        if char in COMMAS:
            return self._comma_after_key(buf, pos, final)
        if char in CLOSERS:
            self._lone_key()
            return pos
        next_flag = not self._flags or begins(buf, pos, FLAG)
        if next_flag is None and not final:
            return MORE
        if self._quoted or char in OPENERS or not next_flag:
            self._note("missing_colon")
            self._emit_key(self._take_key())
        elif self._kinds[-1] == "object":
            self._drop_key("key")
        else:
            self._give_up("not_an_object")
        return pos

    def _colon_seen(self, buf: str, pos: int, final: bool) -> int:
        arrow = begins(buf, pos, ("=>",))
        if arrow is None and not final:
            return MORE
        char = buf[pos]
        self._fullwidth(char)
        if char == "=" and self._kinds[-1] != "call":
            self._note("other_separator")
        if self._kinds[-1] == "array":
            self._object_in_array()
        self._emit_key(self._take_key())
        return pos + (2 if arrow else 1)

    def _object_in_array(self) -> None:
        """A key in an array: the array was not closed, or an object in it was not opened."""
        if self._kinds[-2] == "object" and self._previous not in (ARRAY, END_OBJECT):
            self._note("missing_closer")
            self._pop()
        else:
            self._note("missing_opener")
            self._push("object", "}")

    def _lone_string(self) -> None:
        """What might have been a key is a value."""
        self._release()
        self._emit(END_STRING)
        self._ended(END_STRING)

    def _lone_key(self) -> None:
        """A key without a value: an element of a set when it is the first, nothing otherwise."""
        if self._kinds[-1] != "brace":
            self._drop_key("after")
            return
        if self._quoted:
            self._become("array")
            self._note("python_literal")
            self._lone_string()
            return
        word = self._take_key()
        if read_word(word)[0] is None:
            self._give_up("not_an_object")
            return
        self._become("array")
        self._note("python_literal")
        self._emit_word(word)
        self._ended(SCALAR)

    def _drop_key(self, state: State) -> None:
        self._note("stray_text", self._take_key()[:64])
        self._state = state

    def _quote_after_key(self, buf: str, pos: int, final: bool) -> int:
        """`key "value"` lacks a colon; `key": value` lacks a quote; `word "key": value` has a word too many."""
        extra = self._ahead(quoted_colon, buf, pos, final)
        word = self._ahead(quoted_key_at, buf, pos, final)
        if extra is None or word is None:
            return MORE
        if extra:
            self._note("missing_quote")
            return pos + 1
        if word:
            self._drop_key("key")
        else:
            self._note("missing_colon")
            self._emit_key(self._take_key())
        return pos

    def _comma_after_key(self, buf: str, pos: int, final: bool) -> int:
        """A comma instead of a colon, the next element of a set, or a key without a value."""
        number = self._ahead(number_behind_comma, buf, pos, final)
        key = self._ahead(key_behind_comma, buf, pos, final)
        if number is None or key is None:
            return MORE
        if self._quoted and number:
            self._note("missing_colon")
            self._emit_key(self._take_key())
            return pos + 1
        if key:
            self._drop_key("after")
        else:
            self._lone_key()
        return pos
