"""API keys for the server: create, list, revoke, and look up by hash.

A key has 256 random bits and is shown once; only its SHA-256 hash is stored. Slow or salted hashes protect passwords
that people choose and reuse. For random keys they would only add time to every request.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence

import msgspec

from ...engine.planning.capabilities import best_pattern
from ...errors import UsageError
from ...key_value import Clock, State

#: Prefix that distinguishes toolspeak keys from vendors' keys. Keys with this prefix are never forwarded upstream.
PREFIX = "tsk-"
_RANDOM_BYTES = 32
#: Maximum length of a key; longer strings are rejected without hashing.
_MAX_KEY_CHARS = 128
_MAX_NAME_CHARS = 64
_STATE_PREFIX = "key:"  # prefix of a key's entry in the state, followed by the hash
_MAX_CACHED = 1024  # maximum size of the lookup cache


class ApiKey(msgspec.Struct, frozen=True):
    """The stored description of a key, without the secret."""

    #: Tenant id: the first 16 digits of the hash, which reveal nothing about the secret.
    id: str
    name: str
    models: tuple[str, ...] = ()  # permitted models, with `*` as a wildcard; empty means all models
    #: Limits on requests per minute and concurrent requests; 0 means unlimited.
    rate: int = 0
    concurrency: int = 0
    #: Whether the key gives access to the requests of all callers.
    admin: bool = False
    created: float = 0.0

    def may_use(self, *names: str) -> bool:
        """Whether the key permits a model that has any of these names."""
        return not self.models or any(best_pattern(self.models, name) is not None for name in names)


class _StoredKey(msgspec.Struct, frozen=True):
    hash: str
    key: ApiKey


class ApiKeys:
    """The keys in a state store. Every lookup checks the store, so a revoked key stops working at once."""

    def __init__(self, state: State, clock: Clock = time.time) -> None:
        self._state = state
        self._clock = clock
        #: Returns an opaque version that changes whenever a key is created or revoked; None if unknown.
        self.version: Callable[[], object] = getattr(state, "version", lambda: None)
        #: Maps hashes to keys; valid for one version of the state.
        self._cache: dict[str, ApiKey] = {}
        self._cache_version: object = None

    def new(
        self, name: str, models: Sequence[str] = (), rate: int = 0, concurrency: int = 0, *, admin: bool = False
    ) -> tuple[ApiKey, str]:
        """Create a key. Return its description and the secret, which cannot be retrieved again.

        Raises UsageError if the name is invalid or taken.
        """
        if not name or len(name) > _MAX_NAME_CHARS or not name.isprintable():
            raise UsageError(f"a key name must have 1 to {_MAX_NAME_CHARS} printable characters")
        if rate < 0 or concurrency < 0:
            raise UsageError("a limit must not be negative", hint="omit the limit or use 0 for unlimited")
        if any(name in (key.name, key.id) for key in self.all()):
            raise UsageError(f"a key named `{name}` already exists", hint="revoke it first, or choose another name")
        text = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        digest = _digest(text)
        key = ApiKey(digest[:16], name, tuple(models), rate, concurrency, admin, self._clock())
        self._state.put(_STATE_PREFIX + digest, msgspec.to_builtins(_StoredKey(digest, key)))
        return key, text

    def all(self) -> tuple[ApiKey, ...]:
        """Return all keys, oldest first."""
        keys = [stored.key for item in self._state.keys(_STATE_PREFIX) if (stored := self._read(item))]
        return tuple(sorted(keys, key=lambda key: (key.created, key.id)))

    def revoke(self, name: str) -> ApiKey:
        """Delete the key with that name or id. Raises UsageError if there is none."""
        for item in self._state.keys(_STATE_PREFIX):
            stored = self._read(item)
            if stored is not None and name in (stored.key.name, stored.key.id):
                self._state.delete(item)
                return stored.key
        raise UsageError(f"unknown key `{name}`", hint="`toolspeak keys list` lists all keys")

    def find(self, text: str) -> ApiKey | None:
        if not text.startswith(PREFIX) or len(text) > _MAX_KEY_CHARS or not text.isascii():
            return None
        digest = _digest(text)
        version = self.version()
        if version is None or version != self._cache_version or len(self._cache) > _MAX_CACHED:
            self._cache, self._cache_version = {}, version
        key = self._cache.get(digest)
        if key is None:
            stored = self._read(_STATE_PREFIX + digest)
            # The lookup uses the hash, so its timing cannot reveal the secret. The entry must repeat the hash:
            # a file with the right name alone grants no access.
            if stored is not None and secrets.compare_digest(stored.hash, digest):
                key = self._cache[digest] = stored.key
        return key

    def _read(self, item: str) -> _StoredKey | None:
        try:
            return msgspec.convert(self._state.get(item), _StoredKey)
        except msgspec.ValidationError:
            return None  # revoked in the meantime, or not written by toolspeak


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
