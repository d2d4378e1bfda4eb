"""Intervals against published values, and sums."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak.evaluation.results_file import CaseResult, EvalSetting
from toolspeak.evaluation.statistics import compute_score, score_by_category, wilson

SETTING = EvalSetting("builtin", "1", "openai:m")


@check_each(
    ("correct", "total", "low", "high"),
    [
        # R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        # Their mirrors.
        (20, 20, 0.8389, 1.0),
        (28, 29, 0.8282, 0.9939),
    ],
)
def test_intervals_are_the_published_ones(correct: int, total: int, low: float, high: float):
    assert wilson(correct, total) == pytest.approx((low, high), abs=5e-5)


def test_of_no_case_nothing_is_known():
    assert wilson(0, 0) == (0.0, 1.0)
    empty = compute_score([])
    assert (empty.cases, empty.share, empty.low, empty.high, empty.median_seconds) == (0, 0.0, 0.0, 1.0, 0.0)


@check_each("total", range(1, 40))
def test_an_interval_holds_its_share_and_stays_within_bounds(total: int):
    for correct in range(total + 1):
        low, high = wilson(correct, total)
        assert 0.0 <= low <= correct / total <= high <= 1.0


RECORDS = [
    CaseResult(SETTING, "1", "a", True, requests=1, input_tokens=10, output_tokens=5, seconds=1.0),
    CaseResult(
        SETTING, "2", "a", False, "wrong_tool", requests=3, retries=2, input_tokens=30, output_tokens=9, seconds=4.0
    ),
    CaseResult(SETTING, "3", "b", False, "error", error="gone", seconds=0.5),
    CaseResult(SETTING, "4", "b", False, "wrong_tool", requests=1, seconds=2.0),
]


def test_everything_is_summed_and_an_error_counts_as_wrong():
    found = compute_score(RECORDS)
    assert (found.cases, found.correct, found.errors, found.share) == (4, 1, 1, 0.25)
    assert (found.requests, found.retries, found.input_tokens, found.output_tokens) == (5, 2, 40, 14)
    assert (found.seconds, found.median_seconds) == (7.5, 1.5)
    assert list(found.faults.items()) == [("wrong_tool", 2), ("error", 1)]
    assert compute_score(RECORDS[:3]).median_seconds == 1.0


def test_categories_stand_behind_all_of_them():
    found = score_by_category(RECORDS)
    assert {name: (each.correct, each.cases) for name, each in found.items()} == {
        "all": (1, 4),
        "a": (1, 2),
        "b": (0, 2),
    }
    assert next(iter(found)) == "all"
