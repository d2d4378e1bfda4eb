"""Assertions about how run time grows with the input: ratios, so the speed of the machine does not matter.

Measured is the CPU time of this thread, best of several tries, so other load on the machine hardly counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["assert_cheap_beside", "assert_linear"]

_TRIES = 5
#: Below this, in seconds, the clock says more about itself than about what it measures.
_TOO_LITTLE = 0.002
#: How much more than in proportion counts as growing faster: caches and the allocator take their share.
_SLACK = 2.5


def spent(run: Callable[[], object]) -> float:
    """The CPU seconds of one run."""
    begun = time.thread_time()
    run()
    return time.thread_time() - begun


def assert_linear(make: Callable[[int], Callable[[], object]], size: int, factor: int = 8) -> None:
    """`make(n)` prepares a run over `n` things; `factor` times as many may not take much more than that in time."""
    small, large = make(size // factor), make(size)
    growth = 0.0
    for _ in range(_TRIES):
        long = min(spent(large), spent(large))
        if long < _TOO_LITTLE:
            return
        growth = long / max(spent(small), _TOO_LITTLE / factor)
        if growth < factor * _SLACK:
            return
    raise AssertionError(f"{factor} times as much took {growth:.1f} times as long")


def assert_cheap_beside(run: Callable[[], object], yardstick: Callable[[], object], most: float) -> None:
    """`run` may take `most` times as long as `yardstick`, which does a known amount of work."""
    ratio = 0.0
    for _ in range(_TRIES):
        ratio = spent(run) / max(spent(yardstick), 1e-6)
        if ratio < most:
            return
    raise AssertionError(f"it took {ratio:.1f} times as long as the yardstick, not at most {most}")
