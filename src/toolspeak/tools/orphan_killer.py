"""Orphan cleanup: kills the processes of a command when this program is killed, at any moment.

A killed program cannot clean up, so a helper process does: it reads from a pipe that only this program keeps open, and
kills the registered processes at end of file. A command starts to work only after it is registered: it waits for a line
on its standard input, and exits if the pipe closes first.

Bubblewrap's `--die-with-parent` alone is not enough: its processes request it only some time after their start, and
miss a parent that has died by then.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

#: The line that a command waits for.
RELEASE = b"\n"
#: Shell code: wait for the line, or exit at end of file.
WAIT_FOR_RELEASE = "read -r _ || exit 0; "
#: `read` takes one byte at a time, so a second line stays in the pipe for the next reader.
_WAIT_THEN_EXEC = WAIT_FOR_RELEASE + 'exec "$@"'
#: An incomplete last line is ignored. KILL at once: there is no one left to wait for a graceful end.
_KILLER_SCRIPT = (
    "trap '' HUP INT TERM; all=; while read -r one; do all=\"$all $one\"; done; "
    '[ -z "$all" ] || kill -s KILL -- $all 2>/dev/null'
)


def delayed_command(command: Sequence[str]) -> list[str]:
    """Return a command that starts only after `release`."""
    return ["/bin/sh", "-c", _WAIT_THEN_EXEC, "sh", *command]


def release(stdin: IO[bytes]) -> None:
    """Let a delayed command start. No effect if it has exited."""
    with suppress(OSError, ValueError):
        os.write(stdin.fileno(), RELEASE)


class OrphanKiller:
    """The helper process, until `dismiss`. Raises OSError if it cannot be started."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _KILLER_SCRIPT],
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def watch(self, target: int) -> None:
        """Register a process id to kill; a negative one is a process group."""
        assert self._process.stdin is not None
        with suppress(OSError):
            os.write(self._process.stdin.fileno(), b"%d\n" % target)

    def dismiss(self) -> None:
        """End the helper: there is nothing left to kill."""
        assert self._process.stdin is not None
        # Before closing the pipe: at end of file it would kill whichever processes have these ids by then.
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
