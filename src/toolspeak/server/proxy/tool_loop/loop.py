"""The tool loop of the proxy: several turns that look like one, with the server's tools run in between.

Text is streamed to the client as it arrives. Calls of the server's tools run here and are not shown; a call of a
client's tool ends the loop and is handed over. Closing the iterator cancels whatever runs.
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

from ....agent.calls import Toolbox, run_in_order, run_tool, seconds_for
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
from ....engine.rounds.loop import (
    Action,
    AskModel,
    CallOutcome,
    Execute,
    Executed,
    Finished,
    PlannedCall,
    RoundInput,
    RoundLimits,
    Rounds,
)
from ....engine.turn.actions import TurnOutcome
from ....engine.turn.trace import AttemptTrace, TracedReply
from ....errors import UsageError
from ....runtime.turn import AnyTurn, ReplyCollector
from ....runtime.turn_factory import PlannedTurn, TurnFactory
from ....tools.base import CallContext, Executable, call_key
from ....tools.wrappers import cut_short, only
from .memory import LoopMemory

_log = logging.getLogger("toolspeak.server")

#: Events held back until the end: calls, which may be the server's, and the frame of an answer.
_HELD_BACK = (CallStart, CallArgs, CallEnd, UsageSeen, Finish, OpaqueSeen, Failure)
#: When a source that reported problems is started again.
_RETRY_SECONDS = 30.0
#: Between the texts before and after a tool ran.
_PARAGRAPH_BREAK = "\n\n"


class ToolSource(Protocol):
    """A source of tools that must be started, such as MCP servers."""

    #: What was left out at the last start, and why.
    notes: list[Note]

    async def start(self) -> list[Executable]:
        """Start it and return its tools."""
        ...

    async def close(self) -> None:
        """Stop it."""
        ...


class LoopTools:
    """The tools that the server runs for some callers; implements `upstream_router.ServerTools`.

    Args:
        tools: must run without asking for approval, or answer with an error.
        limits: when to stop.
        tool_seconds: timeout of one call.
        sources: where more tools come from; started with the first request.
        clock: a monotonic clock.
    """

    def __init__(
        self,
        tools: Iterable[Executable],
        limits: RoundLimits | None = None,
        tool_seconds: float | None = 60.0,
        sources: Sequence[ToolSource] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tools = tuple(tools)
        Toolbox(self._tools)  # raises an error if two names clash
        self.limits = limits or RoundLimits()
        self.tool_seconds = tool_seconds
        self._sources = sources
        self._source_tools: dict[ToolSource, tuple[Executable, ...]] = {}
        self._due: dict[ToolSource, float] = dict.fromkeys(sources, 0.0)
        self._starting = asyncio.Lock()
        self._clock = clock

    async def prepare(self) -> None:
        """Start all sources; a source that reported problems is started again after a while."""
        if not any(self._clock() >= due for due in self._due.values()):
            return
        async with self._starting:
            for source in [each for each, due in self._due.items() if self._clock() >= due]:
                self._source_tools[source] = tuple(await source.start())
                self._due.pop(source)
                if source.notes:
                    self._due[source] = self._clock() + _RETRY_SECONDS
                    for note in source.notes:
                        _log.warning("%s: %s", note.code, note.detail)

    def offered(self) -> tuple[Tool, ...]:
        """The tools, once the sources are started."""
        return tuple(each.tool for each in self._all())

    def _all(self) -> list[Executable]:
        return [*self._tools, *(tool for tools in self._source_tools.values() for tool in tools)]

    def make(
        self,
        maker: TurnFactory,
        request: Request,
        settings: Settings,
        tenant: str,
        notes: tuple[Note, ...],
        chosen: frozenset[str] | None = None,
    ) -> PlannedTurn:
        """A turn with these tools, or the chosen ones, in addition to the client's own.

        Raises:
            UsageError: two tools have the same name, a chosen tool does not exist, or several answers are requested.
        """
        recalled, recall_notes = maker.tool_memory.recall(tenant, request, settings)
        toolbox = self._toolbox(chosen)
        _check(recalled, toolbox)
        memory = LoopMemory(maker.tool_memory, tenant)
        messages, lost_notes = memory.restore(recalled.messages)
        recalled = msgspec.structs.replace(recalled, messages=messages)
        # Calls run only when complete and valid, and must be distinguishable from text of others (nonce marks).
        checked = msgspec.structs.replace(settings, stream_calls="checked", marks="nonce")
        turn = LoopTurn(
            _TurnContext(maker, recalled, checked, tenant), self, toolbox, memory, (*notes, *recall_notes, *lost_notes)
        )
        turn.reports_progress = chosen is not None
        return PlannedTurn(turn, recalled, turn.first.plan, toolbox.tools)

    def _toolbox(self, chosen: frozenset[str] | None) -> Toolbox:
        """The tools for one answer. Texts too long for the model are stored for this answer only."""
        return Toolbox(cut_short(self._all() if chosen is None else only(self._all(), *sorted(chosen))))

    async def close(self) -> None:
        """Stop the sources."""
        for source in self._sources:
            await source.close()


def _check(request: Request, toolbox: Toolbox) -> None:
    own = {tool.name for tool in toolbox.tools}
    for tool in request.tools:
        if tool.name in own:  # ambiguous: either side could run it
            hint = "rename yours, or use a key for which the server runs no tools"
            raise UsageError(f"the tool `{tool.name:.80}` is one that the server itself runs", hint=hint)


class _TurnContext(NamedTuple):
    """What all turns of a loop share."""

    maker: TurnFactory
    request: Request
    settings: Settings
    tenant: str


class LoopTurn:
    """Iterate over `batches()` for the events; `outcome` is set with the last of them."""

    def __init__(
        self, context: _TurnContext, tools: LoopTools, toolbox: Toolbox, memory: LoopMemory, notes: tuple[Note, ...]
    ) -> None:
        self._context = context
        self._tools = tools
        self._toolbox = toolbox
        self._memory = memory
        self._call_scope = secrets.token_hex(16)  # call ids are unique within one answer only
        self._rounds = Rounds(
            context.request.messages,
            toolbox.tools,
            limits=tools.limits,
            tainted=toolbox.untrusted,
            client_tools=context.request.tools,
            now=time.monotonic(),
        )
        self._first_ask = self._rounds.start()
        #: The first turn; its plan applies to all of them.
        self.first = self._plan_turn(self._first_ask, notes)
        self._text_sent = False
        self._line_breaks: str = ""  # withheld after visible text
        self._after_tools = False  # a tool has run since the last visible text
        self._last: TracedReply | None = None
        self._outcomes: list[TurnOutcome] = []
        self._current: AnyTurn | None = None
        self.provider = self.first.turn.provider
        self.requests_sent = 0
        self.upstream_seconds = 0.0
        self.first_token_seconds = 0.0
        self.held_seconds = 0.0
        self.tool_seconds = 0.0
        self.outcome: TurnOutcome | None = None
        #: Whether calls that run here are reported to the client, and the reports not sent yet.
        self.reports_progress = False
        self.pending_progress: list[JSONObject] = []

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        """The completed requests of all turns."""
        before = tuple(attempt for outcome in self._outcomes for attempt in outcome.trace.attempts)
        return before if self._current is None else before + self._current.answered

    async def batches(self, *, passthrough_bytes: bool = False) -> AsyncGenerator[list[Event], None]:
        """The events of all turns. Batches carry no bytes, since the events are regrouped."""
        action: Action = self._first_ask
        planned: PlannedTurn | None = self.first
        tools_ran = False
        while not isinstance(action, Finished):
            if isinstance(action, AskModel):
                planned = planned or self._plan_turn(action)
                self._current = planned.turn
                collector = ReplyCollector(planned.turn, self._context.maker.resolved.protocol)
                async with aclosing(planned.turn.batches()) as batches:
                    async for batch in batches:
                        collector.add(batch)
                        if visible := self._visible(batch):
                            yield visible
                action = self._rounds.feed(self._collect(collector.reply(), planned.turn), time.monotonic())
                planned, tools_ran = None, False
            else:
                tools_ran = True
                if self.reports_progress:
                    self.pending_progress += [_call_report(planned.call) for planned in action.calls]
                    yield []  # lets the encoder send the pending reports
                results = await self._run_calls(action)
                if self.reports_progress:
                    self.pending_progress += [_result_report(each) for each in results]
                    yield []
                action = self._rounds.feed(Executed(results), time.monotonic())
                self._after_tools = self._text_sent
        # Directly after a turn, the client's calls are alone; after tools ran, they were made along with the
        # server's.
        yield self._end(action, mixed=tools_ran)

    # ---- one turn of the row

    def _plan_turn(self, ask: AskModel, notes: tuple[Note, ...] = ()) -> PlannedTurn:
        context, choice = self._context, self._choice(ask)
        request = msgspec.structs.replace(context.request, messages=ask.messages, tools=ask.tools, tool_choice=choice)
        return context.maker.make(request, context.settings, context.tenant, notes)

    def _choice(self, ask: AskModel) -> ToolChoice:
        """The tool choice of a turn: what the client requires applies to the first turn only."""
        requested = self._context.request.tool_choice
        if ask.number == 1 and not ask.summary:
            return requested
        return msgspec.structs.replace(ask.choice, parallel=requested.parallel)

    def _visible(self, batch: list[Event]) -> list[Event]:
        """The events of a batch that go to the client at once."""
        visible: list[Event] = []
        for event in batch:
            if isinstance(event, TextDelta):
                if text := self._separated(event.text):
                    visible.append(TextDelta(text))
            elif not isinstance(event, _HELD_BACK):
                visible.append(event)
        return visible

    def _separated(self, text: str) -> str:
        """A piece of text without the line breaks at its end, which may only have framed a removed call."""
        if self._after_tools:
            text = text.lstrip("\n")
            self._after_tools = not text
            text = _PARAGRAPH_BREAK + text if text else ""
        else:
            text = self._line_breaks + text
        visible = text.rstrip("\n")
        self._line_breaks = text[len(visible) :]
        self._text_sent = self._text_sent or bool(visible)
        return visible

    def _collect(self, reply: TracedReply, turn: AnyTurn) -> RoundInput:
        outcome = turn.outcome
        assert outcome is not None  # a complete turn has one
        self.first_token_seconds = self.first_token_seconds or turn.first_token_seconds
        self.upstream_seconds += turn.upstream_seconds
        self.held_seconds += turn.held_seconds
        self.requests_sent += turn.requests_sent
        self._outcomes.append(outcome)
        self._current = None
        self._last = msgspec.structs.replace(reply, failure=outcome.failure or reply.failure)
        return self._last

    # ---- tools

    async def _run_calls(self, action: Execute) -> tuple[CallOutcome, ...]:
        """Run all calls of a round, in the same order as an agent does; cancelling this cancels them."""
        began = time.monotonic()
        try:
            return tuple(await run_in_order(action.calls, lambda planned: self._run_call(planned, action)))
        finally:
            self.tool_seconds += time.monotonic() - began

    async def _run_call(self, planned: PlannedCall, action: Execute) -> CallOutcome:
        call = planned.call
        if why := action.consent_reason(planned):
            return CallOutcome(ToolResult(call.id, f"not run: {why}, and nobody can be asked", call.name, error=True))
        self._rounds.mark_started(call.id)
        context = CallContext(call.id, call_key(self._call_scope, planned.key), action.tainted)
        began = time.monotonic()
        executable = self._toolbox[call.name]
        seconds = seconds_for(self._tools.tool_seconds, self._rounds.deadline, began)
        output = await run_tool(executable, call.arguments, context, seconds)
        result = ToolResult(call.id, output.content, call.name, output.error, output.parts)
        return CallOutcome(result, time.monotonic() - began, output.final)

    # ---- the end

    def _end(self, finished: Finished, *, mixed: bool) -> list[Event]:
        """The last batch: the client's calls, the usage, the finish reason."""
        answer, reply = finished.answer, self._last
        assert reply is not None  # there was at least one turn
        self.outcome = self._outcome_of_all(reply.failure)
        handed = self._memory.store(answer, finished.client_calls, mixed=mixed)
        client_ids = {call.id: visible.id for call, visible in zip(finished.client_calls, handed, strict=True)}
        events = [event for index, call in enumerate(handed) for event in _events_of(index, call)]
        if reply.calls and not handed and answer.content:  # a tool produced the final answer
            self._after_tools = self._text_sent
            events.append(TextDelta(self._separated(answer.content)))
        if self._line_breaks and not handed:
            events.append(TextDelta(self._line_breaks))
        events += [OpaqueSeen(_with_client_id(part, client_ids)) for part in reply.opaque]
        events += [Noted(note) for note in answer.notes if note not in reply.notes]
        if answer.rounds:
            events.append(Noted(Note("server_rounds", f"{len(answer.rounds)} rounds of tools ran in the proxy")))
        if reply.failure is not None:
            return [*events, UsageSeen(answer.usage), reply.failure]
        stopped: FinishReason = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
        return [*events, UsageSeen(answer.usage), Finish("tool_calls" if handed else stopped)]

    def _outcome_of_all(self, failure: Failure | None) -> TurnOutcome:
        """The outcome of all turns as one."""
        warnings = dict.fromkeys(warning for outcome in self._outcomes for warning in outcome.warnings)
        # A last turn without calls is the normal end of a loop.
        last, called = self._outcomes[-1].trace, len(self._outcomes) > 1
        if called:
            last = msgspec.structs.replace(last, why_no_call="", no_call_code="")
        return TurnOutcome(
            sum(outcome.requests for outcome in self._outcomes),
            tuple(warnings),
            failure,
            msgspec.structs.replace(last, attempts=self.answered),
        )


def _with_client_id(part: Opaque, client_ids: Mapping[str, str]) -> Opaque:
    """An opaque part that refers to a call by the id that the client knows."""
    call_id = part.data.get("id") if is_object(part.data) else None
    if not isinstance(call_id, str) or call_id not in client_ids:
        return part
    return msgspec.structs.replace(part, data={**part.data, "id": client_ids[call_id]})


def _call_report(call: ToolCall) -> JSONObject:
    return {"call": {"id": call.id, "name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()}}


def _result_report(executed: CallOutcome) -> JSONObject:
    result = executed.result
    about: JSONObject = {"id": result.id, "content": result.content, "error": result.error}
    return {"result": {**about, "seconds": round(executed.seconds, 6)}}


def _events_of(index: int, call: ToolCall) -> list[Event]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return [CallStart(index, call.name, call.id), CallArgs(index, arguments), CallEnd(index, notes=call.notes)]
