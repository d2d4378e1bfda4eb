"""Readers for text outside quotes: bare words (numbers, literals, unquoted strings) and comments."""

import re
from functools import lru_cache
from typing import Literal

from . import lookahead
from .containers import Containers, Output, State
from .literals import escape_text, has_surrogate, read_word
from .tokens import END_STRING, PART, SCALAR, STRING, WrittenNumber

ELLIPSES = ("...", "…")
#: Quotes that end a bare word. An apostrophe does not, because words such as `don't` contain one.
_WORD_QUOTES = '"“'
#: The line ends of JavaScript, whose comments models write into JSON.
_LINE_ENDS = "\n\r\u2028\u2029"
_WORD_END = ",，;；{}[]()｛｝［］（）" + _LINE_ENDS + _WORD_QUOTES
#: What may end a line comment, and the quote, which makes it doubtful that the text is a comment.
_COMMENT_END = _LINE_ENDS + '{}[]"'
#: A space before a comment, which may end a word.
_SPACE_AND_COMMENT = r"\s(?=//|/\*|#|/?\Z)"
#: The beginning of a comment, which may end a number or literal.
_COMMENT_IN_WORD = r"//|/\*|#|/\Z"
#: Punctuation in unquoted text, other than the colon of a URL or a path: where the text ends is a guess.
_PUNCTUATION = re.compile(r'[,，;；{}\[\]()"“”:：](?<![:：](?=[/\\]))').search
#: A word longer than this is text, not a number or literal.
_MAX_LITERAL = 64


@lru_cache(maxsize=64)
def _searches(stops: tuple[str, ...]) -> tuple[lookahead.Search, lookahead.Search, lookahead.Search]:
    """Return the searches for the possible end of a bare word, of a long one, and of a comment. Stop marks end all."""
    prefixes = {mark[:size] for mark in stops for size in range(1, len(mark))}
    marks = "".join([f"|{re.escape(mark)}" for mark in stops] + [rf"|{re.escape(prefix)}\Z" for prefix in prefixes])
    long_word = f"[{re.escape(_WORD_END)}]|{_SPACE_AND_COMMENT}{marks}"
    patterns = f"{long_word}|{_COMMENT_IN_WORD}", long_word, f"[{re.escape(_COMMENT_END)}]{marks}"
    word, long, comment = (re.compile(pattern).search for pattern in patterns)
    return word, long, comment


class WordReader:
    """Reader for bare words, used in the parser state `word`."""

    def __init__(self, output: Output, containers: Containers, stops: lookahead.StopMarks) -> None:
        self._output = output
        self._containers = containers
        self._kinds = containers.kinds
        self._stops = stops
        self._search_word, self._search_long, _ = _searches(stops.marks)
        self._parts: list[str] = []
        self._size = 0
        self._depth = 0  # number of brackets open inside the word

    def read(self, buf: str, pos: int, final: bool) -> int:
        """Read up to the next delimiter that is not enclosed in brackets of the word itself."""
        end = lookahead.match_start(self._search_long if self._size > _MAX_LITERAL else self._search_word, buf, pos)
        if end > pos:
            return self._add(buf, pos, end)
        stop = self._stops.at(buf, pos)
        if stop is None and not final:
            return lookahead.MORE
        char = buf[pos]
        comment = self._comment_at(buf, pos)
        if comment is None and not final:
            return lookahead.MORE
        if not stop and not comment and (char not in _WORD_END or self._is_own_bracket(char)):
            return self._add(buf, pos, pos + 1)
        if not stop and char in lookahead.COMMAS and self._kinds[-1] == "object":
            return self._read_comma(buf, pos, final)
        if not stop and char in _WORD_QUOTES and self._containers.closers:
            return self._read_quote(buf, pos, final)
        self.end()
        return pos

    def _comment_at(self, buf: str, pos: int) -> lookahead.Tristate:
        """Whether a comment ends the word here: text such as `http://x` needs a space before it, a number does not."""
        if buf[pos] in "/#":
            return not self._is_text() and lookahead.begins(buf, pos, lookahead.COMMENTS)
        return buf[pos].isspace() and lookahead.begins(buf, pos + 1, lookahead.COMMENTS)

    def _add(self, buf: str, pos: int, end: int) -> int:
        self._parts.append(buf[pos:end])
        self._size += end - pos
        return end

    def _is_own_bracket(self, char: str) -> bool:
        """Whether a delimiter is part of the word: unquoted text may contain a bracketed part on a single line."""
        if not self._depth:
            own = char in lookahead.OPENERS and bool(self._containers.closers) and self._is_text()
            self._depth += own
            return own
        self._depth += (char in lookahead.OPENERS) - (char in lookahead.CLOSERS)
        self._output.spend()
        return char not in _LINE_ENDS

    def _is_text(self) -> bool:
        """Whether the word so far is neither a number nor a literal."""
        return self._size > _MAX_LITERAL or read_word("".join(self._parts).strip())[0] is None

    def _read_comma(self, buf: str, pos: int, final: bool) -> int:
        """Continue text such as `Paris, France` after the comma, unless a key follows."""
        text = lookahead.look_ahead(_text_after_comma, buf, pos, final)
        if text is None:
            return lookahead.MORE
        if text:
            return self._add(buf, pos, pos + 1)
        self.end()
        return pos

    def _read_quote(self, buf: str, pos: int, final: bool) -> int:
        """End the word at a quote. A closing quote whose opening quote is missing is dropped."""
        unpaired = lookahead.look_ahead(lookahead.delimiter_after_quote, buf, pos, final)
        if unpaired is None:
            return lookahead.MORE
        if unpaired or self._is_text():
            self._output.note("missing_quote")
        self.end()
        return pos + unpaired

    def end(self) -> None:
        """Emit the word as a value."""
        raw = "".join(self._parts)
        word = raw.strip()
        if raw.strip(" \t\r\n") != word:
            self._output.note("odd_space")
        self._parts = []
        self._size = 0
        self._depth = 0
        in_array = self._kinds[-1] == "array"
        if in_array and word in (*ELLIPSES, "-"):
            self._output.note("stray_text" if word == "-" else "ellipsis")
            self._containers.state = "after"
        elif self._containers.closers and word == "-":
            self._containers.replace_missing_value()
        else:
            items = _items(word) if in_array and " " in word else [word]
            for item in items:
                self.emit(item)
            if len(items) > 1:
                self._output.note("missing_comma")
            self._containers.end_value(SCALAR)

    def emit(self, word: str) -> None:
        text, code = read_word(word)
        emit = self._output.emit
        if text is not None:
            if code == "number_format":
                text = WrittenNumber(text)
                text.written = word
            emit(SCALAR, text)
        else:
            emit(STRING)
            emit(PART, escape_text(word))
            emit(END_STRING)
        if has_surrogate(word):
            self._output.note("lone_surrogate")
        elif code:
            self._output.note(code, word[:64] if code == "unquoted_value" else "")
        if text is None and _PUNCTUATION(word):
            self._output.note("missing_quote")


class CommentReader:
    """Reader that skips comments, used in the parser states `line_comment` and `block_comment`."""

    def __init__(self, output: Output, containers: Containers, stops: lookahead.StopMarks) -> None:
        self.return_state: State = "value"  # the state before the comment
        self._output = output
        self._containers = containers
        self._stops = stops
        self._search = _searches(stops.marks)[2]
        self._depth = 0  # number of brackets open inside the comment

    def enter(self, state: Literal["line_comment", "block_comment"]) -> None:
        self._output.note("comment")
        self.return_state = self._containers.state
        self._containers.state = state
        self._depth = 0

    def read_line(self, buf: str, pos: int, final: bool) -> int:
        """Skip to the end of the line, or to an expected closing bracket if the whole value is on one line."""
        at = lookahead.match_start(self._search, buf, pos)
        if at == len(buf):
            return at
        stop = self._stops.at(buf, at)
        if stop is None and not final:
            return at if at > pos else lookahead.MORE
        if stop or self._is_end(buf[at]):
            self._containers.state = self.return_state
            return at
        return at + 1

    def _is_end(self, char: str) -> bool:
        self._output.spend()
        if char in _LINE_ENDS:
            return True
        if char in "{[":
            self._depth += 1
            return False
        if char in "}]" and self._depth:
            self._depth -= 1
            return False
        is_end = char in self._containers.closers
        if is_end or char == '"':
            self._output.note("stray_text", "a comment may contain a part of the value")
        return is_end

    def read_block(self, buf: str, pos: int, final: bool) -> int:
        end = buf.find("*/", pos)
        if end >= 0:
            self._containers.state = self.return_state
            return end + 2
        end = len(buf) - (buf[-1] == "*" and not final)
        return end if end > pos else lookahead.MORE


def _items(word: str) -> list[str]:
    """Split numbers and literals that are separated only by spaces. Any other text is a single element."""
    items = word.split()
    return items if all(read_word(item)[0] is not None for item in items) else [word]


def _text_after_comma(text: str, at: int) -> lookahead.Tristate:
    """Whether the comma at `at` is followed by words that are not a key."""
    after = lookahead.skip_spaces(text, at + 1)
    if after == len(text):
        return None
    if not text[after].isalnum():
        return False
    key = lookahead.key_ahead(text, after)
    return None if key is None else not key
