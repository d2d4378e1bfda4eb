"""While an answer is streamed, decide whether it may still turn out to be a refusal.

As long as it may, its beginning is held back. Each language lists openers: sequences of phrases, with filler allowed in
between. They are matched character by character, so a beginning that cannot match any opener is released at once.
"""

import re
from functools import lru_cache

import msgspec

from .answer_view import fold, view_in, view_of
from .tables import LANGUAGES, Language, language, phrases, spell_out

#: Maximum number of characters that are held back.
OPENING = 160
#: Lengths of prefixes that are checked first, and number of cached results. A prefix that cannot open a refusal settles
#: the matter; this applies to most answers, and most of these prefixes occur often.
_PREFIXES, _CACHED_PREFIXES = (4, 12), 4096
#: Characters that may separate two phrases.
_SEPARATORS = frozenset(" .!:")
#: The end of a sentence, whatever text follows.
_SENTENCE_END = re.compile(r"[.!?;](?=\s)|[。！？；।؟]|\n").finditer


def may_open_refusal(text: str) -> bool:
    """Return whether an answer that begins with this text may still turn out to be a refusal.

    Once false, the result stays false for every continuation. It is always false from `OPENING` characters on.

    >>> may_open_refusal("I'm sorry, but I don't have ac"), may_open_refusal("The weather")
    (True, False)
    """
    if len(text) >= OPENING:
        return False
    if not all(_prefix_may_continue(text[:size]) for size in _PREFIXES):
        return False
    return len(text) <= _PREFIXES[-1] or _may_continue(text)


def _may_continue(text: str) -> bool:
    return any(openers.may_continue(text) for openers in _openers())


_prefix_may_continue = lru_cache(maxsize=_CACHED_PREFIXES)(_may_continue)


@lru_cache(maxsize=1)
def _openers() -> "tuple[_Openers, ...]":
    return tuple(_Openers(language(name)) for name in LANGUAGES)


class _Trie(msgspec.Struct, eq=False):
    """A prefix tree of phrases, with one character per node."""

    children: "dict[str, _Trie]" = {}
    is_end: bool = False

    @classmethod
    def of(cls, pattern: str) -> "_Trie":
        """Build the trie of all phrases that a pattern of groups, `|` and `?` matches."""
        root = cls()
        for phrase in spell_out(pattern):
            node = root
            for char in phrase:
                node = node.children.setdefault(char, _Trie())
            node.is_end = True
        return root


class _State(msgspec.Struct, frozen=True):
    """A position inside a filler phrase, or inside phrase number `place` of an opener."""

    node: _Trie
    path: tuple[_Trie, ...]
    place: int
    is_filler: bool
    #: Whether no character of the phrase has been read yet.
    is_fresh: bool


class _Openers:
    """The openers of refusals in one language."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._filler = _Trie.of(language.filler)
        paths = [tuple(map(_Trie.of, path)) for path in language.openers]
        self._starts = [state for path in paths for state in self._states(path, 0)]

    def may_continue(self, text: str) -> bool:
        """Return whether a refusal in this language may begin with the text."""
        folded = self._language.respell(fold(text).replace("\n", " ").lstrip())
        at = self._complete_at(folded)
        if at is None:
            return False
        # Once an opener is complete, the text up to the end of its sentence decides.
        ends = (match.end() for match in _SENTENCE_END(text)) if at >= 0 else ()
        end = next((end for end in ends if len(fold(text[:end]).strip()) >= at), 0)
        return not end or self._refuses(text[:end])

    def _complete_at(self, folded: str) -> int | None:
        """Return the index at which an opener is complete, -1 if one still may be, or None if none can match."""
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
        """Return whether any rule matches. Topics are not checked, because the offered tools are unknown here."""
        words = phrases(self._language.name)
        head = view_in(view_of(text, ()), self._language).head
        return any(True for sentence in head for _ in words.matches(sentence))
