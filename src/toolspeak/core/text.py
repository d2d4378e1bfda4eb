"""Texts from outside as people may see them: nothing in them steers a terminal, a log or a document."""

from __future__ import annotations

#: Stands where something is that cannot be seen.
UNSEEN = "\ufffd"


def printable(text: str, instead: str | None = None, kept: str = "") -> str:
    """A text in which everything can be seen; what cannot is written out as its number, or is `instead`.

    `kept` are characters that stay all the same: the ends of lines, say.

    >>> print(printable("a\\x1b[2Jb"))
    a\\x1b[2Jb
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else _other(char, instead) for char in text)


def _other(char: str, instead: str | None) -> str:
    return char.encode("unicode_escape").decode() if instead is None else instead
