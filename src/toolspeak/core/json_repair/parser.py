"""Tolerant JSON parser: broken JSON in, tokens of strict JSON out, chunk by chunk.

`JSONParser` accepts the JSON that models write: trailing commas, single or typographic quotes, comments, Python
literals, bare keys, missing quotes and brackets, full-width punctuation. It emits each token as soon as it is certain;
`Writer` turns tokens into strict JSON text. Every repair is recorded as a note. The parser also turns the argument list
of a Python-like call, `(city="Paris", days=2)`, into an object.

The caller passes a buffer and a position; the parser returns how far it read. Undecided text stays in the buffer: at
most `LOOKAHEAD` characters or one key. So time is linear, and chunk boundaries cannot change the result.
"""

import re
from collections.abc import Callable, Set
from typing import ClassVar

from ..types import Note
from . import lookahead
from .bare_words import ELLIPSES, CommentReader, WordReader
from .containers import MAX_SIZE, Allowance, Containers, Kind, Output, State
from .fast_path import fast_paths
from .literals import has_surrogate, read_word
from .strings import StringReader
from .tokens import ARRAY, END_OBJECT, END_STRING, SCALAR, Status, Token

#: Codes of notes on values that must never be used.
UNSAFE_NOTES = frozenset({"duplicate_key", "nan", "lone_surrogate"})
#: Codes of notes on repairs that may have changed a value.
VALUE_CHANGING_NOTES = frozenset(
    """ellipsis inner_quotes missing_closer missing_opener missing_quote missing_value object_to_string python_set
    spelling_lost split_array stray_text triple_quote_escape wrong_closer""".split()
)
#: Codes that mean the same together: digits with leading zeros may be those of an octal number.
_READ_AS_DECIMAL = frozenset({"leading_zeros", "string_to_number"})


def value_changes(codes: Set[str]) -> Set[str]:
    """Return those of the codes of notes that mean that a repair may have changed a value."""
    changes: Set[str] = VALUE_CHANGING_NOTES & codes
    return changes | _READ_AS_DECIMAL if codes >= _READ_AS_DECIMAL else changes


_KINDS: dict[str, Kind] = {"}": "brace", "]": "array", ")": "group"}
_ESCAPED_SPACES = ("\\n", "\\r", "\\t")
_NOT_SPACE = re.compile(r"[^ \t\r\n]").search
_BARE_KEY = re.compile(r"[^:=：＝\s,，;；{}\[\]()\"'“”<>|*]+").match
_FULLWIDTH = frozenset("｛｝［］（），：＝；")
#: Punctuation other than quotes and brackets that may begin a key or value after a missing comma.
_STARTERS = "-_.\\$<"

#: Returned instead of a position if there is no stop mark.
_NO_STOP = -2

#: The states between tokens, in which spaces and comments are skipped.
_STRUCTURE = frozenset({"value", "key", "colon", "after"})
_STRING_STATES: dict[State, Callable[..., int]] = {
    "string": StringReader.read_string,
    "triple": StringReader.read_triple,
    "marked": StringReader.read_marked,
    "escaped": StringReader.read_escaped,
}
_COMMENT_STATES: dict[State, Callable[..., int]] = {
    "line_comment": CommentReader.read_line,
    "block_comment": CommentReader.read_block,
}


class JSONParser:
    """Parser for one value. Call `feed` until `status` is no longer `open`; take the `tokens` after each call.

    Args:
        stops: Marks that end the value wherever they occur outside a string.
        call: Parse an argument list in parentheses.
        allowance: Limit on values and repairs that is shared with other parsers.
        missing: JSON text that replaces a missing value.
    """

    def __init__(
        self,
        *,
        stops: tuple[str, ...] = (),
        call: bool = False,
        allowance: Allowance | None = None,
        missing: str = "null",
    ) -> None:
        self.allowance = allowance or Allowance()
        self._output = output = Output(self.allowance)
        self._containers = containers = Containers(output, missing)
        self._stops = marks = lookahead.StopMarks(stops)
        self._strings = StringReader(output, containers, stops)
        self._words = WordReader(output, containers, marks)
        self._comments = CommentReader(output, containers, marks)
        self._fast_paths = fast_paths(marks.starts)
        self._stops_at_line_break = "\n" in marks.starts
        self._kinds = containers.kinds
        self._call = call
        self._size = 0

    @property
    def tokens(self) -> list[Token]:
        """The tokens emitted so far. The caller may take them and assign an empty list."""
        return self._output.tokens

    @tokens.setter
    def tokens(self, tokens: list[Token]) -> None:
        self._output.tokens = tokens

    @property
    def status(self) -> Status:
        return self._output.status

    @property
    def notes(self) -> tuple[Note, ...]:
        """The repairs so far, one note per code."""
        return self._output.notes

    @property
    def codes(self) -> frozenset[str]:
        return self._output.codes

    @property
    def closers(self) -> str:
        """The closing brackets of the open containers, innermost last."""
        return self._containers.closers

    @property
    def in_quotes(self) -> bool:
        return self._containers.state in _STRING_STATES

    @property
    def in_string(self) -> bool:
        """Whether the parser is inside a string that is emitted as it arrives, not inside a possible key."""
        return self._containers.state in _STRING_STATES and not self._strings.maybe_key

    @property
    def in_plain_string(self) -> bool:
        """Whether the parser is inside an emitted string that strict JSON would spell the same way."""
        return self._strings.in_plain_string

    @property
    def remaining_chars(self) -> int:
        """Number of characters that may still be read."""
        return MAX_SIZE - self._size

    def count_chars(self, count: int) -> None:
        """Count characters that the caller processed without `feed`."""
        self._size += count
        if self._size > MAX_SIZE:
            self._output.give_up("too_large")

    @property
    def awaits_member(self) -> bool:
        """Whether the value of a key comes next, and nothing has been repaired so far."""
        return self._containers.state == "value" and self._kinds[-1] == "object" and not self._output.codes

    def skip_object(self, chars: int, values: int) -> None:
        """Skip the value of a key, an object that the caller has read: `chars` characters with `values` values."""
        self.count_chars(chars)
        self.allowance.remaining -= values
        self._containers.end_value(END_OBJECT)

    def note_control(self) -> None:
        """Record a raw control character in a string that the caller processed without `feed`."""
        self._strings.note_control()

    def text_run(self) -> tuple[lookahead.Search, Callable[[str], tuple[str, int, bool]]] | None:
        """Return a shortcut for reading the current string; see `StringReader.text_run`."""
        return self._strings.text_run()

    def feed(self, buf: str, pos: int = 0, final: bool = False, pause: int = -1) -> int:
        """Read from `pos` and return the position of the first unread character.

        Stops early once there are tokens and at most `pause` containers are open, because the caller may not need
        the rest.
        """
        output, containers, step = self._output, self._containers, self._step
        room = MAX_SIZE + 1 - self._size
        clipped = len(buf) - pos > room
        if clipped:  # give up at the same position however the text is chunked
            buf, final = buf[: pos + room], False
        end = len(buf)
        while pos < end and output.status == "open":
            new = step(buf, pos, final)
            if new == lookahead.MORE:
                if clipped:  # the text needed for a decision is beyond the limit
                    output.give_up("too_large")
                break
            self._size += new - pos
            if self._size > MAX_SIZE:
                output.give_up("too_large")
            pos = new
            if output.tokens and len(containers.closers) <= pause:
                break
        return pos

    def finish(self) -> None:
        """End the text: close all open containers, so that the tokens form one strict value."""
        if self._output.status != "open":
            return
        containers = self._containers
        if containers.state in _COMMENT_STATES:
            containers.state = self._comments.return_state
        if containers.state == "word":
            self._words.end()
        elif containers.state == "value" and not containers.closers:
            self._output.give_up("no_value")
        if self._output.status == "open":
            self._close_open()
            self._output.status = "truncated"

    def close_all(self) -> None:
        """Close all open containers as a repair, because the surrounding block ended before the value did."""
        self.finish()
        if self._output.status == "truncated":
            self._output.status = "complete"
            self._output.note("missing_closer")

    def _close_open(self) -> None:
        containers = self._containers
        if self.in_string:
            self._output.emit(END_STRING)
        elif containers.state == "value":
            if self._kinds[-1] in ("object", "call"):
                self._output.emit(SCALAR, containers.missing)
        elif containers.state not in ("key", "after"):
            self._close_pending()
        while containers.closers:
            containers.pop()

    def _close_pending(self) -> None:
        """Close a cut-off string that might be a key.

        Where a value is possible, the string is a value. Otherwise it is `key: value` without the quotes in between,
        or a key without a value, which is dropped.
        """
        strings = self._strings
        ended = self._containers.state == "colon"
        if self._kinds[-1] in ("array", "call"):
            if strings.has_pending or ended:
                strings.release()
                self._output.emit(END_STRING)
            return
        key, colon, rest = strings.take_key().partition(":")
        if colon and not ended:
            self._output.note("missing_quote")
            self._containers.emit_key(key)
            if rest.strip():
                self._words.emit(rest.strip())
            else:
                self._output.emit(SCALAR, self._containers.missing)

    # ---- all states

    def _step(self, buf: str, pos: int, final: bool) -> int:
        """Let the current state read from `pos`. Return the new position or MORE."""
        containers = self._containers
        state = containers.state
        if state in _STRUCTURE:
            fast = self._fast_paths.get(state)
            if fast is not None and (new := fast(self._output, containers, buf, pos)) > pos:
                return new
            new = self._blank(buf, pos, final)
            if new in (lookahead.MORE, len(buf)) or containers.state != state or self._output.status != "open":
                return new
            return new if buf[new] == "\n" else self._STATES[state](self, buf, new, final)
        read = _STRING_STATES.get(state)
        if read is not None:
            return read(self._strings, buf, pos, final)
        if state == "word":
            return self._words.read(buf, pos, final)
        return _COMMENT_STATES[state](self._comments, buf, pos, final)

    def _blank(self, buf: str, pos: int, final: bool) -> int:
        """Skip spaces. Enter a comment if one begins, and close everything at a stop mark."""
        while (match := _NOT_SPACE(buf, pos)) is not None:
            if self._stops_at_line_break and (line := self._line_stop(buf, pos, match.start(), final)) != _NO_STOP:
                return line
            pos = match.start()
            char = buf[pos]
            stop = self._stops.at(buf, pos)
            if stop:
                self.close_all()
                return pos
            if not final and (stop is None or (char == "\\" and pos + 1 == len(buf))):
                return lookahead.MORE
            if char in "/#":
                return self._comment(buf, pos, final)
            width = self._odd_space(buf, pos)
            if width == 0:
                return pos
            pos += width
        if self._stops_at_line_break and (line := self._line_stop(buf, pos, len(buf), final)) != _NO_STOP:
            return line
        return len(buf)

    def _line_stop(self, buf: str, pos: int, end: int, final: bool) -> int:
        """Return the position of a stop mark at the last line break between `pos` and `end`, or MORE, or _NO_STOP."""
        at = buf.rfind("\n", pos, end)
        stop = at >= 0 and lookahead.begins(buf, at, self._stops.marks)
        if stop is None and not final:
            return at if at > pos else lookahead.MORE
        if not stop:
            return _NO_STOP
        self.close_all()
        return at

    def _odd_space(self, buf: str, pos: int) -> int:
        """Note an unusual or escaped space at `pos` and return its width; return 0 if there is none."""
        char = buf[pos]
        if char.isspace() or char == "\ufeff":
            self._output.note("odd_space")
            return 1
        if char == "\\" and lookahead.begins(buf, pos, _ESCAPED_SPACES):
            self._output.note("double_encoded")
            return 2
        return 0

    def _comment(self, buf: str, pos: int, final: bool) -> int:
        if buf[pos] == "/" and pos + 1 == len(buf) and not final:
            return lookahead.MORE
        if buf.startswith("/*", pos):
            self._comments.enter("block_comment")
            return pos + 2
        if buf[pos] == "#" or buf.startswith("//", pos):
            self._comments.enter("line_comment")
            return pos + 1
        return pos

    def _note_fullwidth(self, char: str) -> None:
        if char in _FULLWIDTH:
            self._output.note("fullwidth")

    # ---- state `value`: a value is expected

    def _value(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        kind = self._kinds[-1]
        if kind == "root" and self._call:
            return self._open_call(char, pos)
        if char in lookahead.OPENERS:
            self._note_fullwidth(char)
            self._containers.push(_KINDS[lookahead.OPENERS[char]], lookahead.OPENERS[char])
            return pos + 1
        if char in lookahead.CLOSERS or char in lookahead.COMMAS:
            return self._no_value(buf, pos, final)
        if char in lookahead.COLONS and kind in ("object", "call"):
            self._output.note("other_separator")
            return pos + 1
        if char in lookahead.QUOTES or char in "\\<":
            return self._strings.open(buf, pos, final, maybe_key=kind == "array")
        return self._bare_value(buf, pos, final)

    def _open_call(self, char: str, pos: int) -> int:
        if lookahead.OPENERS.get(char) != ")":
            self._output.give_up("no_call")
            return pos
        self._note_fullwidth(char)
        self._containers.push("call", ")")
        return pos + 1

    def _bare_value(self, buf: str, pos: int, final: bool) -> int:
        prefixed = self._strings.open_prefixed(buf, pos, final)
        if prefixed is not None:
            return prefixed
        self._containers.state = "word"
        return pos

    def _no_value(self, buf: str, pos: int, final: bool) -> int:
        """Handle a closing bracket or a comma in place of a value."""
        kind = self._kinds[-1]
        if kind == "root":
            self._output.give_up("no_value")
        elif kind in ("object", "call"):
            self._containers.replace_missing_value()
        elif buf[pos] in lookahead.CLOSERS:
            return self._close(buf, pos, final)
        else:
            self._output.note("extra_comma")
            return pos + 1
        return pos

    # ---- state `key`: a key or the end of the object is expected

    def _key(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if char in lookahead.CLOSERS:
            return self._close(buf, pos, final)
        if char in lookahead.COMMAS:
            self._output.note("extra_comma")
            return pos + 1
        if char in lookahead.QUOTES or char in "\\<":
            return self._strings.open(buf, pos, final, maybe_key=True)
        if char in ".…":
            return self._ellipsis(buf, pos, final)
        if self._kinds[-1] == "call":
            return self._argument_word(buf, pos, final)
        if char in lookahead.OPENERS:
            return self._opener_for_key(char, pos)
        return self._bare_key(buf, pos, final)

    def _ellipsis(self, buf: str, pos: int, final: bool) -> int:
        ellipsis = lookahead.begins(buf, pos, ELLIPSES)
        if ellipsis is None:
            return len(buf) if final else lookahead.MORE
        if not ellipsis:
            self._output.give_up("not_an_object")
            return pos
        self._output.note("ellipsis")
        self._containers.last_comma = False
        return pos + (3 if buf[pos] == "." else 1)

    def _argument_word(self, buf: str, pos: int, final: bool) -> int:
        """Read the name of an argument, or emit a placeholder for a missing name."""
        has_name = lookahead.look_ahead(lookahead.named_argument_ahead, buf, pos, final)
        if has_name is None:
            return lookahead.MORE
        if has_name:
            return self._bare_key(buf, pos, final)
        self._containers.emit_positional()
        return pos

    def _opener_for_key(self, char: str, pos: int) -> int:
        """Handle an opening brace in place of a key: a template doubled it, or the previous object was not closed."""
        if char == "{" and self._kinds[-1] == "brace":
            self._output.note("doubled_braces")
            self._containers.resolve("wrap")
            self._containers.push("brace", "}")
            return pos + 1
        if char == "{" and self._kinds[-2] == "array":
            self._output.note("missing_closer")
            self._containers.pop()
            self._containers.state = "value"
            return pos
        self._output.give_up("not_an_object")
        return pos

    def _bare_key(self, buf: str, pos: int, final: bool) -> int:
        key = _BARE_KEY(buf, pos)
        end = pos if key is None else key.end()
        if end == len(buf) and end - pos <= lookahead.LOOKAHEAD and not final:
            return lookahead.MORE
        if key is None or end - pos > lookahead.LOOKAHEAD:
            self._output.give_up("not_an_object")
            return pos
        word = key.group().removeprefix("--")
        if has_surrogate(word):
            self._output.note("lone_surrogate")
        if self._kinds[-1] != "call":
            self._output.note("unquoted_key")
        self._strings.set_bare_key(word, is_flag=len(word) < end - pos)
        return end

    # ---- state `colon`: a key, or a string that may be a key, has ended

    def _colon(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if char in lookahead.COLONS:
            return self._read_colon(buf, pos, final)
        if self._kinds[-1] in ("array", "call"):
            self._lone_string()
            return pos
        if char in lookahead.QUOTES:
            return self._quote_after_key(buf, pos, final)
        if char in lookahead.COMMAS:
            return self._comma_after_key(buf, pos, final)
        if char in lookahead.CLOSERS:
            self._lone_key()
            return pos
        next_flag = not self._strings.flags or lookahead.begins(buf, pos, lookahead.FLAG)
        if next_flag is None and not final:
            return lookahead.MORE
        if self._strings.quoted or char in lookahead.OPENERS or not next_flag:
            self._output.note("missing_colon")
            self._emit_key()
        elif self._kinds[-1] == "object":
            self._drop_key("key")
        else:
            self._output.give_up("not_an_object")
        return pos

    def _emit_key(self) -> None:
        self._containers.emit_key(self._strings.take_key())

    def _read_colon(self, buf: str, pos: int, final: bool) -> int:
        arrow = lookahead.begins(buf, pos, ("=>",))
        if arrow is None and not final:
            return lookahead.MORE
        char = buf[pos]
        self._note_fullwidth(char)
        if char == "=" and self._kinds[-1] != "call":
            self._output.note("other_separator")
        if self._kinds[-1] == "array":
            self._object_in_array()
        self._emit_key()
        return pos + (2 if arrow else 1)

    def _object_in_array(self) -> None:
        """Handle a key in an array: the array's closing bracket or an object's opening brace is missing."""
        if self._kinds[-2] == "object" and self._containers.previous not in (ARRAY, END_OBJECT):
            self._output.note("missing_closer")
            self._containers.pop()
        else:
            self._output.note("missing_opener")
            self._containers.push("object", "}")

    def _lone_string(self) -> None:
        """Treat a string that might have been a key as a value."""
        self._strings.release()
        self._output.emit(END_STRING)
        self._containers.end_value(END_STRING)

    def _lone_key(self) -> None:
        """Handle a key without a value: the first one is an element of a set, any other is dropped."""
        if self._kinds[-1] != "brace":
            self._drop_key("after")
            return
        if self._strings.quoted:
            self._containers.resolve("array")
            self._output.note("python_set")
            self._lone_string()
            return
        word = self._strings.take_key()
        if read_word(word)[0] is None:
            self._output.give_up("not_an_object")
            return
        self._containers.resolve("array")
        self._output.note("python_set")
        self._words.emit(word)
        self._containers.end_value(SCALAR)

    def _drop_key(self, state: State) -> None:
        self._output.note("stray_text", self._strings.take_key()[:64])
        self._containers.state = state

    def _quote_after_key(self, buf: str, pos: int, final: bool) -> int:
        """Handle `key "value"` (missing colon), `key": value` (missing quote) and `word "key": value` (stray word)."""
        extra = lookahead.look_ahead(lookahead.quoted_colon, buf, pos, final)
        word = lookahead.look_ahead(lookahead.quoted_key_at, buf, pos, final)
        if extra is None or word is None:
            return lookahead.MORE
        if extra:
            self._output.note("missing_quote")
            return pos + 1
        if word:
            self._drop_key("key")
        else:
            self._output.note("missing_colon")
            self._emit_key()
        return pos

    def _comma_after_key(self, buf: str, pos: int, final: bool) -> int:
        """Handle a comma after a key: it replaces a colon, separates elements of a set, or follows a lone key."""
        value = lookahead.look_ahead(lookahead.value_after_comma, buf, pos, final)
        key = lookahead.look_ahead(lookahead.key_after_comma, buf, pos, final)
        if value is None or key is None:
            return lookahead.MORE
        if self._strings.quoted and value:
            self._output.note("missing_colon")
            self._emit_key()
            return pos + 1
        if key:
            self._drop_key("after")
        else:
            self._lone_key()
        return pos

    # ---- state `after`: a value has ended, a comma or a closing bracket is expected

    def _after(self, buf: str, pos: int, final: bool) -> int:
        char = buf[pos]
        if char in lookahead.COMMAS:
            self._note_fullwidth(char)
            if char == ";":
                self._output.note("other_separator")
            self._containers.last_comma = True
            self._next()
            return pos + 1
        self._containers.last_comma = False
        if char in lookahead.CLOSERS:
            return self._close(buf, pos, final)
        if char in lookahead.QUOTES or char in lookahead.OPENERS or char.isalnum() or char in _STARTERS:
            self._output.note("missing_comma")
            self._next()
        else:
            self._output.give_up("not_json")
        return pos

    def _next(self) -> None:
        kind = self._kinds[-1]
        if kind == "group":
            self._containers.resolve_group(is_tuple=True)
        elif kind == "wrap":
            self._output.give_up("not_an_object")
        self._containers.state = "value" if kind in ("array", "group") else "key"

    def _close(self, buf: str, pos: int, final: bool) -> int:
        """Handle the closing bracket at `pos`, which may close several containers, one, or none."""
        char = buf[pos]
        closer = lookahead.CLOSERS[char]
        closers = self._containers.closers
        if closer not in closers:
            self._note_unmatched(closer)
            return pos + 1
        if closer != closers[-1]:
            return self._close_outer(buf, pos, final)
        if closer == "]" and self._kinds[-2] == "object":
            continues = lookahead.look_ahead(lookahead.array_after_comma, buf, pos, final)
            if continues is None:
                return lookahead.MORE
            if continues:
                self._output.note("split_array")
                self._containers.state = "value"
                return lookahead.skip_spaces(buf, lookahead.skip_spaces(buf, pos + 1) + 1) + 1
        self._close_one(char)
        return pos + 1

    def _note_unmatched(self, closer: str) -> None:
        """Note a closing bracket that nothing opened. Only a second brace after an object in an array loses nothing:
        elsewhere, the opening bracket may be missing."""
        doubled = closer == "}" and self._kinds[-1] == "array" and self._containers.previous == END_OBJECT
        self._output.note("extra_closer" if doubled else "wrong_closer")

    def _close_one(self, char: str) -> None:
        self._note_fullwidth(char)
        if self._containers.last_comma:
            self._output.note("trailing_comma")
        self._containers.pop()

    def _close_outer(self, buf: str, pos: int, final: bool) -> int:
        """Handle the closing bracket of an outer container: inner brackets are missing, or it is the wrong one."""
        containers = self._containers
        depth = containers.closers.rindex(lookahead.CLOSERS[buf[pos]])
        is_wrong = self._is_wrong_closer(buf, pos + 1, final, depth)
        if is_wrong is None:
            return lookahead.MORE
        if is_wrong:
            self._output.note("wrong_closer")
            self._close_one(buf[pos])
            return pos + 1
        while len(containers.closers) > depth + 1:
            self._output.note("missing_closer")
            containers.pop()
        self._close_one(buf[pos])
        return pos + 1

    def _is_wrong_closer(self, buf: str, pos: int, final: bool, depth: int) -> lookahead.Tristate:
        """Whether the closing bracket just before `pos` is a wrong one for the innermost container, rather than the
        right one for the container at `depth`. If the text ahead does not tell, no key changes its object."""
        key = lookahead.look_ahead(lookahead.key_after_comma, buf, pos, final)
        if key is None or (key and self._kinds[depth] in ("root", "array", "group")):
            return key
        window = buf[pos : pos + lookahead.LOOKAHEAD]
        answer = lookahead.closes_more(window, depth, len(self._containers.closers) - 1)
        if answer is None and len(window) == lookahead.LOOKAHEAD:
            return key
        return False if answer is None and final else answer

    _STATES: ClassVar[dict[State, Callable[..., int]]] = {
        "value": _value,
        "key": _key,
        "colon": _colon,
        "after": _after,
    }
