"""Learn from use which profile a model needs, on any host and without extra requests.

After two turns in a row whose calls came in the same way, `auto` asks for calls in that way. What an upstream rejects
is avoided at once. Both expire. What a tenant's requests have shown applies to that tenant only, because a tenant can
make a model say anything; it applies to others if three tenants with toolspeak keys agree.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..core.text import counted
from ..core.types import JSONObject, Request
from ..engine.context.complaints import context_complaint
from ..engine.planning.capabilities import Learned
from ..engine.planning.strategy import OPEN_RULES, UNKNOWN_RULES, Plan, Settings
from ..engine.turn.actions import TurnOutcome
from ..engine.turn.upstream_limits import NO_NATIVE_TOOLS, refuses_system_role, window_limitation
from ..errors import ToolspeakError
from ..key_value import Clock, FileState, MemoryState, State
from ..upstreams.base import TENANTS_TO_AGREE
from .probe_cache import MAX_NAME_CHARS, ProbeTarget

if TYPE_CHECKING:
    from ..engine.turn.observations import Observation

_log = logging.getLogger("toolspeak.learning")

TURNS_TO_AGREE = 2  # number of turns in a row that must agree
#: Seconds after which an observation no longer counts, and after which a rejected feature is tried again.
_SECONDS_OBSERVED = 7 * 24 * 3600.0
_SECONDS_REFUSED = 24 * 3600.0
#: Seconds after which an unchanged observation is stored again, so that it does not expire.
_SECONDS_STORED = 3600.0
_RELOAD_SECONDS = 60.0  # seconds between reads of the store, which other processes may update
#: Maximum number of turns that send tools natively and in the prompt, and show nothing new.
_MAX_TRIALS = 8
#: Seconds after which they are sent both ways again, and also after a rejection if the model does not call as text.
_SECONDS_UNTRIED = 3600.0
#: Number of native answers with calls as text before a model is known to leak. A single one may be a quotation.
_LEAKS = 2
#: Maximum number of models, of tenants per model to store, and of those that a process remembers.
_MAX_TARGETS = 512
_MAX_TENANTS = 64
_MAX_PRESENT = 128
_PREFIX = "use/"
#: How the tenants of clients' own upstream keys begin. Anybody can invent such keys, so they do not count as agreeing.
_OWN_KEY = "own-"
_MAX_SEARCHED_CHARS = 65_536  # number of characters to search for calls leaked into text


class TenantUse(msgspec.Struct, frozen=True):
    """What the requests of one tenant have shown about a model."""

    #: The profile fields that `auto` uses, and the reason in words.
    fields: JSONObject = {}
    why: str = ""
    #: What the last turn has shown, and how many turns in a row have shown it.
    last: JSONObject = {}
    in_a_row: int = 0
    seen_at: float = 0.0  # Unix time of the last observation
    #: Profile fields without the features that the upstream rejected, the reason, and when it was.
    refused: JSONObject = {}
    refused_why: str = ""
    refused_at: float = 0.0
    #: Turns with a call, how many of them needed one request, and what the model did with the nonce.
    turns: int = 0
    first_try: int = 0
    marks: dict[str, int] = {}

    def observed(self, observation: Observation, now: float) -> TenantUse:
        in_a_row = self.in_a_row + 1 if observation.fields == self.last else 1
        use = msgspec.structs.replace(
            self, last=observation.fields, in_a_row=min(in_a_row, TURNS_TO_AGREE), seen_at=now
        )
        if use.in_a_row < TURNS_TO_AGREE:
            return use
        if observation.fields["capability"] != "none":  # an earlier rejection of tools was a fault, or is out of date
            refused = {name: value for name, value in use.refused.items() if name != "capability"}
            reasons = [why for why in use.refused_why.split("; ") if why != NO_NATIVE_TOOLS.why]
            use = msgspec.structs.replace(use, refused=refused, refused_why="; ".join(reasons))
        if use.fields == observation.fields:
            return use
        return msgspec.structs.replace(use, fields=observation.fields, why=observation.why)

    @property
    def latest(self) -> float:
        """Unix time of the last observation or rejection."""
        return max(self.seen_at, self.refused_at)

    def current(self, now: float) -> TenantUse:
        """Return what has not expired."""
        use = self
        if now > use.seen_at + _SECONDS_OBSERVED:
            use = msgspec.structs.replace(use, fields={}, why="", last={}, in_a_row=0)
        if now > use.refused_at + _SECONDS_REFUSED:
            use = msgspec.structs.replace(use, refused={}, refused_why="")
        return use


class ModelUse(msgspec.Struct, frozen=True):
    """What use has shown about a model, by tenant, as stored."""

    provider: str
    model: str
    base_url: str
    tenants: dict[str, TenantUse] = {}  # by hash of the tenant

    def agreed(self) -> tuple[JSONObject, str]:
        """Return the profile fields on which enough tenants agree, and the reason; empty if there are none."""
        uses = [use for name, use in self.tenants.items() if use.fields and not name.startswith(_OWN_KEY)]
        for use in uses[: len(uses) - TENANTS_TO_AGREE + 1]:
            count = sum(each.fields == use.fields for each in uses)
            if count >= TENANTS_TO_AGREE:
                return use.fields, f"{use.why} for {count} tenants"
        return {}, ""

    def summary(self) -> str:
        """Summarise the use of a model by all tenants in one line; empty if there was none.

        >>> ModelUse("", "m", "", {"": TenantUse(turns=9, first_try=8, marks={"copied": 8, "omitted": 1})}).summary()
        '9 turns with calls, 8 with one request; nonce: copied 8, omitted 1'
        """
        uses = self.tenants.values()
        turns, first_try = sum(use.turns for use in uses), sum(use.first_try for use in uses)
        marks = sum((Counter(use.marks) for use in uses), Counter[str]())
        counts = ", ".join(f"{mark} {count}" for mark, count in sorted(marks.items()))
        nonce = f"; nonce: {counts}" if counts else ""
        return f"{counted(turns, 'turn')} with calls, {first_try} with one request{nonce}" if turns else ""

    def learned(self, tenant: str) -> Learned | None:
        """Return what applies to a tenant, given by its hash; None if nothing was learned."""
        use = self.tenants.get(tenant, TenantUse())
        fields, why = (use.fields, use.why) if use.fields else self.agreed()
        reasons = [*([f"in earlier requests, {why}"] if why else []), *([use.refused_why] if use.refused_why else [])]
        return Learned({**fields, **use.refused}, "; ".join(reasons)) if reasons else None


class EndedTurn(NamedTuple):
    target: ProbeTarget
    tenant: str
    #: The rule that determined the model's capability.
    rule: str
    protocol: str
    request: Request
    plan: Plan
    settings: Settings
    outcome: TurnOutcome


class UseStore:
    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self.clock = clock
        #: Whether values are read from a database, which may be slow or gone.
        self.is_remote = not isinstance(state, FileState | MemoryState)

    def get(self, target: ProbeTarget) -> ModelUse:
        """Return what is known about a model, without what has expired."""
        value = self._state.get(_PREFIX + target.key)
        stored = ModelUse(*target.display_names)
        with suppress(msgspec.ValidationError):
            stored = stored if value is None else msgspec.convert(value, ModelUse)
        now = self.clock()
        return msgspec.structs.replace(stored, tenants={name: use.current(now) for name, use in stored.tenants.items()})

    def put(self, target: ProbeTarget, tenant: str, use: TenantUse) -> None:
        """Store what was learned from a tenant, given by its hash. The tenants seen last are kept."""
        stored = self.get(target)
        tenants = {**stored.tenants, tenant: use}
        latest = sorted(tenants.items(), key=lambda each: (not each[0].startswith(_OWN_KEY), each[1].latest))
        stored = msgspec.structs.replace(stored, tenants=dict(latest[-_MAX_TENANTS:]))
        self._state.put(_PREFIX + target.key, msgspec.to_builtins(stored), _SECONDS_OBSERVED)

    def forget(self, target: ProbeTarget) -> None:
        """Delete everything about a model."""
        self._state.delete(_PREFIX + target.key)


class _Tenant:
    """What this process knows about one model for one tenant, in addition to `TenantUse`."""

    learned: Learned | None = None
    is_current = False  # whether `learned` is up to date
    stored_at = 0.0
    unsaved: TenantUse | None = None  # counts that are stored later
    trials = 0
    tried_at = 0.0
    doubt = False  # whether the model does not call in the way that is known
    leaks = 0


class _Target:
    """What this process knows about one model. Dictionaries are keyed by the hash of the tenant."""

    def __init__(self, use: ModelUse) -> None:
        self.use = use
        self.until = 0.0  # when to read the store again
        self.tenants: OrderedDict[str, _Tenant] = OrderedDict()

    def tenant(self, key: str) -> _Tenant:
        """Return the state of a tenant. Those seen least recently are forgotten, clients' own keys before others."""
        tenant = self.tenants.get(key)
        if tenant is None:
            if len(self.tenants) >= _MAX_PRESENT:
                gone = next((name for name in self.tenants if name.startswith(_OWN_KEY)), next(iter(self.tenants)))
                del self.tenants[gone]
                others = {name: use for name, use in self.use.tenants.items() if name != gone}
                self.use = msgspec.structs.replace(self.use, tenants=others)
            tenant = self.tenants[key] = _Tenant()
        self.tenants.move_to_end(key)
        return tenant

    def changed(self) -> None:
        """Note that something else may apply to every tenant."""
        for tenant in self.tenants.values():
            tenant.is_current = False


class UseLearning:
    """Learns from the turns of all models of a client or server.

    Not thread-safe, but values are stored, and read from databases, by a thread in the background.
    """

    def __init__(self, store: UseStore) -> None:
        self._store = store
        self._targets: OrderedDict[ProbeTarget, _Target] = OrderedDict()
        self._thread: ThreadPoolExecutor | None = None
        self._process = 0  # whose thread that is: a forked worker does not inherit threads
        self._last: Future[None] | None = None  # what the thread does last
        self._loaded: deque[tuple[ProbeTarget, ModelUse]] = deque()  # values that were read, until they are merged

    def learned(self, target: ProbeTarget, tenant: str = "") -> Learned | None:
        """Return what was learned about a model, or None. The same object until something changes."""
        state, now = self._targets.get(target), self._store.clock()
        if state is None or now >= state.until:
            state = self._reload(target, now)
        while self._loaded:
            self._merge(*self._loaded.popleft())
        known = state.tenant(key := tenant_key(tenant))
        if not known.is_current:
            known.learned, known.is_current = state.use.learned(key), True
        return known.learned

    def use_of(self, target: ProbeTarget) -> ModelUse:
        """Return what use has shown about a model, for display."""
        self.learned(target)
        return self._targets[target].use

    def untried(self, target: ProbeTarget, tenant: str, rule: str) -> bool:
        """Whether to find out how a model calls, because nothing is known or what is known is in doubt."""
        state, key = self._targets.get(target), tenant_key(tenant)
        if not target.base_url or state is None:
            return False
        known = state.tenant(key)
        if rule not in UNKNOWN_RULES and not known.doubt:
            return False
        use, now = state.use.tenants.get(key, TenantUse()), self._store.clock()
        enough = known.trials >= _MAX_TRIALS and now < known.tried_at + _SECONDS_UNTRIED
        return not (enough or ("capability" in use.refused and now < use.refused_at + _SECONDS_UNTRIED))

    def _reload(self, target: ProbeTarget, now: float) -> _Target:
        """Read what other processes have learned; from a database in the background, for one of the next turns."""
        state = self._targets.setdefault(target, _Target(ModelUse(*target)))
        self._targets.move_to_end(target)
        if len(self._targets) > _MAX_TARGETS:
            self._targets.popitem(last=False)
        state.until = now + _RELOAD_SECONDS
        if self._store.is_remote:
            self._in_background(self._read, target)
        else:
            self._read(target)
        return state

    def _read(self, target: ProbeTarget) -> None:
        try:
            self._loaded.append((target, self._store.get(target)))
        except ToolspeakError as error:
            _log.warning("cannot read what was learned from use: %s", error)

    def _merge(self, target: ProbeTarget, stored: ModelUse) -> None:
        """Add what other processes have stored. What this process saw later takes precedence."""
        state, now = self._targets.get(target), self._store.clock()
        if state is None:
            return
        own = {name: use.current(now) for name, use in state.use.tenants.items() if name in state.tenants}
        newer = {name: use for name, use in own.items() if use.latest >= stored.tenants.get(name, TenantUse()).latest}
        use = msgspec.structs.replace(stored, tenants={**stored.tenants, **newer})
        if use != state.use:
            state.use = use
            state.changed()

    def turn_ended(self, turn: EndedTurn) -> None:
        if not turn.request.tools and turn.outcome.failure is None and not turn.outcome.limitations:
            return
        if any(note.code == "upstream_fallback" for each in turn.outcome.trace.attempts for note in each.notes):
            return  # another upstream answered
        self.learned(turn.target, turn.tenant)
        state, now, key = self._targets[turn.target], self._store.clock(), tenant_key(turn.tenant)
        before, tenant = state.use.tenants.get(key, TenantUse()), state.tenant(key)
        self._compare(turn, tenant, now)
        refused, why = _refused(turn)
        if not refused and self._leaks(turn, tenant):
            refused, why = {"leaks": True}, "native answers contained calls as text"
        use = before
        if refused:
            use = msgspec.structs.replace(use, refused={**use.refused, **refused}, refused_why=why, refused_at=now)
        use = self._observed(use, turn, now)
        if use != before:
            self._update(turn, state, before, use)

    def _observed(self, use: TenantUse, turn: EndedTurn, now: float) -> TenantUse:
        settings, trace = turn.settings, turn.outcome.trace
        # Models without an address, such as functions, cannot be distinguished.
        if not turn.target.base_url or settings.mode != "auto" or settings.plan or settings.chat_only:
            return use
        from ..engine.turn.observations import marks_in, observe  # slow: it imports every dialect

        if marks := marks_in(trace.attempts):
            use = msgspec.structs.replace(use, marks=dict(Counter(use.marks) + marks))
        observation = observe(turn.plan, trace, turn.protocol) if turn.rule in OPEN_RULES else None
        if observation is None:
            return use
        first_try = use.first_try + (turn.outcome.requests == 1)
        return msgspec.structs.replace(use.observed(observation, now), turns=use.turns + 1, first_try=first_try)

    def _compare(self, turn: EndedTurn, tenant: _Tenant, now: float) -> None:
        """Doubt what is known if a call came in another way, or did not come although the request concerns a tool."""
        first = next(iter(turn.outcome.trace.attempts), None)
        if first is None or turn.rule not in OPEN_RULES:
            return
        trace, known = turn.outcome.trace, turn.rule not in UNKNOWN_RULES
        native, has_tools = turn.plan.profile.capability != "none", bool(first.request.tools)
        came = not trace.why_no_call
        agrees = native == any(each.dialect == "native" for each in trace.attempts[-1].candidates)
        if first.phase == "both" and has_tools:
            paused = known and now >= tenant.tried_at + _SECONDS_UNTRIED
            tenant.trials = 0 if came and not agrees else 1 if paused else tenant.trials + 1
            tenant.tried_at = now
        if not known or turn.plan.kind not in ("inline", "native") or (native and not has_tools):
            return
        if came:
            tenant.doubt = not agrees
        elif turn.outcome.failure is None and _expects_call(turn.request):
            tenant.doubt = True

    def _leaks(self, turn: EndedTurn, tenant: _Tenant) -> bool:
        """Whether enough native answers without a call contained one as text."""
        plan, trace = turn.plan, turn.outcome.trace
        if plan.kind != "native" or plan.profile.leaks or not turn.settings.rescue or not trace.why_no_call:
            return False
        from ..parsing import parse

        text = trace.attempts[-1].raw[:_MAX_SEARCHED_CHARS]
        untrusted = tuple(message.text for message in turn.request.messages)
        tenant.leaks += bool(text and parse(text, turn.request.tools, untrusted=untrusted).calls)
        return tenant.leaks >= _LEAKS

    def _update(self, turn: EndedTurn, state: _Target, before: TenantUse, use: TenantUse) -> None:
        tenant = state.tenant(key := tenant_key(turn.tenant))
        state.use = msgspec.structs.replace(state.use, tenants={**state.use.tenants, key: use})
        changed = (use.fields, use.refused) != (before.fields, before.refused)
        if use.fields != before.fields:
            tenant.doubt = False
        if changed:
            state.changed()  # three tenants may agree now
            rejected = use.refused_at != before.refused_at
            why = use.refused_why if rejected else f"in earlier requests, {use.why}"
            _log.log(logging.WARNING if rejected else logging.INFO, "`%s`: %s", turn.target.model[:MAX_NAME_CHARS], why)
        changed = changed or (use.last, use.in_a_row) != (before.last, before.in_a_row)
        tenant.unsaved = use
        if changed or self._store.clock() > tenant.stored_at + _SECONDS_STORED:
            tenant.stored_at, tenant.unsaved = self._store.clock(), None
            self._write(turn.target, key, use)

    def _write(self, target: ProbeTarget, key: str, use: TenantUse) -> None:
        self._in_background(self._store.put, target, key, use).add_done_callback(_on_written)

    def _in_background(self, function: Callable[..., None], *arguments: object) -> Future[None]:
        """Read or write in a thread, because files and databases are slow."""
        if self._thread is None or self._process != os.getpid():
            self._thread, self._process = ThreadPoolExecutor(1, thread_name_prefix="toolspeak-learning"), os.getpid()
        try:
            self._last = self._thread.submit(function, *arguments)
        except RuntimeError:  # the interpreter is exiting, and threads take no more work
            self._last = Future()
            self._last.set_result(function(*arguments))
        return self._last

    def probed(self, target: ProbeTarget, fields: JSONObject) -> None:
        """Forget what a probe has measured, except native calls that came although the few of the probe did not.

        They stay in use for the tenants who got two in a row, and are tried once more for those who got one.
        """
        state = self._targets.pop(target, None)
        self._store.forget(target)
        if state is None or fields.get("capability") != "none":
            return
        native = {name: use for name, use in state.use.tenants.items() if use.last.get("capability", "none") != "none"}
        if native:
            kept = self._targets[target] = _Target(msgspec.structs.replace(state.use, tenants=native))
            kept.until = self._store.clock() + _RELOAD_SECONDS
            for name, use in native.items():
                kept.tenant(name).doubt = use.fields != use.last
                self._write(target, name, use)

    async def close(self) -> None:
        for target, state in self._targets.items():
            for key, tenant in state.tenants.items():
                if tenant.unsaved is not None:
                    self._write(target, key, tenant.unsaved)
        thread, self._thread = self._thread, None
        if thread is not None and self._last is not None and self._process == os.getpid():
            thread.shutdown(wait=False)  # another thread cannot wait for it while the interpreter is exiting
            await asyncio.wait([asyncio.wrap_future(self._last)])


def _on_written(write: Future[None]) -> None:
    if (error := write.exception()) is not None:
        _log.warning("cannot store what was learned, so it applies to this process only: %s", error)


def _expects_call(request: Request) -> bool:
    """Whether a request concerns a tool, and is not the result of one."""
    from ..engine.refusals.unknown_language import concerns_tool  # slow: it imports the rules of refusals

    last = request.messages[-1]
    own = last.role == "user" and not last.results and request.tool_choice.mode == "auto"
    return own and concerns_tool(last.text, request.tools)


@lru_cache(_MAX_TARGETS)
def tenant_key(tenant: str) -> str:
    """Return the hash under which a tenant is stored. It shows whether the tenant has a client's own key."""
    own = _OWN_KEY if tenant.startswith(_OWN_KEY) else ""
    return own + hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:16] if tenant else ""


def _refused(turn: EndedTurn) -> tuple[JSONObject, str]:
    """Return the profile fields that avoid what the upstream rejected in a turn, and the reason."""
    plan, outcome = turn.plan, turn.outcome
    refused: JSONObject = {}
    reasons: list[str] = []
    for limitation in outcome.limitations:
        refused |= limitation.profile_fields
        reasons += [limitation.why] if limitation.profile_fields else []
    if plan.emulation and plan.profile.system_role and refuses_system_role(outcome.failure):
        refused["system_role"] = False
        reasons.append("the upstream refused a system message")
    complaint = context_complaint(outcome.failure)
    if complaint is not None and complaint.window not in (0, plan.profile.context_window):
        limitation = window_limitation(complaint.window)
        refused |= limitation.profile_fields
        reasons.append(limitation.why)
    if refuses_tools(turn):
        refused |= NO_NATIVE_TOOLS.profile_fields
        reasons.append(NO_NATIVE_TOOLS.why)
    return refused, "; ".join(dict.fromkeys(reasons))


def refuses_tools(turn: EndedTurn) -> bool:
    """Whether the upstream rejected native tools, although it may choose whether to call them."""
    attempts = turn.outcome.trace.attempts
    rejected = [attempt.phase for attempt in attempts[:2]] == ["native", "inline"] and attempts[0].fault is None
    return rejected and turn.plan.kind == "native" and turn.request.tool_choice.mode == "auto"
