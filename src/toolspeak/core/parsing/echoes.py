"""Echo detection: whether a call merely repeats text that the model has read.

A call consists of units: its name with one of its arguments, and each key with its value. It is an echo if every
unit occurs in an untrusted text in call form, whatever the wrapper, dialect or escaping. A value alone is not a unit,
so arguments may be copied from documents, and an example with other values does not match.

Both sides are reduced to the same content first: escapes and entities are decoded, characters are folded, and the
markup between names, keys and values is removed. What remains is a string of words in which a unit is contiguous, so a
comparison is one substring search. Every step takes time linear in the text. The reduced texts are cached.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from html.entities import html5
from itertools import accumulate
from unicodedata import category, normalize

import msgspec

from ..types import JSONValue, is_object
from .text_cache import TextCache

#: How many levels of escapes and entities are decoded.
_MAX_LEVELS = 4

# ------------------------------------------------------------------------------------------- decoding

#: Escapes. Further backslashes before them are removed later, so any number of levels counts as one.
_CODE_ESCAPES = (
    ("\\u", re.compile(r"\\u(?:([0-9a-fA-F]{4})|\{([0-9a-fA-F]{1,6})\})")),
    ("\\x", re.compile(r"\\x([0-9a-fA-F]{2})")),
    ("\\U", re.compile(r"\\U([0-9a-fA-F]{8})")),
)
_SPACE_ESCAPES = ("\\n", "\\r", "\\t", "\\b", "\\f", "\\v")
#: An ampersand that was escaped several times.
_AMPERSANDS = re.compile(r"&(?:amp;)++")
_SIGNS = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&#39;": "'", "&#34;": '"', "&nbsp;": " "}
_NUMBER_ENTITY = re.compile(r"&#(?:(\d{1,7})|[xX]([0-9a-fA-F]{1,6}));")
_NAMED_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,30}+;)")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _char(code: int) -> str:
    return chr(code) if code <= sys.maxunicode else " "


def _code_point(match: re.Match[str]) -> str:
    return _char(int(match[match.lastindex or 1], 16))


def _numbered(match: re.Match[str]) -> str:
    return _char(int(match[1]) if match[1] else int(match[2], 16))


def _named(match: re.Match[str]) -> str:
    return html5.get(match[1], " ")


def _decode_once(text: str) -> str:
    if "\\" in text:
        for literal, escape in _CODE_ESCAPES:
            if literal in text:
                text = escape.sub(_code_point, text)
        for escape in _SPACE_ESCAPES:
            text = text.replace(escape, " ")
    if "&" in text:
        text = _AMPERSANDS.sub("&", text)
        for entity, sign in _SIGNS.items():
            text = text.replace(entity, sign)
        if "&" in text:
            text = _NUMBER_ENTITY.sub(_numbered, text)
            text = _NAMED_ENTITY.sub(_named, text)
    return text


def _decode(text: str, levels: int) -> str:
    """Decode escapes and entities until nothing changes. Runs of backslashes and of `amp;` count as one level."""
    previous = ""
    while levels and text != previous:
        previous, text = text, _decode_once(text)
        levels -= 1
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# -------------------------------------------------------------------------------------------- folding


class _Folding(dict[int, str]):
    """Maps characters to their compatible form without case, marks and invisible characters; fills itself."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        kept = (each for each in normalize("NFKD", char) if category(each) not in ("Mn", "Me", "Cf"))
        folded = "".join(kept).casefold()
        self[code] = folded
        return folded


_FOLDING = _Folding()
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def _fold(text: str) -> str:
    text = text.lower()
    return text if text.isascii() else _NOT_ASCII.sub(_folded, text)


def _folded(match: re.Match[str]) -> str:
    return match.group().translate(_FOLDING)


# --------------------------------------------------------------------------------------- call markup

#: Words of tags around calls, names, keys and values, without prefixes such as `antml:`.
_TAG_WORDS = (
    "tool_calls?|function_calls?|tool_use|tool_request|tool_sep|tools?|invoke|function|parameters?|params?|"
    "(?:longcat_)?arg_(?:key|value)|args?|arguments?|input|tool_name|tool_input|name|action|call|escape|item|json"
)
_ATTRIBUTE = r'"?\w{1,16}"?(?=\s?/?>|<\|sep)'
#: What introduces an object of arguments.
_OBJECT = r"\b\W{0,3}[:=](?:\s?(?=[\"'`]{0,3}[{\[(])|\s?\n)"
#: Markup that may occur between a name, a key and a value, each with the literal that it begins with. The text is in
#: lower case, its white space is collapsed, and it has no backslashes.
_MARKUP = tuple(
    (literal, re.compile(re.escape(literal) + rest))
    for literal, rest in (
        # Special tokens, with what belongs to them.
        (":", r"\d{1,4}(?=\s?<\|tool_call_argument)"),
        (" code<|message", ""),
        ("<|constrain|>", r"\w{0,16}"),
        ("<|open|>", r"(?:tools|call|argument)\b(?: (?:tool|key)(?==))?"),
        ("<|close|>", r"\w{0,16}"),
        ("[call_id]", r"\w{0,64}"),
        ("[", r"/?[a-z]{2,9}(?:_[a-z]{2,9})?\]"),
        # Closing tags, attributes, and words that only say what a tag contains. Folding makes `｜` a plain bar.
        ("</", r"[^<>]{1,160}>"),
        (" string=", _ATTRIBUTE),
        (" type=", _ATTRIBUTE),
        (" index=", _ATTRIBUTE),
        ("<", rf"(?=[a-z|])(?:[a-z]{{2,9}}:|\|[a-z]{{2,9}}\|)?(?:{_TAG_WORDS})(?: ?name(?==)|(?=[\s=>/]))"),
        ("<|", r"[^<>\n|]{0,64}\|>"),
        ("action input", " ?:"),
        ("arguments", _OBJECT),
        ("parameters", _OBJECT),
        ("args", _OBJECT),
        ("params", _OBJECT),
        ("input", _OBJECT),
        ("tool_input", _OBJECT),
        ("```", r"\w{0,16}"),
        (".call(", ""),
    )
)
#: Keys of the name in a JSON object.
_NAME_LABELS = ("name", "tool", "function", "toolname", "")
#: Words, and numbers with their sign and decimals.
_WORDS = re.compile(r"-?\d+(?:\.\d+)*+|[^\W\d_]+").findall
#: What comes before or after a name in call syntax. A name in quotes needs a key or a bracket before it.
_BEFORE_NAME, _AFTER_NAME = frozenset("<=:>|"), frozenset("({[")
_NAMESPACE = "functions."
_CLOSING = "</"
_WORD_OR_END = re.compile(r"[^\W_]|[)}\]]|</|/>").search
#: Characters after a name in which its arguments begin, if it has any.
_MAX_AFTER_NAME = 160
_QUOTES, _BEFORE_QUOTE = frozenset("\"'"), frozenset(":=([,{")


def _plain(text: str, levels: int = _MAX_LEVELS) -> str:
    """Decode and fold a text, and collapse its white space."""
    folded = _fold(_decode(text, levels).replace("\\", ""))
    for char in "\t\r\f\v\xa0":
        folded = folded.replace(char, " ")
    for double in ("  ", "\n ", "\n\n"):
        while double in folded:
            folded = folded.replace(double, double[0])
    return folded


def _words(plain: str) -> list[str]:
    """Return the words of a plain text without the markup of calls."""
    return _WORDS(_without_markup(plain))


def _without_markup(plain: str, besides: str = "") -> str:
    """Remove the markup of calls, besides that which begins with one literal."""
    for literal, markup in _MARKUP:
        if literal in plain and literal != besides:
            plain = markup.sub(" ", plain)
    return plain


class _Words:
    """The words of a text, joined, with the positions where words end."""

    __slots__ = ("_ends", "content")

    def __init__(self, plain: str) -> None:
        words = _words(plain)
        self.content = "".join(words)
        # An array, because a list of the words would take ten times the memory of the text.
        self._ends = array("I", accumulate(map(len, words)))

    def contains(self, parts: Sequence[str], open_end: bool) -> bool:
        """Whether the parts follow each other, each ending with a word. `open_end`: the last may end within one."""
        needle = "".join(parts)
        at = self.content.find(needle)
        if at < 0 or not needle:
            return False
        inner = [*accumulate(map(len, parts))]
        if open_end:
            inner.pop()
        while at >= 0:
            if all(self._is_end(at + offset) for offset in inner):
                return True
            at = self.content.find(needle, at + 1)
        return False

    def _is_end(self, at: int) -> bool:
        index = bisect_left(self._ends, at)
        return at == 0 or (index < len(self._ends) and self._ends[index] == at)


class _ReducedText:
    """An untrusted text, reduced to its words: as they are, and as if the text had no white space."""

    __slots__ = ("_plain", "_tight", "words")

    def __init__(self, text: str) -> None:
        self._plain = _plain(text)
        self.words = _Words(self._plain)
        self._tight: _Words | None = None

    def contains(self, parts: Sequence[str], open_end: bool) -> bool:
        """Whether the parts follow each other, even if white space was added within words or markup."""
        if self.words.contains(parts, open_end):
            return True
        if self._tight is None:
            self._tight = _Words("".join(self._plain.split()))
        return self._tight.contains(parts, open_end)

    def has_bare_call(self, name: str) -> bool:
        """Whether a call to the folded name without arguments occurs, not just its name in a sentence."""
        plain = self._plain
        at = plain.find(name)
        while at >= 0:
            end = at + len(name)
            if _is_in_call_syntax(plain, at, end) and _has_no_arguments(plain[end : end + _MAX_AFTER_NAME]):
                return True
            at = plain.find(name, end)
        return False


def _is_in_call_syntax(plain: str, at: int, end: int) -> bool:
    before = plain[max(0, at - 12) : at].rstrip()
    if plain[end : end + 2].lstrip()[:1] in _AFTER_NAME or before[-1:] in _BEFORE_NAME or before.endswith(_NAMESPACE):
        return True
    return before[-1:] in _QUOTES and before[:-1].rstrip()[-1:] in _BEFORE_QUOTE


def _has_no_arguments(after: str) -> bool:
    """Whether a bracket or a tag closes the call before any word follows."""
    end = _WORD_OR_END(_without_markup(after.replace("<|close|>", _CLOSING), besides=_CLOSING))
    return end is None or not end.group().isalnum()


_reduced = TextCache(_ReducedText).get


# ------------------------------------------------------------------------------------------- searching


class EchoSearch:
    """Search for echoes in a set of untrusted texts, which are reduced when they are first needed."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(dict.fromkeys(text for text in texts if text))

    def may_contain(self, name: str) -> bool:
        """Whether a text mentions the tool, so that its calls must be compared."""
        needle = "".join(_words(_plain(name)))
        return any(needle in _reduced(text).words.content for text in self._texts)

    def contains(self, name: str, arguments: JSONValue, open_end: bool = False) -> bool:
        """Whether the texts contain every unit of the call. `open_end`: the last value was cut off."""
        if not self._texts:
            return False
        if not is_object(arguments) or not arguments:
            plain = _plain(name)
            return any(_reduced(text).has_bare_call(plain) for text in self._texts)
        if not self.may_contain(name):
            return False
        calls = [(_reduce(name, levels), _reduce_items(arguments, levels)) for levels in (_MAX_LEVELS, _MAX_LEVELS - 1)]
        if calls[0] == calls[1]:
            calls.pop()
        return any(self._contains_units(*call, open_end) for call in calls)

    def _contains_units(self, name: str, items: list[tuple[str, tuple[str, ...]]], open_end: bool) -> bool:
        for variant in _variants(items):
            values = [value for _, value in variant]
            pairs = [part for pair in variant for part in pair]
            if all(values) and self._has((name, *values), open_end):  # positional arguments
                return True
            if any(self._has((*pairs, label, name), False) for label in _NAME_LABELS):  # a JSON object in that order
                return True
        # The name belongs to the argument that comes first in the text, which may be any of them.
        lasts = [open_end and at == len(items) - 1 for at in range(len(items))]
        units = [[(key, value) for value in values] for key, values in items]
        if not any(self._has((name, *pair), last) for pairs, last in zip(units, lasts, strict=True) for pair in pairs):
            return False
        return all(any(self._has(pair, last) for pair in pairs) for pairs, last in zip(units, lasts, strict=True))

    def _has(self, parts: Sequence[str], open_end: bool) -> bool:
        return any(_reduced(text).contains(parts, open_end) for text in self._texts)


def _reduce(text: str, levels: int) -> str:
    return "".join(_words(_plain(text, levels)))


def _reduce_items(arguments: dict[str, JSONValue], levels: int) -> list[tuple[str, tuple[str, ...]]]:
    """Return the reduced keys, each with the reduced forms that its value may have in a text."""
    return [
        (_reduce(key, levels), tuple(dict.fromkeys(_reduce(form, levels) for form in _forms(value))))
        for key, value in arguments.items()
    ]


def _variants(items: list[tuple[str, tuple[str, ...]]]) -> Iterator[list[tuple[str, str]]]:
    """Yield the items with the first form of each value, then with the last one if they differ."""
    yield [(key, values[0]) for key, values in items]
    if any(len(values) > 1 for _, values in items):
        yield [(key, values[-1]) for key, values in items]


def _forms(value: JSONValue) -> tuple[str, ...]:
    """Return the texts that may stand for a value: JSON, Python, or a number without its decimals."""
    if isinstance(value, str):
        return (value,)
    if value is None:
        return ("null", "none", "")
    if isinstance(value, float) and value.is_integer():
        return (str(value), str(int(value)))
    return (msgspec.json.encode(value).decode(), _as_python(value))


def _as_python(value: JSONValue) -> str:
    return re.sub(r"\bnull\b", "None", msgspec.json.encode(value).decode())
