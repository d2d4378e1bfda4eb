"""Requests that are kept beyond memory, where the configuration says so: handed to a process of their own.

To shape, clean and write a request takes longer than to answer a short one, so none of it is done in this process:
entries are encoded some at a time, and a thread gives those of half a second to the `scribe` at once. Nobody waits for
that. Where the database cannot follow, what is too much is dropped, and the log says how much.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable

import msgspec

from ...config import Config, Secret
from ...errors import ToolspeakError
from ...store import open_recordings
from .entries import Entry
from .losses import Losses
from .recorder import Recorder
from .writer_process import Heard, Opening, Packed, sized

_log = logging.getLogger("toolspeak.server")
#: What waits to be written, in bytes: a database that is this far behind will not catch up.
_MOST_BYTES = 32 * 1024 * 1024
#: Seconds in which entries gather: one handing over of many costs as much as that of one.
_GATHER = 0.5
#: Entries that are encoded at once, and the bytes of their texts from which on fewer are. Between two requests the
#: processor has forgotten how to encode, so that one alone takes three times as long.
_TOGETHER, _TOGETHER_BYTES = 64, 256 * 1024
#: Seconds until one that could not be started, or died, is tried again; and those for its last words at the end.
_PAUSE, _LAST_WORDS = 5.0, 10.0


class ScribeGone(ToolspeakError):
    """The process that writes recordings has died."""


class Subprocess:
    """The scribe, as a process beside this one. It ends when nobody can hand it anything any more.

    Args:
        url: the store.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None
        #: Held by whoever uses its pipes: they have locks of their own, which nobody can wait for within a time.
        self._pipes = threading.Lock()

    def write(self, batch: list[bytes]) -> Heard:
        """What it says of a batch, once that is written.

        Raises:
            ScribeGone: it says nothing.
        """
        try:
            with self._pipes:
                process = self._running()
                assert process.stdin is not None and process.stdout is not None
                process.stdin.writelines(batch)
                process.stdin.flush()
                return msgspec.json.decode(process.stdout.readline(), type=Heard)
        except (OSError, msgspec.DecodeError) as error:
            self.end()
            raise ScribeGone(f"the process that writes recordings has ended: {error}") from None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # `-P`: nothing is imported from the working directory. A session of its own: what the terminal sends to all
            # is not for it, since it still has to write then. The URL may hold a password, so it is no argument.
            command = [sys.executable, "-P", "-m", "toolspeak.server.recording.writer_process"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
            assert self._process.stdin is not None
            self._process.stdin.write(sized(msgspec.msgpack.encode(Opening(self._url))))
        return self._process

    def end(self) -> None:
        """Let it end; what was handed over is written. One that another thread waits for in vain is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        if not self._pipes.acquire(blocking=False):
            process.kill()
            process.wait()
            return
        try:
            process.communicate(timeout=_LAST_WORDS)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        finally:
            self._pipes.release()


class Keeper:
    """Hands entries over, many at once.

    Args:
        write: has a batch written, and gives what is said of it.
        secrets: what must not be written.
        end: what is done at the end.
    """

    def __init__(
        self,
        write: Callable[[list[bytes]], Heard],
        secrets: Callable[[], Iterable[Secret]],
        end: Callable[[], None] = lambda: None,
        gather: float = _GATHER,
    ) -> None:
        self._write = write
        self._secrets = secrets
        self._end = end
        self._gather = gather
        #: What is to be encoded, and what is.
        self._fresh: list[Entry] = []
        self._fresh_size = 0
        self._waiting = Packed()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._some = threading.Event()
        #: Whether the thread knows that there are some.
        self._told = False
        self._written = threading.Condition()
        self._under_way = self._closing = False
        #: Until when nothing is tried, after it was in vain, and why it was.
        self._until, self._why = 0.0, ""
        self.lost = Losses()

    def __call__(self, entry: Entry, size: int) -> None:
        """Have an entry written soon, whose texts take so many bytes."""
        # Without the lock, which most requests need not take: the thread takes from this list and puts no other in its
        # place, and it forgets that it was told before it does.
        self._fresh.append(entry)
        self._fresh_size += size
        if len(self._fresh) >= _TOGETHER or self._fresh_size >= _TOGETHER_BYTES:
            with self._lock:
                self._encode()
        if self._told:
            return
        self._told = True
        # Not before the first one: workers are forked, and threads are not.
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="toolspeak-recording", daemon=True)
            self._thread.start()
        self._some.set()

    def _encode(self) -> None:
        fresh, self._fresh_size = self._fresh[:], 0
        del self._fresh[: len(fresh)]
        if not fresh:
            return
        if self._waiting.size > _MOST_BYTES:
            self.lost.add(len(fresh), "the store cannot follow")
        else:
            self._waiting.add(fresh)

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until everything is written; whether it is."""
        with self._written:
            return self._written.wait_for(lambda: not self._is_left() and not self._under_way, seconds)

    def _is_left(self) -> bool:
        with self._lock:
            return bool(self._fresh or self._waiting)

    def close(self) -> None:
        """Write what is left, and end."""
        self._closing = True
        self._some.set()
        if self._thread is not None:
            self._thread.join(_LAST_WORDS)
        self._end()
        if self._thread is not None:
            self._thread.join(_LAST_WORDS)  # it counts what is lost
        self.lost.tell()

    def _work(self) -> None:
        took = 0.0
        while not self._closing or self._is_left():
            self._some.wait()
            if not self._closing:
                time.sleep(max(0.0, self._gather - took))  # some have gathered while others were written
            # In this order: what comes in between is seen the next time.
            self._some.clear()
            self._told = False
            began = time.monotonic()
            if batch := self._taken():
                try:
                    self._hand_over(batch)
                except Exception:
                    _log.exception("a mistake of ours in recording")
                    self.lost.add(len(batch), "a mistake of ours")
            took = time.monotonic() - began
            self._under_way = False
            with self._written:
                self._written.notify_all()

    def _taken(self) -> Packed:
        self._under_way = True
        with self._lock:
            self._encode()
            batch, self._waiting = self._waiting, Packed()
        return batch

    def _hand_over(self, batch: Packed) -> None:
        count = len(batch)
        if time.monotonic() < self._until:
            self.lost.add(count, self._why)
            return
        try:
            heard = self._write(batch.whole([secret.reveal() for secret in self._secrets()]))
        except ScribeGone as error:
            self._until, self._why = time.monotonic() + _PAUSE, str(error)
            self.lost.add(count, self._why)
            return
        if heard.kept < count:
            self.lost.add(count - heard.kept, heard.problem)
        else:
            self.lost.tell()


def recorder_from(config: Config, secrets: Callable[[], Iterable[Secret]]) -> Recorder | None:
    """What keeps requests, as the configuration says; None: nothing does.

    Raises:
        ToolspeakError: they are to be kept in a store that cannot be opened.
    """
    if config.record == "off":
        return None
    if config.record == "memory":
        return Recorder()
    open_recordings(config.store)  # so that who starts the server hears of it, and the tables are there
    scribe = Subprocess(config.store)
    return Recorder(further=Keeper(scribe.write, secrets, scribe.end))
