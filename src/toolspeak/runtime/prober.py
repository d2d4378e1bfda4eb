"""Probe models: measure what they can do, so that `auto` mode can use it.

`measure` runs the probe battery. `ProbeScheduler` belongs to a client or server: it applies stored results before a
turn, and starts probes in the background after one. It never delays a request. `learning` learns from use.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias

from ..core.events import CallArgs, Event, Failure, Finish, ReasoningDelta, TextDelta
from ..core.types import Request
from ..engine.planning import server_hints
from ..engine.planning.capabilities import Capabilities, Profile
from ..engine.planning.probe_results import ProbeResult
from ..engine.planning.strategy import Settings
from ..engine.prompting.nonces import nonces_of
from ..errors import ToolspeakError, UpstreamError
from ..upstreams.base import Upstream, failure_of
from ..upstreams.http.address import ends_with_version, parse_base_url
from .learning import EndedTurn, UseLearning, UseStore, refuses_tools
from .model_resolution import ResolvedModel
from .probe_cache import MAX_NAME_CHARS, ProbeStore, ProbeTarget, StoredProbe, apply_result, is_due, probe_target

if TYPE_CHECKING:
    from ..engine.planning.probe_questions import ProbeAnswer, ProbeQuestion

_log = logging.getLogger("toolspeak.probe")

#: Seconds between reads of the stored results, which other processes may update.
_RELOAD_SECONDS = 60.0
#: Seconds to wait after a probe failed or the upstream contradicted its result. Doubled after each contradiction,
#: because an upstream may accept the probe's tool but never the user's.
_PAUSE_SECONDS = 600.0
_MAX_DOUBLINGS = 8
#: Maximum number of targets to remember. Requests can name any number of models.
_MAX_TARGETS = 512
#: Maximum number of queued probes. Further models are queued with a later request.
_MAX_QUEUED = 32
#: Timeout for one answer in seconds. The model may have to be loaded first, or reason slowly.
_ANSWER_SECONDS = 300.0
#: Timeout in seconds for a request outside the chat protocol, such as one for server metadata.
_ASIDE_SECONDS = 3.0
#: Maximum length of one answer, including reasoning. The request sets a lower token limit, but some upstreams
#: ignore it.
_MAX_ANSWER_CHARS = 32_000
#: Maximum length of plain text. A model that has not made a call by then is rambling, which takes minutes on a slow
#: machine.
_MAX_TEXT_CHARS = 1200

ProbeProgress: TypeAlias = "Callable[[ProbeQuestion, ProbeAnswer, int], None]"


async def measure(
    resolved: ResolvedModel, profile: Profile, *, full: bool = False, progress: ProbeProgress | None = None
) -> ProbeResult:
    """Send all probe questions, one after another, and return the result."""
    # Imported here, because most turns do not trigger a probe.
    from ..engine.planning.probe_questions import ProbeRoute
    from ..engine.planning.probes import ProbeRun

    signs = await _signs(resolved)
    nonce = nonces_of(secrets.token_bytes(16), "probe", ())(0)
    probing = ProbeRun(ProbeRoute(resolved.model, resolved.protocol), profile, nonce, signs, full=full)
    while (question := probing.pending) is not None:
        observation = probing.submit(await _answer(resolved.upstream, question.request))
        if progress is not None:
            progress(question, observation, probing.requests)
    # Only now the model is certainly loaded.
    loaded = server_hints.loaded_request(signs.server) if signs is not None and not probing.unreachable else None
    if loaded is not None:
        context = server_hints.parse_loaded_context(await _aside(resolved, loaded), resolved.model)
        if context is not None:
            probing.record_context(context)
    return probing.result()


async def _signs(resolved: ResolvedModel) -> server_hints.ServerHints | None:
    """Return what the server reports about itself at endpoints outside the chat protocol, if anything."""
    if not callable(getattr(resolved.upstream, "aside", None)):
        return None
    for request in server_hints.hint_requests(resolved.protocol, resolved.provider, resolved.model):
        signs = server_hints.parse_server_hints(request.server, await _aside(resolved, request), resolved.model)
        if signs is not None:
            return signs
    return None


async def _aside(resolved: ResolvedModel, request: server_hints.HintRequest) -> bytes:
    """Send a request for metadata. Returns the body of the response, which is empty if the request failed."""
    host: Any = resolved.upstream
    base = parse_base_url(resolved.base_url)
    # These endpoints are outside the `/v1` path at the end of an OpenAI base URL.
    root = base.path.rpartition("/")[0] if ends_with_version(base) else base.path
    try:
        return await host.aside(
            f"{root}{request.path}", request.payload, seconds=_ASIDE_SECONDS, most=server_hints.MAX_HINT_BYTES
        )
    except UpstreamError:
        return b""


async def _answer(upstream: Upstream, request: Request) -> Sequence[Event]:
    """Return the events of one answer. If the request fails, the last event is a failure."""
    events: list[Event] = []
    text, size = "", 0
    try:
        async with asyncio.timeout(_ANSWER_SECONDS), aclosing(upstream.open(request)) as batches:
            async for batch in batches:
                events += batch
                text += "".join(event.text for event in batch if isinstance(event, TextDelta))
                size += sum(map(_length, batch))
                # Text that starts with a tag may be reasoning or a call.
                if size > _MAX_ANSWER_CHARS or (len(text) > _MAX_TEXT_CHARS and not text.lstrip().startswith("<")):
                    return [*events, Finish("length")]
    except TimeoutError:
        events.append(Failure(f"no answer within {_ANSWER_SECONDS:g} s", "timeout"))
    except UpstreamError as error:
        events.append(failure_of(error))
    except ToolspeakError as error:  # the protocol cannot express the request
        events.append(Failure(str(error), status=error.status))
    return events


def _length(event: Event) -> int:
    if isinstance(event, CallArgs):
        return len(event.fragment)
    return len(event.text) if isinstance(event, TextDelta | ReasoningDelta) else 0


class _TargetState:
    stored: StoredProbe | None = None
    until = 0.0  # when to read the store again
    pause = 0.0  # when to probe again at the earliest
    refused = 0
    contradicted = False  # whether the upstream has rejected what the probe found


class ProbeScheduler:
    """Applies probe results and schedules probes for all models of a client or server."""

    def __init__(self, capabilities: Capabilities, store: ProbeStore) -> None:
        self._capabilities = capabilities
        self._store = store
        self.learning = UseLearning(UseStore(store.state, store.clock))
        self._states: OrderedDict[ProbeTarget, _TargetState] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        #: Queue of probes. The first one is running.
        self._waiting: dict[ProbeTarget, tuple[ResolvedModel, _TargetState]] = {}

    def load(self, resolved: ResolvedModel) -> None:
        """Apply the stored result. Call this before each turn."""
        target = probe_target(resolved)
        state = self._states.get(target)
        now = self._store.clock()
        if state is not None and now < state.until:
            return
        self._reload(target, self._remember(target), now)

    def _remember(self, target: ProbeTarget) -> _TargetState:
        state = self._states.setdefault(target, _TargetState())
        self._states.move_to_end(target)
        if len(self._states) > _MAX_TARGETS:
            self._states.popitem(last=False)
        return state

    def _reload(self, target: ProbeTarget, state: _TargetState, now: float) -> None:
        state.until = now + _RELOAD_SECONDS
        try:
            stored = self._store.get(target)
        except ToolspeakError as error:
            _log.warning("cannot read stored probe results: %s", error)
            return
        if stored != state.stored:
            state.stored = stored
            apply_result(self._capabilities, target, stored)

    def turn_ended(self, resolved: ResolvedModel, turn: EndedTurn) -> None:
        """Note whether a turn contradicts the last result, and start a probe if one is due."""
        if turn.plan.kind == "native" and refuses_tools(turn):
            state = self._remember(probe_target(resolved))
            pause = _PAUSE_SECONDS * 2 ** min(state.refused, _MAX_DOUBLINGS)
            state.pause = max(state.pause, self._store.clock() + pause)
            state.refused += 1
            state.contradicted = True
        if turn.request.tools:
            self.begin(resolved, turn.settings)

    def begin(self, resolved: ResolvedModel, settings: Settings) -> bool:
        """Queue a background probe if one is due. Returns whether it was queued."""
        if settings.mode != "auto" or settings.chat_only:  # these settings ignore probe results
            return False
        target = probe_target(resolved)
        state, now = self._remember(target), self._store.clock()
        fresh = state.stored is not None and state.stored.is_fresh(now) and not state.contradicted
        if fresh or now < state.pause or target in self._waiting or len(self._waiting) >= _MAX_QUEUED:
            return False
        if not is_due(settings, self._capabilities.find(*target), target):
            return False
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no running event loop
            return False
        self._waiting[target] = (resolved, state)
        if not self._busy():
            self._task = loop.create_task(self._work(), name="toolspeak-probe")
        return True

    def _busy(self) -> bool:
        return self._task is not None and not self._task.done() and not self._task.get_loop().is_closed()

    async def _work(self) -> None:
        """Run the queued probes one after another, so a local server is not overloaded."""
        try:
            while self._waiting:
                target, (resolved, state) = next(iter(self._waiting.items()))
                state.pause = self._store.clock() + _PAUSE_SECONDS
                try:
                    release = await asyncio.to_thread(self._store.claim, target)
                    if release is not None:  # no other process is probing
                        try:
                            await self._measure(resolved, state)
                        finally:
                            release()
                except ToolspeakError as error:
                    _log.warning("probe of `%s` failed: %s", target.model[:MAX_NAME_CHARS], error)
                self._waiting.pop(target, None)
        finally:
            self._waiting.clear()

    async def _measure(
        self, resolved: ResolvedModel, state: _TargetState, progress: ProbeProgress | None = None
    ) -> None:
        target = probe_target(resolved)
        verdict = await measure(resolved, self._capabilities.find(*target).profile, progress=progress)
        if verdict.unreachable:
            _log.warning("cannot probe `%s`: %s", target.model[:MAX_NAME_CHARS], verdict.unreachable)
            return
        state.stored = await asyncio.to_thread(self._store.record_measurement, target, verdict)
        state.until = self._store.clock() + _RELOAD_SECONDS
        state.contradicted = False
        self.learning.probed(target, verdict.fields)
        apply_result(self._capabilities, target, state.stored)
        _log.info("probed `%s` with %d requests", target.model[:MAX_NAME_CHARS], verdict.requests)

    def stored(self, resolved: ResolvedModel) -> StoredProbe | None:
        """Return the stored result for a model, without probing it."""
        self.load(resolved)
        return self._remember(probe_target(resolved)).stored

    async def probe(
        self, resolved: ResolvedModel, *, refresh: bool = False, progress: ProbeProgress | None = None
    ) -> StoredProbe | None:
        """Return a fresh stored result, or wait for a running probe, or start one. None if the model is unreachable."""
        target = probe_target(resolved)
        while self._task is not None and self._busy():
            await asyncio.wait([self._task])
        self._reload(target, state := self._remember(target), self._store.clock())
        if refresh or state.stored is None or not state.stored.is_fresh(self._store.clock()):
            state.pause = self._store.clock() + _PAUSE_SECONDS
            await self._measure(resolved, state, progress)
        return state.stored

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.learning.close()
