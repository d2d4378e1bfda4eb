"""Request counters, their sums over all workers, and a per-minute time series.

Counters are plain integers keyed by tuples of labels, so counting a request takes about a microsecond. Each worker
publishes its counters in a file, so any worker can report the sum over all of them.
"""

import logging
import os
import shutil
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeAlias

import msgspec

from .request_context import CLIENT_CLOSED

_log = logging.getLogger("toolspeak.server")

#: Label values, in the order of the label names of a metric family.
Labels: TypeAlias = tuple[str, ...]

#: Upper bounds of the histogram buckets for response times, in seconds.
SECONDS_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
#: Upper bounds of the histogram buckets for the overhead that toolspeak adds, in seconds.
ADDED_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
#: Maximum size of a worker's counter file: 200 models with every plan take about 1 MB.
_MAX_FILE_BYTES = 16 * 1024 * 1024

_MINUTE = 60
_MAX_ROWS = 1440 * 4  # maximum number of rows: one day of four models in steady use
#: Maps an event family to its field in a row and the only kind to count (empty for all kinds).
_EVENTS = {
    "calls": ("calls", ""),
    "no_call": ("no_call", ""),
    "retries": ("retries", ""),
    "faults": ("refusals", "refusal"),
    "repairs": ("repairs", ""),
}
#: The lowest error status, and the status of a disconnected client, which does not count as an error.
_ERROR, _DISCONNECTED = "4", str(CLIENT_CLOSED)


class Histogram(msgspec.Struct, gc=False):
    """The number of values in each bucket and the sum of all values; the last bucket is unbounded."""

    counts: list[int]
    sum: float = 0.0

    def add(self, other: Self) -> None:
        self.counts = [one + two for one, two in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


def _empty_histogram(bounds: tuple[float, ...]) -> Histogram:
    return Histogram([0] * (len(bounds) + 1))


class Timing(msgspec.Struct):
    """Timings and token counts of all requests to one model with one plan."""

    #: Seconds until the last byte, seconds until the first byte, and overhead in seconds.
    total: Histogram = msgspec.field(default_factory=lambda: _empty_histogram(SECONDS_BOUNDS), name="whole")
    first_byte: Histogram = msgspec.field(default_factory=lambda: _empty_histogram(SECONDS_BOUNDS), name="first")
    added: Histogram = msgspec.field(default_factory=lambda: _empty_histogram(ADDED_BOUNDS))
    #: Requests sent upstream, and tokens as reported by upstreams.
    upstream: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def observe(self, total: float, first_byte: float, added: float) -> None:
        """Add the times of one request, in seconds."""
        for histogram, value, bounds in (
            (self.total, total, SECONDS_BOUNDS),
            (self.first_byte, first_byte, SECONDS_BOUNDS),
            (self.added, added, ADDED_BOUNDS),
        ):
            histogram.counts[bisect_left(bounds, value)] += 1
            histogram.sum += value

    def add(self, other: Self) -> None:
        for name in ("total", "first_byte", "added"):
            getattr(self, name).add(getattr(other, name))
        for name in ("upstream", "input_tokens", "output_tokens"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Counters(msgspec.Struct):
    """All counters of one worker, or their sum over several workers."""

    #: Model requests by client protocol, model, plan, tools and status.
    requests: dict[Labels, int] = {}
    timings: dict[Labels, Timing] = {}  # timings by model and plan
    events: dict[Labels, int] = {}  # rare events; the first label is the metric family
    responses: dict[Labels, int] = {}  # all responses by route and status
    #: Current values by name; a replacement worker does not inherit them.
    gauges: dict[str, float] = {}

    def timing(self, labels: Labels) -> Timing:
        """Return the timing of a model and a plan, created on first use."""
        timing = self.timings.get(labels)
        return timing if timing is not None else self.timings.setdefault(labels, Timing())

    def add(self, other: Self) -> None:
        for name in ("requests", "events", "responses", "gauges"):
            mine: dict[object, float] = getattr(self, name)
            for key, count in getattr(other, name).items():
                mine[key] = mine.get(key, 0) + count
        for labels, timing in other.timings.items():
            self.timing(labels).add(timing)


def sum_counters(parts: Iterable[Counters]) -> Counters:
    """Return the sum of several counters without changing them."""
    result = Counters()
    for each in parts:
        result.add(each)
    return result


def decode_counters(data: bytes) -> Counters | None:
    """Decode counters; return None if the bytes are invalid."""
    try:
        return msgspec.msgpack.decode(data, type=Counters)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class WorkerCounters:
    """The counter files of all workers, used by the worker in one slot.

    Only its owner can access the folder, which has one file per slot. A worker that replaces a dead one continues from
    the dead worker's counters, so sums never decrease.
    """

    def __init__(self, folder: Path, slot: int) -> None:
        self.slot = slot
        self.folder = folder
        self._file = folder / f"{slot}.numbers"

    def load_previous(self) -> Counters:
        """Return the counters of the previous worker in this slot, without its gauges."""
        counters = _read_file(self._file) or Counters()
        counters.gauges = {}
        return counters

    def publish(self, counters: Counters) -> None:
        """Replace this worker's file atomically."""
        temporary = self._file.with_suffix(".half")
        try:
            temporary.write_bytes(msgspec.msgpack.encode(counters))
            os.replace(temporary, self._file)
        except OSError as error:  # requests must not fail because the disk is full
            _log.warning("cannot publish the counters of this worker: %s", error)

    def remove(self) -> None:
        """Delete the folder, after all workers have stopped."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def others(self) -> tuple[Counters, ...]:
        """Return the latest counters of the other workers, which publish them once a second."""
        files = (file for file in sorted(self.folder.glob("*.numbers")) if file != self._file)
        return tuple(counters for file in files if (counters := _read_file(file)) is not None)


def _read_file(file: Path) -> Counters | None:
    with suppress(OSError), file.open("rb") as stream:
        return decode_counters(stream.read(_MAX_FILE_BYTES))
    return None


class MinuteRow(msgspec.Struct):
    """Counts for one model in one minute."""

    minute: int = 0
    model: str = ""
    requests: int = 0
    #: Requests with native and with emulated tool calling.
    native: int = 0
    emulated: int = 0
    errors: int = 0
    #: Requests whose clients disconnected before the end.
    disconnected: int = msgspec.field(default=0, name="left")
    calls: int = 0
    no_call: int = 0
    retries: int = 0
    refusals: int = 0
    repairs: int = 0
    #: Overhead in seconds.
    added: float = 0.0
    upstream: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


_COUNT_FIELDS = MinuteRow.__struct_fields__[2:]


class MinuteSeries:
    """Per-minute time series of the counters for one day, oldest row first, without a database.

    A row is the change of the counters within one minute, computed when the next minute starts. Each request only costs
    one comparison.
    """

    def __init__(self, counters: Callable[[], Counters]) -> None:
        self._counters = counters
        self._rows: deque[MinuteRow] = deque(maxlen=_MAX_ROWS)
        self._minute = 0
        self._before: dict[str, MinuteRow] = {}

    def tick(self, now: float) -> None:
        """Close the previous minute if a new one has started; called at the start of each request."""
        minute = int(now) // _MINUTE
        if minute != self._minute:
            if self._minute:  # earlier counts belong to the previous worker in this slot
                self._rows.extend(self._increments())
            self._before = _by_model(self._counters())
            self._minute = minute

    def rows(self, now: float) -> tuple[MinuteRow, ...]:
        """Return all rows, including the current minute."""
        self.tick(now)
        return (*self._rows, *self._increments())

    def _increments(self) -> list[MinuteRow]:
        """Return the increments since the minute started, at least 0: replaced counters may have lower sums."""
        rows: list[MinuteRow] = []
        for model, total in _by_model(self._counters()).items():
            before = self._before.get(model, MinuteRow())
            increments = {name: max(0, getattr(total, name) - getattr(before, name)) for name in _COUNT_FIELDS}
            if increments["requests"]:
                rows.append(MinuteRow(self._minute * _MINUTE, model, **increments))
        return rows


def _by_model(counters: Counters) -> dict[str, MinuteRow]:
    rows: dict[str, MinuteRow] = {}
    for (_, model, _, tools, status), count in counters.requests.items():
        row = rows.setdefault(model, MinuteRow(model=model))
        row.requests += count
        row.native += count if tools == "native" else 0
        row.emulated += count if tools == "emulated" else 0
        row.disconnected += count if status == _DISCONNECTED else 0
        row.errors += count if status >= _ERROR and status != _DISCONNECTED else 0
    for (model, _), timing in counters.timings.items():
        row = rows.setdefault(model, MinuteRow(model=model))
        row.added += timing.added.sum
        row.upstream += timing.upstream
        row.input_tokens += timing.input_tokens
        row.output_tokens += timing.output_tokens
    for (family, model, kind, *_), count in counters.events.items():
        name, only = _EVENTS.get(family, ("", ""))
        if name and (not only or kind == only):
            row = rows.setdefault(model, MinuteRow(model=model))
            setattr(row, name, getattr(row, name) + count)
    return rows


def merge_rows(series: Iterable[Iterable[MinuteRow]]) -> list[MinuteRow]:
    """Sum the rows of several workers, oldest first."""
    sums: dict[tuple[int, str], MinuteRow] = {}
    for rows in series:
        for row in rows:
            if (merged := sums.setdefault((row.minute, row.model), row)) is not row:
                for name in _COUNT_FIELDS:
                    setattr(merged, name, getattr(merged, name) + getattr(row, name))
    return sorted(sums.values(), key=lambda row: row.minute)
