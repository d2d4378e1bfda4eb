"""API keys of the server: create, list, revoke, look up by hash.

A key is 256 random bits and shown once; only its SHA-256 is stored. Slow or salted hashes protect passwords that people
choose and reuse. They would add nothing for random keys but time on every request.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence

import msgspec

from ...engine.planning.capabilities import best_pattern
from ...errors import UsageError
from ...key_value import Clock, State

#: Prefix of every key. It distinguishes ours from a vendor's key, so ours is never forwarded.
PREFIX = "tsk-"
_RANDOM_BYTES = 32
#: Longer texts cannot be keys and are not hashed.
_MAX_KEY_CHARS = 128
_MAX_NAME_CHARS = 64
#: Prefix of keys in the state; the hash follows.
_STATE_PREFIX = "key:"
#: Bound of the cache of looked-up keys.
_MAX_CACHED = 1024


class ApiKey(msgspec.Struct, frozen=True):
    """What is stored about a key; not the key itself."""

    #: The tenant id of its holder: the head of the hash, which reveals nothing about the key.
    id: str
    name: str
    #: The models that it permits, with `*` as wildcard; empty: all.
    models: tuple[str, ...] = ()
    #: Requests per minute, and concurrent requests; 0: unlimited.
    rate: int = 0
    concurrency: int = 0
    #: Whether it gives access to what others asked.
    admin: bool = False
    created: float = 0.0

    def may_use(self, *names: str) -> bool:
        """Whether the key permits a model with any of these names."""
        return not self.models or any(best_pattern(self.models, name) is not None for name in names)


class _StoredKey(msgspec.Struct, frozen=True):
    hash: str
    key: ApiKey


class ApiKeys:
    """The keys in a state. Every lookup checks the state, so a revoked key stops working at once."""

    def __init__(self, state: State, clock: Clock = time.time) -> None:
        self._state = state
        self._clock = clock
        #: Opaque version; differs after any key was created or revoked. None: unknown.
        self.version: Callable[[], object] = getattr(state, "version", _no_version)
        #: Hash -> key, valid for one version of the state.
        self._cache: dict[str, ApiKey] = {}
        self._cache_version: object = None

    def new(
        self, name: str, models: Sequence[str] = (), rate: int = 0, concurrency: int = 0, *, admin: bool = False
    ) -> tuple[ApiKey, str]:
        """Create a key; returns its description and the secret, which cannot be retrieved again.

        Raises:
            UsageError: the name is invalid or taken.
        """
        if not name or len(name) > _MAX_NAME_CHARS or not name.isprintable():
            raise UsageError(f"the name of a key must have 1 to {_MAX_NAME_CHARS} printable characters")
        if rate < 0 or concurrency < 0:
            raise UsageError("a limit must not be negative", hint="omit it, or use 0, for no limit")
        if any(name in (key.name, key.id) for key in self.all()):
            raise UsageError(f"a key `{name}` exists already", hint="revoke it first, or choose another name")
        text = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        digest = _digest(text)
        key = ApiKey(digest[:16], name, tuple(models), rate, concurrency, admin, self._clock())
        self._state.put(_STATE_PREFIX + digest, msgspec.to_builtins(_StoredKey(digest, key)))
        return key, text

    def all(self) -> tuple[ApiKey, ...]:
        """Every key, the oldest first."""
        keys = [stored.key for item in self._state.keys(_STATE_PREFIX) if (stored := self._read(item))]
        return tuple(sorted(keys, key=lambda key: (key.created, key.id)))

    def revoke(self, name: str) -> ApiKey:
        """Delete the key with that name or id.

        Raises:
            UsageError: there is none.
        """
        for item in self._state.keys(_STATE_PREFIX):
            stored = self._read(item)
            if stored is not None and name in (stored.key.name, stored.key.id):
                self._state.delete(item)
                return stored.key
        raise UsageError(f"there is no key `{name}`", hint="`toolspeak keys list` lists all keys")

    def find(self, text: str) -> ApiKey | None:
        """The key with this secret, or None."""
        if not text.startswith(PREFIX) or len(text) > _MAX_KEY_CHARS or not text.isascii():
            return None
        digest = _digest(text)
        version = self.version()
        if version is None or version != self._cache_version or len(self._cache) > _MAX_CACHED:
            self._cache, self._cache_version = {}, version
        key = self._cache.get(digest)
        if key is None:
            stored = self._read(_STATE_PREFIX + digest)
            # The lookup is by hash, so its timing reveals hashes at most. Compared once more, so that a file name
            # alone grants nothing.
            if stored is not None and secrets.compare_digest(stored.hash, digest):
                key = self._cache[digest] = stored.key
        return key

    def _read(self, item: str) -> _StoredKey | None:
        try:
            return msgspec.convert(self._state.get(item), _StoredKey)
        except msgspec.ValidationError:
            return None  # revoked meanwhile, or not written by toolspeak


def _no_version() -> None:
    """Stands in for the version of a state that has none."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
