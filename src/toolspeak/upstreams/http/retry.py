"""Whether to ask again, and after how long.

Only what is known to pass is asked again, only while nothing has flowed, and never for more than a share of the
traffic: a service that is down is not helped by three times the requests. The
clock, the sleep and the dice come in from outside.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from ...errors import UpstreamError

#: Statuses that usually pass. 409 is a lock, 529 an overloaded service.
PASSING = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
#: Statuses that say that this request will never be answered, whatever else is said.
FINAL = frozenset({400, 401, 403, 404, 422})

#: Requests that may be repeated before the share of the traffic counts, and most that are ever saved up.
_SAVED = 10.0


class Retry(msgspec.Struct, frozen=True):
    """How often to ask again, before the first byte."""

    most: int = 2
    #: The first wait; each further one is twice as long, up to the longest. A part of each is left to chance.
    first: float = 0.5
    longest: float = 8.0
    jitter: float = 0.25
    #: A service that asks for a longer wait than this gets none: its error is told at once.
    longest_asked: float = 60.0
    #: Retries for each request, in the long run.
    share: float = 0.2


class World(msgspec.Struct, frozen=True):
    """What a retry needs of the world, so that tests can do without."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    #: A number from 0 to 1.
    chance: Callable[[], float] = random.random
    #: Seconds since 1970, for dates only.
    now: Callable[[], float] = time.time


class Budget:
    """Retries as a share of the traffic."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._left = _SAVED

    def asked(self) -> None:
        """A request has been made."""
        if self._left < _SAVED:
            self._left = min(_SAVED, self._left + self._share)

    def spend(self) -> bool:
        """Whether one more retry is within the budget."""
        if self._left < 1:
            return False
        self._left -= 1
        return True


def wait_before(error: UpstreamError, attempt: int, retry: Retry, chance: Callable[[], float]) -> float | None:
    """Seconds to wait before asking again after the failure of attempt number `attempt`, counted from 0.

    None: asking again does not help, or not soon enough.
    """
    if attempt >= retry.most or not _passes(error):
        return None
    asked = error.retry_after
    if asked is not None and asked > retry.longest_asked:
        return None
    if asked:
        # Not sooner than asked, and not all at the same moment.
        return asked * (1 + retry.jitter * chance())
    return min(retry.first * 2**attempt, retry.longest) * (1 - retry.jitter * chance())


def _passes(error: UpstreamError) -> bool:
    if error.should_retry is None:
        return error.upstream_status in PASSING
    return error.should_retry and error.upstream_status not in FINAL


def asked_wait(headers: Mapping[str, str], now: Callable[[], float]) -> float | None:
    """Seconds that a service asks to wait, from the headers in use; None when it does not, or not readably."""
    for name, unit in (("retry-after-ms", 1000), ("x-ms-retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name, "")
        seconds = _number(value)
        if seconds is not None:
            return seconds / unit
        if value and name == "retry-after":
            return _until(value, now)
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(date: str, now: Callable[[], float]) -> float | None:
    # Dates are rare, and this import is slow.
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now())
    except (ValueError, OverflowError):
        return None


def says_retry(headers: Mapping[str, str]) -> bool | None:
    """What `x-should-retry` says, if anything."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())
