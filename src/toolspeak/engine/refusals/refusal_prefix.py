"""Streaming: decide whether the beginning of an answer may still turn out to be a refusal.

The beginning is held back for as long as it may. The openers of each language are sequences of phrases with filler
between them; they are followed character by character, so a beginning that fits none is released at once.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from .answer_view import fold, respell, view_of
from .tables import LANGUAGES, Language, language, phrases, spell_out

#: The longest opening that is held back.
OPENING = 160
#: Prefix lengths that are decided first, and how many such prefixes are cached. A decision for release is final, so
#: these few characters decide most answers, and most have occurred before.
_PREFIXES, _CACHED_PREFIXES = (4, 12), 4096
#: Characters that may separate two phrases.
_SEPARATORS = frozenset(" .!:")
#: The end of a sentence that no continuation can undo.
_SENTENCE_END = re.compile(r"[.!?;](?=\s)|[。！？；]|\n").finditer


def may_open_refusal(text: str) -> bool:
    """Return whether an answer that begins with this text may still turn out to be a refusal.

    Once false, it stays false however the text continues; from `OPENING` characters on it is always false.

    >>> may_open_refusal("I'm sorry, but I don't have ac"), may_open_refusal("The weather")
    (True, False)
    """
    if len(text) >= OPENING:
        return False
    if not all(_prefix_may_continue(text[:size]) for size in _PREFIXES):
        return False
    return len(text) <= _PREFIXES[-1] or _may_continue(text)


@lru_cache(maxsize=_CACHED_PREFIXES)
def _prefix_may_continue(prefix: str) -> bool:
    return _may_continue(prefix)


def _may_continue(text: str) -> bool:
    return any(openers.may_continue(text) for openers in _openers())


@lru_cache(maxsize=1)
def _openers() -> tuple[_Openers, ...]:
    return tuple(_Openers(language(name)) for name in LANGUAGES)


class _Trie:
    """Phrases, one character per node."""

    __slots__ = ("children", "is_end")

    def __init__(self) -> None:
        self.children: dict[str, _Trie] = {}
        self.is_end = False

    @classmethod
    def of(cls, pattern: str) -> _Trie:
        """Build the trie of all phrases that a pattern of groups, `|` and `?` matches."""
        root = cls()
        for phrase in spell_out(pattern):
            node = root
            for char in phrase:
                node = node.children.setdefault(char, _Trie())
            node.is_end = True
        return root


class _State(msgspec.Struct, frozen=True):
    """A position inside a phrase: of filler, or of the opener's phrase number `place`."""

    node: _Trie
    path: tuple[_Trie, ...]
    place: int
    is_filler: bool
    #: Nothing of the phrase has been read yet.
    is_fresh: bool


class _Openers:
    """The ways in which refusals of one language open."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._filler = _Trie.of(language.filler)
        paths = [tuple(map(_Trie.of, path)) for path in language.openers]
        self._starts = [state for path in paths for state in self._states(path, 0)]

    def may_continue(self, text: str) -> bool:
        """Return whether a refusal of this language may begin with the text."""
        folded = self._language.respell(fold(text).replace("\n", " ").lstrip())
        at = self._complete_at(folded)
        if at is None:
            return False
        # The first sentence that ends after a complete opener decides, whatever follows.
        ends = (match.end() for match in _SENTENCE_END(text)) if at >= 0 else ()
        end = next((end for end in ends if len(fold(text[:end]).strip()) >= at), 0)
        return not end or self._refuses(text[:end])

    def _complete_at(self, folded: str) -> int | None:
        """Return where an opener is complete; -1 if one may still come, None if none can."""
        states = self._starts
        for at, char in enumerate(folded):
            moved = [
                msgspec.structs.replace(state, node=state.node.children[char], is_fresh=False)
                for state in states
                if char in state.node.children
            ]
            ended = [state for state in moved if state.node.is_end]
            if any(state.place + 1 == len(state.path) for state in ended if not state.is_filler):
                return at + 1
            waiting = [state for state in states if state.is_fresh] if char in _SEPARATORS else []
            started = [new for state in ended for new in self._states(state.path, state.place + (not state.is_filler))]
            states = moved + waiting + started
            if not states:
                return None
        return -1

    def _states(self, path: tuple[_Trie, ...], place: int) -> tuple[_State, _State]:
        return _State(path[place], path, place, False, True), _State(self._filler, path, place, True, True)

    def _refuses(self, text: str) -> bool:
        """Return whether some rule matches. The offered tools are not known here, so topics are not checked."""
        words = phrases(self._language.name)
        head = respell(view_of(text, ()), self._language).head
        return any(True for sentence in head for _ in words.matches(sentence))
