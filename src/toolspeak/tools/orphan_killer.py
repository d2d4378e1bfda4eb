"""Orphan cleanup: kills the processes of a command if this program is itself killed, at any moment.

A killed program cannot clean up, so a helper process does it. The helper reads from a pipe that only this program keeps
open, and kills the registered processes at end of file. A command starts only after it has been registered: it waits
for a line on its standard input, and exits if the pipe closes first.

Bubblewrap's `--die-with-parent` alone is not enough: it takes effect only some time after the process has started, and
has no effect if the parent has died by then.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

RELEASE = b"\n"  # the line that a delayed command waits for
WAIT_FOR_RELEASE = "read -r _ || exit 0; "  # shell code that waits for the line, or exits at end of file
#: The shell's `read` consumes one byte at a time, so a second line stays in the pipe for the next reader.
_WAIT_THEN_EXEC = WAIT_FOR_RELEASE + 'exec "$@"'
#: Ignores an incomplete last line. Sends SIGKILL at once: nothing is left that could wait for a graceful exit.
_KILLER_SCRIPT = (
    "trap '' HUP INT TERM; all=; while read -r one; do all=\"$all $one\"; done; "
    '[ -z "$all" ] || kill -s KILL -- $all 2>/dev/null'
)


def delayed_command(command: Sequence[str]) -> list[str]:
    """Wrap a command in a shell that starts it only after `release`."""
    return ["/bin/sh", "-c", _WAIT_THEN_EXEC, "sh", *command]


def release(stdin: IO[bytes]) -> None:
    """Let a delayed command start. Has no effect if the command has already exited."""
    with suppress(OSError, ValueError):
        os.write(stdin.fileno(), RELEASE)


class OrphanKiller:
    """The helper process, which runs until `dismiss`. Raises OSError if it cannot be started."""

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
        """Register a process id to kill. A negative number means a process group."""
        assert self._process.stdin is not None
        with suppress(OSError):
            os.write(self._process.stdin.fileno(), b"%d\n" % target)

    def dismiss(self) -> None:
        """End the helper without killing anything. Call this once all registered processes have ended."""
        assert self._process.stdin is not None
        # Kill the helper before closing the pipe: at end of file it would kill processes that now reuse these ids.
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
