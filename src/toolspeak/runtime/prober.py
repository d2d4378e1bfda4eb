"""Asks a model what it can do, and lets `auto` use the answer.

`measure` carries the battery of `core.probing` out. `Probes` is what clients and servers hold: it hands stored results
to the capabilities before a turn, starts a probe in the background behind one, and takes note where an upstream
contradicts what is known. Nothing here stands in the way of a request.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ..core.events import CallArgs, Event, Failure, Finish, ReasoningDelta, TextDelta
from ..core.types import JSONObject, Request
from ..engine.planning.capabilities import Capabilities, Profile
from ..engine.planning.probe_signs import MOST_BYTES, Signs, asides_for, signs_in
from ..engine.planning.probe_verdicts import Verdict
from ..engine.planning.strategy import Plan, Settings
from ..engine.prompting.nonces import nonces_of
from ..engine.turn.actions import Outcome
from ..engine.turn.upstream_limits import refuses_system
from ..errors import ToolspeakError, UpstreamError
from ..upstreams.base import Upstream, failure_of
from ..upstreams.http.address import address, ends_with_version
from .model_resolution import Reached
from .probe_cache import LONGEST_NAME, Place, ProbeStore, Stored, apply, is_due, place_of

if TYPE_CHECKING:
    from ..engine.planning.probe_questions import Asked, Heard

_log = logging.getLogger("toolspeak.probe")

#: Seconds after which the state is looked at again: another process may have probed.
_LOOK = 60.0
#: Seconds before an upstream that could not be probed, or has contradicted a probe, is probed again; twice as many
#: after each further contradiction, so that one that takes the probe's tool but not the user's is left in peace.
_PAUSE = 600.0
_MOST_DOUBLED = 8
#: Places that are remembered. They are named by requests, so they are bounded.
_MOST_PLACES = 512
#: Probes that wait for their turn; beyond that the next request of a model is soon enough.
_MOST_WAITING = 32
#: Seconds for one answer: a model may have to be loaded first, and may think on a slow machine.
_PATIENCE = 300.0
#: Seconds for a question beside the protocol.
_ASIDE_PATIENCE = 3.0
#: Characters of one answer that are read, its thinking included. The limit in the request is lower; not every upstream
#: keeps it.
_MOST_READ = 32_000
#: Characters of plain talk that are read: whoever has not called by then rambles, and on a slow machine for minutes.
_MOST_SAID = 1200
#: Characters of an answer that are searched for a call that leaked.
_MOST_SEARCHED = 65_536
#: Leaked calls that show that a model leaks: one may have been a quotation.
_LEAKS = 2

Progress: TypeAlias = "Callable[[Asked, Heard, int], None]"


# ---- asking


class _Host(Protocol):
    async def aside(self, target: str, payload: bytes = b"", *, seconds: float, most: int) -> bytes: ...


async def measure(
    reached: Reached, profile: Profile, *, full: bool = False, progress: Progress | None = None
) -> Verdict:
    """Ask a model everything, one question after the other."""
    # Imported here: most turns are followed by no probe.
    from ..engine.planning.probe_questions import Way
    from ..engine.planning.probes import Probing

    signs = await _signs(reached)
    nonce = nonces_of(secrets.token_bytes(16), "probe", ())(0)
    probing = Probing(Way(reached.model, reached.protocol), profile, nonce, signs, full=full)
    while (asked := probing.asked) is not None:
        heard = probing.hear(await _answer(reached.upstream, asked.request))
        if progress is not None:
            progress(asked, heard, probing.requests)
    return probing.verdict()


async def _signs(reached: Reached) -> Signs | None:
    """What the server says beside the protocol, if it is one that does."""
    if not callable(getattr(reached.upstream, "aside", None)):
        return None
    host: _Host = reached.upstream  # type: ignore[assignment]
    where = address(reached.base_url)
    # The base URL of the OpenAI protocol ends in a version; what we look for stands beside it.
    root = where.path.rpartition("/")[0] if ends_with_version(where) else where.path
    for aside in asides_for(reached.protocol, reached.provider, reached.model):
        with suppress(UpstreamError):
            said = await host.aside(f"{root}{aside.path}", aside.payload, seconds=_ASIDE_PATIENCE, most=MOST_BYTES)
            found = signs_in(aside.server, said)
            if found is not None:
                return found
    return None


async def _answer(upstream: Upstream, request: Request) -> Sequence[Event]:
    """The events of one answer; a failure is the last of them."""
    events: list[Event] = []
    said, read = "", 0
    try:
        async with asyncio.timeout(_PATIENCE), aclosing(upstream.open(request)) as batches:
            async for batch in batches:
                events += batch
                said += "".join(event.text for event in batch if isinstance(event, TextDelta))
                read += sum(map(_length, batch))
                # What begins with a tag may be thinking, or a call.
                if read > _MOST_READ or (len(said) > _MOST_SAID and not said.lstrip().startswith("<")):
                    return [*events, Finish("length")]
    except TimeoutError:
        events.append(Failure(f"no answer within {_PATIENCE:g} s", "timeout"))
    except UpstreamError as error:
        events.append(failure_of(error))
    except ToolspeakError as error:  # such a request cannot be written in that protocol
        events.append(Failure(str(error), status=error.status))
    return events


def _length(event: Event) -> int:
    if isinstance(event, CallArgs):
        return len(event.fragment)
    return len(event.text) if isinstance(event, TextDelta | ReasoningDelta) else 0


# ---- in use


class _Seen:
    """What is remembered of a place."""

    def __init__(self) -> None:
        self.stored: Stored | None = None
        #: When to look at the state again, and when it may be probed again.
        self.until = 0.0
        self.pause = 0.0
        self.leaked = 0
        self.refused = 0


class Probes:
    """What a client or a server knows of probes: one for all its models."""

    def __init__(self, known: Capabilities, store: ProbeStore) -> None:
        self._known = known
        self._store = store
        self._seen: OrderedDict[Place, _Seen] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        #: What is to be probed; the first is under way.
        self._waiting: dict[Place, tuple[Reached, _Seen]] = {}

    def look(self, reached: Reached) -> None:
        """Before a turn: take what is stored."""
        place = place_of(reached)
        seen = self._seen.get(place)
        now = self._store.clock()
        if seen is not None and now < seen.until:
            return
        self._take(place, self._remember(place), now)

    def _remember(self, place: Place) -> _Seen:
        seen = self._seen.setdefault(place, _Seen())
        self._seen.move_to_end(place)
        if len(self._seen) > _MOST_PLACES:
            self._seen.popitem(last=False)
        return seen

    def _take(self, place: Place, seen: _Seen, now: float) -> None:
        seen.until = now + _LOOK
        try:
            stored = self._store.get(place)
        except ToolspeakError as error:
            _log.warning("results of probes cannot be read: %s", error)
            return
        if stored != seen.stored:
            seen.stored = stored
            apply(self._known, place, stored)

    # ---- behind a turn

    def ended(self, reached: Reached, request: Request, plan: Plan, settings: Settings, outcome: Outcome) -> None:
        """Behind a turn: learn from it, and begin a probe where one is due."""
        if outcome.conceded or outcome.failure is not None or plan.kind == "native":
            self._contradicted(place_of(reached), request, plan, settings, outcome)
        if request.tools:
            self.begin(reached, settings)

    def _contradicted(self, place: Place, request: Request, plan: Plan, settings: Settings, outcome: Outcome) -> None:
        for conceded in outcome.conceded:
            self._learn(place, conceded.fields, conceded.why)
        if plan.emulation and plan.profile.system_role and refuses_system(outcome.failure):
            self._learn(place, {"system_role": False}, "the upstream refused a system message")
        if plan.kind != "native":
            return
        phases = [attempt.phase for attempt in outcome.trace.attempts[:2]]
        if phases == ["native", "inline"] and request.tool_choice.mode == "auto":
            seen = self._remember(place)
            seen.pause = max(seen.pause, self._store.clock() + _PAUSE * 2 ** min(seen.refused, _MOST_DOUBLED))
            seen.refused += 1
            self._learn(place, {"capability": "none"}, "the upstream refused a request with tools")
        elif (
            not plan.profile.leaks and settings.rescue and outcome.trace.why_no_call and self._leaked(request, outcome)
        ):
            seen = self._remember(place)
            seen.leaked += 1
            if seen.leaked >= _LEAKS:
                self._learn(place, {"leaks": True}, "native answers held calls as text")

    def _leaked(self, request: Request, outcome: Outcome) -> bool:
        from ..parsing import parse

        said = outcome.trace.attempts[-1].raw[:_MOST_SEARCHED]
        untrusted = tuple(message.text for message in request.messages)
        return bool(said) and bool(parse(said, request.tools, untrusted=untrusted).calls)

    def _learn(self, place: Place, fields: JSONObject, why: str) -> None:
        seen = self._remember(place)
        try:
            seen.stored = self._store.learned(place, fields, why)
        except ToolspeakError as error:
            _log.warning("what was learned is kept in this process only: %s", error)
        _log.warning("`%s`: %s", place.model[:LONGEST_NAME], why)
        self._known.learn(*place, fields, why)

    # ---- in the background

    def begin(self, reached: Reached, settings: Settings) -> bool:
        """Probe a model in the background, where that is due; whether it is."""
        if settings.mode != "auto" or settings.chat_only:  # nothing that is found out would count
            return False
        place = place_of(reached)
        seen, now = self._remember(place), self._store.clock()
        fresh = seen.stored is not None and seen.stored.is_fresh(now)
        if fresh or now < seen.pause or place in self._waiting or len(self._waiting) >= _MOST_WAITING:
            return False
        if not is_due(settings, self._known.find(*place), place):
            return False
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no loop runs here: the next turn comes by one
            return False
        self._waiting[place] = (reached, seen)
        if not self._busy():
            self._task = loop.create_task(self._work(), name="toolspeak-probe")
        return True

    def _busy(self) -> bool:
        return self._task is not None and not self._task.done() and not self._task.get_loop().is_closed()

    async def _work(self) -> None:
        """One probe after the other: a local server has one machine to answer on."""
        try:
            while self._waiting:
                place, (reached, seen) = next(iter(self._waiting.items()))
                seen.pause = self._store.clock() + _PAUSE
                try:
                    await self._claimed(reached, seen)
                except ToolspeakError as error:
                    _log.warning("a probe of `%s` failed: %s", place.model[:LONGEST_NAME], error)
                self._waiting.pop(place, None)
        finally:
            self._waiting.clear()

    async def _claimed(self, reached: Reached, seen: _Seen) -> None:
        release = await asyncio.to_thread(self._store.claim, place_of(reached))
        if release is None:  # another process has begun one
            return
        try:
            await self._measured(reached, seen)
        finally:
            release()

    async def _measured(self, reached: Reached, seen: _Seen, progress: Progress | None = None) -> None:
        place = place_of(reached)
        verdict = await measure(reached, self._known.find(*place).profile, progress=progress)
        if verdict.unreachable:
            _log.warning("`%s` could not be probed: %s", place.model[:LONGEST_NAME], verdict.unreachable)
            return
        seen.stored = await asyncio.to_thread(self._store.measured, place, verdict)
        seen.until = self._store.clock() + _LOOK
        seen.leaked = 0
        apply(self._known, place, seen.stored)
        _log.info("`%s` was probed with %d requests", place.model[:LONGEST_NAME], verdict.requests)

    def stored(self, reached: Reached) -> Stored | None:
        """What is stored of a model, without asking it."""
        self.look(reached)
        return self._remember(place_of(reached)).stored

    async def probe(
        self, reached: Reached, *, refresh: bool = False, progress: Progress | None = None
    ) -> Stored | None:
        """What a probe finds: a fresh result, the one under way, or a new one. None: it cannot be reached."""
        place = place_of(reached)
        while self._task is not None and self._busy():
            await asyncio.wait([self._task])
        self._take(place, seen := self._remember(place), self._store.clock())
        if refresh or seen.stored is None or not seen.stored.is_fresh(self._store.clock()):
            seen.pause = self._store.clock() + _PAUSE
            await self._measured(reached, seen, progress)
        return seen.stored

    async def close(self) -> None:
        """End what is under way."""
        task, self._task = self._task, None
        if task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
