"""Runs a command beside a program, with the lowest priority, and no longer than the program runs.

    python scripts/beside.py COMMAND ... &
    exec PROGRAM

The program is whoever started this. It may end in any way, also by a signal that it cannot see: then somebody else is
the parent, and the command and all that it started are ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

#: How often it is looked whether the program still runs.
_SECONDS = 0.5


def main(command: list[str]) -> int:
    """Run it, and say how it ended."""
    program = os.getppid()
    os.nice(19)
    running = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
    while os.getppid() == program:
        with suppress(subprocess.TimeoutExpired):
            return running.wait(_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGTERM)
    return running.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
