"""What happened in each minute, for a day: the numbers of `/metrics`, over time and without a database.

One row for each minute and model, bounded. Counting a request takes a few microseconds. Above: `recorder`, `page_api`.
Below: the records of `exchange`, `metrics`.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

import msgspec

from ..core.trace import AttemptTrace
from .exchange import Record
from .metrics import tools_of

__all__ = ["Row", "Series", "retries_in"]

_MINUTE = 60
#: A day of one model, or of some models that are used now and then.
_MOST_ROWS = 1440 * 4
#: Names come from requests.
_LONGEST_NAME = 200
_REFUSAL = "refusal"


class Row(msgspec.Struct):
    """One minute of one model."""

    minute: int
    model: str
    requests: int = 0
    #: Who did the calling: the model itself, we, or nobody.
    native: int = 0
    emulated: int = 0
    errors: int = 0
    calls: int = 0
    no_call: int = 0
    retries: int = 0
    refusals: int = 0
    repairs: int = 0
    #: Seconds that we added, all of them together and the most.
    added: float = 0.0
    most_added: float = 0.0
    upstream: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Series:
    """The rows, the oldest first."""

    def __init__(self, most: int = _MOST_ROWS) -> None:
        self._rows: OrderedDict[tuple[int, str], Row] = OrderedDict()
        self._most = most

    def rows(self) -> tuple[Row, ...]:
        """Everything that is known."""
        return tuple(self._rows.values())

    def add(self, record: Record, began: float, added: float) -> None:
        """Count a request."""
        row = self._row(int(began) // _MINUTE, record.model[:_LONGEST_NAME])
        trace = record.trace
        tools = tools_of(record)
        row.requests += 1
        row.native += tools == "native"
        row.emulated += tools == "emulated"
        row.errors += bool(record.error)
        row.no_call += bool(trace.why_no_call) and tools != "none"
        row.added += added
        row.most_added = max(row.most_added, added)
        row.upstream += record.requests
        for attempt in trace.attempts:
            _count(row, attempt)
        row.retries += retries_in(trace.attempts)

    def _row(self, minute: int, model: str) -> Row:
        row = self._rows.get((minute, model))
        if row is None:
            row = self._rows[minute, model] = Row(minute * _MINUTE, model)
            if len(self._rows) > self._most:
                self._rows.popitem(last=False)
        return row


def _count(row: Row, attempt: AttemptTrace) -> None:
    usage = attempt.usage
    row.input_tokens += usage.input_tokens
    row.output_tokens += usage.output_tokens
    row.refusals += attempt.fault is not None and attempt.fault.kind == _REFUSAL
    for candidate in attempt.candidates:
        if candidate.verdict == "call":
            row.calls += 1
            row.repairs += len(candidate.notes)


def retries_in(attempts: tuple[AttemptTrace, ...]) -> int:
    """How many answers were asked for again."""
    return sum(one.fault is not None and one.phase == two.phase for one, two in pairwise(attempts))
