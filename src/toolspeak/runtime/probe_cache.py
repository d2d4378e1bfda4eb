"""What probes have found, kept in the state with an expiry, and handed to the capabilities.

A result is kept under a key made of base URL (without one, provider) and model: it holds for that very place.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from ..core.text import UNSEEN, printable
from ..core.types import JSONObject
from ..engine.planning.capabilities import Capabilities, Found
from ..engine.planning.probe_verdicts import VERSION, Verdict
from ..engine.planning.strategy import Settings
from ..errors import ToolspeakError
from ..key_value import Clock, State
from ..upstreams.http.address import address
from .model_resolution import Reached

#: Seconds that a result counts as fresh. Servers are restarted with another model behind the same name; a week is
#: longer than most keep one, and a battery once a week costs nobody anything.
FRESH = 7 * 24 * 3600.0
#: Seconds that a result is kept. One that is no longer fresh still counts until a new one is there.
_KEPT = 4 * FRESH
#: Seconds that a contradiction counts where nothing was measured: then the upstream is believed again.
_BELIEVED = 24 * 3600.0
#: Longer names are cut where they are kept for people; the key knows the whole.
LONGEST_NAME = 256
#: Seconds that one process has for a probe before another may begin one.
_LEASE = 1800.0

#: Base URLs of which it is remembered whether they are on this machine.
_KEPT_HOSTS = 256

_PREFIX = "probe/"
#: Rules by which a user has decided: nothing that is measured counts against them.
_DECIDED = ("override.", "config.", "env.")

When = Literal["first-use", "startup", "off"]


class Place(NamedTuple):
    """A model at an upstream."""

    provider: str
    model: str
    base_url: str

    @property
    def key(self) -> str:
        """What it is kept under: names come from outside, so nothing of them stands in it.

        What answers at a base URL is the same whatever its provider is called here.
        """
        where = self.base_url.strip().rstrip("/").lower()
        text = "\0".join(("" if where else self.provider, where, self.model))
        return _PREFIX + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


class Stored(msgspec.Struct, frozen=True):
    """A result as it is kept."""

    provider: str
    model: str
    base_url: str
    verdict: Verdict
    #: When it was measured, in seconds since the epoch; 0: never, only learned in use.
    measured: float = 0.0
    #: What the upstream's behaviour has shown since.
    learned: JSONObject = {}
    learned_why: str = ""

    def is_fresh(self, now: float) -> bool:
        """Whether it need not be measured again: it is young, and nothing has contradicted it."""
        return self.measured <= now < self.measured + FRESH and "capability" not in self.learned


def place_of(reached: Reached) -> Place:
    """Where a model is."""
    return Place(reached.provider, reached.model, reached.base_url)


@lru_cache(maxsize=_KEPT_HOSTS)
def is_loopback(base_url: str) -> bool:
    """Whether the upstream is on this machine, so that asking it costs no money."""
    import ipaddress  # needed for the first turn only

    try:
        host = address(base_url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (ToolspeakError, ValueError):
        return False


def when(settings: Settings, base_url: str) -> When:
    """When a model there is probed."""
    return settings.probe or ("first-use" if is_loopback(base_url) else "off")


def is_due(settings: Settings, found: Found, place: Place) -> bool:
    """Whether a turn of this model gives reason to probe it, if nothing is known yet."""
    wanted = settings.mode == "auto" and not settings.chat_only and when(settings, place.base_url) != "off"
    return wanted and not found.rule.startswith(_DECIDED)


class ProbeStore:
    """Results, kept with an expiry.

    Args:
        state: where they are kept.
        also: where else they are looked for; nothing is written there.
    """

    def __init__(self, state: State, also: State | None = None, clock: Clock = time.time) -> None:
        self._state = state
        self._also = also
        self.clock = clock

    def get(self, place: Place) -> Stored | None:
        """The result for a model; None where there is none, or none that can be understood."""
        found = [_stored(state.get(place.key)) for state in (self._state, self._also) if state is not None]
        known = [each for each in found if each is not None]
        return max(known, key=lambda each: each.measured, default=None)

    def put(self, place: Place, stored: Stored) -> None:
        """Keep a result."""
        kept = _KEPT if stored.measured else _BELIEVED
        self._state.put(place.key, msgspec.to_builtins(stored), kept)

    def measured(self, place: Place, verdict: Verdict) -> Stored:
        """Keep what was just measured; what was learned before counts no more."""
        stored = _at(place, verdict, self.clock())
        self.put(place, stored)
        return stored

    def learned(self, place: Place, fields: JSONObject, why: str) -> Stored:
        """Keep what the upstream's behaviour has shown."""
        stored = self.get(place) or _at(place, Verdict())
        stored = msgspec.structs.replace(stored, learned={**stored.learned, **fields}, learned_why=why)
        self.put(place, stored)
        return stored

    def forget(self, place: Place) -> bool:
        """Forget a result; whether there was one."""
        there = self.get(place) is not None
        self._state.delete(place.key)
        return there

    def all(self) -> list[Stored]:
        """Every result, by name."""
        found = (_stored(self._state.get(key)) for key in self._state.keys(_PREFIX))
        return sorted((each for each in found if each is not None), key=lambda each: (each.provider, each.model))

    def claim(self, place: Place) -> Callable[[], None] | None:
        """Begin a probe that no other process has begun; what ends it."""
        key, token = f"probing/{place.key}", secrets.token_hex(8)
        if self._state.setdefault(key, token, _LEASE) != token:
            return None
        return lambda: self._state.delete(key)


def _at(place: Place, verdict: Verdict, measured: float = 0.0) -> Stored:
    provider, model, base_url = (printable(name[:LONGEST_NAME], UNSEEN) for name in place)
    return Stored(provider, model, base_url, verdict, measured)


def _stored(value: object) -> Stored | None:
    """What is kept, if it is what it should be: the file may have been written by anybody and any version."""
    with suppress(msgspec.ValidationError):
        stored = msgspec.convert(value, Stored)
        return stored if stored.verdict.version == VERSION else None
    return None


def apply(known: Capabilities, place: Place, stored: Stored | None) -> None:
    """Let what is known follow a result, or be as it was without one."""
    known.forget(*place)
    if stored is None:
        return
    with suppress(ToolspeakError):  # fields that no profile has, of a file that somebody else wrote
        if stored.measured:
            day = time.strftime("%Y-%m-%d", time.gmtime(stored.measured))
            known.learn(*place, stored.verdict.fields, f"a probe at this base URL found so on {day}", "probe")
        if stored.learned:
            known.learn(*place, stored.learned, stored.learned_why, "learned")
