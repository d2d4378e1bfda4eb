"""The parts of tolerant JSON that stand outside quotes and mean no structure: bare words and comments.

`Words` adds to `Strings` the states inside a word without quotes (a number, a literal, a text whose quotes
were forgotten) and inside a comment.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from .containers import Allowance, State
from .literals import escape_text, has_surrogate, read_word
from .lookahead import CLOSERS, COMMAS, COMMENTS, OPENERS, Answer, begins, delimiter_behind_quote, key_ahead, skip
from .strings import MORE, Search, Strings, first_at
from .tokens import END_STRING, PART, SCALAR, STRING

ELLIPSES = ("...", "…")
#: Quotes that end a bare word. An apostrophe does not: `don't`.
_WORD_QUOTES = '"“'
_WORD_END = ",，;；{}[]()｛｝［］（）\n" + _WORD_QUOTES
_COMMENT_END = "\n{}[]"
#: A comment may follow a word, behind a space.
_SPACE_AND_COMMENT = r"\s(?=//|/\*|#|/?\Z)"
#: A longer word is text, whatever it is made of.
_MAX_LITERAL = 64


@lru_cache(maxsize=64)
def _searches(stops: tuple[str, ...]) -> tuple[Search, Search]:
    """What may end a bare word, and what may end a comment, given the marks that end everything."""
    first = "".join(stop[0] for stop in stops)
    word = re.compile(f"[{re.escape(_WORD_END + first)}]|{_SPACE_AND_COMMENT}").search
    return word, re.compile(f"[{re.escape(_COMMENT_END + first)}]").search


class Words(Strings):
    """The states inside a bare word and inside a comment."""

    def __init__(self, *, stops: tuple[str, ...] = (), call: bool = False, allowance: Allowance | None = None) -> None:
        super().__init__(stops=stops, call=call, allowance=allowance)
        self._word_end, self._comment_end = _searches(stops)
        self._word: list[str] = []
        self._word_size = 0
        self._nested = 0  # brackets open inside the word or the comment
        self._back: State = "value"  # where to go on behind a comment

    # ---- words

    def _read_word(self, buf: str, pos: int, final: bool) -> int:
        """A number, a literal or text without quotes, up to the next delimiter outside its own brackets."""
        end = first_at(self._word_end, buf, pos)
        if end > pos:
            return self._add(buf, pos, end)
        stop = self._stop_at(buf, pos)
        if stop is None and not final:
            return MORE
        char = buf[pos]
        comment = char.isspace() and begins(buf, pos + 1, COMMENTS)
        if comment is None and not final:
            return MORE
        if not stop and not comment and (char not in _WORD_END or self._is_own_bracket(char)):
            return self._add(buf, pos, pos + 1)
        if not stop and char in COMMAS and self._kinds[-1] == "object":
            return self._comma_in_word(buf, pos, final)
        if not stop and char in _WORD_QUOTES and self._closers:
            return self._quote_behind_word(buf, pos, final)
        self._end_word()
        return pos

    def _add(self, buf: str, pos: int, end: int) -> int:
        self._word.append(buf[pos:end])
        self._word_size += end - pos
        return end

    def _is_own_bracket(self, char: str) -> bool:
        """Text may hold brackets of its own, and whatever stands in them on one line."""
        if not self._nested:
            own = char in OPENERS and bool(self._closers) and self._is_text()
            self._nested += own
            return own
        self._nested += (char in OPENERS) - (char in CLOSERS)
        self._spend()
        return char != "\n"

    def _is_text(self) -> bool:
        """Whether the word so far is neither a number nor a literal."""
        return self._word_size > _MAX_LITERAL or read_word("".join(self._word).strip())[0] is None

    def _comma_in_word(self, buf: str, pos: int, final: bool) -> int:
        """`Paris, France` goes on behind the comma unless a key stands there."""
        text = self._ahead(_text_behind_comma, buf, pos, final)
        if text is None:
            return MORE
        if text:
            return self._add(buf, pos, pos + 1)
        self._end_word()
        return pos

    def _quote_behind_word(self, buf: str, pos: int, final: bool) -> int:
        """A closing quote whose opening one was forgotten ends the word and is gone."""
        lost = self._ahead(delimiter_behind_quote, buf, pos, final)
        if lost is None:
            return MORE
        if lost:
            self._note("missing_quote")
        self._end_word()
        return pos + lost

    def _end_word(self) -> None:
        raw = "".join(self._word)
        word = raw.strip()
        if raw.strip(" \t\r\n") != word:
            self._note("odd_space")
        self._word = []
        self._word_size = 0
        self._nested = 0
        in_array = self._kinds[-1] == "array"
        if in_array and word in (*ELLIPSES, "-"):
            self._note("stray_text" if word == "-" else "ellipsis")
            self._state = "after"
        elif self._closers and word == "-":
            self._missing_value()
        else:
            items = _items(word) if in_array and " " in word else [word]
            for item in items:
                self._emit_word(item)
            if len(items) > 1:
                self._note("missing_comma")
            self._ended(SCALAR)

    def _emit_word(self, word: str) -> None:
        text, code = read_word(word)
        if text is not None:
            self._emit(SCALAR, text)
        else:
            self._emit(STRING)
            self._emit(PART, escape_text(word))
            self._emit(END_STRING)
        if has_surrogate(word):
            self._note("lone_surrogate")
        elif code:
            self._note(code, word[:64] if code == "unquoted_value" else "")

    # ---- comments

    def _enter_comment(self, state: Literal["line_comment", "block_comment"]) -> None:
        self._note("comment")
        self._back = self._state
        self._state = state
        self._nested = 0

    def _line_comment(self, buf: str, pos: int, final: bool) -> int:
        """Up to the end of the line, or to a closer that something waits for when all stands on one line."""
        at = first_at(self._comment_end, buf, pos)
        if at == len(buf):
            return at
        stop = self._stop_at(buf, at)
        if stop is None and not final:
            return at if at > pos else MORE
        if stop or self._ends_comment(buf[at]):
            self._state = self._back
            self._nested = 0  # what was opened in it, and not closed, is no bracket of a word behind it
            return at
        return at + 1

    def _ends_comment(self, char: str) -> bool:
        self._spend()
        if char in "{[":
            self._nested += 1
        elif char in "}]" and self._nested:
            self._nested -= 1
        else:
            return char == "\n" or char in self._closers
        return False

    def _block_comment(self, buf: str, pos: int, final: bool) -> int:
        end = buf.find("*/", pos)
        if end >= 0:
            self._state = self._back
            return end + 2
        seen = len(buf) - (buf[-1] == "*" and not final)
        return seen if seen > pos else MORE


def _items(word: str) -> list[str]:
    """Numbers and literals with nothing but spaces between them are several elements; other words are one."""
    items = word.split()
    return items if all(read_word(item)[0] is not None for item in items) else [word]


def _text_behind_comma(text: str, at: int) -> Answer:
    """Whether words stand behind the comma at `at` and they are no key."""
    after = skip(text, at + 1)
    if after == len(text):
        return None
    if not text[after].isalnum():
        return False
    key = key_ahead(text, after)
    return None if key is None else not key
