"""Integers between two bounds as patterns of digits."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.engine.constraints.grammars import MAX_DIGITS, DigitPattern, digit_patterns


def spelt(pattern: DigitPattern) -> str:
    parts = (
        part if isinstance(part, str) else f"[{part[0][0]}-{part[0][1]}]{{{part[1]},{part[2]}}}" for part in pattern
    )
    return "".join(parts)


def matcher(low: int | None, high: int | None) -> re.Pattern[str]:
    return re.compile("|".join(map(spelt, digit_patterns(low, high))) or "(?!)")


@check_each(
    ("low", "high", "expected"),
    [
        (12, 345, [("1", ("29", 1, 1)), (("29", 1, 1), ("09", 1, 1)), (("12", 1, 1), ("09", 2, 2)), ("3", ("03", 1, 1), ("09", 1, 1)), ("3", "4", ("05", 1, 1))]),
        (19, 21, [("1", "9"), ("2", ("01", 1, 1))]),
        (7, 7, [("7",)]),
        (0, 9, [(("09", 1, 1),)]),
        (-3, -1, [("-", ("13", 1, 1))]),
        (5, 4, []),
        (10**40, None, []),
    ],
)  # fmt: skip
def test_bounds_become_few_patterns(low: int | None, high: int | None, expected: list[DigitPattern]):
    assert digit_patterns(low, high) == expected


@given(st.integers(-3000, 3000), st.integers(-3000, 3000), st.integers(-3100, 3100))
def test_exactly_the_integers_between_the_bounds_match(low: int, high: int, value: int):
    assert bool(matcher(low, high).fullmatch(str(value))) == (low <= value <= high)


@given(st.integers(-(10**18), 10**18), st.integers(-(10**18), 10**18), st.sampled_from([-1, 0, 1]))
def test_large_bounds_are_exact_at_their_ends(low: int, high: int, step: int):
    low, high = sorted((low, high))
    for value in (low + step, high + step):
        assert bool(matcher(low, high).fullmatch(str(value))) == (low <= value <= high)
    assert len(digit_patterns(low, high)) <= 4 * MAX_DIGITS


def test_no_leading_zero_and_no_negative_zero():
    anything = matcher(None, None)
    assert anything.fullmatch("9" * MAX_DIGITS)
    for spelling in ("-0", "007", "", "-", "1" * (MAX_DIGITS + 1)):
        assert not anything.fullmatch(spelling)
