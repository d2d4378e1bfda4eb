"""Key-value stores in databases. Each process opens one per URL.

`sql_key_value` waits for the database. `cached_key_value` reads values that rarely change (API keys, probe results)
from a copy that is refreshed in the background. `write_behind_key_value` keeps recent values in memory and writes them
in the background; `warm` prefetches values and `settle` waits for pending writes.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from typing import Any, TypeVar

from ..errors import ToolspeakError
from ..key_value import MemoryState
from .database import Database
from .sql_key_value import SqlKeyValue

T = TypeVar("T")

_log = logging.getLogger("toolspeak.store")
CACHE_SECONDS = 1.0
#: Prefixes of the keys that are cached. They have few values, which are read on every request.
_CACHED_PREFIXES = ("key:", "probe/", "secret")
#: Seconds for which a missing key is remembered. Short, because another process may be writing it.
_ABSENT_SECONDS = 5.0
#: Maximum number of pending writes. At this limit, `put` waits for pending writes to finish (back-pressure).
_MAX_PENDING_WRITES = 1024
_FLUSH_TIMEOUT = 5.0  # maximum time to wait for pending writes, in seconds


class CachedKeyValue:
    """Key-value store with a local read cache. Changes by other processes become visible after about a second."""

    def __init__(self, database: SqlKeyValue, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._refreshing = False
        self._version = 0
        self._values = self._read()
        self._fresh_until = clock() + CACHE_SECONDS

    def version(self) -> object:
        """Return an object that changes whenever other processes have changed cached values."""
        self._refresh_if_stale()
        return self._version

    def get(self, key: str) -> Any:
        """Return the value. A cached one may be about a second old."""
        if not key.startswith(_CACHED_PREFIXES):
            return self._database.get(key)
        self._refresh_if_stale()
        return self._values.get(key)

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Store a value: locally at once, in the database in the background."""
        self._values = {**self._values, key: value}
        _in_background(partial(self._database.put, key, value, ttl))

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        """Return the existing value, or store and return this one. Waits for the database, which resolves races."""
        stored = self._database.setdefault(key, value, ttl)
        if key.startswith(_CACHED_PREFIXES):
            self._values = {**self._values, key: stored}
        return stored

    def delete(self, key: str) -> None:
        """Delete a value: locally at once, in the database in the background."""
        self._values = {name: value for name, value in self._values.items() if name != key}
        _in_background(partial(self._database.delete, key))

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys with a prefix. A cached list may be about a second old."""
        if not prefix.startswith(_CACHED_PREFIXES):
            return self._database.keys(prefix)
        self._refresh_if_stale()
        return sorted(key for key in self._values if key.startswith(prefix))

    def _refresh_if_stale(self) -> None:
        with self._lock:
            if self._refreshing or self._clock() < self._fresh_until:
                return
            self._refreshing = True
        threading.Thread(target=self._refresh, name="toolspeak-near", daemon=True).start()

    def _refresh(self) -> None:
        try:
            values = self._read()
            if values != self._values:
                self._values = values
                self._version += 1
        except ToolspeakError as error:  # continue with the old copy
            _log.warning("cannot refresh the cached state from the database: %s", error)
        finally:
            self._fresh_until = self._clock() + CACHE_SECONDS
            self._refreshing = False

    def _read(self) -> dict[str, Any]:
        return self._database.get_many([key for prefix in _CACHED_PREFIXES for key in self._database.keys(prefix)])


class WriteBehindKeyValue:
    """Key-value store with a write-behind cache: keeps recent values in memory and writes them in the background."""

    def __init__(self, database: SqlKeyValue) -> None:
        self._database = database
        self._local = MemoryState()
        self._pending: set[Future[None]] = set()

    def get(self, key: str) -> Any:
        """Return the value from memory, else from the database unless `warm` has just found it missing there."""
        value = self._local.get(key)
        if value is None and self._local.get(_absence_key(key)) is None:
            value = self._database.get(key)
        return value

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Store a value: locally at once, visible to other processes once `settle` returns."""
        self._local.put(key, value, ttl)
        if len(self._pending) >= _MAX_PENDING_WRITES:
            wait_for(tuple(self._pending), _FLUSH_TIMEOUT)
        future = _in_background(partial(self._database.put, key, value, ttl))
        self._pending.add(future)
        future.add_done_callback(self._on_written)

    def _on_written(self, future: Future[None]) -> None:
        self._pending.discard(future)
        if (error := future.exception()) is not None:
            _log.warning("cannot write to the database; only this process remembers the reply: %s", error)

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        return self._database.setdefault(key, value, ttl)

    def delete(self, key: str) -> None:
        self._local.delete(key)
        self._database.delete(key)

    def keys(self, prefix: str = "") -> list[str]:
        return self._database.keys(prefix)

    async def warm(self, keys: Iterable[str]) -> None:
        """Prefetch values, so `get` does not block. Values that cannot be read count as missing."""
        missing = [key for key in keys if self._local.get(key) is None]
        if not missing:
            return
        values: dict[str, Any] = {}
        try:
            values = await asyncio.wrap_future(_in_background(partial(self._database.get_many, missing)))
        except ToolspeakError as error:
            _log.warning("cannot read earlier turns from the database: %s", error)
        for key in missing:
            name, value = (key, values[key]) if key in values else (_absence_key(key), True)
            self._local.put(name, value, _ABSENT_SECONDS)

    async def renew(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        await self.settle()
        for key in keys:
            self._local.delete(key)
        await self.warm(keys)

    async def settle(self) -> None:
        """Wait, for a limited time, until pending writes are committed and visible to other processes."""
        pending = [asyncio.wrap_future(future) for future in tuple(self._pending)]
        if pending and (await asyncio.wait(pending, timeout=_FLUSH_TIMEOUT))[1]:
            _log.warning("the database is slow: writes are still pending after %s seconds", _FLUSH_TIMEOUT)
        for future in pending:
            if future.done():
                future.exception()  # marks the exception as retrieved; `_on_written` has logged it


def _absence_key(key: str) -> str:
    return f"absent/{key}"


# ---- the instances of this process, by URL

_lock = threading.Lock()
_states: dict[str, SqlKeyValue] = {}
_caches: dict[str, CachedKeyValue] = {}
_write_behinds: dict[str, WriteBehindKeyValue] = {}
_MAX_THREADS = 4  # number of threads for background reads and writes, for all URLs together


_background = ThreadPoolExecutor(_MAX_THREADS, "toolspeak-state")  # starts its threads on first use
_in_background = _background.submit


def _instance(instances: dict[str, T], url: str, make: Callable[[], T]) -> T:
    with _lock:
        if url not in instances:
            instances[url] = make()
        return instances[url]


def sql_key_value(url: str) -> SqlKeyValue:
    return _instance(_states, url, lambda: SqlKeyValue(Database(url)))


def cached_key_value(url: str) -> CachedKeyValue:
    database = sql_key_value(url)
    return _instance(_caches, url, lambda: CachedKeyValue(database))


def write_behind_key_value(url: str) -> WriteBehindKeyValue:
    database = sql_key_value(url)
    return _instance(_write_behinds, url, lambda: WriteBehindKeyValue(database))


if hasattr(os, "register_at_fork"):
    # A forked child does not inherit threads, so it starts its own.
    os.register_at_fork(after_in_child=lambda: _background.__init__(_MAX_THREADS, "toolspeak-state"))
