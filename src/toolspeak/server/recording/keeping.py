"""Requests that are kept beyond memory, where the configuration says so: written to the store by a thread of their own.

Nobody who is answered waits for it. Where the database cannot follow, what is too much is dropped, and the log says how
much. Above: `toolspeak serve`. Below: `recorder`, `shown`, the store.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable

from ...config import Config, Secret
from ...core.model import JSONValue
from ...errors import ToolspeakError
from ...store import open_recordings
from .recorder import Entry, Recorder

__all__ = ["Keeper", "recorder_from"]

_log = logging.getLogger("toolspeak.server")
#: Entries that wait to be written. Each may be a megabyte; a database that is this far behind will not catch up.
_MOST_WAITING = 256
#: Dropped entries between two lines in the log.
_EVERY = 100


class Keeper:
    """Writes entries, one after the other.

    Args:
        keep: writes one: its id, its model, and everything about it.
        secrets: what must not be written.
    """

    def __init__(self, keep: Callable[[str, str, JSONValue], None], secrets: Callable[[], Iterable[Secret]]) -> None:
        self._keep = keep
        self._secrets = secrets
        self._waiting: queue.Queue[Entry] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def __call__(self, entry: Entry) -> None:
        """Have an entry written soon."""
        # Not before the first one: workers are forked, and threads are not.
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="toolspeak-recording", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            self.dropped += 1
            if self.dropped % _EVERY == 1:
                _log.warning("%d requests were not recorded: the store cannot follow", self.dropped)

    def settle(self) -> None:
        """Wait until everything is written."""
        self._waiting.join()

    def _work(self) -> None:
        from .shown import whole  # it reads answers once more, with all dialects

        while True:
            entry = self._waiting.get()
            try:
                told = whole(entry, [secret.reveal() for secret in self._secrets()])
                self._keep(entry.record.id, entry.record.model, told)
            except ToolspeakError as error:
                _log.warning("a request could not be recorded: %s", error)
            except Exception:
                _log.exception("a request could not be recorded")
            finally:
                self._waiting.task_done()


def recorder_from(config: Config, secrets: Callable[[], Iterable[Secret]]) -> Recorder | None:
    """What keeps requests, as the configuration says; None: nothing does.

    Raises:
        ToolspeakError: they are to be kept in a store that cannot be opened.
    """
    if config.record == "off":
        return None
    if config.record == "memory":
        return Recorder()
    return Recorder(further=Keeper(open_recordings(config.store).add, secrets))
