"""The proxy's own loop: a row of turns that looks like one, with the server's tools run in between.

Its text flows to the client as it comes. Calls of the server's tools are run here and never shown; calls of the
client's own tools end the row and are handed over. Closing the iterator cancels whatever runs.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple, Protocol

import msgspec

from ....agent.calls import Toolbox, carried_out, in_order, seconds_for
from ....core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    FinishReason,
    Noted,
    OpaqueSeen,
    TextDelta,
    UsageSeen,
)
from ....core.types import JSONObject, Note, Opaque, Request, Tool, ToolCall, ToolChoice, ToolResult, is_object
from ....engine.planning.strategy import Settings
from ....engine.rounds.loop import Action, Ask, Execute, Executed, Finished, Heard, Limits, Planned, Ran, Rounds
from ....engine.turn.actions import Outcome
from ....engine.turn.trace import AttemptTrace, TracedReply
from ....errors import UsageError
from ....runtime.turn import AnyTurn, Told
from ....runtime.turn_factory import MadeTurn, TurnMaker
from ....tools.base import CallContext, Executable, call_key
from ....tools.wrappers import cut_short, only
from .memory import LoopMemory

_log = logging.getLogger("toolspeak.server")

#: What the client sees at the end at the earliest: calls, which may be the server's, and what frames an answer.
_HELD = (CallStart, CallArgs, CallEnd, UsageSeen, Finish, OpaqueSeen, Failure)
#: Seconds after which a source that lacked something is asked again.
_ASK_AGAIN = 30.0
#: Between what was said before a tool ran and what is said after it.
_BREAK = "\n\n"


class Source(Protocol):
    """Where tools come from that have to be asked for, such as MCP servers."""

    #: What was left out the last time, and why.
    notes: list[Note]

    async def start(self) -> list[Executable]:
        """Its tools."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


class LoopTools:
    """What the server runs for those whom the configuration allows it: a `gateway.Loop`.

    Args:
        tools: each can be run without asking anybody, or answers with an error.
        limits: when to stop.
        tool_seconds: how long one call may take.
        sources: where more of them come from, asked when the first request comes.
        clock: any that does not jump.
    """

    def __init__(
        self,
        tools: Iterable[Executable],
        limits: Limits | None = None,
        tool_seconds: float | None = 60.0,
        sources: Sequence[Source] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tools = tuple(tools)
        Toolbox(self._tools)  # names that clash are told at the start
        self.limits = limits or Limits()
        self.tool_seconds = tool_seconds
        self._sources = sources
        self._found: dict[Source, tuple[Executable, ...]] = {}
        self._ask_again: dict[Source, float] = dict.fromkeys(sources, 0.0)
        self._asking = asyncio.Lock()
        self._clock = clock

    async def prepare(self) -> None:
        """Have the tools of all sources; one that lacked something is asked again after a while."""
        if not any(self._clock() >= again for again in self._ask_again.values()):
            return
        async with self._asking:
            for source in [each for each, again in self._ask_again.items() if self._clock() >= again]:
                self._found[source] = tuple(await source.start())
                self._ask_again.pop(source)
                if source.notes:
                    self._ask_again[source] = self._clock() + _ASK_AGAIN
                    for note in source.notes:
                        _log.warning("%s: %s", note.code, note.detail)

    def offered(self) -> tuple[Tool, ...]:
        """The tools, once they are ready."""
        return tuple(each.tool for each in self._all())

    def _all(self) -> list[Executable]:
        return [*self._tools, *(tool for tools in self._found.values() for tool in tools)]

    def make(
        self,
        maker: TurnMaker,
        asked: Request,
        settings: Settings,
        tenant: str,
        seen: tuple[Note, ...],
        chosen: frozenset[str] | None = None,
    ) -> MadeTurn:
        """A request carried out with these tools, or those chosen, beside the client's own.

        Raises:
            UsageError: a tool of the client is named like one of these, one that was chosen is none of these, or
                several answers are wanted.
        """
        request, notes = maker.conversation.recall(tenant, asked, settings)
        toolbox = self._toolbox(chosen)
        _check(request, toolbox)
        memory = LoopMemory(maker.conversation, tenant)
        messages, lost = memory.put_back(request.messages)
        request = msgspec.structs.replace(request, messages=messages)
        # A call is run only once it is known to be whole and to fit, and is told from text that others wrote.
        checked = msgspec.structs.replace(settings, stream_calls="checked", marks="nonce")
        turn = LoopTurn(_Row(maker, request, checked, tenant), self, toolbox, memory, (*seen, *notes, *lost))
        turn.tells = chosen is not None
        return MadeTurn(turn, request, turn.first.plan, toolbox.tools)

    def _toolbox(self, chosen: frozenset[str] | None) -> Toolbox:
        """The tools for one answer; what is too long for the model is kept for this answer, and nobody else's."""
        return Toolbox(cut_short(self._all() if chosen is None else only(self._all(), *sorted(chosen))))

    async def close(self) -> None:
        """End what the tools hold open."""
        for source in self._sources:
            await source.close()


def _check(request: Request, toolbox: Toolbox) -> None:
    own = {tool.name for tool in toolbox.tools}
    for tool in request.tools:
        if tool.name in own:  # nobody could say who is to run it
            hint = "rename yours, or use a key for which the server runs no tools"
            raise UsageError(f"the tool `{tool.name:.80}` is one that the server itself runs", hint=hint)


class _Row(NamedTuple):
    """What all turns of a row have in common."""

    maker: TurnMaker
    request: Request
    settings: Settings
    tenant: str


class LoopTurn:
    """Iterate over `batches()` for the events; `outcome` is there with the last of them."""

    def __init__(
        self, row: _Row, tools: LoopTools, toolbox: Toolbox, memory: LoopMemory, seen: tuple[Note, ...]
    ) -> None:
        self._row = row
        self._tools = tools
        self._toolbox = toolbox
        self._memory = memory
        self._name = secrets.token_hex(16)  # an id of a call may be another's in another answer
        self._rounds = Rounds(
            row.request.messages,
            toolbox.tools,
            limits=tools.limits,
            tainted=toolbox.untrusted,
            theirs=row.request.tools,
            now=time.monotonic(),
        )
        self._begin = self._rounds.start()
        #: The first turn of the row: it says by which plan all of them go.
        self.first = self._made(self._begin, seen)
        self._said = False  # the client has seen text
        self._breaks: str = ""  # that came behind it, and may lead nowhere
        self._paused = False  # and a tool has run since
        self._last: TracedReply | None = None
        self._outcomes: list[Outcome] = []
        self._current: AnyTurn | None = None
        self.provider = self.first.turn.provider
        self.asked = 0
        self.waited = 0.0
        self.first_token = 0.0
        self.held = 0.0
        self.tooled = 0.0
        self.outcome: Outcome | None = None
        #: Whether the client is told of the calls that are run here; and what it has not been told yet.
        self.tells = False
        self.untold: list[JSONObject] = []

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        """The requests whose answers are over, in all turns."""
        before = tuple(attempt for outcome in self._outcomes for attempt in outcome.trace.attempts)
        return before if self._current is None else before + self._current.answered

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events of all turns, as they become certain."""
        action: Action = self._begin
        made: MadeTurn | None = self.first
        ran = False
        while not isinstance(action, Finished):
            if isinstance(action, Ask):
                made = made or self._made(action)
                self._current = made.turn
                told = Told(made.turn, self._row.maker.reached.protocol)
                async with aclosing(made.turn.batches()) as batches:
                    async for batch in batches:
                        told.add(batch)
                        if shown := self._shown(batch):
                            yield shown
                action = self._rounds.feed(self._heard(told.reply(), made.turn), time.monotonic())
                made, ran = None, False
            else:
                ran = True
                if self.tells:
                    self.untold += [_told_call(planned.call) for planned in action.calls]
                    yield []  # whoever writes the answer looks for what is untold
                results = await self._executed(action)
                if self.tells:
                    self.untold += [_told_result(each) for each in results]
                    yield []
                action = self._rounds.feed(Executed(results), time.monotonic())
                self._paused = self._said
        # After a turn, the calls handed over stand alone; after tools have run, they were made along with theirs.
        yield self._end(action, mixed=ran)

    # ---- one turn of the row

    def _made(self, ask: Ask, seen: tuple[Note, ...] = ()) -> MadeTurn:
        row, choice = self._row, self._choice(ask)
        asked = msgspec.structs.replace(row.request, messages=ask.messages, tools=ask.tools, tool_choice=choice)
        return row.maker.make(asked, row.settings, row.tenant, seen)

    def _choice(self, ask: Ask) -> ToolChoice:
        """Which calls are allowed: what the client demands is demanded once, of the first turn."""
        said = self._row.request.tool_choice
        if ask.number == 1 and not ask.summary:
            return said
        return msgspec.structs.replace(ask.choice, parallel=said.parallel)

    def _shown(self, batch: list[Event]) -> list[Event]:
        """What the client sees of a batch at once."""
        shown: list[Event] = []
        for event in batch:
            if isinstance(event, TextDelta):
                if text := self._apart(event.text):
                    shown.append(TextDelta(text))
            elif not isinstance(event, _HELD):
                shown.append(event)
        return shown

    def _apart(self, text: str) -> str:
        """A piece of text, less the line breaks at its end: around a call that was cut out they are nobody's."""
        if self._paused:  # set apart from what was said before the tools ran
            text = text.lstrip("\n")
            self._paused = not text
            text = _BREAK + text if text else ""
        else:
            text = self._breaks + text
        shown = text.rstrip("\n")
        self._breaks = text[len(shown) :]
        self._said = self._said or bool(shown)
        return shown

    def _heard(self, reply: TracedReply, turn: AnyTurn) -> Heard:
        outcome = turn.outcome
        assert outcome is not None  # a turn that was not broken off has one
        self.first_token = self.first_token or turn.first_token
        self.waited += turn.waited
        self.held += turn.held
        self.asked += turn.asked
        self._outcomes.append(outcome)
        self._current = None
        self._last = msgspec.structs.replace(reply, failure=outcome.failure or reply.failure)
        return self._last

    # ---- tools

    async def _executed(self, action: Execute) -> tuple[Ran, ...]:
        """Run all calls of a round, in the same order as an agent does; cancelling this cancels them."""
        began = time.monotonic()
        try:
            return tuple(await in_order(action.calls, lambda planned: self._ran(planned, action)))
        finally:
            self.tooled += time.monotonic() - began

    async def _ran(self, planned: Planned, action: Execute) -> Ran:
        call = planned.call
        if why := action.doubt(planned):
            return Ran(ToolResult(call.id, f"not run: {why}, and nobody can be asked", call.name, error=True))
        self._rounds.started(call.id)
        context = CallContext(call.id, call_key(self._name, planned.key), action.tainted)
        began = time.monotonic()
        executable = self._toolbox[call.name]
        seconds = seconds_for(self._tools.tool_seconds, self._rounds.deadline, began)
        output = await carried_out(executable, call.arguments, context, seconds)
        result = ToolResult(call.id, output.content, call.name, output.error, output.parts)
        return Ran(result, time.monotonic() - began, output.final)

    # ---- the end

    def _end(self, finished: Finished, *, mixed: bool) -> list[Event]:
        """The last batch: the client's calls, what was used, why it stopped."""
        answer, reply = finished.answer, self._last
        assert reply is not None  # there is no end without a turn
        self.outcome = self._summed(reply.failure)
        handed = self._memory.keep(answer, finished.handed, mixed=mixed)
        shown_as = {call.id: shown.id for call, shown in zip(finished.handed, handed, strict=True)}
        events = [event for index, call in enumerate(handed) for event in _events_of(index, call)]
        if reply.calls and not handed and answer.content:  # a tool had the last word
            self._paused = self._said
            events.append(TextDelta(self._apart(answer.content)))
        if self._breaks and not handed:
            events.append(TextDelta(self._breaks))
        events += [OpaqueSeen(_about(part, shown_as)) for part in reply.opaque]
        events += [Noted(note) for note in answer.notes if note not in reply.notes]
        if answer.rounds:
            events.append(Noted(Note("server_rounds", f"{len(answer.rounds)} rounds of tools ran in the proxy")))
        if reply.failure is not None:
            return [*events, UsageSeen(answer.usage), reply.failure]
        stopped: FinishReason = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
        return [*events, UsageSeen(answer.usage), Finish("tool_calls" if handed else stopped)]

    def _summed(self, failure: Failure | None) -> Outcome:
        """All turns as one."""
        warnings = dict.fromkeys(warning for outcome in self._outcomes for warning in outcome.warnings)
        # That the last turn called nothing is how a row ends well.
        last, called = self._outcomes[-1].trace, len(self._outcomes) > 1
        if called:
            last = msgspec.structs.replace(last, why_no_call="", no_call_code="")
        return Outcome(
            sum(outcome.requests for outcome in self._outcomes),
            tuple(warnings),
            failure,
            msgspec.structs.replace(last, attempts=self.answered),
        )


def _about(part: Opaque, shown_as: Mapping[str, str]) -> Opaque:
    """What is said about a call besides, about the call as the client sees it."""
    about = part.data.get("id") if is_object(part.data) else None
    if not isinstance(about, str) or about not in shown_as:
        return part
    return msgspec.structs.replace(part, data={**part.data, "id": shown_as[about]})


def _told_call(call: ToolCall) -> JSONObject:
    return {"call": {"id": call.id, "name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()}}


def _told_result(ran: Ran) -> JSONObject:
    result = ran.result
    about: JSONObject = {"id": result.id, "content": result.content, "error": result.error}
    return {"result": {**about, "seconds": round(ran.seconds, 6)}}


def _events_of(index: int, call: ToolCall) -> list[Event]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return [CallStart(index, call.name, call.id), CallArgs(index, arguments), CallEnd(index, notes=call.notes)]
