"""From finished cases to numbers: how many are right, how sure that is, and what it cost.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

import msgspec

from .journal import Record

#: The category that stands for all of them.
ALL = "all"
#: Standard deviations around the mean that hold 95 % of a normal distribution.
_Z = 1.959963984540054


def wilson(correct: int, total: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share, by Wilson's score: sound for few cases and near 0 and 1."""
    if total == 0:
        return 0.0, 1.0
    share = correct / total
    square = _Z * _Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = _Z * sqrt(share * (1 - share) / total + square / (4 * total * total)) / (1 + square / total)
    # At the ends the formula gives exactly 0 and 1, and floating point nearly so.
    return (0.0 if correct == 0 else middle - half), (1.0 if correct == total else middle + half)


class Score(msgspec.Struct, frozen=True):
    """The numbers of some cases."""

    cases: int
    correct: int
    #: Cases that ended in an error of the upstream; they count as wrong.
    errors: int
    share: float
    low: float
    high: float
    requests: int
    #: Requests that asked again for an answer that was wrong.
    retries: int
    input_tokens: int
    output_tokens: int
    #: Of all cases together, and of the middle one.
    seconds: float
    median_seconds: float
    #: How often each fault was found.
    faults: dict[str, int]


def score(records: Sequence[Record]) -> Score:
    """The numbers of these cases."""
    total, correct = len(records), sum(each.correct for each in records)
    low, high = wilson(correct, total)
    faults: dict[str, int] = {}
    for each in records:
        if each.fault:
            faults[each.fault] = faults.get(each.fault, 0) + 1
    times = sorted(each.seconds for each in records)
    return Score(
        cases=total,
        correct=correct,
        errors=sum(bool(each.error) for each in records),
        share=correct / total if total else 0.0,
        low=low,
        high=high,
        requests=sum(each.requests for each in records),
        retries=sum(each.retries for each in records),
        input_tokens=sum(each.input_tokens for each in records),
        output_tokens=sum(each.output_tokens for each in records),
        seconds=round(sum(times), 3),
        median_seconds=_median(times),
        faults=dict(sorted(faults.items(), key=lambda item: (-item[1], item[0]))),
    )


def score_by_category(records: Iterable[Record]) -> dict[str, Score]:
    """The numbers of all cases, then those of each category."""
    records = list(records)
    found = {ALL: score(records)}
    for category in sorted({each.category for each in records}):
        found[category] = score([each for each in records if each.category == category])
    return found


def _median(times: Sequence[float]) -> float:
    if not times:
        return 0.0
    half = len(times) // 2
    return times[half] if len(times) % 2 else round((times[half - 1] + times[half]) / 2, 3)
