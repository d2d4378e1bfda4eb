"""What stands ahead: questions about the next few characters of tolerant JSON.

Each question sees a window of at most `LOOKAHEAD` characters and answers yes, no, or `None` for "the window
ends before I can tell". An answer, once given, never changes when the window grows; that is why a chunk
boundary cannot change what is read. Pure functions.
"""

from __future__ import annotations

import re

#: How far a decision may look. A key, its colon and the spaces around them fit; 256 keeps re-reading cheap.
LOOKAHEAD = 256

Answer = bool | None

#: Every character that may open a string, with the characters that may close what it opens.
QUOTES = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": '”“"',
    "”": '”“"',
    "„": '”“"',
    "‘": "’‘'",
    "’": "’‘'",
    "＂": '＂"',
    "＇": "＇'",
}
OPENERS = {"{": "}", "[": "]", "(": ")", "｛": "}", "［": "]", "（": ")"}
CLOSERS = {"}": "}", "]": "]", ")": ")", "｝": "}", "］": "]", "）": ")"}
COMMAS = ",，;；"
COLONS = ":=：＝"
COMMENTS = ("//", "/*", "#")
#: What stands before a key where keys are flags: `--key "value"`.
FLAG = ("--",)

_LITERALS = ("true", "false", "null", "True", "False", "None")
_SPACES = re.compile(r"[\s\ufeff]*").match
_WORD = re.compile(r"[\w$.@-]+").match
#: Words that stray before a key; more than a few are text.
_STRAY_WORDS = re.compile(r"[\w$.@-][\w$.@ \t-]{0,62}").match
_LOST_QUOTE = re.compile(r"\w+\s*[:：]").fullmatch
#: A quoted text up to its closing quote; what a backslash hides does not close.
_QUOTED = {quote: re.compile(rf"(?:[^\\{ends}]|\\.)*", re.DOTALL).match for quote, ends in QUOTES.items()}


def skip(text: str, at: int) -> int:
    """The position of the first character at or behind `at` that is no space."""
    spaces = _SPACES(text, at)
    assert spaces is not None  # the pattern matches nothing, too
    return spaces.end()


def begins(text: str, at: int, marks: tuple[str, ...]) -> Answer:
    """Whether one of `marks` stands at `at`."""
    if text.startswith(marks, at):
        return True
    left = len(text) - at
    for mark in marks:
        if left < len(mark) and mark.startswith(text[at:]):
            return None
    return False


def begins_value(text: str, at: int) -> Answer:
    """Whether a value that JSON knows begins at `at`."""
    if at == len(text):
        return None
    char = text[at]
    if char in QUOTES or char in "{[(-" or char.isdigit():
        return True
    return begins(text, at, _LITERALS)


def quoted_key_at(text: str, at: int) -> Answer:
    """Whether a quoted text and a colon stand at `at`, where a quote is. The quotes may be doubled."""
    quote = text[at]
    if text.startswith(quote, at + 1) and text[at + 2 : at + 3].isalnum():
        at += 1
    end = quoted_end(text, at)
    return _colon_at(text, end + text.startswith(quote, end))


def quoted_end(text: str, at: int) -> int:
    """The position behind the quoted text at `at`; one beyond the end of `text` when it does not end there."""
    quoted = _QUOTED[text[at]](text, at + 1)
    assert quoted is not None  # the pattern matches nothing, too
    end = quoted.end()
    return end + 1 if end < len(text) and text[end] != "\\" else len(text) + 1


def quoted_colon(text: str, at: int) -> Answer:
    """Whether the quote at `at` is one too many: a colon follows it."""
    return _colon_at(text, at + 1)


def _colon_at(text: str, at: int) -> Answer:
    at = skip(text, at)
    return None if at >= len(text) else text[at] in COLONS


def _bare_key_at(text: str, at: int) -> Answer:
    """Whether a word and a colon stand at `at`, perhaps with a quote at its end only; or stray words before a
    quoted key."""
    word = _WORD(text, at)
    words = _STRAY_WORDS(text, at)
    if word is None or words is None:
        return False
    end = word.end()
    if text[end : end + 1] in QUOTES:
        return quoted_colon(text, end)
    after = skip(text, words.end())
    if after < len(text) and text[after] in QUOTES:
        return quoted_key_at(text, after)
    return _colon_at(text, end) if after < len(text) else None


def key_ahead(text: str, at: int) -> Answer:
    """Whether a key and its colon come next."""
    at = skip(text, at)
    if at == len(text):
        return None
    if text[at] not in QUOTES:
        return _bare_key_at(text, at)
    end = quoted_end(text, at)
    if end <= len(text) and _LOST_QUOTE(text, at + 1, end - 1):  # `"key:"value"`
        return True
    return quoted_key_at(text, at)


def named_argument_ahead(text: str, at: int) -> Answer:
    """Whether a word and `=` or `:` stand at `at`."""
    word = _WORD(text, at)
    return False if word is None else _colon_at(text, word.end())


def key_behind_comma(text: str, at: int) -> Answer:
    """Whether a comma and a quoted key come next."""
    after = skip(text, at)
    if after == len(text):
        return None
    if text[after] not in COMMAS:
        return False
    after = skip(text, after + 1)
    if after == len(text):
        return None
    return text[after] in QUOTES and quoted_key_at(text, after)


def number_behind_comma(text: str, at: int) -> Answer:
    """Whether a number stands behind the comma at `at`."""
    after = skip(text, at + 1)
    return None if after == len(text) else text[after].isdigit() or text[after] == "-"


def array_behind_comma(text: str, at: int) -> Answer:
    """Whether a comma and another array follow the closer at `at`."""
    after = skip(text, at + 1)
    if after == len(text):
        return None
    if text[after] not in COMMAS:
        return False
    after = skip(text, after + 1)
    return None if after == len(text) else text[after] in "[［"


def delimiter_behind_quote(text: str, at: int) -> Answer:
    """Whether a comma or a closer follows the quote at `at`."""
    after = skip(text, at + 1)
    return None if after == len(text) else text[after] in COMMAS or text[after] in CLOSERS
