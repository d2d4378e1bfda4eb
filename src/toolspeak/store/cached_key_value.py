"""States in databases as the rest of toolspeak uses them: one for each URL and process, and two that nobody waits for.

`state` waits for the database. `near` reads a copy of what changes seldom (keys, results of probes), renewed in the
background. `memory` keeps what a conversation used last at hand, writes in the background, and can be told to be ready
(`warm`) or to have written everything (`settle`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from typing import Any

from ..errors import ToolspeakError
from ..key_value import MemoryState
from .database import Database
from .sql_key_value import SqlState

_log = logging.getLogger("toolspeak.store")
#: Seconds for which a copy is good.
FRESH = 1.0
#: What the copy holds: little, and read all the time.
_COPIED = ("key:", "probe/", "secret")
#: Seconds for which it is remembered that something is not there: another process may just be writing it.
_ABSENT = 5.0
#: Writes that may wait for the database. Above it, the oldest are waited for by whoever writes.
_MOST_WAITING = 1024
#: Seconds that an answer is held back for what must be remembered of it.
_SETTLED_WITHIN = 5.0


class Near:
    """A state for those who must not wait. What others change is seen after about a second."""

    def __init__(self, far: SqlState, clock: Callable[[], float] = time.monotonic) -> None:
        self._far = far
        self._clock = clock
        self._lock = threading.Lock()
        self._renewing = False
        self._number = 0
        self._values = self._read()
        self._until = clock() + FRESH

    def version(self) -> object:
        """Something else whenever what is kept may have changed."""
        self._renew_if_old()
        return self._number

    def get(self, key: str) -> Any:
        """The value as it was about a second ago."""
        if not key.startswith(_COPIED):
            return self._far.get(key)
        self._renew_if_old()
        return self._values.get(key)

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Keep a value: here at once, in the database soon."""
        self._values = {**self._values, key: value}
        _in_background(partial(self._far.put, key, value, ttl))

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        """The value there is, or this one. This waits: only the database knows who was first."""
        kept = self._far.setdefault(key, value, ttl)
        if key.startswith(_COPIED):
            self._values = {**self._values, key: kept}
        return kept

    def delete(self, key: str) -> None:
        """Forget a value: here at once, in the database soon."""
        self._values = {name: value for name, value in self._values.items() if name != key}
        _in_background(partial(self._far.delete, key))

    def keys(self, prefix: str = "") -> list[str]:
        """The keys as they were about a second ago."""
        if not prefix.startswith(_COPIED):
            return self._far.keys(prefix)
        self._renew_if_old()
        return sorted(key for key in self._values if key.startswith(prefix))

    def _renew_if_old(self) -> None:
        with self._lock:
            if self._renewing or self._clock() < self._until:
                return
            self._renewing = True
        threading.Thread(target=self._renew, name="toolspeak-near", daemon=True).start()

    def _renew(self) -> None:
        try:
            values = self._read()
            if values != self._values:
                self._values = values
                self._number += 1
        except ToolspeakError as error:  # what was known last still holds
            _log.warning("the shared state cannot be read: %s", error)
        finally:
            self._until = self._clock() + FRESH
            self._renewing = False

    def _read(self) -> dict[str, Any]:
        return self._far.get_many([key for prefix in _COPIED for key in self._far.keys(prefix)])


class Memory:
    """What conversations need again: at hand where it was used last, in the database for all others."""

    def __init__(self, far: SqlState) -> None:
        self._far = far
        self._at_hand = MemoryState()
        self._waiting: set[Future[None]] = set()

    def get(self, key: str) -> Any:
        """The value; what is not at hand is looked up, unless `warm` has just done so."""
        found = self._at_hand.get(key)
        if found is None and self._at_hand.get(_absent(key)) is None:
            found = self._far.get(key)
        return found

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Keep a value: here at once, for others once `settle` returns."""
        self._at_hand.put(key, value, ttl)
        if len(self._waiting) >= _MOST_WAITING:
            wait_for(tuple(self._waiting), _SETTLED_WITHIN)
        future = _in_background(partial(self._far.put, key, value, ttl))
        self._waiting.add(future)
        future.add_done_callback(self._written)

    def _written(self, future: Future[None]) -> None:
        self._waiting.discard(future)
        if (error := future.exception()) is not None:
            _log.warning("what was answered is remembered by this process only: %s", error)

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        """The value there is, or this one. This waits: only the database knows who was first."""
        return self._far.setdefault(key, value, ttl)

    def delete(self, key: str) -> None:
        """Forget a value, here and for all others."""
        self._at_hand.delete(key)
        self._far.delete(key)

    def keys(self, prefix: str = "") -> list[str]:
        """The keys of living values, sorted."""
        return self._far.keys(prefix)

    async def warm(self, keys: Iterable[str]) -> None:
        """Have these values at hand, so that nobody waits for them; what cannot be looked up is not there."""
        wanted = [key for key in keys if self._at_hand.get(key) is None]
        if not wanted:
            return
        found: dict[str, Any] = {}
        try:
            found = await asyncio.wrap_future(_in_background(partial(self._far.get_many, wanted)))
        except ToolspeakError as error:
            _log.warning("earlier turns cannot be looked up: %s", error)
        for key in wanted:
            if key in found:
                self._at_hand.put(key, found[key], _ABSENT)
            else:
                self._at_hand.put(_absent(key), True, _ABSENT)

    async def renew(self, keys: Iterable[str]) -> None:
        """Have these values at hand as they are in the database now."""
        keys = list(keys)
        await self.settle()
        for key in keys:
            self._at_hand.delete(key)
        await self.warm(keys)

    async def settle(self) -> None:
        """Wait until everything that was put is in the database, so that any process can go on; not for ever."""
        waiting = [asyncio.wrap_future(future) for future in tuple(self._waiting)]
        if waiting and (await asyncio.wait(waiting, timeout=_SETTLED_WITHIN))[1]:
            _log.warning("the database takes long to remember what was answered")
        for future in waiting:
            if future.done():
                future.exception()  # it has been told


def _absent(key: str) -> str:
    return f"absent/{key}"


# ---- one for each URL

_lock = threading.Lock()
_states: dict[str, SqlState] = {}
_near: dict[str, Near] = {}
_memories: dict[str, Memory] = {}
#: Threads that write and look up for all of them.
_MOST_THREADS = 4


class _Background:
    """Threads that are made when they are first needed, in each process anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="toolspeak-state")
            return self._threads.submit(work)

    def forget(self) -> None:
        """In a child that was forked, threads are gone."""
        self.__init__()


_background = _Background()
_in_background = _background.submit


def state(url: str) -> SqlState:
    """The state in the database at a URL."""
    with _lock:
        if url not in _states:
            _states[url] = SqlState(Database(url))
        return _states[url]


def near(url: str) -> Near:
    """The same, for those who must not wait."""
    far = state(url)
    with _lock:
        if url not in _near:
            _near[url] = Near(far)
        return _near[url]


def memory(url: str) -> Memory:
    """What conversations need again."""
    far = state(url)
    with _lock:
        if url not in _memories:
            _memories[url] = Memory(far)
        return _memories[url]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.forget)
