"""The small memory of toolspeak: JSON values under keys, with expiry; in memory or in one file.

The file is written by rename, readable by its owner only, and shared by processes under a lock. It is for
little things that must survive or be shared (what was trusted, a secret, probe results); conversations belong
to the store. The clock is passed in.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from .errors import ConfigError, UsageError
from .file_locks import held

#: What gives the seam a database; it stands above this module, and is imported when a database is named.
_DATABASES = "toolspeak.store.cached_key_value"

#: Seconds since the epoch. Wall-clock time, since expiry is shared between processes and outlives them.
Clock: TypeAlias = Callable[[], float]

#: Values kept in memory; the tools of a conversation are the largest and rarely above 100 kB.
_MOST_IN_MEMORY = 4_096
#: What all of them take together: anybody may send large ones, so that a number of values would be no bound.
_MOST_BYTES_IN_MEMORY = 64 * 1024 * 1024
#: Values kept in a file, which is read and written as a whole.
_MOST_IN_FILE = 4_096
#: A value larger than this does not belong here.
_LARGEST_VALUE = 4 * 1024 * 1024

_VERSION = 1


class State(Protocol):
    """Values under keys, with expiry. Every method may be called from any thread."""

    def get(self, key: str) -> Any:
        """The value, or None when there is none (any more)."""
        ...

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Keep a JSON value, for `ttl` seconds or until it is deleted."""
        ...

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        """The value there is; if there is none, this one, kept. One of several writers wins, all see the winner."""
        ...

    def delete(self, key: str) -> None:
        """Forget a value."""
        ...

    def keys(self, prefix: str = "") -> list[str]:
        """The keys of living values, sorted."""
        ...


@runtime_checkable
class SharedState(State, Protocol):
    """State that many processes share, with what this one uses at hand: nobody waits who has told it in time."""

    async def warm(self, keys: Iterable[str]) -> None:
        """Have these values at hand."""
        ...

    async def renew(self, keys: Iterable[str]) -> None:
        """The same, as they are now: another process may have deleted one."""
        ...

    async def settle(self) -> None:
        """Wait until others can see everything that was put."""
        ...


class MemoryState:
    """State of one process. When it is full, what was not used for longest goes first."""

    def __init__(
        self, clock: Clock = time.time, most: int = _MOST_IN_MEMORY, most_bytes: int = _MOST_BYTES_IN_MEMORY
    ) -> None:
        self._clock = clock
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        #: As JSON text, so that nobody changes a value from outside.
        self._values: OrderedDict[str, tuple[str, float | None]] = OrderedDict()
        #: The text that was put last, and its JSON: the same one is often put under many keys, and then kept once.
        self._last = ("", '""')

    def get(self, key: str) -> Any:
        with self._lock:
            return self._get(key)

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        known, text = self._last
        if value is not known:
            text = _json(key, value)
            if type(value) is str:
                self._last = (value, text)
        with self._lock:
            self._put(key, text, ttl)

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        text = _json(key, value)
        with self._lock:
            found = self._get(key)
            if found is not None:
                return found
            self._put(key, text, ttl)
        return json.loads(text)

    def delete(self, key: str) -> None:
        with self._lock:
            self._drop(key)

    def keys(self, prefix: str = "") -> list[str]:
        now = self._clock()
        with self._lock:
            return sorted(k for k, (_, end) in self._values.items() if k.startswith(prefix) and _lives(end, now))

    def _get(self, key: str) -> Any:
        found = self._values.get(key)
        if found is None:
            return None
        text, end = found
        if not _lives(end, self._clock()):
            self._drop(key)
            return None
        self._values.move_to_end(key)
        return json.loads(text)

    def _put(self, key: str, text: str, ttl: float | None) -> None:
        self._drop(key)
        self._values[key] = (text, _end(self._clock(), ttl))
        self._bytes += len(key) + len(text)
        while len(self._values) > self._most or self._bytes > self._most_bytes:
            self._drop(next(iter(self._values)))

    def _drop(self, key: str) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self._bytes -= len(key) + len(found[0])


#: What the file holds: key -> value, and when it ends if ever.
_Entries: TypeAlias = dict[str, tuple[Any, float | None]]


class FileState:
    """State in one JSON file that several processes share.

    Raises:
        ConfigError: when the file cannot be read or written, or holds something else. It is then left as it is: with
            an empty one in its place, every key that was given out would be gone, and nobody would be told.
    """

    def __init__(self, path: str | Path, clock: Clock = time.time, most: int = _MOST_IN_FILE) -> None:
        # Behind a link the file is the one to replace, and the one whose neighbour is the lock of all who share it.
        self.path = Path(os.path.realpath(path))
        self._name = str(self.path)
        self._clock = clock
        self._most = most
        #: What was read last, and the stamp of the file that it was read from.
        self._cached: tuple[tuple[int, int, int], _Entries] | None = None

    def version(self) -> object:
        """Something else whenever what is kept may have changed; None while nobody knows."""
        try:  # the name, since a path takes twice as long, and every request asks
            return _stamp(os.stat(self._name))
        except OSError:
            return None

    def get(self, key: str) -> Any:
        value, end = self._entries().get(key, (None, None))
        # A copy, so that nobody changes what is cached.
        return _copied(value) if _lives(end, self._clock()) else None

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        text = _json(key, value)
        with self._changed() as entries:
            _set(entries, key, (json.loads(text), _end(self._clock(), ttl)))

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        found = self.get(key)
        if found is not None:
            return found
        text = _json(key, value)
        with self._changed() as entries:
            # Another process may have been quicker.
            if key not in entries:
                _set(entries, key, (json.loads(text), _end(self._clock(), ttl)))
            return _copied(entries[key][0])

    def delete(self, key: str) -> None:
        if key in self._entries():
            with self._changed() as entries:
                entries.pop(key, None)

    def keys(self, prefix: str = "") -> list[str]:
        now = self._clock()
        return sorted(k for k, (_, end) in self._entries().items() if k.startswith(prefix) and _lives(end, now))

    def _entries(self) -> _Entries:
        """What the file holds; never to be changed. Readers need no lock, since a rename is all or nothing."""
        try:
            return self._read()
        except ValueError as error:
            message = f"cannot understand the state file `{self.path}`: {error}"
            hint = "put it right, or move it away: the keys, the trust and the results in it are then gone"
            raise ConfigError(message, hint=hint) from None

    @contextmanager
    def _changed(self) -> Generator[_Entries]:
        """What lives in the file, to be changed; written when the block ends well."""
        with self._locked():
            now = self._clock()
            entries = {k: entry for k, entry in self._entries().items() if _lives(entry[1], now)}
            yield entries
            self._write(_bounded(entries, self._most))

    def _read(self) -> _Entries:
        """The file's entries. Raises ValueError when it holds something else."""
        try:
            # What has not changed is not opened.
            if self._cached is not None and self._cached[0] == self.version():
                return self._cached[1]
            with self.path.open("rb") as file:
                stamp = _stamp(os.fstat(file.fileno()))
                data = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable("read", error) from None
        entries = _entries_in(data)
        self._cached = (stamp, entries)
        return entries

    def _write(self, entries: _Entries) -> None:
        data = json.dumps({"version": _VERSION, "entries": entries}).encode()
        temporary = ""
        try:
            # Made with mode 0600 and a name nobody can guess.
            descriptor, temporary = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(self.path)
        except OSError as error:
            with suppress(OSError):
                Path(temporary).unlink()
            raise self._unusable("write", error) from None

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Alone among all processes and threads that change this file."""
        with ExitStack() as stack:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(held(self.path.with_name(f"{self.path.name}.lock")))
            except OSError as error:
                raise self._unusable("write", error) from None
            yield

    def _unusable(self, verb: str, error: OSError) -> ConfigError:
        message = f"cannot {verb} the state file `{self.path}`: {error.strerror or error}"
        return ConfigError(message, hint="make it accessible, or name another one with TOOLSPEAK_STATE_FILE")


def open_state(url: str) -> State:
    """The state in a database. Every method waits for it.

    Raises:
        ConfigError: the URL cannot be used, or a package is missing.
        StoreError: the database cannot be opened.
    """
    return _databases().state(url)


def near_state(url: str) -> State:
    """The same for those who must not wait: read from a copy that is renewed in the background, written there too."""
    return _databases().near(url)


def open_memory(url: str) -> State:
    """What many processes remember together: each has what it used last at hand, and the rest in a database."""
    return _databases().memory(url)


def _databases() -> Any:
    try:
        return import_module(_DATABASES)
    except ImportError as error:
        hint = "pip install 'toolspeak[agent]'; for PostgreSQL 'toolspeak[postgres]'"
        raise ConfigError(f"a database needs the package `{error.name}`", hint=hint) from None


def _json(key: str, value: Any) -> str:
    """The value as JSON text. Raises UsageError when it is none or too large."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the value for `{key}` is not JSON: {error}") from None
    if len(text) > _LARGEST_VALUE:
        raise UsageError(f"the value for `{key}` is too large to keep: {len(text)} characters")
    return text


def _copied(value: Any) -> Any:
    """A JSON value of its own."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _copied(each) if isinstance(each, dict | list) else each for name, each in fields.items()}
    if isinstance(value, list):
        return [_copied(each) for each in cast("list[Any]", value)]
    return value


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    """What changes whenever a file is replaced or written."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def _end(now: float, ttl: float | None) -> float | None:
    return None if ttl is None else now + ttl


def _lives(end: float | None, now: float) -> bool:
    return end is None or now < end


def _set(entries: _Entries, key: str, entry: tuple[Any, float | None]) -> None:
    """The newest stands last, also when it replaces an old one."""
    entries.pop(key, None)
    entries[key] = entry


def _bounded(entries: _Entries, most: int) -> _Entries:
    """At most so many entries: those that end anyway go first, the oldest before the others."""
    too_many = len(entries) - most
    if too_many <= 0:
        return entries
    leaving = sorted(entries, key=lambda key: entries[key][1] is None)[:too_many]
    return {key: entry for key, entry in entries.items() if key not in set(leaving)}


class _File(msgspec.Struct, frozen=True):
    entries: _Entries
    version: int = _VERSION


def _entries_in(data: bytes) -> _Entries:
    """The entries in a file's bytes. Raises ValueError when there are none."""
    try:
        document = json.loads(data)
        file = msgspec.convert(document, _File)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if file.version > _VERSION:
        hint = "use that version, or name another file with TOOLSPEAK_STATE_FILE"
        raise ConfigError(
            f"the state file was written by a newer version of toolspeak (format {file.version})", hint=hint
        )
    return file.entries
