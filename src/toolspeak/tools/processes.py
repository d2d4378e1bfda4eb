"""Run one command to completion, with resource limits, bounded output, a deadline, and cleanup of all its processes.

Everything happens in the calling thread and does not depend on an event loop.
"""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from .orphan_killer import WAIT_FOR_RELEASE, OrphanKiller, delayed_command, release

#: Why a command was terminated early; empty if it was not.
EndReason: TypeAlias = Literal["", "timeout", "cancelled", "processes", "memory", "output"]

#: Seconds between two checks of resource usage. A fork bomb creates hundreds of processes in this time.
_POLL_INTERVAL = 0.05
_GRACE = 0.5
#: Seconds to wait for killed processes to end. Only the kernel can delay their end.
_KILL_TIMEOUT = 10.0
_READ_BYTES = 64 * 1024


class ProcessLimits(msgspec.Struct, frozen=True):
    seconds: float = 120.0  # seconds of wall-clock time
    cpu_seconds: int = 120  # seconds of processor time per process
    #: Bytes of memory, per process and in total.
    memory: int = 4 * 1024 * 1024 * 1024
    processes: int = 256
    open_files: int = 1024
    file_size: int = 1024 * 1024 * 1024  # maximum bytes in each file that is written
    output: int = 256 * 1024  # maximum bytes of output that are kept
    flood: int = 64 * 1024 * 1024  # a command that writes more bytes of output than this is terminated


class ProcessResult(msgspec.Struct, frozen=True):
    output: str  # standard output and standard error, interleaved
    #: The exit code. A negative value is the number of the signal that ended the command.
    code: int
    ended: EndReason = ""
    lost: int = 0  # number of bytes dropped from the middle of the output


class StopSignal:
    """A request from another thread to stop a command. Implemented as a pipe, so a selector can wait for it."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()

    def set(self) -> None:
        with suppress(OSError):
            os.write(self._writer, b"x")

    def close(self) -> None:
        """Close the pipe. `set` must not be called afterwards."""
        os.close(self.reader)
        os.close(self._writer)


#: The process limit is `ulimit -u` in some shells and `-p` in others; a lower limit that is already set stays in force.
#: `nice` ensures that the thread that watches the command gets CPU time even during a fork bomb.
_PROLOGUE = WAIT_FOR_RELEASE + (
    '{ ulimit -c 0; ulimit -t "$1"; ulimit -d "$2"; ulimit -f "$3"; ulimit -n "$4"; '
    'ulimit -u "$5" || ulimit -p "$5"; } >/dev/null 2>&1; shift 5; '
    'command -v nice >/dev/null && exec nice -n 5 "$@" </dev/null; exec "$@" </dev/null'
)


def limit_command(command: Sequence[str], limits: ProcessLimits, *, alone: bool) -> list[str]:
    """Wrap a command in a shell that sets its resource limits, and starts it once `run_process` releases it.

    `alone`: the kernel counts the command's processes separately from the user's other processes.
    """
    numbers = (limits.cpu_seconds, limits.memory // 1024, limits.file_size // 512, limits.open_files)
    processes = str(limits.processes) if alone else "unlimited"
    return ["/bin/sh", "-c", _PROLOGUE, "sh", *map(str, numbers), processes, *command]


def run_process(
    command: Sequence[str],
    *,
    folder: str,
    env: Mapping[str, str],
    limits: ProcessLimits,
    stop: StopSignal,
    emit: Callable[[str], None],
    pass_fds: Sequence[int] = (),
    info_fd: int = -1,
) -> ProcessResult:
    """Run a command made by `limit_command`. Raises OSError if the command cannot start.

    On return, the command and its whole process group have ended. They also end if this program is killed.
    For a sandboxed command, `info_fd` is a file descriptor that reports the sandbox's first process as
    `{"child-pid": NUMBER}`, and all processes in the sandbox have ended on return.
    """
    orphan_killer = OrphanKiller()
    try:
        process = subprocess.Popen(
            delayed_command(command),
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            bufsize=0,
        )
        assert process.stdin is not None and process.stdout is not None
        with process.stdin, process.stdout:
            return _ProcessRun(process, limits, stop, emit, info_fd, orphan_killer).run()
    finally:
        orphan_killer.dismiss()


@dataclass(eq=False)
class _ProcessRun:
    process: subprocess.Popen[bytes]
    limits: ProcessLimits
    stop: StopSignal
    emit: Callable[[str], None]
    info_fd: int
    orphan_killer: OrphanKiller

    def __post_init__(self) -> None:
        assert self.process.stdout is not None and self.process.stdin is not None
        self._stdin, self._pipe = self.process.stdin, self.process.stdout.fileno()
        self._info = b""
        #: A pidfd that becomes readable once the last process of the sandbox has ended; -1 if there is none.
        self._pidfd = -1
        self._output = _OutputBuffer(self.limits.output, self.emit)
        self._deadline = time.monotonic() + self.limits.seconds
        self._next_look = 0.0
        self._ended: EndReason = ""

    def run(self) -> ProcessResult:
        """Read output until the command ends or exceeds a limit."""
        os.set_blocking(self._pipe, False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            selector.register(self.stop.reader, selectors.EVENT_READ)
            if self.info_fd >= 0:
                os.set_blocking(self.info_fd, False)
                selector.register(self.info_fd, selectors.EVENT_READ)
            try:
                self._begin()
                while self._poll(selector):
                    self._ended = self._reason()
                    if self._ended:
                        break
            finally:
                self._end(selector)
        text, lost = self._output.text()
        # The code is None if the kernel delays the end of a killed process.
        code = self.process.returncode
        return ProcessResult(text, -signal.SIGKILL if code is None else code, self._ended, lost)

    def _begin(self) -> None:
        """Register the command for cleanup, then release it. A sandboxed command waits until its first pid is known."""
        self.orphan_killer.watch(-self.process.pid)
        release(self._stdin)
        if self.info_fd < 0:
            release(self._stdin)

    def _poll(self, selector: selectors.BaseSelector) -> bool:
        """Wait briefly and read output. Returns whether the command is still running, even if its pipes stay open."""
        for key, _ in selector.select(_POLL_INTERVAL):
            if key.fd == self._pipe and not self._read():
                selector.unregister(self._pipe)
            elif key.fd == self.info_fd:
                if self._read_first_pid():
                    selector.unregister(self.info_fd)
            elif key.fd == self.stop.reader:
                self._ended = "cancelled"
                return False
        return self.process.poll() is None

    def _read_first_pid(self) -> bool:
        """Read the pid of the sandbox's first process. Returns whether the number has arrived completely."""
        with suppress(OSError):
            self._info += os.read(self.info_fd, _READ_BYTES)
        number = _CHILD_PID.search(self._info)
        if number is not None:
            with suppress(OSError, AttributeError):  # the process, which is the last one to end, has ended
                self._pidfd = os.pidfd_open(int(number[1]))
            self.orphan_killer.watch(int(number[1]))
            release(self._stdin)
        return number is not None

    def _read(self) -> bool:
        """Read one chunk of output. Returns whether there may be more."""
        try:
            data = os.read(self._pipe, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._output.take(data)
        return bool(data)

    def _reason(self) -> EndReason:
        if time.monotonic() > self._deadline:
            return "timeout"
        if self._output.total > self.limits.flood:
            return "output"
        now = time.monotonic()
        if now < self._next_look:
            return ""
        count, memory = _usage(self.process.pid, self.limits.processes)
        if self.info_fd < 0:
            count = max(count, _in_session(self.process.pid))
        # The check is slow if there are many processes, so it may take at most a tenth of the time.
        self._next_look = time.monotonic() + max(_POLL_INTERVAL, 10 * (time.monotonic() - now))
        if count > self.limits.processes:
            return "processes"
        return "memory" if memory > self.limits.memory else ""

    def _end(self, selector: selectors.BaseSelector) -> None:
        """Terminate everything that is still running, and read the rest of the output."""
        if self.info_fd >= 0 and self._pidfd < 0:
            self._read_first_pid()  # the command may have ended before its pid was read
        if self.process.poll() is None:
            # A command over its resource limits gets no grace period.
            polite = self._ended in ("timeout", "cancelled")
            self._signal(signal.SIGTERM if polite else signal.SIGKILL)
            grace = time.monotonic() + _GRACE
            while self.process.poll() is None and time.monotonic() < grace:
                selector.select(_POLL_INTERVAL / 5)
                self._drain()
        self._signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_KILL_TIMEOUT)
        if self._pidfd >= 0:
            # The bubblewrap process may end a moment before the other processes in the sandbox.
            with selectors.DefaultSelector() as last:
                last.register(self._pidfd, selectors.EVENT_READ)
                last.select(_KILL_TIMEOUT)
            os.close(self._pidfd)
        self._drain()

    def _drain(self) -> None:
        """Read the output that is available, up to a fixed number of chunks."""
        for _ in range(64):
            if not self._read():
                return

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process group. Its id stays valid until all its processes have ended and been reaped."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


#: The message may arrive in parts, so the number is complete only when a non-digit follows.
_CHILD_PID = re.compile(rb'"child-pid":\s*(\d{1,10})\D')


class _OutputBuffer:
    """Keeps the head and the tail of a command's output. The bytes between them are only counted."""

    def __init__(self, most: int, emit: Callable[[str], None]) -> None:
        self.total = 0
        self._half = max(1, most // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._emit = emit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, data: bytes) -> None:
        """Add a chunk of output. The head is also emitted live."""
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
        """Return the output, and the number of bytes dropped from its middle."""
        tail = b"".join(self._tail)[-self._half :]
        lost = self.total - len(self._head) - len(tail)
        if not lost:
            return (bytes(self._head) + tail).decode(errors="replace"), 0
        gap = f"\n[... {lost} bytes of output were not kept ...]\n"
        return self._head.decode(errors="replace") + gap + tail.decode(errors="replace"), lost


def _usage(root: int, most: int) -> tuple[int, int]:
    """Return the number of processes in a process tree, and their unshared memory in bytes. (0, 0) means unknown.

    Inside a sandbox, orphans stay in the tree: the sandbox's first process adopts them.
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
    """Count the processes in a command's session. Outside a sandbox, orphans leave the process tree but not this."""
    count = 0
    with suppress(OSError):
        for pid in os.listdir("/proc"):
            if pid.isdigit():
                with suppress(OSError, IndexError):
                    # The fields after the name, which may contain any character: state, parent, group, session.
                    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
                    count += fields[3] == b"%d" % leader
    return count


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
