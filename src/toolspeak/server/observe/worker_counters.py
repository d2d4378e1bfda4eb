"""Where the workers of one server put their numbers, so that each can tell those of all.

A folder that only its owner can enter, with one file for each place. A worker that takes the place of a dead one goes
on from its numbers, so that no sum ever falls.
"""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

from .counters import Numbers, read, written

_log = logging.getLogger("toolspeak.server")
#: Nobody's numbers are larger: 200 models with every plan are about 1 MB.
_MOST_BYTES = 16 * 1024 * 1024


class Board:
    """The board as the worker at one place sees it."""

    def __init__(self, folder: Path, place: int) -> None:
        self.place = place
        self.folder = folder
        self._file = folder / f"{place}.numbers"

    def before(self) -> Numbers:
        """What the worker that had this place before has counted; what held then holds no longer."""
        numbers = _read(self._file) or Numbers()
        numbers.gauges = {}
        return numbers

    def publish(self, numbers: Numbers) -> None:
        """Let the others see these numbers, as a whole or not at all."""
        half = self._file.with_suffix(".half")
        try:
            half.write_bytes(written(numbers))
            os.replace(half, self._file)
        except OSError as error:  # a full disk stops no request
            _log.warning("the numbers of this worker could not be told to the others: %s", error)

    def remove(self) -> None:
        """Take the whole board away: nobody is left who would."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def others(self) -> tuple[Numbers, ...]:
        """What everybody else has counted, as far as they have told: once a second."""
        files = (file for file in sorted(self.folder.glob("*.numbers")) if file != self._file)
        return tuple(numbers for file in files if (numbers := _read(file)) is not None)


def _read(file: Path) -> Numbers | None:
    with suppress(OSError), file.open("rb") as opened:
        return read(opened.read(_MOST_BYTES))
    return None
