"""In-memory recorder of the most recent requests.

The number and total size of entries are limited; the oldest entries are evicted first. Only the newest are kept as they
are: older ones are compressed, in a worker thread and for a small share of the time. What arrives faster is evicted.
Entries contain secrets; `views` renders and redacts them on demand. An optional sink receives every entry to store it
permanently.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, cast

import msgspec

from ...core.types import Note, Request, TextPart
from ..proxy.exchange import ExchangeResult
from .entries import RecordingEntry, compress, decompress, pack, text_size

if TYPE_CHECKING:
    from ...store.recordings import Recordings

#: Maximum number of entries, and of those that are not compressed: small requests take several times their texts.
MAX_ENTRIES, _MAX_PLAIN = 2000, 600
#: Maximum size of all entries, and of one entry: texts plus an estimate for values. Coding agents send up to 1 MiB.
MAX_BYTES, MAX_ENTRY_BYTES = 5 * 1024 * 1024, 2 * 1024 * 1024
#: Number and size of entries that stay as they are, and of those to compress at a time: usually for a millisecond.
_PLAIN_COUNT, _PLAIN_BYTES, _COMPRESS_COUNT, _COMPRESS_BYTES = 64, 512 * 1024, 32, 128 * 1024
#: How many times as long the pause after compressing is as that took, and its limit in seconds.
_PAUSE_RATIO, _MAX_PAUSE = 20, 0.5
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
_MAX_MODEL_CHARS = 200  # maximum length of the model name in an entry whose texts were removed


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
    """In-memory store of the most recent entries.

    `sink` receives every entry and its size, and must not block. `archive` has redacted views of the entries that the
    sink has stored. Its methods block.
    """

    def __init__(
        self,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        max_entry_bytes: int = MAX_ENTRY_BYTES,
        sink: Callable[[RecordingEntry, int], None] | None = None,
        archive: "Recordings | None" = None,
    ) -> None:
        self._entries: OrderedDict[str, tuple[RecordingEntry | bytes, int]] = OrderedDict()
        #: The ids of the entries that are not compressed, oldest first, and their size.
        self._plain: deque[str] = deque()
        self._plain_bytes = 0
        #: The entries that are being compressed, and the result.
        self._work: tuple[list[RecordingEntry], Future[bytes | None]] | None = None
        self._running: dict[str, tuple[Callable[[], ExchangeResult], float]] = {}
        #: Returns the number of the next entry.
        self.number: Callable[[], int] = count(1).__next__
        self._bytes = 0
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._max_entry_bytes = max_entry_bytes
        self._sink = sink
        self.archive = archive

    def __len__(self) -> int:
        return len(self._entries)

    @cached_property
    def _worker(self) -> ThreadPoolExecutor:
        """The thread that compresses. It starts with the first work: workers are forked, and threads are not."""
        return ThreadPoolExecutor(1)

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
        if self._work is not None and self._work[1].done():
            self._store(self._work[0], self._work[1].result())
        if self._work is None and self._has_old():
            self._compress()
        return entry

    def _evict(self) -> None:
        """Drop the oldest entries."""
        plain_limit = _MAX_PLAIN - _MAX_PLAIN // _SLACK
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes or len(self._plain) > plain_limit:
            identifier, (_, size) = self._entries.popitem(last=False)
            self._bytes -= size
            if self._plain and self._plain[0] == identifier:
                self._plain.popleft()
                self._plain_bytes -= size

    def _has_old(self) -> bool:
        """Whether there are enough entries to compress."""
        return len(self._plain) >= _PLAIN_COUNT + _COMPRESS_COUNT or self._plain_bytes > _PLAIN_BYTES + _COMPRESS_BYTES

    def _compress(self) -> None:
        """Begin to compress the oldest entries that are not compressed."""
        entries: list[RecordingEntry] = []
        limit = self._plain_bytes - _COMPRESS_BYTES
        while self._plain and len(entries) < _COMPRESS_COUNT and self._plain_bytes > limit:
            entry, size = self._entries[self._plain.popleft()]
            self._plain_bytes -= size
            entries.append(cast("RecordingEntry", entry))
        self._work = entries, self._worker.submit(_compress_and_rest, entries)

    def _store(self, entries: list[RecordingEntry], data: bytes | None) -> None:
        """Replace entries by their compressed form, unless they were evicted meanwhile or cannot be encoded."""
        for entry in entries if data is not None else ():
            stored, size = self._entries.get(entry.record.id, (None, 0))
            if stored is entry and data is not None:
                share = len(data) // len(entries)
                self._entries[entry.record.id] = data, share
                self._bytes += share - size
        self._work = None

    def find(self, identifier: str) -> RecordingEntry | None:
        """Return the entry with this id, or None. The caller must check the tenant."""
        entry, _ = self._entries.get(identifier, (None, 0))
        return decompress(entry)[identifier] if isinstance(entry, bytes) else entry

    def after(self, number: int) -> Iterator[RecordingEntry]:
        """Return the entries with a higher number than this, newest first."""
        for identifier, (stored, _) in reversed(self._entries.items()):
            entry = decompress(stored)[identifier] if isinstance(stored, bytes) else stored
            if entry.number <= number:
                return
            yield entry


def _compress_and_rest(entries: list[RecordingEntry]) -> bytes | None:
    """Compress entries, then pause, so that this never takes much of the time."""
    began = time.thread_time()
    data = compress(entries)
    time.sleep(min(_PAUSE_RATIO * (time.thread_time() - began), _MAX_PAUSE))
    return data


def _strip_texts(entry: RecordingEntry, size: int, limit: int) -> RecordingEntry:
    record = entry.record
    name = record.model[:_MAX_MODEL_CHARS]
    empty = {"request": Request(name, ()), "raw": "", "reasoning": "", "candidates": ()}
    attempts = tuple(msgspec.structs.replace(each, **empty) for each in record.trace.attempts)
    trace = msgspec.structs.replace(record.trace, attempts=attempts)
    note = Note("record_shortened", f"the texts were not recorded: their {size} bytes exceed the limit of {limit}")
    record = msgspec.structs.replace(record, model=name, trace=trace, notes=(*record.notes, note))
    return msgspec.structs.replace(entry, record=record, body=b"", recalled_tools=(), messages=b"")
