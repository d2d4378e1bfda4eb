"""How commands on the same machine find a server that runs: a file for its owner alone, with its address and a token.

The token is a session that lasts as long as the server. A file that others can read, or that belongs to somebody else,
is not believed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

_ENDING = ".server"
#: Servers that one person runs at a time, and how large such a file is.
_MOST, _LARGEST = 32, 4096


class Door(msgspec.Struct, frozen=True):
    """Where a server is, and what it knows its owner by."""

    url: str
    token: str
    pid: int = 0


def open_door(folder: Path, port: int, door: Door) -> Path:
    """Write the file; gives where."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, half = tempfile.mkstemp(dir=folder, suffix=".half")  # 0600
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(door))
    path = folder / f"{port}{_ENDING}"
    os.replace(half, path)
    return path


def close_door(path: Path) -> None:
    """Take the file away, unless it is another server's by now."""
    door = _read(path)
    if door is not None and door.pid == os.getpid():
        with suppress(OSError):
            path.unlink()


def doors(folder: Path) -> list[Door]:
    """The servers that may run, the one that was started last first."""
    with suppress(OSError):
        found = sorted(folder.glob(f"*{_ENDING}"), key=lambda path: path.stat().st_mtime, reverse=True)
        return [door for path in found[:_MOST] if (door := _read(path)) is not None]
    return []


def _read(path: Path) -> Door | None:
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        about = path.lstat()
        mine = not hasattr(os, "getuid") or about.st_uid == os.getuid()
        if not mine or not stat.S_ISREG(about.st_mode) or (os.name == "posix" and about.st_mode & 0o077):
            return None
        return msgspec.json.decode(path.read_bytes()[:_LARGEST], type=Door)
    return None
