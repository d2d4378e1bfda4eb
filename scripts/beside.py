"""Runs a command beside a program, with the lowest priority, and no longer than the program runs.

    python scripts/beside.py $$ COMMAND ... &
    exec PROGRAM

The program is the parent, whose number is given since it may be gone before this begins. It may end in any way, also by a
signal that it cannot see: then somebody else is the parent, and the command and all that it started are ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

#: How often it is looked whether the program still runs.
_SECONDS = 0.5
#: What a command may take to end once it was told to.
_GRACE = 2.0


def main(program: int, command: list[str]) -> int:
    """Run it, and say how it ended."""
    told: list[int] = []
    # Handlers rather than nothing at all: a terminal that closes tells everybody, and who is told here must end the command.
    # A server takes a hangup for a reason to read its configuration again and goes on, so that alone ends nothing.
    signal.signal(signal.SIGHUP, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    if os.getppid() != program:
        return 1
    os.nice(19)
    running = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
    while os.getppid() == program and not told:
        with suppress(subprocess.TimeoutExpired):
            return running.wait(_SECONDS)
    for number in (signal.SIGTERM, signal.SIGKILL):  # a command may take no notice of the first
        with suppress(ProcessLookupError):
            os.killpg(running.pid, number)
        with suppress(subprocess.TimeoutExpired):
            return running.wait(_GRACE)
    return 1


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdecimal():
        sys.exit(__doc__)
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
