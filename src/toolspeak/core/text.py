"""Text helpers: make untrusted text printable, estimate its number of tokens."""

from __future__ import annotations

import re

#: The Unicode replacement character.
REPLACEMENT = "\ufffd"

_WORDS = re.compile(r"[A-Za-z]+")
_REST = re.compile(r"[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|\n+|[À-ɏ\U00010000-\U0010ffff]")
#: Most common words up to this length are one token.
_LETTERS_PER_TOKEN = 6


def printable(text: str, replacement: str | None = None, keep: str = "") -> str:
    """Make text safe for a terminal or a log: escape or replace characters that are not printable.

    `keep` lists characters that stay unchanged, such as line breaks.

    >>> print(printable("a\\x1b[2Jb"))
    a\\x1b[2Jb
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _escape(char, replacement) for char in text)


def _escape(char: str, replacement: str | None) -> str:
    return char.encode("unicode_escape").decode() if replacement is None else replacement


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens, on the high side: the model's tokeniser is not available.

    One token per six letters of a word, three digits or two punctuation marks. Other scripts take up to three tokens
    for every four bytes that their characters have beyond the first; accents and emoji split words.
    """
    words = _WORDS.findall(text)
    long = sum((len(word) - 1) // _LETTERS_PER_TOKEN for word in words if len(word) > _LETTERS_PER_TOKEN)
    wide = 0 if text.isascii() else -(-3 * (len(text.encode("utf-8", "replace")) - len(text)) // 4)
    return len(words) + long + len(_REST.findall(text)) + wide
