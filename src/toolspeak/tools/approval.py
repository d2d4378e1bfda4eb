"""Approval of tool calls: by rules, by earlier consent in the same session, or by asking the user.

A call is tainted if untrusted content was in the model's context when the model made it. Allow rules and earlier
consent never cover a tainted call to a tool with side effects: the user is always asked. The `yes` option answers in
the user's place, but only for sandboxed calls. Consent is valid only in the session in which it was given.
"""

import asyncio
import inspect
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, TypeAlias

import msgspec

from ..core.types import JSONObject, Tool
from .approval_patterns import ApprovalPattern, parse_patterns
from .base import CallContext
from .threads import in_thread

#: `once`: allow this call; `call`: also identical calls in this session; `tool`: also every call to this tool in it.
ApprovalAnswer: TypeAlias = Literal["once", "call", "tool", "deny"]
_MAX_DECISIONS = 1000
#: Maximum number of sessions whose consent is kept. The oldest is dropped first; there, the user is asked again.
_MAX_SESSIONS = 1000


class Question(msgspec.Struct, frozen=True):
    """A request to the user to approve a tool call."""

    tool: Tool
    arguments: JSONObject
    reason: str
    call_id: str = ""
    tainted: bool = False
    sandboxed: bool = False
    #: The session of the call. The answer is valid only there.
    session: str = ""


class ApprovalDecision(msgspec.Struct, frozen=True):
    """Whether a call may run, and why."""

    allowed: bool
    reason: str
    #: What decided: no side effects, a rule, earlier consent, the `yes` option, the user, or the absence of a user.
    by: Literal["harmless", "rule", "memory", "yes", "person", "nobody"]
    name: str = ""
    call_id: str = ""
    tainted: bool = False
    firm: bool = False  # whether only the user could allow the call, regardless of rules and earlier consent


_ALLOWED_BY_YES = ApprovalDecision(True, "everything inside the sandbox was allowed beforehand", "yes")

#: Asks the user. True means `once`, False means `deny`. A synchronous function runs in a thread, so it may wait.
Ask: TypeAlias = Callable[[Question], ApprovalAnswer | bool | Awaitable[ApprovalAnswer | bool]]


class _Consent(msgspec.Struct):
    """The user's consent to later calls in one session."""

    tools: set[str] = set()
    calls: set[tuple[str, bytes]] = set()


class Approval:
    """Decides whether tool calls may run. Asks the user one question at a time, across all sessions."""

    def __init__(
        self,
        ask: Ask | None = None,
        *,
        allow: Iterable[str | ApprovalPattern] = (),
        deny: Iterable[str | ApprovalPattern] = (),
        yes: bool = False,
    ) -> None:
        self._ask = ask
        self._allow = parse_patterns(allow)
        self._deny = parse_patterns(deny)
        self._yes = yes
        self._consents: OrderedDict[str, _Consent] = OrderedDict()  # by session, most recent last
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self.decisions: deque[ApprovalDecision] = deque(maxlen=_MAX_DECISIONS)

    async def decide(
        self,
        tool: Tool,
        arguments: JSONObject,
        context: CallContext,
        *,
        sandboxed: bool = False,
        why: str = "",
        yes_counts: bool = False,
    ) -> ApprovalDecision:
        """Decide whether a call may run.

        `sandboxed`: the call cannot do harm outside its sandbox. `why`: if not empty, the user must be asked for this
        reason, regardless of rules and earlier consent. `yes_counts`: even then, `yes` approves sandboxed calls.
        """
        decision = self._decide_by_rules(tool, arguments, context, sandboxed, why, yes_counts)
        if decision is None:
            async with self._loop_lock():
                # The answer to the previous question may cover this call as well.
                decision = self._decide_by_rules(tool, arguments, context, sandboxed, why, yes_counts)
                decision = decision or await self._decide_by_person(tool, arguments, context, sandboxed, why)
        about = {"name": tool.name, "call_id": context.call_id, "tainted": context.tainted}
        decision = msgspec.structs.replace(decision, **about, firm=bool(why) and not yes_counts)
        self.decisions.append(decision)
        return decision

    def forget(self) -> None:
        """Drop all consent, in all sessions."""
        self._consents.clear()

    def _decide_by_rules(
        self, tool: Tool, arguments: JSONObject, context: CallContext, sandboxed: bool, why: str, yes_counts: bool
    ) -> ApprovalDecision | None:
        """Decide without asking the user. Returns None if the user must be asked."""
        for rule in self._deny:
            if rule.touches(tool, arguments):
                return ApprovalDecision(False, f"the rule `{rule}` forbids it", "rule")
        if why:
            return _ALLOWED_BY_YES if yes_counts and self._yes and sandboxed else None
        if not tool.side_effects:
            return ApprovalDecision(True, "the tool changes nothing", "harmless")
        if not context.tainted:
            if self._remembers(context.session, tool, arguments):
                return ApprovalDecision(True, "allowed earlier in this session", "memory")
            for rule in self._allow:
                if rule.covers(tool, arguments):
                    return ApprovalDecision(True, f"the rule `{rule}` allows it", "rule")
        return _ALLOWED_BY_YES if self._yes and sandboxed else None

    async def _decide_by_person(
        self, tool: Tool, arguments: JSONObject, context: CallContext, sandboxed: bool, why: str
    ) -> ApprovalDecision:
        reason = why or _question_reason(context, sandboxed, self._yes)
        if self._ask is None:
            return ApprovalDecision(False, f"{reason}, and no one can approve it", "nobody")
        question = Question(tool, arguments, reason, context.call_id, context.tainted, sandboxed, context.session)
        answer = await _ask_person(self._ask, question)
        if answer == "tool":
            self._consent_in(context.session).tools.add(tool.name)
        elif answer == "call":
            self._consent_in(context.session).calls.add(_key(tool, arguments))
        # Fail closed: any other answer is a denial.
        if answer is True or answer in ("once", "call", "tool"):
            return ApprovalDecision(True, "the user allowed it", "person")
        return ApprovalDecision(False, "the user said no", "person")

    def _remembers(self, session: str, tool: Tool, arguments: JSONObject) -> bool:
        consent = self._consents.get(session)
        return consent is not None and (tool.name in consent.tools or _key(tool, arguments) in consent.calls)

    def _consent_in(self, session: str) -> _Consent:
        """Return the consent given in a session, and mark the session as most recently used."""
        consent = self._consents.pop(session, None) or _Consent()
        self._consents[session] = consent
        if len(self._consents) > _MAX_SESSIONS:
            self._consents.popitem(last=False)
        return consent

    def _loop_lock(self) -> asyncio.Lock:
        """Return the lock for the running event loop. One `Approval` may serve several event loops in turn."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._lock[0] is not loop:
            self._lock = loop, asyncio.Lock()
        return self._lock[1]


def _question_reason(context: CallContext, sandboxed: bool, yes: bool) -> str:
    if context.tainted:
        return "untrusted content was in the model's context when it made the call, so no rule applies"
    if yes and not sandboxed:
        return "the call runs outside a sandbox, where `yes` does not count"
    return "the tool has side effects"


def _key(tool: Tool, arguments: JSONObject) -> tuple[str, bytes]:
    return tool.name, msgspec.json.encode(arguments, order="deterministic")


async def _ask_person(ask: Ask, question: Question) -> object:
    is_async = inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None))  # noqa: B004
    answer = ask(question) if is_async else await in_thread(lambda: ask(question))
    return await answer if inspect.isawaitable(answer) else answer
