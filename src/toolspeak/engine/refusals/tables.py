r"""Refusal phrases as data: the notation of the tables, their loader and their compiled patterns.

Each language has a file in `languages/`. Slots are named lists of phrases; rules combine slots. Both are regular
expressions with these extensions:

- `{slot}` stands for the phrases of that slot, `{~20}` for up to twenty arbitrary characters.
- Groups do not capture. Line breaks, and spaces next to them, are ignored.
- If the language separates words by spaces, a pattern matches only whole words.
- `⌘` matches the name of an offered tool, `_` a quotation.

Texts are folded before they are matched (`answer_view.fold`): lower case, no accents, commas or hyphens, straight
apostrophes. The tables must use the same spelling: `que dia?` for `¿Qué día?`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from .. import read_toml

Matcher: TypeAlias = re.Pattern[str]
#: The supported languages, in the order in which they are tried if a text may be in several of them.
LANGUAGES = ("en", "de", "fr", "es", "zh", "ja", "pt", "it", "nl", "pl", "tr", "ru", "ar", "ko", "hi")

#: Stands for all languages without a table.
OTHER = "other"

#: Placeholders in the view of an answer: for the name of an offered tool, and for a quotation.
NAME, QUOTE = "⌘", "_"

#: A further condition for a sentence that matches a rule; `rules.toml` explains them.
Need = Literal["nothing", "unless_other", "object", "topic", "self", "part", "part_here"]
RuleCategory = Literal["no_tools", "cannot_access"]


class _RuleRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all languages share of a rule. `rules.toml` explains the fields."""

    category: RuleCategory
    need: Need
    denies_tools: bool = False
    spaced: str = ""
    unspaced: str = ""


_RULES = read_toml("refusals/rules.toml", dict[str, _RuleRow])
#: Rules for sentences in which a model denies having any tools.
DENIES_TOOLS = frozenset(name for name, row in _RULES.items() if row.denies_tools)


class Rule(msgspec.Struct, frozen=True):
    """One way to refuse: a pattern, the category it indicates, and a further condition for the sentence."""

    name: str
    category: RuleCategory
    need: Need
    pattern: str


class _LanguageFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    spaces: bool
    filler: str
    openers: list[list[str]]
    slots: dict[str, str]
    rules: dict[str, str]
    topics: dict[str, str] = {}
    variants: str = ""
    standard: str = ""


class Language(msgspec.Struct, frozen=True):
    """The phrases of one language."""

    name: str
    #: Whether words are separated by spaces.
    spaces: bool
    slots: dict[str, str]
    rules: tuple[Rule, ...]
    #: Phrases that may occur anywhere in the opening of a refusal and have no meaning for the decision.
    filler: str
    #: Openings of refusals, each a sequence of phrases. These patterns contain only groups, `|` and `?`.
    openers: tuple[tuple[str, ...], ...]
    #: Character replacements before matching, for example of traditional by simplified Chinese characters.
    spelling: dict[int, str]
    #: Words for the topics of `topics.toml`, in addition to those that all languages share.
    topics: dict[str, str]

    def respell(self, folded: str) -> str:
        """Convert a folded text to the spelling of the tables, character by character."""
        return folded.translate(self.spelling) if self.spelling else folded


@lru_cache(maxsize=len(LANGUAGES))
def language(name: str) -> Language:
    """Load the phrases of a language."""
    source = read_toml(f"refusals/languages/{name}.toml", _LanguageFile)
    composed = {rule: row.spaced if source.spaces else row.unspaced for rule, row in _RULES.items() if row.spaced}
    rules = [(rule, _RULES[rule], pattern) for rule, pattern in {**source.rules, **composed}.items()]
    return Language(
        name,
        source.spaces,
        {slot: _one_line(phrases) for slot, phrases in source.slots.items()},
        tuple(Rule(rule, row.category, row.need, _one_line(pattern)) for rule, row, pattern in rules),
        _one_line(source.filler),
        tuple(tuple(map(_one_line, path)) for path in source.openers),
        {ord(old): new for old, new in zip(source.variants, source.standard, strict=True)},
        source.topics,
    )


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subject that tools deal with, such as files or weather. `topics.toml` explains the fields."""

    names: str
    words: str
    remote: bool = False
    wide_names: str = ""
    covers: frozenset[str] = frozenset()


@lru_cache(maxsize=1)
def topics() -> dict[str, Topic]:
    """Load the topics, by name."""
    return read_toml("refusals/topics.toml", dict[str, Topic])


@lru_cache(maxsize=2 + len(LANGUAGES))
def topic_patterns(name: str = "") -> tuple[tuple[str, Matcher], ...]:
    """Compile the patterns that find topics in a folded sentence: the shared ones, and those of a language."""
    if name == OTHER:
        words = read_toml("refusals/other_topics.toml", dict[str, str])
    else:
        words = language(name).topics if name else {topic: entry.words for topic, entry in topics().items()}
    own = tuple(
        (topic, re.compile(rf"(?<![a-z0-9_])(?:{_one_line(pattern)})(?![a-z0-9_])")) for topic, pattern in words.items()
    )
    return topic_patterns() + own if name else own


def _one_line(pattern: str) -> str:
    return "".join(line.strip() for line in pattern.splitlines()) if "\n" in pattern else pattern


_PLAIN_GROUP = re.compile(r"(?<!\\)\((?!\?)").sub
_SLOT = re.compile(r"\{(~?)(\w+)\}")
#: Pattern that never matches, for slots that a language does not define.
_NEVER = "(?!)"
#: Slots that most rules begin with, and their placeholders. Their phrases are replaced in the sentence by a letter that
#: no text contains, and the rules search for that letter. So the many phrases are compiled once, not once per rule.
_MARKS = {"cannot": "ǂ", "have_no": "ǁ"}


class Phrases:
    """The phrases of one language as patterns, each compiled when it is first used."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._marks = {slot: mark for slot, mark in _MARKS.items() if slot in language.slots}
        self._slots: dict[str, Matcher] = {}
        self._rules: dict[str, tuple[Matcher, tuple[str, ...]]] = {}

    def slot(self, name: str) -> Matcher:
        """Return the pattern of a slot."""
        if name not in self._slots:
            self._slots[name] = self._compile(self._fill(self.language.slots.get(name, _NEVER)))
        return self._slots[name]

    def has(self, slot: str, *sentences: str) -> bool:
        """Return whether one of the sentences contains a phrase of the slot."""
        search = (self._slots.get(slot) or self.slot(slot)).search
        for sentence in sentences:  # noqa: SIM110 - a loop takes half the time of `any`, for every slot of every answer
            if search(sentence):
                return True
        return False

    def has_any(self, slots: tuple[str, ...], *sentences: str) -> bool:
        """Return whether one of the sentences contains a phrase of one of the slots."""
        return any(self.has(slot, *sentences) for slot in slots)

    def begins(self, slots: tuple[str, ...], sentence: str) -> bool:
        """Return whether the sentence begins with a phrase of one of the slots."""
        for slot in slots:  # noqa: SIM110 - as in `has`
            if (self._slots.get(slot) or self.slot(slot)).match(sentence):
                return True
        return False

    def asks(self, sentence: str) -> bool:
        """Return whether the sentence is a question; some languages need no question mark."""
        return sentence.endswith("?") or ("question" in self.language.slots and self.has("question", sentence))

    def matches(self, sentence: str) -> Iterator[tuple[Rule, re.Match[str]]]:
        """Yield the rules that match the sentence. In `match.string`, placeholders may replace phrases."""
        if not self._may_match(sentence):
            return
        views = {slot: self.slot(slot).sub(mark, sentence) for slot, mark in self._marks.items()}
        views = {slot: view for slot, view in views.items() if view != sentence}
        for rule in self.language.rules:
            pattern, slots = self._rules.get(rule.name) or self._compile_rule(rule)
            match = None
            if views:
                match = next(filter(None, (pattern.search(views[slot]) for slot in slots if slot in views)), None)
            match = match or pattern.search(sentence)
            if match is not None:
                yield rule, match

    def _may_match(self, sentence: str) -> bool:
        """Return whether any rule may match. This quick check spares most sentences the slower rules."""
        return NAME in sentence or "signs" not in self.language.slots or self.has("signs", sentence)

    def _compile_rule(self, rule: Rule) -> tuple[Matcher, tuple[str, ...]]:
        pattern = self._fill(rule.pattern, self._marks)
        slots = tuple(slot for slot, mark in self._marks.items() if mark in pattern)
        self._rules[rule.name] = self._compile(pattern), slots
        return self._rules[rule.name]

    def _compile(self, pattern: str) -> Matcher:
        pattern = _PLAIN_GROUP("(?:", pattern)
        return re.compile(rf"(?<![\w'])(?:{pattern})(?!\w)" if self.language.spaces else pattern)

    def _fill(self, pattern: str, marks: Mapping[str, str] = MappingProxyType({})) -> str:
        """Replace `{slot}` by its phrases or its placeholder. A repetition such as `{2,3}` stays unchanged."""

        def fill(match: re.Match[str]) -> str:
            gap, name = match.groups()
            if gap:
                return f".{{0,{name}}}?"
            slots = self.language.slots
            return marks.get(name) or (self._fill(f"({slots[name]})", marks) if name in slots else match[0])

        return _SLOT.sub(fill, pattern)


@lru_cache(maxsize=len(LANGUAGES))
def phrases(name: str) -> Phrases:
    """Return the patterns of a language."""
    return Phrases(language(name))


def spell_out(pattern: str) -> frozenset[str]:
    """Return every phrase that a pattern of groups, `|` and `?` matches.

    >>> sorted(spell_out("files?|web ?(page|site)"))
    ['file', 'files', 'web page', 'web site', 'webpage', 'website']
    """
    return frozenset(_spell_group(pattern)[0])


def _spell_group(pattern: str) -> tuple[set[str], str]:
    """Expand a pattern up to the end of the current group; return its phrases and the rest of the pattern."""
    complete: set[str] = set()
    current = {""}
    while pattern and pattern[0] != ")":
        char, pattern = pattern[0], pattern[1:]
        if char == "|":
            complete |= current
            current = {""}
            continue
        item, pattern = _spell_group(pattern) if char == "(" else ({char}, pattern)
        if pattern.startswith("?"):
            item, pattern = item | {""}, pattern[1:]
        current = {before + after for before in current for after in item}
    return complete | current, pattern[1:]
