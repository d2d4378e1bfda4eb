"""File and folder locks: mutual exclusion between processes and threads on one machine.

The operating system releases a lock when its holder exits, even after a crash. The lock file is never deleted: one
process could otherwise lock the deleted file while another locks a new one. Locks are advisory: they exclude only
programs that ask for them.
"""

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

_POLL_SECONDS = 0.2  # seconds between attempts, if the caller wants to be notified while waiting
#: Seconds between attempts to lock a folder, which is locked only for milliseconds.
_FOLDER_POLL_SECONDS = 0.01
#: Errors of file systems without locks, for example some network file systems.
_UNSUPPORTED = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
#: Locks on folders between the threads of this process, by device and inode. Unused locks are garbage-collected.
_FOLDER_LOCKS: WeakValueDictionary[tuple[int, int], threading.Lock] = WeakValueDictionary()
_FOLDER_LOCKS_GUARD = threading.Lock()


class LockTimeout(Exception):
    """A lock was not free in time."""


@contextmanager
def file_lock(path: Path, on_wait: Callable[[], None] | None = None) -> Generator[None]:
    """Hold the lock on a file, and create the file if necessary. Waits while the lock is taken.

    `on_wait` is called repeatedly while waiting. Raises OSError if the file system does not support locks.
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


def is_locked(path: Path) -> bool:
    if not path.exists():
        return False
    descriptor = os.open(path, os.O_RDWR)
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder_lock(folder: int, deadline: float) -> Generator[None]:
    """Hold the lock on an open folder, which leaves nothing behind.

    On file systems without locks, it excludes only the threads of this process. The descriptor must not be shared with
    another caller, because the lock belongs to it. Raises LockTimeout if the lock is not free at `deadline`, which is a
    time by `time.monotonic`, or OSError.
    """
    status = os.fstat(folder)
    with _FOLDER_LOCKS_GUARD:
        lock = _FOLDER_LOCKS.setdefault((status.st_dev, status.st_ino), threading.Lock())
    if not lock.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
        raise LockTimeout
    try:
        while not _try_lock_folder(folder):
            if time.monotonic() >= deadline:
                raise LockTimeout
            time.sleep(_FOLDER_POLL_SECONDS)
        try:
            yield
        finally:
            _unlock(folder)
    finally:
        lock.release()


def _try_lock_folder(folder: int) -> bool:
    """Take the lock between processes if it is free. Also returns True if the file system has no locks."""
    try:
        return _try_lock(folder)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return True


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

    def _unlock(descriptor: int) -> None:
        """Release the lock."""
        with suppress(OSError):
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

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

    def _unlock(descriptor: int) -> None:
        """Release the lock."""
        with suppress(OSError):  # a file system without locks; closing the file releases the lock too
            fcntl.flock(descriptor, fcntl.LOCK_UN)
