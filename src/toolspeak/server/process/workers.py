"""Worker processes that share one listening socket: start, signal, replace.

The parent opens the socket, forks the workers and then waits for signals. SIGHUP is passed on. SIGTERM and SIGINT stop
all workers gracefully, a second one immediately. A worker whose parent has died shuts down. Not available on Windows.
"""

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
from typing import NamedTuple

from ...errors import UsageError

_log = logging.getLogger("toolspeak.server")
MAX_WORKERS = 256  # maximum number of workers; more than machines have cores
#: Exit status of a uvicorn process that could not start. A replacement would fail as well.
_COULD_NOT_START = 3
#: A worker that dies within this time after its start is replaced after a pause, to avoid a busy loop.
_YOUNG_SECONDS = 1.0
_PAUSE_SECONDS = 0.5


class Worker(NamedTuple):
    """The identity of a worker process: its number, and a pipe that closes when the parent dies."""

    place: int
    parent_pipe: int  # carries no data; it becomes readable when the parent dies

    @staticmethod
    def listen_to_signals() -> None:
        """Unblock signals, which are queued until this call."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _watched())


class Workers:
    """The parent process of the workers, each of which runs `work` and shares the listening sockets."""

    def __init__(self, count: int, work: Callable[[Worker], None], sockets: Sequence[socket.socket]) -> None:
        if not hasattr(os, "fork"):
            raise UsageError("this system cannot run several workers, because it lacks fork", hint="omit --workers")
        if not 1 <= count <= MAX_WORKERS:
            raise UsageError(f"the number of workers must be from 1 to {MAX_WORKERS}")
        self._count = count
        self._work = work
        self._sockets = sockets
        #: Maps a process id to the worker's number and start time.
        self._places: dict[int, tuple[int, float]] = {}
        self._ending = False
        self._failed = False
        self._pipe = (-1, -1)
        self._in_terminal = os.isatty(0)

    def run(self, ready: Callable[[], None]) -> int:
        """Run until all workers have stopped; return the exit status. Call `ready` once signals are handled."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _watched())
        ready()
        self._pipe = os.pipe()
        for place in range(self._count):
            self._start(place)
        while self._places:
            self._on_signal(signal.sigwait(_watched()))
        for end in self._pipe:
            os.close(end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _watched())
        return _COULD_NOT_START if self._failed else 0

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGHUP and not (self._in_terminal and not os.isatty(0)):
            self._signal_all(signal.SIGHUP)
        else:  # a termination signal, or SIGHUP because the terminal was closed
            self._shut_down()

    def _shut_down(self) -> None:
        """Stop all workers gracefully; on a second call, immediately."""
        if not self._ending:
            self._ending = True
            # Close the parent's copies too: while one is open, clients can still connect.
            for each in self._sockets:
                each.close()
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: int) -> None:
        for process in self._places:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _reap(self) -> None:
        """Collect all stopped workers, because one SIGCHLD may stand for several."""
        while self._places:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            place, started = self._places.pop(process, (-1, 0.0))
            if not self._ending and place >= 0:
                self._replace(place, started, os.waitstatus_to_exitcode(status))

    def _replace(self, place: int, started: float, code: int) -> None:
        if code == _COULD_NOT_START:
            _log.error("a worker could not start; shutting down")
            self._failed = True
            self._shut_down()
            return
        _log.error("worker %d died (exit status %d); starting a replacement", place, code)
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
            # Use a separate process group, so signals from the terminal arrive once, through the parent.
            os.setpgid(0, 0)
            os.close(self._pipe[1])
            random.seed()
            self._work(Worker(place, self._pipe[0]))
            # os._exit would skip exit handlers, such as the one that sends the last spans.
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
