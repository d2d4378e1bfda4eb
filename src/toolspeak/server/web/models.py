"""What the page shows of models: what is known of each, how that was learned, and a probe on demand.

A probe runs in the background, one at a time; how far it is can be asked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

import msgspec

from ...config import shown_url
from ...core.types import JSONObject, JSONValue, Request, Tool
from ...engine.planning.capabilities import Found, Profile
from ...engine.planning.probe_questions import Asked, Heard
from ...engine.planning.probes import MOST_REQUESTS
from ...engine.planning.strategy import Settings, plan
from ...errors import ToolspeakError, UsageError
from ...runtime.model_resolution import Reached
from ...runtime.probe_cache import Stored
from ...runtime.prober import Probes
from ..access.auth import Caller
from ..proxy.upstream_router import Gateway, Target

_log = logging.getLogger("toolspeak.server")
#: Models that are described at once. Brokers list thousands, and each is looked up.
_MOST_SHOWN = 200
_USUAL = Profile()
#: What a model is asked for when it is to be told how tools would reach it.
_ANY_TOOL = (Tool("any"),)


class _Busy(UsageError):
    """Something else is under way."""

    status = 409


class ModelsDesk:
    """The models of a gateway, as people see them."""

    def __init__(self, gateway: Callable[[], Gateway]) -> None:
        self._gateway = gateway
        self._task: asyncio.Task[None] | None = None
        #: How far the probe is that was begun last.
        self._progress: JSONObject = {}

    async def profiles(self, caller: Caller) -> JSONObject:
        """Every model that is known by name."""
        gateway = self._gateway()
        await gateway.refresh()
        names = list(gateway.models(caller))
        told = [self._profile(gateway, name, caller) for name in names[:_MOST_SHOWN]]
        return {"models": told, "left_out": max(0, len(names) - _MOST_SHOWN), "probe": self.progress()}

    def _profile(self, gateway: Gateway, name: str, caller: Caller) -> JSONValue:
        try:
            target = gateway.target(Request(name, ()), caller)
            found = target.maker.found()
        except ToolspeakError as error:
            return {"name": name, "error": str(error)}
        stored = gateway.probes.stored(target.maker.reached) if gateway.probes is not None else None
        return _told(name, target.maker.reached, found, target.settings, stored)

    # ---- probes

    def progress(self) -> JSONObject:
        """How far the probe is that was begun last."""
        return dict(self._progress)

    def probe(self, model: str, caller: Caller) -> JSONObject:
        """Begin to ask a model what it can do.

        Raises:
            UsageError: nothing can be asked, or another one is being asked.
        """
        gateway = self._gateway()
        probes = gateway.probes
        if probes is None:
            raise UsageError("nothing is probed here")
        if self._task is not None and not self._task.done():
            raise _Busy(f"`{self._progress['model']}` is being probed", hint="wait for its end")
        target = gateway.target(Request(model, ()), caller)
        self._progress = {
            "model": model,
            "began": time.time(),
            "running": True,
            "requests": 0,
            "most": MOST_REQUESTS,
            "last": "",
            "error": "",
        }
        self._task = asyncio.ensure_future(self._probe(gateway, probes, target))
        return dict(self._progress)

    async def _probe(self, gateway: Gateway, probes: Probes, target: Target) -> None:
        def heard(asked: Asked, heard: Heard, requests: int) -> None:
            about = f"{asked.trait} ({asked.dialect})" if asked.dialect else asked.trait
            self._progress |= {"requests": requests, "last": f"{about}: {heard.kind}"}

        try:
            with gateway.lease():
                stored = await probes.probe(target.maker.reached, refresh=True, progress=heard)
            if stored is None:
                self._progress["error"] = "it could not be asked; is it running, and is there a key for it?"
        except ToolspeakError as error:
            self._progress["error"] = str(error)
        except Exception:
            _log.exception("a probe failed")
            self._progress["error"] = "an error inside toolspeak; its log tells more"
        finally:
            self._progress["running"] = False

    async def close(self) -> None:
        """End what is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def latest(probes: Iterable[JSONObject]) -> JSONObject:
    """Of the probes that workers tell of, the one that was begun last; those of workers without one are empty."""
    begun = [each for each in probes if each]
    return max(begun, key=lambda each: float(each["began"])) if begun else {}


def _told(name: str, reached: Reached, found: Found, settings: Settings, stored: Stored | None) -> JSONObject:
    planned = plan(Request(name, (), _ANY_TOOL), found, settings)
    profile: JSONObject = msgspec.to_builtins(found.profile)
    usual: JSONObject = msgspec.to_builtins(_USUAL)
    return {
        "name": name,
        "provider": reached.provider,
        "base_url": shown_url(reached.base_url),
        "protocol": reached.protocol,
        "rule": found.rule,
        "why": found.why,
        "plan": planned.kind,
        "plan_why": planned.why,
        "mode": settings.mode,
        "profile": profile,
        #: What is not as it is for a model that nobody knows.
        "special": [field for field, value in profile.items() if value != usual[field]],
        "measured": stored.measured if stored is not None else 0,
        "findings": msgspec.to_builtins(stored.verdict.findings) if stored is not None else [],
        "learned": stored.learned_why if stored is not None else "",
    }
