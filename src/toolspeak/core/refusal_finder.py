"""Finds triggers in a text: the strings without which an answer is no refusal.

There are thousands of them. An expression of that size takes a fifth of a second to compile, and the first answer
without a call would wait for it; a table of their first letters is there at once. The triggers themselves are kept in
`refusal_triggers.json`, which `refusal_triggers` writes and a test compares with the tables of phrases.
Above: `refusals`. Below: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec

__all__ = ["END", "Finder", "Triggers", "stored_triggers"]

#: Stands in a trigger for the end of a word.
END = "\b"
#: Letters by which triggers are looked up.
_HEAD = 4
_Row: TypeAlias = tuple[str, bool, str]
_NONE: tuple[tuple[str, ...], list[_Row]] = ((), [])
_WORD_STARTS = re.compile("[^a-z0-9]").finditer


class Triggers(msgspec.Struct, frozen=True):
    """Strings one of which must be there; and patterns that demand none, as they are."""

    words: frozenset[str]
    patterns: tuple[str, ...] = ()


class Finder:
    """Finds triggers that have labels: for each label, whether one of its triggers is there.

    >>> finder = Finder({"en": Triggers(frozenset({"i cannot\\b"})), "de": Triggers(frozenset({"kann"}))})
    >>> finder.found(" i cannot")
    {'en'}
    """

    def __init__(self, table: Mapping[str, Triggers], *, spaceless: bool = False) -> None:
        self._spaceless = spaceless
        heads: dict[int, dict[str, list[_Row]]] = {}
        for label, triggers in table.items():
            for trigger in triggers.words:
                word = trigger.removesuffix(END)
                size = min(len(word), _HEAD)
                heads.setdefault(size, {}).setdefault(word[:size], []).append((word, word != trigger, label))
        # Of those that begin alike, mostly none is there: one look at all of them tells.
        self._heads = tuple(
            (size, {head: (tuple({word for word, _, _ in rows}), rows) for head, rows in alike.items()})
            for size, alike in heads.items()
        )
        self._patterns = [(_pattern(each.patterns, spaceless), label) for label, each in table.items() if each.patterns]

    def found(self, text: str) -> set[str]:
        """The labels whose triggers stand in the text, which is folded and begins with a space."""
        found = {label for pattern, label in self._patterns if pattern.search(text)}
        starts = range(len(text)) if self._spaceless else (each.end() for each in _WORD_STARTS(text))
        for start in starts:
            for size, heads in self._heads:
                words, rows = heads.get(text[start : start + size], _NONE)
                if words and text.startswith(words, start):
                    found.update(label for word, whole, label in rows if _stands(text, start, word, whole))
        return found


def _stands(text: str, start: int, word: str, whole: bool) -> bool:
    after = text[start + len(word) : start + len(word) + 1]
    return text.startswith(word, start) and not (whole and (after.isalnum() or after == "_"))


def _pattern(patterns: Iterable[str], spaceless: bool) -> re.Pattern[str]:
    either = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re.compile(either if spaceless else f"[^a-z0-9](?:{either})")


@lru_cache(maxsize=1)
def stored_triggers() -> dict[str, Triggers]:
    """The triggers by language and kind: `en firm`, what a refusal holds; `en small`, what small talk holds."""
    from importlib.resources import files

    text = files("toolspeak.core").joinpath("refusal_triggers.json").read_bytes()
    table = msgspec.json.decode(text, type=dict[str, list[str]])
    return {
        label: Triggers(frozenset("|".join(lines).split("|")) - {""}, tuple(table[f"{label} patterns"]))
        for label, lines in (
            (key.removesuffix(" words"), lines) for key, lines in table.items() if key.endswith(" words")
        )
    }
