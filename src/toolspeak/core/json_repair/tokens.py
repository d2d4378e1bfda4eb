"""What tolerant JSON is turned into: tokens, and the strict text they stand for.

A token is a kind and a text. `KEY` carries the decoded key, `PLACE` the name that stands in for the key of an
argument without one; `PART` (a piece of a string) and `SCALAR` carry
strict JSON text, so that concatenating what `Writer` returns gives one strict value.
"""

from __future__ import annotations

from typing import Literal

from .literals import escape_text

Status = Literal["open", "complete", "truncated", "hopeless"]
Token = tuple[int, str]

OBJECT, END_OBJECT, ARRAY, END_ARRAY, KEY, STRING, PART, END_STRING, SCALAR, PLACE = range(10)

_START = {OBJECT: "{", ARRAY: "[", STRING: '"', SCALAR: ""}


class Writer:
    """Tokens in, strict JSON text out."""

    def __init__(self) -> None:
        self._first = True  # whether nothing stands before the next value that a comma must separate it from

    def write(self, token: Token) -> str:
        """The text that this token adds."""
        kind, text = token
        if kind == PART:
            return text
        if kind == END_STRING:
            return '"'
        if kind in (END_OBJECT, END_ARRAY):
            self._first = False
            return "}" if kind == END_OBJECT else "]"
        comma = "" if self._first else ","
        if kind in (KEY, PLACE):
            self._first = True
            return f'{comma}"{escape_text(text)}":'
        self._first = kind in (OBJECT, ARRAY)
        return comma + _START[kind] + text
