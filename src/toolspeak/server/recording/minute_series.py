"""What happened in each minute, for a day: the numbers of `/metrics`, over time and without a database.

Nothing is counted twice: once a minute it is looked at how far the numbers have come, and what they have grown by is
a row. A request costs one comparison.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from ..observe.counters import Numbers
from ..observe.request_context import GONE

_MINUTE = 60
#: A day of four models, or of more that are used now and then.
_MOST_ROWS = 1440 * 4
#: Families of events, what they are called in a row, and which of their kinds count (empty: all).
_EVENTS = {
    "calls": ("calls", ""),
    "no_call": ("no_call", ""),
    "retries": ("retries", ""),
    "faults": ("refusals", "refusal"),
    "repairs": ("repairs", ""),
}
#: From this status on a request was in vain; but for this one, of clients that left.
_ERROR, _LEFT = "4", str(GONE)


class Row(msgspec.Struct):
    """One minute of one model: how many of each there were."""

    minute: int = 0
    model: str = ""
    requests: int = 0
    #: Who did the calling: the model itself, or we.
    native: int = 0
    emulated: int = 0
    errors: int = 0
    #: Those whose clients did not wait for the end.
    left: int = 0
    calls: int = 0
    no_call: int = 0
    retries: int = 0
    refusals: int = 0
    repairs: int = 0
    #: Seconds that we added.
    added: float = 0.0
    upstream: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


_COUNTED = Row.__struct_fields__[2:]


class Series:
    """The rows, the oldest first.

    Args:
        numbers: what has been counted so far.
    """

    def __init__(self, numbers: Callable[[], Numbers], most: int = _MOST_ROWS) -> None:
        self._numbers = numbers
        self._rows: deque[Row] = deque(maxlen=most)
        self._minute = 0
        self._before: dict[str, Row] = {}

    def tick(self, now: float) -> None:
        """A request begins: if the minute is another one, what was counted until now belongs to the one before."""
        minute = int(now) // _MINUTE
        if minute != self._minute:
            self._turn(minute)

    def _turn(self, minute: int) -> None:
        if self._minute:  # what was counted before the first minute is that of a worker that had this place before
            self._rows.extend(self._grown())
        self._before = _by_model(self._numbers())
        self._minute = minute

    def rows(self, now: float) -> tuple[Row, ...]:
        """Everything that is known, the current minute included."""
        self.tick(now)
        return (*self._rows, *self._grown())

    def _grown(self) -> list[Row]:
        """What was counted since the minute began; sums that fell are those of another process."""
        found: list[Row] = []
        for model, total in _by_model(self._numbers()).items():
            before = self._before.get(model, Row())
            grown = {name: max(0, getattr(total, name) - getattr(before, name)) for name in _COUNTED}
            if grown["requests"]:
                found.append(Row(self._minute * _MINUTE, model, **grown))
        return found


def _by_model(numbers: Numbers) -> dict[str, Row]:
    """The numbers so far, for each model."""
    rows: dict[str, Row] = {}
    for (_, model, _, tools, status), count in numbers.requests.items():
        row = rows.setdefault(model, Row(model=model))
        row.requests += count
        row.native += count if tools == "native" else 0
        row.emulated += count if tools == "emulated" else 0
        row.left += count if status == _LEFT else 0
        row.errors += count if status >= _ERROR and status != _LEFT else 0
    for (model, _), timing in numbers.timings.items():
        row = rows.setdefault(model, Row(model=model))
        row.added += timing.added.sum
        row.upstream += timing.upstream
        row.input_tokens += timing.input_tokens
        row.output_tokens += timing.output_tokens
    for (family, model, kind, *_), count in numbers.events.items():
        name, only = _EVENTS.get(family, ("", ""))
        if name and (not only or kind == only):
            row = rows.setdefault(model, Row(model=model))
            setattr(row, name, getattr(row, name) + count)
    return rows


def summed(told: Iterable[Iterable[Row]]) -> list[Row]:
    """The rows of several workers as those of one, the oldest first."""
    sums: dict[tuple[int, str], Row] = {}
    for rows in told:
        for row in rows:
            if (known := sums.setdefault((row.minute, row.model), row)) is not row:
                for name in _COUNTED:
                    setattr(known, name, getattr(known, name) + getattr(row, name))
    return sorted(sums.values(), key=lambda row: row.minute)
