"""Finds triggers in a text: the strings without which an answer is no refusal.

There are thousands of them. An expression of that size takes a fifth of a second to compile, and the first answer
without a call would wait for it; a table of their first letters is there at once. The triggers themselves are kept in
`triggers.json`, which `refusals.triggers` writes and a test compares with the tables of phrases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

#: Stands in a trigger for the end of a word.
END = "\b"
#: Stands among the names of rules for the phrases of small talk.
SMALL_TALK = "small"
#: Letters by which triggers are looked up, for long ones and short ones: most texts share none of those of the long.
_HEADS = (6, 3, 1)
#: What stands where a word begins, behind anything that is no letter and no digit.
_WORD_HEADS = re.compile(f"[^a-z0-9](?=(.{{1,{_HEADS[0]}}}))", re.DOTALL).findall
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


class Triggers(msgspec.Struct, frozen=True):
    """Strings one of which must be there; and patterns that demand none, as they are."""

    words: frozenset[str]
    patterns: tuple[str, ...] = ()


class Hit(NamedTuple):
    """A trigger, or one that was found: without its mark for the end of a word, whether it had one, and its label."""

    word: str
    whole: bool
    label: str

    def stands_in(self, text: str, spaceless: bool) -> bool:
        """Whether it stands where a word may begin and, if it must be whole, where one may end."""
        word = self.word
        at = text.find(word)
        while at >= 0:
            after = text[at + len(word) : at + len(word) + 1]
            ends = not (self.whole and (after.isalnum() or after == "_"))
            if ends and (spaceless or (at > 0 and text[at - 1] not in _LETTERS)):
                return True
            at = text.find(word, at + 1)
        return False


class Finder:
    """Finds triggers that have labels: for each label, whether one of its triggers is there.

    >>> finder = Finder({"en": Triggers(frozenset({"i cannot\\b"})), "de": Triggers(frozenset({"kann"}))})
    >>> finder.found(" i cannot")
    {'en'}
    """

    def __init__(self, table: Mapping[str, Triggers], *, spaceless: bool = False) -> None:
        self.spaceless = spaceless
        heads: dict[int, dict[str, list[Hit]]] = {size: {} for size in _HEADS}
        for label, triggers in table.items():
            for trigger in triggers.words:
                word = trigger.removesuffix(END)
                size = next(size for size in _HEADS if size <= len(word))
                heads[size].setdefault(word[:size], []).append(Hit(word, word != trigger, label))
        self._heads = tuple(heads.items())
        self._patterns = [(_pattern(each.patterns, spaceless), label) for label, each in table.items() if each.patterns]

    def found(self, text: str) -> set[str]:
        """The labels whose triggers stand in the text, which is folded and begins with a space."""
        return {hit.label for hit in self.hits(text)}

    def hits(self, text: str) -> list[Hit]:
        """Every trigger that stands in the text; where a pattern matches, the empty one, which stands everywhere."""
        hits = [Hit("", False, label) for pattern, label in self._patterns if pattern.search(text)]
        # Every beginning of a word is looked up, not every trigger looked for: there are fewer of them.
        longest = _HEADS[0]
        begins = {text[at : at + longest] for at in range(len(text))} if self.spaceless else set(_WORD_HEADS(text))
        for size, heads in self._heads:
            shortened = begins if size == longest else {begin[:size] for begin in begins}
            for head in heads.keys() & shortened:
                hits += [hit for hit in heads[head] if hit.stands_in(text, self.spaceless)]
        return hits


def _pattern(patterns: Iterable[str], spaceless: bool) -> re.Pattern[str]:
    either = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re.compile(either if spaceless else f"[^a-z0-9](?:{either})")


@lru_cache(maxsize=1)
def stored_triggers() -> dict[str, Triggers]:
    """The triggers by language and the names of the rules that demand them: `en cannot_tell,not_working`."""
    from importlib.resources import files

    text = files("toolspeak.engine.refusals").joinpath("triggers.json").read_bytes()
    table = msgspec.json.decode(text, type=dict[str, list[str]])
    found: dict[str, Triggers] = {}
    for key, lines in table.items():
        label, _, kind = key.rpartition(" ")
        known = found.get(label, Triggers(frozenset()))
        if kind == "words":
            found[label] = Triggers(frozenset("|".join(lines).split("|")), known.patterns)
        else:
            found[label] = Triggers(known.words, tuple(lines))
    return found
