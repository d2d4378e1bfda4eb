"""Pure functions that decide whether an ambiguous quote closes its string or is an unescaped part of it.

In valid JSON, few characters may follow a closing quote. If anything else follows, the quote is part of the text. Valid
JSON is never changed. Models that forget to escape a quote usually forget it for both quotes of a pair. So after an
inner quote that looks like an opening one, the next quote is taken as its partner.
"""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from . import lookahead as look

#: Where a string occurs. An `element` of an array or an `argument` of a call may still turn out to be a key.
Place = Literal["key", "object", "array", "element", "call", "argument", "root"]

_ITEMS = frozenset({"array", "element", "argument"})
_CALLS = frozenset({"call", "argument"})
_FENCE = ("```",)
#: Stray words between a value and the next delimiter. A longer run of words is text.
_STRAY = re.compile(r"\w[\w \t-]{0,62}").match
#: Stray words in an array, where they form an unquoted element.
_STRAY_ITEM = re.compile(r"\w[^\"“”,{}\[\]()\n]{0,62}").match
_WORD = re.compile(r"\w+").match
_BRACKETS = re.compile(r"[{\[(]|[}\])][}\])\s]*").finditer
_ELLIPSIS = ("...",)
#: What may follow a Python call, apart from marks: closing brackets, then another call with named arguments or none.
_CALL_CLOSERS = look.always_matching(r"[)\]}\s]*")
_MARKS = ("</", "<|", "<｜")
_NEXT_CALL = re.compile(r"[^\W\d][\w.]{0,127}+\(\s*(?:\)|[^\W\d]\w{0,127}+\s*=)|\{").match
_NEXT_CALL_PARTIAL = re.compile(r"(?:[^\W\d][\w.]{0,127}+(?:\(\s*(?:[^\W\d]\w{0,127}+\s*)?)?)?").fullmatch
#: Quoted strings separated by commas.
_QUOTED_ITEMS = re.compile(r'(?:"[^"]*"\s*,\s*)*"[^"]*"\s*').match


class QuoteContext(NamedTuple):
    """The context that decides, along with the text that follows, whether a quote closes its string."""

    place: Place
    #: The closing brackets of the open containers, innermost last.
    closers: str = ""
    #: Stop marks, which end the whole value wherever they occur.
    stops: tuple[str, ...] = ()
    #: The characters that may close this string.
    ends: str = '"'
    #: Whether an unescaped inner quote is open, so that its partner is expected.
    inner: bool = False
    #: Whether the keys of the object are flags without commas between them, as in `--key "value"`.
    flags: bool = False
    #: Whether the string contains an unescaped quote already.
    torn: bool = False
    #: Whether the text ends with the window.
    final: bool = False


def closes(buf: str, pos: int, final: bool, around: QuoteContext) -> look.Tristate:
    """Whether the quote just before `pos` closes its string; `None` if more text is needed."""
    if around.place == "root":
        return True
    window = buf[pos : pos + look.LOOKAHEAD]
    is_all = final and len(window) < look.LOOKAHEAD
    answer = _decide(window, around._replace(final=is_all) if around.torn else around)
    if answer is None and final:
        return True
    if answer is None and len(window) == look.LOOKAHEAD:
        return not around.inner
    return answer


def opens_inner(buf: str, pos: int) -> bool:
    """Whether the inner quote just before `pos` looks like an opening quote."""
    char = buf[pos : pos + 1]
    return not char.isspace() and char not in ".,;:!?)-"


def _decide(window: str, around: QuoteContext) -> look.Tristate:
    at = look.skip_spaces(window, 0)
    if at == len(window):
        return None
    mark = look.begins(window, at, _visible(around.stops))
    if mark is not False:
        return mark
    char = window[at]
    if around.place == "key":
        return _after_key(window, at)
    if char in "/#":
        return False if around.inner else look.begins(window, at, look.COMMENTS)
    if char in look.CLOSERS:
        return _before_closer(window, at, around)
    if char in look.COMMAS:
        return _before_comma(window, look.skip_spaces(window, at + 1), around)
    if around.inner:
        return False
    return _before_other(window, at, around)


@lru_cache(maxsize=64)
def _visible(stops: tuple[str, ...]) -> tuple[str, ...]:
    """Return the stop marks without leading spaces, and the code fence."""
    return (*(stop.lstrip() for stop in stops), *_FENCE)


def _after_key(window: str, at: int) -> look.Tristate:
    """Whether a key may end here: before a colon, before a comma or bracket in a set, or before a value."""
    char = window[at]
    if char in look.QUOTES:
        return True if at > 0 else look.quoted_colon(window, at)
    if char in look.COLONS or char in look.COMMAS or char in "}{[)/#\\":
        return True
    return at > 0 and (char.isdigit() or char == "-")


def _before_closer(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether a quote before a closing bracket closes its string: the bracket is expected, and no text follows."""
    after = at + 1
    if look.CLOSERS[window[at]] not in around.closers:
        return False if around.inner else _before_wrong_closer(window, after, around)
    if after == len(window):
        return None
    if window[after] in around.ends:
        # The string continues, as in `"}" there"`. If nothing follows, the whole value was quoted.
        return None if look.skip_spaces(window, after + 1) == len(window) else False
    if around.inner:
        return _leaves_inner(window, at, around)
    if len(around.closers) == 1:
        is_torn_call = around.torn and around.place in _CALLS
        return may_follow_call(window[after:], around.stops, around.final) if is_torn_call else True
    after = look.skip_spaces(window, after)
    return None if after == len(window) else not window[after].isalnum()


def may_follow_call(text: str, stops: tuple[str, ...], final: bool) -> look.Tristate:
    """Whether a Python call may end before this text: a mark, another call or nothing follows, after any brackets."""
    closers = _CALL_CLOSERS(text)
    at = closers.end()
    if at == len(text):
        return None
    mark = look.begins(text, at, (*_visible(stops), *_MARKS))
    if mark is not False:
        return mark
    if text[at] in ",;":
        at = look.skip_spaces(text, at + 1)
    elif "\n" not in closers.group():
        return False
    if _NEXT_CALL(text, at) is not None:
        return True
    return None if not final and _NEXT_CALL_PARTIAL(text, at) is not None else False


def _before_wrong_closer(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether the expected closing bracket is at `at`, right after a superfluous one."""
    if at == len(window):
        return None
    right = window[at] in look.CLOSERS and look.CLOSERS[window[at]] in around.closers
    return right and _before_closer(window, at, around)


def _leaves_inner(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether a quote closes its string although an inner quote is open: all containers must close next. A quote right
    after a closing bracket means that the string contains a document, such as `{"a": "x", "b": "y"}`."""
    depth = len(around.closers)
    for brackets in _BRACKETS(window, at):
        if brackets.end() == len(window):
            return None
        depth += sum((char in look.OPENERS) - (char in look.CLOSERS) for char in brackets.group())
        if window[brackets.start()] in look.CLOSERS and window[brackets.end()] in around.ends:
            return False
        if depth <= 0 and around.place in _CALLS:
            return may_follow_call(window[brackets.start() + 1 :], around.stops, around.final)
        if depth <= 0 and window[brackets.end()] not in look.COMMAS:
            return "\n" in brackets.group() or not window[brackets.end()].isalnum()
    return None


def _before_comma(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether a quote before a comma closes its string: a key (in an array, a value) begins after the comma."""
    if at == len(window):
        return None
    if around.inner:
        return (_items_leave_inner if around.place in _ITEMS else _key_leaves_inner)(window, at, around)
    char = window[at]
    if char in look.CLOSERS or char in look.COMMAS or char in "/#":
        return True
    if char == "{" and around.closers[-2:-1] == "]":  # the next object of an array; the current one was not closed
        return True
    ellipsis = look.begins(window, at, _ELLIPSIS)
    if ellipsis is not False:
        return ellipsis
    if around.place in _ITEMS:
        return _item_ahead(window, at, around)
    key = look.key_ahead(window, at)
    return _stray_ahead(window, at, around) if key is False else key


def _key_leaves_inner(window: str, at: int, around: QuoteContext) -> look.Tristate:
    key = look.key_ahead(window, at)
    return _leaves_inner(window, at, around) if key else key


def _items_leave_inner(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether a quote before a comma closes its string: only quoted strings follow, up to the end of the array."""
    if window[at] != '"':
        return False
    items = _QUOTED_ITEMS(window, at)
    if items is None or items.end() == len(window):
        return None
    after = items.end()
    if window[after] in look.COMMAS:  # the next element is incomplete or not quoted
        after = look.skip_spaces(window, after + 1)
        return None if after == len(window) or window[after] == '"' else False
    return window[after] in look.CLOSERS and _before_closer(window, after, around._replace(inner=False))


def _item_ahead(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether another element of an array or argument list begins at `at`."""
    value = look.begins_value(window, at)
    if value is not False or around.place == "argument":
        return True if value is False else value
    word = _WORD(window, at)
    if word is None:
        return False
    after = look.skip_spaces(window, word.end())
    if after == len(window):
        return None
    return window[after] in look.COMMAS or window[after] in look.CLOSERS or window[after] in around.ends


def _stray_ahead(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether a word without a value, or a key without a colon, precedes the end of the object."""
    after = _after_word(window, at)
    if after == at:
        return False
    if window[at] in look.QUOTES and window[after] in look.QUOTES:  # in range, because `key_ahead` did not return None
        after = _after_word(window, after)
        if after == len(window):
            return None
    if window[after] in look.COMMAS:
        return _before_comma(window, look.skip_spaces(window, after + 1), around)
    return window[after] in look.CLOSERS and _before_closer(window, after, around)


def _after_word(window: str, at: int) -> int:
    """Return the position after the word or quoted string at `at` and its spaces; `at` if there is neither."""
    if window[at] in look.QUOTES:
        return look.skip_spaces(window, look.quoted_end(window, at))
    word = _WORD(window, at)
    return at if word is None else look.skip_spaces(window, word.end())


def _before_other(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether a quote before other text closes its string: a comma is missing, or a stray word follows."""
    char = window[at]
    items = around.place in _ITEMS
    if char in look.QUOTES:
        return at > 0 if items else _is_word_key(window, at)
    if char in look.COLONS and around.place in ("element", "argument"):
        return look.begins_value(window, look.skip_spaces(window, at + 1))
    if at == 0:
        return False
    if around.flags and char == "-":
        return look.begins(window, at, look.FLAG)
    return _stray_item(window, at, around) if items else _stray_words(window, at, around)


def _is_word_key(window: str, at: int) -> look.Tristate:
    """Whether a quoted key begins at `at`. In valid JSON, a key never follows a closing quote without a comma."""
    if at + 1 == len(window):
        return None
    return window[at + 1].isalnum() and look.quoted_key_at(window, at)


def lost_quote(buf: str, at: int, final: bool) -> look.Tristate:
    """Whether the closing quote before the comma at `at` is missing: a key and a value follow, and the opening quote of
    the key would otherwise close the string. `None` if more text is needed."""
    window = buf[at + 1 : at + 1 + look.LOOKAHEAD]
    after = look.skip_spaces(window, 0)
    answer = None if after == len(window) else window[after] == '"' and _is_word_key(window, after)
    if answer:
        colon = look.skip_spaces(window, look.quoted_end(window, after))
        answer = look.begins_value(window, look.skip_spaces(window, colon + 1))
    return False if answer is None and (final or len(window) == look.LOOKAHEAD) else answer


def _stray_words(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether stray words in an object precede a closing bracket, a comma and a key, or a key without a comma."""
    words = _STRAY(window, at)
    if words is None:
        return False
    after = look.skip_spaces(window, words.end())
    if after == len(window):
        return None
    char = window[after]
    if char in look.CLOSERS:
        return _before_closer(window, after, around)
    if char in look.COMMAS:
        return look.key_ahead(window, after + 1)
    if char in look.QUOTES:
        return look.quoted_key_at(window, after)
    return char in look.COLONS and "\n" in window[:at]


def _stray_item(window: str, at: int, around: QuoteContext) -> look.Tristate:
    """Whether stray words in an array, possibly with a closing quote only, precede a comma or a closing bracket."""
    words = _STRAY_ITEM(window, at)
    if words is None:
        return False
    after = words.end()
    if after == len(window):
        return None
    if window[after] in around.ends:
        after = look.skip_spaces(window, after + 1)
        if after == len(window):
            return None
    return window[after] in look.COMMAS or (
        window[after] in look.CLOSERS and look.CLOSERS[window[after]] in around.closers
    )
