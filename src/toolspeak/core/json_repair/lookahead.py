"""Lookahead: questions about the next few characters of tolerant JSON.

Each question sees a window of at most `LOOKAHEAD` characters and answers yes, no, or `None` when the window ends too
early to tell. A yes or no never changes when the window grows, so chunk boundaries cannot change the result.
"""

import re
from collections.abc import Callable
from typing import cast

#: How many characters a decision may look ahead: enough for a key, its colon and spaces, and cheap to rescan.
LOOKAHEAD = 256
#: Returned by a parser state instead of a position when it needs more text.
MORE = -1

#: Yes, no, or `None` if more text is needed.
Tristate = bool | None
Search = Callable[..., re.Match[str] | None]
SureMatch = Callable[..., re.Match[str]]


def always_matching(pattern: str) -> SureMatch:
    """Return the `match` of a pattern that matches any text, even if only its empty beginning."""
    return cast("SureMatch", re.compile(pattern).match)


#: Every character that may open a string, with the characters that may close that string.
QUOTES = {
    **{quote: quote for quote in "\"'`"},
    **dict.fromkeys("“”„", '”“"'),
    **dict.fromkeys("‘’", "’‘'"),
    "＂": '＂"',
    "＇": "＇'",
}
OPENERS = {"{": "}", "[": "]", "(": ")", "｛": "}", "［": "]", "（": ")"}
CLOSERS = {"}": "}", "]": "]", ")": ")", "｝": "}", "］": "]", "）": ")"}
COMMAS = ",，;；"
COLONS = ":=：＝"
COMMENTS = ("//", "/*", "#")
#: The prefix of a key written as a command-line flag: `--key "value"`.
FLAG = ("--",)

_LITERALS = ("true", "false", "null", "True", "False", "None")
_SPACES = always_matching(r"[\s\ufeff]*")
_WORD = re.compile(r"[\w$.@-]+").match
#: Stray words before a key. A longer run of words is prose.
_STRAY_WORDS = re.compile(r"[\w$.@-][\w$.@ \t-]{0,62}").match
#: A bracket, or a quoted string, which may contain brackets.
_BRACKETS = re.compile(r'[{}\[\]()｛｝［］（）]|"(?:[^"\\]|\\.|\\\Z)*+(?:"|\Z)', re.DOTALL).finditer
_UNCLOSED_KEY = re.compile(r"\w+\s*[:：]").fullmatch
#: The content of a quoted string up to its closing quote; an escaped quote does not close it.
_QUOTED = {quote: always_matching(rf"(?s:[^\\{ends}]|\\.)*") for quote, ends in QUOTES.items()}


def skip_spaces(text: str, at: int) -> int:
    """Return the position of the first character at or after `at` that is not white space."""
    return _SPACES(text, at).end()


def begins(text: str, at: int, marks: tuple[str, ...]) -> Tristate:
    if text.startswith(marks, at):
        return True
    size = len(text) - at
    for mark in marks:
        if size < len(mark) and mark.startswith(text[at:]):
            return None
    return False


class StopMarks:
    """Marks that end the whole value wherever they occur outside a string."""

    __slots__ = ("marks", "starts")

    def __init__(self, marks: tuple[str, ...]) -> None:
        self.marks = marks
        self.starts = "".join(mark[0] for mark in marks)

    def at(self, buf: str, pos: int) -> Tristate:
        return buf[pos] in self.starts and begins(buf, pos, self.marks)


def look_ahead(question: Callable[[str, int], Tristate], buf: str, pos: int, final: bool) -> Tristate:
    """Ask a question about the text at `pos`. `None` means that more text is needed and can still come."""
    window = buf[pos : pos + LOOKAHEAD]
    answer = question(window, 0)
    return False if answer is None and (final or len(window) == LOOKAHEAD) else answer


def match_start(search: Search, buf: str, pos: int) -> int:
    """Return the position of the first match at or after `pos`, or the end of the buffer."""
    match = search(buf, pos)
    return len(buf) if match is None else match.start()


def begins_value(text: str, at: int) -> Tristate:
    if at == len(text):
        return None
    char = text[at]
    if char in QUOTES or char in "{[(-" or char.isdigit():
        return True
    return begins(text, at, _LITERALS)


def quoted_key_at(text: str, at: int) -> Tristate:
    """Whether the quote at `at` begins a quoted key that a colon follows. Its quotes may be doubled."""
    quote = text[at]
    if text.startswith(quote, at + 1) and text[at + 2 : at + 3].isalnum():
        at += 1
    end = quoted_end(text, at)
    return _colon_at(text, end + text.startswith(quote, end))


def quoted_end(text: str, at: int) -> int:
    """Return the position after the quoted string at `at`, or `len(text) + 1` if the string is not closed."""
    end = _QUOTED[text[at]](text, at + 1).end()
    return end + 1 if end < len(text) and text[end] != "\\" else len(text) + 1


def quoted_colon(text: str, at: int) -> Tristate:
    """Whether a colon follows the quote at `at`."""
    return _colon_at(text, at + 1)


def _colon_at(text: str, at: int) -> Tristate:
    at = skip_spaces(text, at)
    return None if at >= len(text) else text[at] in COLONS


def _bare_key_at(text: str, at: int) -> Tristate:
    """Whether a bare key (possibly with just a closing quote), or stray words before a quoted key, begin at `at`."""
    word = _WORD(text, at)
    words = _STRAY_WORDS(text, at)
    if word is None or words is None:
        return False
    end = word.end()
    if text[end : end + 1] in QUOTES:
        return quoted_colon(text, end)
    after = skip_spaces(text, words.end())
    if after < len(text) and text[after] in QUOTES:
        return quoted_key_at(text, after)
    return _colon_at(text, end) if after < len(text) else None


def key_ahead(text: str, at: int) -> Tristate:
    """Whether a key and its colon come next."""
    at = skip_spaces(text, at)
    if at == len(text):
        return None
    if text[at] not in QUOTES:
        return _bare_key_at(text, at)
    end = quoted_end(text, at)
    if end <= len(text) and _UNCLOSED_KEY(text, at + 1, end - 1):  # `"key:"value"`
        return True
    return quoted_key_at(text, at)


def named_argument_ahead(text: str, at: int) -> Tristate:
    """Whether a word and `=` or `:` begin at `at`."""
    word = _WORD(text, at)
    return False if word is None else _colon_at(text, word.end())


def _after_comma(text: str, at: int) -> int:
    """Return the position of the text after a comma that comes next; -1 if something else does."""
    comma = skip_spaces(text, at)
    return -1 if comma < len(text) and text[comma] not in COMMAS else skip_spaces(text, comma + 1)


def key_after_comma(text: str, at: int) -> Tristate:
    """Whether a comma and a quoted key come next."""
    after = _after_comma(text, at)
    if after >= len(text):
        return None
    return after >= 0 and text[after] in QUOTES and quoted_key_at(text, after)


def value_after_comma(text: str, at: int) -> Tristate:
    """Whether a number, an object or an array follows the comma at `at`."""
    after = skip_spaces(text, at + 1)
    return None if after == len(text) else text[after].isdigit() or text[after] in "-{["


def closes_more(text: str, few: int, many: int) -> Tristate:
    """Whether the brackets of the text close `many` containers that are open before it, rather than only `few`."""
    if few == 0 and _value_ends(text, 0):
        return False
    closed = 0
    for token in _BRACKETS(text):
        bracket = token.group()
        closed += (bracket in CLOSERS) - (bracket in OPENERS)
        if closed == many:
            return True
        if closed == few and bracket in CLOSERS and _value_ends(text, token.end()):
            return False
    return None


def _value_ends(text: str, at: int) -> bool:
    """Whether the text at `at` cannot belong to the same value: neither a closing bracket nor a comma follows."""
    after = skip_spaces(text, at)
    return after < len(text) and text[after] not in CLOSERS and text[after] not in COMMAS


def array_after_comma(text: str, at: int) -> Tristate:
    """Whether a comma and another array follow the closing bracket at `at`."""
    after = _after_comma(text, at + 1)
    return None if after >= len(text) else after >= 0 and text[after] in "[［"


def delimiter_after_quote(text: str, at: int) -> Tristate:
    """Whether a comma or a closing bracket follows the quote at `at`."""
    after = skip_spaces(text, at + 1)
    return None if after == len(text) else text[after] in COMMAS or text[after] in CLOSERS
