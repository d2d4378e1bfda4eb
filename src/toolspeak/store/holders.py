"""Who holds a lease, told so that others can see whether it still lives.

A process that was killed on this machine gives its session back at once: its number and its start say that it is gone.
Where that cannot be told (another machine, another system), the lease has to end by itself.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


def name() -> str:
    """This process, for people."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def token() -> str:
    """A mark that nobody else has, which says where this process is."""
    return ".".join((secrets.token_hex(16), _machine(), str(os.getpid()), _started(os.getpid())))


def is_gone(holder: str) -> bool:
    """Whether the process that made this mark is known to have ended."""
    _, *where = holder.split(".")
    if len(where) != 3 or not where[0] or where[0] != _machine():
        return False
    _, process, started = where
    return bool(started) and process.isdecimal() and _started(int(process)) != started


@cache
def _machine() -> str:
    """This machine since it was started, and the processes that see each other on it; empty: nobody can tell."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return hashlib.sha256(f"{boot} {(_PROC / 'self/ns/pid').readlink()}".encode()).hexdigest()[:16]
    except OSError:
        return ""


def _started(process: int) -> str:
    """When a process began, as the system counts; empty: there is none, or nobody can tell."""
    try:
        # The name of a program may hold anything, and stands in brackets.
        fields = (
            (_PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return ""
    # A process that has ended and whose parent has not looked yet does nothing any more.
    return "" if fields[0] in "ZX" else fields[19]
