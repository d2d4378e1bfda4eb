"""Control file of a running server: contains its address and a session token, readable by its owner only.

Commands on the same machine use it to find the server. Files that other users own or can read are ignored.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

_SUFFIX = ".server"
_MAX_SERVERS, _MAX_BYTES = 32, 4096


class ControlFile(msgspec.Struct, frozen=True):
    url: str
    token: str
    pid: int = 0


def write_control_file(folder: Path, port: int, control: ControlFile) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".half")  # created with mode 0600
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(control))
    path = folder / f"{port}{_SUFFIX}"
    os.replace(temporary, path)
    return path


def remove_control_file(path: Path) -> None:
    """Remove the control file, unless another server has replaced it."""
    control = _read(path)
    if control is not None and control.pid == os.getpid():
        with suppress(OSError):
            path.unlink()


def running_servers(folder: Path) -> list[ControlFile]:
    """Return the servers that have a control file, newest first. Some may no longer be running."""
    with suppress(OSError):
        paths = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
        return [control for path in paths[:_MAX_SERVERS] if (control := _read(path)) is not None]
    return []


def _read(path: Path) -> ControlFile | None:
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        status = path.lstat()
        mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        if not mine or not stat.S_ISREG(status.st_mode) or (os.name == "posix" and status.st_mode & 0o077):
            return None
        return msgspec.json.decode(path.read_bytes()[:_MAX_BYTES], type=ControlFile)
    return None
