"""Stores probe results until they expire, and applies them to the capability table.

A result applies only to the model and base URL that were probed (or to the provider, if there is no base URL).
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from ..core.text import REPLACEMENT, printable
from ..engine.planning.capabilities import Capabilities, ProfileMatch
from ..engine.planning.probe_results import VERSION, ProbeResult
from ..engine.planning.strategy import Settings
from ..errors import ToolspeakError
from ..key_value import Clock, State
from ..upstreams.http.address import parse_base_url
from .model_resolution import ResolvedModel

#: Seconds after which to probe again. A server may be restarted with another model under the same name, and a weekly
#: probe is cheap.
FRESH_SECONDS = 7 * 24 * 3600.0
#: Seconds for which to store a result. A stale result applies until a new one replaces it.
_RETENTION = 4 * FRESH_SECONDS
#: Maximum length of stored names, which are only displayed. The storage key is a hash of the full names.
MAX_NAME_CHARS = 256
#: Duration of the lease on a probe in seconds. When it expires, another process may probe.
_LEASE_SECONDS = 1800.0

_CACHED_HOSTS = 256  # size of the cache of loopback checks

_PREFIX = "probe/"
#: Prefixes of rules set by the user. Probe results never override them.
_USER_RULES = ("override.", "config.", "env.")

ProbePolicy = Literal["first-use", "startup", "off"]


class ProbeTarget(NamedTuple):
    provider: str
    model: str
    base_url: str

    @property
    def key(self) -> str:
        """Storage key. It is a hash, because requests can contain arbitrary names.

        With a base URL the provider is ignored: several provider names may refer to the same service.
        """
        where = self.base_url.strip().rstrip("/").lower()
        text = "\0".join(("" if where else self.provider, where, self.model))
        return _PREFIX + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]

    @property
    def display_names(self) -> tuple[str, str, str]:
        """Provider, model and base URL, safe and short enough to be stored for display."""
        provider, model, base_url = (printable(name[:MAX_NAME_CHARS], REPLACEMENT) for name in self)
        return provider, model, base_url


class StoredProbe(msgspec.Struct, frozen=True):
    provider: str
    model: str
    base_url: str
    verdict: ProbeResult
    measured: float = 0.0  # Unix time of the probe

    def is_fresh(self, now: float) -> bool:
        """Whether the result is recent, so no new probe is needed."""
        return self.measured <= now < self.measured + FRESH_SECONDS


def probe_target(reached: ResolvedModel) -> ProbeTarget:
    return ProbeTarget(reached.provider, reached.model, reached.base_url)


@lru_cache(maxsize=_CACHED_HOSTS)
def is_loopback(base_url: str) -> bool:
    """Whether the upstream is on this machine, so requests cost no money."""
    import ipaddress  # slow to import

    try:
        host = parse_base_url(base_url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (ToolspeakError, ValueError):
        return False


def probe_policy(settings: Settings, base_url: str) -> ProbePolicy:
    return settings.probe or ("first-use" if is_loopback(base_url) else "off")


def is_due(settings: Settings, lookup: ProfileMatch, target: ProbeTarget) -> bool:
    """Whether a turn with this model should trigger a probe if there is no fresh result."""
    enabled = settings.mode == "auto" and not settings.chat_only and probe_policy(settings, target.base_url) != "off"
    return enabled and not lookup.rule.startswith(_USER_RULES)


class ProbeStore:
    """Storage of probe results in `state`. `also` is a second source of results, which is never written."""

    def __init__(self, state: State, also: State | None = None, clock: Clock = time.time) -> None:
        self.state = state
        self._also = also
        self.clock = clock

    def get(self, target: ProbeTarget) -> StoredProbe | None:
        """Return the latest result for a model; None if it is missing or unreadable."""
        results = [_decode(state.get(target.key)) for state in (self.state, self._also) if state is not None]
        valid = [each for each in results if each is not None]
        return max(valid, key=lambda each: each.measured, default=None)

    def put(self, target: ProbeTarget, stored: StoredProbe) -> None:
        self.state.put(target.key, msgspec.to_builtins(stored), _RETENTION)

    def record_measurement(self, target: ProbeTarget, verdict: ProbeResult) -> StoredProbe:
        stored = StoredProbe(*target.display_names, verdict, self.clock())
        self.put(target, stored)
        return stored

    def forget(self, target: ProbeTarget) -> bool:
        """Delete a result. Returns whether it existed."""
        existed = self.get(target) is not None
        self.state.delete(target.key)
        return existed

    def all(self) -> list[StoredProbe]:
        """Return all results, sorted by name."""
        results = (_decode(self.state.get(key)) for key in self.state.keys(_PREFIX))
        return sorted((each for each in results if each is not None), key=lambda each: (each.provider, each.model))

    def claim(self, target: ProbeTarget) -> Callable[[], None] | None:
        """Take the lease on a probe. Returns the function that releases it, or None if another process holds it."""
        key, token = f"probing/{target.key}", secrets.token_hex(8)
        if self.state.setdefault(key, token, _LEASE_SECONDS) != token:
            return None
        return lambda: self.state.delete(key)


def _decode(value: object) -> StoredProbe | None:
    """Decode a stored result. Returns None if it is invalid or from another version."""
    with suppress(msgspec.ValidationError):
        stored = msgspec.convert(value, StoredProbe)
        return stored if stored.verdict.version == VERSION else None
    return None


def apply_result(capabilities: Capabilities, target: ProbeTarget, stored: StoredProbe | None) -> None:
    """Apply a result to the capability table, or reset the model's entry if there is none."""
    capabilities.forget(*target)
    if stored is None:
        return
    with suppress(ToolspeakError):  # a stored result may contain unknown fields
        day = time.strftime("%Y-%m-%d", time.gmtime(stored.measured))
        why = f"measured by a probe at this base URL on {day}"
        capabilities.set_measured(*target, stored.verdict.fields, why)
