"""In-memory recorder of the most recent requests.

The number and total size of entries are limited; the oldest entries are evicted first. Only the newest are kept as they
are: older ones are compressed, after the requests and in so small a share of the time that none of them waits for it.
Entries contain secrets; `views` renders and redacts them on demand. An optional sink receives every entry to store it
permanently.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import cast

import msgspec

from ...core.types import Note, Request, TextPart
from ..proxy.exchange import ExchangeResult
from .entries import CompressedEntries, RecordingEntry, pack, text_size

#: Maximum number of entries, and of those that are not compressed: small requests take several times their texts.
MAX_ENTRIES, _MAX_PLAIN = 2000, 600
#: Maximum size of all entries, and of one entry: texts plus an estimate for values. Coding agents send up to 1 MiB.
MAX_BYTES, MAX_ENTRY_BYTES = 5 * 1024 * 1024, 2 * 1024 * 1024
#: Number and size of entries that stay as they are.
_PLAIN_COUNT, _PLAIN_BYTES = 64, 512 * 1024
#: Number and size of entries to compress at a time, which usually takes about a millisecond.
_COMPRESS_COUNT, _COMPRESS_BYTES = 32, 128 * 1024
#: Seconds between two such times, and at least how many times as long a pause is as what came before it.
_PAUSE_SECONDS, _PAUSE_RATIO = 0.05, 20
#: Approximate memory overhead of a value, in bytes. Many small values take far more memory than their text.
_VALUE_BYTES = 100
#: Number of values in a message without its parts, and in a text part.
_MESSAGE_VALUES, _TEXT_PART_VALUES = 3, 2
_SCALARS = frozenset({str, int, float, bool, type(None)})
#: Entries up to this size are not examined for values, because counting would dominate the cost of recording.
_SMALL_BYTES = 2048
#: Body size above which messages are encoded, which takes less time than counting and freeing their values.
_PACK_BYTES = 16 * 1024
#: Evict only when the limit is exceeded by this fraction (1/64). Evicting entries one at a time takes twice as long.
_SLACK = 64
#: Maximum length of the model name in an entry whose texts were removed.
_MAX_MODEL_CHARS = 200


def _overhead(entry: RecordingEntry, limit: int) -> int:
    """Estimate the memory that an entry's values take in addition to their texts; stop counting at `limit`.

    Tools are not counted, because requests with the same tools share them.
    """
    attempts = entry.record.trace.attempts
    if not attempts:
        return 0
    max_values = limit // _VALUE_BYTES + 1
    # Every attempt contains the request.
    count = _count_request_values(attempts[-1].request, max_values) * len(attempts)
    for each in attempts:
        if each.candidates:
            count += _count_values([each.candidates], max_values)
    return _VALUE_BYTES * count


def _count_request_values(request: Request, limit: int) -> int:
    """Count the values in the messages and extra fields of a request.

    Nearly all parts are plain text. They are counted without visiting their fields, which is ten times as fast.
    """
    count = 0
    others: list[object] = [*request.options.extra.values()]
    for message in request.messages:
        count += _MESSAGE_VALUES + _TEXT_PART_VALUES * len(message.parts)
        others += message.calls
        others += message.results
        if message.extra:
            others.append(message.extra)
        for part in message.parts:
            if type(part) is not TextPart or part.extra:
                others.append(part)
    return count + _count_values(others, limit) if others else count


def _count_values(stack: list[object], limit: int) -> int:
    """Count nested values, up to about `limit`."""
    count = 0
    while stack and count < limit:
        value = stack.pop()
        count += 1
        if type(value) in _SCALARS:
            continue
        if isinstance(value, dict):
            stack += cast("dict[str, object]", value).values()
        elif isinstance(value, list | tuple):
            stack += cast("Sequence[object]", value)
        elif isinstance(value, msgspec.Struct):
            stack += filter(None, msgspec.structs.astuple(value))  # empty fields are not counted
    return count


class Recorder:
    """In-memory store of the most recent entries. `sink` receives every entry and its size, and must not block."""

    def __init__(
        self,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        max_entry_bytes: int = MAX_ENTRY_BYTES,
        sink: Callable[[RecordingEntry, int], None] | None = None,
    ) -> None:
        self._entries: OrderedDict[str, tuple[RecordingEntry | CompressedEntries, int]] = OrderedDict()
        #: The ids of the entries that are not compressed, oldest first, and their size.
        self._plain: deque[str] = deque()
        self._plain_bytes = 0
        self._is_compressing = False
        self._running: dict[str, tuple[Callable[[], ExchangeResult], float]] = {}
        #: Returns the number of the next entry.
        self.number: Callable[[], int] = count(1).__next__
        self._bytes = 0
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._max_entry_bytes = max_entry_bytes
        self._sink = sink

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def plain_count(self) -> int:
        """Number of entries that are not compressed."""
        return len(self._plain)

    def begin(self, identifier: str, snapshot: Callable[[], ExchangeResult], began: float) -> None:
        """List a request as running until its entry is added; `snapshot` returns its current state."""
        self._running[identifier] = (snapshot, began)

    def running(self) -> Iterator[tuple[ExchangeResult, float]]:
        """Return the running requests with their start times, newest first."""
        return ((snapshot(), began) for snapshot, began in reversed(self._running.values()))

    def add(self, entry: RecordingEntry) -> RecordingEntry:
        """Add an entry, whose number must be the highest so far; return the entry as stored."""
        self._running.pop(entry.record.id, None)
        if len(entry.body) > _PACK_BYTES:
            entry = pack(entry)
        size = text_size(entry)
        if self._sink is not None:
            self._sink(entry, size)
        if size > _SMALL_BYTES:
            size += _overhead(entry, self._max_entry_bytes)
        if size > self._max_entry_bytes:
            entry, size = _strip_texts(entry, size, self._max_entry_bytes), 0
        elif entry.messages:  # what came and what was sent
            size += min(len(entry.body), len(entry.messages))
        self._entries[entry.record.id] = (entry, size)
        self._plain.append(entry.record.id)
        self._bytes += size
        self._plain_bytes += size
        if (
            len(self._entries) > self._max_entries + self._max_entries // _SLACK
            or self._bytes > self._max_bytes
            or len(self._plain) > _MAX_PLAIN
        ):
            self._evict()
        if not self._is_compressing and self._has_old():
            self._compress_later(_PAUSE_SECONDS)
        return entry

    def _evict(self) -> None:
        """Drop the oldest entries."""
        while (
            len(self._entries) > self._max_entries
            or self._bytes > self._max_bytes
            or len(self._plain) > _MAX_PLAIN - _MAX_PLAIN // _SLACK
        ):
            identifier, (_, size) = self._entries.popitem(last=False)
            self._bytes -= size
            if self._plain and self._plain[0] == identifier:
                self._plain.popleft()
                self._plain_bytes -= size

    def _has_old(self) -> bool:
        """Whether there are enough entries to compress."""
        return len(self._plain) >= _PLAIN_COUNT + _COMPRESS_COUNT or self._plain_bytes > _PLAIN_BYTES + _COMPRESS_BYTES

    def _compress_later(self, delay: float) -> None:
        try:
            asyncio.get_running_loop().call_later(delay, self._compress)
            self._is_compressing = True
        except RuntimeError:  # no event loop: nothing is compressed
            pass

    def _compress(self) -> None:
        """Compress the oldest entries that are not compressed, in a worker thread, because one may be large."""
        entries: list[RecordingEntry] = []
        before = 0
        while self._plain and len(entries) < _COMPRESS_COUNT and before < _COMPRESS_BYTES:
            entry, size = self._entries[self._plain.popleft()]
            assert isinstance(entry, RecordingEntry)
            entries.append(entry)
            before += size
        self._plain_bytes -= before
        work = asyncio.get_running_loop().run_in_executor(None, CompressedEntries.of, entries)
        work.add_done_callback(partial(self._store, entries, time.perf_counter()))

    def _store(
        self, entries: list[RecordingEntry], began: float, work: asyncio.Future[CompressedEntries | None]
    ) -> None:
        """Replace entries, unless they were evicted meanwhile."""
        compressed = None if work.cancelled() else work.result()
        for entry in entries if compressed is not None else ():
            kept, size = self._entries.get(entry.record.id, (None, 0))
            if kept is entry and compressed is not None:
                share = compressed.size // len(entries)
                self._entries[entry.record.id] = (compressed, share)
                self._bytes += share - size
        self._is_compressing = False
        if self._has_old():
            self._compress_later(max(_PAUSE_SECONDS, _PAUSE_RATIO * (time.perf_counter() - began)))

    def close(self) -> None:
        """Close the sink. This may take several seconds."""
        close = getattr(self._sink, "close", None)
        if close is not None:
            close()

    def find(self, identifier: str) -> RecordingEntry | None:
        """Return the entry with this id, or None. The caller must check the tenant."""
        entry, _ = self._entries.get(identifier, (None, 0))
        return entry.decode()[identifier] if isinstance(entry, CompressedEntries) else entry

    def after(self, number: int) -> Iterator[RecordingEntry]:
        """Return the entries with a higher number than this, newest first."""
        last: CompressedEntries | None = None
        decoded: dict[str, RecordingEntry] = {}
        for identifier, (entry, _) in reversed(self._entries.items()):
            if isinstance(entry, CompressedEntries):
                if entry is not last:
                    last, decoded = entry, entry.decode()
                entry = decoded[identifier]
            if entry.number <= number:
                return
            yield entry


def _strip_texts(entry: RecordingEntry, size: int, limit: int) -> RecordingEntry:
    """Remove the texts from an entry that is too large."""
    record = entry.record
    name = record.model[:_MAX_MODEL_CHARS]
    empty = {"request": Request(name, ()), "raw": "", "reasoning": "", "candidates": ()}
    attempts = tuple(msgspec.structs.replace(each, **empty) for each in record.trace.attempts)
    trace = msgspec.structs.replace(record.trace, attempts=attempts)
    note = Note("record_shortened", f"the texts were not recorded: their {size} bytes exceed the limit of {limit}")
    record = msgspec.structs.replace(record, model=name, trace=trace, notes=(*record.notes, note))
    return msgspec.structs.replace(entry, record=record, body=b"", recalled_tools=(), messages=b"")
