"""Several processes that answer at one address: started, told what the first one is told, and replaced when they die.

The parent listens at the address, makes the workers by fork and then only waits for signals. Each worker accepts from
the same socket. SIGHUP is passed on; SIGTERM and SIGINT end all of them, the second one at once. A worker whose parent
has died ends by itself. Not on Windows, which has no fork.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ...errors import UsageError

_log = logging.getLogger("toolspeak.server")
#: More than any machine has cores for.
MOST_WORKERS = 256
#: What a process of uvicorn says when it could not start: the next one could not either.
_COULD_NOT_START = 3
#: A worker that dies sooner than this after its start is not replaced at once.
_YOUNG_SECONDS = 1.0
_PAUSE_SECONDS = 0.5


class Worker:
    """What a worker knows of itself: its place, and how to find out that its parent is gone."""

    def __init__(self, place: int, parent: int) -> None:
        self.place = place
        #: A pipe that says nothing, and ends with the parent.
        self.parent = parent

    @staticmethod
    def listen_to_signals() -> None:
        """From now on, signals are heard; before, they waited."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _watched())


class Workers:
    """The parent of the workers.

    Args:
        count: how many.
        work: what each of them does until it ends.
        sockets: where they listen.
    """

    def __init__(self, count: int, work: Callable[[Worker], None], sockets: Sequence[socket.socket]) -> None:
        if not hasattr(os, "fork"):
            raise UsageError("several workers need a system that can fork", hint="leave out --workers")
        if not 1 <= count <= MOST_WORKERS:
            raise UsageError(f"there can be 1 to {MOST_WORKERS} workers")
        self._count = count
        self._work = work
        self._sockets = sockets
        #: Process -> its place and when it started.
        self._places: dict[int, tuple[int, float]] = {}
        self._ending = False
        self._failed = False
        self._pipe = (-1, -1)
        self._in_terminal = os.isatty(0)

    def run(self, ready: Callable[[], None]) -> int:
        """Until all of them have ended; gives the status to end with. `ready` is told once signals are heard."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _watched())
        ready()
        self._pipe = os.pipe()
        for place in range(self._count):
            self._start(place)
        while self._places:
            self._heard(signal.sigwait(_watched()))
        for end in self._pipe:
            os.close(end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _watched())
        return _COULD_NOT_START if self._failed else 0

    def _heard(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGHUP and not (self._in_terminal and not os.isatty(0)):
            self._tell(signal.SIGHUP)
        else:  # or the terminal that we were started from is gone
            self._end()

    def _end(self) -> None:
        """The second time, workers end at once."""
        if not self._ending:
            self._ending = True
            # Ours too: while it is open, clients connect to a server where nobody answers.
            for each in self._sockets:
                each.close()
        self._tell(signal.SIGTERM)

    def _tell(self, number: int) -> None:
        for process in self._places:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _reap(self) -> None:
        """One signal may stand for several that have ended."""
        while self._places:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            place, started = self._places.pop(process, (-1, 0.0))
            if not self._ending and place >= 0:
                self._replace(place, started, os.waitstatus_to_exitcode(status))

    def _replace(self, place: int, started: float, code: int) -> None:
        if code == _COULD_NOT_START:
            _log.error("a worker could not start; the server ends")
            self._failed = True
            self._end()
            return
        _log.error("the worker at place %d has died (%d) and is replaced", place, code)
        if time.monotonic() - started < _YOUNG_SECONDS:
            time.sleep(_PAUSE_SECONDS)
        self._start(place)

    def _start(self, place: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process:
            self._places[process] = (place, time.monotonic())
            return
        code = 1
        try:
            # A group of its own: what the terminal sends to all comes by way of the parent, once.
            os.setpgid(0, 0)
            os.close(self._pipe[1])
            random.seed()
            self._work(Worker(place, self._pipe[0]))
            # What libraries do at exit, such as sending the last spans, which leaving at once would skip.
            atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            _log.exception("a worker failed")
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)


def _watched() -> set[signal.Signals]:
    return {signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM}
