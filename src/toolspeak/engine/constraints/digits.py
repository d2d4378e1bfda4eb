"""Which digits an integer between two bounds may have, as patterns that any grammar can write down.

`12 to 345` is `1[2-9]`, `[2-9][0-9]`, `[1-2][0-9][0-9]`, `3[0-3][0-9]`, `34[0-5]`: a few patterns for each digit of
the bounds, never more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

#: Digits of a whole number: an identifier of 64 bits has nineteen.
MAX_DIGITS = 19

#: Digits as they stand, or a class of digits by its ends with how often it stands at least and at most.
Pattern: TypeAlias = tuple["str | tuple[str, int, int]", ...]


def digit_patterns(low: int | None, high: int | None) -> list[Pattern]:
    """Patterns for every integer from `low` to `high`, both inclusive, that has at most `MAX_DIGITS` digits."""
    most = 10**MAX_DIGITS - 1
    low = -most if low is None else max(low, -most)
    high = most if high is None else min(high, most)
    found: list[Pattern] = []
    if low > high:
        return found
    if low < 0:
        found += [("-", *pattern) for pattern in _natural(max(1, -high), -low)]
    if high >= 0:
        found += _natural(max(0, low), high)
    return found


def _natural(low: int, high: int) -> Iterator[Pattern]:
    first, last = str(low), str(high)
    if len(first) == len(last):
        yield from _same_length(first, last)
        return
    yield from _same_length(first, "9" * len(first))
    if len(last) > len(first) + 1:
        yield ("19", 1, 1), ("09", len(first), len(last) - 2)
    yield from _same_length("1" + "0" * (len(last) - 1), last)


def _same_length(first: str, last: str) -> Iterator[Pattern]:
    """Numbers with the same count of digits, by the first digit in which the bounds differ."""
    common = 0
    while common < len(first) and first[common] == last[common]:
        common += 1
    lead = (first[:common],) if common else ()
    if common == len(first):
        yield lead
        return
    one, other = first[common], last[common]
    low, high = first[common + 1 :], last[common + 1 :]
    size = len(low)
    free = (("09", size, size),) if size else ()
    if low.strip("0"):
        for tail in _same_length(low, "9" * size):
            yield (*lead, one, *tail)
        one = str(int(one) + 1)
    upper = other if not high.strip("9") else str(int(other) - 1)
    if one <= upper:
        yield (*lead, (one + upper, 1, 1), *free)
    if high.strip("9"):
        for tail in _same_length("0" * size, high):
            yield (*lead, other, *tail)
