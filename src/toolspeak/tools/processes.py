"""Runs one command to its end, with everything it starts, and reads no more of its output than fits.

Everything happens in the calling thread: reading, counting processes and memory, the deadline, the end. Nothing
depends on the event loop being quick. Nothing here knows of sandboxes.
"""

from __future__ import annotations

import codecs
import os
import re
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from .orphan_killer import WAITING, Guard, go_ahead, waiting

#: Why a command was ended before it was done.
Ended: TypeAlias = Literal["", "timeout", "cancelled", "processes", "memory", "output"]

#: Seconds between two looks at what a command uses. A fork bomb makes some hundred processes in this time.
_LOOK = 0.05
#: Seconds between asking a command to end and ending it.
_GRACE = 0.5
#: Seconds in which killed processes must be gone; only the kernel can make them stay.
_GONE = 10.0
_PIECE = 64 * 1024


class Limits(msgspec.Struct, frozen=True):
    """What one command may use."""

    #: Seconds by the clock.
    seconds: float = 120.0
    #: Seconds of one processor, for each process.
    cpu_seconds: int = 120
    #: Bytes of memory, for each process and for all together.
    memory: int = 4 * 1024 * 1024 * 1024
    processes: int = 256
    open_files: int = 1024
    #: Bytes of one file.
    file_size: int = 1024 * 1024 * 1024
    #: Bytes of output that are kept: a quarter of a million characters is more than a model reads.
    output: int = 256 * 1024
    #: Bytes of output after which a command is ended: nobody needs more, and reading it takes time.
    flood: int = 64 * 1024 * 1024


class Outcome(msgspec.Struct, frozen=True):
    """How a command ended."""

    #: Standard output and errors, in the order in which they came.
    output: str
    #: As a shell tells it; negative: ended by this signal.
    code: int
    ended: Ended = ""
    #: Bytes in the middle of the output that were not kept.
    lost: int = 0


class Stop:
    """Somebody else's wish that a command end. A pipe, since whoever reads output can wait for it."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()

    def set(self) -> None:
        """End the command."""
        with suppress(OSError):
            os.write(self._writer, b"x")

    def close(self) -> None:
        """Once nobody can set it any more."""
        os.close(self.reader)
        os.close(self._writer)


#: Every shell understands the first four; for the last, some say `-u` and some say `-p`. What is lower already stays.
#: A command is less urgent than we are: whoever watches a fork bomb must get a turn.
_PROLOGUE = WAITING + (
    '{ ulimit -c 0; ulimit -t "$1"; ulimit -d "$2"; ulimit -f "$3"; ulimit -n "$4"; '
    'ulimit -u "$5" || ulimit -p "$5"; } >/dev/null 2>&1; shift 5; '
    'command -v nice >/dev/null && exec nice -n 5 "$@" </dev/null; exec "$@" </dev/null'
)


def limited(command: Sequence[str], limits: Limits, *, alone: bool) -> list[str]:
    """The command under the limits that the system enforces; a shell in the new process sets them.

    It begins when `run_process` says so, and does not where that can say nothing any more.
    `alone` says that its processes are counted apart from all others of the same user.
    """
    numbers = (limits.cpu_seconds, limits.memory // 1024, limits.file_size // 512, limits.open_files)
    processes = str(limits.processes) if alone else "unlimited"
    return ["/bin/sh", "-c", _PROLOGUE, "sh", *map(str, numbers), processes, *command]


def run_process(
    command: Sequence[str],
    *,
    folder: str,
    env: Mapping[str, str],
    limits: Limits,
    stop: Stop,
    emit: Callable[[str], None],
    keep: Sequence[int] = (),
    first: int = -1,
) -> Outcome:
    """Run a command of `limited`; when this returns, it and all of its process group are gone. So they are soon after
    this program was killed, whenever that was. Raises OSError if it cannot start.

    `first` is an open file that tells the number of the first process of a sandbox, as `{"child-pid": NUMBER}`; then
    all of the sandbox is gone as well.
    """
    guard = Guard()
    try:
        process = subprocess.Popen(
            waiting(command),
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=tuple(keep),
            start_new_session=True,
            bufsize=0,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            return _Watch(process, limits, stop, emit, first, guard).through()
    finally:
        guard.dismiss()


class _Watch:
    """One command from its start to its end."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        limits: Limits,
        stop: Stop,
        emit: Callable[[str], None],
        first: int,
        guard: Guard,
    ) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        self._word = process.stdin
        self._guard = guard
        self._process = process
        self._pipe = process.stdout.fileno()
        self._limits = limits
        self._stop = stop
        self._first = first
        self._told = b""
        #: An open file that is ready once the last process of a sandbox is gone.
        self._last = -1
        self._kept = _Kept(limits.output, emit)
        self._deadline = time.monotonic() + limits.seconds
        self._next_look = 0.0
        self._ended: Ended = ""

    def through(self) -> Outcome:
        """Read until the end, or make one."""
        os.set_blocking(self._pipe, False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            selector.register(self._stop.reader, selectors.EVENT_READ)
            if self._first >= 0:
                os.set_blocking(self._first, False)
                selector.register(self._first, selectors.EVENT_READ)
            try:
                self._begin()
                while self._goes_on(selector):
                    self._ended = self._reason()
                    if self._ended:
                        break
            finally:
                self._end(selector)
        text, lost = self._kept.text()
        # Only the kernel can keep a killed process; it is then nobody's to wait for.
        code = self._process.returncode
        return Outcome(text, -signal.SIGKILL if code is None else code, self._ended, lost)

    def _begin(self) -> None:
        """Let what was started go on, now that its guard knows it. A sandbox holds until its first process is known."""
        self._guard.watch(-self._process.pid)
        go_ahead(self._word)
        if self._first < 0:
            go_ahead(self._word)

    def _goes_on(self, selector: selectors.BaseSelector) -> bool:
        """Wait a little and read; whether there may be more. A command that is done is, whoever holds its output."""
        for key, _ in selector.select(_LOOK):
            if key.fd == self._pipe and not self._read():
                selector.unregister(self._pipe)
            elif key.fd == self._first:
                if self._learned():
                    selector.unregister(self._first)
            elif key.fd == self._stop.reader:
                self._ended = "cancelled"
                return False
        return self._process.poll() is None

    def _learned(self) -> bool:
        """Whether it is known now which process is the first of the sandbox."""
        with suppress(OSError):
            self._told += os.read(self._first, _PIECE)
        number = _FIRST.search(self._told)
        if number is not None:
            self._last = _watched(int(number[1]))
            self._guard.watch(int(number[1]))
            go_ahead(self._word)
        return number is not None

    def _read(self) -> bool:
        """Take one piece; whether there may be more."""
        try:
            data = os.read(self._pipe, _PIECE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._kept.take(data)
        return bool(data)

    def _reason(self) -> Ended:
        if time.monotonic() > self._deadline:
            return "timeout"
        if self._kept.total > self._limits.flood:
            return "output"
        now = time.monotonic()
        if now < self._next_look:
            return ""
        count, memory = _used(self._process.pid, self._limits.processes)
        if self._first < 0:
            count = max(count, _in_session(self._process.pid))
        # Looking takes its time where there are many processes, and must not take all of it.
        self._next_look = time.monotonic() + max(_LOOK, 10 * (time.monotonic() - now))
        if count > self._limits.processes:
            return "processes"
        return "memory" if memory > self._limits.memory else ""

    def _end(self, selector: selectors.BaseSelector) -> None:
        """Make sure that nothing is left, and take what is still in the pipe."""
        if self._first >= 0 and self._last < 0:
            self._learned()  # a command may end before we have looked
        if self._process.poll() is None:
            # What has grown too large gets no time to grow on.
            polite = self._ended in ("timeout", "cancelled")
            self._signal(signal.SIGTERM if polite else signal.SIGKILL)
            grace = time.monotonic() + _GRACE
            while self._process.poll() is None and time.monotonic() < grace:
                selector.select(_LOOK / 5)
                self._drain()
        self._signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GONE)
        if self._last >= 0:
            # The one that we started may end a moment before those that it had to look after.
            with selectors.DefaultSelector() as last:
                last.register(self._last, selectors.EVENT_READ)
                last.select(_GONE)
            os.close(self._last)
        self._drain()

    def _drain(self) -> None:
        """What can be read at once, and no more than a flood."""
        for _ in range(64):
            try:
                data = os.read(self._pipe, _PIECE)
            except OSError:
                return
            if not data:
                return
            self._kept.take(data)

    def _signal(self, number: signal.Signals) -> None:
        """To the whole group: its number is the command's, as long as one of it lives or the command is not reaped."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


#: It comes in several pieces: whole once something follows the digits.
_FIRST = re.compile(rb'"child-pid":\s*(\d{1,10})\D')


def _watched(first: int) -> int:
    """An open file for the first process of a sandbox: the kernel ends it last. -1 where it is gone already."""
    with suppress(OSError, AttributeError):
        return os.pidfd_open(first)
    return -1


class _Kept:
    """The beginning and the end of an output; what is between them is counted."""

    def __init__(self, most: int, emit: Callable[[str], None]) -> None:
        self.total = 0
        self._half = max(1, most // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._emit = emit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, data: bytes) -> None:
        """One piece. Shown as it comes, as long as it is kept at the beginning."""
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            if text := self._decoder.decode(data[:room]):
                self._emit(text)
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0]) >= self._half:
                self._tail_size -= len(self._tail.popleft())

    def text(self) -> tuple[str, int]:
        """The output, and how many bytes of it are missing."""
        tail = b"".join(self._tail)[-self._half :]
        lost = self.total - len(self._head) - len(tail)
        if not lost:
            return (bytes(self._head) + tail).decode(errors="replace"), 0
        gap = f"\n[... {lost} bytes of output were not kept ...]\n"
        return self._head.decode(errors="replace") + gap + tail.decode(errors="replace"), lost


def _used(root: int, most: int) -> tuple[int, int]:
    """How many processes a process has become, and the bytes of memory that are theirs alone; (0, 0) if unknown.

    Who loses its parent inside a sandbox gets the sandbox's first process as a new one, so none is missed there.
    """
    waiting, count, pages = [str(root)], 0, 0
    while waiting and count <= most:
        pid = waiting.pop()
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/statm").read_bytes().split()
            pages += int(fields[1]) - int(fields[2])
            count += 1
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError):
                    waiting += Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii").split()
    return count, pages * _PAGE


def _in_session(leader: int) -> int:
    """How many processes belong to the session of a command: outside a sandbox, orphans leave the family."""
    count = 0
    with suppress(OSError):
        for pid in os.listdir("/proc"):
            if pid.isdigit():
                with suppress(OSError, IndexError):
                    # Behind the name, which may hold anything: state, parent, group, session.
                    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
                    count += fields[3] == b"%d" % leader
    return count


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
