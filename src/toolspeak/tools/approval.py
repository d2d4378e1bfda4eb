"""Who may say yes to a call: rules that a person wrote, what the person said before, or the person now.

A decision is a value that says why. A call of a tool with side effects that was made while untrusted content was
before the model is put to the person each time: no rule and no memory covers it. `yes` answers in the person's place,
and only for what runs in a sandbox. What a person said counts in the session of the call that was asked about, however
many sessions are under way at once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, TypeAlias, cast

import msgspec

from ..core.types import JSONObject, Tool
from .approval_patterns import Pattern, patterns
from .base import CallContext
from .threads import in_thread

#: Yes for this call; for this very call whenever it is made in this session; for every call of this tool; no.
Answer: TypeAlias = Literal["once", "call", "tool", "deny"]
#: Decisions that are remembered for whoever looks.
_MOST_DECISIONS = 1000
#: Sessions whose consent is remembered; in one that was forgotten the person is asked again.
_MOST_SESSIONS = 1000


class Question(msgspec.Struct, frozen=True):
    """What a person is asked."""

    tool: Tool
    arguments: JSONObject
    #: Why it is asked.
    reason: str
    call_id: str = ""
    tainted: bool = False
    sandboxed: bool = False
    #: The session in which the call is made, and in which the answer counts.
    session: str = ""


class Decision(msgspec.Struct, frozen=True):
    """Whether a call may run, and why."""

    allowed: bool
    reason: str
    #: What decided: that nothing is changed, a rule, the memory of this session, `yes`, a person, nobody.
    by: Literal["harmless", "rule", "memory", "yes", "person", "nobody"]
    name: str = ""
    call_id: str = ""
    tainted: bool = False
    #: Whether nobody but a person could say yes, whatever was allowed before.
    firm: bool = False


_BY_YES = Decision(True, "everything inside the sandbox was allowed beforehand", "yes")

Ask: TypeAlias = Callable[[Question], Answer | Awaitable[Answer]]


class _Consent:
    """What a person said in one session that counts for later calls in it."""

    def __init__(self) -> None:
        self.tools: set[str] = set()
        self.calls: set[tuple[str, bytes]] = set()


class Approval:
    """Decides about calls, for each session by what was said in it. One question at a time, whoever asks."""

    def __init__(
        self,
        ask: Ask | None = None,
        *,
        allow: Iterable[str | Pattern] = (),
        deny: Iterable[str | Pattern] = (),
        yes: bool = False,
    ) -> None:
        self._ask = ask
        self._allow = patterns(allow)
        self._deny = patterns(deny)
        self._yes = yes
        self._said: OrderedDict[str, _Consent] = OrderedDict()  # by session, the latest last
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        #: What was decided, oldest first.
        self.decisions: deque[Decision] = deque(maxlen=_MOST_DECISIONS)

    async def decide(
        self,
        tool: Tool,
        arguments: JSONObject,
        context: CallContext,
        *,
        sandboxed: bool = False,
        why: str = "",
        yes_counts: bool = False,
    ) -> Decision:
        """Whether this call may run.

        `sandboxed` says that it can do no harm outside its sandbox, `why` that the person has to be asked whatever
        was allowed before, and the reason; with `yes_counts`, `yes` still answers for what is sandboxed.
        """
        decision = self._by_rule(tool, arguments, context, sandboxed, why, yes_counts)
        if decision is None:
            async with self._alone():
                # The question before this one may have answered it as well.
                decision = self._by_rule(tool, arguments, context, sandboxed, why, yes_counts)
                decision = decision or await self._by_person(tool, arguments, context, sandboxed, why)
        firm = bool(why) and not yes_counts
        decision = msgspec.structs.replace(
            decision, name=tool.name, call_id=context.call_id, tainted=context.tainted, firm=firm
        )
        self.decisions.append(decision)
        return decision

    def forget(self) -> None:
        """What was said no longer counts, in any session."""
        self._said.clear()

    def _by_rule(
        self, tool: Tool, arguments: JSONObject, context: CallContext, sandboxed: bool, why: str, yes_counts: bool
    ) -> Decision | None:
        """What can be decided without asking."""
        for rule in self._deny:
            if rule.touches(tool, arguments):
                return Decision(False, f"the rule `{rule}` forbids it", "rule")
        if why:
            return _BY_YES if yes_counts and self._yes and sandboxed else None
        if not tool.side_effects:
            return Decision(True, "the tool changes nothing", "harmless")
        if not context.tainted:
            if self._remembers(context.session, tool, arguments):
                return Decision(True, "allowed earlier in this session", "memory")
            for rule in self._allow:
                if rule.covers(tool, arguments):
                    return Decision(True, f"the rule `{rule}` allows it", "rule")
        if self._yes and sandboxed:
            return _BY_YES
        return None

    async def _by_person(
        self, tool: Tool, arguments: JSONObject, context: CallContext, sandboxed: bool, why: str
    ) -> Decision:
        reason = why or _reason(context, sandboxed, self._yes)
        if self._ask is None:
            return Decision(False, f"{reason}, and nobody can be asked here", "nobody")
        question = Question(tool, arguments, reason, context.call_id, context.tainted, sandboxed, context.session)
        answer = await _asked(self._ask, question)
        if answer == "tool":
            self._consent(context.session).tools.add(tool.name)
        elif answer == "call":
            self._consent(context.session).calls.add(_key(tool, arguments))
        # Anything that is not clearly a yes is a no.
        if answer in ("once", "call", "tool"):
            return Decision(True, "the user allowed it", "person")
        return Decision(False, "the user said no", "person")

    def _remembers(self, session: str, tool: Tool, arguments: JSONObject) -> bool:
        said = self._said.get(session)
        return said is not None and (tool.name in said.tools or _key(tool, arguments) in said.calls)

    def _consent(self, session: str) -> _Consent:
        """What was said in a session, to be added to."""
        said = self._said.pop(session, None) or _Consent()
        self._said[session] = said
        if len(self._said) > _MOST_SESSIONS:
            self._said.popitem(last=False)
        return said

    def _alone(self) -> asyncio.Lock:
        """A lock of this event loop; an approval may see several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._lock[0] is not loop:
            self._lock = loop, asyncio.Lock()
        return self._lock[1]


def _reason(context: CallContext, sandboxed: bool, yes: bool) -> str:
    if context.tainted:
        return "the call was made with content before the model that nobody vouches for, so no rule counts"
    if yes and not sandboxed:
        return "the call runs outside a sandbox, where `yes` does not count"
    return "the tool has side effects"


def _key(tool: Tool, arguments: JSONObject) -> tuple[str, bytes]:
    return tool.name, msgspec.json.encode(arguments, order="deterministic")


async def _asked(ask: Ask, question: Question) -> Answer:
    """A function that blocks, as most that read a line do, must not stop everything else."""
    if inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None)):  # noqa: B004
        return await cast("Awaitable[Answer]", ask(question))

    def blocking() -> Answer | Awaitable[Answer]:
        return ask(question)

    answer = await in_thread(blocking)
    return await answer if inspect.isawaitable(answer) else answer
