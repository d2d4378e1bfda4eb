"""How many tokens a text takes, roughly and on the safe side: nobody here has the tokeniser of the model."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[A-Za-z]+")
_REST = re.compile(r"[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|\n+|[À-ɏ\U00010000-\U0010ffff]")
#: Common words of this length are mostly one token.
_WORD = 6


def estimate_tokens(text: str) -> int:
    """How many tokens the text takes at most, for ordinary text and the tokenisers of today's models.

    A word counts once for each six letters begun, as do three digits and two signs. Other scripts take up to
    three tokens for every four bytes that their characters have beyond the first; accents and emoji break words up.
    """
    words = _WORDS.findall(text)
    long = sum((len(word) - 1) // _WORD for word in words if len(word) > _WORD)
    wide = 0 if text.isascii() else -(-3 * (len(text.encode("utf-8", "replace")) - len(text)) // 4)
    return len(words) + long + len(_REST.findall(text)) + wide
