"""The strings of tolerant JSON: how they begin, what stands in them, how they end.

`Strings` adds to `Frames` the states inside quotes. A string where a key may stand is kept until it is known
what it is; every other string flows out as it comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from ..parsing.quotes import Around, Place, closes, lost_quote, opens_inner
from .containers import Allowance, Frames, Kind, State
from .literals import escape_text, has_surrogate, read_escape
from .lookahead import LOOKAHEAD, QUOTES, Answer, begins, delimiter_behind_quote, quoted_colon, quoted_key_at, skip
from .tokens import END_STRING, PART, STRING

#: A state answers this instead of a position when it needs more text.
MORE = -1

#: Keys are kept until they end, so they are bounded.
_MAX_KEY = 1024
#: So are strings that may turn out to be a key, in an array or an argument list; a longer one is a value.
_MAX_MAYBE_KEY = 64
#: Raw quotes: what stands between them is text, nothing is escaped in it.
_RAW_QUOTES = ('<|"|>', "<escape>")
_UNUSUAL = (*_RAW_QUOTES, '\\"')
_PREFIX = re.compile(r"[bBfFrRuU]{1,2}").match

_PLACES: dict[Kind, Place] = {"object": "object", "array": "array", "group": "array", "call": "call", "root": "root"}
_NOTES = {"'": "single_quotes", "`": "single_quotes", "＂": "fullwidth", "＇": "fullwidth"}

Search = Callable[..., re.Match[str] | None]
#: What may interrupt a run of string characters, per quote: its closing quotes, and what strict JSON must escape.
_SPECIAL: dict[str, Search] = {
    quote: re.compile(rf"[\\\x00-\x1f\ud800-\udfff\"{ends}]").search for quote, ends in QUOTES.items()
}
#: The same where the closing quote may be missing: a comma before a quote counts, too.
_SPECIAL_OR_COMMA: Search = re.compile(r'[\\\x00-\x1f\ud800-\udfff"]|,(?=[ \t\r\n]{0,64}(?:"|\Z))').search
#: Escapes that strict JSON knows, in a row.
_ESCAPES = re.compile(r'(?:\\["\\/bfnrt])++').match
_TRIPLE: dict[str, Search] = {quote: re.compile(rf"[\\{quote}]").search for quote in "\"'"}
_ESCAPED_SPACE = re.compile(r"\\[nrt]").sub
_MARKED: Search = re.compile("<").search
#: What a chunk may not hold that passes through such strings as it is: the closing quote, or its beginning.
_MARKED_STOPS: dict[str, Search] = {
    quote: re.compile(rf"[<\ud800-\udfff](?:(?<=<)(?:\Z|{first}(?:\Z|{second}))|(?<!<))").search
    for quote, first, second in zip(_RAW_QUOTES, (r"\|", "e"), ('"', "s"), strict=True)
}
_TRIPLE_STOPS: dict[str, Search] = {quote: re.compile(rf"[\\{quote}\ud800-\udfff]").search for quote in "\"'"}
#: The content of a string in other quotes, up to what strict JSON would not take. Double quotes are only escaped.
_OTHER = {
    quote: re.compile(rf"(?:[^\\\x00-\x1f\ud800-\udfff{ends}]++|\\[\\/bfnrt])*+").match
    for quote, ends in QUOTES.items()
}


class Strings(Frames):
    """The states in which a quote has been opened."""

    def __init__(self, *, stops: tuple[str, ...] = (), call: bool = False, allowance: Allowance | None = None) -> None:
        super().__init__(stops=stops, call=call, allowance=allowance)
        self._quote = ""
        self._search = _SPECIAL['"']
        self._maybe_key = False  # this string is kept, it may be a key
        self._doubled = False  # the opening quote was doubled, so may be the closing one
        self._raw = False  # a Python string in which backslashes mean nothing
        self._inner = False  # an inner quote waits for its partner
        self._quoted = False  # what is kept stood in quotes
        self._flags = False  # keys are flags: `--key "value"`
        self._broken = False  # it holds a raw line break
        self._kept: list[str] = []  # what is kept, as strict text
        self._kept_size = 0

    @property
    def in_quotes(self) -> bool:
        """Whether a quote is open."""
        return self._state in ("string", "triple", "marked", "escaped")

    @property
    def in_string(self) -> bool:
        """Whether the next character belongs to a string value that flows (not to what may be a key)."""
        return self.in_quotes and not self._maybe_key

    @property
    def in_plain_string(self) -> bool:
        """Whether the next character belongs to a string that flows and that strict JSON would write the same way."""
        plain = self._state == "string" and self._quote == '"'
        return plain and not (self._maybe_key or self._marks or self._raw)

    def control_seen(self) -> None:
        """A raw control character stood in the string, most likely a line break."""
        self._note("raw_control")
        self._broken = True

    def text_run(self) -> tuple[Search, Callable[[str], tuple[str, int, bool]]] | None:
        """The same for a string in other quotes: what a chunk must not hold, and a function that reads one which does.

        It gives strict text, how much was read, and whether the rest only needs more text. None: there is no such way.
        """
        if self._maybe_key or self._marks or self._raw:
            return None
        if self._state == "marked":
            return _MARKED_STOPS[self._quote], self._read_marked
        if self._state == "triple":
            return _TRIPLE_STOPS[self._quote[0]], self._read_triple
        return (_SPECIAL[self._quote], self._read_other) if self._state == "string" and self._quote != '"' else None

    def _read_marked(self, text: str) -> tuple[str, int, bool]:
        end = text.find(self._quote)
        waits = end < 0
        if waits:
            at = text.rfind("<", max(0, len(text) + 1 - len(self._quote)))
            end = at if at >= 0 and self._quote.startswith(text[at:]) else len(text)
        return escape_text(text[:end]), end, waits

    def _read_triple(self, text: str) -> tuple[str, int, bool]:
        end = first_at(_TRIPLE_STOPS[self._quote[0]], text, 0)
        return escape_text(text[:end]), end, False

    def _read_other(self, text: str) -> tuple[str, int, bool]:
        plain = _OTHER[self._quote](text)
        assert plain is not None  # the pattern matches nothing, too
        return plain.group().replace('"', '\\"'), plain.end(), text[plain.end() :] == "\\"

    def _ahead(self, question: Callable[[str, int], Answer], buf: str, pos: int, final: bool) -> Answer:
        """Ask about what stands at `pos`. `None`: more text is needed. What cannot be known is a no."""
        window = buf[pos : pos + LOOKAHEAD]
        answer = question(window, 0)
        return False if answer is None and (final or len(window) == LOOKAHEAD) else answer

    # ---- the beginning

    def _open_string(self, buf: str, pos: int, final: bool, maybe_key: bool) -> int:
        """A quote, a backslash or a raw quote stands at `pos`."""
        self._maybe_key = maybe_key
        self._doubled = False
        if maybe_key:
            self._argument = self._kinds[-1] == "call"
        char = buf[pos]
        if char not in QUOTES:
            return self._open_unusual(buf, pos, final)
        width, doubled = 1, False
        if char in "\"'" and self._kinds[-1] != "root":
            width, doubled = _opening(buf, pos, final, self._place() == "key")
        if width == MORE:
            return MORE
        if width == 3:
            self._note("triple_quotes")
            return self._begin("triple", buf[pos : pos + 3], pos + 3)
        if doubled:
            self._doubled = True
            self._note("doubled_quotes")
        if char != '"':
            self._note(_NOTES.get(char, "smart_quotes"))
        self._begin("string", char, pos)
        self._search = self._content(may_lack_quote=True)
        return pos + width

    def _open_unusual(self, buf: str, pos: int, final: bool) -> int:
        """`\\"` opens a string that was escaped once too often; model tokens may stand for quotes."""
        mark = begins(buf, pos, _UNUSUAL)
        if mark is None and not final:
            return MORE
        if not mark:
            if buf[pos] == "<" and self._state == "value" and self._closers:
                self._state = "word"
            else:
                self._give_up("not_json")
            return pos
        if buf[pos] == "\\":
            self._note("double_encoded")
            return self._begin("escaped", '"', pos + 2)
        quote = next(quote for quote in _RAW_QUOTES if buf.startswith(quote, pos))
        self._note("raw_quotes")
        return self._begin("marked", quote, pos + len(quote))

    def _open_prefixed(self, buf: str, pos: int, final: bool) -> int | None:
        """Behind the prefix of a Python string, `None` when there is none, MORE when it is too early to tell."""
        prefix = _PREFIX(buf, pos)
        if prefix is None:
            return None
        end = prefix.end()
        if end == len(buf):
            return None if final else MORE
        if buf[end] not in "\"'":
            return None
        lost = self._ahead(delimiter_behind_quote, buf, end, final)
        if lost or lost is None:  # `b",` is a text that lost its opening quote
            return None if lost else MORE
        self._note("python_literal")
        self._raw = "r" in prefix.group().lower()
        return end

    def _begin(self, state: State, quote: str, pos: int) -> int:
        self._state = state
        self._quote = quote
        self._inner = False
        self._broken = False
        if not self._maybe_key:
            self._emit(STRING)
        return pos

    # ---- the content

    def _part(self, text: str) -> None:
        """A piece of the string, as strict text."""
        if not self._maybe_key:
            self._emit(PART, text)
            return
        self._kept.append(text)
        self._kept_size += len(text)
        if self._kinds[-1] in ("array", "call"):
            if self._kept_size > _MAX_MAYBE_KEY:
                self._release()
        elif self._kept_size > _MAX_KEY:
            self._give_up("key_too_long")

    def _text(self, text: str) -> None:
        """A piece of the string as it is meant."""
        if has_surrogate(text):
            self._note("lone_surrogate")
        self._part(escape_text(text))

    def _release(self) -> None:
        """What was kept is a value after all."""
        if self._kinds[-1] == "call":
            state = self._state
            self._emit_place()
            self._state = state
        self._maybe_key = False
        self._emit(STRING)
        self._emit(PART, "".join(self._kept))
        self._forget()

    def _forget(self) -> None:
        self._kept = []
        self._kept_size = 0

    def _take_key(self) -> str:
        """The text that was kept, decoded."""
        text = "".join(self._kept)
        key = msgspec.json.decode(f'"{text}"', type=str) if "\\" in text else text
        if self._broken:  # a line that was wrapped is not part of the name
            key = key.strip("\n")
        self._forget()
        return key

    def _end_string(self) -> None:
        self._raw = False
        if self._maybe_key:
            self._quoted = True
            self._state = "colon"
        else:
            self._emit(END_STRING)
            self._ended(END_STRING)

    def _string(self, buf: str, pos: int, final: bool) -> int:
        found = self._search(buf, pos)
        at = len(buf) if found is None else found.start()
        if self._maybe_key:
            at = min(at, pos + _MAX_KEY + 1 - self._kept_size)  # give up at the same place however the text is cut
        if at > pos:
            self._part(buf[pos:at])
            return at
        char = buf[at]
        if char == "\\":
            return self._raw_backslash(buf, at, final) if self._raw else self._escape(buf, at, final)
        if char in QUOTES[self._quote]:
            return self._quote_seen(buf, at, final)
        if char == ",":
            return self._comma_seen(buf, at, final)
        self._text(char)
        if char < " ":
            self.control_seen()
        return at + 1

    def _escape(self, buf: str, at: int, final: bool) -> int:
        # Not where escapes are escaped: there `\\"` closes the string.
        run = None if self._maybe_key or self._state == "escaped" else _ESCAPES(buf, at)
        if run is not None:
            self._part(run.group())
            return run.end()
        text, length, code = read_escape(buf, at, final)
        if length == 0:
            return MORE
        self._part(text)
        if code:
            self._note(code)
        return at + length

    def _raw_backslash(self, buf: str, at: int, final: bool) -> int:
        """Before a quote it keeps the string open, and stays in it."""
        if at + 1 == len(buf) and not final:
            return MORE
        hidden = buf[at + 1 : at + 2]
        if hidden not in ("\\", self._quote):
            hidden = ""
        self._text("\\" + hidden)
        return at + 1 + len(hidden)

    def _comma_seen(self, buf: str, at: int, final: bool) -> int:
        """A comma and a quote: the next key, if the closing quote was forgotten."""
        answer = lost_quote(buf, at, final)
        if answer is None:
            return MORE
        if answer:
            self._note("missing_quote")
            self._end_string()
            return at
        self._part(",")
        return at + 1

    # ---- the end

    def _place(self) -> Place:
        kind = self._kinds[-1]
        if self._argument and kind == "call":
            return "argument"
        if not self._maybe_key:
            return _PLACES[kind]
        return "element" if kind == "array" else "key"

    def _around(self) -> Around:
        return Around(self._place(), self._closers, self._stops, QUOTES[self._quote], self._inner, self._flags)

    def _quote_seen(self, buf: str, at: int, final: bool) -> int:
        width = 1
        if self._doubled:
            if at + 1 == len(buf) and not final:
                return MORE
            width += buf.startswith(self._quote, at + 1)
        if self._state == "escaped":
            answer = closes(*_unescaped(buf, at + 1, final), self._around())
        else:
            answer = closes(buf, at + width, final, self._around())
        if answer:
            self._end_string()
            return at + width
        lost = self._key_lost_quote(buf, at, final) if answer is False else None
        if lost is None:
            return MORE
        if lost:
            return at
        self._inner_quote(buf, at)
        return at + 1

    def _inner_quote(self, buf: str, at: int) -> None:
        self._note("inner_quotes")
        self._text(buf[at])
        # An apostrophe looks like an opening quote and has no partner.
        self._inner = "'" not in QUOTES[self._quote] and not self._inner and opens_inner(buf, at + 1)
        # Between complete pairs, a comma and a key may well be a document inside the string.
        self._search = self._content(self._inner)

    def _content(self, may_lack_quote: bool) -> Search:
        """What to look out for in this string."""
        lacks = may_lack_quote and self._quote == '"' and self._place() == "object"
        return _SPECIAL_OR_COMMA if lacks else _SPECIAL[self._quote]

    def _key_lost_quote(self, buf: str, at: int, final: bool) -> bool | None:
        """`{"key:"value"}`: the key ends with a colon, and this quote opens its value."""
        key = "".join(self._kept).rstrip() if self._place() == "key" else ""
        if not key.endswith(":"):
            return False
        window = buf[at : at + LOOKAHEAD]
        answer = quoted_key_at(window, 0)
        if answer is None and not final and len(window) < LOOKAHEAD:
            return None
        if answer:
            return False
        self._note("missing_quote")
        self._kept = [key[:-1]]
        self._emit_key(self._take_key())
        return True

    def _triple(self, buf: str, pos: int, final: bool) -> int:
        """Text between tripled quotes; escapes count as they do in Python."""
        quote = self._quote[0]
        at = first_at(_TRIPLE[quote], buf, pos)
        if at > pos:
            self._text(buf[pos:at])
            return at
        if buf[at] == "\\":
            return self._raw_backslash(buf, at, final) if self._raw else self._escape(buf, at, final)
        mark = begins(buf, at, (self._quote,))
        if mark is None and not final:
            return MORE
        if mark:
            self._end_string()
            return at + 3
        self._text(quote)
        return at + 1

    def _marked(self, buf: str, pos: int, final: bool) -> int:
        """Text up to a mark, nothing escaped in it."""
        at = first_at(_MARKED, buf, pos)
        if at > pos:
            self._text(buf[pos:at])
            return at
        mark = begins(buf, at, (self._quote,))
        if mark is None and not final:
            return MORE
        if mark:
            self._end_string()
            return at + len(self._quote)
        self._text(buf[at])
        return at + 1

    def _escaped(self, buf: str, pos: int, final: bool) -> int:
        """A string whose quotes and escapes carry one backslash too many."""
        at = first_at(_TRIPLE['"'], buf, pos)
        if at > pos:
            self._text(buf[pos:at])
            return at
        if buf[at] == '"':
            return self._quote_seen(buf, at, final)
        if at + 1 == len(buf) and not final:
            return MORE
        following = buf[at + 1 : at + 2]
        if following == '"':
            new = self._quote_seen(buf, at + 1, final)
            return at if new == at + 1 else new  # there: the quote opens a value, with its backslash
        if following != "\\":
            return self._escape(buf, at, final)
        return self._escaped_twice(buf, at, final)

    def _escaped_twice(self, buf: str, at: int, final: bool) -> int:
        """Two backslashes stand at `at`: one of them is too many."""
        rest = buf[at + 2 : at + 4]
        if not final and rest in ("", "\\"):
            return MORE
        if rest in ('\\"', "\\\\"):
            self._text(rest[1])
            return at + 4
        return self._escape(buf, at + 1, final)


def _opening(buf: str, pos: int, final: bool, key: bool) -> tuple[int, bool]:
    """How wide the opening quote at `pos` is (MORE: too early to tell), and whether it is a doubled one."""
    quote = buf[pos]
    mark = begins(buf, pos, (quote * 3,))
    if mark:
        return 3, False
    if mark is None and not final:
        return MORE, False
    if not buf.startswith(quote, pos + 1):
        return 1, False
    window = buf[pos + 2 : pos + 2 + LOOKAHEAD]
    answer = _doubled_before(window, quote, key)
    if answer is None and not final and len(window) < LOOKAHEAD:
        return MORE, False
    return (2, True) if answer else (1, False)


def _doubled_before(text: str, quote: str, key: bool) -> Answer:
    """Whether two quotes before `text` open a string together rather than being an empty one: letters follow, and
    the next quote is doubled, too, or could close the string."""
    at = skip(text, 0) if key else 0
    if at == len(text):
        return None
    if not text[at].isalnum():
        return False
    end = text.find(quote, at)
    if end < 0:
        return None
    end += text.startswith(quote, end + 1)
    return quoted_colon(text, end) if key else delimiter_behind_quote(text, end)


def _unescaped(buf: str, pos: int, final: bool) -> tuple[str, int, bool]:
    """What stands ahead at `pos`, with one level of escapes removed, and whether that is all one may see of it."""
    window = buf[pos : pos + LOOKAHEAD]
    text = _ESCAPED_SPACE(" ", window[: len(window) - window.endswith("\\")].replace('\\"', '"'))
    return text, 0, final or len(window) == LOOKAHEAD


def first_at(search: Search, buf: str, pos: int) -> int:
    """Where something of interest stands at or behind `pos`, or the end."""
    found = search(buf, pos)
    return len(buf) if found is None else found.start()
