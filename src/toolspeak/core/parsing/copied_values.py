"""Copied values: whether text that a model copied into an argument has ended the argument too early.

A model that copies a page into an argument may forget to escape it. A quote or a closing tag of the page then ends the
value: the rest of the page is lost, or becomes another argument or another call. Such a call parses without errors, so
it is detected by comparison. The value occurs in an untrusted text, and either the same closing mark and the same words
follow it in both texts, or the answer has a second closing mark: the model's own, after the copied one.

A value that is complete in the untrusted text, such as a path in a JSON listing, is not suspicious.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import msgspec

from ..bounded_cache import TextCache
from ..events import CallEnd, Candidate, Event, Judged
from ..types import JSONValue, Note, is_array, is_object

#: Characters before a value that show what it belongs to.
_HEAD = 12
#: Characters after a value that are compared.
_MAX_RUN = 400
#: Letters and digits after a closing mark that both texts must share. The marks that close a call have none.
_SHARED, _SHARED_LAST, _SHARED_WITHOUT_VALUE = 2, 16, (12, 64)
#: Characters at the end of a value that both texts must share.
_TAIL = 4
#: Characters after a value that every text which continues the value has, unless it has the end of the value as well.
_BEGINNING = 3
#: The least length of a value that is taken for a copy although it may be a value of its own.
_MIN_COPY = 12
#: How far the beginning of a value in an untrusted text is looked for.
_MAX_VALUE = 2000
#: At how many places of one text a string is compared: more than a long listing of similar names has.
_MAX_PLACES = 2000
#: Characters of untrusted text that are searched for one answer, so that very many calls do not take very long.
_MAX_SEARCHED = 300_000_000
#: How often a text is searched for a string, and for an empty one.
_SEARCHES, _SEARCHES_FOR_EMPTY = 4, 40
#: Characters between a key and an empty value.
_MAX_GAP = 64

#: How many sizes are kept. Each is needed for every untrusted text.
_MAX_SIZES = 64

_SPACE_ESCAPES = ("\\n", "\\r", "\\t", "\\b", "\\f")
#: Stands for a decoded space until all backslashes are gone.
_DECODED_SPACE = "\x1f"
_CODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_SIGNS = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&#39;": "'", "&#34;": '"', "&amp;": "&"}
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+")
#: A closing mark: a tag, a special token, a word in square brackets, or one character.
_MARK = re.compile(r"<[^<>]{1,80}>|\[/?[A-Z_]{2,20}\]|.", re.DOTALL).match
_TAGS = re.compile(r"(?:</[^<>]{0,80}|<[|｜][^<>=\"]{0,80})(?:>|\Z)")
_QUOTES = "\"'`“”‘’"
#: Stands for a quote that is escaped, which closes no string.
_ESCAPED = "\ue000"
#: Number of characters that are reduced at a time. Other threads have to wait for the end of each step.
_REDUCED_CHARS = 32 * 1024
#: A character with which an escape or entity may end, but does not continue.
_BREAK = re.compile(r"[^\\&#0-9A-Za-z]").search


def _tight(text: str) -> str:
    """Remove white space and invisible characters, and decode the usual escapes and entities."""
    if text.isalnum() and text.isascii():
        return text
    return _tight_with_escapes(text).replace(_ESCAPED, '"')


def _tight_with_escapes(text: str) -> str:
    """Do the same, with escaped quotes marked as such. A long text is cut between its escapes and entities."""
    pieces: list[str] = []
    start = 0
    while len(text) - start > _REDUCED_CHARS and (cut := _BREAK(text, start + _REDUCED_CHARS)) is not None:
        pieces.append(_tight_piece(text[start : cut.end()]))
        start = cut.end()
    return "".join([*pieces, _tight_piece(text[start:])])


def _tight_piece(text: str) -> str:
    if "\\" in text:
        if "\\u" in text:
            text = _CODE_ESCAPE.sub(lambda code: chr(int(code[1], 16)), text)
        text = text.replace('\\"', _ESCAPED).replace(_DECODED_SPACE, " ")
        for escape in _SPACE_ESCAPES:
            text = text.replace(escape, _DECODED_SPACE)
        text = text.replace("\\", "").replace(_DECODED_SPACE, "")
    if "&" in text:
        for entity, sign in _SIGNS.items():
            text = text.replace(entity, sign)
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    return "".join(text.split())


class _UntrustedText(NamedTuple):
    tight: str
    #: The same with escaped quotes marked as such; positions are the same.
    escaped: str


def _reduce(text: str) -> _UntrustedText:
    escaped = _tight_with_escapes(text)
    return _UntrustedText(escaped.replace(_ESCAPED, '"'), escaped)


_reduced = TextCache(_reduce).__getitem__


class _Place(NamedTuple):
    """The position of a value in the answer, with the text around it."""

    before: str
    value: str
    after: str
    #: The answer, and where the value ends in it. `before` and `after` are the parts that are compared.
    answer: str
    end: int
    #: Whether a later call of the answer was rejected as part of copied text.
    echo_follows: bool
    #: The key of the next argument; empty behind the last one.
    next_key: str
    #: How much of `after` shows that it was copied: up to the beginning of the next value, or many words.
    proof: int = 0


#: Reasons for which a call that is part of copied text is rejected.
_COPIED = ("echo", "no_nonce")
_CUT = "a value seems to end too early, at a quote or tag of a text that was copied into it; escape the copied text"


Texts: TypeAlias = Callable[[], Iterable[str]]
CandidateCheck: TypeAlias = Callable[[Candidate], bool]
_EXAMPLE = "the values are the placeholders of the example; write the values that are needed"


class CutCallFilter:
    """Rejects calls of which copied text has ended a value too early, and calls that only repeat an example.

    The end of a call waits if the text that follows it must be compared as well.

    Args:
        raw: the pieces of the answer so far; it grows.
        texts: returns the untrusted texts. Called once, when there is a value to compare.
        is_example: returns whether a call repeats an example.
    """

    def __init__(self, raw: list[str], texts: Texts, is_example: CandidateCheck = lambda candidate: False) -> None:
        self._values = _Comparison(raw, texts)
        self._is_example = is_example
        #: Events that wait for more text.
        self.waiting: list[Event] = []

    def filter(self, events: list[Event], *, final: bool = False) -> list[Event]:
        """Return the events that are certain. `final`: the answer has ended."""
        if not self.waiting and not any(type(event) is Judged for event in events):
            return events
        events, self.waiting = self.waiting + events, []
        echoes = [at for at, event in enumerate(events) if type(event) is Judged and event.candidate.reason in _COPIED]
        last_echo = echoes[-1] if echoes else 0
        out: list[Event] = []
        for at, event in enumerate(events):
            if type(event) is Judged and _is_written_call(event.candidate) and type(end := events[at - 1]) is CallEnd:
                cut = self._values.is_cut(event.candidate.arguments, at < last_echo, final)
                if cut is None:  # the end of the call precedes the verdict
                    self.waiting = [out.pop(), *events[at:]]
                    return out
                if cut or self._is_example(event.candidate):
                    note = Note("arguments_invalid", f"`{event.candidate.name}`: {_CUT if cut else _EXAMPLE}")
                    out[-1] = CallEnd(end.index, False, (*end.notes, note))
                    event = _as_invalid(event.candidate, note)
            out.append(event)
        return out


def _is_written_call(candidate: Candidate) -> bool:
    return candidate.verdict == "call" and candidate.dialect != "native"


def _as_invalid(candidate: Candidate, note: Note) -> Judged:
    notes = (*candidate.notes, note)
    return Judged(msgspec.structs.replace(candidate, verdict="invalid", reason="arguments_invalid", notes=notes))


class _Comparison:
    """Compares the calls of one answer with untrusted texts."""

    def __init__(self, raw: list[str], texts: Callable[[], Iterable[str]]) -> None:
        self._raw = raw
        self._get_texts = texts
        self._texts: list[_UntrustedText] | None = None
        self._size = 0  # of the texts
        self._searched = 0
        self._first = 0  # the first piece of the answer that may belong to the next call
        self._start = 0  # where in the tight text of those pieces the next call begins
        self._window = ((-1, -1), "")  # the tight text of those pieces, and which they are

    def is_cut(self, arguments: JSONValue, echo_follows: bool, final: bool) -> bool | None:
        """Whether copied text has ended a value of this call. None: more of the answer is needed, unless `final`."""
        start = self._start
        undecided = False
        for key, value, next_key in _all_strings(arguments):
            place = self._find(key, value, next_key, echo_follows)
            cut = place is not None and self._compare(place, final)
            if cut:
                return True
            undecided = undecided or cut is None
        if undecided:
            self._start = start  # the same values are compared again
            return None
        self._advance()
        return False

    def _tight_raw(self) -> str:
        span = (self._first, len(self._raw))
        if self._window[0] != span:
            self._window = (span, _tight("".join(self._raw[self._first :])))
        return self._window[1]

    def _find(self, key: str, value: str, next_key: str, echo_follows: bool) -> _Place | None:
        """Find a value in the answer, after its key. None if it is written in some other way."""
        raw, value, key = self._tight_raw(), _tight(value), _tight(key)
        named = raw.find(key, self._start) if key else self._start
        named = max(named, self._start) + len(key)
        at = _find_whole(raw, value, named)
        if at < 0 or at + len(value) == len(raw):  # a closing mark always follows
            return None
        self._start = at + len(value)
        after = raw[self._start : self._start + _MAX_RUN]
        before = raw[max(0, at - _HEAD, raw.rfind("<", max(0, at - _HEAD), at)) : at] if value else key
        return _Place(before, value, after, raw, self._start, echo_follows, next_key)

    def _advance(self) -> None:
        """Forget the pieces that belong to the call which was compared."""
        last = len(self._raw) - 1
        if last > self._first:
            left = len(self._tight_raw()) - self._start
            self._first = last
            self._start = max(0, len(self._tight_raw()) - left)

    def _compare(self, place: _Place, final: bool) -> bool | None:
        if self._texts is None:
            self._texts = [*map(_reduced, filter(None, self._get_texts()))]
            self._size = sum([len(text.tight) for text in self._texts])
        self._searched += self._size * (_SEARCHES if place.value else _SEARCHES_FOR_EMPTY)
        if self._searched > _MAX_SEARCHED:
            return False
        texts = _with_beginning(self._texts, place) if place.value else self._texts
        if not texts:
            return False
        place = place._replace(proof=_proof_size(place.after, _tight(place.next_key)))
        cuts = [_is_continued(text, place, final) for text in texts]
        return True if True in cuts else None if None in cuts else False


def is_cut_whole(text: str, arguments: JSONValue, texts: Callable[[], Iterable[str]]) -> bool:
    """Whether copied text may have ended a value of the only call in an answer, whose arguments are JSON."""
    # A quote ends a string: a text in which there is none, not even as an entity or escape, has ended nothing.
    quoting = [each for each in texts() if '"' in each or "&" in each or "\\" in each]
    return bool(quoting) and _Comparison([text], lambda: quoting).is_cut(arguments, False, False) is not False


def _find_whole(text: str, value: str, start: int) -> int:
    """Find a value that is not part of a longer word. Returns -1 if there is none."""
    at = text.find(value, start)
    while at >= 0 and value:
        before, after = text[max(start, at - 1) : at], text[at + len(value) : at + len(value) + 1]
        if not (before.isalnum() and value[0].isalnum()) and not (after.isalnum() and value[-1].isalnum()):
            break
        at = text.find(value, at + 1)
    return at


def _all_strings(arguments: JSONValue) -> Iterator[tuple[str, str, str]]:
    """Yield the strings in the arguments, each with the key that precedes it and the next key of the call."""
    items = [*arguments.items()] if is_object(arguments) else []
    next_keys = [*(key for key, _ in items[1:]), ""]
    for (key, value), next_key in zip(items, next_keys[: len(items)], strict=True):
        for nearest, text in _strings(value, key):
            yield nearest, text, next_key


def _strings(value: JSONValue, key: str) -> Iterator[tuple[str, str]]:
    """Yield the strings in a value, each with the key right before it; further items of an array have none."""
    if isinstance(value, str):
        yield key, value
    elif is_object(value):
        for name, member in value.items():
            yield from _strings(member, name)
    elif is_array(value):
        for at, item in enumerate(value):
            yield from _strings(item, "" if at else key)


def _with_beginning(texts: list[_UntrustedText], place: _Place) -> list[_UntrustedText]:
    """Return the texts that contain what follows a value, or the beginning of it. No other text continues the value."""
    end, after = place.value[-_TAIL:] + place.after[0], place.after[:_BEGINNING]
    return [text for text in texts if end in text.tight or after in text.tight]


def _is_continued(text: _UntrustedText, place: _Place, final: bool) -> bool | None:
    """Whether an untrusted text contains what follows a value in the answer, beyond the marks that close it."""
    if not place.value:
        return _follows_nothing(text.tight, place, final)
    closing = _MARK(place.after)
    assert closing is not None
    mark = closing.group()
    if place.value[-_TAIL:] + mark in text.tight:
        twice = _comes_twice(mark, place.after, final), _closes_twice(text, place, mark, final)
        if any(twice) or None in twice:
            return True if any(twice) else None
    cut = _is_shared(text, place, mark, place.value[-_TAIL:], _SHARED, final)
    return cut if cut is not False else _follows_other_value(text, place, mark, final)


def _follows_other_value(text: _UntrustedText, place: _Place, mark: str, final: bool) -> bool | None:
    """Whether copied text that begins with a closing mark follows a value of the model's own.

    Calls in one block look alike at their beginning, so many words must be shared, or the next call must be an echo.
    """
    if place.next_key and place.after[: place.proof] in text.tight:  # an argument may have been added
        return _is_shared(text, place, mark, "", _letters(place.after[: place.proof]), final)
    few, many = _SHARED_WITHOUT_VALUE
    shares_few = _is_shared(text, place, mark, "", few, final)
    if not shares_few or _is_shared(text, place, mark, "", many, final):
        return shares_few
    return place.echo_follows or (False if final else None)


def _is_shared(text: _UntrustedText, place: _Place, mark: str, tail: str, letters: int, final: bool) -> bool | None:
    """Whether an untrusted text contains the end of the value and so many letters of what follows in the answer."""
    run = place.after[: _shared_size(place.after, letters)]
    at = text.tight.find(tail + run)
    if at < 0:
        return False
    if len(run) == len(place.after) < _MAX_RUN:
        return False if final else None
    for _ in range(_MAX_PLACES):
        copied = _is_copied_at(text, place, mark, at + len(tail))
        if copied or (copied is None and text.tight.startswith(place.after[: place.proof], at + len(tail))):
            return True
        at = text.tight.find(tail + run, at + 1)
        if at < 0:
            return False
    return True  # too many places to compare


def _letters(run: str) -> int:
    """Count the letters and digits outside closing tags."""
    return sum(map(str.isalnum, _TAGS.sub("", run)))


@lru_cache(_MAX_SIZES)
def _shared_size(after: str, letters: int) -> int:
    """Return how much of the text after a value must be shared: so many letters and digits outside closing tags."""
    at = -1
    for _ in range(letters):
        at = _next_letter(after, at + 1)
    return at + 1


def _next_letter(after: str, at: int) -> int:
    """Return the position of the next letter or digit outside closing tags, or the end of the text."""
    while at < len(after) and not after[at].isalnum():
        tag = _TAGS.match(after, at)
        at = tag.end() if tag is not None else at + 1
    return min(at, len(after))


def _comes_twice(mark: str, after: str, final: bool) -> bool | None:
    """Whether a closing mark comes again behind other closing marks, followed by no word."""
    again = after.find(mark, len(mark))
    if again < 0 or _letters(after[:again]):
        return None if again < 0 and not final and not _letters(after) else False
    behind = after[again + len(mark) : again + len(mark) + 1]
    if not behind and not final:
        return None
    return not behind.isalnum() and behind != ":"


def _closes_twice(text: _UntrustedText, place: _Place, mark: str, final: bool) -> bool | None:
    """Whether all marks that close the call come again at the end of the answer, behind words of the model."""
    run = place.after[: _next_letter(place.after, 0)]
    at = text.tight.find(place.value[-_TAIL:] + run)
    if at < 0 or len(run) == len(place.after):
        return False
    copied = _is_copied_at(text, place, mark, at + len(place.value[-_TAIL:]))
    if copied is False or (copied is None and len(place.value) < _MIN_COPY):
        return False
    return None if not final else place.answer.find(run, place.end + len(run)) >= 0


def _is_copied_at(text: _UntrustedText, place: _Place, mark: str, end: int) -> bool | None:
    """Whether the mark at `end` of an untrusted text belongs to copied text, rather than to a value of its own.

    It does not if the value there begins where the value in the answer begins, or ends in another way. None: it may.
    """
    quote = text.escaped[end] if mark in _QUOTES else ""  # an escaped quote ends what another one has opened
    opening = ">" if mark[0] == "<" else quote
    start = text.escaped.rfind(opening, max(0, end - _MAX_VALUE), end) if opening else -1
    if start < 0:
        return True
    size = _common_suffix(place.value, text.tight[start:end])
    if size == end - start:
        return True
    if size < end - start - 1:
        return None if size == len(place.value) else False
    return False if quote or text.tight.endswith(place.before, 0, start + 1) else None


def _proof_size(after: str, next_key: str) -> int:
    """Return how much of the text behind a value shows that it was copied with the value."""
    at = after.find(next_key) + len(next_key) if next_key and next_key in after else 0
    return at + _shared_size(after[at:], _SHARED if at else _SHARED_LAST)


def _follows_nothing(text: str, place: _Place, final: bool) -> bool | None:
    """Whether copied text follows an empty value: its first characters, a closing mark, have ended the value."""
    if place.before + place.after[:4] in text:
        return False
    few, many = _SHARED_WITHOUT_VALUE
    inside_tags = {at for tag in _TAGS.finditer(place.after) for at in range(tag.start() + 1, tag.end())}
    for at in range(min(_MAX_GAP, len(place.after))):
        if at in inside_tags or place.after[at].isalnum():
            continue
        run = place.after[at : at + _shared_size(place.after[at:], few if place.echo_follows else many)]
        if at + len(run) < len(place.after) and run in text:
            return True
    return False if final else None


def _common_suffix(one: str, other: str) -> int:
    size = min(len(one), len(other))
    for at in range(size):
        if one[-1 - at] != other[-1 - at]:
            return at
    return size
