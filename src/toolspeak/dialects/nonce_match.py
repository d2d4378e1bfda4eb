"""Where a nonce stands behind a mark, and how models dress it: `k7`, `"k7"`, `(k7)`, `mark=k7`, `nonce: k7`.

A model copies the mark that it was shown, not always to the letter. The nonce itself must be right; what stands around
it may be anything of this. A word that stands in its place is a nonce that was miscopied: the call behind it does not
count, but it is a call that was meant. Pure functions.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: A nonce, its dress and its name fit in this.
MAX_SIGNATURE = 64
_NAME = r"(?:(?:mark|nonce)\b(?:[ \t]{0,2}[:=])?[ \t]{0,2})?+"
_BEFORE, _AFTER = r"[\"'“”‘’`(\[{<#*]{0,2}+", r"[\"'“”‘’`)\]}>*:,.]{0,2}+"
#: Brackets that a call may begin with are no dress of a word that nobody knows.
_WORD = re.compile(rf"{_NAME}[\"'“”‘’`(#*]{{0,2}}+([\w-]{{1,32}}+){_AFTER}[ \t\n]{{1,8}}+(?=[^\s:=])").match


@lru_cache(maxsize=64)
def _pattern(nonce: str) -> re.Pattern[str]:
    return re.compile(rf"{_NAME}{_BEFORE}{re.escape(nonce)}(?!\w){_AFTER}")


def behind_nonce(text: str, at: int, nonce: str) -> int:
    """Behind the nonce at `at` and what it is dressed in; -1 when it does not stand there."""
    found = _pattern(nonce).match(text, at)
    return -1 if found is None else found.end()


def is_nonce(text: str, nonce: str) -> bool:
    """Whether the text is the nonce, dressed or not, and nothing else."""
    return _pattern(nonce).fullmatch(text) is not None


def behind_word(text: str, at: int) -> tuple[str, int] | None:
    """The word that stands where a nonce should, and where what follows it begins; None when none does."""
    found = _WORD(text, at)
    return None if found is None else (found[1], found.end())
