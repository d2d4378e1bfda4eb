"""Does this answer decline to use a tool that it could have used? And may this opening still become such an answer?

Precision first: an ordinary answer taken for a refusal costs a request and may lose the answer, a refusal taken for an
answer costs nothing that was not lost already. So a phrase alone decides nothing. What it speaks of must be something
that a tool on offer is for, and it must not be a report, a quotation, a question for what is missing, or conditional.

The phrases are tables (`refusals.words` and a module for each language), compiled when a language is first met; this
module matches them. Never a branch on a language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import Literal

import msgspec

from .answer_view import (
    MAX_HEAD,
    MAX_TAIL,
    NAME,
    SPACELESS,
    UNSAID,
    Matcher,
    View,
    fold,
    glance,
    is_cjk,
    offer_of,
    spelled,
    spelled_for,
    topics_in,
    view_of,
)
from .chinese import CHINESE
from .composed import composed
from .english import ENGLISH
from .finder import SMALL_TALK, Finder, Hit, stored_triggers
from .french import FRENCH
from .german import GERMAN
from .japanese import JAPANESE
from .spanish import SPANISH
from .tables import Language, Rule
from .triggers import filled

Category = Literal["no_tools", "cannot_access", "describes", "asks_permission", "safety", "answer"]
#: Categories after which it makes sense to ask again.
RETRYABLE: frozenset[Category] = frozenset({"no_tools", "cannot_access", "describes", "asks_permission"})

#: The longest opening that is held back while it streams.
OPENING = 160
#: How many characters of an opening are looked up before the whole is read, and how many openings are kept for that.
_GLANCES, _KEPT_OPENINGS = (4, 12), 4096
#: Refusals stand among the first sentences.
_FIRST_SENTENCES = 7
#: An answer that only announces or asks is short.
_MOST_SMALL_TALK = 420
#: An answer that holds little more than the name of a tool answers a question about it.
_MOST_MERE_NAME = 40
#: What may follow the announcement of a call: a closing remark, not an answer.
_MOST_AFTER = 260
#: A question that stands for a longer one before it.
_SHORT_QUESTION = 48
#: Matches nothing: for a slot that a language has no need of.
_NEVER = "(?!)"
_FOLDED_WORDS = re.compile(r"(?<![\w'])\w[\w']*").findall
_PARTS = re.compile(r"'*[^']+|'+").findall
#: Needs of rules that are put together from parts, and of all that only the speaker can say.
_COMPOSED = frozenset({"part", "part_here"})
_BY_SPEAKER = frozenset({"self", "part_here"})
#: What a question for leave does not hold, nor an announcement.
_NO_REQUEST = ("choice", "grave", "more", "missing", "again")
_NO_ANNOUNCEMENT = ("waits", "report", "meta", "advice", "scope")
#: What makes a sentence no refusal, whatever else it says.
_NO_REFUSAL = ("grave", "others", "needless", "reader", "advice")

LANGUAGES = tuple(
    composed(language, language.name in SPACELESS) for language in (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)
)
_BY_NAME = {language.name: language for language in LANGUAGES}
_SPACED = tuple(name for name in _BY_NAME if name not in SPACELESS)

# ------------------------------------------------------------------------------------------- the tables

_PLAIN_GROUP = re.compile(r"(?<!\\)\((?!\?)").sub
#: Slots that most rules begin with. Where one of them matches, a letter that no text holds is put in its place, and
#: the rules look for that letter: so their many phrases are compiled once, not once for each rule.
_MARKS = {"cannot": "ǂ", "have_no": "ǁ"}


class _Compiled:
    """The tables of one language, ready to match."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.name = language.name
        self._slots: dict[str, Matcher] = {}
        self._rules: dict[str, tuple[Matcher, tuple[str, ...]]] = {}

    def slot(self, name: str) -> Matcher:
        """Matches the phrases of a slot."""
        if name not in self._slots:
            self._slots[name] = self._compile(self._fill(self.language.slots.get(name, _NEVER)))
        return self._slots[name]

    def matches(self, sentence: str, hits: Sequence[Hit] | None = None) -> Iterator[tuple[Rule, re.Match[str]]]:
        """The rules that match the sentence, each with what it matched; there, marks may stand for phrases."""
        rules = self._triggered(sentence, hits)
        if not rules:
            return
        views = {"": sentence}
        for rule in rules:
            pattern, uses = self._rule(rule)
            for name in uses:
                if name not in views:
                    views[name] = self.slot(name).sub(_MARKS[name], sentence)
                found = pattern.search(views[name])
                if found is not None:
                    yield rule, found
                    break

    def _triggered(self, sentence: str, hits: Sequence[Hit] | None) -> Sequence[Rule]:
        """The rules that may match: those of which a trigger stands in the sentence. `hits`: no others can."""
        if NAME in sentence:
            return self.language.rules
        sentence = f" {sentence}"
        finder = _finder((self.name,), small=False)
        if hits is None:
            hits = finder.hits(sentence)
        labels = {hit.label for hit in hits if hit.stands_in(sentence, finder.spaceless)}
        names = {name for label in labels for name in _names(label, self.name)}
        return [rule for rule in self.language.rules if rule.name in names] if names else ()

    def _rule(self, rule: Rule) -> tuple[Matcher, tuple[str, ...]]:
        """The rule's expression and the views that it looks at. Each is compiled when the ones before it failed."""
        if rule.name not in self._rules:
            marks = {name: mark for name, mark in _MARKS.items() if name in self.language.slots}
            pattern = self._fill(rule.pattern, marks)
            uses = (*(name for name, mark in marks.items() if mark in pattern), "")
            self._rules[rule.name] = self._compile(pattern), uses
        return self._rules[rule.name]

    def _compile(self, filled: str) -> Matcher:
        filled = _PLAIN_GROUP("(?:", filled)
        if self.name in SPACELESS:
            return re.compile(filled)
        return re.compile(rf"(?<![\w'])(?:{filled})(?!\w)")

    def _fill(self, pattern: str, marks: Mapping[str, str] = MappingProxyType({})) -> str:
        return filled(pattern, self.language.slots, marks)

    def has(self, slot: str, *sentences: str) -> bool:
        """Whether a phrase of the slot stands in one of the sentences."""
        search = self.slot(slot).search
        return any(search(sentence) for sentence in sentences)

    def asks(self, sentence: str) -> bool:
        """Whether the sentence is a question; some languages need no mark for that."""
        return sentence.endswith("?") or self.has("question", sentence)

    def begins(self, slot: str, sentence: str) -> bool:
        """Whether the sentence begins with a phrase of the slot."""
        return self.slot(slot).match(sentence) is not None


@lru_cache(maxsize=len(LANGUAGES))
def _compiled(name: str) -> _Compiled:
    return _Compiled(_BY_NAME[name])


# ------------------------------------------------------------------------------------------- the verdict


class Verdict(msgspec.Struct, frozen=True):
    """What kind of answer it is, which rule says so, and in which language; an answer has neither."""

    category: Category
    rule: str = ""
    language: str = ""


ANSWER = Verdict("answer")
#: The one rule that is a condition itself: what the model would do, had it tools.
_COUNTERFACTUAL = "if_only"


def classify(text: str, tools: Iterable[str] = ()) -> Verdict:
    """What kind of answer this is, given the names of the tools on offer (none: nothing is known of them).

    >>> classify("I'm sorry, but I don't have access to any tools.", ["get_weather"]).category
    'no_tools'
    >>> classify("I can't give medical advice.", ["get_weather"]).category
    'answer'
    """
    names = tuple(tools)
    hits = _suspects(text, names)
    return classify_closely(text, names, hits) if hits is None or hits else ANSWER


def classify_closely(text: str, tools: Iterable[str] = (), hits: Sequence[Hit] | None = None) -> Verdict:
    """The same verdict without the quick look that spares most answers this; `hits` is what that look has found."""
    view = view_of(text, tuple(tools))
    suspected = _BY_NAME if hits is None else {hit.label.split()[0] for hit in hits}
    for name in _candidates(text[:MAX_HEAD]):
        verdict = _judge(_compiled(name), spelled_for(view, name), hits) if name in suspected else None
        if verdict is not None:
            return verdict
    return ANSWER


def _suspects(text: str, names: tuple[str, ...]) -> Sequence[Hit] | None:
    """What in the text may make it more than an answer: mostly nothing, and one search shows it. None: anything may."""
    script = is_cjk(text[:MAX_HEAD])
    text = text.strip()
    offer = offer_of(names)
    opening = glance(text[:MAX_HEAD], offer)
    if offer.may_be_named(opening) or (len(text) > MAX_HEAD and offer.may_be_named(glance(text[-MAX_TAIL:], offer))):
        return None
    finder = _finder((script,) if script else _SPACED, len(text) <= _MOST_SMALL_TALK)
    return finder.hits(spelled(opening, script).replace(" ", "") if script else f" {opening}")


def _names(label: str, language: str) -> Iterable[str]:
    """The names of the rules in a label, if it is of this language."""
    of, names = label.split()
    return names.split(",") if of == language else ()


@lru_cache(maxsize=2 * (1 + len(LANGUAGES)))
def _finder(languages: tuple[str, ...], small: bool) -> Finder:
    """Finds the triggers of these languages; those of small talk only if they count."""
    labels = {label: label.split() for label in stored_triggers()}
    table = {
        label: stored_triggers()[label]
        for label, (language, names) in labels.items()
        if language in languages and (small or names != SMALL_TALK)
    }
    return Finder(table, spaceless=languages[0] in SPACELESS)


def _candidates(text: str) -> tuple[str, ...]:
    """The languages that the text may be in: by its script, then by the commonest words."""
    script = is_cjk(text)
    if script:
        return (script,)
    counts = _counts(fold(text))
    most = max(counts.values())
    return tuple(name for name, count in counts.items() if count == most)


def _counts(folded: str) -> dict[str, int]:
    """How many of the commonest words of each language stand in the text; `i'm` holds an `i` as well."""
    words = _FOLDED_WORDS(folded)
    parts = [tuple(accumulate(_PARTS(word))) for word in words if "'" in word]
    counts = {name: sum(map(common.__contains__, words)) for name, common in _common_words().items()}
    for name, common in _common_words().items() if parts else ():
        counts[name] += sum(whole not in common and not common.isdisjoint(begun) for *begun, whole in parts)
    return counts


@lru_cache(maxsize=1)
def _common_words() -> dict[str, frozenset[str]]:
    return {name: frozenset(_spelled(_BY_NAME[name].slots["common"])[0]) for name in _SPACED}


def _judge(words: _Compiled, view: View, hits: Sequence[Hit] | None) -> Verdict | None:
    """The first category that fits; reasons of safety come first, an unexplained refusal after the explained ones."""
    first = view.head[:_FIRST_SENTENCES]
    held = None if hits is None else {name for hit in hits for name in _names(hit.label, words.name)}
    if (held is None or "decline" in held) and _harm(words, first):
        return Verdict("safety", "harm", words.name)
    for rule in _declined(words, view, first, hits):
        return Verdict(rule.category, rule.name, words.name)
    brief = (held is None or "brief" in held) and words.has("brief", *first)
    if brief and not words.has("meta", *first):
        return Verdict("safety", "brief", words.name)
    for category, rule in _small_talk(words, view):
        return Verdict(category, rule, words.name)
    return None


def _harm(words: _Compiled, first: Sequence[str]) -> bool:
    """Somebody declines, and just before or after it stands why: it would do harm."""
    for at, sentence in enumerate(first):
        # A reason that stands before it is one only of what is declined, not of what went wrong.
        reasons = first[at if at == 0 or words.has("report", sentence) else at - 1 : at + 2]
        if words.has("decline", sentence) and words.has("harm", *reasons):
            return not words.has("meta", *first[: at + 1])
    return False


def _declined(words: _Compiled, view: View, first: Sequence[str], hits: Sequence[Hit] | None) -> Iterator[Rule]:
    """Rules by which the model says that it has no tools or cannot reach something that a tool could."""
    for at, sentence in enumerate(first):
        for rule, found in words.matches(sentence, hits):
            if words.has("condition", sentence) and rule.name != _COUNTERFACTUAL:
                continue
            # What is said besides: the phrase itself may well hold words that would else excuse it.
            rest = f"{found.string[: found.start()]} {found.string[found.end() :]}"
            excused = (
                words.has("missing", rest)
                or words.has("meta", *first[:at], rest)
                or words.has("report", *first[:at], rest, *first[at + 1 : at + 2])
                or words.has("instead", sentence, *first[at + 1 : at + 2])
                or any(words.has(slot, sentence) for slot in _NO_REFUSAL)
            )
            if excused or _is_honest(words, view, sentence):
                continue
            if _concerns(words, view, rule, found, first) and not _asks(words, view.head[at + 1 :]):
                yield rule


def _is_honest(words: _Compiled, view: View, sentence: str) -> bool:
    """Whether somebody who knows of the tools says that they do not serve this, and none of them is for it."""
    return words.has("scope", sentence) and _covers(view, sentence) is not True


def _concerns(words: _Compiled, view: View, rule: Rule, found: re.Match[str], first: Sequence[str]) -> bool:
    """Whether what the model says it cannot do is what a tool on offer does."""
    if rule.need == "nothing" and not found.groupdict().get("purpose"):
        return True
    sentence = found.string
    if rule.need in _BY_SPEAKER and not words.has("self", sentence):
        return False
    if rule.need in _COMPOSED and words.has("unrelated", sentence):
        return False
    contrast = words.slot("contrast").search(sentence, found.end())
    covered = _covers(view, sentence[: contrast.start()] if contrast else sentence)
    if covered is not None or rule.need == "part":
        return covered is True
    if rule.need in ("unless_other", "self"):
        return True
    if rule.need == "part_here":
        return words.has("here", sentence)
    nearby = _covers(view, " ".join(first))
    return nearby is True or (nearby is None and rule.need != "topic" and words.has("generic", sentence))


def _covers(view: View, sentence: str) -> bool | None:
    """Whether a tool on offer is for what the sentence speaks of; None when it names nothing."""
    return view.offer.covers(topics_in(sentence), sentence)


def _asks(words: _Compiled, sentences: Sequence[str]) -> bool:
    """Whether one of the sentences asks for something that is missing."""
    questions = [sentence for sentence in sentences if words.asks(sentence)]
    return any(words.has("choice", question) and not words.has("more", question) for question in questions)


# -------------------------------------------------------------------------- announcements and permission


def _small_talk(words: _Compiled, view: View) -> Iterator[tuple[Category, str]]:
    """An answer that holds nothing but the announcement of a call, or the question whether to make it."""
    small = view.whole and view.length <= _MOST_SMALL_TALK
    if small and _asks_permission(words, view):
        yield "asks_permission", "asks"
    if _names_call(words, view):
        yield "describes", "names_tool"
    if small and _announces(words, view):
        yield "describes", "announces"


def _is_weak(words: _Compiled, sentence: str) -> bool:
    """A sentence that tells nothing of what was asked for."""
    return any(words.begins(slot, sentence) for slot in ("weak", "intend", "progress")) or _is_request(words, sentence)


def _is_request(words: _Compiled, sentence: str) -> bool:
    """A sentence that asks for leave to do something."""
    return (words.asks(sentence) and words.has("ask", sentence)) or words.has("offer", sentence)


def _asks_permission(words: _Compiled, view: View) -> bool:
    """The last sentences ask whether to do what was asked for, not which of two things, nor before a grave step."""
    tail = view.tail
    requests = [sentence for sentence in tail[-2:] if _is_request(words, sentence)]
    others = [sentence for sentence in tail if sentence not in requests]
    if not requests and others and _is_short_question(words, others[-1]):
        *others, question = others
        requests = [question] if any(words.has("ability", sentence) for sentence in others) else []
    if not requests or any(words.has(slot, *requests) for slot in _NO_REQUEST):
        return False
    if words.has("wants", *filter(words.asks, requests)):
        return False
    if words.has("grave", *others[-1:]) or words.has("past", *others):
        return False
    if not all(_says_little(words, sentence) for sentence in others) and not words.has("needs", *others):
        return False
    return words.has("act", *tail) or _covers(view, " ".join(tail)) is True


def _is_short_question(words: _Compiled, sentence: str) -> bool:
    return words.asks(sentence) and len(sentence) <= _SHORT_QUESTION


def _says_little(words: _Compiled, sentence: str) -> bool:
    return _is_weak(words, sentence) or any(words.has(slot, sentence) for slot in ("hedge", "ability", "wait"))


def _names_call(words: _Compiled, view: View) -> bool:
    """A tool on offer is named as what would be called, and the answer ends soon after."""
    named = [sentence for sentence in view.tail if NAME in sentence and not words.has("modal", sentence)]
    if words.has("report", *named) or words.has("past", *named):
        return False
    after: list[str] = []
    for sentence in reversed(view.tail):
        if NAME not in sentence:
            after.append(sentence)
            continue
        meant = any(words.has(slot, sentence) for slot in ("modal", "intend", "advise", "impersonal"))
        told = view.whole and view.length > _MOST_MERE_NAME and not words.has("doc", *view.tail)
        taught = words.has("reader", sentence) and not words.has("self", sentence)
        excused = taught or words.asks(sentence) or any(words.has(slot, sentence) for slot in ("waits", "meta"))
        return (meant or told) and not (excused or _asks(words, after)) and sum(map(len, after)) <= _MOST_AFTER
    return False


def _announces(words: _Compiled, view: View) -> bool:
    """Every sentence is small talk and one of them announces an act."""
    tail = view.tail
    if any(words.asks(sentence) or sentence.startswith(UNSAID) for sentence in tail):
        return False
    if any(words.has(slot, *tail) for slot in _NO_ANNOUNCEMENT):
        return False
    if all(_is_weak(words, sentence) for sentence in tail):
        return any(_is_announcement(words, view, sentence) or words.has("wait", sentence) for sentence in tail)
    # Who asks for patience at the end has not answered yet.
    patient = words.has("wait", tail[-1]) and not words.has("past", *tail)
    return patient and any(_is_announcement(words, view, sentence) for sentence in tail)


def _is_announcement(words: _Compiled, view: View, sentence: str) -> bool:
    """What somebody would do is a call that is announced only if a tool on offer is for it."""
    if words.has("progress", sentence):
        return True
    acts = words.has("act", sentence) and not words.has("would", sentence)
    return words.has("intend", sentence) and (acts or _covers(view, sentence) is True)


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
        self._language = language.name
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
        folded = spelled(fold(text).replace("\n", " ").lstrip(), self._language)
        at = self.completed(folded)
        if at is None:
            return False
        # The first sentence that ends behind a complete opener settles it, whatever comes after.
        ends = (found.end() for found in _SENTENCE_END(text)) if at >= 0 else ()
        end = next((end for end in ends if len(fold(text[:end]).strip()) >= at), 0)
        return not end or self._declines(text[:end])

    def _declines(self, text: str) -> bool:
        """Whether some rule matches. What tools are offered is not known here, so what it speaks of does not count."""
        words = _compiled(self._language)
        head = spelled_for(view_of(text, ()), self._language).head
        return any(True for sentence in head for _ in words.matches(sentence))


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
    return tuple(_Openers(language) for language in LANGUAGES)


#: What may stand between two phrases.
_BETWEEN = frozenset(" .!:")
#: The end of a sentence that no continuation can undo.
_SENTENCE_END = re.compile(r"[.!?;](?=\s)|[。！？；]|\n").finditer


def may_open_refusal(text: str) -> bool:
    """Whether an answer that begins with this text may still turn out to be a refusal.

    Once false, it stays false however the text goes on; from `OPENING` characters on it is always false.

    >>> may_open_refusal("I'm sorry, but I don't have ac"), may_open_refusal("The weather")
    (True, False)
    """
    if len(text) >= OPENING:
        return False
    # Since what is settled stays settled, a few characters settle most answers, and these have mostly been seen before.
    for size in _GLANCES:
        if not _may_begin(text[:size]):
            return False
    return len(text) <= _GLANCES[-1] or _may_go_on(text)


def _may_go_on(text: str) -> bool:
    return any(openers.may_go_on(text) for openers in _openers())


@lru_cache(maxsize=_KEPT_OPENINGS)
def _may_begin(opening: str) -> bool:
    return _may_go_on(opening)
