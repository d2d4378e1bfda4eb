"""Shortcuts through a long text: chunks in which nothing happens are passed on without being read.

Between two marks a text may be hundreds of thousands of chunks long, and each of them costs what is done for it.
A run takes them one by one until it meets something that only the reader of the text can read; what may still
become such a thing waits for the next chunk, and nothing else does. Above: `scanner`, which asks readers for a run,
and the dialects, which give it. Below: `events`, `literals`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TypeAlias

from ..events import CallArgs, Event
from .literals import escape_text, has_surrogate

__all__ = ["Read", "Run", "Search", "StrictRun"]

Search: TypeAlias = Callable[..., re.Match[str] | None]
#: Reads a text in which something was found: its event, how much was read, and whether the rest only needs more text.
Read: TypeAlias = Callable[[str, re.Match[str]], tuple[Event | None, int, bool]]


class Run:
    """A shortcut. `feed` it chunks until it is `over`; `rest` is then what has not been read."""

    __slots__ = ("_grow", "_read", "_room", "left", "over", "raw", "rest", "silent", "stops", "take")

    def __init__(
        self,
        stops: Search,
        take: Callable[[str], Event | None],
        read: Read | None = None,
        room: int = sys.maxsize,
        grow: Callable[[int], None] | None = None,
        silent: bool = False,
    ) -> None:
        self.stops = stops  # finds what must be looked at
        self.take = take  # turns a chunk with nothing of that into its event, or keeps it for later
        self.left = room  # how many characters may still come this way
        self.rest = ""  # what waits for more text
        self.over = False
        self.silent = silent  # nothing goes out yet: `take` has no event to give
        self.raw: list[str] = []  # what came and has no event: it may still turn out to be text
        self._read = read
        self._room = room
        self._grow = grow  # is told in the end how many characters came

    def feed(self, chunk: str) -> list[Event]:
        """The events of a chunk, as far as it goes this way."""
        text = self.rest + chunk
        found = self.stops(text)
        if found is not None or not 0 < len(text) <= self.left:
            return self._look(text, found)
        self.rest = ""
        self.left -= len(text)
        event = self.take(text)
        return [event] if event is not None else self._keep(text)

    def _look(self, text: str, found: re.Match[str] | None) -> list[Event]:
        """Something was found in the text, or there is too much of it, or nothing."""
        if not text:
            return []
        if found is None or self._read is None or len(text) > self.left or has_surrogate(text):
            return self._stop(text)
        event, end, waits = self._read(text, found)
        self.left -= end
        self.rest = text[end:]
        self.over = not waits and end < len(text)
        return [event] if event is not None else self._keep(text[:end])

    def _keep(self, text: str) -> list[Event]:
        self.raw.append(text)
        return []

    def _stop(self, text: str) -> list[Event]:
        self.rest = text
        self.over = True
        return []

    def end(self) -> str:
        """The run is over; what it has not read."""
        if self._grow is not None:
            self._grow(self._room - self.left)
        return self.rest


_SPACE = r"[ \t\r\n]"
_HEX = "[0-9a-fA-F]"
_PAIR = rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_CHARS = r"[^\"\\\x00-\x1f\ud800-\udfff,]*+"
#: Content of a strict string: escapes of all kinds, and commas behind which no key follows whose string lacks its quote.
_ESCAPE = rf"\\(?:[\"\\/bfnrt]|u(?![dD][89a-fA-F]){_HEX}{{4}})|{_PAIR}"
_STRICT = re.compile(rf"{_CHARS}(?:(?:{_ESCAPE}|,(?={_SPACE}{{0,64}}[^ \t\r\n\"])){_CHARS})*+").match
#: What may still become such content.
_HALF = rf"\\u[dD][89abAB]{_HEX}{{2}}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?"
_BEGUN = re.compile(rf",{_SPACE}{{0,64}}|\\(?:u{_HEX}{{0,3}})?|{_HALF}").fullmatch
#: What in a chunk may be more than that: a quote, a comma that may stand before one, an escape that is none or hides a
#: quote or a backslash, and what must be escaped. It begins with a set of characters, for the sake of speed.
_STOPS: Search = re.compile(
    r'["\\\x00-\x1f\ud800-\udfff,](?:(?<![,\\])|(?<=,)(?![ \t\r\n]{0,64}[^ \t\r\n"])|(?<=\\)(?![/bfnrt]))'
).search


class StrictRun(Run):
    """Through a string in double quotes, most of which is strict JSON as it stands: a chunk is looked at once.

    `keep` takes its pieces; with an `index` they go out as arguments of that call. Raw control characters are
    escaped, of which `mend` is told.
    """

    __slots__ = ("_index", "_mend", "_take_piece")

    def __init__(
        self,
        keep: Callable[[str], None],
        index: int | None,
        room: int,
        grow: Callable[[int], None],
        mend: Callable[[], None],
    ) -> None:
        super().__init__(_STOPS, self._pass_on, None, room, grow, index is None)
        self._take_piece = keep
        self._index = index
        self._mend = mend

    def _pass_on(self, text: str) -> CallArgs | None:
        self._take_piece(text)
        return None if self._index is None else CallArgs(self._index, text)

    def feed(self, chunk: str) -> list[Event]:
        text = self.rest + chunk
        end = _end_of_strict(text)
        if end < len(text) or not 0 < end <= self.left:
            return self._look_at(text, end)
        self.rest = ""
        self.left -= end
        self._take_piece(text)
        return self._keep(text) if self._index is None else [CallArgs(self._index, text)]

    def _look_at(self, text: str, end: int) -> list[Event]:
        """Behind `end` stands something else, or there is too much text, or none."""
        if not text:
            return []
        if len(text) > self.left:
            return self._stop(text)
        start, pieces = 0, ""
        while end < len(text) and text[end] < " ":
            self._mend()
            pieces += text[start:end] + escape_text(text[end])
            start = end + 1
            end = _end_of_strict(text, start)
        pieces += text[start:end]
        self.left -= end
        self.rest = text[end:]
        self.over = bool(self.rest) and _BEGUN(self.rest) is None
        event = self._pass_on(pieces) if pieces else None
        return [event] if event is not None else self._keep(text[:end])


def _end_of_strict(text: str, pos: int = 0) -> int:
    """How far the text from `pos` on is content of a strict string."""
    strict = _STRICT(text, pos)
    assert strict is not None  # the pattern matches nothing, too
    return strict.end()
