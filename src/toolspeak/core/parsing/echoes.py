"""Echo detection: whether a call merely repeats text that the model has read.

A call consists of units: its name with one of its arguments, and each key with its value. It is an echo if every
unit occurs in an untrusted text in call form, whatever the wrapper, dialect or escaping. Without arguments, it is an
echo if its name occurs in call syntax. A value alone is not a unit, so arguments may be copied from documents, and an
example with other values does not match.

Both sides are reduced to the same content first: escapes and entities are decoded, characters are folded, and the
markup between names, keys and values is removed. What remains is a string of words in which a unit is contiguous, so a
comparison is one substring search; the punctuation of short values is compared as well. Every step takes time linear in
the text. The reduced texts are cached.

A unit is not contiguous in a text that has something else between a key and its value, such as a comment or an
attribute. So a call is an echo as well if a text contains the passage that the model has written for it, word by word.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.entities import html5
from itertools import accumulate
from typing import NamedTuple
from unicodedata import category, normalize

import msgspec

from ..bounded_cache import TextCache
from ..types import JSONValue, is_array, is_object

#: How many levels of escapes and entities are decoded.
_MAX_LEVELS = 4
#: Longest string whose punctuation is compared. Longer ones differ in their words.
_MAX_LITERAL = 400
#: Characters of untrusted text that are searched for the calls of one answer, at about three per nanosecond.
_MAX_SEARCHED = 1_000_000_000
#: Number of characters that are searched in the time that one match takes, or one character if a pattern is searched.
_CHARS_PER_MATCH, _CHARS_PER_PATTERN_CHAR = 1000, 32
#: Number of characters that are reduced first to find the passage of a call.
_MIN_WINDOW = 512
#: Number of characters that are processed at a time. Other threads have to wait for the end of each step.
_SLICE_CHARS = 32 * 1024


def _slices(text: str) -> Iterator[str]:
    return (text[at : at + _SLICE_CHARS] for at in range(0, len(text), _SLICE_CHARS))


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


def _numbered(match: re.Match[str]) -> str:
    return _char(int(match[1]) if match[1] else int(match[2], 16))


def _decode_once(text: str) -> str:
    if "\\" in text:
        for literal, escape in _CODE_ESCAPES:
            if literal in text:
                text = escape.sub(lambda match: _char(int(match[match.lastindex or 1], 16)), text)
        for escape in _SPACE_ESCAPES:
            text = text.replace(escape, " ")
    if "&" in text:
        text = _AMPERSANDS.sub("&", text)
        for entity, sign in _SIGNS.items():
            text = text.replace(entity, sign)
        if "&" in text:
            text = _NUMBER_ENTITY.sub(_numbered, text)
            text = _NAMED_ENTITY.sub(lambda match: html5.get(match[1], " "), text)
    return text


def _decode(text: str, levels: int) -> str:
    """Decode escapes and entities until nothing changes. Runs of backslashes and of `amp;` count as one level."""
    previous = ""
    while levels and text != previous:
        previous, text = text, _decode_once(text)
        levels -= 1
    if not text.isascii() and _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# -------------------------------------------------------------------------------------------- folding


#: How many characters are kept with their folded form. Texts of all languages use fewer.
_MAX_FOLDED = 65_536


class _Folding(dict[int, str]):
    """Maps characters to their compatible form without case, marks and invisible characters; fills itself."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        visible = (each for each in normalize("NFKD", char) if category(each) not in ("Mn", "Me", "Cf"))
        folded = "".join(visible).casefold()
        if len(self) < _MAX_FOLDED:
            self[code] = folded
        return folded


_FOLDING = _Folding()
#: Characters outside ASCII, with the few that are between them: so many short matches would take longer.
_NOT_ASCII = re.compile(r"[^\x00-\x7f](?:[\x00-\x7f]{0,8}[^\x00-\x7f]){0,1000}")


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    return "".join(
        _NOT_ASCII.sub(lambda match: match.group().translate(_FOLDING), each.lower()) for each in _slices(text)
    )


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
        ("[", r"(?!true\]|false\]|null\]|none\])/?[a-z]{2,9}(?:_[a-z]{2,9})?\]"),
        # Closing tags, attributes, and words that only say what a tag contains. Folding makes `｜` a plain bar.
        ("</", r"[^<>=]{1,160}>"),
        *((word, _ATTRIBUTE) for word in (" string=", " type=", " index=")),
        ("<", rf"(?=[a-z|])(?:[a-z]{{2,9}}:|\|[a-z]{{2,9}}\|)?(?:{_TAG_WORDS})(?: ?name(?==)|(?=[\s=>/]))"),
        ("<|", r"[^<>\n|]{0,64}\|>"),
        ("action input", " ?:"),
        *((word, _OBJECT) for word in ("arguments", "parameters", "args", "params", "input", "tool_input")),
        ("```", r"\w{0,16}"),
        (".call(", ""),
    )
)
#: Keys of the name in a JSON object.
_NAME_LABELS = ("name", "tool", "function", "toolname", "")
#: Words, and numbers with their sign and decimals.
_WORDS = re.compile(r"-?\d+(?:\.\d+)*+|[^\W\d_]+").findall
#: A character that is no part of a number, and two letters of one word.
_OUTSIDE_NUMBERS = re.compile(r"[^\d.-]").search
_TWO_LETTERS = re.compile(r"[^\W\d_]{2}").match
#: Maximum number of characters that markup takes, with those after it that decide whether it is markup.
_MAX_MARKUP_CHARS = 256
#: What comes before a name in call syntax: a tag, a key for names, or a special token; and what comes after it.
_BEFORE_NAME = re.compile(
    r".*(?:<|functions\.|[|>]\s?|(?<![a-z])(?:name|tool|function|action|call|invoke|recipient|to)[\"']?\s?[:=]\s?[\"'`]{0,3})\Z",
    re.DOTALL,
).match
_AFTER_NAME = frozenset("({[")
_QUOTES = frozenset("\"'")
_CLOSING = "</"
_WORD_OR_END = re.compile(r"[^\W_]|[)}\]]|</|/>").search
#: Characters after a name in which its arguments begin, if it has any.
_MAX_AFTER_NAME = 160
#: What makes a value longer: a path, an address or a number goes on.
_LONGER = re.compile(r"[/.@:+*~%#-]+\w").match
#: Whether a reduced key looks like a word of the markup.
_is_markup_word = re.compile(_TAG_WORDS.replace("_", "_?")).fullmatch
#: An entity without its semicolon at the end of a value, where a reader took the semicolon for a separator.
_HALF_ENTITY = re.compile(r"&(?:#\w{1,7}|quot|apos|lt|gt|amp)\Z").search
_MAX_HALF_ENTITY = 9
#: A key with an invisible character, which a reader took for part of a value.
_INVISIBLE_KEY = re.compile(r"\w*+[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]\w*+(?:\Z|[=:])").match
#: Words between a name and its arguments that may also be keys.
_CONTAINERS = ("input", "args", "arguments", "parameters", "params", "toolinput")
_SYMBOLS = re.compile(r"[^\w\x00-\x7f]+")
_QUOTE_SIGNS = str.maketrans("", "", "\"'`“”‘’\\")


#: The number of a line, as tools that show files write it.
_LINE_NUMBER = re.compile(r"(?m)^[ ]{0,8}\d{1,6}(?:\t|→)")


def _plain(text: str, levels: int = _MAX_LEVELS) -> str:
    """Decode and fold a text, and collapse its white space."""
    folded = _fold(_decode(text, levels).replace("\\", ""))
    if "\t" in folded or "→" in folded:
        folded = _LINE_NUMBER.sub("", folded)
    for char in "\t\r\f\v\xa0":
        folded = folded.replace(char, " ")
    for double in ("  ", "\n ", "\n\n"):
        folded = _collapse(folded, double)
    return folded


def _collapse(text: str, double: str) -> str:
    """Replace two characters by the first until they do not occur, in each slice and then in the whole."""
    if double in text and len(text) > _SLICE_CHARS:
        text = "".join(_collapse(each, double) for each in _slices(text))
    while double in text:
        text = text.replace(double, double[0])
    return text


def _words(plain: str, key_words: frozenset[str] = frozenset()) -> list[str]:
    """Return the words of a plain text without the markup of calls."""
    text = _without_markup(plain, key_words=key_words)
    words: list[str] = []
    start = 0
    while start < len(text):
        cut = _OUTSIDE_NUMBERS(text, start + _SLICE_CHARS)
        end = len(text) if cut is None else cut.end()
        found = _WORDS(text, start, end)
        if start and _TWO_LETTERS(text, start - 1) is not None:
            words[-1] += found.pop(0)  # a word was cut in two
        words += found
        start = end
    return words


def _without_markup(plain: str, besides: str = "", key_words: frozenset[str] = frozenset()) -> str:
    """Remove the markup of calls, besides that which begins with one literal or consists of one of the `key_words`."""

    def replacement(match: re.Match[str]) -> str:
        return match.group() if "".join(_WORDS(match.group())) in key_words else " "

    for literal, markup in _MARKUP:
        if literal in plain and literal != besides:
            plain = _replace(markup, replacement if key_words else lambda _: " ", plain)
    return plain


def _replace(markup: re.Pattern[str], replacement: Callable[[re.Match[str]], str], text: str) -> str:
    """Replace all markup as `markup.sub` does, but slice by slice."""
    pieces: list[str] = []
    start = done = 0
    while start < len(text):
        end = start + _SLICE_CHARS
        for match in markup.finditer(text, start, end + _MAX_MARKUP_CHARS):
            if match.start() >= end:
                break
            pieces += text[done : match.start()], replacement(match)
            done = match.end()
        start = max(end, done)
    return "".join([*pieces, text[done:]])


class _LimitExceeded(Exception):
    """Raised when the calls of one answer would take too long to compare."""


class _SearchLimit:
    """The amount of text that may still be searched for the calls of one answer."""

    def __init__(self) -> None:
        self._remaining = _MAX_SEARCHED

    @property
    def is_exceeded(self) -> bool:
        return self._remaining < 0

    def spend(self, chars: int) -> None:
        self._remaining -= chars
        if self.is_exceeded:
            raise _LimitExceeded


class _Words:
    """The words of a text, joined, with the positions where words end."""

    __slots__ = ("_ends", "content")

    def __init__(self, plain: str, key_words: frozenset[str] = frozenset()) -> None:
        words = _words(plain, key_words)
        self.content = "".join(words)
        # An array, because a list of the words would take ten times the memory of the text.
        self._ends = array("I", accumulate(map(len, words)))

    def contains(self, parts: Sequence[str], open_end: bool, limit: _SearchLimit) -> bool:
        """Whether the parts follow each other, each ending with a word. `open_end`: the last may end within one."""
        needle = "".join(parts)
        limit.spend(len(self.content))
        at = self.content.find(needle)
        if at < 0 or not needle:
            return False
        inner = [*accumulate(map(len, parts))]
        if open_end:
            inner.pop()
        while at >= 0:
            if all(self._is_end(at + offset) for offset in inner):
                return True
            limit.spend(_CHARS_PER_MATCH)
            at = self.content.find(needle, at + 1)
        return False

    def find(self, needle: str, start: int, limit: _SearchLimit) -> int:
        """Return where a needle of whole words begins at or after `start`; -1 if nowhere."""
        at = self.content.find(needle, start)
        limit.spend((at if at >= 0 else len(self.content)) - start)
        while at >= 0 and not (self._is_end(at) and self._is_end(at + len(needle))):
            limit.spend(_CHARS_PER_MATCH)
            at = self.content.find(needle, at + 1)
        return at

    def _is_end(self, at: int) -> bool:
        index = bisect_left(self._ends, at)
        return at == 0 or (index < len(self._ends) and self._ends[index] == at)


class _ReducedText:
    """An untrusted text, reduced to its words: as they are, and as if the text had no white space."""

    __slots__ = ("_plain", "_squeezed", "_tight", "_unquoted", "_with_keys", "words")

    def __init__(self, text: str) -> None:
        self._plain = _plain(text)
        self.words = _Words(self._plain)
        self._tight: _Words | None = None
        self._with_keys: tuple[frozenset[str], _Words] | None = None
        self._unquoted: str | None = None
        self._squeezed: dict[str, str] = {}  # texts without their white space, by text

    def contains(self, parts: Sequence[str], open_end: bool, keys: frozenset[str], limit: _SearchLimit) -> bool:
        """Whether the parts follow each other, even if white space was added within words or markup.

        `keys`: keys of the call that look like markup.
        """
        if self.words.contains(parts, open_end, limit):
            return True
        if keys and self._words_with(keys).contains(parts, open_end, limit):
            return True
        if self._tight is None:
            self._tight = _Words(self._squeeze(self._plain))
        return self._tight.contains(parts, open_end, limit)

    def _words_with(self, keys: frozenset[str]) -> _Words:
        if self._with_keys is None or self._with_keys[0] != keys:
            self._with_keys = (keys, _Words(self._plain, keys))
        return self._with_keys[1]

    def _squeeze(self, text: str) -> str:
        """Remove the white space of a form of this text. Done once, because texts are long."""
        if text not in self._squeezed:
            self._squeezed[text] = "".join(text.split())
        return self._squeezed[text]

    def _without_quotes(self) -> str:
        if self._unquoted is None:
            self._unquoted = _unquote(self._plain)
        return self._unquoted

    def has_value(self, value: str, limit: _SearchLimit) -> bool:
        """Whether a value of one line occurs with its punctuation, and not only as the beginning of a longer one."""
        text = self._without_quotes()
        limit.spend(len(text))
        at = text.find(value)
        if at < 0:
            return "".join(value.split()) in self._squeeze(text)
        while at >= 0:
            if _LONGER(text, at + len(value)) is None:
                return True
            limit.spend(_CHARS_PER_MATCH)
            at = text.find(value, at + 1)
        return False

    def has_sign(self, sign: str) -> bool:
        """Whether a text without white space occurs, whatever white space the untrusted text has."""
        return not sign or sign in self._plain or sign in self._squeeze(self._plain)

    def has_symbols(self, value: str) -> bool:
        """Whether a value of symbols outside ASCII occurs, or may occur in an escape that was not decoded."""
        return value in self._plain or "\ufffd" in self._plain

    def has_signs_after(self, labels: Sequence[str], value: str, limit: _SearchLimit) -> bool:
        """Whether a value without letters and digits follows its key or the name of the call."""
        limit.spend(_CHARS_PER_PATTERN_CHAR * len(self._plain))
        between = r"(?:[=:,|({\[>\s]|</?[^<>]{0,60}>|<\|[^<>|]{0,40}\|>|(?:type|string)=\w{1,16}){0,8}"
        labelled = "|".join(re.escape(label) for label in labels)
        return re.search(rf"(?:{labelled}){between}{re.escape(value)}(?!\w)", self._without_quotes()) is not None

    def has_call_of(self, name: str, bare: bool) -> bool:
        """Whether the folded name occurs in call syntax, not just in a sentence. `bare`: and without arguments."""
        plain = self._plain
        at = plain.find(name)
        while at >= 0:
            end = at + len(name)
            if _is_in_call_syntax(plain, at, end) and not (bare and _has_arguments(plain[end : end + _MAX_AFTER_NAME])):
                return True
            at = plain.find(name, end)
        return False


def _is_in_call_syntax(plain: str, at: int, end: int) -> bool:
    after = plain[end : end + 4].lstrip(" \n>")
    if after[:1] in _AFTER_NAME or _BEFORE_NAME(plain, max(0, at - 64), at) is not None:
        return True
    return after[:1] in _QUOTES and after[1:].lstrip()[:1] == ":" and plain[end + 2 : end + 8].lstrip(' ":')[:1] == "{"


def _has_arguments(after: str) -> bool:
    """Whether a word follows before a bracket or a tag closes the call."""
    end = _WORD_OR_END(_without_markup(after.replace("<|close|>", _CLOSING), besides=_CLOSING))
    return end is not None and end.group().isalnum()


_reduced = TextCache(_ReducedText).__getitem__


# ------------------------------------------------------------------------------------------- searching


class _Argument(NamedTuple):
    key: str
    #: The forms that its value may have in a text.
    forms: tuple[str, ...]
    #: A string of one line, folded and without quotes; empty for other values.
    literal: str
    #: A string that consists of symbols outside ASCII, folded; empty for other values.
    symbols: str


def words_of(text: str) -> list[str]:
    """Return the words of a text, reduced as they are for comparisons."""
    return _words(_plain(text))


_NO_WORDS = _Words("")


class WrittenText:
    """The answer so far, in which the passage that the model wrote as a call is found.

    Text after the call never changes which passage is found, so the verdict is the same if the answer is streamed.
    """

    def __init__(self) -> None:
        self._text = ""
        self._pieces: list[str] = []  # received after the text
        self._dropped = self._length = 0  # number of characters dropped before the text, and received in all
        self._begin = 0  # the earliest position of the next call
        self._known = 0  # number of characters from there that are reduced to words
        self._words = _NO_WORDS
        self._start = 0  # the earliest position of the next call in these words

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def begin_block(self, chars: int) -> None:
        """Begin a block of calls, which is the last `chars` characters so far."""
        self._begin = self._length - chars
        self._known = self._start = 0
        self._words = _NO_WORDS

    def continue_block(self, chars: int) -> None:
        """Forget the block before its last `chars` characters, where its next call begins at the earliest."""
        before, start = self._length - chars - self._begin, self._start
        if start:
            start -= len(_Words(_plain(self._following(before))).content)
        self.begin_block(chars)
        self._start = max(0, start)

    def passage(self, name: str, arguments: JSONValue, limit: _SearchLimit) -> str:
        """Return the passage from the name of a call to its last value, or from its first key to its name.

        Of several passages, return the one that ends first, and of these the shortest. If there is none, return "".
        The passage is reduced to its words, and so is `name`.
        """
        values = [_reduce(part, _MAX_LEVELS) for part in _parts(arguments)]
        values = [value for value in values if value and not _is_markup_word(value)]
        orders = ([name, *values], [*values, name]) if values else ()
        while orders:
            words, is_complete = self._words, self._begin + self._known >= self._length
            ends = [(_end_of_all(words, parts, self._start, limit), parts) for parts in orders]
            end, parts = min((each for each in ends if each[0] >= 0), default=(-1, ()), key=lambda each: each[0])
            if is_complete or -1 < end < len(words.content):
                return self._take(parts, end) if end >= 0 else ""
            self._widen(limit)
        return ""

    def _following(self, chars: int) -> str:
        """Return the first `chars` characters from the earliest position of the next call."""
        if self._pieces:
            self._text = "".join([self._text, *self._pieces])[self._begin - self._dropped :]
            self._pieces, self._dropped = [], self._begin
        at = self._begin - self._dropped
        return self._text[at : at + chars]

    def _widen(self, limit: _SearchLimit) -> None:
        """Reduce more of the answer. Not all at once, because a call is a small part of a long answer."""
        window = self._following(max(_MIN_WINDOW, 4 * self._known))
        self._known = len(window)
        limit.spend(self._known)
        self._words = _Words(_plain(window))

    def _take(self, parts: Sequence[str], end: int) -> str:
        at = end
        for part in reversed(parts):
            at = self._words.content.rfind(part, 0, at)
        self._start = end  # the next call begins after this one
        return self._words.content[at:end]


def _end_of_all(words: _Words, parts: Sequence[str], at: int, limit: _SearchLimit) -> int:
    """Return the end of the last of the parts, which follow each other from `at` with anything between; -1 if not."""
    for part in parts:
        at = words.find(part, at, limit) if at >= 0 else at
        at += len(part) if at >= 0 else 0
    return at


def _parts(value: JSONValue) -> Iterator[str]:
    """Yield the keys and the strings and numbers of a value in their order."""
    if is_object(value):
        for key, member in value.items():
            yield key
            yield from _parts(member)
    elif is_array(value):
        for item in value:
            yield from _parts(item)
    else:
        yield _forms(value)[0]


class EchoSearch:
    """Search for echoes in a set of untrusted texts, which are reduced when they are first needed.

    `declared`: those of the texts that tell the model how to call tools, so they contain names in call syntax.

    The amount of text that is searched is limited. A call beyond that is an echo if a text contains its name in call
    syntax.
    """

    def __init__(self, texts: Iterable[str], declared: Iterable[str] = ()) -> None:
        self._texts = tuple(dict.fromkeys(text for text in texts if text))
        self._declared = frozenset(declared)
        self._limit = _SearchLimit()
        self._mentioned: dict[str, bool] = {}  # whether a text contains a name
        self._called: dict[str, bool] = {}  # and whether it does so in call syntax

    def may_contain(self, name: str) -> bool:
        """Whether a text mentions the tool, so that its calls must be compared."""
        if not self._texts:
            return False
        if name not in self._mentioned:
            needle = "".join(_words(_plain(name)))
            self._mentioned[name] = any(needle in _reduced(text).words.content for text in self._texts)
        return self._mentioned[name]

    def contains(
        self, name: str, arguments: JSONValue, open_end: bool = False, goes_on: bool = False, apart: bool = False
    ) -> bool:
        """Whether the texts contain every unit of the call.

        `open_end`: the last value was cut off. `goes_on`: a value may go on after the copied part, so the name decides.
        `apart`: something else, such as an id, may be between the name and the arguments.
        """
        if not self._texts:
            return False
        if not is_object(arguments) or not arguments:
            return self._contains_name(name)
        if (goes_on or _is_misread(arguments)) and self._contains_name(name):
            return True
        if not self.may_contain(name):
            return False
        if self._limit.is_exceeded:
            return self._contains_name(name)
        keys = frozenset(filter(_is_markup_word, ("".join(_words(_plain(key))) for key in arguments)))
        views = [frozenset[str](), keys] if keys else [frozenset[str]()]
        calls = [
            _Call(
                _reduce(name, levels),
                [(key_words, _reduce_arguments(arguments, levels, key_words)) for key_words in views],
                f"{''.join(_plain(name).split())}(",
            )
            for levels in ((_MAX_LEVELS, _MAX_LEVELS - 1) if _is_deep(name, arguments) else (_MAX_LEVELS,))
        ]
        try:
            return any(self._contains_units(call, open_end, apart and self._contains_name(name)) for call in calls)
        except _LimitExceeded:
            return self._contains_name(name)

    def contains_passage(self, name: str, arguments: JSONValue, written: WrittenText) -> bool:
        """Whether a text contains what the model has written as this call, and the name in call syntax."""
        if not is_object(arguments) or not (self.may_contain(name) and self._contains_name(name)):
            return False
        reduced = _reduce_arguments(arguments, _MAX_LEVELS, frozenset())
        tool = _reduce(name, _MAX_LEVELS)
        try:
            passage = written.passage(tool, arguments, self._limit)
            return passage != "" and any(
                text.words.contains([passage], False, self._limit)
                and all(_confirms(text, tool, argument, False, self._limit) for argument in reduced)
                for text in map(_reduced, self._texts)
            )
        except _LimitExceeded:
            return True

    def contains_run(self, words: Sequence[str]) -> bool:
        """Whether a text contains these words of another text, as `words_of` returns them, one after the other."""
        try:
            return any(_reduced(text).words.contains(words, False, self._limit) for text in self._texts)
        except _LimitExceeded:
            return True

    def _contains_name(self, name: str) -> bool:
        """Whether a text contains the name in call syntax."""
        if name not in self._called:
            plain = _plain(name)
            self._called[name] = any(_reduced(text).has_call_of(plain, text in self._declared) for text in self._texts)
        return self._called[name]

    def _contains_units(self, call: _Call, open_end: bool, has_name: bool) -> bool:
        count = len(call.views[0][1])
        whole = range(count)
        if self._has(call, _positional, whole, open_end, call.opening):
            return True
        lasts = [open_end and at == count - 1 for at in whole]
        if not all(self._has(call, _pair, [at], lasts[at]) for at in whole):
            return False
        # The name belongs to the argument next to it, which may be any of them, before it or after it.
        return (
            has_name
            or self._has(call, _name_last, whole)
            or any(self._has(call, _name_first, [at], lasts[at]) or self._has(call, _name_last, [at]) for at in whole)
        )

    def _has(
        self, call: _Call, parts_of: _Parts, chosen: Sequence[int], open_end: bool = False, sign: str = ""
    ) -> bool:
        """Whether a text contains these arguments of the call, arranged in one of the ways that `parts_of` yields.

        `sign`: must occur in the text as well.
        """
        for key_words, arguments in call.views:
            compared = [arguments[at] for at in chosen]
            for parts in parts_of(call.name, compared):
                for text in map(_reduced, self._texts):
                    if (
                        text.contains(parts, open_end, key_words, self._limit)
                        and all(_confirms(text, call.name, argument, open_end, self._limit) for argument in compared)
                        and text.has_sign(sign)
                    ):
                        return True
        return False


class _Call(NamedTuple):
    """A reduced call: its name, and its arguments for each set of words that are not taken for markup."""

    name: str
    views: list[tuple[frozenset[str], list[_Argument]]]
    #: The name and the bracket that opens its arguments if they have no keys.
    opening: str


#: Yields the ways in which a name and some arguments may follow each other in a text.
_Parts = Callable[[str, list[_Argument]], Iterator[Sequence[str]]]


def _positional(name: str, arguments: list[_Argument]) -> Iterator[Sequence[str]]:
    for variant in _variants(arguments):
        if all(value or argument.literal for (_, value), argument in zip(variant, arguments, strict=True)):
            yield name, *(value for _, value in variant)


def _name_last(name: str, arguments: list[_Argument]) -> Iterator[Sequence[str]]:
    for variant in _variants(arguments):
        for label in _NAME_LABELS:
            yield *(part for pair in variant for part in pair), label, name


def _name_first(name: str, arguments: list[_Argument]) -> Iterator[Sequence[str]]:
    for (pair,) in _variants(arguments):
        yield name, *pair
        if _is_markup_word(pair[0]) is not None:
            yield from ((name, container, *pair) for container in _CONTAINERS)


def _pair(name: str, arguments: list[_Argument]) -> Iterator[Sequence[str]]:
    for (pair,) in _variants(arguments):
        yield pair


def _is_deep(name: str, arguments: dict[str, JSONValue]) -> bool:
    """Whether the number of levels that are decoded makes a difference."""
    texts = [name, *arguments, *(form for value in arguments.values() for form in _forms(value))]
    return any(_decode(text, _MAX_LEVELS) != _decode(text, _MAX_LEVELS - 1) for text in texts)


def _is_misread(arguments: dict[str, JSONValue]) -> bool:
    """Whether arguments may have been split in the wrong places, so that the name alone shows an echo."""
    items = [*arguments, *(item for value in arguments.values() for item in (value if is_array(value) else (value,)))]
    return any(isinstance(item, str) and _is_half_value(item) for item in items)


def _is_half_value(text: str) -> bool:
    if "&" in (end := text[-_MAX_HALF_ENTITY:]) and _HALF_ENTITY(end) is not None:
        return True
    return not text.isascii() and _INVISIBLE_KEY(text) is not None


def _confirms(text: _ReducedText, name: str, argument: _Argument, open_end: bool, limit: _SearchLimit) -> bool:
    """Whether a text contains a value with its punctuation, which the comparison of words ignores."""
    if argument.symbols and not open_end:
        return text.has_symbols(argument.symbols)
    if not argument.literal or open_end:
        return True
    if any(argument.forms):
        return text.has_value(argument.literal, limit)
    return text.has_signs_after((argument.key, name), argument.literal, limit)


def _reduce(text: str, levels: int, key_words: frozenset[str] = frozenset()) -> str:
    return "".join(_words(_plain(text, levels), key_words))


def _unquote(plain: str) -> str:
    """Remove quotes, and symbols outside ASCII, which are escaped in many ways."""
    text = plain.translate(_QUOTE_SIGNS)
    if not text.isascii():
        text = _SYMBOLS.sub("", text)
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _reduce_arguments(arguments: dict[str, JSONValue], levels: int, key_words: frozenset[str]) -> list[_Argument]:
    return [
        _Argument(
            _reduce(key, levels, key_words),
            tuple(dict.fromkeys(_reduce(form, levels, key_words) for form in _forms(value))),
            _literal(value, levels),
            _symbols(value, levels),
        )
        for key, value in arguments.items()
    ]


def _literal(value: JSONValue, levels: int) -> str:
    """Return a string of one line as it may stand in a text. Lines may be quoted there, so longer strings do not."""
    if not isinstance(value, str) or len(value) > _MAX_LITERAL:
        return ""
    plain = _unquote(_plain(value, levels)).strip()
    return "" if "\n" in plain else plain


def _symbols(value: JSONValue, levels: int) -> str:
    if not isinstance(value, str) or not value or value.isascii() or len(value) > _MAX_LITERAL:
        return ""
    plain = _plain(value, levels).strip()
    return "" if _unquote(plain).strip() else plain


def _variants(arguments: list[_Argument]) -> Iterator[list[tuple[str, str]]]:
    """Yield keys and values with the first form of each value, then with each further one."""
    for at in range(max(len(argument.forms) for argument in arguments)):
        yield [(argument.key, argument.forms[min(at, len(argument.forms) - 1)]) for argument in arguments]


def _forms(value: JSONValue) -> tuple[str, ...]:
    """Return the texts that may stand for a value: JSON, Python, or a number without its decimals."""
    if isinstance(value, str):
        return (value,)
    if value is None:
        return ("null", "none", "")
    if isinstance(value, float) and value.is_integer():
        return (str(value), str(int(value)))
    json = msgspec.json.encode(value).decode()
    return (json, re.sub(r"\bnull\b", "None", json))
