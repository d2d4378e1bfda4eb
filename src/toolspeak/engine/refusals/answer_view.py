"""The view of an answer that is judged, and the topics of the offered tools.

A view is what remains of an answer for matching: the folded sentences of its beginning and of its end, without what it
quotes, and with the names of tools replaced by a mark. Tools are known by their names only; the words in a name
indicate the topics that the tool covers. Nothing here depends on a phrase or a language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from unicodedata import normalize

import msgspec

from .tables import NAME, QUOTE, Language, Matcher, topic_patterns, topics

#: A refusal shows early, an announcement without a call late. Nothing else is read.
MAX_HEAD, MAX_TAIL = 700, 500
#: Names are matched against sentences; no client offers more of them than this.
_MAX_NAMES = 512

# ---------------------------------------------------------------------------------------------- folding

#: Character by character, so folding a prefix of a text gives a prefix of the folded text.
_FOLD: dict[int, str] = {
    **{code: normalize("NFD", chr(code))[0] for code in range(0xC0, 0x180)},
    **{ord(char): "'" for char in "’‘ʼ´"},
    **{ord(char): " " for char in '-‐‑–—,()[]¿¡*#•\t\r\f\v\u00a0\u3000"“”„«»'},
    **{ord(char): "" for char in "，、（）【】「」『』\u200b"},
    **{ord(char): stop for char, stop in zip("。！？；：…．", ".!?;:..", strict=True)},
    ord("ß"): "ss",
    ord("œ"): "oe",
}
_SPACES = re.compile(r" {2,}").sub
#: A sentence with its end. A full stop inside a word or a number does not end it.
_SENTENCE = re.compile(r"(?:[^.!?;:\n]|[.;:](?=[^\s.!?]))+(?:[.!?;:\n]+|$)").finditer
#: After these characters a full stop needs no space, unless it precedes a file extension.
_CJK_STOP = re.compile(
    r"(?<=[\u3040-\u9fff])([.!?;:])(?=\S)(?!(?:pdf|txt|md|csv|json|docx?|xlsx?|pptx?|py|js|ya?ml|log|html?)(?![a-z0-9]))"
).sub
_LETTER = re.compile(r"[^\W\d_]|⌘").search
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]").findall
_KANA = re.compile(r"[\u3040-\u30ff]").search
#: Quotations, code, markup and JSON: words of a document, perhaps, not of the model. Ticks around a tool name count.
_QUOTED = re.compile(
    r"```[\s\S]*?(?:```|\Z)|(`[^`\n]{0,300}`)|\"[^\"\n]{1,300}\"|“[^“”\n]{1,300}”|„[^“”\n]{1,300}[“”]|"
    r"«[^«»\n]{1,300}»|「[^「」\n]{1,300}」|『[^『』\n]{1,300}』|^>[^\n]*|<[^<>\n]{1,100}>|\{[^\n]{0,400}\}",
    re.MULTILINE,
).sub


def fold(text: str) -> str:
    """Return the text in lower case without accents, commas, hyphens and brackets."""
    folded = text.lower().translate(_FOLD)
    return _SPACES(" ", folded) if "  " in folded else folded


def _sentences(folded: str) -> tuple[str, ...]:
    """Split a folded text into sentences with their closing marks. Numbers and pictures alone are not sentences."""
    separated = _CJK_STOP(r"\1 ", folded)
    return tuple(match.group().strip(" ") for match in _SENTENCE(separated) if _LETTER(match.group()))


def cjk_language(text: str) -> str:
    """Return `zh` or `ja` for a text mainly in their characters, and an empty string for any other."""
    if text.isascii() or len(_CJK(text)) * 4 < len(text):
        return ""
    return "ja" if _KANA(text) else "zh"


# ------------------------------------------------------------------------------------- the offered tools

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+").findall
#: Words in names that do not indicate what a tool is for.
_EMPTY_WORDS = frozenset(
    "tool tools call data info information make with from current list query request agent item items name value "
    "text content input output action perform lookup fetch create update delete read write send open search find "
    "result results status details handler service manager help show".split()
)
_MIN_WORD = 4
_TOOL_NOUNS = "tool|function|funktion|werkzeug|outil|fonction|herramienta|funcion|工具|函数|ツール|関数"
#: The topic that a sentence about any remote service may be about.
_WEB = "web"


class Offer(msgspec.Struct, frozen=True):
    """The offered tools, as far as their names describe them."""

    names: tuple[str, ...]
    topics: frozenset[str]
    #: Telling words of the names.
    words: Matcher | None
    #: Any of the names.
    mention: Matcher | None
    #: The names; one that is an everyday word only next to a word for tools.
    distinct_mention: Matcher | None

    def may_be_named(self, folded: str) -> bool:
        """Return whether the view of this folded text may contain the name of a tool."""
        if NAME in folded or ("`" in folded and self.mention is not None and self.mention.search(folded)):
            return True
        return self.distinct_mention is not None and self.distinct_mention.search(folded) is not None

    def covers(self, sentence: str) -> bool | None:
        """Return whether a tool serves what the sentence speaks of; None when it names no topic."""
        if NAME in sentence or (self.words is not None and self.words.search(sentence)):
            return True
        found = topics_in(sentence)
        if not found:
            return None
        return not self.names or not found.isdisjoint(self.topics)


def topics_in(sentence: str) -> frozenset[str]:
    """Return the topics that a folded sentence names."""
    return frozenset(name for name, pattern in topic_patterns() if pattern.search(sentence))


def offer_of(names: tuple[str, ...]) -> Offer:
    """Describe the tools of these names."""
    return _offer(names[:_MAX_NAMES])


@lru_cache(maxsize=256)
def _offer(names: tuple[str, ...]) -> Offer:
    words = {word.lower() for name in names for word in _WORDS(name[:64])}
    telling = sorted(word for word in words if len(word) >= _MIN_WORD and word not in _EMPTY_WORDS)
    folded = sorted({fold(name).strip() for name in names} - {""}, key=len, reverse=True)
    return Offer(
        names,
        _topics_of(words),
        re.compile(rf"(?<![a-z])(?:{'|'.join(telling)})(?:e?s|e?d|ing)?(?![a-z])") if telling else None,
        _any_of(folded),
        _any_of(folded, everyday=False),
    )


def _topics_of(words: set[str]) -> frozenset[str]:
    """Return the topics of tools with these words in their names."""
    table = topics()
    names = {name for name, topic in table.items() if not words.isdisjoint(topic.names.split())}
    if any(table[name].remote for name in names):
        names.add(_WEB)
    wide = (topic.covers for topic in table.values() if not words.isdisjoint(topic.wide_names.split()))
    return frozenset(names).union(*wide)


def _any_of(names: Sequence[str], everyday: bool = True) -> Matcher | None:
    """Match these names; unless `everyday`, one that may be an everyday word only next to a word for tools."""
    patterns = [
        re.escape(name) if everyday or not name.isalpha() else f"(?:{_TOOL_NOUNS}) {name}|{name}(?= ?(?:{_TOOL_NOUNS}))"
        for name in names
    ]
    return re.compile(rf"(?<![a-z0-9_])(?:{'|'.join(patterns)})(?![a-z0-9_])") if patterns else None


# -------------------------------------------------------------------------------------------------- view


class AnswerView(msgspec.Struct, frozen=True):
    """What is read of an answer: the sentences of its beginning and of its end."""

    head: tuple[str, ...]
    tail: tuple[str, ...]
    #: Whether the head is the whole answer.
    whole: bool
    length: int
    offer: Offer

    def covers(self, sentence: str) -> bool | None:
        """Return whether an offered tool serves what the sentence speaks of; None when it names no topic."""
        return self.offer.covers(sentence)


def view_of(text: str, names: tuple[str, ...]) -> AnswerView:
    """Return the view of an answer to a request that offered tools of these names."""
    text = text.strip()
    offer = offer_of(names)
    head = _sentences(_without_quotes(text[:MAX_HEAD], offer))
    tail = head if len(text) <= MAX_HEAD else _sentences(_without_quotes(text[-MAX_TAIL:], offer))
    return AnswerView(head, tail, len(text) <= MAX_HEAD, len(text), offer)


def _without_quotes(part: str, offer: Offer) -> str:
    """Fold a part of an answer; replace what it quotes, and the names of tools, by marks."""

    def mark(match: re.Match[str]) -> str:
        mention = offer.mention.search(fold(match[1])) if offer.mention and match[1] else None
        return "\n" if "\n" in match[0] else f" {NAME if mention else QUOTE} "

    folded = fold(_QUOTED(mark, part))
    return offer.distinct_mention.sub(NAME, folded) if offer.distinct_mention else folded


def respell(view: AnswerView, language: Language) -> AnswerView:
    """Return the view in the spelling of a language, without the spaces of folding where the language has none."""
    if language.spaces:
        return view

    def close(sentences: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(language.respell(sentence).replace(" ", "") for sentence in sentences)

    return msgspec.structs.replace(view, head=close(view.head), tail=close(view.tail))
