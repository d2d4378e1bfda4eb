"""Reader for strings in tolerant JSON: opening quotes, content and escapes, closing quotes.

A string that may be a key is buffered until that is decided. Every other string is emitted as it arrives.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import msgspec

from . import lookahead as look
from .containers import Containers, Kind, Output, State
from .fast_path import ESCAPE
from .literals import escape_text, has_surrogate, read_escape
from .quotes import Place, QuoteContext, closes, lost_quote, opens_inner
from .tokens import END_STRING, PART, STRING

#: Size limit of a key, which is buffered until it ends.
_MAX_KEY = 1024
#: A string in an array or argument list may turn out to be a key. If it is longer than this, it is a value.
_MAX_MAYBE_KEY = 64
#: Special tokens that some models write as quotes. The text between them has no escapes.
_RAW_QUOTES = ('<|"|>', "<escape>")
_UNUSUAL = (*_RAW_QUOTES, '\\"')
_PREFIX = re.compile(r"[bBfFrRuU]{1,2}").match

_PLACES: dict[Kind, Place] = {"object": "object", "array": "array", "group": "array", "call": "call", "root": "root"}
_NOTES = {"'": "single_quotes", "`": "single_quotes", "＂": "fullwidth", "＇": "fullwidth"}


class _Patterns(NamedTuple):
    """Patterns for strings with one kind of quotes. Special characters are those quotes and what JSON must escape."""

    plain: look.SureMatch  # content up to the next special character
    content: look.SureMatch  # the same, but simple escapes are content as well
    lines: (
        look.Search
    )  # a control character and the text up to the next special character that is not a control character
    special: look.Search  # the next special character
    other: look.SureMatch  # content in quotes other than `"`: escaping its double quotes makes it strict JSON


@cache
def _patterns(quote: str, may_lack_quote: bool = False) -> _Patterns:
    """Return the patterns for an opening quote. `may_lack_quote`: a comma before a quote is special, too."""
    ends, comma = look.QUOTES[quote], "(?!)"
    if may_lack_quote:
        ends, comma = ends + ",", r',(?![ \t\r\n]{0,64}(?:"|\Z))'
    special = rf"\\\x00-\x1f\ud800-\udfff\"{ends}"
    chars = f"[^{special}]*+"
    return _Patterns(
        plain=look.always_matching(rf"{chars}(?:{comma}{chars})*+"),
        content=look.always_matching(rf"{chars}(?:(?:{ESCAPE}|{comma}){chars})*+"),
        lines=re.compile(rf"[\x00-\x1f](?:[^\\\ud800-\udfff\"{ends}]++|{comma})*+").match,
        special=re.compile(f"[{special}]").search,
        other=look.always_matching(rf"(?:[^\\\x00-\x1f\ud800-\udfff{ends}]++|\\[\\/bfnrt])*+"),
    )


#: A run of backslashes that escape nothing, each with the plain text after it.
_STRAY_BACKSLASHES = re.compile(
    r"(?:\\(?:(?=[^\"\\/bfnrtux'`$\n\r\t ])|(?=u[0-9a-fA-F]{0,3}[^0-9a-fA-F]|x[0-9a-fA-F]?[^0-9a-fA-F]))"
    rf"[^\\\x00-\x1f\ud800-\udfff,{''.join(look.QUOTES)}]*+)++"
).match
#: What may end plain text between triple quotes: a backslash, or quotes that may close the text.
_TRIPLE: dict[str, look.Search] = {quote: re.compile(rf"\\|{quote}{{3,}}+|{quote}{{1,2}}\Z").search for quote in "\"'"}
#: What may end plain text in a string that was escaped twice.
_ESCAPED: look.Search = re.compile(r'[\\"]').search
_ESCAPED_SPACE = re.compile(r"\\[nrt]").sub
#: What keeps a chunk of a raw-quoted string from passing through unchanged: the closing quote, or its beginning.
_MARKED_STOPS: dict[str, look.Search] = {
    quote: re.compile(rf"[<\ud800-\udfff](?:(?<=<)(?:\Z|{first}(?:\Z|{second}))|(?<!<))").search
    for quote, first, second in zip(_RAW_QUOTES, (r"\|", "e"), ('"', "s"), strict=True)
}
_TRIPLE_STOPS: dict[str, look.Search] = {quote: re.compile(rf"[\\{quote}\ud800-\udfff]").search for quote in "\"'"}


class StringReader:
    """Reader for strings and pending keys (parser states `string`, `triple`, `marked` and `escaped`)."""

    def __init__(self, output: Output, containers: Containers, stop_marks: tuple[str, ...]) -> None:
        self.maybe_key = False  # the string may be a key, so it is buffered
        self.quoted = False  # the pending key was in quotes
        self.flags = False  # keys are written as flags: `--key "value"`
        self._output = output
        self._containers = containers
        self._kinds = containers.kinds
        self._stop_marks = stop_marks
        self._quote = ""
        self._patterns = _patterns('"')
        self._doubled = False  # the opening quote was doubled, so the closing one may be doubled as well
        self._raw = False  # a Python raw string, which has no escapes
        self._inner = False  # an unescaped inner quote is open
        self._torn = False  # the string contains an unescaped quote
        self._multiline = False  # the string contains a raw line break
        self._pending: list[str] = []  # the text of the pending key, as strict JSON
        self._pending_size = 0

    @property
    def has_pending(self) -> bool:
        """Whether text of a pending key is buffered."""
        return bool(self._pending)

    @property
    def in_plain_string(self) -> bool:
        """Whether the parser is inside an emitted string that strict JSON would spell the same way."""
        plain = self._containers.state == "string" and self._quote == '"'
        return plain and not (self.maybe_key or self._raw or self._output.defers)

    def note_control(self) -> None:
        """Record a raw control character in the string, most likely a line break."""
        self._output.note("raw_control")
        self._multiline = True

    # ---- shortcuts for long strings

    def text_run(self) -> tuple[look.Search, Callable[[str], tuple[str, int, bool]]] | None:
        """Return a shortcut for a string that is not strict JSON already: a search and a function. None: no shortcut.

        A chunk without a match is plain text. The function reads a chunk with a match. It returns strict JSON text, the
        number of characters read, and whether the rest must wait for more text.
        """
        if self.maybe_key or self._raw or self._output.defers:
            return None
        state = self._containers.state
        if state == "marked":
            return _MARKED_STOPS[self._quote], self._read_marked_run
        if state == "triple":
            return _TRIPLE_STOPS[self._quote[0]], self._read_triple_run
        return (self._patterns.special, self._read_other_run) if state == "string" and self._quote != '"' else None

    def _read_marked_run(self, text: str) -> tuple[str, int, bool]:
        end = self._marked_end(text, 0, False)
        return escape_text(text[:end]), end, not text.startswith(self._quote, end)

    def _read_triple_run(self, text: str) -> tuple[str, int, bool]:
        end = look.match_start(_TRIPLE_STOPS[self._quote[0]], text, 0)
        return escape_text(text[:end]), end, False

    def _read_other_run(self, text: str) -> tuple[str, int, bool]:
        plain = self._patterns.other(text)
        return plain.group().replace('"', '\\"'), plain.end(), text[plain.end() :] == "\\"

    # ---- opening quotes

    def open(self, buf: str, pos: int, final: bool, maybe_key: bool) -> int:
        """Open the string at `pos`, which begins with a quote, a backslash or a raw quote."""
        self.maybe_key = maybe_key
        self._doubled = False
        if maybe_key:
            self._containers.is_positional = self._kinds[-1] == "call"
        char = buf[pos]
        if char not in look.QUOTES:
            return self._open_unusual(buf, pos, final)
        width, doubled = 1, False
        if char in "\"'" and self._kinds[-1] != "root":
            width, doubled = _opening(buf, pos, final, self._place() == "key")
        if width == look.MORE:
            return look.MORE
        if width == 3:
            self._output.note("triple_quotes")
            return self._begin("triple", buf[pos : pos + 3], pos + 3)
        if doubled:
            self._doubled = True
            self._output.note("doubled_quotes")
        if char != '"':
            self._output.note(_NOTES.get(char, "smart_quotes"))
        self._begin("string", char, pos)
        self._choose_patterns(may_lack_quote=True)
        return pos + width

    def _open_unusual(self, buf: str, pos: int, final: bool) -> int:
        """Open a string that was escaped once too often (`\\"`) or is quoted by special tokens of the model."""
        mark = look.begins(buf, pos, _UNUSUAL)
        if mark is None and not final:
            return look.MORE
        if not mark:
            if buf[pos] == "<" and self._containers.state == "value" and self._containers.closers:
                self._containers.state = "word"
            else:
                self._output.give_up("not_json")
            return pos
        if buf[pos] == "\\":
            self._output.note("double_encoded")
            return self._begin("escaped", '"', pos + 2)
        quote = next(quote for quote in _RAW_QUOTES if buf.startswith(quote, pos))
        self._output.note("raw_quotes")
        return self._begin("marked", quote, pos + len(quote))

    def open_prefixed(self, buf: str, pos: int, final: bool) -> int | None:
        """Return the position after the prefix of a Python string; `None` if there is none, or MORE."""
        prefix = _PREFIX(buf, pos)
        if prefix is None:
            return None
        end = prefix.end()
        if end == len(buf):
            return None if final else look.MORE
        if buf[end] not in "\"'":
            return None
        is_end = look.look_ahead(look.delimiter_after_quote, buf, end, final)
        if is_end or is_end is None:  # in `b",` the opening quote is missing
            return None if is_end else look.MORE
        self._output.note("python_literal")
        self._raw = "r" in prefix.group().lower()
        return end

    def _begin(self, state: State, quote: str, pos: int) -> int:
        self._containers.state = state
        self._quote = quote
        self._inner = self._torn = False
        self._multiline = False
        if not self.maybe_key:
            self._output.emit(STRING)
        return pos

    # ---- pending keys

    def set_bare_key(self, word: str, is_flag: bool) -> None:
        """Make an unquoted word the pending key."""
        self.flags = is_flag
        self._pending = [escape_text(word)]
        self.quoted = False
        self._containers.state = "colon"

    def take_key(self) -> str:
        """Return the pending key, decoded, and clear it."""
        text = "".join(self._pending)
        key = msgspec.json.decode(f'"{text}"', type=str) if "\\" in text else text
        if self._multiline:  # line breaks around a key are not part of it
            key = key.strip("\n")
        self._clear_pending()
        return key

    def release(self) -> None:
        """Emit the pending text as the beginning of a value, because it is not a key."""
        if self._kinds[-1] == "call":
            state = self._containers.state
            self._containers.emit_positional()
            self._containers.state = state
        self.maybe_key = False
        self._output.emit(STRING)
        self._output.emit(PART, "".join(self._pending))
        self._clear_pending()

    def _clear_pending(self) -> None:
        self._pending = []
        self._pending_size = 0

    # ---- content

    def _part(self, text: str) -> None:
        """Append text that is already strict JSON to the string."""
        if not self.maybe_key:
            self._output.emit(PART, text)
            return
        self._pending.append(text)
        self._pending_size += len(text)
        if self._kinds[-1] in ("array", "call"):
            if self._pending_size > _MAX_MAYBE_KEY:
                self.release()
        elif self._pending_size > _MAX_KEY:
            self._output.give_up("key_too_long")

    def _text(self, text: str) -> None:
        if has_surrogate(text):
            self._output.note("lone_surrogate")
        self._part(escape_text(text))

    def _end(self) -> None:
        self._raw = False
        if self.maybe_key:
            self.quoted = True
            self._containers.state = "colon"
        else:
            self._output.emit(END_STRING)
            self._containers.end_value(END_STRING)

    def read_string(self, buf: str, pos: int, final: bool) -> int:
        patterns = self._patterns
        at = (patterns.plain if self.maybe_key or self._raw else patterns.content)(buf, pos).end()
        if self.maybe_key:
            at = min(at, pos + _MAX_KEY + 1 - self._pending_size)  # the same limit however the text is chunked
        if at > pos:
            self._part(buf[pos:at])
            return at
        char = buf[at]
        if char == "\\":
            return self._raw_backslash(buf, at, final) if self._raw else self._escape(buf, at, final)
        if char in look.QUOTES[self._quote]:
            return self._read_quote(buf, at, final)
        if char == ",":
            return self._read_comma(buf, at, final)
        return self._odd_character(buf, at)

    def _odd_character(self, buf: str, at: int) -> int:
        """Read half of a surrogate pair, or a control character. Outside keys, read the lines that follow as well."""
        is_control = buf[at] < " "
        if is_control:
            self.note_control()
        lines = None
        if is_control and not self.maybe_key:
            lines = self._patterns.lines(buf, at)
        text = buf[at] if lines is None else lines.group()
        self._text(text)
        return at + len(text)

    def _escape(self, buf: str, at: int, final: bool) -> int:
        stray = None if self.maybe_key else _STRAY_BACKSLASHES(buf, at)
        if stray is not None:
            self._part(stray.group().replace("\\", "\\\\"))
            self._output.note("bad_escape")
            return stray.end()
        text, length, code = read_escape(buf, at, final)
        if length == 0:
            return look.MORE
        self._part(text)
        if code:
            self._output.note(code)
        return at + length

    def _raw_backslash(self, buf: str, at: int, final: bool) -> int:
        """Read a backslash in a raw string: it is text, and so is a quote or backslash that follows."""
        if at + 1 == len(buf) and not final:
            return look.MORE
        following = buf[at + 1 : at + 2]
        if following not in ("\\", self._quote):
            following = ""
        self._text("\\" + following)
        return at + 1 + len(following)

    def _read_comma(self, buf: str, at: int, final: bool) -> int:
        """Read a comma before a quote. If a key follows, the closing quote of this string is missing."""
        answer = lost_quote(buf, at, final)
        if answer is None:
            return look.MORE
        if answer:
            self._output.note("missing_quote")
            self._end()
            return at
        self._part(",")
        return at + 1

    # ---- closing quotes

    def _place(self) -> Place:
        kind = self._kinds[-1]
        if self._containers.is_positional and kind == "call":
            return "argument"
        if not self.maybe_key:
            return _PLACES[kind]
        return "element" if kind == "array" else "key"

    def _around(self) -> QuoteContext:
        closers = self._containers.closers
        ends = look.QUOTES[self._quote]
        return QuoteContext(self._place(), closers, self._stop_marks, ends, self._inner, self.flags, self._torn)

    def _read_quote(self, buf: str, at: int, final: bool) -> int:
        width = 1
        if self._doubled:
            if at + 1 == len(buf) and not final:
                return look.MORE
            width += buf.startswith(self._quote, at + 1)
        if self._containers.state == "escaped":
            answer = closes(*_unescaped(buf, at + 1, final), self._around())
        else:
            answer = closes(buf, at + width, final and len(buf) - at - width < look.LOOKAHEAD, self._around())
        if answer:
            self._end()
            return at + width
        opens_value = self._unclosed_key(buf, at, final) if answer is False else None
        if opens_value is None:
            return look.MORE
        if opens_value:
            return at
        self._inner_quote(buf, at)
        return at + 1

    def _inner_quote(self, buf: str, at: int) -> None:
        self._output.note("inner_quotes")
        self._torn = True
        self._text(buf[at])
        # An apostrophe looks like an opening quote but has no partner.
        self._inner = "'" not in look.QUOTES[self._quote] and not self._inner and opens_inner(buf, at + 1)
        # After a complete pair of inner quotes, a comma and a key may belong to a document inside the string.
        self._choose_patterns(self._inner)

    def _choose_patterns(self, may_lack_quote: bool) -> None:
        self._patterns = _patterns(self._quote, may_lack_quote and self._quote == '"' and self._place() == "object")

    def _unclosed_key(self, buf: str, at: int, final: bool) -> look.Tristate:
        """Whether this quote opens the value in `{"key:"value"}`, where a quote is missing. If so, emit the key."""
        key = "".join(self._pending).rstrip() if self._place() == "key" else ""
        if not key.endswith(":"):
            return False
        window = buf[at : at + look.LOOKAHEAD]
        answer = look.quoted_key_at(window, 0)
        if answer is None and not final and len(window) < look.LOOKAHEAD:
            return None
        if answer:
            return False
        self._output.note("missing_quote")
        self._pending = [key[:-1]]
        self._containers.emit_key(self.take_key())
        return True

    def read_triple(self, buf: str, pos: int, final: bool) -> int:
        """Read text between triple quotes. The last three quotes of a run close it."""
        found = _TRIPLE[self._quote[0]](buf, pos)
        at = len(buf) if found is None else found.start()
        if found is None or at > pos:
            self._text(buf[pos:at])
            return at
        if buf[at] == "\\":
            return self._triple_backslash(buf, at, final)
        return self._triple_quotes(buf, at, found.end(), final)

    def _triple_quotes(self, buf: str, at: int, end: int, final: bool) -> int:
        """Read a run of quotes between triple quotes, from `at` to `end`."""
        closes = end - at >= 3
        may_grow = end == len(buf) and not final
        text = buf[at : end - 3 if closes else end]
        if may_grow and not (closes and text):
            return look.MORE
        if text:
            self._text(text)
        if may_grow:
            return end - 3
        if closes:
            self._end()
        return end

    def _triple_backslash(self, buf: str, at: int, final: bool) -> int:
        """Read a backslash between triple quotes as Python does. In JSON, it may be meant as plain text."""
        if self._raw:
            return self._raw_backslash(buf, at, final)
        new = self._escape(buf, at, final)
        if new != look.MORE and "call" not in self._kinds:
            self._output.note("triple_quote_escape")
        return new

    def read_marked(self, buf: str, pos: int, final: bool) -> int:
        """Read text between raw quotes, which has no escapes."""
        at = self._marked_end(buf, pos, final)
        if self.maybe_key:
            at = min(at, pos + _MAX_KEY + 1 - self._pending_size)  # the same limit however the text is chunked
        if at > pos:
            self._text(buf[pos:at])
            return at
        if not buf.startswith(self._quote, at):
            return look.MORE
        self._end()
        return at + len(self._quote)

    def _marked_end(self, text: str, pos: int, final: bool) -> int:
        """Return the position of the closing raw quote or, unless the text is `final`, of what may become one."""
        end = text.find(self._quote, pos)
        if end >= 0:
            return end
        at = -1 if final else text.rfind("<", max(pos, len(text) + 1 - len(self._quote)))
        return at if at >= 0 and self._quote.startswith(text[at:]) else len(text)

    def read_escaped(self, buf: str, pos: int, final: bool) -> int:
        """Read a string whose quotes and escapes have one backslash too many."""
        at = look.match_start(_ESCAPED, buf, pos)
        if at > pos:
            self._text(buf[pos:at])
            return at
        if buf[at] == '"':
            return self._read_quote(buf, at, final)
        if at + 1 == len(buf) and not final:
            return look.MORE
        following = buf[at + 1 : at + 2]
        if following == '"':
            new = self._read_quote(buf, at + 1, final)
            return at if new == at + 1 else new  # the quote opens a value: read it together with its backslash
        if following != "\\":
            return self._escape(buf, at, final)
        return self._double_backslash(buf, at, final)

    def _double_backslash(self, buf: str, at: int, final: bool) -> int:
        """Read two backslashes and drop the superfluous one."""
        rest = buf[at + 2 : at + 4]
        if not final and rest in ("", "\\"):
            return look.MORE
        if rest in ('\\"', "\\\\"):
            self._text(rest[1])
            return at + 4
        return self._escape(buf, at + 1, final)


def _opening(buf: str, pos: int, final: bool, key: bool) -> tuple[int, bool]:
    """Return the width of the opening quote at `pos` (MORE: more text is needed), and whether it is doubled."""
    quote = buf[pos]
    mark = look.begins(buf, pos, (quote * 3,))
    if mark:
        return 3, False
    if mark is None and not final:
        return look.MORE, False
    if not buf.startswith(quote, pos + 1):
        return 1, False
    window = buf[pos + 2 : pos + 2 + look.LOOKAHEAD]
    answer = _doubled_before(window, quote, key)
    if answer is None and not final and len(window) < look.LOOKAHEAD:
        return look.MORE, False
    return (2, True) if answer else (1, False)


def _doubled_before(text: str, quote: str, key: bool) -> look.Tristate:
    """Whether two quotes before `text` are a doubled opening quote rather than an empty string.

    They are if a letter or digit follows and the next quote, doubled or not, could close the string.
    """
    at = look.skip_spaces(text, 0) if key else 0
    if at == len(text):
        return None
    if not text[at].isalnum():
        return False
    end = text.find(quote, at)
    if end < 0:
        return None
    end += text.startswith(quote, end + 1)
    return look.quoted_colon(text, end) if key else look.delimiter_after_quote(text, end)


def _unescaped(buf: str, pos: int, final: bool) -> tuple[str, int, bool]:
    """Return the arguments of `closes` for the lookahead at `pos`, with one level of escapes removed."""
    window = buf[pos : pos + look.LOOKAHEAD]
    text = _ESCAPED_SPACE(" ", window[: len(window) - window.endswith("\\")].replace('\\"', '"'))
    return text, 0, final or len(window) == look.LOOKAHEAD
