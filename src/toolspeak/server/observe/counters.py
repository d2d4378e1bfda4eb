"""The numbers that a server keeps of what it does, and how those of several workers become one.

Plain integers under tuples of labels: counting a request costs about a microsecond. What a worker knows can be written
to a file and read by another; a sum of two is again such numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

#: The values of the labels, in the order in which a family names them.
Labels: TypeAlias = tuple[str, ...]

#: Upper bounds of the buckets in seconds: of whole answers, from a word to a model that thinks for minutes.
SECONDS_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
#: Of what we add, which is a thousandth of that.
ADDED_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Histogram(msgspec.Struct, gc=False):
    """How many values fell into each bucket, the last one without a bound, and their sum."""

    counts: list[int]
    sum: float = 0.0

    def observe(self, value: float, bounds: tuple[float, ...]) -> None:
        """Count a value."""
        self.counts[bisect_left(bounds, value)] += 1
        self.sum += value

    def add(self, other: Histogram) -> None:
        """Count what another has counted."""
        self.counts = [one + two for one, two in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


def _empty(bounds: tuple[float, ...]) -> Histogram:
    return Histogram([0] * (len(bounds) + 1))


class Timing(msgspec.Struct):
    """What the requests for one model by one plan took."""

    #: Seconds until the last byte, until the first one, and those that we added.
    whole: Histogram = msgspec.field(default_factory=lambda: _empty(SECONDS_BOUNDS))
    first: Histogram = msgspec.field(default_factory=lambda: _empty(SECONDS_BOUNDS))
    added: Histogram = msgspec.field(default_factory=lambda: _empty(ADDED_BOUNDS))
    #: Requests that went upstream, and tokens as far as they are told.
    upstream: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, other: Timing) -> None:
        """Count what another has counted."""
        for mine, others in ((self.whole, other.whole), (self.first, other.first), (self.added, other.added)):
            mine.add(others)
        self.upstream += other.upstream
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens


class Numbers(msgspec.Struct):
    """Everything that is counted."""

    #: Requests to models: face, model, plan, tools, status.
    requests: dict[Labels, int] = {}
    #: Model, plan.
    timings: dict[Labels, Timing] = {}
    #: What is rare: the family, then its labels.
    events: dict[Labels, int] = {}
    #: Everything that was answered: route, status.
    responses: dict[Labels, int] = {}
    #: What holds now, and ends with the process: by name.
    gauges: dict[str, float] = {}

    def timing(self, labels: Labels) -> Timing:
        """The timing of a model and a plan."""
        found = self.timings.get(labels)
        return found if found is not None else self.timings.setdefault(labels, Timing())

    def add(self, other: Numbers) -> None:
        """Count what another has counted."""
        tables = ((self.requests, other.requests), (self.events, other.events), (self.responses, other.responses))
        for mine, others in tables:
            for labels, count in others.items():
                mine[labels] = mine.get(labels, 0) + count
        for labels, timing in other.timings.items():
            self.timing(labels).add(timing)
        for name, value in other.gauges.items():
            self.gauges[name] = self.gauges.get(name, 0.0) + value


def total(several: Iterable[Numbers]) -> Numbers:
    """The sum; nobody's own numbers change."""
    result = Numbers()
    for each in several:
        result.add(each)
    return result


def written(numbers: Numbers) -> bytes:
    """Numbers as bytes."""
    return msgspec.msgpack.encode(numbers)


def read(data: bytes) -> Numbers | None:
    """Numbers from bytes; None when they are none."""
    try:
        return msgspec.msgpack.decode(data, type=Numbers)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
