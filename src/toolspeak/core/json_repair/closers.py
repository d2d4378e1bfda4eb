"""How the containers of tolerant JSON end: commas, closers, and what models write instead.

`Closers` adds to `Words` the state behind a value.
"""

from __future__ import annotations

from .bare_words import Words
from .lookahead import CLOSERS, COMMAS, OPENERS, QUOTES, array_behind_comma, key_behind_comma, skip
from .strings import MORE

_FULLWIDTH = frozenset("｛｝［］（），：＝；")
#: What may begin the next key or value when the comma was forgotten, besides letters and digits.
_STARTERS = "-_.\\$<"


class Closers(Words):
    """The state in which a value has ended inside a container: a comma or a closer must come."""

    def _fullwidth(self, char: str) -> None:
        if char in _FULLWIDTH:
            self._note("fullwidth")

    def _after(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if char in COMMAS:
            self._fullwidth(char)
            if char == ";":
                self._note("other_separator")
            self._last_comma = True
            self._next()
            return pos + 1
        self._last_comma = False
        if char in CLOSERS:
            return self._close(buf, pos, final)
        if char in QUOTES or char in OPENERS or char.isalnum() or char in _STARTERS:
            self._note("missing_comma")
            self._next()
        else:
            self._give_up("not_json")
        return pos

    def _next(self) -> None:
        kind = self._kinds[-1]
        if kind == "group":
            self._settle_group(is_tuple=True)
        elif kind == "wrap":
            self._give_up("not_an_object")
        self._state = "value" if kind in ("array", "group") else "key"

    def _close(self, buf: str, pos: int, final: bool) -> int:
        """A closer stands at `pos`: it may close several containers, one, or none."""
        char = buf[pos]
        closer = CLOSERS[char]
        if closer not in self._closers:
            self._note("extra_closer")
            return pos + 1
        if closer != self._closers[-1]:
            return self._close_outer(buf, pos, final)
        if closer == "]" and self._kinds[-2] == "object":
            joined = self._ahead(array_behind_comma, buf, pos, final)
            if joined is None:
                return MORE
            if joined:
                self._note("split_array")
                self._state = "value"
                return skip(buf, skip(buf, pos + 1) + 1) + 1
        self._close_one(char)
        return pos + 1

    def _close_one(self, char: str) -> None:
        self._fullwidth(char)
        if self._last_comma:
            self._note("trailing_comma")
        self._pop()

    def _close_outer(self, buf: str, pos: int, final: bool) -> int:
        """The closer of an outer container: those inside were not closed, or it is the wrong one for them."""
        closer = CLOSERS[buf[pos]]
        depth = self._closers.rindex(closer)
        goes_on = self._ahead(key_behind_comma, buf, pos + 1, final)
        if goes_on is None:
            return MORE
        if goes_on and self._kinds[depth] in ("root", "array", "group"):
            self._note("wrong_closer")
            self._close_one(buf[pos])
            return pos + 1
        while len(self._closers) > depth + 1:
            self._note("missing_closer")
            self._pop()
        self._close_one(buf[pos])
        return pos + 1
