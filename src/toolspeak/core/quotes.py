"""Does this quote close the string, or did the model forget to escape it?

A quote inside a JSON string that a model wrote is ambiguous. In valid JSON only few things may follow a
closing quote; when something else follows, the quote belongs to the text. The rule never changes valid
JSON: every continuation that the grammar allows is taken as a close. It sees a window of at most
`LOOKAHEAD` characters and nothing else, so a reader that waits for the answer holds back a bounded tail
and the answer does not depend on how the text was cut into chunks.

Above: `lenient_json`. Below: nothing. Pure functions.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["LOOKAHEAD", "QUOTES", "Place", "closes"]

#: How far a decision may look. A key, its colon and the spaces around them fit; 256 keeps re-reading cheap.
LOOKAHEAD = 256

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

Place = Literal["key", "object", "array", "call", "root"]

_SPACE = frozenset(" \t\r\n\u00a0\u3000")
_COLON = ":=：＝"
_COMMA = ",，"
_CLOSERS = {"}": "}", "]": "]", ")": ")", "｝": "}", "］": "]", "）": ")"}
_WORD_EXTRA = "_$-"
_LITERALS = ("true", "false", "null", "True", "False", "None")
_LINE_ENDERS = ("```", "//", "/*")


def closes(buf: str, pos: int, final: bool, place: Place, parents: str, stops: tuple[str, ...]) -> bool | None:
    """Whether the quote just before `pos` closes its string; `None` when more text is needed to tell.

    `parents` holds the closers that the open containers wait for, innermost last; `stops` are marks that end
    the whole value wherever they stand.
    """
    if place == "root":
        return True
    window = buf[pos : pos + LOOKAHEAD]
    answer = _decide(window, place, parents, stops)
    if answer is None and (final or len(window) == LOOKAHEAD):
        return True
    return answer


def _decide(window: str, place: Place, parents: str, stops: tuple[str, ...]) -> bool | None:
    at = _skip(window, 0)
    if at == len(window):
        return None
    char = window[at]
    if char in "<[`/#":
        return _before_mark(window, at, stops)
    if place == "key":
        return char in _COLON or char in _COMMA or char in "}{[)" or (char in QUOTES and at > 0)
    if char in _CLOSERS:
        return _before_closer(window, at, place, parents)
    if char in _COMMA:
        return _before_comma(window, at + 1, place)
    if char in QUOTES:
        return at > 0 if place == "array" else _is_quoted_key(window, at)
    return False


def _skip(window: str, at: int) -> int:
    end = len(window)
    while at < end and window[at] in _SPACE:
        at += 1
    return at


def _before_mark(window: str, at: int, stops: tuple[str, ...]) -> bool | None:
    """The quote stands before the end of the block, a comment, or text that begins like one."""
    rest = window[at:]
    marks = (*stops, *_LINE_ENDERS)
    if rest.startswith(marks) or rest[0] == "#":
        return True
    return None if any(mark.startswith(rest) for mark in marks) else False


def _before_closer(window: str, at: int, place: Place, parents: str) -> bool | None:
    """Real when some open container waits for that closer and no text follows it."""
    if _CLOSERS[window[at]] not in parents:
        return False
    after = at + 1
    if after == len(window):
        return None
    if window[after] in QUOTES and window[after] != "`":
        return False
    if place != "call" and len(parents) == 1:
        return True
    after = _skip(window, after)
    return None if after == len(window) else not window[after].isalnum()


def _before_comma(window: str, at: int, place: Place) -> bool | None:
    """Real when a key (or, in an array, a value) follows."""
    at = _skip(window, at)
    if at == len(window):
        return None
    char = window[at]
    if char in _CLOSERS or char in "/#":
        return True
    if place == "array":
        return _is_value(window, at)
    if char in QUOTES:
        return _is_quoted_key(window, at)
    return _is_bare_key(window, at) if char.isalnum() or char in _WORD_EXTRA else False


def _is_value(window: str, at: int) -> bool | None:
    char = window[at]
    if char in QUOTES or char in "{[-(" or char.isdigit():
        return True
    rest = window[at : at + 5]
    if rest.startswith(_LITERALS):
        return True
    return None if any(literal.startswith(rest) for literal in _LITERALS) else False


def _is_quoted_key(window: str, at: int) -> bool | None:
    """Whether a quoted word and a colon stand at `at`."""
    ends = QUOTES[window[at]]
    at += 1
    while at < len(window) and window[at] not in ends:
        at += 1
    return _is_colon(window, at + 1)


def _is_bare_key(window: str, at: int) -> bool | None:
    """Whether a bare word and a colon stand at `at`, or a stray word before a quoted key."""
    end = at
    while end < len(window) and (window[end].isalnum() or window[end] in _WORD_EXTRA):
        end += 1
    after = _skip(window, end)
    if end < after < len(window) and window[after] in QUOTES:
        return _is_quoted_key(window, after)
    return _is_colon(window, end)


def _is_colon(window: str, at: int) -> bool | None:
    at = _skip(window, at)
    return None if at >= len(window) else window[at] in _COLON
