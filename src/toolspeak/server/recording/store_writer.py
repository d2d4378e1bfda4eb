"""Permanent recording: sends entries and statistics to the writer process, which renders, redacts and stores them.

Storing a request takes longer than answering a short one, so a separate process does it. Entries are encoded in groups,
and a thread sends a batch every half second. Recording must never block a request: if the store is too slow, entries
are dropped and the log reports how many.
"""

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
from ..observe.counters import RequestRow, Statistics
from .entries import RecordingEntry
from .recorder import Recorder
from .writer_process import BatchBuilder, WriteResult, with_length

_log = logging.getLogger("toolspeak.server")
#: Maximum size of waiting entries, and number of waiting statistics. Beyond these, the store is too slow, and entries
#: and statistics are dropped.
_MAX_PENDING_BYTES, _MAX_PENDING_ROWS = 32 * 1024 * 1024, 50_000
#: Seconds between batches. Sending a large batch costs as much as a small one.
_BATCH_SECONDS = 0.5
#: Number of entries to encode together, and the text size that triggers encoding earlier. Encoding entries one by one
#: takes three times as long, because of cold CPU caches.
_ENCODE_COUNT, _ENCODE_BYTES = 64, 256 * 1024
_REPORT_EVERY = 100  # number of losses for the same reason between two log lines
#: Seconds before a failed writer process is restarted, and its timeout at shutdown.
_RETRY_SECONDS, _SHUTDOWN_SECONDS = 5.0, 10.0


class WriterProcessDied(ToolspeakError):
    """The writer process has ended unexpectedly."""


class WriterProcess:
    """The writer process for the store at a URL, run as a child process. It ends when its input is closed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None
        # Guards the pipes, whose own locks cannot be tried without blocking.
        self._pipes = threading.Lock()

    def write(self, batch: list[bytes]) -> WriteResult:
        """Send a batch and wait until it is stored. Raises WriterProcessDied if the process has ended."""
        try:
            with self._pipes:
                process = self._running()
                assert process.stdin is not None and process.stdout is not None
                process.stdin.writelines(batch)
                process.stdin.flush()
                return msgspec.json.decode(process.stdout.readline(), type=WriteResult)
        except (OSError, msgspec.DecodeError) as error:
            self.end()
            raise WriterProcessDied(f"the writer process died: {error}") from None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # `-P` prevents imports from the working directory. A separate session keeps signals from the terminal
            # away until everything is written. The URL is not an argument, because it may contain a password.
            command = [sys.executable, "-P", "-m", "toolspeak.server.recording.writer_process"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
            assert self._process.stdin is not None
            self._process.stdin.write(with_length(self._url.encode()))
        return self._process

    def end(self) -> None:
        """Stop the process after it has stored everything; kill it if another thread is still waiting for it."""
        process, self._process = self._process, None
        if process is None:
            return
        if not self._pipes.acquire(blocking=False):
            process.kill()
            process.wait()
            return
        try:
            process.communicate(timeout=_SHUTDOWN_SECONDS)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        finally:
            self._pipes.release()


class Losses:
    """Counts requests that could not be recorded.

    Logs the first loss for each reason and then one line per 100 losses, because more lines would add to an overload.
    """

    def __init__(self) -> None:
        self.count = 0
        self._unreported = 0
        self._reason = ""
        # Both the event loop and the writing thread report losses.
        self._lock = threading.Lock()

    def add(self, count: int, reason: str) -> None:
        with self._lock:
            is_new = reason != self._reason
            if is_new:
                self._report()
            self._reason = reason
            self.count += count
            self._unreported += count
            if is_new or self._unreported >= _REPORT_EVERY:
                self._report()

    def report(self) -> None:
        """Log the losses that have not been logged yet; called when recording works again."""
        with self._lock:
            self._report()
            self._reason = ""

    def _report(self) -> None:
        if self._unreported:
            _log.warning("%d requests were not recorded: %s (%d in total)", self._unreported, self._reason, self.count)
        self._unreported = 0


class StoreWriter:
    """Recorder sink that stores entries in batches with `write`. `secrets` returns the secrets to redact."""

    def __init__(
        self,
        write: Callable[[list[bytes]], WriteResult],
        secrets: Callable[[], Iterable[Secret]],
        end: Callable[[], None] = lambda: None,
        batch_seconds: float = _BATCH_SECONDS,
    ) -> None:
        self._write = write
        self._secrets = secrets
        self._end = end
        self._batch_seconds = batch_seconds
        #: Entries that are not encoded yet; `_pending` contains the encoded ones.
        self._new_entries: list[RecordingEntry] = []
        self._new_size = 0
        self._statistics: list[RequestRow] = []
        self._pending = BatchBuilder()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        #: Whether the thread has already been woken for the waiting entries.
        self._notified = False
        self._idle = threading.Condition()
        self._writing = self._closing = False
        #: After a failure: the time of the next attempt, and the reason.
        self._retry_at, self._failure = 0.0, ""
        self.losses = Losses()

    def __call__(self, entry: RecordingEntry, size: int) -> None:
        """Queue an entry; `size` is the size of its texts in bytes."""
        # This needs no lock: the thread only removes entries from the list and never replaces it, and it clears
        # `_notified` first.
        self._new_entries.append(entry)
        self._new_size += size
        if len(self._new_entries) >= _ENCODE_COUNT or self._new_size >= _ENCODE_BYTES:
            with self._lock:
                self._encode()
        self._notify()

    def add_statistics(self, row: RequestRow) -> None:
        if len(self._statistics) < _MAX_PENDING_ROWS:
            self._statistics.append(row)
        self._notify()

    def _notify(self) -> None:
        if self._notified:
            return
        self._notified = True
        # Start the thread with the first entry: workers are forked, and threads do not survive a fork.
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolspeak-recording", daemon=True)
            self._thread.start()
        self._wake.set()

    def _encode(self) -> None:
        entries, self._new_size = self._new_entries[:], 0
        del self._new_entries[: len(entries)]
        if not entries:
            return
        if self._pending.size > _MAX_PENDING_BYTES:
            self.losses.add(len(entries), "the store is too slow")
        else:
            self._pending.add(entries)

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until everything is stored; return False on timeout."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._has_pending() and not self._writing, seconds)

    def _has_pending(self) -> bool:
        with self._lock:
            return bool(self._new_entries or self._statistics or self._pending)

    def close(self) -> None:
        """Store the remaining entries and stop."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_SHUTDOWN_SECONDS)
        self._end()
        if self._thread is not None:
            self._thread.join(_SHUTDOWN_SECONDS)  # wait until the thread has counted the losses
        self.losses.report()

    def _run(self) -> None:
        took = 0.0
        while not self._closing or self._has_pending():
            self._wake.wait()
            if not self._closing:
                time.sleep(max(0.0, self._batch_seconds - took))  # includes the duration of the previous write
            # Clear these before taking the batch, so that entries arriving in between wake the thread again.
            self._wake.clear()
            self._notified = False
            began = time.monotonic()
            self._writing = True
            with self._lock:
                self._encode()
                batch, self._pending = self._pending, BatchBuilder()
                batch.statistics = self._statistics[:]
                del self._statistics[: len(batch.statistics)]
            if batch:
                try:
                    self._write_batch(batch)
                except Exception:
                    _log.exception("internal error while recording")
                    self.losses.add(len(batch), "internal error")
            took = time.monotonic() - began
            self._writing = False
            with self._idle:
                self._idle.notify_all()

    def _write_batch(self, batch: BatchBuilder) -> None:
        count = len(batch)
        if time.monotonic() < self._retry_at:
            self.losses.add(count, self._failure)
            return
        try:
            result = self._write(batch.frames([secret.reveal() for secret in self._secrets()]))
        except WriterProcessDied as error:
            self._retry_at, self._failure = time.monotonic() + _RETRY_SECONDS, str(error)
            self.losses.add(count, self._failure)
            return
        if result.stored < count:
            self.losses.add(count - result.stored, result.problem)
        else:
            self.losses.report()


def create_recorder(config: Config, secrets: Callable[[], Iterable[Secret]]) -> tuple[Recorder | None, Statistics]:
    """Create the configured recorder, if any, and the statistics, which are stored if a store is configured.

    Raises ToolspeakError if the store cannot be opened.
    """
    if config.record != "store" and not config.value("store"):
        return Recorder() if config.record == "memory" else None, Statistics()
    stored = open_recordings(config.store)  # fail early and create the tables
    process = WriterProcess(config.store)
    writer = StoreWriter(process.write, secrets, process.end)
    parts = (writer, stored) if config.record == "store" else (None, None)
    recorder = Recorder(sink=parts[0], archive=parts[1]) if config.record != "off" else None
    return recorder, Statistics(writer.add_statistics, stored.state.get_many, writer.close)
