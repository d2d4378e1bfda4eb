"""Whole texts that hold tolerant JSON: the easy way to use `lenient_json`.

`read_value` reads one value that begins right here; `loads` also finds it behind prose and code fences and
collects several documents, as people expect from a repair tool. Above: `schema` (JSON in a string),
`dialects`. Below: `lenient_json`.
"""

from __future__ import annotations

import re

import msgspec

from .lenient_json import END_STRING, PART, Status, Transducer, Writer
from .model import JSONValue, Note

__all__ = ["Read", "loads", "read_value"]

#: How many documents one text may hold.
_MAX_DOCUMENTS = 64
_START = re.compile(r"[{\[(\"“]").search
_FENCE = re.compile(r"```[a-zA-Z]{0,16}").match


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


def read_value(text: str, start: int = 0) -> Read:
    """One value that begins at `start`, whatever follows it. A cut value is closed and says `truncated`."""
    transducer = Transducer()
    end = transducer.feed(text, start, final=True)
    transducer.finish()
    if transducer.status == "hopeless":
        return Read(None, "hopeless", transducer.notes, end)
    writer = Writer()
    tokens = transducer.tokens
    if transducer.status == "truncated":
        tokens = _without_swallowed_closers(tokens)
    value = msgspec.json.decode("".join(map(writer.write, tokens)))
    return Read(value, transducer.status, transducer.notes, end)


def _without_swallowed_closers(tokens: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """A string that lost its closing quote has swallowed the closers behind it: give them back."""
    last = len(tokens) - 1
    while last > 0 and tokens[last][0] not in (END_STRING, PART):
        last -= 1
    if last > 0 and tokens[last][0] == END_STRING and tokens[last - 1][0] == PART:
        kept = tokens[last - 1][1].rstrip("`").rstrip(" \n]}")
        return [*tokens[: last - 1], (PART, kept), *tokens[last:]]
    return tokens


def loads(text: str) -> JSONValue:
    """The JSON in `text`, repaired. Several documents give a list; raises ValueError when there is none."""
    stripped = text.strip()
    first = read_value(stripped)
    if first.status == "complete" and not stripped[first.end :].strip("`, \n"):
        if not isinstance(first.value, str) or stripped[:1] in "\"'“":
            return first.value
    found = _documents(stripped)
    if not found:
        raise ValueError("no JSON value in the text")
    return found[0] if len(found) == 1 else found


def _documents(text: str) -> list[JSONValue]:
    found: list[JSONValue] = []
    pos = _fenced(text)
    while len(found) < _MAX_DOCUMENTS:
        start = _START(text, pos)
        if start is None:
            break
        read = read_value(text, start.start())
        if read.status == "hopeless":
            pos = max(read.end, start.end())
            continue
        found.append(read.value)
        pos = _fenced(text, read.end)
    return found


def _fenced(text: str, pos: int = 0) -> int:
    """Behind the opening of the next code fence that holds a value, if there is one."""
    at = text.find("```", pos)
    while at >= 0:
        opening = _FENCE(text, at)
        if opening is None:
            break
        inside = text[opening.end() : opening.end() + 16].lstrip()
        if inside[:1] in tuple('{[("'):
            return opening.end()
        at = text.find("```", opening.end())
    return pos
