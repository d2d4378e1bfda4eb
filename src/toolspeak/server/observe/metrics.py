"""`/metrics`: what a server has done, in the text format of Prometheus.

Counted by hand, since the usual client library takes 4 to 6 microseconds for each number with labels and this takes
about one for a request. Labels are bounded: models by the catalogue, everything else by what this code can say. No
label and no value comes from a prompt, an answer or a key.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from ...engine.turn.actions import EMULATED
from ...engine.turn.trace import AttemptTrace
from ..proxy.exchange import Record
from .counters import ADDED_BOUNDS, SECONDS_BOUNDS, Histogram, Labels, Numbers, Timing

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
#: Where a name is nobody's, or one too many.
OTHER = "other"
_TOLD = {status: str(status) for status in range(100, 600)}
#: Models that are told apart. Brokers list thousands; nobody uses so many.
_MOST_MODELS = 200
#: Values of a label that come from our own code, in case some are made from more than a fixed list.
_MOST_EVENTS = 2000
#: Names are looked up again after so many seconds: an upstream may have told of more.
_FRESH = 60.0

#: Family of an event -> its help and its labels.
_EVENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "retries": ("Answers that were asked for again, by what was wrong with them.", ("model", "fault")),
    "faults": ("Answers that would not do, asked for again or not; `refusal` are refusals.", ("model", "fault")),
    "repairs": ("Calls that were put right, by what was put right.", ("model", "repair")),
    "calls": ("Calls that were found, by where: native or the dialect that was spoken.", ("model", "dialect")),
    "no_call": ("Requests with tools that ended without a call.", ("model", "plan")),
    "notes": ("What was noted about requests, by code.", ("model", "note")),
}
_GAUGES = {
    "toolspeak_requests_in_flight": "Model requests that are being answered.",
    "toolspeak_draining": "Workers that are told to end and still answer.",
    "toolspeak_workers": "Processes that answer.",
    "process_resident_memory_bytes": "Resident memory in bytes.",
    "process_open_fds": "Open file descriptors.",
    "process_max_fds": "Most file descriptors that may be open.",
}


#: Face, model, plan, whether it was emulated, whether tools were left alone, status.
_Key: TypeAlias = tuple[str, str, str, bool, bool, int]
#: The rule by which tools go up as they are.
_OFF = "mode.off"


class Metrics:
    """Counts what one process does.

    Args:
        names: the models that are known by name.
        numbers: what was counted before.
    """

    def __init__(
        self,
        names: Callable[[], Collection[str]] = tuple,
        numbers: Numbers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.numbers = numbers or Numbers()
        self.names = names
        self._clock = clock
        self._models: dict[str, str] = {}
        self._series: dict[_Key, tuple[Labels, Timing]] = {}
        self._known: frozenset[str] = frozenset()
        self._looked = float("-inf")

    def responded(self, route: str, status: int) -> None:
        """Something was answered."""
        table, labels = self.numbers.responses, (route, _TOLD.get(status, OTHER))
        table[labels] = table.get(labels, 0) + 1

    def requested(self, record: Record, status: int, whole: float, first: float, added: float) -> None:
        """A model request was answered: what happened, and the seconds that it took."""
        trace = record.trace
        attempts = trace.attempts
        name = attempts[-1].request.model if attempts else record.model
        model = self._models.get(name) or self._found(name)
        plan = record.plan
        key = (record.face, model, plan, EMULATED in record.warnings, trace.rule == _OFF, status)
        labels, timing = self._series.get(key) or self._new_series(key, record)
        self.numbers.requests[labels] += 1
        timing.whole.observe(whole, SECONDS_BOUNDS)
        timing.first.observe(first, SECONDS_BOUNDS)
        timing.added.observe(added, ADDED_BOUNDS)
        timing.upstream += record.requests
        for attempt in attempts:
            usage = attempt.usage
            timing.input_tokens += usage.input_tokens
            timing.output_tokens += usage.output_tokens
            if attempt.candidates or attempt.fault is not None:
                self._judged(model, attempt)
        if len(attempts) > 1:
            self._asked_again(model, attempts)
        for note in record.notes:
            self._event("notes", model, note.code)
        if trace.why_no_call and (labels[3] != "none" or plan == "plain"):
            self._event("no_call", model, plan)

    def _new_series(self, key: _Key, record: Record) -> tuple[Labels, Timing]:
        """Where requests of this kind are counted. Kinds are bounded: models are, and the rest is ours."""
        model = key[1]
        labels = (record.face, model, record.plan, tools_of(record), _TOLD.get(key[-1], OTHER))
        self.numbers.requests.setdefault(labels, 0)
        return self._series.setdefault(key, (labels, self.numbers.timing((model, record.plan))))

    def go_on_from(self, numbers: Numbers) -> None:
        """Count on from these."""
        self.numbers = numbers
        self._series.clear()

    def _judged(self, model: str, attempt: AttemptTrace) -> None:
        if attempt.fault is not None:
            self._event("faults", model, attempt.fault.kind)
        for candidate in attempt.candidates:
            if candidate.verdict == "call":
                self._event("calls", model, candidate.dialect or "native")
                for note in candidate.notes:
                    self._event("repairs", model, note.code)

    def _asked_again(self, model: str, attempts: tuple[AttemptTrace, ...]) -> None:
        for attempt, following in pairwise(attempts):
            if attempt.fault is not None and attempt.phase == following.phase:
                self._event("retries", model, attempt.fault.kind)

    def _event(self, *labels: str) -> None:
        table = self.numbers.events
        if labels not in table and len(table) >= _MOST_EVENTS:
            labels = (labels[0], OTHER, OTHER)
        table[labels] = table.get(labels, 0) + 1

    def model(self, name: str) -> str:
        """The label of a model: its name if it is known here, else `other`."""
        return self._models.get(name) or self._found(name)

    def _found(self, name: str) -> str:
        now = self._clock()
        if now - self._looked >= _FRESH:
            self._looked = now
            self._known = frozenset(self.names())
        if name not in self._known or len(self._models) >= _MOST_MODELS:
            return OTHER
        return self._models.setdefault(name, name)

    def forget_names(self) -> None:
        """The catalogue is another one."""
        self._looked = float("-inf")
        self._models.clear()


def tools_of(record: Record) -> str:
    """Who did the calling: the model itself, we, or nobody."""
    if EMULATED in record.warnings:
        return "emulated"
    return "native" if record.plan in ("native", "fallback") or record.trace.rule == _OFF else "none"


def gauges_of_this_process() -> dict[str, float]:
    """What can be told of the process itself; nothing where the system does not tell."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return {
            "process_resident_memory_bytes": float(pages * resource.getpagesize()),
            "process_open_fds": float(len(os.listdir("/proc/self/fd"))),
            "process_max_fds": float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        }
    except (ImportError, OSError, ValueError):
        return {}


# ---- the text


def exposition(numbers: Numbers, version: str) -> bytes:
    """The numbers as Prometheus reads them."""
    return "\n".join([*_lines(numbers, version), ""]).encode()


def _lines(numbers: Numbers, version: str) -> Iterator[str]:
    yield from _family("toolspeak_build_info", "gauge", "Which version runs.", [(_told(("version",), (version,)), 1)])
    names = ("face", "model", "plan", "tools", "status")
    yield from _counter("requests", "Requests to models.", names, numbers.requests)
    yield from _counter("responses", "Everything that was answered.", ("route", "status"), numbers.responses)
    yield from _timings(numbers)
    for family, (told, labels) in _EVENTS.items():
        table = {each[1:]: count for each, count in numbers.events.items() if each[0] == family}
        yield from _counter(family, told, labels, table)
    for name, told in _GAUGES.items():
        if name in numbers.gauges:
            yield from _family(name, "gauge", told, [("", numbers.gauges[name])])


def _timings(numbers: Numbers) -> Iterator[str]:
    timings, names = numbers.timings, ("model", "plan")
    asked = {labels: timing.upstream for labels, timing in timings.items()}
    yield from _counter("upstream_requests", "Requests that went upstream, ours included.", names, asked)
    tokens: dict[Labels, int] = {}
    for labels, timing in timings.items():
        tokens |= {(*labels, "input"): timing.input_tokens, (*labels, "output"): timing.output_tokens}
    yield from _counter("tokens", "Tokens as upstreams told.", (*names, "kind"), tokens)
    tables = (
        ("request_seconds", "Seconds until the last byte.", SECONDS_BOUNDS, "whole"),
        ("first_byte_seconds", "Seconds until the first byte.", SECONDS_BOUNDS, "first"),
        ("added_seconds", "Seconds beyond waiting for the upstream and for the client.", ADDED_BOUNDS, "added"),
    )
    for name, told, bounds, field in tables:
        yield from _head(f"toolspeak_{name}", "histogram", told)
        for labels, timing in timings.items():
            yield from _buckets(f"toolspeak_{name}", _told(names, labels), getattr(timing, field), bounds)


def _counter(name: str, told: str, names: tuple[str, ...], table: dict[Labels, int]) -> Iterator[str]:
    rows = [(_told(names, labels), count) for labels, count in table.items()]
    yield from _family(f"toolspeak_{name}_total", "counter", told, rows)


def _family(name: str, kind: str, told: str, rows: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield from _head(name, kind, told)
    for labels, value in rows:
        yield f"{name}{{{labels}}} {_number(value)}" if labels else f"{name} {_number(value)}"


def _head(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"


def _buckets(name: str, labels: str, histogram: Histogram, bounds: tuple[float, ...]) -> Iterator[str]:
    below = 0
    for bound, count in zip((*map(str, bounds), "+Inf"), histogram.counts, strict=True):
        below += count
        yield f'{name}_bucket{{{labels},le="{bound}"}} {below}'
    yield f"{name}_sum{{{labels}}} {_number(histogram.sum)}"
    yield f"{name}_count{{{labels}}} {below}"


def _told(names: tuple[str, ...], values: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
