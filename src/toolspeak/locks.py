"""Locks on files: one at a time among all processes and threads of a machine.

The system gives a lock back when its holder ends, however that comes about. The file stays: who removed it would let
in one who waits for it and one who makes it anew. Above: `state`, downloads. Below: nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["held"]


@contextmanager
def held(path: Path) -> Generator[None]:
    """Hold the lock on a file, which is made if need be; wait while another holds it.

    Raises:
        OSError: the file cannot be made, or files cannot be locked where it lies.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor)
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

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        """Wait until nobody else holds the lock on this file."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)
