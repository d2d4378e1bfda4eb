"""Runs one task of an agent: drives the loop of `engine.rounds` with a model, tools and a journal.

Each step is an asyncio task, so it can be cancelled at any time, but journal writes always complete. The journal
records each call before it starts and after it ends, so an interrupted session shows which calls may have run.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from ..client import AsyncClient
from ..core.events import Event, Noted, ReasoningDelta, Reply, TextDelta, fold
from ..core.text import counted
from ..core.types import JSONValue, Message, Note, Request, TextPart, ToolChoice, ToolResult
from ..engine.context.sizes import request_tokens
from ..engine.prompting.escaping import one_line
from ..engine.rounds import loop as round_loop
from ..engine.rounds.expansion import messages_of
from ..engine.rounds.transcript import Answer, AnswerStatus, Entry
from ..engine.turn.faults import RETRY_REASONS
from ..engine.turn.trace import TracedReply
from ..errors import ToolDenied, ToolError, ToolspeakError, UpstreamError, UpstreamTimeout
from ..store.session_interface import FileChange, SessionJournal
from ..tools.approval import Approval
from ..tools.base import CallContext, Executable, ToolOutput, call_key
from ..tools.threads import in_thread
from . import events
from .calls import Toolbox, cancel_and_wait, require_approval, run_in_order, run_to_completion, run_tool, seconds_for
from .output_types import OutputType, ParsedOutput

EmitEvent: TypeAlias = Callable[[events.AgentEvent], None]

_log = logging.getLogger("toolspeak.agent")
_MAX_LOGGED_CHARS = 200  # maximum length of names and reasons in log lines
_STEP_GRACE = 30.0  # seconds to wait for a cancelled step, so its tools can stop and journal writes can complete
#: Seconds for which a tool waits until a change of a file is recorded. A loop that was stopped never answers.
_RECORD_SECONDS = 60.0
#: HTTP statuses of upstreams that do not accept a JSON schema for the answer.
_REJECTION_STATUSES = frozenset({400, 404, 415, 422, 500, 501})


class AgentOptions(msgspec.Struct, frozen=True):
    instructions: str = ""
    limits: round_loop.RoundLimits = round_loop.RoundLimits()
    #: Whether to run the read-only calls of one round in parallel. If None, the settings of the client decide.
    parallel: bool | None = None
    approval: Approval | None = None
    consents: bool = False  # whether the caller consents to all calls in advance (`approval="auto"`)
    tool_timeout: float | None = None  # timeout per call in seconds
    #: Settings and fields for every model request.
    options: Mapping[str, JSONValue] = {}
    output: OutputType | None = None
    deps: Any = None  # the caller's object that tools receive in `CallContext.deps`

    @property
    def system_text(self) -> str:
        """The instructions, with the rule for the form of the final answer."""
        rule = "" if self.output is None else self.output.rule
        return "\n\n".join(text for text in (self.instructions, rule) if text)


class TaskRun:
    def __init__(
        self, client: AsyncClient, toolbox: Toolbox, journal: SessionJournal, options: AgentOptions, emit: EmitEvent
    ) -> None:
        self._client = client
        self._toolbox = toolbox
        self._journal = journal
        self._options = options
        self._emit = emit
        self._stop = asyncio.Event()
        self._events: list[Event] = []  # events of the current answer
        self._loop = asyncio.get_running_loop()
        self.parsed = ParsedOutput()

    def cancel(self) -> None:
        """Cancel the task. Can be called from any thread."""
        self._loop.call_soon_threadsafe(self._stop.set)

    async def carry_out(self, entries: Sequence[Entry]) -> Answer:
        """Run until the task ends. A cancelled or failed task also returns an answer."""
        rounds = round_loop.Rounds(
            entries,
            self._toolbox.tools,
            instructions=self._options.system_text,
            limits=self._options.limits,
            tainted=self._toolbox.untrusted,
            now=self._loop.time(),
        )
        await run_to_completion(self._journal.begin())
        answer: Answer | None = None
        try:
            answer = (await self._rounds(rounds)).answer
            if self._options.output is not None and answer.status == "complete":
                answer = await self._with_valid_output(self._options.output, answer, entries)
        except asyncio.CancelledError:
            why = "the program cancelled the task"
            if answer is None:
                action = rounds.feed(round_loop.Cancelled(self._partial(), why))
                assert isinstance(action, round_loop.Finished)
                answer = action.answer
            else:
                answer = _ended(answer, "interrupted", why)
            await self._end(answer)
            raise
        return await self._end(answer)

    async def _rounds(self, rounds: round_loop.Rounds) -> round_loop.Finished:
        action = rounds.start()
        while not isinstance(action, round_loop.Finished):
            if isinstance(action, round_loop.AskModel):
                result = await self._run_step(self._ask(action, rounds.deadline))
            else:
                await run_to_completion(self._journal.plan(action.round))
                result = await self._run_step(self._execute(rounds, action))
            number = len(rounds.completed)
            action = rounds.feed(result, self._loop.time())
            if len(rounds.completed) > number:
                completed = rounds.completed[-1]
                _log.info("round %d complete: %s", number + 1, counted(len(completed.calls), "call"))
                self._emit(events.RoundComplete(number + 1, completed))
        return action

    async def _end(self, answer: Answer) -> Answer:
        await run_to_completion(self._journal.end(answer))
        rounds, requests = counted(len(answer.rounds), "round"), counted(answer.requests, "request")
        _log.info("finished after %s and %s: %s", rounds, requests, answer.status)
        return answer

    async def _with_valid_output(self, output: OutputType, answer: Answer, entries: Sequence[Entry]) -> Answer:
        """Check the type of the final answer. If it does not fit, ask again, at most as often as `retries` says."""
        retries = self._options.options.get("retries", self._client.settings.retries)
        system = () if not output.rule else (Message("system", (TextPart(self._options.system_text),)),)
        problem = await self._parse(output, answer)
        for _ in range(retries if problem else 0):
            answer = msgspec.structs.replace(answer, notes=(*answer.notes, Note("retry_output", problem)))
            prompt = Message("user", (TextPart(output.repair_prompt(problem)),))
            messages = (*system, *messages_of((*entries, answer)), prompt)
            ask = round_loop.AskModel(messages, (), ToolChoice("none"), len(answer.rounds) + 1, summary=True)
            reply = await self._run_step(self._ask(ask, None))
            if not isinstance(reply, Reply):
                return _without_reply(answer, reply)
            answer = _with_reply(answer, reply)
            problem = await self._parse(output, answer)
            if not problem:
                break
        why = f"the answer does not fit the output type after {counted(retries, 'retry', 'retries')}: {problem}"
        return _ended(answer, "failed", why) if problem else answer

    async def _parse(self, output: OutputType, answer: Answer) -> str:
        """Parse the final answer. Returns the problem if it does not fit."""
        self.parsed = await in_thread(partial(output.parse, answer.content))
        return self.parsed.problem

    async def _run_step(self, step: Coroutine[Any, Any, round_loop.RoundInput]) -> round_loop.RoundInput:
        """Run a step until it ends or the task is cancelled."""
        task = asyncio.ensure_future(step)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not task.done():
                await cancel_and_wait(task, _STEP_GRACE)
        return task.result() if task.done() and not task.cancelled() else round_loop.Cancelled(self._partial())

    def _partial(self) -> Reply | None:
        """Return the partial answer to the current request, if any."""
        return msgspec.structs.replace(fold(self._events), requests=1) if self._events else None

    async def _ask(self, ask: round_loop.AskModel, deadline: float | None) -> round_loop.RoundInput:
        _log.info("round %d started%s", ask.number, " for a summary" if ask.summary else "")
        tokens = request_tokens(Request("", ask.messages, ask.tools))
        self._emit(events.RoundStarted(ask.number, ask.summary, tokens))
        self._events = []
        limit = None if deadline is None or ask.summary else max(deadline - self._loop.time(), 0.001)
        try:
            reply = await self._request(ask, limit)
        except ToolspeakError as error:
            reply_so_far = getattr(error, "reply", None)
            partial = reply_so_far if isinstance(reply_so_far, Reply) else self._partial()
            self._events = []
            partial = msgspec.structs.replace(partial, failure=None) if partial else None
            if limit is not None and isinstance(error, UpstreamTimeout) and self._loop.time() >= (deadline or 0.0):
                return round_loop.TimeUp(partial)
            _log.warning("round %d failed: %s", ask.number, one_line(str(error), _MAX_LOGGED_CHARS))
            return round_loop.Failed(str(error), partial)
        self._events = []
        if not reply.calls and not ask.summary:
            why = reply.record.why_no_call if reply.record is not None else ""
            reason = one_line(why, _MAX_LOGGED_CHARS) or "the answer is complete"
            _log.info("round %d: no calls: %s", ask.number, reason)
        return reply

    async def _request(self, ask: round_loop.AskModel, limit: float | None) -> TracedReply:
        """Send a request. Requests without tools ask the upstream to enforce the output type.

        Many upstreams cannot do that while tools are offered, or never call a tool then.
        """
        output = None if ask.tools else self._options.output
        fields = {} if output is None else output.request_fields
        unchecked = {"check_format": False} if fields else {}  # the agent itself teaches and checks its output type
        options: dict[str, Any] = {**self._options.options, **fields, **unchecked}
        try:
            stream = self._client.stream(ask.messages, ask.tools, ask.choice, timeout=limit, **options)
            async for batch in stream.batches():
                self._events += batch
                await self._emit_text(batch)
            return stream.reply
        except UpstreamError as error:
            if output is None or not fields or error.upstream_status not in _REJECTION_STATUSES:
                raise
            _log.info("the upstream rejected the request with a JSON schema; trying without it")
            output.enforce = False
            self._events = []
        return await self._request(ask, limit)

    async def _emit_text(self, batch: list[Event]) -> None:
        text = ""
        for event in batch:
            if isinstance(event, TextDelta):
                text += event.text
                self._emit(events.TextPiece(event.text))
            elif isinstance(event, ReasoningDelta):
                self._emit(events.ThoughtPiece(event.text))
            elif isinstance(event, Noted) and event.note.code in RETRY_REASONS:
                self._emit(events.RetryStarted(RETRY_REASONS[event.note.code]))
        if text:
            await run_to_completion(self._journal.stream(text))

    async def _execute(self, rounds: round_loop.Rounds, execute: round_loop.Execute) -> round_loop.RoundInput:
        names = ", ".join(one_line(record.call.name, _MAX_LOGGED_CHARS) for record in execute.round.calls)
        _log.info("round %d: calls started: %s", execute.number, names)
        for record in execute.round.calls:
            if record.result is not None:
                self._emit(events.ResultReady(record.call, record.result))
        parallel = self._client.parallel if self._options.parallel is None else self._options.parallel
        await run_in_order(execute.calls, lambda planned: self._run(rounds, planned, execute), parallel=parallel)
        return round_loop.Executed()

    async def _run(
        self, rounds: round_loop.Rounds, planned: round_loop.PlannedCall, execute: round_loop.Execute
    ) -> None:
        """Run one call, from approval to result."""
        call, context = planned.call, self._context(planned, execute.tainted)
        executable = self._toolbox[call.name]
        began = time.monotonic()
        try:
            await self._require_approval(planned, executable, context, execute)
        except ToolDenied as error:
            output = ToolOutput(str(error), error=True)
        else:
            began, at = time.monotonic(), time.time()
            await run_to_completion(self._journal.start(call.id, at))
            rounds.mark_started(call.id, at)
            self._emit(events.CallStarted(call))
            seconds = seconds_for(self._options.tool_timeout, rounds.deadline, self._loop.time())
            output = await run_tool(executable, call.arguments, context, seconds)
        result = ToolResult(call.id, output.content, call.name, output.error, output.parts)
        seconds = time.monotonic() - began
        # First, because the journal write may raise.
        rounds.record_outcome(round_loop.CallOutcome(result, seconds, output.final, output.diffs))
        await run_to_completion(self._journal.finish(result, seconds))
        for each in output.diffs:
            self._emit(events.FileChanged(call.id, each.path, each.diff))
        how = "failed" if result.error else "ready"
        _log.info("round %d: result %s: %s (%.1f s)", execute.number, how, call.name, seconds)
        self._emit(events.ResultReady(call, result, seconds))

    async def _require_approval(
        self, planned: round_loop.PlannedCall, executable: Executable, context: CallContext, execute: round_loop.Execute
    ) -> None:
        why, approval = execute.consent_reason(planned), self._options.approval
        # Consent given in advance covers neither a repetition of a call that may have run, nor an interpreted call.
        firm = planned.may_have_run or planned.was_interpreted
        if (why and (firm or not self._options.consents)) or (planned.side_effects and approval):
            await require_approval(approval, executable, planned.call.arguments, context, why, not firm)

    def _context(self, planned: round_loop.PlannedCall, tainted: bool) -> CallContext:
        def emit(text: str) -> None:
            self._loop.call_soon_threadsafe(self._emit, events.OutputPiece(planned.call.id, text))

        def record_change(change: FileChange) -> None:
            """Record a change from the tool's thread. It outlives a cancelled call, so that the record is certain."""
            write = self._journal.change(planned.call.id, change)
            try:
                done = asyncio.run_coroutine_threadsafe(write, self._loop)
            except RuntimeError:  # the loop is closed
                write.close()
                raise ToolError("the agent has ended, so nothing was changed") from None
            done.result(_RECORD_SECONDS)

        session = self._journal.session
        key = call_key(session, planned.key)
        return CallContext(planned.call.id, key, tainted, emit, session, record_change, self._options.deps)


def _ended(answer: Answer, status: AnswerStatus, why: str) -> Answer:
    return msgspec.structs.replace(answer, status=status, notes=(*answer.notes, Note(status, why)))


def _with_reply(answer: Answer, reply: Reply) -> Answer:
    """Replace the final text by that of another reply."""
    return msgspec.structs.replace(
        _with_costs(answer, reply),
        content=reply.text,
        reasoning=reply.reasoning,
        said=reply.own if isinstance(reply, TracedReply) else None,
    )


def _without_reply(answer: Answer, step: round_loop.RoundInput) -> Answer:
    """End an answer for which there was no further reply."""
    if isinstance(step, round_loop.Failed):
        return _ended(_with_costs(answer, step.reply), "failed", step.message)
    assert isinstance(step, round_loop.Cancelled)
    return _ended(_with_costs(answer, step.reply), "interrupted", step.why)


def _with_costs(answer: Answer, reply: Reply | None) -> Answer:
    if reply is None:
        return answer
    return msgspec.structs.replace(
        answer,
        usage=answer.usage + reply.usage,
        requests=answer.requests + reply.requests,
        notes=(*answer.notes, *(note for note in dict.fromkeys(reply.notes) if note not in answer.notes)),
    )
