"""What is looked at of an answer, and what the tools on offer are for.

An answer is read as folded sentences of a bounded opening and a bounded end; what it quotes is left out, and the names
of tools stand out. Tools are known by their names only: the words in them tell their topics. Pure functions; nothing here knows a phrase.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias
from unicodedata import normalize

import msgspec

from .tables import REMOTE_TOPICS, TOPICS, TRADITIONAL, UNIVERSAL_TOPIC, WEB_TOPIC

#: A refusal shows itself early; an announcement that nothing follows, late. More than this is never looked at.
MAX_HEAD, MAX_TAIL = 700, 500
#: Names are matched against sentences; more of them than this no client offers.
_MAX_NAMES = 512

Matcher: TypeAlias = re.Pattern[str]
#: Languages that set no spaces, and the one whose tables are in simplified characters.
SPACELESS = frozenset({"zh", "ja"})
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
}
_SIMPLIFIED = {ord(old): new for old, new in TRADITIONAL.items()}
_SPACES = re.compile(r" {2,}").sub
#: A sentence with its end. A full stop inside a word or a number ends nothing; nor do two sentences share a character.
_SENTENCE = re.compile(r"(?:[^.!?;:\n]|[.;:](?=[^\s.!?]))+(?:[.!?;:\n]+|$)").finditer
#: A full stop needs no space behind it there, but one before the ending of a file's name ends nothing.
_CJK_STOP = re.compile(
    r"(?<=[\u3040-\u9fff])([.!?;:])(?=\S)(?!(?:pdf|txt|md|csv|json|docx?|xlsx?|pptx?|py|js|ya?ml|log|html?)(?![a-z0-9]))"
).sub
_LETTER = re.compile(r"[^\W\d_]|⌘").search
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]").findall
_KANA = re.compile(r"[\u3040-\u30ff]").search
#: Stands for the name of a tool on offer, and for something quoted.
NAME, UNSAID = "⌘", "_"
#: What is quoted is not said, nor is code, markup or JSON: a document's words, perhaps. A tool's name in ticks counts.
_QUOTED = re.compile(
    r"```[\s\S]*?(?:```|\Z)|(`[^`\n]{0,300}`)|\"[^\"\n]{1,300}\"|“[^“”\n]{1,300}”|„[^“”\n]{1,300}[“”]|"
    r"«[^«»\n]{1,300}»|「[^「」\n]{1,300}」|『[^『』\n]{1,300}』|^>[^\n]*|<[^<>\n]{1,100}>|\{[^\n]{0,400}\}",
    re.MULTILINE,
).sub

_CORNERS = re.compile("[「『]").search


def fold(text: str) -> str:
    folded = text.lower().translate(_FOLD)
    return _SPACES(" ", folded) if "  " in folded else folded


def _sentences(folded: str) -> tuple[str, ...]:
    """Its sentences, each with its closing mark; numbers and pictures alone are none."""
    parted = _CJK_STOP(r"\1 ", folded)
    return tuple(found.group().strip(" ") for found in _SENTENCE(parted) if _LETTER(found.group()))


# ------------------------------------------------------------------------------------------------ topics


_TOPIC_NAMES = tuple((topic.name, frozenset(topic.names.split())) for topic in TOPICS)


@lru_cache(maxsize=1)
def _topic_words() -> tuple[tuple[str, Matcher], ...]:
    return tuple((topic.name, re.compile(rf"(?<![a-z0-9_])(?:{topic.words})(?![a-z0-9_])")) for topic in TOPICS)


# -------------------------------------------------------------------------------------- what tools are for

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+").findall
#: Words in names that say nothing about what a tool is for.
_EMPTY_WORDS = frozenset(
    "tool tools call data info information make with from current list query request agent item items name value "
    "text content input output action perform lookup fetch create update delete read write send open search find "
    "result results status details handler service manager help show".split()
)
_SHORTEST_WORD = 4
_TOOL_NOUNS = "tool|function|funktion|werkzeug|outil|fonction|herramienta|funcion|工具|函数|ツール|関数"


class Offer(msgspec.Struct, frozen=True):
    """The tools on offer, as far as their names tell."""

    names: tuple[str, ...]
    topics: frozenset[str]
    words: Matcher | None
    mention: Matcher | None
    #: The same, but only of names that nobody uses for anything else.
    telling: Matcher | None
    #: Strings one of which stands in every folded text that `telling` matches.
    hints: tuple[str, ...]

    def may_be_named(self, folded: str) -> bool:
        """Whether a name may stand out in the view of this folded text; looks closer only where there is a hint."""
        if NAME in folded or ("`" in folded and self.mention is not None and self.mention.search(folded)):
            return True
        for hint in self.hints:
            if hint in folded:
                return self.telling is not None and self.telling.search(folded) is not None
        return False

    def covers(self, found: frozenset[str], sentence: str) -> bool | None:
        """Whether a tool is for what the sentence speaks of; None when it names nothing."""
        if NAME in sentence or (self.words is not None and self.words.search(sentence)):
            return True
        if not found:
            return None
        return not self.names or not found.isdisjoint(self.topics)


def offer_of(names: tuple[str, ...]) -> Offer:
    """What tools of these names are for."""
    return _offer(names[:_MAX_NAMES])


@lru_cache(maxsize=256)
def _offer(names: tuple[str, ...]) -> Offer:
    words = {word.lower() for name in names for word in _WORDS(name[:64])}
    topics = {name for name, known in _TOPIC_NAMES if not known.isdisjoint(words)}
    if topics & REMOTE_TOPICS:
        topics.add(WEB_TOPIC.name)
    for topic in (WEB_TOPIC, UNIVERSAL_TOPIC):
        if not topic.names.isdisjoint(words):
            topics |= topic.covers
    telling = sorted(word for word in words if len(word) >= _SHORTEST_WORD and word not in _EMPTY_WORDS)
    folded = sorted({fold(name).strip() for name in names} - {""}, key=len, reverse=True)
    return Offer(
        names,
        frozenset(topics),
        re.compile(rf"(?<![a-z])(?:{'|'.join(telling)})(?:e?s|e?d|ing)?(?![a-z])") if telling else None,
        _any_of(folded),
        _any_of(folded, everyday=False),
        tuple(dict.fromkeys(hint for name in folded for hint in _hints(name))),
    )


def _hints(name: str) -> Sequence[str]:
    """What stands in a text that holds this name and means the tool: most names have a mark that few texts hold."""
    if name.isalpha():
        return _TOOL_NOUNS.split("|")
    return ("_",) if "_" in name else (name,)


def _any_of(names: Sequence[str], everyday: bool = True) -> Matcher | None:
    """Matches these names; one that is a word like any other, if not `everyday`, only beside a word for tools."""
    patterns = [
        re.escape(name) if everyday or not name.isalpha() else f"(?:{_TOOL_NOUNS}) {name}|{name}(?= ?(?:{_TOOL_NOUNS}))"
        for name in names
    ]
    return re.compile(rf"(?<![a-z0-9_])(?:{'|'.join(patterns)})(?![a-z0-9_])") if patterns else None


def topics_in(sentence: str) -> frozenset[str]:
    return frozenset(name for name, words in _topic_words() if words.search(sentence))


# -------------------------------------------------------------------------------------------------- view


class View(msgspec.Struct, frozen=True):
    """What is looked at of an answer."""

    head: tuple[str, ...]
    tail: tuple[str, ...]
    #: The head is the whole answer.
    whole: bool
    length: int
    offer: Offer


def spelled(sentence: str, language: str) -> str:
    """A folded sentence as the tables of a language spell it; the spelling of a beginning is a beginning."""
    return sentence.translate(_SIMPLIFIED) if language == _SIMPLIFIED_LANGUAGE else sentence


def spelled_for(view: View, language: str) -> View:
    """The view as the tables of a language spell it; where no spaces are set, without those that folding set."""
    if language not in SPACELESS:
        return view

    def closed(sentences: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(spelled(sentence, language).replace(" ", "") for sentence in sentences)

    return msgspec.structs.replace(view, head=closed(view.head), tail=closed(view.tail))


def is_cjk(text: str) -> str:
    """The language of a text that is not written in letters; nothing for one that is."""
    if text.isascii() or len(_CJK(text)) * 4 < len(text):
        return ""
    return "ja" if _KANA(text) else "zh"


def _seen(part: str, offer: Offer) -> str:
    """A part of an answer, folded, without what it quotes, and with the names of tools set off."""

    def said(found: re.Match[str]) -> str:
        named = offer.mention.search(fold(found[1])) if offer.mention and found[1] else None
        return "\n" if "\n" in found[0] else f" {NAME if named else UNSAID} "

    folded = fold(_QUOTED(said, part))
    return offer.telling.sub(NAME, folded) if offer.telling else folded


def glance(part: str, offer: Offer) -> str:
    """A part of an answer, folded: it holds whatever its view holds, and perhaps more.

    What is quoted need not be left out for that. Only corner brackets must be: folding drops them, and what stands
    beside them would run together.
    """
    return fold(part) if part.isascii() or not _CORNERS(part) else _seen(part, offer)


def view_of(text: str, names: tuple[str, ...]) -> View:
    """What is looked at of this answer to somebody who was offered tools of these names."""
    text = text.strip()
    offer = offer_of(names)
    head = _sentences(_seen(text[:MAX_HEAD], offer))
    tail = head if len(text) <= MAX_HEAD else _sentences(_seen(text[-MAX_TAIL:], offer))
    return View(head, tail, len(text) <= MAX_HEAD, len(text), offer)
