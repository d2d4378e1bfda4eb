"""Ends what a command has become when whoever runs it is killed, at whatever moment.

A killed program does nothing any more, so a process of its own stands by: it reads from a pipe that only the program
holds open, and ends what it was told to when the pipe ends. A command begins to work only once its guard knows it;
until then it waits for a word on its standard input, and goes away when none can come any more.

Bubblewrap's `--die-with-parent` alone is not enough: its processes say that they want to die with their parent some
time after they were started, and never hear of a parent that was gone by then.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

#: What a command waits for.
WORD = b"\n"
#: For a shell: wait for a word, and leave when there is none.
WAITING = "read -r _ || exit 0; "
#: Reads byte by byte, so a second word stays for whom it is meant for.
_THEN = WAITING + 'exec "$@"'
#: A line is whole or does not count. What is to end is ended at once: nobody is there to wait.
_STANDING_BY = (
    "trap '' HUP INT TERM; all=; while read -r one; do all=\"$all $one\"; done; "
    '[ -z "$all" ] || kill -s KILL -- $all 2>/dev/null'
)


def waiting(command: Sequence[str]) -> list[str]:
    """The command, which begins after a word."""
    return ["/bin/sh", "-c", _THEN, "sh", *command]


def go_ahead(told: IO[bytes]) -> None:
    """Say it. Who has ended meanwhile does not hear it."""
    with suppress(OSError, ValueError):
        os.write(told.fileno(), WORD)


class Guard:
    """Stands by until `dismiss`. Raises OSError if it cannot be started."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _STANDING_BY],
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def watch(self, target: int) -> None:
        """A process that is to end with us; a whole group of them, if it is negative."""
        assert self._process.stdin is not None
        with suppress(OSError):
            os.write(self._process.stdin.fileno(), b"%d\n" % target)

    def dismiss(self) -> None:
        """Nothing is left to be ended."""
        assert self._process.stdin is not None
        # First: at the end of the pipe it would end whoever has these numbers by then.
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
