"""Locks on folders: between threads, between processes, and where the file system has none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolspeak import file_locks
from toolspeak.file_locks import LockTimeout, folder_lock

pytestmark = [
    pytest.mark.requirement("F10"),
    pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be opened"),
]

#: Takes the lock on the folder that it is given, says so, and holds it until its input ends.
HOLDER = """
import os, sys, time
from toolspeak.file_locks import folder_lock
with folder_lock(os.open(sys.argv[1], os.O_RDONLY), time.monotonic() + 10):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_free(folder: Path) -> bool:
    with opened(folder) as descriptor:
        try:
            with folder_lock(descriptor, time.monotonic()):
                return True
        except LockTimeout:
            return False


def test_a_lock_excludes_other_threads_until_it_is_released(tmp_path: Path):
    found: list[bool] = []
    with opened(tmp_path) as descriptor, folder_lock(descriptor, time.monotonic() + 10):
        other = threading.Thread(target=lambda: found.append(is_free(tmp_path)))
        other.start()
        other.join(20)
    assert found == [False]
    assert is_free(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("end", ["released", "killed"])
def test_a_lock_excludes_other_processes_until_they_release_it_or_die(tmp_path: Path, end: str):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        assert not is_free(tmp_path)
        if end == "killed":
            holder.kill()
        else:
            holder.stdin.close()
        holder.wait(20)
        assert is_free(tmp_path)


def test_who_waits_gets_the_lock_when_the_other_process_releases_it(tmp_path: Path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        threading.Timer(0.1, holder.stdin.close).start()
        with opened(tmp_path) as descriptor, folder_lock(descriptor, time.monotonic() + 20):
            assert holder.wait(20) == 0


@pytest.mark.parametrize("number", [errno.EBADF, errno.ENOLCK, errno.ENOTSUP])
def test_without_locks_of_the_file_system_threads_still_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    def unsupported(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(file_locks.fcntl, "flock", unsupported)
    with opened(tmp_path) as descriptor, folder_lock(descriptor, time.monotonic() + 10):
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_another_error_is_not_taken_for_a_missing_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(file_locks.fcntl, "flock", failing)
    with opened(tmp_path) as descriptor, pytest.raises(OSError, match="I/O error"), folder_lock(descriptor, 0.0):
        pass
    monkeypatch.undo()
    assert is_free(tmp_path)
