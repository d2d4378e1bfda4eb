"""Does this answer decline to use a tool that it could have used? And may this opening still become such an answer?

Precision first: an ordinary answer taken for a refusal costs a request and may lose the answer, a refusal taken for an
answer costs nothing that was not lost already. So a phrase alone decides nothing. What it speaks of must be something
that a tool on offer is for, and it must not be a report, a quotation, a question for what is missing, or conditional.

The phrases are tables (`refusal_words`, `refusal_european`, `refusal_asian`); this module folds the text, looks at a
bounded opening and a bounded end, and matches. Above: `recovery` and the engine. Below: the tables. Never a branch on a
language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias
from unicodedata import normalize

import msgspec

from .refusal_asian import CHINESE, JAPANESE
from .refusal_european import FRENCH, GERMAN, SPANISH
from .refusal_words import ENGLISH, REMOTE_TOPICS, TOPICS, TRADITIONAL, UNIVERSAL_TOPIC, WEB_TOPIC, Language, Rule

__all__ = ["OPENING", "RETRYABLE", "Category", "Verdict", "classify", "may_open_refusal"]

Category = Literal["no_tools", "cannot_access", "describes", "asks_permission", "safety", "answer"]
#: Categories after which it makes sense to ask again.
RETRYABLE: frozenset[Category] = frozenset({"no_tools", "cannot_access", "describes", "asks_permission"})

#: The longest opening that is held back while it streams.
OPENING = 160
#: A refusal shows itself early; an announcement that nothing follows, late. More than this is never looked at.
_HEAD, _TAIL = 700, 500
#: Refusals stand among the first sentences.
_FIRST_SENTENCES = 5
#: An answer that only announces or asks is short.
_MOST_SMALL_TALK = 420
#: What may follow the announcement of a call: a closing remark, not an answer.
_MOST_AFTER = 260
#: Names are matched against sentences; more of them than this no client offers.
_MAX_NAMES = 512

_LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)
_BY_NAME = {language.name: language for language in _LANGUAGES}
_SPACELESS = frozenset({"zh", "ja"})
_SIMPLIFIED_LANGUAGE = "zh"

# ---------------------------------------------------------------------------------------------- folding


def _plain(code: int) -> str:
    """A letter without its accent."""
    return normalize("NFD", chr(code))[0]


#: Character by character, so that the fold of a beginning is the beginning of the fold.
_FOLD: dict[int, str] = {
    **{code: _plain(code) for code in range(0xC0, 0x180)},
    **{ord(char): "'" for char in "’‘ʼ´"},
    **{ord(char): " " for char in '-‐‑–—,()[]¿¡*#•\t\r\f\v\u00a0\u3000"“”„«»'},
    **{ord(char): "" for char in "，、（）【】「」『』\u200b"},
    **{ord(char): stop for char, stop in zip("。！？；：…．", ".!?;:..", strict=True)},
    ord("ß"): "ss",
    ord("œ"): "oe",
    ord("`"): "",
}
_SIMPLIFIED = {ord(old): new for old, new in TRADITIONAL.items()}
_SPACES = re.compile(r" {2,}").sub
#: A sentence with its end. A full stop inside a word or a number ends nothing; nor do two sentences share a character.
_SENTENCE = re.compile(r"(?:[^.!?;:\n]|[.;:](?=[^\s.!?]))+(?:[.!?;:\n]+|$)").finditer
_CJK_STOP = re.compile(r"(?<=[\u3040-\u9fff])([.!?;:])(?=\S)").sub
_LETTER = re.compile(r"[^\W\d_]|⌘").search
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]").findall
_KANA = re.compile(r"[\u3040-\u30ff]").search
#: Stands for the name of a tool on offer, and for something quoted.
_NAME, _UNSAID = "⌘", "_"
#: What is quoted is not said, and what is code is not said either; but a tool's name in it counts.
_QUOTED = re.compile(
    r"```[\s\S]*?(?:```|$)|`[^`\n]{0,300}`|\"[^\"\n]{1,300}\"|“[^“”\n]{1,300}”|„[^“”\n]{1,300}[“”]|«[^«»\n]{1,300}»|"
    r"「[^「」\n]{1,300}」|『[^『』\n]{1,300}』|^>[^\n]*",
    re.MULTILINE,
).sub


def _fold(text: str) -> str:
    return _SPACES(" ", text.lower().translate(_FOLD))


def _sentences(folded: str) -> tuple[str, ...]:
    """Its sentences, each with its closing mark; numbers and pictures alone are none."""
    parted = _CJK_STOP(r"\1 ", folded)
    return tuple(found.group().strip(" ") for found in _SENTENCE(parted) if _LETTER(found.group()))


# ------------------------------------------------------------------------------------------- the tables

_Matcher: TypeAlias = re.Pattern[str]
_SLOT = re.compile(r"\{(~?)(\w+)\}")
_PLAIN_GROUP = re.compile(r"(?<!\\)\((?!\?)").sub


class _Compiled:
    """The tables of one language, ready to match."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.name = language.name
        self.slots = {name: self._compile(pattern) for name, pattern in language.slots.items()}
        self.rules: tuple[tuple[Rule, _Matcher], ...] = tuple(
            (rule, self._compile(rule.pattern)) for rule in language.rules
        )

    def _compile(self, pattern: str) -> _Matcher:
        filled = _PLAIN_GROUP("(?:", self._fill(pattern))
        if self.name in _SPACELESS:
            return re.compile(filled)
        return re.compile(rf"(?<![\w'])(?:{filled})(?!\w)")

    def _fill(self, pattern: str) -> str:
        def slot(found: re.Match[str]) -> str:
            if found[1]:
                return f".{{0,{found[2]}}}?"
            return self._fill(f"({self.language.slots[found[2]]})") if found[2] in self.language.slots else found[0]

        return _SLOT.sub(slot, pattern)

    def has(self, slot: str, *sentences: str) -> bool:
        """Whether a phrase of the slot stands in one of the sentences."""
        search = self.slots[slot].search
        return any(search(sentence) for sentence in sentences)

    def begins(self, slot: str, sentence: str) -> bool:
        """Whether the sentence begins with a phrase of the slot."""
        return self.slots[slot].match(sentence) is not None


@lru_cache(maxsize=len(_LANGUAGES))
def _compiled(name: str) -> _Compiled:
    return _Compiled(_BY_NAME[name])


@lru_cache(maxsize=1)
def _topics() -> tuple[tuple[str, frozenset[str], _Matcher], ...]:
    return tuple(
        (topic.name, frozenset(topic.names.split()), re.compile(rf"(?<![a-z0-9_])(?:{topic.words})(?![a-z0-9_])"))
        for topic in TOPICS
    )


# -------------------------------------------------------------------------------------- what tools are for

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+").findall
#: Words in names that say nothing about what a tool is for.
_EMPTY_WORDS = frozenset(
    "tool tools call data info information make with from current list query request agent item items name value "
    "text content input output action perform lookup fetch create update delete read write send open search find "
    "result results status details handler service manager help show".split()
)
_SHORTEST_WORD = 4


class _Offer(msgspec.Struct, frozen=True):
    """The tools on offer, as far as their names tell."""

    names: tuple[str, ...]
    topics: frozenset[str]
    words: _Matcher | None
    mention: _Matcher | None

    def covers(self, found: frozenset[str], sentence: str) -> bool | None:
        """Whether a tool is for what the sentence speaks of; None when it names nothing."""
        if _NAME in sentence or (self.words is not None and self.words.search(sentence)):
            return True
        if not found:
            return None
        return not self.names or not found.isdisjoint(self.topics)


@lru_cache(maxsize=256)
def _offer(names: tuple[str, ...]) -> _Offer:
    words = {word.lower() for name in names for word in _WORDS(name[:64])}
    topics = {name for name, known, _ in _topics() if not known.isdisjoint(words)}
    if topics & REMOTE_TOPICS:
        topics.add(WEB_TOPIC.name)
    for topic in (WEB_TOPIC, UNIVERSAL_TOPIC):
        if not topic.names.isdisjoint(words):
            topics |= topic.covers
    telling = sorted(word for word in words if len(word) >= _SHORTEST_WORD and word not in _EMPTY_WORDS)
    folded = sorted({_fold(name).strip() for name in names} - {""}, key=len, reverse=True)
    return _Offer(
        names,
        frozenset(topics),
        re.compile(rf"(?<![a-z])(?:{'|'.join(telling)})(?:e?s|e?d|ing)?(?![a-z])") if telling else None,
        re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, folded))})(?!\w)") if folded else None,
    )


def _topics_in(sentence: str) -> frozenset[str]:
    return frozenset(name for name, _, words in _topics() if words.search(sentence))


# ------------------------------------------------------------------------------------------- the verdict


class Verdict(msgspec.Struct, frozen=True):
    """What kind of answer it is, which rule says so, and in which language; an answer has neither."""

    category: Category
    rule: str = ""
    language: str = ""


ANSWER = Verdict("answer")


class _View(msgspec.Struct, frozen=True):
    """What is looked at of an answer."""

    head: tuple[str, ...]
    tail: tuple[str, ...]
    #: The head is the whole answer.
    whole: bool
    length: int
    offer: _Offer

    def spelled_for(self, language: str) -> _View:
        """The same as its tables spell it: without spaces, in simplified characters."""
        if language not in _SPACELESS:
            return self
        table = _SIMPLIFIED if language == _SIMPLIFIED_LANGUAGE else {}

        def spelled(sentences: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(sentence.translate(table).replace(" ", "") for sentence in sentences)

        return msgspec.structs.replace(self, head=spelled(self.head), tail=spelled(self.tail))


def classify(text: str, tools: Iterable[str] = ()) -> Verdict:
    """What kind of answer this is, given the names of the tools on offer (none: nothing is known of them).

    >>> classify("I'm sorry, but I don't have access to any tools.", ["get_weather"]).category
    'no_tools'
    >>> classify("I can't give medical advice.", ["get_weather"]).category
    'answer'
    """
    view = _view(text, tuple(tools)[:_MAX_NAMES])
    for name in _candidates(text[:_HEAD]):
        verdict = _judge(_compiled(name), view.spelled_for(name))
        if verdict is not None:
            return verdict
    return ANSWER


def _view(text: str, names: tuple[str, ...]) -> _View:
    text = text.strip()
    offer = _offer(names)

    def said(found: re.Match[str]) -> str:
        marks = _NAME * min(4, folded(found.group()).count(_NAME))
        return f" {marks or _UNSAID} " if "\n" not in found.group() else f"\n{marks}\n"

    def folded(part: str) -> str:
        return offer.mention.sub(_NAME, _fold(part)) if offer.mention else _fold(part)

    head = _sentences(folded(_QUOTED(said, text[:_HEAD])))
    tail = head if len(text) <= _HEAD else _sentences(folded(_QUOTED(said, text[-_TAIL:])))
    return _View(head, tail, len(text) <= _HEAD, len(text), offer)


def _candidates(text: str) -> tuple[str, ...]:
    """The languages that the text may be in, by its script."""
    foreign = len(_CJK(text))
    if foreign * 4 < len(text):
        return tuple(language.name for language in _LANGUAGES if language.name not in _SPACELESS)
    return ("ja",) if _KANA(text) else ("zh",)


def _judge(words: _Compiled, view: _View) -> Verdict | None:
    """The first category that fits; reasons of safety come first, an unexplained refusal after the explained ones."""
    first = view.head[:_FIRST_SENTENCES]
    if _harm(words, first):
        return Verdict("safety", "harm", words.name)
    for rule in _declined(words, view, first):
        return Verdict(rule.category, rule.name, words.name)
    if words.has("brief", *first) and not words.has("meta", *first):
        return Verdict("safety", "brief", words.name)
    for category, rule in _small_talk(words, view):
        return Verdict(category, rule, words.name)
    return None


def _harm(words: _Compiled, first: Sequence[str]) -> bool:
    """Somebody declines, and near it stands why: it would do harm."""
    for at, sentence in enumerate(first):
        if words.has("decline", sentence) and words.has("harm", *first[at : at + 2]):
            return not words.has("meta", *first[: at + 1])
    return False


def _declined(words: _Compiled, view: _View, first: Sequence[str]) -> Iterator[Rule]:
    """Rules by which the model says that it has no tools or cannot reach something that a tool could."""
    for at, sentence in enumerate(first):
        if words.has("condition", sentence):
            continue
        for rule, pattern in words.rules:
            found = pattern.search(sentence)
            if found is None or not _concerns(words, view.offer, rule, found, sentence, first):
                continue
            # What is said besides: the phrase itself may well hold words that would else excuse it.
            rest = f"{sentence[: found.start()]} {sentence[found.end() :]}"
            excused = (
                words.has("missing", rest)
                or words.has("meta", *first[:at], rest)
                or words.has("report", *first[:at], rest, *first[at + 1 : at + 2])
            )
            if not excused and not _asks(words, view, at):
                yield rule


def _concerns(
    words: _Compiled, offer: _Offer, rule: Rule, found: re.Match[str], sentence: str, first: Sequence[str]
) -> bool:
    """Whether what the model says it cannot do is what a tool on offer does."""
    if rule.need == "nothing" and not found.groupdict().get("purpose"):
        return True
    covered = offer.covers(_topics_in(sentence), sentence)
    if covered is None:
        nearby = " ".join(first)
        covered = offer.covers(_topics_in(nearby), nearby)
        broad = rule.need != "topic" and words.has("generic", sentence)
        return covered is True or (broad and covered is None)
    return covered


def _asks(words: _Compiled, view: _View, at: int) -> bool:
    """Whether a question for something that is missing follows."""
    questions = [sentence for sentence in view.head[at + 1 :] if sentence.endswith("?")]
    return any(words.has("choice", question) and not words.has("more", question) for question in questions)


# -------------------------------------------------------------------------- announcements and permission


def _small_talk(words: _Compiled, view: _View) -> Iterator[tuple[Category, str]]:
    """An answer that holds nothing but the announcement of a call, or the question whether to make it."""
    small = view.whole and view.length <= _MOST_SMALL_TALK
    if small and _asks_permission(words, view.tail):
        yield "asks_permission", "asks"
    if words.has("report", *view.tail) or words.has("meta", *view.tail):
        return
    if _names_call(words, view.tail):
        yield "describes", "names_tool"
    if small and _announces(words, view.tail):
        yield "describes", "announces"


def _is_weak(words: _Compiled, sentence: str) -> bool:
    """A sentence that tells nothing of what was asked for."""
    return any(words.begins(slot, sentence) for slot in ("weak", "intend", "progress")) or _is_request(words, sentence)


def _is_request(words: _Compiled, sentence: str) -> bool:
    """A sentence that asks for leave to do something."""
    return (sentence.endswith("?") and words.has("ask", sentence)) or words.has("offer", sentence)


def _asks_permission(words: _Compiled, tail: Sequence[str]) -> bool:
    """The last sentences ask whether to do what was asked for, not which of two things, nor before a grave step."""
    requests = [sentence for sentence in tail[-2:] if _is_request(words, sentence)]
    others = [sentence for sentence in tail if sentence not in requests]
    if not requests or any(words.has(slot, *requests) for slot in ("choice", "grave", "more", "missing")):
        return False
    if not all(_is_weak(words, sentence) or words.has("hedge", sentence) for sentence in others):
        return False
    return words.has("act", *tail) or any(_NAME in sentence for sentence in tail)


def _names_call(words: _Compiled, tail: Sequence[str]) -> bool:
    """A tool on offer is named as what would be called, and the answer ends soon after."""
    after = 0
    for sentence in reversed(tail):
        if _NAME in sentence and any(words.has(slot, sentence) for slot in ("intend", "advise", "impersonal")):
            return not sentence.endswith("?") and not words.has("waits", sentence) and after <= _MOST_AFTER
        after += len(sentence)
    return False


def _announces(words: _Compiled, tail: Sequence[str]) -> bool:
    """Every sentence is small talk and one of them announces an act."""
    if any(sentence.endswith("?") for sentence in tail) or words.has("waits", *tail):
        return False
    return all(_is_weak(words, sentence) for sentence in tail) and any(
        words.has("progress", sentence) or (words.has("intend", sentence) and words.has("act", sentence))
        for sentence in tail
    )


# ------------------------------------------------------------------------------------------ the opening


class _Trie:
    """Phrases that share their beginnings."""

    __slots__ = ("ends", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Trie] = {}
        self.ends = False

    def add(self, phrase: str) -> None:
        """Put a phrase in."""
        node = self
        for char in phrase:
            node = node.next.setdefault(char, _Trie())
        node.ends = True


class _State(msgspec.Struct, frozen=True):
    """Somewhere inside a phrase: of filler, or of an opener at some place of its sequence."""

    node: _Trie
    path: tuple[_Trie, ...]
    place: int
    filler: bool
    #: Nothing of the phrase has been seen yet.
    fresh: bool


class _Openers:
    """How refusals of one language open: sequences of phrases with filler anywhere between them."""

    def __init__(self, language: Language) -> None:
        self._spaceless = language.name in _SPACELESS
        self._simplified = language.name == _SIMPLIFIED_LANGUAGE
        self._filler = _trie(language.filler)
        self._starts = [
            start for path in language.openers for start in self._states(tuple(_trie(phrases) for phrases in path), 0)
        ]

    def _states(self, path: tuple[_Trie, ...], place: int) -> tuple[_State, _State]:
        return _State(path[place], path, place, False, True), _State(self._filler, path, place, True, True)

    def completed(self, folded: str) -> int | None:
        """Up to where an opener is complete; -1 when one may still come, None when none can."""
        states = self._starts
        for at, char in enumerate(folded):
            moved = [
                msgspec.structs.replace(state, node=state.node.next[char], fresh=False)
                for state in states
                if char in state.node.next
            ]
            ended = [state for state in moved if state.node.ends]
            if any(state.place + 1 == len(state.path) for state in ended if not state.filler):
                return at + 1
            waiting = [state for state in states if state.fresh] if char in _BETWEEN else []
            started = [start for state in ended for start in self._states(state.path, state.place + (not state.filler))]
            states = moved + waiting + started
            if not states:
                return None
        return -1

    def may_go_on(self, text: str) -> bool:
        """Whether a refusal of this language may open like this."""
        folded = _fold(text).replace("\n", " ").lstrip()
        if self._simplified:
            folded = folded.translate(_SIMPLIFIED)
        at = self.completed(folded)
        if at is None:
            return False
        # The first sentence that ends behind a complete opener settles it, whatever comes after.
        ends = (found.end() for found in _SENTENCE_END(text)) if at >= 0 else ()
        end = next((end for end in ends if len(_fold(text[:end]).strip()) >= at), 0)
        return not end or classify(text[:end]).category in _DECLINED


def _trie(pattern: str) -> _Trie:
    """Every phrase that a pattern of groups, `|` and `?` stands for."""
    phrases, _ = _spelled(pattern)
    root = _Trie()
    for phrase in phrases:
        root.add(phrase)
    return root


def _spelled(pattern: str) -> tuple[set[str], str]:
    """The phrases up to the end of this group, and what stands behind it."""
    done: set[str] = set()
    current = {""}
    while pattern and pattern[0] != ")":
        char, pattern = pattern[0], pattern[1:]
        if char == "|":
            done |= current
            current = {""}
            continue
        item, pattern = _spelled(pattern) if char == "(" else ({char}, pattern)
        if pattern.startswith("?"):
            item, pattern = item | {""}, pattern[1:]
        current = {before + after for before in current for after in item}
    return done | current, pattern[1:]


@lru_cache(maxsize=1)
def _openers() -> tuple[_Openers, ...]:
    return tuple(_Openers(language) for language in _LANGUAGES)


#: What may stand between two phrases.
_BETWEEN = frozenset(" .!:")
_DECLINED = frozenset({"no_tools", "cannot_access"})
#: The end of a sentence that no continuation can undo.
_SENTENCE_END = re.compile(r"[.!?;](?=\s)|[。！？；]|\n").finditer


def may_open_refusal(text: str) -> bool:
    """Whether an answer that begins with this text may still turn out to be a refusal.

    Once false, it stays false however the text goes on; from `OPENING` characters on it is always false.

    >>> may_open_refusal("I'm sorry, but I don't have ac"), may_open_refusal("The weather")
    (True, False)
    """
    return len(text) < OPENING and any(openers.may_go_on(text) for openers in _openers())
