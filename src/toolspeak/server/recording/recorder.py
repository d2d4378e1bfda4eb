"""The last requests, in memory.

Bounded by number and by bytes: the oldest go first. What people see of one is made when they look (`shown`), and keys
are taken out there. Whoever wants to keep more gives `further`, which is handed every entry.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import cast

import msgspec

from ...core.types import Note, Request, TextPart
from ..proxy.exchange import Exchange
from .entries import Entry, packed, size_of

#: How many requests can be asked about afterwards.
MOST_ENTRIES = 2000
#: What they take together, by the bytes of requests and answers and the number of values in them, and what one may
#: take: coding agents send up to 1 MiB.
MOST_BYTES, LARGEST_ENTRY = 32 * 1024 * 1024, 2 * 1024 * 1024
#: What a value takes in memory beside its text, in bytes, about: texts of many small values take far less than these.
_NODE = 100
#: A message and its lists, and a text with the part that it is, as such values.
_MESSAGE, _TEXT = 3, 2
#: Values that hold no others.
_PLAIN = frozenset({str, int, float, bool, type(None)})
#: Texts of so few bytes hold too few values for that: to count them would take longer than all else here.
_SMALL = 2048
#: Bodies of more bytes hold so many messages that to pack them takes less time than to count them and let go of them.
_LARGE = 16 * 1024
#: One of so many entries more than are to be kept is let go of with others: the memory that they take is far away, and
#: one alone takes twice as long.
_SPARE = 64
#: What is kept of the name of a model if an entry is too large.
_LONGEST_NAME = 200


def _held_by(entry: Entry, most: int) -> int:
    """What the values of a request and its answers take beside their texts, about; not counted further than `most`.

    Tools are left out: requests that offer the same ones share them.
    """
    attempts = entry.record.trace.attempts
    if not attempts:
        return 0
    enough = most // _NODE + 1
    count = _asked(attempts[-1].request, enough) * len(attempts)  # each of them holds the request
    for each in attempts:
        if each.candidates:
            count += _nodes([each.candidates], enough)
    return _NODE * count


def _asked(request: Request, most: int) -> int:
    """How many values there are in the messages and further fields of a request.

    Nearly all messages are texts: these are counted by their parts, since to look into them takes ten times as long.
    """
    count = 0
    others: list[object] = [*request.options.extra.values()]
    for message in request.messages:
        count += _MESSAGE + _TEXT * len(message.parts)
        others += message.calls
        others += message.results
        if message.extra:
            others.append(message.extra)
        for part in message.parts:
            if type(part) is not TextPart or part.extra:
                others.append(part)
    return count + _nodes(others, most) if others else count


def _nodes(stack: list[object], most: int) -> int:
    """How many values there are within some; it is not looked further when there are so many."""
    count = 0
    while stack and count < most:
        value = stack.pop()
        count += 1
        if type(value) in _PLAIN:
            continue
        if isinstance(value, dict):
            stack += cast("dict[str, object]", value).values()
        elif isinstance(value, list | tuple):
            stack += cast("Sequence[object]", value)
        elif isinstance(value, msgspec.Struct):
            stack += filter(None, msgspec.structs.astuple(value))  # what is empty in ours is not counted
    return count


class Recorder:
    """Keeps entries, within bounds.

    Args:
        further: is handed every entry and its size, to keep it beyond this process; it must not wait for anything.
    """

    def __init__(
        self,
        most: int = MOST_ENTRIES,
        most_bytes: int = MOST_BYTES,
        largest: int = LARGEST_ENTRY,
        further: Callable[[Entry, int], None] | None = None,
    ) -> None:
        self._entries: OrderedDict[str, tuple[Entry, int]] = OrderedDict()
        self._running: dict[str, tuple[Exchange, float]] = {}
        #: Gives the number of the next entry.
        self.number: Callable[[], int] = count(1).__next__
        self._bytes = 0
        self._most = most
        self._most_bytes = most_bytes
        self._largest = largest
        self._further = further

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self, exchange: Exchange, began: float) -> None:
        """A request is under way from now on, until its entry is added."""
        self._running[exchange.id] = (exchange, began)

    def running(self) -> Iterator[tuple[Exchange, float]]:
        """What is under way, and since when; the newest first."""
        return reversed(self._running.values())

    def add(self, entry: Entry) -> Entry:
        """Keep an entry, which has the newest number; gives it as it is kept."""
        self._running.pop(entry.record.id, None)
        if len(entry.body) > _LARGE:
            entry = packed(entry)
        size = size_of(entry)
        if self._further is not None:
            self._further(entry, size)
        if size > _SMALL:
            size += _held_by(entry, self._largest)
        if size > self._largest:
            entry, size = _without_texts(entry, size, self._largest), 0
        self._entries[entry.record.id] = (entry, size)
        self._bytes += size
        if len(self._entries) > self._most + self._most // _SPARE or self._bytes > self._most_bytes:
            self._let_go()
        return entry

    def _let_go(self) -> None:
        while len(self._entries) > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._entries.popitem(last=False)[1][1]

    def close(self) -> None:
        """Let what keeps entries further come to its end; it may take some seconds."""
        close = getattr(self._further, "close", None)
        if close is not None:
            close()

    def find(self, identifier: str) -> Entry | None:
        """The entry of that id. Whose it is, is for the caller to look at."""
        found = self._entries.get(identifier)
        return found[0] if found is not None else None

    def after(self, number: int) -> Iterator[Entry]:
        """The entries with higher numbers, the newest first."""
        for entry, _ in reversed(self._entries.values()):
            if entry.number <= number:
                return
            yield entry


def _without_texts(entry: Entry, size: int, largest: int) -> Entry:
    """What is said of a request that is too large to be kept."""
    record = entry.record
    name = record.model[:_LONGEST_NAME]
    bare = {"request": Request(name, ()), "raw": "", "reasoning": "", "candidates": ()}
    attempts = tuple(msgspec.structs.replace(each, **bare) for each in record.trace.attempts)
    trace = msgspec.structs.replace(record.trace, attempts=attempts)
    note = Note("record_shortened", f"the texts are not kept: they take {size} bytes, more than {largest}")
    record = msgspec.structs.replace(record, model=name, trace=trace, notes=(*record.notes, note))
    return msgspec.structs.replace(entry, record=record, body=b"", recalled=(), messages=b"")
