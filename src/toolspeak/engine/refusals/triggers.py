"""What a text must hold before a pattern of the tables can match it: one quick search that never misses.

A pattern is read once and yields its triggers: strings one of which stands in whatever it matches. Of all the sets of
strings that a pattern demands, the one that ordinary texts hold least often is taken. Reading all patterns takes longer
than a turn may wait, so what they demand is kept in a file, written by `stored`; `refusals.finder` searches for it.

The notation is that of `refusals.words`. What is not understood here demands nothing; a pattern that demands nothing,
or only what every text holds, is its own trigger.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from itertools import product
from types import MappingProxyType

import msgspec

from .answer_view import NAME
from .finder import END as _END
from .finder import SMALL_TALK, Triggers
from .tables import Language

#: Alternatives that are spelled out before a pattern is cut into parts. More would make the expression slow.
MAX_SPELLED = 200
#: Beyond this many characters a trigger is as rare as it need be; then fewer triggers are better.
RARE = 6
#: A trigger that weighs less is an everyday word. A pattern that begins with a set of characters is then its own
#: trigger: searching for that is quick as well.
EVERYDAY, _SET = 3, "["
#: How much a word that every text holds adds to a phrase.
_COMMON_WEIGHT = 1
#: Characters in a line of the file.
_LINE = 100

_Strings = frozenset[str]
_NOTHING: _Strings = frozenset({""})
_GROUP = re.compile(r"\?(?::|P<\w+>|(<?[=!]))")
_REPEAT = re.compile(r"[?*+]|\{(\d+)(?:,\d*)?\}")
_LETTER = re.compile(r"\w$").search
_WORD_REST = re.compile(f"^[^ {_END}]*").sub
_TIMES = {"?": 0, "*": 0, "+": 1}


class _Part(msgspec.Struct, frozen=True):
    """What is known of one part of a pattern."""

    #: All that it matches; None when that is too much to say.
    spelled: _Strings | None = None
    #: Strings one of which stands in whatever it matches; None when it demands nothing.
    demands: _Strings | None = None
    #: What follows it begins a word, if it matched something; and if it did not, but began where a word begins.
    closes: bool = False
    #: It may match nothing.
    empty: bool = False
    #: What follows begins a word in any case.
    edge: bool = False


_HERE = _Part(spelled=_NOTHING, closes=True, empty=True)
_EDGE = _Part(spelled=frozenset({_END}), closes=True, empty=True, edge=True)
_SOMETHING = _Part()
_GAP = _Part(empty=True)


class _Pattern:
    """Reads one pattern."""

    def __init__(self, pattern: str, reader: TriggerReader) -> None:
        self._pattern = pattern
        self._reader = reader
        self._spaceless = reader.spaceless
        self._at = 0

    def triggers(self) -> Triggers:
        """What the alternatives of the pattern demand."""
        words: set[str] = set()
        raw: list[str] = []
        while self._at < len(self._pattern):
            start = self._at
            demands = self._sequence(top=True).demands
            source = self._pattern[start : self._at]
            if demands is None or (source.startswith(_SET) and self._reader.rarity(demands)[0] < EVERYDAY):
                raw.append(source)
            else:
                words |= demands
            self._at += 1
        return Triggers(frozenset(words), tuple(raw))

    def part(self) -> _Part:
        """The whole pattern as a part of another."""
        return self._choice()

    # ---- the notation

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _choice(self) -> _Part:
        branches = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            branches.append(self._sequence())
        spelled = _union(branch.spelled for branch in branches)
        return _Part(
            spelled if spelled is not None and len(spelled) <= MAX_SPELLED else None,
            _union(branch.demands for branch in branches),
            all(branch.closes for branch in branches),
            any(branch.empty for branch in branches),
        )

    def _sequence(self, top: bool = False) -> _Part:
        run = _Run(self._reader)
        while self._next() not in ("", "|", ")"):
            run.add(self._repeated())
        if top and not self._spaceless:
            run.add(_EDGE)  # a whole match ends with a word
        return run.whole()

    def _repeated(self) -> _Part:
        part = self._atom()
        found = _REPEAT.match(self._pattern, self._at)
        if found is None:
            return part
        self._at = found.end() + (self._pattern[found.end() : found.end() + 1] in ("?", "+"))
        least = int(found[1]) if found[1] else _TIMES[found[0]]
        spelled = part.spelled | _NOTHING if found[0] == "?" and part.spelled is not None else None
        return _Part(spelled, part.demands if least else None, part.closes, part.empty or not least)

    def _atom(self) -> _Part:
        char = self._next()
        self._at += 1
        match char:
            case "(":
                return self._group()
            case "{":
                return self._slot()
            case "[":
                return self._set()
            case "\\":
                return self._escaped()
            case "." | "_":  # what is quoted is set as `_`, and a text may hold it as well
                return _SOMETHING
            case "^" if not self._spaceless:
                return _EDGE
            case "^" | "$":
                return _HERE
            case _:
                return self._literal(char)

    def _literal(self, char: str) -> _Part:
        return _Part(frozenset({char}), closes=char == " ")

    def _group(self) -> _Part:
        kind = _GROUP.match(self._pattern, self._at)
        self._at = kind.end() if kind else self._at
        part = self._choice()
        self._at += 1
        return _HERE if kind and kind[1] else part

    def _slot(self) -> _Part:
        end = self._pattern.index("}", self._at)
        name = self._pattern[self._at : end]
        self._at = end + 1
        return _GAP if name.startswith("~") else self._reader.slot(name)

    def _set(self) -> _Part:
        end = self._pattern.index("]", self._at)
        chars = self._pattern[self._at : end]
        self._at = end + 1
        return _Part(frozenset(chars)) if chars.isalpha() else _SOMETHING

    def _escaped(self) -> _Part:
        char = self._next()
        self._at += 1
        if char == "b":
            return _HERE if self._spaceless else _EDGE
        return _SOMETHING if char.isalpha() else self._literal(char)


def _union(sets: Iterable[_Strings | None]) -> _Strings | None:
    found: set[str] = set()
    for each in sets:
        if each is None:
            return None
        found |= each
    return frozenset(found)


class _Run:
    """Parts that follow each other: strings are put together while there are few, then what they demand is weighed."""

    def __init__(self, reader: TriggerReader) -> None:
        self._reader = reader
        self._strings = _NOTHING
        self._whole = True
        self._starts_word = self._at_word = True
        self._empty = True
        self._best: _Strings | None = None

    def add(self, part: _Part) -> None:
        """Put a part behind the others."""
        before = self._at_word
        self._at_word = part.edge or (part.closes and (before or not part.empty))
        self._empty = self._empty and part.empty
        if part.spelled is not None and len(self._strings) * len(part.spelled) <= MAX_SPELLED:
            self._strings = frozenset(map("".join, product(self._strings, part.spelled)))
            return
        self._weigh(self._demanded())
        # A part knows nothing of what stands before it: perhaps the beginning of its first word.
        self._weigh(part.demands if before or part.demands is None else self._triggers(part.demands, False))
        self._whole = False
        self._strings, self._starts_word = (_NOTHING, self._at_word) if part.spelled is None else (part.spelled, before)

    def whole(self) -> _Part:
        """All parts as one."""
        self._weigh(self._demanded())
        return _Part(self._strings if self._whole else None, self._best, self._at_word, self._empty)

    def _weigh(self, demanded: _Strings | None) -> None:
        if demanded is not None and (
            self._best is None or self._reader.rarity(demanded) > self._reader.rarity(self._best)
        ):
            self._best = demanded

    def _demanded(self) -> _Strings | None:
        return self._triggers(self._strings, self._starts_word)

    def _triggers(self, strings: _Strings, at_word: bool) -> _Strings | None:
        """The strings as triggers: each from the beginning of a word, where words are told apart."""
        found: set[str] = set()
        for string in strings:
            if NAME in string:
                continue  # whoever searches has looked for names of tools already
            trigger = string if self._reader.spaceless else _from_word(string, at_word)
            if not trigger:
                return None
            found.add(trigger)
        return frozenset(found)


def _from_word(string: str, at_word: bool) -> str:
    """The string from where a word begins for sure."""
    if not at_word:
        string = _WORD_REST("", string)
    # Spaces at the end may be those that are set around what is quoted: only the end of the word is sure.
    words = string.strip(f" {_END}")
    ended = string[-1:] in (" ", _END) and _LETTER(words)
    return words.replace(_END, "") + (_END if ended else "")


class TriggerReader:
    """Reads the patterns of one language.

    >>> reader = TriggerReader({"cannot": "cannot|can't"})
    >>> sorted(reader.triggers(r"i {cannot} (\\w+ )?(use|call) tools?").words)
    ["i can't\\x08", 'i cannot\\x08']
    """

    def __init__(self, slots: Mapping[str, str], common: frozenset[str] = frozenset(), spaceless: bool = False) -> None:
        self.spaceless = spaceless
        self._slots = slots
        self._common = common
        self._parts: dict[str, _Part] = {}

    def triggers(self, pattern: str) -> Triggers:
        """What this pattern demands of a text."""
        return _Pattern(pattern, self).triggers()

    def slot(self, name: str) -> _Part:
        """A slot as a part of a pattern; most are used by many, so each is read once."""
        if name not in self._parts:
            self._parts[name] = _Pattern(self._slots[name], self).part()
        return self._parts[name]

    def rarity(self, strings: _Strings) -> tuple[int, int]:
        """How seldom a text holds any of these strings; fewer of them are better."""
        return min([RARE, *map(self._weight, strings)]), -len(strings)

    def _weight(self, string: str) -> int:
        words = string.removesuffix(_END).split(" ")
        return sum(_COMMON_WEIGHT * (len(words) > 1) if word in self._common else len(word) for word in words)


# ------------------------------------------------------------------------------------- those of a language

#: Beside the rules: the slots without which nothing is declined, announced or asked.
_FIRM = ("decline", "brief")
_SMALL_TALK = ("ask", "offer", "ability", "intend", "progress", "wait")
_PLAIN_WORDS = re.compile(r"[\w']+").findall
_SLOT = re.compile(r"\{(~?)(\w+)\}")


def filled(pattern: str, slots: Mapping[str, str], marks: Mapping[str, str] = MappingProxyType({})) -> str:
    """The pattern with its slots filled in, some of them by a mark; `{2,3}` and the like are no slots."""

    def slot(found: re.Match[str]) -> str:
        gap, name = found.groups()
        if gap:
            return f".{{0,{name}}}?"
        return marks.get(name) or (filled(f"({slots[name]})", slots, marks) if name in slots else found[0])

    return _SLOT.sub(slot, pattern)


def demands(language: Language, spaceless: bool) -> dict[str, Triggers]:
    """What a text must hold before each rule can match, or a slot without which it is an answer; and small talk."""
    slots = language.slots
    reader = TriggerReader(slots, frozenset(_PLAIN_WORDS(slots["common"])), spaceless)
    patterns = {name: [slots[name]] for name in _FIRM}
    patterns |= {rule.name: [rule.pattern] for rule in language.rules}
    patterns[SMALL_TALK] = [slots[name] for name in _SMALL_TALK]
    return {name: _together((reader.triggers(each) for each in listed), slots) for name, listed in patterns.items()}


def _together(triggers: Iterable[Triggers], slots: Mapping[str, str]) -> Triggers:
    """All in one, without those that begin like another."""
    words: list[str] = []
    patterns: dict[str, None] = {}
    triggers = tuple(triggers)
    for word in sorted({word for each in triggers for word in each.words}):
        if not words or not word.startswith(words[-1]):
            words.append(word)
    for each in triggers:
        patterns.update(dict.fromkeys(filled(pattern, slots) for pattern in each.patterns))
    return Triggers(frozenset(words), tuple(patterns))


def stored(languages: Iterable[Language], spaceless: Container[str]) -> str:
    """The triggers of the languages as the file that `refusals.finder` reads: each once, with all that demand it."""
    table: dict[str, list[str]] = {}
    for language in languages:
        found = demands(language, language.name in spaceless)
        words = sorted({word for triggers in found.values() for word in triggers.words})
        groups: dict[str, list[str]] = {}
        for word in words:
            names = ",".join(name for name, triggers in found.items() if word in triggers.words)
            groups.setdefault(names, []).append(word)
        for names, group in groups.items():
            table[f"{language.name} {names} words"] = _lines(group)
        for name, triggers in found.items():
            if triggers.patterns:
                table[f"{language.name} {name} patterns"] = list(triggers.patterns)
    return msgspec.json.format(msgspec.json.encode(table), indent=1).decode() + "\n"


def _lines(words: Iterable[str]) -> list[str]:
    """The words in lines, for whoever looks at what has changed."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > _LINE:
            lines.append("")
        lines[-1] += f"|{word}" if lines[-1] else word
    return lines
