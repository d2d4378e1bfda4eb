"""Whole texts that hold tolerant JSON: the easy way to use `lenient_json`.

`read_value` reads one value that begins right here; `loads` also finds it behind prose and code fences and
collects several documents, as people expect from a repair tool. What only matters for whole texts (several
documents, prose, quotes that swallowed the end) is decided here and not in the transducer.
"""

from __future__ import annotations

import re
from typing import ClassVar, cast

import msgspec

from ..types import JSONObject, JSONValue, Note
from .containers import Allowance
from .lookahead import LOOKAHEAD, QUOTES, quoted_key_at
from .parser import Transducer
from .tokens import Status, Writer

#: How many documents one text may hold; it bounds how often a text is looked at again.
_MAX_DOCUMENTS = 64
_FENCE = ("```",)
#: Where a document may begin. A parenthesis in prose is no tuple, one at the beginning of a fence is.
_START = re.compile(r"[{\[]|```\w{0,16}\s{0,64}(?=\()").search
_COMMA = re.compile(r"\s*,\s*").match
_TWO_TEXTS = re.compile(r'"[^"]*"\s*"').match


class Read(msgspec.Struct, frozen=True):
    """What was read: the value, how it ended, what was repaired, and where the rest of the text begins."""

    value: JSONValue
    status: Status
    notes: tuple[Note, ...]
    end: int

    @property
    def strict(self) -> bool:
        """Nothing had to be repaired."""
        return self.status == "complete" and not self.notes


class _Document(Transducer):
    """A value in a document rather than in a call: nobody acts on it, so a missing value may be empty text."""

    missing: ClassVar[str] = '""'


def read_value(text: str, start: int = 0, allowance: Allowance | None = None) -> Read:
    """One value that begins at `start`, whatever follows it. A cut value is closed and says `truncated`.

    Where it is one of several, it takes what it needs from their `allowance`.
    """
    transducer = Transducer(allowance=allowance)
    end = transducer.feed(text, start, final=True)
    return _result(transducer, end)


def _result(transducer: Transducer, end: int) -> Read:
    transducer.finish()
    if transducer.status == "hopeless":
        return Read(None, "hopeless", transducer.notes, end)
    value = msgspec.json.decode("".join(map(Writer().write, transducer.tokens)))
    return Read(value, transducer.status, transducer.notes, end)


def loads(text: str) -> JSONValue:
    """The JSON in `text`, repaired. Several documents give a list; raises ValueError when there is none."""
    text = text.strip()
    transducer = _Document()
    first = _result(transducer, transducer.feed(text, 0, final=True))
    whole = first.status == "complete" and not text[first.end :].strip("`, \n")
    if whole and (not isinstance(first.value, str) or text[0] in QUOTES or text[0] == "("):
        return first.value
    cut = cast("list[JSONValue] | None", first.value) if first.status == "truncated" else None
    if text.startswith("(") and isinstance(cut, list):
        return cut
    found = _documents(text)
    if not found:
        raise ValueError("no JSON value in the text")
    return found[0] if len(found) == 1 else found


def _documents(text: str) -> list[JSONValue]:
    """The objects and arrays in a text, in order."""
    found: list[JSONValue] = []
    pos = 0
    if text.endswith("}") and _is_pair(text, 0):  # the opening brace is missing
        read = _read_document(text, 0, "{")
        found, pos = [read.value], read.end
    while len(found) < _MAX_DOCUMENTS and (start := _START(text, pos)) is not None:
        at = start.end() if start.group().startswith("`") else start.start()
        read = _read_document(text, at)
        if read.status == "hopeless":
            pos = max(read.end, at + 1)
            continue
        value, end = read.value, read.end
        if isinstance(value, dict):
            value, end = _with_more(cast("JSONObject", value), text, end)
        _collect(found, value, after_comma=text[pos:at].strip() == ",")
        pos = end
    return found


def _read_document(text: str, start: int, opening: str = "") -> Read:
    """A document at `start`, behind `opening` if that is missing in the text. A string that lost its closing quote
    has swallowed the closers behind it: they are given back, and the text is read once more without them."""
    transducer = _Document(stops=_FENCE)
    transducer.feed(opening)
    end = transducer.feed(text, start, final=True)
    if transducer.status == "open" and transducer.in_quotes:
        shorter = _without_closers(text, transducer.closers[::-1])
        transducer = _Document(stops=_FENCE)
        transducer.feed(opening)
        transducer.feed(shorter, start, final=True)
    return _result(transducer, end)


def _without_closers(text: str, closers: str) -> str:
    """The text without the closers at its end, when they are those that are waited for, innermost first."""
    for size in range(len(closers), 0, -1):
        rest = text.rstrip("` \n")
        for closer in reversed(closers[:size]):
            if not rest.endswith(closer):
                break
            rest = rest[:-1].rstrip()
        else:
            return rest
    return text


def _with_more(value: JSONObject, text: str, pos: int) -> tuple[JSONObject, int]:
    """An object and the pairs that follow it, as in `{"a": 1}, "b": 2}`."""
    for _ in range(_MAX_DOCUMENTS):
        comma = _COMMA(text, pos)
        if comma is None or not _is_pair(text, comma.end()):
            break
        read = _read_document(text, comma.end(), "{")
        more = cast("JSONObject | None", read.value)
        if not isinstance(more, dict):
            break
        value = {**value, **more}
        pos = read.end
    return value, pos


def _is_pair(text: str, at: int) -> bool:
    """Whether a quoted key and a colon, or two quoted texts, stand at `at`."""
    window = text[at : at + LOOKAHEAD]
    if not window.startswith('"'):
        return False
    return bool(quoted_key_at(window, 0)) or _TWO_TEXTS(window) is not None


def _collect(found: list[JSONValue], value: JSONValue, after_comma: bool) -> None:
    """Add a document. An empty one says nothing; one of the same shape as the one before corrects that one, unless
    a comma between them shows that they are a list."""
    if found and not value:
        return
    if found and (not found[-1] or (not after_comma and _same_shape(found[-1], value))):
        found[-1] = value
    else:
        found.append(value)


def _same_shape(one: JSONValue, other: JSONValue) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        mine, other = cast("JSONObject", one), cast("JSONObject", other)
        return mine.keys() == other.keys() and all(_same_shape(mine[key], other[key]) for key in mine)
    if isinstance(one, list):
        items, others = cast("list[JSONValue]", one), cast("list[JSONValue]", other)
        return len(items) == len(others) and all(map(_same_shape, items, others))
    return True
