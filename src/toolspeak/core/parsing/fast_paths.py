"""Shortcuts through a long text: chunks in which nothing happens are passed on without being read.

Between two marks a text may be hundreds of thousands of chunks long, and each of them costs what is done for it.
A run takes them one by one until it meets something that only the reader of the text can read; what may still
become such a thing waits for the next chunk, and nothing else does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TypeAlias, cast

from ..events import CallArgs, Event
from ..json_repair.literals import escape_text, has_surrogate

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
        size = len(text)
        found = self.stops(text)
        if found is None and 0 < size <= self.left:
            self.rest = ""
            self.left -= size
            event = self.take(text)
            return [event] if event is not None else self._keep(text)
        return self._look(text, found) if text else []

    def _look(self, text: str, found: re.Match[str] | None) -> list[Event]:
        """Something was found in the text, or there is too much of it."""
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


class ArgumentRun(Run):
    """Through a string of a call's arguments.

    `keep` takes its pieces as `write` writes them; with an `index` they go out as arguments of that call.
    """

    __slots__ = ("_index", "_keep_piece")

    def __init__(
        self,
        stops: Search,
        write: Callable[[str], str],
        keep: Callable[[str], None],
        index: int | None,
        read: Read | None,
        room: int,
        grow: Callable[[int], None],
    ) -> None:
        def pass_on(text: str) -> CallArgs | None:
            fragment = write(text)
            keep(fragment)
            return None if index is None else CallArgs(index, fragment)

        super().__init__(stops, pass_on, read, room, grow, index is None)
        self._keep_piece = keep
        self._index = index


#: What may mean something between tags.
_MARKUP: Search = re.compile(r"[<&\]\r\n\ud800-\udfff]").search


class MarkupRun(ArgumentRun):
    """Through text between tags, which is decoded and escaped on its way.

    `find` tells where it must be looked at. What it catches in a group is looked up: `resolve` says whether it counts,
    or what comes next that does. What is found at the very end of a text waits for more of it.
    """

    __slots__ = ("_decode", "_find", "_resolve")

    def __init__(
        self,
        find: Search,
        resolve: Callable[[str, re.Match[str]], re.Match[str] | None],
        keep: Callable[[str], None],
        index: int | None,
        read: Read,
        decode: Callable[[str], str],
        room: int,
        grow: Callable[[int], None],
    ) -> None:
        super().__init__(_MARKUP, lambda text: escape_text(decode(text)), keep, index, read, room, grow)
        self._find = find
        self._resolve = resolve
        self._decode = decode

    def feed(self, chunk: str) -> list[Event]:
        text = self.rest + chunk
        found = self._find(text)
        if found is not None and found.lastindex is not None:
            found = self._resolve(text, found)
        if found is None:
            end = len(text)
        elif found.end() == len(text):
            end = found.start()
        else:
            return self._look(text, found)
        left = self.left - end
        if left < 0 or not end or (not text.isascii() and has_surrogate(text)):
            return self._stop(text) if end else self._wait(text)
        self.left = left
        if found is None:
            self.rest = ""
        else:
            self.rest = text[end:]
            text = text[:end]
        fragment = escape_text(self._decode(text) if "&" in text else text)
        self._keep_piece(fragment)
        index = self._index
        return self._keep(text) if index is None else [CallArgs(index, fragment)]

    def _wait(self, text: str) -> list[Event]:
        self.rest = text
        return []


_SPACE = r"[ \t\r\n]"
_HEX = "[0-9a-fA-F]"
_PAIR = rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_CHARS = r"[^\"\\\x00-\x1f\ud800-\udfff,]*+"
#: Content of a strict string: escapes of all kinds, and commas, unless a key may follow and the closing quote is lost.
_ESCAPE = rf"\\(?:[\"\\/bfnrt]|u(?![dD][89a-fA-F]){_HEX}{{4}})|{_PAIR}"
_STRICT = rf"{_CHARS}(?:(?:{_ESCAPE}|,(?={_SPACE}{{0,64}}[^ \t\r\n\"])){_CHARS})*+"
#: How far a text is that; it may be nothing.
_strict = cast("Callable[..., re.Match[str]]", re.compile(_STRICT).match)
#: What may still become such content.
_HALF = rf"\\u[dD][89abAB]{_HEX}{{2}}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?"
_BEGUN = re.compile(rf",{_SPACE}{{0,64}}|\\(?:u{_HEX}{{0,3}})?|{_HALF}").fullmatch
#: And what of that is nearly always there.
_OFTEN_BEGUN = frozenset({"\\", ",", ", "})
#: What in a chunk may be more than that: a quote, a comma that may stand before one, an escape that is none or hides a
#: quote or a backslash, and what must be escaped. It begins with a set of characters, for the sake of speed.
_STOPS: Search = re.compile(
    r'["\\\x00-\x1f\ud800-\udfff,](?:(?<![,\\])|(?<=,)(?![ \t\r\n]{0,64}[^ \t\r\n"])|(?<=\\)(?![/bfnrt]))'
).search


class StrictRun(ArgumentRun):
    """Through a string in double quotes, most of which is strict JSON as it stands: a chunk is looked at once.

    Raw control characters are escaped, of which `mend` is told.
    """

    __slots__ = ("_mend",)

    def __init__(
        self,
        keep: Callable[[str], None],
        index: int | None,
        room: int,
        grow: Callable[[int], None],
        mend: Callable[[], None],
    ) -> None:
        super().__init__(_STOPS, str, keep, index, None, room, grow)
        self._mend = mend

    def feed(self, chunk: str) -> list[Event]:
        text = self.rest + chunk
        end = _strict(text).end()
        if end == len(text):
            self.rest = ""
        else:
            self.rest = rest = text[end:]
            if rest not in _OFTEN_BEGUN and _BEGUN(rest) is None:
                return self._look_behind(text, end)
            text = text[:end]
        left = self.left - end
        if left < 0 or not end:
            return self._stop(text + self.rest) if end else []
        self.left = left
        self._keep_piece(text)
        index = self._index
        return self._keep(text) if index is None else [CallArgs(index, text)]

    def _look_behind(self, text: str, end: int) -> list[Event]:
        """At `end` stands something else: control characters are mended, the rest must be read."""
        if len(text) > self.left or text[end] >= " ":
            return self._stop(text)
        start, pieces = 0, [""]
        while end < len(text) and text[end] < " ":
            self._mend()
            pieces += text[start:end], escape_text(text[end])
            start = end + 1
            end = _strict(text, start).end()
        self.left -= end
        self.rest = text[end:]
        self.over = bool(self.rest) and _BEGUN(self.rest) is None
        event = self.take("".join(pieces) + text[start:end])
        return [event] if event is not None else self._keep(text[:end])
