"""The models view of the web page: model profiles, their sources, and probes on demand.

One probe at a time runs in the background. Its progress can be queried.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

import msgspec

from ...config import redacted_url
from ...core.types import JSONObject, JSONValue, Request, Tool
from ...engine.planning.capabilities import Profile
from ...engine.planning.probe_questions import ProbeAnswer, ProbeQuestion
from ...engine.planning.probes import MAX_REQUESTS
from ...engine.planning.strategy import plan
from ...errors import ToolspeakError, UsageError
from ...runtime.prober import ProbeScheduler
from ..access.auth import Caller
from ..proxy.upstream_router import Gateway, Target

_log = logging.getLogger("toolspeak.server")
#: Maximum number of models in the list. Brokers list thousands, and each needs a lookup.
_MAX_MODELS = 200
_DEFAULT_PROFILE: JSONObject = msgspec.to_builtins(Profile())
_ANY_TOOL = (Tool("any"),)  # a dummy tool, to find out how tools would be passed to a model


class _Busy(UsageError):
    status = 409


class ModelsApi:
    def __init__(self, gateway: Callable[[], Gateway]) -> None:
        self._gateway = gateway
        self._task: asyncio.Task[None] | None = None
        self._progress: JSONObject = {}

    async def profiles(self, caller: Caller) -> JSONObject:
        """List the models whose names are known, with their profiles."""
        gateway = self._gateway()
        await gateway.refresh()
        names = list(gateway.models(caller))
        profiles = [self._profile(gateway, name, caller) for name in names[:_MAX_MODELS]]
        return {"models": profiles, "left_out": max(0, len(names) - _MAX_MODELS), "probe": self.progress()}

    def _profile(self, gateway: Gateway, name: str, caller: Caller) -> JSONValue:
        try:
            target = gateway.target(Request(name, ()), caller)
            lookup = target.maker.look_up(caller.tenant)
        except ToolspeakError as error:
            return {"name": name, "error": str(error)}
        resolved, settings, use = target.maker.resolved, target.settings, target.maker.use
        stored = gateway.probes.stored(resolved) if gateway.probes is not None else None
        planned = plan(Request(name, (), _ANY_TOOL), lookup, settings)
        profile: JSONObject = msgspec.to_builtins(lookup.profile)
        findings: JSONValue = msgspec.to_builtins(stored.verdict.findings) if stored is not None else []
        place = {"name": name, "upstream": target.upstream, "protocol": resolved.protocol}
        place |= {"provider": resolved.provider, "base_url": redacted_url(resolved.base_url)}
        reasons = {"rule": lookup.rule, "why": lookup.why, "plan": planned.kind, "plan_why": planned.why}
        # Fields that differ from the profile of an unknown model.
        special = [field for field, value in profile.items() if value != _DEFAULT_PROFILE[field]]
        planning = {"mode": settings.mode, "dialect": settings.dialect, "profile": profile, "special": special}
        probed: JSONObject = {"measured": stored.measured if stored is not None else 0, "findings": findings}
        return {**place, **reasons, **planning, **probed, "learned": use.summary() if use is not None else ""}

    def progress(self) -> JSONObject:
        return dict(self._progress)

    def probe(self, model: str, caller: Caller) -> JSONObject:
        """Start probing a model. Raises UsageError if probing is disabled or another probe is running."""
        gateway = self._gateway()
        probes = gateway.probes
        if probes is None:
            raise UsageError("probing is disabled on this server")
        if self._task is not None and not self._task.done():
            raise _Busy(f"a probe of `{self._progress['model']}` is running", hint="wait until it has finished")
        target = gateway.target(Request(model, ()), caller)
        self._progress = {"model": model, "began": time.time(), "running": True}
        self._progress |= {"requests": 0, "most": MAX_REQUESTS, "last": "", "error": ""}
        self._task = asyncio.ensure_future(self._probe(gateway, probes, target))
        return dict(self._progress)

    async def _probe(self, gateway: Gateway, probes: ProbeScheduler, target: Target) -> None:
        def report(question: ProbeQuestion, answer: ProbeAnswer, requests: int) -> None:
            about = f"{question.trait} ({question.dialect})" if question.dialect else question.trait
            self._progress |= {"requests": requests, "last": f"{about}: {answer.kind}"}

        try:
            with gateway.lease():
                stored = await probes.probe(target.maker.resolved, refresh=True, progress=report)
            if stored is None:
                reason = "the model did not respond: check that it is running and that its key is valid"
                self._progress["error"] = reason
        except ToolspeakError as error:
            self._progress["error"] = str(error)
        except Exception:
            _log.exception("a probe failed")
            self._progress["error"] = "internal error in toolspeak; see its log"
        finally:
            self._progress["running"] = False

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def latest(probes: Iterable[JSONObject]) -> JSONObject:
    """Return the most recently started probe. Workers without a probe report an empty object."""
    return max((each for each in probes if each), key=lambda each: float(each["began"]), default=JSONObject())
