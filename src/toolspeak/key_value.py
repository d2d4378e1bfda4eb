"""Key-value state with expiry, in memory or in one file.

For small values that must outlive the process or be shared, such as trusted files, a secret or probe results.
Conversations belong in the store. The file is replaced atomically, readable only by its owner, and locked for writing.
"""

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

from .core.text import system_reason
from .errors import ConfigError, UsageError
from .file_locks import file_lock

#: Module that stores state in a database. It depends on this one, so it is imported only if a database is configured.
_DATABASE_MODULE = "toolspeak.store.cached_key_value"

#: Returns the Unix time. Wall-clock time, because expiry times are shared between processes and outlive them.
Clock: TypeAlias = Callable[[], float]

#: Maximum number of values in memory. The largest are the tools of a conversation, rarely above 100 kB.
_MAX_MEMORY_VALUES = 4_096
#: Maximum total size in memory, because clients can send large values.
_MAX_MEMORY_BYTES = 64 * 1024 * 1024
#: Maximum number of values in a file, which is always read and written completely.
_MAX_FILE_VALUES = 4_096
_MAX_VALUE_CHARS = 4 * 1024 * 1024

_VERSION = 1


class State(Protocol):
    """A key-value store with expiry. Every method may be called from any thread."""

    def get(self, key: str) -> Any:
        """Return the value, or None if it is missing or expired."""
        ...

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        """Store a JSON value for `ttl` seconds, or until it is deleted."""

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        """Return the current value, or store and return this one. Concurrent callers all get the same value."""
        ...

    def delete(self, key: str) -> None:
        """Delete a value."""

    def keys(self, prefix: str = "") -> list[str]:
        """List the keys of unexpired values, sorted."""
        ...


@runtime_checkable
class SharedState(State, Protocol):
    """State shared by several processes, with a local copy of the values that this process uses."""

    async def warm(self, keys: Iterable[str]) -> None:
        """Load these values into the local copy."""

    async def renew(self, keys: Iterable[str]) -> None:
        """Reload these values; another process may have changed or deleted them."""

    async def settle(self) -> None:
        """Wait until other processes can see every stored value."""


class MemoryState:
    """State in the memory of one process. When full, it evicts the least recently used values."""

    def __init__(
        self, clock: Clock = time.time, max_values: int = _MAX_MEMORY_VALUES, max_bytes: int = _MAX_MEMORY_BYTES
    ) -> None:
        self._clock = clock
        self._max_values = max_values
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        #: Expiry times and values. The values are JSON text, so callers cannot modify them.
        self._values: OrderedDict[str, tuple[str, float | None]] = OrderedDict()
        #: The last string and its JSON, because the same string is often stored under many keys.
        self._last = ("", '""')

    def get(self, key: str) -> Any:
        with self._lock:
            return self._get(key)

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        last_value, text = self._last
        if value is not last_value:
            text = _json(key, value)
            if type(value) is str:
                self._last = (value, text)
        with self._lock:
            self._put(key, text, ttl)

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        text = _json(key, value)
        with self._lock:
            current = self._get(key)
            if current is not None:
                return current
            self._put(key, text, ttl)
        return json.loads(text)

    def delete(self, key: str) -> None:
        with self._lock:
            self._drop(key)

    def keys(self, prefix: str = "") -> list[str]:
        now = self._clock()
        with self._lock:
            return sorted(k for k, (_, end) in self._values.items() if k.startswith(prefix) and _is_alive(end, now))

    def _get(self, key: str) -> Any:
        entry = self._values.get(key)
        if entry is None:
            return None
        text, end = entry
        if not _is_alive(end, self._clock()):
            self._drop(key)
            return None
        self._values.move_to_end(key)
        return json.loads(text)

    def _put(self, key: str, text: str, ttl: float | None) -> None:
        self._drop(key)
        self._values[key] = (text, _expiry(self._clock(), ttl))
        self._bytes += len(key) + len(text)
        while len(self._values) > self._max_values or self._bytes > self._max_bytes:
            self._drop(next(iter(self._values)))

    def _drop(self, key: str) -> None:
        entry = self._values.pop(key, None)
        if entry is not None:
            self._bytes -= len(key) + len(entry[0])


#: Values and optional expiry times, by key.
_Entries: TypeAlias = dict[str, tuple[Any, float | None]]


class FileState:
    """State in one JSON file that several processes share.

    Raises:
        ConfigError: the file cannot be read or written, or is not a state file. It stays unchanged, because replacing
            it would silently revoke every key in it.
    """

    def __init__(self, path: str | Path, clock: Clock = time.time, max_values: int = _MAX_FILE_VALUES) -> None:
        # Resolve links, so every process replaces the same file and uses the lock file next to it.
        self.path = Path(os.path.realpath(path))
        self._name = str(self.path)
        self._clock = clock
        self._max_values = max_values
        #: The entries from the last read, with the file's stamp at that time.
        self._cached: tuple[tuple[int, int, int], _Entries] | None = None

    def version(self) -> object:
        """Return an opaque version that changes with the file; None if it is unknown."""
        try:  # on a string, because `Path.stat` takes twice as long, and this runs for every request
            return _stamp(os.stat(self._name))
        except OSError:
            return None

    def get(self, key: str) -> Any:
        value, end = self._entries().get(key, (None, None))
        # Return a copy, so callers cannot modify the cache.
        return _deep_copy(value) if _is_alive(end, self._clock()) else None

    def put(self, key: str, value: Any, ttl: float | None = None) -> None:
        text = _json(key, value)
        with self._updating() as entries:
            entries.pop(key, None)  # so that entries are ordered by age
            entries[key] = (json.loads(text), _expiry(self._clock(), ttl))

    def setdefault(self, key: str, value: Any, ttl: float | None = None) -> Any:
        current = self.get(key)
        if current is not None:
            return current
        text = _json(key, value)
        with self._updating() as entries:
            # Another process may have stored a value in the meantime.
            if key not in entries:
                entries[key] = (json.loads(text), _expiry(self._clock(), ttl))
            return _deep_copy(entries[key][0])

    def delete(self, key: str) -> None:
        if key in self._entries():
            with self._updating() as entries:
                entries.pop(key, None)

    def keys(self, prefix: str = "") -> list[str]:
        now = self._clock()
        return sorted(k for k, (_, end) in self._entries().items() if k.startswith(prefix) and _is_alive(end, now))

    def _entries(self) -> _Entries:
        """Return the file's entries; do not modify them. No lock is needed, because the file is replaced atomically."""
        try:
            return self._read()
        except ValueError as error:
            message = f"the state file `{self.path}` is damaged: {error}"
            hint = "repair the file, or move it away to start without its keys, trusted files and probe results"
            raise ConfigError(message, hint=hint) from None

    @contextmanager
    def _updating(self) -> Generator[_Entries]:
        """Yield the unexpired entries for modification, and write them if the block succeeds. Locks the file."""
        with ExitStack() as stack:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(file_lock(self.path.with_name(f"{self.path.name}.lock")))
            except OSError as error:
                raise self._unusable("write", error) from None
            now = self._clock()
            entries = {k: entry for k, entry in self._entries().items() if _is_alive(entry[1], now)}
            yield entries
            # Drop entries above the limit. Entries that expire go first, then the oldest.
            too_many = max(len(entries) - self._max_values, 0)
            for key in sorted(entries, key=lambda key: entries[key][1] is None)[:too_many]:
                del entries[key]
            self._write(entries)

    def _read(self) -> _Entries:
        """Read the entries. Raises ValueError if the content is not a state file."""
        try:
            # Do not read an unchanged file again.
            if self._cached is not None and self._cached[0] == self.version():
                return self._cached[1]
            with self.path.open("rb") as file:
                stamp = _stamp(os.fstat(file.fileno()))
                data = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable("read", error) from None
        entries = _decode_entries(data)
        self._cached = (stamp, entries)
        return entries

    def _write(self, entries: _Entries) -> None:
        data = json.dumps({"version": _VERSION, "entries": entries}).encode()
        temporary = ""
        try:
            # `mkstemp` uses mode 0600 and an unpredictable name.
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

    def _unusable(self, verb: str, error: OSError) -> ConfigError:
        message = f"cannot {verb} the state file `{self.path}`: {system_reason(error)}"
        return ConfigError(message, hint="make it accessible, or set TOOLSPEAK_STATE_FILE to another file")


def open_state(url: str) -> State:
    """Open state in a database, for which every method waits. Raises ConfigError or StoreError if that fails."""
    return _database_module().sql_key_value(url)


def cached_state(url: str) -> State:
    """Open state in a database, with a local copy that is synchronized in the background."""
    return _database_module().cached_key_value(url)


def open_memory(url: str) -> State:
    """Open memory shared by several processes: recent values are local, the others in a database."""
    return _database_module().write_behind_key_value(url)


def _database_module() -> Any:
    try:
        return import_module(_DATABASE_MODULE)
    except ImportError as error:
        hint = "run: pip install 'toolspeak[agent]' (or 'toolspeak[postgres]' for PostgreSQL)"
        raise ConfigError(f"a database requires the package `{error.name}`", hint=hint) from None


def _json(key: str, value: Any) -> str:
    """Encode a value as JSON. Raises UsageError if it is not JSON or too large."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the value for `{key}` cannot be encoded as JSON: {error}") from None
    if len(text) > _MAX_VALUE_CHARS:
        raise UsageError(f"the value for `{key}` is too large to store: {len(text)} characters")
    return text


def _deep_copy(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _deep_copy(each) if isinstance(each, dict | list) else each for name, each in fields.items()}
    if isinstance(value, list):
        return [_deep_copy(each) for each in cast("list[Any]", value)]
    return value


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    """Return a stamp that changes whenever the file is replaced or written."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def _expiry(now: float, ttl: float | None) -> float | None:
    return None if ttl is None else now + ttl


def _is_alive(end: float | None, now: float) -> bool:
    return end is None or now < end


class _StateFile(msgspec.Struct, frozen=True):
    entries: _Entries
    version: int = _VERSION


def _decode_entries(data: bytes) -> _Entries:
    """Decode a state file. Raises ValueError if the data is invalid."""
    try:
        file = msgspec.convert(json.loads(data), _StateFile)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if file.version > _VERSION:
        message = f"the state file was written by a newer version of toolspeak (format {file.version})"
        raise ConfigError(message, hint="upgrade toolspeak, or set TOOLSPEAK_STATE_FILE to another file")
    return file.entries
