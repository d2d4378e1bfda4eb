"""Requests that were to be recorded and are not: counted, and told to whoever reads the log, with the reason.

One line for each of them would be one more burden where there is too much already.
"""

from __future__ import annotations

import logging
import threading

_log = logging.getLogger("toolspeak.server")
#: Losses for one reason between two lines in the log.
_EVERY = 100


class Losses:
    """How many there are. A line is written for the first of each reason, and for many; `tell` writes the rest."""

    def __init__(self) -> None:
        self.count = 0
        self._untold = 0
        self._why = ""
        #: They are lost by whoever answers clients, and by the thread that hands over.
        self._lock = threading.Lock()

    def add(self, count: int, why: str) -> None:
        """Some more."""
        with self._lock:
            is_new = why != self._why
            if is_new:
                self._tell()
            self._why = why
            self.count += count
            self._untold += count
            if is_new or self._untold >= _EVERY:
                self._tell()

    def tell(self) -> None:
        """There are no more for now."""
        with self._lock:
            self._tell()
            self._why = ""

    def _tell(self) -> None:
        if self._untold:
            _log.warning("%d requests were not recorded: %s (%d in all)", self._untold, self._why, self.count)
        self._untold = 0
