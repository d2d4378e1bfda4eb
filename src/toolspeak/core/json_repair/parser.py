"""Forgiving JSON in, strict JSON out, piece by piece.

`Transducer` reads what models write for JSON (trailing commas, single or typographic quotes, comments,
Python literals, bare keys, forgotten quotes and closers, full-width punctuation) and produces tokens that
`Writer` turns into strict JSON text as early as it is certain. Every repair leaves a named note. It also
reads the argument list of a Python-like call, `(city="Paris", days=2)`, as the object it means.

It is handed a buffer and a position and says how far it got; what it could not decide yet it leaves in the
buffer, never more than `LOOKAHEAD` characters or one key. So time is linear and a chunk boundary cannot
change the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from .containers import MAX_SIZE, Kind, State
from .fast_path import Plain
from .keys import Keys
from .lookahead import CLOSERS, COLONS, COMMAS, OPENERS, QUOTES, begins
from .strings import MORE
from .tokens import (
    END_STRING,
    SCALAR,
)

#: Notes of values that must not be used, whatever else is right with them.
REFUSED = frozenset({"duplicate_key", "nan", "lone_surrogate"})
#: Notes of repairs that may have changed a value.
VALUE_CHANGING = frozenset(
    {
        "ellipsis",
        "inner_quotes",
        "missing_closer",
        "missing_quote",
        "missing_value",
        "split_array",
        "stray_text",
        "wrong_closer",
    }
)

_KINDS: dict[str, Kind] = {"}": "brace", "]": "array", ")": "group"}
_ESCAPED_SPACES = ("\\n", "\\r", "\\t")
_NOT_SPACE = re.compile(r"[^ \t\r\n]").search

#: No stop mark is here.
NO_STOP = -2

#: The states in which spaces and comments mean nothing.
_STRUCTURE = frozenset({"value", "key", "colon", "after"})


class Transducer(Plain):
    """One value. Feed it buffers until `status` is no longer `open`; take `tokens` after each feed."""

    def feed(self, buf: str, pos: int = 0, final: bool = False, pause: int = -1) -> int:
        """Read from `pos`; the answer is the position of the first character not yet read.

        It stops where there are tokens and at most `pause` containers are open, for a caller who may not want the rest.
        """
        room = MAX_SIZE + 1 - self._size
        clipped = len(buf) - pos > room
        if clipped:  # give up at the same place however the text is cut
            buf, final = buf[: pos + room], False
        end = len(buf)
        while pos < end and self.status == "open":
            new = self._step(buf, pos, final)
            if new == MORE:
                if clipped:  # what is needed to go on lies beyond the limit
                    self._give_up("too_large")
                break
            self._size += new - pos
            if self._size > MAX_SIZE:
                self._give_up("too_large")
            pos = new
            if self.tokens and len(self._closers) <= pause:
                break
        return pos

    def finish(self) -> None:
        """The text is over: close what is open, so that the tokens still make one strict value."""
        if self.status != "open":
            return
        if self._state in ("line_comment", "block_comment"):
            self._state = self._back
        if self._state == "word":
            self._end_word()
        elif self._state == "value" and not self._closers:
            self._give_up("no_value")
        if self.status == "open":
            self._close_open()
            self.status = "truncated"

    def close_all(self) -> None:
        """The surrounding mark ended before the value did: close what is open and call that a repair."""
        self.finish()
        if self.status == "truncated":
            self.status = "complete"
            self._note("missing_closer")

    def _close_open(self) -> None:
        if self.in_string:
            self._emit(END_STRING)
        elif self._state == "value":
            if self._kinds[-1] in ("object", "call"):
                self._emit(SCALAR, self.missing)
        elif self._state not in ("key", "after"):
            self._close_kept()
        while self._closers:
            self._pop()

    def _close_kept(self) -> None:
        """A string that might be a key has lost what should follow it: it is a value where one may stand; it is
        `key: value` without the quotes between them; or it is a key without a value, which is nothing."""
        if self._kinds[-1] in ("array", "call"):
            if self._kept or self._state == "colon":
                self._release()
                self._emit(END_STRING)
            return
        ended = self._state == "colon"
        key, colon, rest = self._take_key().partition(":")
        if colon and not ended:
            self._note("missing_quote")
            self._emit_key(key)
            if rest.strip():
                self._emit_word(rest.strip())
            else:
                self._emit(SCALAR, self.missing)

    # ---- what all states share

    def _step(self, buf: str, pos: int, final: bool) -> int:
        """Let the current state read on from `pos`: where it got, or MORE."""
        state = self._state
        if state in _STRUCTURE:
            short = self._short.get(state)
            if short is not None and (new := short(self, buf, pos)) > pos:
                return new
            new = self._blank(buf, pos, final)
            if new in (MORE, len(buf)) or self._state != state or self.status != "open" or buf[new] == "\n":
                return new
            pos = new
        return self._STATES[state](self, buf, pos, final)

    def _blank(self, buf: str, pos: int, final: bool) -> int:
        """Skip spaces; enter a comment; close everything at a stop mark."""
        while (found := _NOT_SPACE(buf, pos)) is not None:
            if "\n" in self._stop_starts and (line := self._line_stop(buf, pos, found.start(), final)) != NO_STOP:
                return line
            pos = found.start()
            char = buf[pos]
            stop = self._stop_at(buf, pos)
            if stop:
                self.close_all()
                return pos
            if not final and (stop is None or (char == "\\" and pos + 1 == len(buf))):
                return MORE
            if char in "/#":
                return self._comment(buf, pos, final)
            width = self._odd_space(buf, pos)
            if width == 0:
                return pos
            pos += width
        if "\n" in self._stop_starts and (line := self._line_stop(buf, pos, len(buf), final)) != NO_STOP:
            return line
        return len(buf)

    def _line_stop(self, buf: str, pos: int, end: int, final: bool) -> int:
        """Where a stop mark begins with the last line break of the spaces from `pos` to `end`; MORE or NO_STOP."""
        at = buf.rfind("\n", pos, end)
        stop = at >= 0 and begins(buf, at, self._stops)
        if stop is None and not final:
            return at if at > pos else MORE
        if not stop:
            return NO_STOP
        self.close_all()
        return at

    def _odd_space(self, buf: str, pos: int) -> int:
        """How many characters at `pos` only look like or stand for a space: all but zero make a note."""
        char = buf[pos]
        if char.isspace() or char == "\ufeff":
            self._note("odd_space")
            return 1
        if char == "\\" and begins(buf, pos, _ESCAPED_SPACES):
            self._note("double_encoded")
            return 2
        return 0

    def _comment(self, buf: str, pos: int, final: bool) -> int:
        if buf[pos] == "/" and pos + 1 == len(buf) and not final:
            return MORE
        if buf.startswith("/*", pos):
            self._enter_comment("block_comment")
            return pos + 2
        if buf[pos] == "#" or buf.startswith("//", pos):
            self._enter_comment("line_comment")
            return pos + 1
        return pos

    # ---- a value must come

    def _value(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        kind = self._kinds[-1]
        if kind == "root" and self._call:
            return self._open_call(char, pos)
        if char in OPENERS:
            self._fullwidth(char)
            self._push(_KINDS[OPENERS[char]], OPENERS[char])
            return pos + 1
        if char in CLOSERS or char in COMMAS:
            return self._no_value(buf, pos, final)
        if char in COLONS and kind in ("object", "call"):
            self._note("other_separator")
            return pos + 1
        if char in QUOTES or char in "\\<":
            return self._open_string(buf, pos, final, maybe_key=kind == "array")
        return self._bare_value(buf, pos, final)

    def _open_call(self, char: str, pos: int) -> int:
        if OPENERS.get(char) != ")":
            self._give_up("no_call")
            return pos
        self._fullwidth(char)
        self._push("call", ")")
        return pos + 1

    def _bare_value(self, buf: str, pos: int, final: bool) -> int:
        prefixed = self._open_prefixed(buf, pos, final)
        if prefixed is not None:
            return prefixed
        self._state = "word"
        return pos

    def _no_value(self, buf: str, pos: int, final: bool) -> int:
        """A closer or a comma stands where a value should."""
        kind = self._kinds[-1]
        if kind == "root":
            self._give_up("no_value")
        elif kind in ("object", "call"):
            self._missing_value()
        elif buf[pos] in CLOSERS:
            return self._close(buf, pos, final)
        else:
            self._note("extra_comma")
            return pos + 1
        return pos

    _STATES: ClassVar[dict[State, Callable[..., int]]] = {
        "value": _value,
        "key": Keys._key,
        "colon": Keys._colon,
        "after": Keys._after,
        "word": Keys._read_word,
        "string": Keys._string,
        "triple": Keys._triple,
        "marked": Keys._marked,
        "escaped": Keys._escaped,
        "line_comment": Keys._line_comment,
        "block_comment": Keys._block_comment,
    }
