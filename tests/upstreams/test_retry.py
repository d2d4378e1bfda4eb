"""Whether to ask again, and after how long: decided without a clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.errors import UpstreamError, UpstreamTimeout
from toolspeak.upstreams.http.retry import (
    PERMANENT_STATUSES,
    TRANSIENT_STATUSES,
    Retry,
    RetryBudget,
    retry_after_seconds,
    retry_delay,
    should_retry_header,
)


def _busy(**fields: float | bool) -> UpstreamError:
    return UpstreamError("busy", upstream_status=503, **fields)  # type: ignore[arg-type]


@pytest.mark.requirement("R-F2")
def test_waits_double_up_to_the_longest_and_chance_takes_a_quarter_at_most():
    retry = Retry(most=9)
    longest = [retry_delay(_busy(), attempt, retry, lambda: 0.0) for attempt in range(6)]
    assert longest == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert retry_delay(_busy(), 0, retry, lambda: 1.0) == 0.375


@pytest.mark.requirement("R-F1")
@given(st.floats(0.001, 60), st.floats(0, 1))
def test_nobody_comes_back_sooner_than_asked(asked: float, chance: float):
    wait = retry_delay(_busy(retry_after=asked), 0, Retry(), lambda: chance)
    assert wait is not None
    assert asked <= wait <= asked * 1.25


@check_each(
    ("error", "attempt"),
    [
        (_busy(), 2),
        (_busy(retry_after=60.5), 0),
        (_busy(should_retry=False), 0),
        (UpstreamError("odd", upstream_status=418), 0),
        (UpstreamError("the connection broke", kind="truncated"), 0),
        (UpstreamTimeout("no first byte"), 0),
        *[(UpstreamError("no", upstream_status=status, should_retry=True), 0) for status in sorted(PERMANENT_STATUSES)],
    ],
)
def test_what_does_not_pass_is_not_asked_again(error: UpstreamError, attempt: int):
    assert retry_delay(error, attempt, Retry(), lambda: 0.0) is None


def test_no_status_both_passes_and_does_not():
    assert not TRANSIENT_STATUSES & PERMANENT_STATUSES


@check_each(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 99 Foo"}, None),
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "5", "retry-after-ms": "120"}, 0.12),
        ({"retry-after": "5", "retry-after-ms": "soon"}, 5.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
    ],
)
def test_what_a_service_asks_for_is_read_from_its_headers(headers: dict[str, str], seconds: float | None):
    assert retry_after_seconds(headers, lambda: 60.0) == seconds


@check_each(("value", "says"), [("true", True), (" False ", False), ("1", None), ("", None)])
def test_a_service_says_whether_to_ask_again(value: str, says: bool | None):
    assert should_retry_header({"x-should-retry": value}) is says


def test_a_budget_is_refilled_by_requests():
    budget = RetryBudget(0.5)
    assert [budget.spend() for _ in range(12)] == [True] * 10 + [False] * 2
    budget.record_request()
    assert not budget.spend()
    budget.record_request()
    assert budget.spend()
    assert not budget.spend()
