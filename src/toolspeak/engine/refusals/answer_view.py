"""Prepare an answer for refusal detection, and derive topics from the names of the offered tools.

A view contains the parts of an answer that are matched against phrases: the folded (normalised) sentences of its
beginning and end, with placeholders for quotations and tool names. The words in a tool's name indicate the topics that
the tool covers. Nothing here depends on a phrase or a language.
"""

import re
from collections.abc import Sequence
from unicodedata import normalize

import msgspec

from ...core.bounded_cache import bounded_cache
from .tables import NAME, QUOTE, Language, Matcher, topic_patterns, topics

#: Characters that are examined: refusals occur at the beginning of an answer, announcements without a call at the end.
MAX_HEAD, MAX_TAIL = 700, 500
#: Maximum number of tool names that are searched for. No known client offers more tools.
_MAX_NAMES = 512
#: Maximum size of the names of tools in the cache.
_MAX_OFFER_BYTES = 512 * 1024

#: Replacements for single characters only, so folding a prefix of a text gives a prefix of the folded text.
_FOLD: dict[int, str] = {
    **{code: normalize("NFD", chr(code))[0] for code in range(0xC0, 0x180)},
    **{ord(char): "'" for char in "’‘ʼ´"},
    **{ord(char): " " for char in '-‐‑–—,()[]¿¡*#•\t\r\f\v\u00a0\u3000"“”„«»'},
    **{ord(char): "" for char in "，、（）【】「」『』\u200b"},
    **{ord(char): stop for char, stop in zip("。！？；：…．।؟؛", ".!?;:...?;", strict=True)},
    **{ord(char): plain for char, plain in zip("ıłёأإآٱىةँ،", "ileاااايهं ", strict=True)},
    # Arabic vowel signs and the Hindi dot below, which are often left out, and the dot that lower case leaves of `İ`.
    **dict.fromkeys([*range(0x64B, 0x653), 0x640, 0x93C, 0x307], ""),
    **{code: normalize("NFD", chr(code))[0] for code in range(0x958, 0x960)},
    ord("ß"): "ss",
    ord("œ"): "oe",
}
_SPACES = re.compile(r" {2,}").sub
#: A sentence with its closing punctuation. A full stop inside a word or a number does not end it.
_SENTENCE = re.compile(r"(?:[^.!?;:\n]++|[.;:](?=[^\s.!?]))++(?:[.!?;:\n]+|$)").findall
#: Punctuation that ends a sentence without a following space, after a CJK character and not before a file extension.
_CJK_STOP = re.compile(
    r"(?<=[\u3040-\u9fff])([.!?;:])(?=\S)(?!(?:pdf|txt|md|csv|json|docx?|xlsx?|pptx?|py|js|ya?ml|log|html?)(?![a-z0-9]))"
).sub
_LETTER = re.compile(r"[^\W\d_]|⌘").search
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]").findall
_KANA = re.compile(r"[\u3040-\u30ff]").search
#: Letters by which a supported language is known, and the least share of a text that they make up: one in so many.
_LETTERS = {
    "ru": (r"[\u0400-\u052f]", 4),
    "ar": (r"[\u0600-\u06ff]", 4),
    "ko": (r"[\uac00-\ud7a3]", 4),
    "hi": (r"[\u0900-\u097f]", 4),
    "tr": ("[ışğ]", 25),
    "pl": ("[łńśźżęą]", 25),
}
#: Quotations, code, markup and JSON, which may come from a document. The group matches backticks, as around tool names.
_QUOTED = re.compile(
    r"```[\s\S]*?(?:```|\Z)|(`[^`\n]{0,300}`)|\"[^\"\n]{1,300}\"|“[^“”\n]{1,300}”|„[^“”\n]{1,300}[“”]|"
    r"«[^«»\n]{1,300}»|「[^「」\n]{1,300}」|『[^『』\n]{1,300}』|^>[^\n]*|<[^<>\n]{1,100}>|\{[^\n]{0,400}\}",
    re.MULTILINE,
).sub
_MAY_QUOTE = re.compile('[`"“„«「『>{]').search


def fold(text: str) -> str:
    """Normalise a text for matching: lower case, without accents, commas, hyphens and brackets."""
    folded = text.lower().translate(_FOLD)
    return _SPACES(" ", folded) if "  " in folded else folded


def _sentences(folded: str) -> tuple[str, ...]:
    """Split a folded text into sentences with their closing punctuation. A sentence must contain a letter."""
    separated = folded if folded.isascii() else _CJK_STOP(r"\1 ", folded)
    return tuple(sentence.strip(" ") for sentence in _SENTENCE(separated) if _LETTER(sentence))


def language_by_letters(text: str) -> str:
    """Return the supported language to which the letters of a text belong, or an empty string."""
    if text.isascii():
        return ""
    if len(_CJK(text)) * 4 >= len(text):
        return "ja" if _KANA(text) else "zh"
    fits = (name for name, (letter, one_in) in _LETTERS.items() if len(re.findall(letter, text)) * one_in >= len(text))
    return next(fits, "")


_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+").findall
#: Words in tool names that do not indicate a topic.
_EMPTY_WORDS = frozenset(
    "tool tools call data info information make with from current list query request agent item items name value "
    "text content input output action perform lookup fetch create update delete read write send open search find "
    "result results status details handler service manager help show".split()
)
_MIN_WORD = 4
_TOOL_NOUNS = "tool|function|funktion|werkzeug|outil|fonction|herramienta|funcion|工具|函数|ツール|関数"
#: The topic that every tool for a remote service also covers.
_WEB = "web"


class Offer(msgspec.Struct, frozen=True):
    """The offered tools, as described by their names."""

    names: tuple[str, ...]
    topics: frozenset[str]
    #: Matches words from the names that indicate a topic.
    words: Matcher | None
    #: Matches any of the names.
    mention: Matcher | None
    #: Matches the names, but a name that may be an everyday word only next to a word such as "tool".
    distinct_mention: Matcher | None

    def may_be_named(self, folded: str) -> bool:
        """Return whether this folded text may contain the name of an offered tool."""
        if NAME in folded or ("`" in folded and self.mention is not None and self.mention.search(folded)):
            return True
        return self.distinct_mention is not None and self.distinct_mention.search(folded) is not None

    def covers(self, sentence: str, language: str = "") -> bool | None:
        """Return whether an offered tool covers the topic of a sentence in this language, or None if it has none."""
        if NAME in sentence or (self.words is not None and self.words.search(sentence)):
            return True
        found = topics_in(sentence, language)
        if not found:
            return None
        return not self.names or not found.isdisjoint(self.topics)


def topics_in(sentence: str, language: str = "") -> frozenset[str]:
    """Return the topics that a folded sentence mentions. The words of a language count in addition to shared ones."""
    return frozenset(name for name, pattern in topic_patterns(language) if pattern.search(sentence))


def offer_of(names: tuple[str, ...]) -> Offer:
    """Describe the tools that have these names."""
    return _offer(names[:_MAX_NAMES])


@bounded_cache(_MAX_OFFER_BYTES)
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
    """Compile a pattern for the names. Unless `everyday`, everyday words match only next to a word such as "tool"."""
    patterns = [
        re.escape(name) if everyday or not name.isalpha() else f"(?:{_TOOL_NOUNS}) {name}|{name}(?= ?(?:{_TOOL_NOUNS}))"
        for name in names
    ]
    return re.compile(rf"(?<![a-z0-9_])(?:{'|'.join(patterns)})(?![a-z0-9_])") if patterns else None


class AnswerView(msgspec.Struct, frozen=True):
    """The examined parts of an answer: the sentences of its beginning and its end."""

    head: tuple[str, ...]
    tail: tuple[str, ...]
    #: Whether the head is the whole answer.
    whole: bool
    length: int
    offer: Offer
    #: The language whose words for topics count, in addition to those that all languages share.
    language: str = ""

    def covers(self, sentence: str) -> bool | None:
        """Return whether an offered tool covers the sentence's topic, or None if the sentence has none."""
        return self.offer.covers(sentence, self.language)


def view_of(text: str, names: tuple[str, ...]) -> AnswerView:
    """Return the view of an answer to a request that offered tools with these names."""
    text = text.strip()
    offer = offer_of(names)
    head = _sentences(_without_quotes(text[:MAX_HEAD], offer))
    tail = head if len(text) <= MAX_HEAD else _sentences(_without_quotes(text[-MAX_TAIL:], offer))
    return AnswerView(head, tail, len(text) <= MAX_HEAD, len(text), offer)


def _without_quotes(part: str, offer: Offer) -> str:
    """Fold a part of an answer, with placeholders for quotations and tool names."""

    def mark(match: re.Match[str]) -> str:
        mention = offer.mention.search(fold(match[1])) if offer.mention and match[1] else None
        return "\n" if "\n" in match[0] else f" {NAME if mention else QUOTE} "

    folded = fold(_QUOTED(mark, part) if _MAY_QUOTE(part) else part)
    return offer.distinct_mention.sub(NAME, folded) if offer.distinct_mention else folded


def view_in(view: AnswerView, language: Language) -> AnswerView:
    """Return the view in a language: in its standard spelling, without spaces if its words are matched without."""
    if language.spaces:
        return msgspec.structs.replace(view, language=language.name)

    def close(sentences: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(language.respell(sentence).replace(" ", "") for sentence in sentences)

    return msgspec.structs.replace(view, head=close(view.head), tail=close(view.tail), language=language.name)
