"""Retry policy: whether to retry a failed request, and after how long.

Only transient errors are retried, and only before the first event. Retries are limited to a share of the traffic, so an
overloaded service does not get three times the requests. Clock, sleep and randomness are injected.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from ...errors import UpstreamError

#: Statuses that are usually transient. 409 means a lock conflict, 529 an overloaded service.
TRANSIENT_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
#: Statuses that are never retried, whatever the headers say.
PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 422})

#: Number of retries available at the start, which is also the maximum that can be saved up.
_MAX_TOKENS = 10.0


class Retry(msgspec.Struct, frozen=True):
    """How often and when to retry a request that failed before its first event."""

    most: int = 2
    #: First delay in seconds. It doubles with each retry, up to `longest`. `jitter` is the random fraction of a delay.
    first: float = 0.5
    longest: float = 8.0
    jitter: float = 0.25
    #: If a service requests a longer delay than this, its error is raised at once.
    longest_asked: float = 60.0
    #: Maximum retries per request, on average over many requests.
    share: float = 0.2


class World(msgspec.Struct, frozen=True):
    """Sleep, randomness and clock, which tests can replace."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    #: Returns a random number from 0 to 1.
    chance: Callable[[], float] = random.random
    #: Returns the Unix time.
    now: Callable[[], float] = time.time


class RetryBudget:
    """Limits retries to a share of the traffic (token bucket)."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._tokens = _MAX_TOKENS

    def record_request(self) -> None:
        if self._tokens < _MAX_TOKENS:
            self._tokens = min(_MAX_TOKENS, self._tokens + self._share)

    def spend(self) -> bool:
        """Take one retry from the budget. Returns whether one was available."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def retry_delay(error: UpstreamError, attempt: int, retry: Retry, chance: Callable[[], float]) -> float | None:
    """Return the delay in seconds before the next attempt, or None for no retry. `attempt` is counted from 0."""
    if attempt >= retry.most or not _is_transient(error):
        return None
    requested = error.retry_after
    if requested is not None and requested > retry.longest_asked:
        return None
    if requested:
        # Wait at least as long as requested. The jitter keeps clients from retrying all at the same moment.
        return requested * (1 + retry.jitter * chance())
    return min(retry.first * 2**attempt, retry.longest) * (1 - retry.jitter * chance())


def _is_transient(error: UpstreamError) -> bool:
    if error.should_retry is not None:
        return error.should_retry and error.upstream_status not in PERMANENT_STATUSES
    # llama.cpp reports messages that do not fit the model's chat template with status 500.
    text = f"{error} {error.body}".lower()
    return error.upstream_status in TRANSIENT_STATUSES and "jinja" not in text and "chat template" not in text


def retry_after_seconds(headers: Mapping[str, str], now: Callable[[], float]) -> float | None:
    """Return the delay in seconds that a service requests in a header, or None if it is missing or invalid."""
    for name, unit in (("retry-after-ms", 1000), ("x-ms-retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name, "")
        seconds = _number(value)
        if seconds is not None:
            return seconds / unit
        if value and name == "retry-after":
            return _seconds_until(value, now)
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _seconds_until(date: str, now: Callable[[], float]) -> float | None:
    # Imported here, because dates are rare and this import is slow.
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now())
    except (ValueError, OverflowError):
        return None


def should_retry_header(headers: Mapping[str, str]) -> bool | None:
    """Return the value of the `x-should-retry` header, or None if it is not set."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())
