"""Forgiving JSON in, strict JSON out, piece by piece.

`Transducer` reads what models write for JSON (trailing commas, single or typographic quotes, comments,
Python literals, bare keys, forgotten quotes and closers, full-width punctuation) and produces tokens that
`Writer` turns into strict JSON text as early as it is certain. Every repair leaves a named note. It also
reads the argument lists of Python-like calls, `(city="Paris", days=2)`, as the object they mean.

A reader is handed a buffer and a position and says how far it got; what it could not decide yet it leaves
in the buffer, never more than `LOOKAHEAD` characters or one word. So time is linear and a chunk boundary
cannot change the result. Above: `dialects`, `reader`. Below: `quotes`, `literals`, `model`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from .literals import escape_text, read_escape, read_word
from .model import Note
from .quotes import LOOKAHEAD, QUOTES, Place, closes

__all__ = [
    "ARRAY",
    "END_ARRAY",
    "END_OBJECT",
    "END_STRING",
    "KEY",
    "MAX_DEPTH",
    "MAX_SIZE",
    "OBJECT",
    "PART",
    "REFUSED",
    "SCALAR",
    "STRING",
    "VALUE_CHANGING",
    "Status",
    "Token",
    "Transducer",
    "Writer",
]

Status = Literal["open", "complete", "truncated", "hopeless"]
Token = tuple[int, str]

OBJECT, END_OBJECT, ARRAY, END_ARRAY, KEY, STRING, PART, END_STRING, SCALAR = range(9)

#: llama.cpp and most JSON readers stop here; nobody nests arguments deeper on purpose.
MAX_DEPTH = 64
#: Arguments beyond a mebibyte are refused, whoever wrote them.
MAX_SIZE = 1 << 20
#: Keys and bare words are held until they end, so they are bounded.
MAX_WORD = 4096
#: A text that needs more repairs than this is not JSON.
MAX_REPAIRS = 1000

#: Notes of values that must not be used, whatever else is right with them.
REFUSED = frozenset({"duplicate_key", "nan", "lone_surrogate"})
#: Notes of repairs that may have changed a value.
VALUE_CHANGING = frozenset({"inner_quotes", "missing_closer", "missing_value", "stray_text"})

_SPACE = " \t\r\n\u00a0\u3000\ufeff"
_OPENERS = {"{": "}", "[": "]", "(": ")", "｛": "}", "［": "]", "（": ")"}
_CLOSERS = {"}": "}", "]": "]", ")": ")", "｝": "}", "］": "]", "）": ")"}
_COMMAS = ",，;"
_COLONS = ":=：＝"
_FULLWIDTH = frozenset("｛｝［］（），：＝")
_PLACES: dict[str, Place] = {"}": "object", "]": "array", ")": "call"}
#: Raw quotes: what stands between them is text, nothing is escaped in it.
RAW_QUOTES = ('<|"|>', "<escape>")

#: What may interrupt a run of string characters, per quote.
_SPECIAL = {
    quote: re.compile(f"[\\\\\x00-\x1f\ud800-\udfff{re.escape(ends)}]").search for quote, ends in QUOTES.items()
}
_KEY_END = re.compile(r"[:=：＝\s,{}\[\]()\"'“]").search
_WORD_END = re.compile(r"[,，{}\[\]()\n\"“]").search
_COMMENT_END = re.compile(r"[\n}\]]").search
_NOT_SPACE = re.compile(f"[^{_SPACE}]").search

_State = Callable[[str, int, bool], int]
#: A state answers this instead of a position when it needs more text.
MORE = -1


class Transducer:
    """One value. Feed it buffers until `status` is no longer `open`; take `tokens` after each feed."""

    def __init__(self, *, stops: tuple[str, ...] = ()) -> None:
        self.tokens: list[Token] = []
        self.status: Status = "open"
        self._notes: dict[str, str] = {}
        self._repairs = 0
        self._size = 0
        self._stops = stops
        self._parents = ""  # the closers that the open containers wait for, innermost last
        self._keys: list[set[str]] = []
        self._state: _State = self._value
        self._in_key = False
        self._quote = ""
        self._in_quotes = False  # whether the key just read stood in quotes
        self._word: list[str] = []
        self._word_size = 0
        self._depth_in_word = 0
        self._positional = 0
        self._last_comma = False

    @property
    def notes(self) -> tuple[Note, ...]:
        """The repairs so far, each once."""
        return tuple(Note(code, detail) for code, detail in self._notes.items())

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(self._notes)

    @property
    def in_string(self) -> bool:
        """Whether the next character belongs to a string value (not a key)."""
        return self._state == self._string and not self._in_key

    def plain_run(self) -> Callable[[str], object] | None:
        """A search that finds nothing in a chunk that is string content through and through, or None."""
        return _SPECIAL[self._quote] if self.in_string else None

    def grow(self, count: int) -> None:
        """Count characters that a caller took past `feed` because `plain_run` found nothing in them."""
        self._size += count
        if self._size > MAX_SIZE:
            self._give_up("too_large")

    def feed(self, buf: str, pos: int = 0, final: bool = False) -> int:
        """Read from `pos`; the answer is the position of the first character not yet read."""
        end = len(buf)
        while pos < end and self.status == "open":
            new = self._state(buf, pos, final)
            if new == MORE:
                break
            self._size += new - pos
            pos = new
            if self._size > MAX_SIZE:
                self._give_up("too_large")
        return pos

    def finish(self) -> None:
        """The text is over: close what is open, so that the tokens still make one strict value."""
        if self.status != "open":
            return
        if self._word:
            self._end_word()
        if self.status != "open":  # a bare word was the whole value
            return
        if self._state == self._value and not self._parents and not self.tokens:
            self._give_up("no_value")
            return
        self._close_open()
        self.status = "truncated"

    def close_all(self) -> None:
        """The surrounding mark ended before the value did: close what is open and call that a repair."""
        self.finish()
        if self.status == "truncated":
            self.status = "complete"
            self._note("missing_closer")

    def _close_open(self) -> None:
        if self._state in (self._string, self._raw_string) and not self._in_key:
            self._emit(END_STRING)
        elif self._state == self._value and self._parents and self._parents[-1] != "]":
            self._emit(SCALAR, "null")
        elif self._state == self._colon:
            self._emit(KEY, self._take_key())
            self._emit(SCALAR, "null")
        while self._parents:
            self._pop()

    # ---- what all states share

    def _emit(self, kind: int, text: str = "") -> None:
        self.tokens.append((kind, text))

    def _note(self, code: str, detail: str = "") -> None:
        self._notes.setdefault(code, detail)
        self._repairs += 1
        if self._repairs > MAX_REPAIRS:
            self._give_up("too_many_repairs")

    def _give_up(self, code: str) -> None:
        self._notes.setdefault(code, "")
        self.status = "hopeless"

    def _char(self, char: str) -> str:
        if char in _FULLWIDTH:
            self._note("fullwidth")
        return char

    def _push(self, closer: str) -> None:
        if len(self._parents) >= MAX_DEPTH:
            self._give_up("too_deep")
            return
        self._parents += closer  # at most MAX_DEPTH characters
        self._keys.append(set())
        self._emit(ARRAY if closer == "]" else OBJECT)
        self._state = self._value if closer == "]" else self._key
        self._last_comma = False

    def _pop(self) -> None:
        closer = self._parents[-1]
        self._parents = self._parents[:-1]
        self._keys.pop()
        self._emit(END_ARRAY if closer == "]" else END_OBJECT)
        self._ended()

    def _ended(self) -> None:
        """A value has just ended."""
        if self._parents:
            self._state = self._after
        else:
            self.status = "complete"

    def _close(self, closer: str, pos: int) -> int:
        """A closer stands at `pos`: it may close several containers, or none."""
        if closer not in self._parents:
            self._note("extra_closer")
            return pos + 1
        if self._last_comma:
            self._note("trailing_comma")
        while self._parents[-1] != closer:
            self._note("missing_closer")
            self._pop()
        self._pop()
        return pos + 1

    def _blank(self, buf: str, pos: int, final: bool) -> int:
        """Skip spaces and comments; the position of something else, the end, or MORE."""
        while True:
            found = _NOT_SPACE(buf, pos)
            if found is None:
                return len(buf)
            pos = found.start()
            char = buf[pos]
            if char == "#":
                self._state = self._line_comment(self._state)
                return pos + 1
            if char != "/":
                return pos
            pair = buf[pos : pos + 2]
            if len(pair) < 2 and not final:
                return MORE
            if pair == "//":
                self._state = self._line_comment(self._state)
                return pos + 2
            if pair != "/*":
                return pos
            self._state = self._block_comment(self._state)
            return pos + 2

    def _line_comment(self, back: _State) -> _State:
        self._note("comment")

        def comment(buf: str, pos: int, final: bool) -> int:
            found = _COMMENT_END(buf, pos)
            if found is None:
                return len(buf)
            self._state = back
            return found.start()

        return comment

    def _block_comment(self, back: _State) -> _State:
        self._note("comment")

        def comment(buf: str, pos: int, final: bool) -> int:
            end = buf.find("*/", pos)
            if end >= 0:
                self._state = back
                return end + 2
            seen = len(buf) - (not final and buf[-1] == "*")
            return seen if seen > pos else MORE

        return comment

    # ---- the states

    def _value(self, buf: str, pos: int, final: bool) -> int:
        """A value must come."""
        state = self._state
        pos = self._blank(buf, pos, final)
        if pos == MORE or pos == len(buf) or self._state != state:
            return pos
        char = buf[pos]
        if char in _OPENERS:
            self._push(_OPENERS[self._char(char)])
            return pos + 1
        if char in QUOTES or char in "\\<":
            return self._open_string(buf, pos, final)
        if char in _CLOSERS:
            return self._no_value(_CLOSERS[char], pos)
        if char in _COMMAS:
            return self._skip_comma(pos)
        self._state = self._bare
        return pos

    def _no_value(self, closer: str, pos: int) -> int:
        if not self._parents:
            self._give_up("no_value")
            return pos
        if self._parents[-1] != "]":
            self._missing_value()
        return self._close(closer, pos)

    def _missing_value(self) -> None:
        self._note("missing_value")
        self._emit(SCALAR, "null")

    def _skip_comma(self, pos: int) -> int:
        if self._parents and self._parents[-1] == "]":
            self._note("extra_comma")
            return pos + 1
        if not self._parents:
            self._give_up("no_value")
            return pos
        self._missing_value()
        self._state = self._after
        return pos

    def _key(self, buf: str, pos: int, final: bool) -> int:
        """A key must come, or the end of the object."""
        state = self._state
        pos = self._blank(buf, pos, final)
        if pos == MORE or pos == len(buf) or self._state != state:
            return pos
        char = buf[pos]
        if char in _CLOSERS:
            return self._close(_CLOSERS[self._char(char)], pos)
        if char in _COMMAS:
            self._note("extra_comma")
            return pos + 1
        if self._parents[-1] == ")" and (char in _OPENERS or char.isdigit() or char == "-"):
            self._emit(KEY, self._next_positional())
            self._state = self._value
            return pos
        if char in QUOTES or char == "\\":
            self._in_key = True
            return self._open_string(buf, pos, final)
        if char in _OPENERS or char in _COLONS or char in "<>|*":
            self._give_up("not_an_object")
            return pos
        return self._bare_key(buf, pos, final)

    def _next_positional(self) -> str:
        self._positional += 1
        return f"#{self._positional - 1}"

    def _bare_key(self, buf: str, pos: int, final: bool) -> int:
        found = _KEY_END(buf, pos)
        if found is None:
            if len(buf) - pos > MAX_WORD or final:
                self._give_up("not_an_object")
                return pos
            return MORE
        self._word = [buf[pos : found.start()].removeprefix("--")]
        self._in_quotes = False
        if self._parents[-1] != ")":
            self._note("unquoted_key")
        self._state = self._colon
        return found.start()

    def _take_key(self) -> str:
        key = "".join(self._word).strip("\n")
        self._word = []
        return key

    def _colon(self, buf: str, pos: int, final: bool) -> int:
        """A key has been read; a colon must come."""
        state = self._state
        pos = self._blank(buf, pos, final)
        if pos == MORE or pos == len(buf) or self._state != state:
            return pos
        char = buf[pos]
        if char in _COLONS:
            if char == "=" and pos + 1 == len(buf) and not final:
                return MORE
            self._char(char)
            self._end_key()
            return pos + (2 if buf.startswith("=>", pos) else 1)
        if self._parents[-1] == ")":
            return self._positional_word(pos)
        if char in QUOTES:
            return self._word_before_quote(buf, pos, final)
        if char in "{[":
            self._note("missing_colon")
            self._end_key()
            return pos
        self._give_up("not_an_object")
        return pos

    def _word_before_quote(self, buf: str, pos: int, final: bool) -> int:
        """`key "value"` lacks a colon; `word "key": ...` has a word too many."""
        answer = _quoted_key(buf, pos, final)
        if answer is None:
            return MORE
        if answer:
            self._note("stray_text")
            self._word = []
            self._state = self._key
        else:
            self._note("missing_colon")
            self._end_key()
        return pos

    def _end_key(self) -> None:
        key = self._take_key()
        if key in self._keys[-1]:
            self._note("duplicate_key", f"`{key[:64]}` stands twice")
        self._keys[-1].add(key)
        self._emit(KEY, key)
        self._state = self._value

    def _positional_word(self, pos: int) -> int:
        """In an argument list a word without `=` is a value."""
        word = self._take_key()
        self._emit(KEY, self._next_positional())
        if self._in_quotes:
            self._emit(STRING)
            self._emit(PART, escape_text(word))
            self._emit(END_STRING)
        else:
            self._emit_word(word)
        self._state = self._after
        return pos

    def _after(self, buf: str, pos: int, final: bool) -> int:
        """A value has ended inside a container: a comma or a closer must come."""
        state = self._state
        pos = self._blank(buf, pos, final)
        if pos == MORE or pos == len(buf) or self._state != state:
            return pos
        char = buf[pos]
        if char in _COMMAS:
            self._char(char)
            self._last_comma = True
            self._next()
            return pos + 1
        self._last_comma = False
        if char in _CLOSERS:
            return self._close(_CLOSERS[self._char(char)], pos)
        return self._after_value(buf, pos, final)

    def _next(self) -> None:
        self._state = self._value if self._parents[-1] == "]" else self._key

    def _after_value(self, buf: str, pos: int, final: bool) -> int:
        """Neither comma nor closer: the comma is missing, the block ended early, or this is no JSON."""
        rest = buf[pos : pos + LOOKAHEAD]
        if any(rest.startswith(stop) for stop in self._stops):
            self.close_all()
            return pos
        if not final and any(stop.startswith(rest) for stop in self._stops):
            return MORE
        char = buf[pos]
        if char in QUOTES or char in _OPENERS or char.isalnum() or char in "-_.\\":
            self._note("missing_comma")
            self._next()
            return pos
        self._give_up("not_json")
        return pos

    # ---- words without quotes

    def _bare(self, buf: str, pos: int, final: bool) -> int:
        """A number, a literal or text without quotes, to the next delimiter outside its own brackets."""
        found = _WORD_END(buf, pos)
        end = len(buf) if found is None else found.start()
        if found is not None and end == pos and self._word and buf[end] in "{[(" and self._parents:
            end += 1  # text may hold brackets of its own
            self._depth_in_word += 1
        elif found is not None and end == pos and self._word and self._depth_in_word and buf[end] in "}])":
            end += 1
            self._depth_in_word -= 1
        elif found is not None and end == pos:
            self._end_word()
            return pos
        self._word.append(buf[pos:end])
        self._word_size += end - pos
        if self._word_size > MAX_SIZE:
            self._give_up("too_large")
        return end

    def _end_word(self) -> None:
        word = "".join(self._word).strip()
        self._word = []
        self._depth_in_word = 0
        self._word_size = 0
        if not self._parents and not word:
            self._give_up("no_value")
            return
        self._emit_word(word)
        if self.status == "open":
            self._ended()

    def _emit_word(self, word: str) -> None:
        text, code = read_word(word)
        if code:
            self._note(code, word[:64] if code == "unquoted_value" else "")
        if text is None:
            self._emit(STRING)
            self._emit(PART, escape_text(word))
            self._emit(END_STRING)
        else:
            self._emit(SCALAR, text)

    # ---- strings

    def _open_string(self, buf: str, pos: int, final: bool) -> int:
        """A string begins at `pos`."""
        char = buf[pos]
        if char in "\\<":
            return self._open_unusual(buf, pos, final)
        run = buf[pos : pos + 3]
        if char == '"' and run[1:2] in ("", '"') and len(run) < 3 and not final:
            return MORE
        if run == '"""' or run == "'''":
            self._note("triple_quotes")
            return self._begin(self._raw_string, run, pos + 3)
        if run[:2] == '""' and run[2:].isalnum():
            self._note("doubled_quotes")
            return self._begin(self._raw_string, '""', pos + 2)
        if char != '"':
            self._note("single_quotes" if char == "'" else "smart_quotes")
        return self._begin(self._string, char, pos + 1)

    def _open_unusual(self, buf: str, pos: int, final: bool) -> int:
        """`\\"` opens a string that was escaped once too often; model tokens may stand for quotes."""
        rest = buf[pos : pos + 8]
        for quote in RAW_QUOTES:
            if rest.startswith(quote):
                return self._begin(self._raw_string, quote, pos + len(quote))
        if rest.startswith('\\"'):
            self._note("double_encoded")
            return self._begin(self._escaped_string, '\\"', pos + 2)
        if not final and any(quote.startswith(rest) for quote in (*RAW_QUOTES, '\\"')):
            return MORE
        self._state = self._bare if buf[pos] == "<" and self._parents else self._state
        if self._state != self._bare:
            self._give_up("not_json")
        return pos

    def _begin(self, state: _State, quote: str, pos: int) -> int:
        self._state = state
        self._quote = quote
        if not self._in_key:
            self._emit(STRING)
        return pos

    def _part(self, text: str) -> None:
        if self._in_key:
            self._word.append(text)
            if len(self._word) > MAX_WORD or len(text) > MAX_WORD:
                self._give_up("not_an_object")
        else:
            self._emit(PART, text)

    def _end_string(self) -> None:
        if not self._in_key:
            self._emit(END_STRING)
            self._ended()
            return
        self._in_key = False
        self._in_quotes = True
        text = "".join(self._word)
        self._word = [msgspec.json.decode(f'"{text}"', type=str) if "\\" in text else text]
        self._state = self._colon

    def _string(self, buf: str, pos: int, final: bool) -> int:
        found = _SPECIAL[self._quote](buf, pos)
        if found is None:
            self._part(buf[pos:])
            return len(buf)
        at = found.start()
        if at > pos:
            self._part(buf[pos:at])
            return at
        char = buf[at]
        if char == "\\":
            return self._escape(buf, at, final)
        if char in QUOTES[self._quote]:
            return self._quote_seen(buf, at, final)
        self._part(escape_text(char))
        self._note("lone_surrogate" if char >= "\ud800" else "raw_control")
        return at + 1

    def _quote_seen(self, buf: str, at: int, final: bool) -> int:
        place: Place = "key" if self._in_key else _PLACES[self._parents[-1]] if self._parents else "root"
        answer = closes(buf, at + 1, final, place, self._parents, self._stops)
        if answer is None:
            return MORE
        if answer:
            self._end_string()
        else:
            self._note("inner_quotes")
            self._part(escape_text(buf[at]))
        return at + 1

    def _escape(self, buf: str, at: int, final: bool) -> int:
        text, length, code = read_escape(buf, at, final)
        if length == 0:
            return MORE
        self._part(text)
        if code:
            self._note(code)
        return at + length

    def _raw_string(self, buf: str, pos: int, final: bool) -> int:
        """Text up to a mark, nothing escaped in it."""
        end = buf.find(self._quote, pos)
        if end >= 0:
            self._part(escape_text(buf[pos:end]))
            self._end_string()
            return end + len(self._quote)
        keep = 0 if final else _overlap(buf, pos, self._quote)
        if len(buf) - keep <= pos:
            return MORE
        self._part(escape_text(buf[pos : len(buf) - keep]))
        return len(buf) - keep

    def _escaped_string(self, buf: str, pos: int, final: bool) -> int:
        """A string whose quotes and escapes carry one backslash too many."""
        at = buf.find("\\", pos)
        if at != pos:
            end = len(buf) if at < 0 else at
            self._part(escape_text(buf[pos:end]))
            return end
        pair = buf[pos : pos + 4]
        if len(pair) < 4 and not final:
            return MORE
        if pair.startswith('\\"'):
            self._end_string()
            return pos + 2
        if pair.startswith("\\\\"):
            text, length, _ = read_escape("\\" + buf[pos + 2 : pos + 14], 0, True)
            if pair.startswith("\\\\\\"):  # an escaped quote or backslash, escaped again
                self._part(escape_text(pair[3:4]))
                return pos + min(4, len(pair))
            self._part(text)
            return pos + 1 + length
        text, length, _ = read_escape(buf, pos, True)
        self._part(text)
        return pos + length


def _overlap(buf: str, pos: int, mark: str) -> int:
    """How many characters at the end of `buf` may be the beginning of `mark`."""
    for size in range(min(len(mark) - 1, len(buf) - pos), 0, -1):
        if buf.endswith(mark[:size]):
            return size
    return 0


def _quoted_key(buf: str, pos: int, final: bool) -> bool | None:
    """Whether a quoted word and a colon stand at `pos`."""
    window = buf[pos : pos + LOOKAHEAD]
    ends = QUOTES[window[0]]
    at = 1
    while at < len(window) and window[at] not in ends:
        at += 1
    at += 1
    while at < len(window) and window[at] in _SPACE:
        at += 1
    if at < len(window):
        return window[at] in _COLONS
    return False if final or len(window) == LOOKAHEAD else None


class Writer:
    """Tokens in, strict JSON text out."""

    def __init__(self) -> None:
        self._first = True

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
        if kind == KEY:
            self._first = True
            return f'{comma}"{escape_text(text)}":'
        self._first = kind in (OBJECT, ARRAY)
        return comma + _START[kind] + text


_START = {OBJECT: "{", ARRAY: "[", STRING: '"', SCALAR: ""}
