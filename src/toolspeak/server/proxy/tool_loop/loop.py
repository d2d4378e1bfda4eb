"""The tool loop of the proxy: runs server tools between several turns that look like one to the client.

Text is streamed to the client as it arrives. Calls to server tools run here and are hidden from the client. A call to a
client tool ends the loop and goes to the client. Closing the iterator cancels the running turn or tools.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
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
from ....core.types import JSONObject, Note, Opaque, Request, Tool, ToolCall, ToolResult, is_object
from ....engine.planning.strategy import Settings
from ....engine.rounds import loop as round_loop
from ....engine.turn.actions import TurnOutcome
from ....engine.turn.faults import SEE_TRACE
from ....engine.turn.trace import AttemptTrace, TracedReply
from ....errors import UsageError
from ....runtime.turn import AnyTurn, ReplyCollector
from ....runtime.turn_factory import PlannedTurn, TurnFactory
from ....tools.base import CallContext, Executable, call_key
from ....tools.wrappers import cut_short, only
from .memory import LoopMemory

_log = logging.getLogger("toolspeak.server")

#: Events held back until the end: calls, which may be for server tools, and events that conclude an answer.
_HELD_BACK = (CallStart, CallArgs, CallEnd, UsageSeen, Finish, OpaqueSeen, Failure)
_RETRY_SECONDS = 30.0  # seconds before a source that reported problems is started again
_PARAGRAPH_BREAK = "\n\n"  # inserted between the text before and after tools ran


class ToolSource(Protocol):
    """A source of tools that must be started, such as MCP servers."""

    notes: list[Note]  # what was omitted at the last start, and why

    async def start(self) -> list[Executable]:
        """Start the source and return its tools."""
        ...

    async def close(self) -> None:
        """Stop the source."""


class LoopTools:
    """The tools that the server runs for some callers.

    Args:
        tools: tools that never ask for approval; if they need it, they return an error.
        tool_seconds: timeout of a single call.
        sources: sources of more tools, started with the first request.
    """

    def __init__(
        self,
        tools: Iterable[Executable],
        limits: round_loop.RoundLimits | None = None,
        tool_seconds: float | None = 60.0,
        sources: Sequence[ToolSource] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tools = tuple(tools)
        Toolbox(self._tools)  # raises an error for duplicate names
        self.limits = limits or round_loop.RoundLimits()
        self.tool_seconds = tool_seconds
        self._sources = sources
        self._source_tools: dict[ToolSource, tuple[Executable, ...]] = {}
        self._due: dict[ToolSource, float] = dict.fromkeys(sources, 0.0)
        self._starting = asyncio.Lock()
        self._clock = clock

    async def prepare(self) -> None:
        """Start all sources. A source that reported problems is restarted after a while."""
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
        """Return all tools; call `prepare` first to start the sources."""
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
        see: str = SEE_TRACE,
    ) -> PlannedTurn:
        """Return a turn that offers these tools, or only the chosen ones, in addition to the client's tools.

        Raises UsageError if two tools have the same name or a chosen tool does not exist.
        """
        recalled, recall_notes = maker.tool_memory.recall(tenant, request, settings)
        # Results too long for the model are stored until the answer ends.
        toolbox = Toolbox(cut_short(self._all() if chosen is None else only(self._all(), *sorted(chosen))))
        _check(recalled, toolbox)
        memory = LoopMemory(maker.tool_memory, tenant)
        messages, lost_notes = memory.restore(recalled.messages)
        recalled = msgspec.structs.replace(recalled, messages=messages)
        # Run only complete and valid calls. After a tool result, calls with side effects need the nonce.
        marks = settings.marks if settings.marks == "nonce" else "confirm"
        checked = msgspec.structs.replace(settings, stream_calls="checked", marks=marks)
        context = _TurnContext(maker, recalled, checked, tenant, see)
        turn = LoopTurn(context, self, toolbox, memory, (*notes, *recall_notes, *lost_notes))
        turn.reports_progress = chosen is not None
        return PlannedTurn(turn, recalled, turn.first.plan, toolbox.tools)

    async def close(self) -> None:
        for source in self._sources:
            await source.close()


def _check(request: Request, toolbox: Toolbox) -> None:
    own = {tool.name for tool in toolbox.tools}
    for tool in request.tools:
        if tool.name in own:  # ambiguous: the client or the server could run it
            hint = "rename your tool, or use a key without server tools"
            raise UsageError(f"the server already runs a tool named `{tool.name:.80}`", hint=hint)


class _TurnContext(NamedTuple):
    maker: TurnFactory
    request: Request
    settings: Settings
    tenant: str
    see: str  # where a user finds the details of the loop


class LoopTurn:
    """All turns of one loop. Iterate over `batches()` for the events; the last batch sets `outcome`."""

    def __init__(
        self, context: _TurnContext, tools: LoopTools, toolbox: Toolbox, memory: LoopMemory, notes: tuple[Note, ...]
    ) -> None:
        self._context = context
        self._tools = tools
        self._toolbox = toolbox
        self._memory = memory
        self._call_scope = secrets.token_hex(16)  # distinguishes answers: call ids are unique only within one answer
        self._rounds = round_loop.Rounds(
            context.request.messages,
            toolbox.tools,
            limits=tools.limits,
            tainted=toolbox.untrusted,
            client_tools=context.request.tools,
            now=time.monotonic(),
        )
        self._first_ask = self._rounds.start()
        #: The first turn, whose plan is reported for the whole loop.
        self.first = self._plan_turn(self._first_ask, notes)
        self._text_sent = False
        self._line_breaks: str = ""  # line breaks held back after visible text
        self._after_tools = False  # whether a tool has run since the last visible text
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
        #: Whether the client gets progress events for server tools, and the events not sent yet.
        self.reports_progress = False
        self.pending_progress: list[JSONObject] = []

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        """The completed model requests of all turns."""
        before = tuple(attempt for outcome in self._outcomes for attempt in outcome.trace.attempts)
        return before if self._current is None else before + self._current.answered

    async def batches(self, *, passthrough_bytes: bool = False) -> AsyncGenerator[list[Event], None]:
        """Yield the events of all turns. Batches carry no raw bytes, because events are regrouped."""
        action: round_loop.Action = self._first_ask
        planned: PlannedTurn | None = self.first
        tools_ran = False
        while not isinstance(action, round_loop.Finished):
            if isinstance(action, round_loop.AskModel):
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
                    yield []  # lets the encoder send the pending progress events
                results = await self._run_calls(action)
                if self.reports_progress:
                    self.pending_progress += [_result_report(each) for each in results]
                    yield []
                action = self._rounds.feed(round_loop.Executed(results), time.monotonic())
                self._after_tools = self._text_sent
        # If tools ran last, the model made the client's calls in the same round as calls to server tools.
        yield self._end(action, mixed=tools_ran)

    def _plan_turn(self, ask: round_loop.AskModel, notes: tuple[Note, ...] = ()) -> PlannedTurn:
        context, choice = self._context, self._context.request.tool_choice
        if ask.number > 1 or ask.summary:  # the client's choice applies to the first turn only
            choice = msgspec.structs.replace(ask.choice, parallel=choice.parallel)
        request = msgspec.structs.replace(context.request, messages=ask.messages, tools=ask.tools, tool_choice=choice)
        return context.maker.make(request, context.settings, context.tenant, notes, context.see)

    def _visible(self, batch: list[Event]) -> list[Event]:
        """Return the events of a batch that are sent to the client at once."""
        visible: list[Event] = []
        for event in batch:
            if isinstance(event, TextDelta):
                if text := self._separated(event.text):
                    visible.append(TextDelta(text))
            elif not isinstance(event, _HELD_BACK):
                visible.append(event)
        return visible

    def _separated(self, text: str) -> str:
        """Return text without its final line breaks, which may have surrounded a removed call. Hold them back."""
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

    def _collect(self, reply: TracedReply, turn: AnyTurn) -> round_loop.RoundInput:
        outcome = turn.outcome
        assert outcome is not None  # always set by a complete turn
        self.first_token_seconds = self.first_token_seconds or turn.first_token_seconds
        self.upstream_seconds += turn.upstream_seconds
        self.held_seconds += turn.held_seconds
        self.requests_sent += turn.requests_sent
        self._outcomes.append(outcome)
        self._current = None
        self._last = msgspec.structs.replace(reply, failure=outcome.failure or reply.failure)
        return self._last

    async def _run_calls(self, action: round_loop.Execute) -> tuple[round_loop.CallOutcome, ...]:
        """Run all calls of a round in the order an agent would use. Cancelling this coroutine cancels them."""
        began = time.monotonic()
        try:
            parallel = self.first.plan.profile.parallel
            work = partial(self._run_call, action=action)
            return tuple(await run_in_order(action.calls, work, parallel=parallel))
        finally:
            self.tool_seconds += time.monotonic() - began

    async def _run_call(self, planned: round_loop.PlannedCall, action: round_loop.Execute) -> round_loop.CallOutcome:
        call = planned.call
        if why := action.consent_reason(planned):
            return round_loop.CallOutcome(
                ToolResult(call.id, f"not run: {why}, and no one can approve it", call.name, error=True)
            )
        self._rounds.mark_started(call.id, time.time())
        context = CallContext(call.id, call_key(self._call_scope, planned.key), action.tainted)
        began = time.monotonic()
        executable = self._toolbox[call.name]
        seconds = seconds_for(self._tools.tool_seconds, self._rounds.deadline, began)
        output = await run_tool(executable, call.arguments, context, seconds)
        result = ToolResult(call.id, output.content, call.name, output.error, output.parts)
        return round_loop.CallOutcome(result, time.monotonic() - began, output.final, output.diffs)

    def _end(self, finished: round_loop.Finished, *, mixed: bool) -> list[Event]:
        """Return the last batch: the client's calls, the usage and the finish reason."""
        answer, reply = finished.answer, self._last
        assert reply is not None  # there is at least one turn
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
            events.append(Noted(Note("server_rounds", f"the proxy ran {len(answer.rounds)} rounds of tool calls")))
        if reply.failure is not None:
            return [*events, UsageSeen(answer.usage), reply.failure]
        stopped: FinishReason = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
        return [*events, UsageSeen(answer.usage), Finish("tool_calls" if handed else stopped)]

    def _outcome_of_all(self, failure: Failure | None) -> TurnOutcome:
        warnings = dict.fromkeys(warning for outcome in self._outcomes for warning in outcome.warnings)
        # A loop normally ends with a turn without calls, so that needs no explanation.
        last, called = self._outcomes[-1].trace, len(self._outcomes) > 1
        if called:
            last = msgspec.structs.replace(last, why_no_call="", no_call_code="")
        requests = sum(outcome.requests for outcome in self._outcomes)
        return TurnOutcome(requests, tuple(warnings), failure, msgspec.structs.replace(last, attempts=self.answered))


def _with_client_id(part: Opaque, client_ids: Mapping[str, str]) -> Opaque:
    """Replace the call id in an opaque part with the id that the client knows."""
    call_id = part.data.get("id") if is_object(part.data) else None
    if not isinstance(call_id, str) or call_id not in client_ids:
        return part
    return msgspec.structs.replace(part, data={**part.data, "id": client_ids[call_id]})


def _call_report(call: ToolCall) -> JSONObject:
    return {"call": {"id": call.id, "name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()}}


def _result_report(executed: round_loop.CallOutcome) -> JSONObject:
    result = executed.result
    about: JSONObject = {"id": result.id, "content": result.content, "error": result.error}
    diffs = msgspec.to_builtins(executed.diffs)
    return {"result": {**about, "seconds": round(executed.seconds, 6), **({"diffs": diffs} if diffs else {})}}


def _events_of(index: int, call: ToolCall) -> list[Event]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return [CallStart(index, call.name, call.id), CallArgs(index, arguments), CallEnd(index, notes=call.notes)]
