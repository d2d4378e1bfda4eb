"""Simple interface to the tolerant JSON parser, for texts that are complete.

`parse_value` parses one value at a position. `loads` also finds JSON in prose and code fences, and collects several
documents into a list.
"""

import re
from typing import cast

import msgspec

from ..types import JSONObject, JSONValue, Note
from .containers import Allowance
from .lookahead import LOOKAHEAD, QUOTES, quoted_key_at
from .parser import JSONParser
from .tokens import Status, Writer

#: Maximum number of documents in one text; limits how often the text is rescanned.
_MAX_DOCUMENTS = 64
_FENCE = ("```",)
#: JSON text that replaces a missing value in a document.
_EMPTY = '""'
#: Where a document may begin. A parenthesis opens a tuple at the start of a code fence, but not in prose.
_START = re.compile(r"[{\[]|```\w{0,16}\s{0,64}(?=\()").search
_COMMA = re.compile(r"\s*,\s*").match
_TWO_TEXTS = re.compile(r'"[^"]*"\s*"').match


class ParseResult(msgspec.Struct, frozen=True):
    """A parsed value, its status, notes on the repairs, the position after the value, and its strict JSON text."""

    value: JSONValue
    status: Status
    notes: tuple[Note, ...]
    end: int
    text: str = ""

    @property
    def strict(self) -> bool:
        """Whether the value was complete and needed no repair."""
        return self.status == "complete" and not self.notes


def parse_value(text: str, start: int = 0, allowance: Allowance | None = None) -> ParseResult:
    """Parse one value at `start` and ignore the text after it. A value that is cut off has the status `truncated`.

    `allowance` limits the number of values and repairs; several calls may share it.
    """
    parser = JSONParser(allowance=allowance)
    end = parser.feed(text, start, final=True)
    return _result(parser, end)


def _result(parser: JSONParser, end: int) -> ParseResult:
    parser.finish()
    if parser.status == "hopeless":
        return ParseResult(None, "hopeless", parser.notes, end)
    strict = "".join(map(Writer().write, parser.tokens))
    return ParseResult(msgspec.json.decode(strict), parser.status, parser.notes, end, strict)


def loads(text: str) -> JSONValue:
    """Repair and parse the JSON in `text`; several documents become a list. Raises ValueError if there is no JSON."""
    text = text.strip()
    parser = JSONParser(missing=_EMPTY)
    first = _result(parser, parser.feed(text, 0, final=True))
    whole = first.status == "complete" and not text[first.end :].strip("`, \n")
    if whole and (not isinstance(first.value, str) or text[0] in QUOTES or text[0] == "("):
        return first.value
    cut = cast("list[JSONValue] | None", first.value) if first.status == "truncated" else None
    if text.startswith("(") and isinstance(cut, list):
        return cut
    documents = _documents(text)
    if not documents:
        raise ValueError("the text contains no JSON value")
    return documents[0] if len(documents) == 1 else documents


def complete_documents(text: str) -> list[ParseResult]:
    """Return the objects and arrays in a text that are not cut off, in order, with notes on their repairs.

    A text with a value that is nested too deeply has none, because the parts of that value are not documents.
    """
    documents: list[ParseResult] = []
    pos = 0
    while len(documents) < _MAX_DOCUMENTS and (start := _START(text, pos)) is not None:
        at = start.end() if start.group().startswith("`") else start.start()
        result = parse_value(text, at)
        if any(note.code == "too_deep" for note in result.notes):
            return []
        if result.status == "complete":
            documents.append(result)
        pos = max(result.end, at + 1)
    return documents


def _documents(text: str) -> list[JSONValue]:
    """Return the objects and arrays in a text, in order."""
    documents: list[JSONValue] = []
    pos = 0
    if text.endswith("}") and _is_pair(text, 0):  # the opening brace is missing
        result = _parse_document(text, 0, "{")
        documents, pos = [result.value], result.end
    while len(documents) < _MAX_DOCUMENTS and (start := _START(text, pos)) is not None:
        at = start.end() if start.group().startswith("`") else start.start()
        result = _parse_document(text, at)
        if result.status == "hopeless":
            pos = max(result.end, at + 1)
            continue
        value, end = result.value, result.end
        if isinstance(value, dict):
            value, end = _with_more(cast("JSONObject", value), text, end)
        _collect(documents, value, after_comma=text[pos:at].strip() == ",")
        pos = end
    return documents


def _parse_document(text: str, start: int, opening: str = "") -> ParseResult:
    """Parse the document at `start`; `opening` is an opening bracket that is missing in the text.

    If a closing quote is missing, the string has swallowed the closing brackets: remove them and parse again.
    """
    parser = JSONParser(stops=_FENCE, missing=_EMPTY)
    parser.feed(opening)
    end = parser.feed(text, start, final=True)
    if parser.status == "open" and parser.in_quotes:
        shorter = _without_closers(text, parser.closers[::-1])
        parser = JSONParser(stops=_FENCE, missing=_EMPTY)
        parser.feed(opening)
        parser.feed(shorter, start, final=True)
    return _result(parser, end)


def _without_closers(text: str, closers: str) -> str:
    """Remove the expected closing brackets (`closers`, innermost first) from the end of the text."""
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
    """Merge the key-value pairs that follow an object into it, as in `{"a": 1}, "b": 2}`."""
    for _ in range(_MAX_DOCUMENTS):
        comma = _COMMA(text, pos)
        if comma is None or not _is_pair(text, comma.end()):
            break
        result = _parse_document(text, comma.end(), "{")
        more = cast("JSONObject | None", result.value)
        if not isinstance(more, dict):
            break
        value = {**value, **more}
        pos = result.end
    return value, pos


def _is_pair(text: str, at: int) -> bool:
    """Whether a quoted key with a colon, or two quoted strings in a row, begin at `at`."""
    window = text[at : at + LOOKAHEAD]
    if not window.startswith('"'):
        return False
    return bool(quoted_key_at(window, 0)) or _TWO_TEXTS(window) is not None


def _collect(documents: list[JSONValue], value: JSONValue, after_comma: bool) -> None:
    """Add a document unless it is empty. A document of the same shape as the previous one is a correction and replaces
    it, unless a comma between them makes them a list."""
    if documents and not value:
        return
    if documents and (not documents[-1] or (not after_comma and _same_shape(documents[-1], value))):
        documents[-1] = value
    else:
        documents.append(value)


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
