"""The keys that a server gives out: made, listed, revoked, and found again by their hash.

A key is 256 random bits, shown once. Only its SHA-256 is kept. Slow or salted hashes protect secrets that people think
up and reuse; nobody can guess 256 random bits, and no two keys are alike, so neither would add anything here but time
on every request.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence

import msgspec

from ...engine.planning.capabilities import matching
from ...errors import UsageError
from ...key_value import Clock, State

#: Every key begins like this. So it is told from a vendor's key, and never sent on to one.
PREFIX = "tsk-"
#: Bytes of randomness in a key.
_RANDOM_BYTES = 32
#: Nobody's key is longer; what is, need not be hashed.
_LONGEST_KEY = 128
_LONGEST_NAME = 64
#: Where keys stand in the state, by hash.
_PLACE = "key:"
#: Keys that need not be looked up again while nothing has changed.
_MOST_FOUND = 1024


class Key(msgspec.Struct, frozen=True):
    """What is known of a key. The key itself is not."""

    #: Stands for its holder wherever something is kept apart. The head of the hash: it tells nothing about the key.
    id: str
    name: str
    #: The models that its holder may use, `*` for any text; empty: all.
    models: tuple[str, ...] = ()
    #: Requests a minute, and requests at a time; 0 for no limit.
    rate: int = 0
    concurrency: int = 0
    #: May also see what others asked.
    admin: bool = False
    created: float = 0.0

    def may_use(self, *names: str) -> bool:
        """Whether its holder may use a model that goes by these names."""
        return not self.models or any(matching(self.models, name) is not None for name in names)


class _Kept(msgspec.Struct, frozen=True):
    hash: str
    key: Key


class Keys:
    """The keys in a state. Every look is a look at the state, so that a revoked key is of no use at once."""

    def __init__(self, state: State, clock: Clock = time.time) -> None:
        self._state = state
        self._clock = clock
        #: Something else whenever a key may have been made or revoked; None while nobody knows.
        self.version: Callable[[], object] = getattr(state, "version", _unknown)
        #: By their hashes, the keys that were found in a version of the state, where it can tell its version.
        self._found: dict[str, Key] = {}
        self._found_in: object = None

    def new(
        self, name: str, models: Sequence[str] = (), rate: int = 0, concurrency: int = 0, *, admin: bool = False
    ) -> tuple[Key, str]:
        """A new key: what is known of it, and the key itself, which cannot be had again.

        Raises:
            UsageError: the name cannot be used, or is.
        """
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(f"a name has 1 to {_LONGEST_NAME} printable characters")
        if rate < 0 or concurrency < 0:
            raise UsageError("a limit cannot be below 0", hint="leave it out, or use 0, for no limit")
        if any(name in (key.name, key.id) for key in self.all()):
            raise UsageError(f"there is a key `{name}` already", hint="revoke it first, or use another name")
        text = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        digest = _digest(text)
        key = Key(digest[:16], name, tuple(models), rate, concurrency, admin, self._clock())
        self._state.put(_PLACE + digest, msgspec.to_builtins(_Kept(digest, key)))
        return key, text

    def all(self) -> tuple[Key, ...]:
        """Every key, the oldest first."""
        found = [kept.key for place in self._state.keys(_PLACE) if (kept := self._kept(place))]
        return tuple(sorted(found, key=lambda key: (key.created, key.id)))

    def revoke(self, name: str) -> Key:
        """End the key of that name or id.

        Raises:
            UsageError: there is none.
        """
        for place in self._state.keys(_PLACE):
            kept = self._kept(place)
            if kept is not None and name in (kept.key.name, kept.key.id):
                self._state.delete(place)
                return kept.key
        raise UsageError(f"there is no key `{name}`", hint="`toolspeak keys list` shows them")

    def find(self, text: str) -> Key | None:
        """The key that a text is; None when it is none."""
        if not text.startswith(PREFIX) or len(text) > _LONGEST_KEY or not text.isascii():
            return None
        digest = _digest(text)
        version = self.version()
        if version is None or version != self._found_in or len(self._found) > _MOST_FOUND:
            self._found, self._found_in = {}, version
        found = self._found.get(digest)
        if found is None:
            kept = self._kept(_PLACE + digest)
            # Found by hash, so time tells at most about hashes; compared once more, so that the place alone grants
            # nothing.
            if kept is not None and secrets.compare_digest(kept.hash, digest):
                found = self._found[digest] = kept.key
        return found

    def _kept(self, place: str) -> _Kept | None:
        try:
            return msgspec.convert(self._state.get(place), _Kept)
        except msgspec.ValidationError:
            return None  # ended meanwhile, or nothing that we wrote: no key


def _unknown() -> None:
    """The version of a state that tells none."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
