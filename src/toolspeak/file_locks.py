"""File locks: mutual exclusion between processes and threads on one machine.

The operating system releases a lock when its holder exits, even after a crash. The lock file is never deleted: one
process could otherwise lock the deleted file while another locks a new one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Seconds between attempts, if the caller wants to be notified while waiting.
_POLL_SECONDS = 0.2


@contextmanager
def file_lock(path: Path, on_wait: Callable[[], None] | None = None) -> Generator[None]:
    """Hold the lock on a file, and create the file if necessary. Waits while the lock is taken.

    Args:
        on_wait: called repeatedly while waiting.

    Raises:
        OSError: the file cannot be created, or its file system does not support locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if on_wait is None:
            _lock(descriptor)
        else:
            while not _try_lock(descriptor):
                on_wait()
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)  # this releases the lock


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        """Wait for the lock."""
        while True:
            # `LK_LOCK` gives up after ten attempts, one second apart.
            with suppress(OSError):
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return

    def _try_lock(descriptor: int) -> bool:
        """Take the lock if it is free."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        """Wait for the lock."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _try_lock(descriptor: int) -> bool:
        """Take the lock if it is free."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
