"""Tokens that the tolerant JSON parser emits, and a writer that turns them into strict JSON text.

A token is a pair of kind and text. The text of `KEY` is the decoded key; the text of `POSITIONAL` is a placeholder key
for an argument without a name. The text of `PART` (a piece of a string) and `SCALAR` is strict JSON.
"""

from typing import Literal

from .literals import escape_text

Status = Literal["open", "complete", "truncated", "hopeless"]
Token = tuple[int, str]

OBJECT, END_OBJECT, ARRAY, END_ARRAY, KEY, STRING, PART, END_STRING, SCALAR, POSITIONAL = range(10)

_START = {OBJECT: "{", ARRAY: "[", STRING: '"', SCALAR: ""}


class WrittenNumber(str):
    """The text of a number in strict JSON, with what the model has written instead."""

    written: str


class Writer:
    """Writer that turns tokens into strict JSON text."""

    def __init__(self) -> None:
        self._first = True  # the next key or value needs no comma before it

    def write(self, token: Token) -> str:
        """Return the JSON text of the next token."""
        kind, text = token
        if kind == PART:
            return text
        if kind == END_STRING:
            return '"'
        if kind in (END_OBJECT, END_ARRAY):
            self._first = False
            return "}" if kind == END_OBJECT else "]"
        comma = "" if self._first else ","
        if kind in (KEY, POSITIONAL):
            self._first = True
            return f'{comma}"{escape_text(text)}":'
        self._first = kind in (OBJECT, ARRAY)
        return comma + _START[kind] + text
