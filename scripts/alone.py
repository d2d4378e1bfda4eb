"""Runs a command unless another process runs one with the same lock file; status 75 then, or `wait` for it.

    python scripts/alone.py wait|leave LOCK COMMAND ...

The command and all that it starts hold the lock, so that what is left of one that was killed still counts.
"""

from __future__ import annotations

import fcntl
import os
import sys

#: "Try again later", as mail programs say it.
_TAKEN = 75


def main(how: str, path: str, command: list[str]) -> None:
    """Take the lock, and become the command."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if how == "leave":
            sys.exit(_TAKEN)
        sys.stderr.write("another process is building already: waiting for it\n")
        fcntl.flock(lock, fcntl.LOCK_EX)
    os.set_inheritable(lock, True)
    os.execvp(command[0], command)


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("wait", "leave"):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
