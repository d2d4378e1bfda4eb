"""`/metrics`: server metrics in the Prometheus text format.

The usual client library takes 4 to 6 microseconds per labelled value; the counters here take about one microsecond per
request. The number of label values is bounded: for models by the catalogue and a limit, for all others by fixed sets.
Labels must never contain text from a prompt, an answer or a key.
"""

import os
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from ...engine.turn.actions import EMULATED
from ...engine.turn.trace import AttemptTrace, mark_of, of_model, was_retried
from ..proxy.exchange import RequestRecord
from .counters import ADDED_BOUNDS, SECONDS_BOUNDS, Counters, Histogram, Labels, Timing

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
#: Label for unknown models and for values beyond a limit.
OTHER = "other"
_STATUS_LABELS = {status: str(status) for status in range(100, 600)}
#: Maximum number of models that get their own label. Brokers list thousands.
_MAX_MODELS = 200
#: Number of labels up to which models that no upstream lists get one after their first answer. Some upstreams accept
#: any name.
_MAX_WITH_UNLISTED = 100
#: Maximum number of label combinations for events, in case a value does not come from a fixed set.
_MAX_EVENT_SERIES = 2000
_MAX_REQUESTS_LABEL = 5  # the largest number of requests that gets its own label
#: Seconds after which model names are read again, because an upstream may list new ones.
_NAMES_TTL = 60.0

#: Help texts and label names of the families of events and gauges.
_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
#: Client protocol, model, plan, whether tools were emulated, whether they were passed through by mode `off`, status.
_Key: TypeAlias = tuple[str, str, str, bool, bool, int]
OFF_RULE = "mode.off"  # the planning rule that passes tools through unchanged


class Metrics:
    """The metrics of one process. `names` returns the model names that get their own label."""

    def __init__(
        self, names: Callable[[], Collection[str]] = tuple, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counters = Counters()
        self.names = names
        self._clock = clock
        self._models: dict[str, str] = {}
        self._series: dict[_Key, tuple[Labels, Timing]] = {}
        self._model_names: frozenset[str] = frozenset()
        self._names_read_at = float("-inf")

    def count_response(self, route: str, status: int) -> None:
        table, labels = self.counters.responses, (route, _STATUS_LABELS.get(status, OTHER))
        table[labels] = table.get(labels, 0) + 1

    def count_request(self, record: RequestRecord, status: int, total: float, first: float, added: float) -> None:
        """Count a finished model request; the times are in seconds."""
        trace = record.trace
        attempts = of_model(trace.attempts)
        name = attempts[-1].request.model if attempts else record.model
        model = self._models.get(name) or self._model_label(name, answered=bool(attempts) and not record.error)
        plan = record.plan
        key = (record.client_protocol, model, plan, EMULATED in record.warnings, trace.rule == OFF_RULE, status)
        labels, timing = self._series.get(key) or self._new_series(key, record)
        self.counters.requests[labels] += 1
        timing.observe(total, first, added)
        timing.upstream += record.requests
        for attempt in trace.attempts:
            usage = attempt.usage
            timing.input_tokens += usage.input_tokens
            timing.output_tokens += usage.output_tokens
            if attempt.candidates or attempt.fault is not None:
                self._count_attempt(model, attempt)
        if len(attempts) > 1:
            for attempt, following in pairwise(attempts):
                if attempt.fault is not None and was_retried(attempt, following):
                    self._count_event("retries", model, attempt.fault.kind)
        for note in record.notes:
            self._count_event("notes", model, note.code)
        if attempts and not trace.why_no_call:
            self._count_event("turns_with_calls", model, str(min(len(attempts), _MAX_REQUESTS_LABEL)))
        if trace.why_no_call and (labels[3] != "none" or plan == "plain"):
            self._count_event("no_call", model, plan)

    def _new_series(self, key: _Key, record: RequestRecord) -> tuple[Labels, Timing]:
        """Create the time series for a label combination. Every label is bounded, so the number of series is too."""
        model = key[1]
        labels = (record.client_protocol, model, record.plan, tools_label(record), _STATUS_LABELS.get(key[-1], OTHER))
        self.counters.requests.setdefault(labels, 0)
        return self._series.setdefault(key, (labels, self.counters.timing((model, record.plan))))

    def resume_from(self, counters: Counters) -> None:
        """Continue counting from these counters."""
        self.counters = counters
        self._series.clear()

    def _count_attempt(self, model: str, attempt: AttemptTrace) -> None:
        if attempt.fault is not None:
            self._count_event("faults", model, attempt.fault.kind)
        for candidate in attempt.candidates:
            if (mark := mark_of(candidate)) is not None:
                self._count_event("marks", model, mark)
            if candidate.verdict == "call":
                self._count_event("calls", model, candidate.dialect or "native")
                for note in candidate.notes:
                    self._count_event("repairs", model, note.code)

    def _count_event(self, *labels: str) -> None:
        table = self.counters.events
        if labels not in table and len(table) >= _MAX_EVENT_SERIES:
            labels = (labels[0], OTHER, OTHER)
        table[labels] = table.get(labels, 0) + 1

    def model(self, name: str) -> str:
        """Return the label of a model: its name if it is in the catalogue or was answered for, else `other`."""
        return self._models.get(name) or self._model_label(name)

    def _model_label(self, name: str, *, answered: bool = False) -> str:
        now = self._clock()
        if now - self._names_read_at >= _NAMES_TTL:
            self._names_read_at = now
            self._model_names = frozenset(self.names())
        if name in self._model_names:
            limit = _MAX_MODELS
        else:
            limit = _MAX_WITH_UNLISTED if answered and name.isprintable() else 0
        return self._models.setdefault(name, name) if len(self._models) < limit else OTHER

    def forget_names(self) -> None:
        """Discard the cached model names, because the catalogue has changed."""
        self._names_read_at = float("-inf")
        self._models.clear()


def tools_label(record: RequestRecord) -> str:
    """Return how tools were called: `native`, `emulated` or `none`."""
    if EMULATED in record.warnings:
        return "emulated"
    return "native" if record.plan in ("native", "fallback") or record.trace.rule == OFF_RULE else "none"


def gauges_of_this_process() -> dict[str, float]:
    """Return memory and file descriptor gauges; an empty mapping on systems without `/proc`."""
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


def exposition(counters: Counters, version: str) -> bytes:
    """Render the counters in the Prometheus text format."""
    return "\n".join([*_lines(counters, version), ""]).encode()


def _lines(counters: Counters, version: str) -> Iterator[str]:
    info = [(_label_pairs(("version",), (version,)), 1)]
    yield from _family("toolspeak_build_info", "gauge", "Version of toolspeak.", info)
    names = ("face", "model", "plan", "tools", "status")
    yield from _counter("requests", "Model requests.", names, counters.requests)
    yield from _counter("responses", "All HTTP responses.", ("route", "status"), counters.responses)
    yield from _timings(counters)
    for family, texts in _TEXTS["events"].items():
        table = {each[1:]: count for each, count in counters.events.items() if each[0] == family}
        yield from _counter(family, texts["help"], tuple(texts["labels"]), table)
    for name, help_text in _TEXTS["gauges"].items():
        if name in counters.gauges:
            yield from _family(name, "gauge", help_text, [("", counters.gauges[name])])


def _timings(counters: Counters) -> Iterator[str]:
    timings, names = counters.timings, ("model", "plan")
    upstream_requests = {labels: timing.upstream for labels, timing in timings.items()}
    yield from _counter("upstream_requests", "Requests sent upstream, including retries.", names, upstream_requests)
    tokens: dict[Labels, int] = {}
    for labels, timing in timings.items():
        tokens |= {(*labels, "input"): timing.input_tokens, (*labels, "output"): timing.output_tokens}
    yield from _counter("tokens", "Tokens as reported by upstreams.", (*names, "kind"), tokens)
    tables = (
        ("request_seconds", "Seconds until the last byte.", SECONDS_BOUNDS, "total"),
        ("first_byte_seconds", "Seconds until the first byte.", SECONDS_BOUNDS, "first_byte"),
        ("added_seconds", "Overhead in seconds, without waiting for upstream and client.", ADDED_BOUNDS, "added"),
    )
    for name, help_text, bounds, field in tables:
        yield from _header(f"toolspeak_{name}", "histogram", help_text)
        for labels, timing in timings.items():
            yield from _buckets(f"toolspeak_{name}", _label_pairs(names, labels), getattr(timing, field), bounds)


def _counter(name: str, help_text: str, names: tuple[str, ...], table: dict[Labels, int]) -> Iterator[str]:
    rows = [(_label_pairs(names, labels), count) for labels, count in table.items()]
    yield from _family(f"toolspeak_{name}_total", "counter", help_text, rows)


def _family(name: str, kind: str, help_text: str, rows: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield from _header(name, kind, help_text)
    for labels, value in rows:
        yield f"{name}{{{labels}}} {_format_number(value)}" if labels else f"{name} {_format_number(value)}"


def _header(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _buckets(name: str, labels: str, histogram: Histogram, bounds: tuple[float, ...]) -> Iterator[str]:
    below = 0
    for bound, count in zip((*map(str, bounds), "+Inf"), histogram.counts, strict=True):
        below += count
        yield f'{name}_bucket{{{labels},le="{bound}"}} {below}'
    yield f"{name}_sum{{{labels}}} {_format_number(histogram.sum)}"
    yield f"{name}_count{{{labels}}} {below}"


def _label_pairs(names: tuple[str, ...], values: Labels) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _format_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
