"""Request counters and their sums over all workers, and statistics of requests over time.

Counters are plain integers keyed by tuples of labels, so counting a request takes about a microsecond. Each worker
publishes its counters in a file, so any worker can report the sum over all of them. Statistics hold numbers and the
names of models, clients and keys, but never text from a prompt or an answer.
"""

import logging
import os
import shutil
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import ceil, log
from pathlib import Path
from typing import Self, TypeAlias

import msgspec

from ...core.types import JSONValue
from ...errors import UsageError

_log = logging.getLogger("toolspeak.server")

#: Label values, in the order of the label names of a metric family.
Labels: TypeAlias = tuple[str, ...]

#: Upper bounds of the histogram buckets for response times, in seconds.
SECONDS_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
#: Upper bounds of the histogram buckets for the overhead that toolspeak adds, in seconds.
ADDED_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
#: Maximum size of a worker's counter file: 200 models with every plan take about 1 MB.
_MAX_FILE_BYTES = 16 * 1024 * 1024


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


#: Lengths of the periods that the store keeps, in seconds, and how many of each: 6 hours, 4 days and 90 days.
PERIODS, MAX_PERIODS = (60, 900, 21_600), 360
_KEY = "statistics/{}/{}"  # the key of a stored period, by its length and start
_MAX_ROWS = 5000  # number of requests whose numbers are kept without a store
#: Maximum number of models, clients or keys in a period; others count as one.
_MAX_VALUES, _OTHER = 50, "other"
_MAX_BARS = 48
#: Buckets of times in a `Totals`: the upper bound of bucket 0 in seconds, and how much larger each one is.
_FIRST_BOUND, _GROWTH = 0.01, 1.25


class Totals(msgspec.Struct, omit_defaults=True):
    """The numbers of a group of requests."""

    requests: int = 0
    #: Requests with native and with emulated tool calling.
    native: int = 0
    emulated: int = 0
    errors: int = 0
    #: Requests whose clients disconnected before the end.
    disconnected: int = 0
    calls: int = 0
    no_call: int = 0
    retries: int = 0
    refusals: int = 0
    repairs: int = 0
    #: Requests with tools that a model answered; those whose first answer could be used as it was; those that ended
    #: with valid calls or a plain answer.
    judged: int = 0
    unaided: int = 0
    successful: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    added: float = 0.0  # overhead in seconds
    #: Number of requests by bucket of their total time, and of the time until the first token.
    total: dict[int, int] = {}
    first_token: dict[int, int] = {}

    def add(self, other: Self) -> None:
        for name in _COUNTS:
            if value := getattr(other, name):
                setattr(self, name, getattr(self, name) + value)
        for mine, theirs in ((self.total, other.total), (self.first_token, other.first_token)):
            for bucket, count in theirs.items():
                mine[bucket] = mine.get(bucket, 0) + count


_COUNTS = Totals.__struct_fields__[:-2]
#: Totals by dimension (`model`, `client`, `key`, or empty for all requests) and value, also by number of a `bar`.
Groups: TypeAlias = dict[str, dict[str, Totals]]


def bucket_of(seconds: float) -> int:
    return max(0, ceil(log(seconds / _FIRST_BOUND, _GROWTH))) if seconds > _FIRST_BOUND else 0


def add_groups(groups: Groups, others: Groups) -> None:
    for dimension, values in others.items():
        mine = groups.setdefault(dimension, {})
        for value, totals in values.items():
            place = value if value in mine or len(mine) < _MAX_VALUES else _OTHER
            mine.setdefault(place, Totals()).add(totals)


class RequestRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    started_at: float  # in seconds since the epoch
    model: str
    client: str
    key: str
    totals: Totals

    def groups(self) -> Groups:
        values = {"": "", "model": self.model, "client": self.client, "key": self.key}
        return {dimension: {value: self.totals} for dimension, value in values.items()}


class Period(msgspec.Struct, omit_defaults=True):
    """The numbers of all requests that started in a period, as stored. `batches`: the last batch of each writer."""

    groups: Groups = {}
    batches: dict[str, int] = {}


def periods_of(rows: Iterable[RequestRow], seconds: int) -> dict[str, Groups]:
    """Return the numbers to add to each period of this length."""
    periods: dict[str, Groups] = {}
    for row in rows:
        start = int(row.started_at) // seconds * seconds
        add_groups(periods.setdefault(_KEY.format(seconds, start), {}), row.groups())
    return periods


def add_to_period(stored: JSONValue, groups: Groups, writer: str, batch: int) -> JSONValue:
    """Return a stored period with the numbers of a batch. A batch that is written again is not counted again."""
    period = msgspec.convert(stored, Period, str_keys=True) if stored else Period()
    if period.batches.get(writer, -1) < batch:
        period.batches[writer] = batch
        add_groups(period.groups, groups)
    return msgspec.to_builtins(period, str_keys=True)


class StatisticsQuery(msgspec.Struct, frozen=True):
    """A range of time in seconds since the epoch, and whose bars to draw: of one value, or of all requests."""

    since: float
    until: float
    seconds: int  # the length of the stored periods to read
    width: int  # the length of a bar: a whole number of periods
    dimension: str = ""
    value: str = ""


def read_query(params: Mapping[str, str]) -> StatisticsQuery:
    """Return the query in URL parameters. It reads the shortest periods that are kept for that long."""
    try:
        since, until = float(params["since"]), float(params["until"])
    except (KeyError, ValueError):
        since = until = 0.0
    if not (0 < since < until and until - since <= PERIODS[-1] * MAX_PERIODS):
        raise UsageError("`since` must be before `until`, by at most 90 days", hint="give seconds since the epoch")
    age = time.time() - since
    seconds = next((each for each in PERIODS if age <= each * MAX_PERIODS), PERIODS[-1])
    since -= since % seconds
    width = ceil((until - since) / seconds / _MAX_BARS) * seconds
    return StatisticsQuery(since, until, seconds, width, params.get("dimension", ""), params.get("value", ""))


class Statistics:
    """The numbers of requests over time: in the store, or of the latest requests in memory.

    With a store, `sink` takes each request, and `stored` returns the periods with these keys.
    """

    def __init__(
        self,
        sink: Callable[[RequestRow], None] | None = None,
        stored: Callable[[Iterable[str]], Mapping[str, JSONValue]] | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._rows: deque[RequestRow] = deque(maxlen=_MAX_ROWS)
        self.add = sink or self._rows.append
        self.stored = stored
        self.close = close  # stores what is left, which may take several seconds

    def summarize(self, query: StatisticsQuery) -> Groups:
        """Return the numbers in a range of time, also by `bar`. This takes up to a few tenths of a second."""
        since, until, seconds = query.since, query.until, query.seconds
        if self.stored is not None:
            starts = {_KEY.format(seconds, start): start for start in range(int(since), int(until), seconds)}
            stored = self.stored(starts).items()
            parts = ((starts[key], msgspec.convert(period, Period, str_keys=True).groups) for key, period in stored)
        else:
            parts = ((row.started_at, row.groups()) for row in tuple(self._rows) if since <= row.started_at < until)
        summary: Groups = {}
        for start, groups in parts:
            totals = groups.get(query.dimension, {}).get(query.value)
            bar = {str(int((start - since) // query.width)): totals} if totals is not None else {}
            add_groups(summary, {**groups, "bar": bar})
        return summary
