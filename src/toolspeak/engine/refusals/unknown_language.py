"""Recognise texts in languages without a table of phrases, and requests that concern an offered tool.

The classifier cannot judge an answer in such a language. If the request concerns a tool, one decision request asks the
model whether to call it. Nothing here decides that an answer is a refusal.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from ...core.types import Tool, is_object
from .answer_view import fold, language_by_letters, offer_of, view_of
from .classifier import candidate_languages, count_common_words
from .refusal_prefix import OPENING
from .tables import OTHER, language, phrases

#: Maximum length of an answer that is checked. A longer one is probably more than a refusal.
MAX_ANSWER = 400
#: Minimum number of words from which the language of a text can be recognised.
_MIN_WORDS = 4
#: The least share of common words in an answer in a supported language, and in a request, which is often shorter.
ANSWER_SHARE, REQUEST_SHARE = 0.2, 0.4
_COUNTED_WORDS = re.compile(r"[^\W\d_][\w']*").findall
_WORDS = re.compile(r"[^\s\d_!-/:-@\[-`{-~]+").findall
#: Letters of scripts in which no supported language is written. The ranges are those of the supported ones.
_OTHER_LETTERS = re.compile(
    r"[^\W\d_\u0000-\u024f\u1e00-\u1eff\u0400-\u052f\u0600-\u06ff\u0900-\u097f\u2000-\u2fff\u3000-\u9fff\uac00-\ud7a3\uff00-\uffef]"
).findall
#: Scripts that do not separate words: Thai, Lao, Burmese, Khmer.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]").match
#: Length of the beginnings by which words are compared, so that endings do not matter, and the shortest such word.
_STEM, _MIN_WORD = 5, 4
#: How many characters of a request, and of the descriptions of all tools, are compared.
_MAX_TEXT = 50_000


def has_known_language(text: str, share: float = ANSWER_SHARE) -> bool | None:
    """Return whether a text is in a language with a table, or None if it is too short to tell.

    >>> has_known_language("Tyvärr har jag ingen tillgång till väderdata just nu.")
    False
    """
    text = text[:MAX_ANSWER]
    if len(_OTHER_LETTERS(text)) * 4 >= len(text) > 0:
        return False
    name = language_by_letters(text)
    if name and phrases(name).has("foreign", fold(text)):
        return False
    if name and not language(name).spaces:
        return True
    words = _COUNTED_WORDS(" ".join(view_of(text, ()).head))
    if len(words) < _MIN_WORDS:
        return None
    return max(count_common_words(fold(text)).values()) >= share * len(words)


def may_become_unknown(text: str) -> bool:
    """Return whether the opening of a streamed answer is in a script in which no supported language is written."""
    return bool(_OTHER_LETTERS(text.lstrip()[:1])) and len(text) < OPENING


def concerns_tool(request: str, tools: Sequence[Tool]) -> bool:
    """Return whether a request shares a topic or a word with the name, description or parameters of a tool."""
    request = request[:_MAX_TEXT]
    offer, folded = offer_of(tuple(tool.name for tool in tools)), fold(request)
    if any(offer.covers(folded, name) for name in (OTHER, *candidate_languages(request))):
        return True
    described = " ".join(chain.from_iterable(map(_texts, tools)))
    return not _stems(request).isdisjoint(_stems(described[:_MAX_TEXT]))


def _texts(tool: Tool) -> Iterator[str]:
    yield f"{tool.name} {tool.description}"
    properties = tool.parameters.get("properties") if is_object(tool.parameters) else None
    for name, schema in properties.items() if is_object(properties) else ():
        yield f"{name} {schema.get('description', '')}" if is_object(schema) else name


def _stems(text: str) -> frozenset[str]:
    """Return the beginnings of the words of a text. If a script does not separate words, any piece may be one."""
    words = _WORDS(fold(text))
    pieces = (word[at : at + _STEM] for word in words if _UNSPACED(word) for at in range(len(word) - _STEM + 1))
    stems = (word[:_STEM] for word in words if len(word) >= _MIN_WORD)
    return frozenset((*pieces, *stems))
