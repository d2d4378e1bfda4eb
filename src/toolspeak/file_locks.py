"""Locks on files: one at a time among all processes and threads of a machine.

The system gives a lock back when its holder ends, however that comes about. The file stays: who removed it would let
in one who waits for it and one who makes it anew.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Seconds between two looks at a lock, where somebody wants to hear that it is waited for.
_LOOK_EVERY = 0.2


@contextmanager
def held(path: Path, waits: Callable[[], None] | None = None) -> Generator[None]:
    """Hold the lock on a file, which is made if need be; wait while another holds it.

    Args:
        waits: called again and again while another holds it.

    Raises:
        OSError: the file cannot be made, or files cannot be locked where it lies.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if waits is None:
            _lock(descriptor)
        else:
            while not _locked(descriptor):
                waits()
                time.sleep(_LOOK_EVERY)
        yield
    finally:
        os.close(descriptor)  # which also gives the lock back


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        """Wait until nobody else holds the lock on this file."""
        while True:
            # It gives up after ten tries, a second apart.
            with suppress(OSError):
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return

    def _locked(descriptor: int) -> bool:
        """Take the lock on this file, unless somebody else holds it."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        """Wait until nobody else holds the lock on this file."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _locked(descriptor: int) -> bool:
        """Take the lock on this file, unless somebody else holds it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
