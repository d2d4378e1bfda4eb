"""Locks on folders, against all threads and processes on this machine that use them.

The lock is on an open folder, so nothing is left behind, and the operating system releases it when its holder exits. It
is advisory: programs that do not ask for it are not locked out.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from weakref import WeakValueDictionary

if sys.platform != "win32":  # where the file tools do not work
    import fcntl

#: Seconds between attempts to get a lock that another process holds.
_POLL_SECONDS = 0.01
#: Errors of file systems without such locks, for example some network file systems.
_UNSUPPORTED = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
#: Locks between the threads of this process, by device and inode. Unused locks are garbage-collected.
_LOCKS: WeakValueDictionary[tuple[int, int], threading.Lock] = WeakValueDictionary()
_LOCKS_GUARD = threading.Lock()


class LockTimeout(Exception):
    """A lock was not free in time."""


@contextmanager
def folder_lock(folder: int, deadline: float) -> Generator[None]:
    """Hold the lock on an open folder. On file systems without locks, it excludes only the threads of this process.

    The descriptor must not be shared with another caller, because the lock belongs to it.

    Args:
        deadline: time by `time.monotonic` until which to wait.

    Raises:
        LockTimeout: the lock was not free in time.
        OSError: the lock failed for another reason.
    """
    status = os.fstat(folder)
    with _LOCKS_GUARD:
        lock = _LOCKS.setdefault((status.st_dev, status.st_ino), threading.Lock())
    if not lock.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
        raise LockTimeout
    try:
        while not _try_lock(folder):
            if time.monotonic() >= deadline:
                raise LockTimeout
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            _unlock(folder)
    finally:
        lock.release()


def _try_lock(folder: int) -> bool:
    """Take the lock between processes if it is free. Also returns True if the file system has no locks."""
    if sys.platform != "win32":
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    return True


def _unlock(folder: int) -> None:
    if sys.platform != "win32":
        with suppress(OSError):  # file systems without locks; closing the folder releases the lock too
            fcntl.flock(folder, fcntl.LOCK_UN)
