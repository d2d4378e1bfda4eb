"""Fast paths that pass on chunks without special characters, and parse plain arguments that arrive in one piece.

A text may have hundreds of thousands of chunks between two marks. A fast path handles them one by one until a chunk
contains something that only the reader can handle. Text whose meaning is still undecided waits for the next chunk. The
result is always the same as without the fast path.
"""

import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

import msgspec

from ..events import CallArgs, Event
from ..json_repair.containers import MAX_SIZE, Allowance
from ..json_repair.fast_path import SPACES, TEXT_CHAR, WORD
from ..json_repair.literals import escape_text, has_surrogate
from ..json_repair.lookahead import SureMatch, always_matching
from ..types import JSONObject, JSONValue

Search: TypeAlias = Callable[..., re.Match[str] | None]
#: Reads a text with a match. Returns an event, the number of characters read, and whether the rest waits for more text.
Read: TypeAlias = Callable[[str, re.Match[str]], tuple[Event | None, int, bool]]


class FastPath:
    """Fast path for chunks of text. Call `feed` until `over` is true; `rest` is then the unread text."""

    __slots__ = ("_grow", "_read", "_room", "over", "raw", "remaining", "rest", "silent", "stops", "take")

    def __init__(
        self,
        stops: Search,
        take: Callable[[str], Event | None],
        read: Read | None = None,
        room: int = sys.maxsize,
        grow: Callable[[int], None] | None = None,
        silent: bool = False,
    ) -> None:
        self.stops = stops  # finds text that only the reader can handle
        self.take = take  # turns any other chunk into an event, or stores it
        self.remaining = room  # number of characters that may still be read
        self.rest = ""  # text that waits for the next chunk
        self.over = False
        self.silent = silent  # `take` returns no event, because nothing is emitted yet
        self.raw: list[str] = []  # text that gave no event and may still turn out to be plain text
        self._read = read
        self._room = room
        self._grow = grow  # called at the end with the number of characters read

    def feed(self, chunk: str) -> list[Event]:
        text = self.rest + chunk
        size = len(text)
        match = self.stops(text)
        if match is None and 0 < size <= self.remaining:
            self.rest = ""
            self.remaining -= size
            event = self.take(text)
            return [event] if event is not None else self._keep(text)
        return self._look(text, match) if text else []

    def _look(self, text: str, match: re.Match[str] | None) -> list[Event]:
        """Read a text that contains a match or is too long."""
        if match is None or self._read is None or len(text) > self.remaining or has_surrogate(text):
            return self._stop(text)
        event, end, waits = self._read(text, match)
        self.remaining -= end
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
        """End the fast path and return the unread text."""
        if self._grow is not None:
            self._grow(self._room - self.remaining)
        return self.rest


class ArgumentFastPath(FastPath):
    """Fast path through a string argument.

    `write` converts each piece, and `keep` stores it. If `index` is set, the piece is also emitted for that call.
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


#: Characters that may have a special meaning between tags.
_MARKUP: Search = re.compile(r"[<\]\r\n\ud800-\udfff]").search


class MarkupFastPath(ArgumentFastPath):
    """Fast path through text between tags, which is escaped for JSON.

    `find` finds text that the reader must handle. If a match has a group, `resolve` returns the first match that
    counts: this one, a later one, or None. A match at the very end of a text waits for more text.
    """

    __slots__ = ("_find", "_resolve")

    def __init__(
        self,
        find: Search,
        resolve: Callable[[str, re.Match[str]], re.Match[str] | None],
        keep: Callable[[str], None],
        index: int | None,
        read: Read,
        room: int,
        grow: Callable[[int], None],
    ) -> None:
        super().__init__(_MARKUP, escape_text, keep, index, read, room, grow)
        self._find = find
        self._resolve = resolve

    def feed(self, chunk: str) -> list[Event]:
        text = self.rest + chunk
        match = self._find(text)
        if match is not None and match.lastindex is not None:
            match = self._resolve(text, match)
        if match is None:
            end = len(text)
        elif match.end() == len(text):
            end = match.start()
        else:
            return self._look(text, match)
        remaining = self.remaining - end
        if remaining < 0 or not end or (not text.isascii() and has_surrogate(text)):
            return self._stop(text) if end else self._wait(text)
        self.remaining = remaining
        if match is None:
            self.rest = ""
        else:
            self.rest = text[end:]
            text = text[:end]
        fragment = escape_text(text)
        self._keep_piece(fragment)
        index = self._index
        return self._keep(text) if index is None else [CallArgs(index, fragment)]

    def _wait(self, text: str) -> list[Event]:
        self.rest = text
        return []


_SPACE = r"[ \t\r\n]"
_HEX = "[0-9a-fA-F]"
_PAIR = rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = rf"\\(?:[\"\\/bfnrt]|u(?![dD][89a-fA-F]){_HEX}{{4}})|{_PAIR}"


def _content(controls: str) -> SureMatch:
    """Return a function that matches the longest prefix of a text that is content of a string; it may be empty.

    The content includes escapes. It excludes `controls`, and a comma before a quote, because the closing quote may be
    missing there.
    """
    chars = rf"[^\"\\{controls}\ud800-\udfff,]*+"
    pattern = rf"{chars}(?:(?:{_ESCAPE}|,(?={_SPACE}{{0,64}}[^ \t\r\n\"])){chars})*+"
    return always_matching(pattern)


_strict = _content(controls=r"\x00-\x1f")
_with_controls = _content(controls="")
#: How strict JSON spells control characters.
_CONTROLS = str.maketrans({chr(code): escape_text(chr(code)) for code in range(0x20)})
#: Text at the end of a chunk that may still become content of a strict string.
_HALF = rf"\\u[dD][89abAB]{_HEX}{{2}}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?"
_PARTIAL = re.compile(rf",{_SPACE}{{0,64}}|\\(?:u{_HEX}{{0,3}})?|{_HALF}").fullmatch
#: The most frequent texts that `_PARTIAL` matches.
_OFTEN_PARTIAL = frozenset({"\\", ",", ", "})
#: Characters that end the fast path: a quote, a comma that may precede one, an escape other than a simple one, and
#: characters that must be escaped. The pattern begins with a character set, for speed.
_STOPS: Search = re.compile(
    r'["\\\x00-\x1f\ud800-\udfff,](?:(?<![,\\])|(?<=,)(?![ \t\r\n]{0,64}[^ \t\r\n"])|(?<=\\)(?![/bfnrt]))'
).search


class StrictFastPath(ArgumentFastPath):
    """Fast path through a double-quoted string that is mostly strict JSON already.

    Raw control characters are escaped, and `mend` is called for each chunk that contains them.
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
            if rest not in _OFTEN_PARTIAL and _PARTIAL(rest) is None:
                return self._escape_controls(text, end)
            text = text[:end]
        remaining = self.remaining - end
        if remaining < 0 or not end:
            return self._stop(text + self.rest) if end else []
        self.remaining = remaining
        self._keep_piece(text)
        index = self._index
        return self._keep(text) if index is None else [CallArgs(index, text)]

    def pass_chunk(self, chunk: str) -> CallArgs | None:
        """Return the event for a chunk of the most frequent kind. For any other, return None and change nothing."""
        text = self.rest + chunk if self.rest else chunk
        end = _strict(text).end()
        rest = text[end:]
        index = self._index
        if index is None or not 0 < end <= self.remaining or (rest and rest not in _OFTEN_PARTIAL):
            return None
        self.rest = rest
        self.remaining -= end
        if rest:
            text = text[:end]
        self._keep_piece(text)
        return CallArgs(index, text)

    def _escape_controls(self, text: str, end: int) -> list[Event]:
        """Escape raw control characters from `end` on; leave anything else to the reader."""
        if len(text) > self.remaining or text[end] >= " ":
            return self._stop(text)
        self._mend()
        end = _with_controls(text, end).end()
        self.remaining -= end
        self.rest = text[end:]
        self.over = bool(self.rest) and _PARTIAL(self.rest) is None
        event = self.take(text[:end].translate(_CONTROLS))
        return [event] if event is not None else self._keep(text[:end])


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode

_PLAIN_CHARS = r"[^\"\\\x00-\x1f\ud800-\udfff,]*+"
#: Escapes that are the same after decoding and encoding. An escaped slash would come back unescaped.
_PLAIN_ESCAPE = r'\\["\\bfnrt]'
_KEY = rf'"{TEXT_CHAR}{{1,64}}+"{SPACES}:'
#: What follows a closing bracket: neither text nor a quote, either of which would make the quote before it ambiguous.
_ENDS = r'(?!")[\s\ufeff]*+(?:[^\s\ufeff\w]|\Z)'
#: A string as the value of a key. It excludes a comma before a quote, because the closing quote may be missing.
_STRING = (
    rf'"{_PLAIN_CHARS}(?:(?:{_PLAIN_ESCAPE}|,(?!{SPACES}")){_PLAIN_CHARS})*+"'
    rf"(?={SPACES}(?:,{SPACES}{_KEY}|\}}{_ENDS}))"
)
#: A string as an element of an array.
_ELEMENT = rf'"(?!"){TEXT_CHAR}*+(?:{_PLAIN_ESCAPE}{TEXT_CHAR}*+)*+"(?={SPACES}(?:,{SPACES}"|\]{_ENDS}))'


def _object(value: str) -> str:
    return rf"\{{{SPACES}(?>{_KEY}{SPACES}{value}{SPACES}(?:,{SPACES}(?=\")|(?=\}})))*+\}}"


def _array(item: str) -> str:
    return rf"\[{SPACES}(?>{item}{SPACES}(?:,{SPACES}(?!\])|(?=\])))*+\]"


def _plain_object() -> str:
    """Return the pattern of a plain object that may contain plain objects and arrays. Deeper nesting is rare."""
    simple = rf"{_STRING}|{WORD}(?={SPACES}[,\}}])"
    item = rf"{_ELEMENT}|{WORD}(?={SPACES}[,\]])"
    inner = _object(rf"(?>{simple}|{_array(rf'(?>{item})')})")
    return _object(rf"(?>{simple}|{inner}|{_array(rf'(?>{item}|{inner})')})")


_OBJECT = re.compile(SPACES + _plain_object()).match
_MORE_TEXT = re.compile(r"[^\s\ufeff]").search
#: Closing marks that cannot be mistaken for JSON.
_HARMLESS = re.compile(r'\s*(?:[^\s"{}\[\]:,\-0-9tfn]|\[[/A-Z])').match


class WholeObject(NamedTuple):
    """Arguments that arrived in one piece: the object, its strict JSON text, its end position and its value count."""

    value: JSONObject
    text: str
    end: int
    values: int


def whole_object(
    buf: str,
    pos: int,
    stops: tuple[str, ...],
    allowance: Allowance | None = None,
    besides: int = 0,
    final: bool = False,
) -> WholeObject | None:
    """Return the plain object at `pos`; None if it is missing, incomplete or not plain, or has too many values.

    The allowance limits the number of values; `besides` counts others that the caller needs it for. The caller deducts
    what it uses. Unless the text is `final`, some text must follow a string at the end.

    An object is plain if the tolerant parser accepts it without a note. The pattern excludes every ambiguous quote.
    """
    match = _OBJECT(buf, pos)
    if match is None or match.end() - pos > MAX_SIZE or not are_harmless(stops):
        return None
    raw = match.group()
    if not final and raw[:-1].rstrip()[-1:] == '"' and _MORE_TEXT(buf, match.end()) is None:
        return None
    value: JSONObject = _decode(raw)
    text = _encode(value).decode()
    if raw.count(":") != text.count(":"):
        return None  # a duplicate key: decoding keeps one of the two, so a colon is lost
    values = _count(value)
    return (
        WholeObject(value, text, match.end(), values)
        if allowance is None or values + besides <= allowance.remaining
        else None
    )


def _count(value: JSONValue) -> int:
    """Return the number of values in a value, including the value itself."""
    if isinstance(value, dict):
        return 1 + sum(map(_count, cast("JSONObject", value).values()))
    return 1 + sum(map(_count, cast("list[JSONValue]", value))) if isinstance(value, list) else 1


@lru_cache(maxsize=64)
def are_harmless(stops: tuple[str, ...]) -> bool:
    return all(map(_HARMLESS, stops))
