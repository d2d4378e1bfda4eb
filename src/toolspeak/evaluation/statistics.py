"""Statistics of finished cases: accuracy with confidence interval, and cost. No I/O."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import median

import msgspec

from .results_file import CaseResult

ALL = "all"  # name of the pseudo-category that contains all cases
_Z = 1.959963984540054  # 97.5 % quantile of the normal distribution, for 95 % intervals


def wilson(correct: int, total: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a proportion, which is sound for few cases and near 0 and 1."""
    if total == 0:
        return 0.0, 1.0
    share = correct / total
    square = _Z * _Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = _Z * sqrt(share * (1 - share) / total + square / (4 * total * total)) / (1 + square / total)
    # At the extremes the exact bound is 0 or 1, which floating-point arithmetic misses slightly.
    return (0.0 if correct == 0 else middle - half), (1.0 if correct == total else middle + half)


class Score(msgspec.Struct, frozen=True):
    cases: int
    correct: int
    errors: int  # cases that ended in an upstream error; they count as wrong
    share: float
    low: float
    high: float
    requests: int
    retries: int  # number of requests that were retries after a faulty answer
    input_tokens: int
    output_tokens: int
    seconds: float  # total time of all cases
    median_seconds: float
    faults: dict[str, int]


def compute_score(records: Sequence[CaseResult]) -> Score:
    total, correct = len(records), sum(each.correct for each in records)
    low, high = wilson(correct, total)
    faults = Counter(each.fault for each in records if each.fault)
    times = [each.seconds for each in records]
    totals = ("requests", "retries", "input_tokens", "output_tokens")
    return Score(
        cases=total,
        correct=correct,
        errors=sum(bool(each.error) for each in records),
        share=correct / total if total else 0.0,
        low=low,
        high=high,
        **{name: sum(getattr(each, name) for each in records) for name in totals},
        seconds=round(sum(times), 3),
        median_seconds=round(median(times), 3) if times else 0.0,
        faults=dict(sorted(faults.items(), key=lambda item: (-item[1], item[0]))),
    )


def score_by_category(records: Iterable[CaseResult]) -> dict[str, Score]:
    records = list(records)
    scores = {ALL: compute_score(records)}
    for category in sorted({each.category for each in records}):
        scores[category] = compute_score([each for each in records if each.category == category])
    return scores
