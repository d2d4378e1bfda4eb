"""One task in the making: the loop of `core.rounds` carried out with a model, with tools and with a journal.

Each step runs as a task of its own, so that it can be cancelled at any moment; what is written down is written to its
end. The order around a call is: planned, started, run, finished; each is committed before the next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ..client import AsyncClient
from ..core.events import Event, ReasoningDelta, Reply, TextDelta, fold
from ..core.types import JSONValue, ToolResult
from ..engine.prompting.escaping import one_line
from ..engine.rounds.loop import (
    Ask,
    Cancelled,
    Execute,
    Executed,
    Failed,
    Finished,
    Heard,
    Limits,
    Planned,
    Ran,
    Rounds,
    TimeUp,
)
from ..engine.rounds.transcript import Answer, Entry
from ..engine.turn.trace import TracedReply
from ..errors import ToolDenied, ToolspeakError, UpstreamTimeout
from ..store.session_interface import Journal
from ..tools.approval import Approval
from ..tools.base import CallContext, Executable, call_key
from .calls import Toolbox, carried_out, committed, consented, ended, in_order, seconds_for
from .events import (
    AgentEvent,
    CallStarted,
    OutputPiece,
    ResultReady,
    RoundComplete,
    RoundStarted,
    TextPiece,
    ThoughtPiece,
)

#: Takes what happens, as it happens.
Tell: TypeAlias = Callable[[AgentEvent], None]

_log = logging.getLogger("toolspeak.agent")
#: How much of a name or a reason stands in a line of the log.
_MOST_LOGGED = 200
#: A step that is cancelled waits for its tools, each of which has a time to end, and for what is written down.
_STEP_GRACE = 30.0


class Manner(msgspec.Struct, frozen=True):
    """How an agent works."""

    instructions: str = ""
    limits: Limits = Limits()
    #: Whether calls of one round without side effects run at the same time.
    parallel: bool = True
    approval: Approval | None = None
    #: How many seconds one call may take.
    tool_timeout: float | None = None
    #: Settings and fields of every request.
    options: Mapping[str, JSONValue] = {}


class Work:
    """One task."""

    def __init__(self, client: AsyncClient, toolbox: Toolbox, journal: Journal, manner: Manner, tell: Tell) -> None:
        self._client = client
        self._toolbox = toolbox
        self._journal = journal
        self._manner = manner
        self._tell = tell
        self._stop = asyncio.Event()
        self._events: list[Event] = []  # of the answer under way
        self._loop = asyncio.get_running_loop()

    def cancel(self) -> None:
        """End it at the next moment, from any thread."""
        self._loop.call_soon_threadsafe(self._stop.set)

    async def carry_out(self, entries: Sequence[Entry]) -> Answer:
        """Work until it is over. What was cancelled or failed comes back as an answer, too."""
        rounds = Rounds(
            entries,
            self._toolbox.tools,
            instructions=self._manner.instructions,
            limits=self._manner.limits,
            tainted=self._toolbox.untrusted,
            now=self._loop.time(),
        )
        await committed(self._journal.begin())
        try:
            answer = await self._rounds(rounds)
        except asyncio.CancelledError:
            await self._end(rounds.feed(Cancelled(self._partial(), "the program stopped waiting")))
            raise
        return await self._end(answer)

    async def _rounds(self, rounds: Rounds) -> Finished:
        action = rounds.start()
        while not isinstance(action, Finished):
            if isinstance(action, Ask):
                heard = await self._interruptible(self._ask(action, rounds.deadline))
            else:
                await committed(self._journal.plan(action.made))
                heard = await self._interruptible(self._execute(rounds, action))
            number = len(rounds.made)
            action = rounds.feed(heard, self._loop.time())
            if len(rounds.made) > number:
                self._round_complete(rounds)
        return action

    async def _end(self, finished: object) -> Answer:
        assert isinstance(finished, Finished)
        answer = finished.answer
        await committed(self._journal.end(answer))
        rounds, requests = _counted(len(answer.rounds), "round"), _counted(answer.requests, "request")
        _log.info("finished after %s and %s: %s", rounds, requests, answer.status)
        return answer

    def _round_complete(self, rounds: Rounds) -> None:
        number = len(rounds.made)
        made = rounds.made[-1]
        _log.info("round %d complete: %s", number, _counted(len(made.calls), "call"))
        self._tell(RoundComplete(number, made))

    async def _interruptible(self, step: Coroutine[Any, Any, Heard]) -> Heard:
        """The end of a step, or of everything."""
        task = asyncio.ensure_future(step)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not task.done():
                await ended(task, _STEP_GRACE)
        return task.result() if task.done() and not task.cancelled() else Cancelled(self._partial())

    def _partial(self) -> Reply | None:
        """What has come of the answer under way."""
        return msgspec.structs.replace(fold(self._events), requests=1) if self._events else None

    # ---- asking

    async def _ask(self, ask: Ask, deadline: float | None) -> Heard:
        what = " for a summary" if ask.summary else ""
        _log.info("round %d started%s", ask.number, what)
        self._tell(RoundStarted(ask.number, ask.summary))
        self._events = []
        limit = None if deadline is None or ask.summary else max(deadline - self._loop.time(), 0.001)
        try:
            stream = self._client.stream(ask.messages, ask.tools, ask.choice, timeout=limit, **self._manner.options)
            async for batch in stream.batches():
                self._events += batch
                await self._show(batch)
            reply = stream.reply
        except ToolspeakError as error:
            heard = getattr(error, "reply", None)
            partial = heard if isinstance(heard, Reply) else self._partial()
            self._events = []
            partial = msgspec.structs.replace(partial, failure=None) if partial else None
            if limit is not None and isinstance(error, UpstreamTimeout) and self._loop.time() >= (deadline or 0.0):
                return TimeUp(partial)
            _log.warning("round %d failed: %s", ask.number, one_line(str(error), _MOST_LOGGED))
            return Failed(str(error), partial)
        self._events = []
        _log_reply(ask, reply)
        return reply

    async def _show(self, batch: list[Event]) -> None:
        text = ""
        for event in batch:
            if isinstance(event, TextDelta):
                text += event.text
                self._tell(TextPiece(event.text))
            elif isinstance(event, ReasoningDelta):
                self._tell(ThoughtPiece(event.text))
        if text:
            await committed(self._journal.stream(text))

    # ---- running

    async def _execute(self, rounds: Rounds, execute: Execute) -> Heard:
        names = ", ".join(one_line(record.call.name, _MOST_LOGGED) for record in execute.made.calls)
        _log.info("round %d: calls started: %s", execute.number, names)
        for record in execute.made.calls:
            if record.result is not None:
                self._tell(ResultReady(record.call, record.result))
        if self._manner.parallel:
            await in_order(execute.calls, lambda planned: self._run(rounds, planned, execute))
        else:
            for planned in execute.calls:
                await self._run(rounds, planned, execute)
        return Executed()

    async def _run(self, rounds: Rounds, planned: Planned, execute: Execute) -> None:
        """One call, from consent to result."""
        call, context = planned.call, self._context(planned, execute.tainted)
        executable = self._toolbox[call.name]
        final = False
        began = time.monotonic()
        try:
            await self._consented(planned, executable, context, execute)
        except ToolDenied as error:
            result = ToolResult(call.id, str(error), call.name, error=True)
        else:
            await committed(self._journal.start(call.id))
            rounds.started(call.id)
            self._tell(CallStarted(call))
            began = time.monotonic()
            seconds = seconds_for(self._manner.tool_timeout, rounds.deadline, self._loop.time())
            output = await carried_out(executable, call.arguments, context, seconds)
            final = output.final
            result = ToolResult(call.id, output.content, call.name, output.error, output.parts)
        seconds = time.monotonic() - began
        rounds.ran(Ran(result, seconds, final))  # first, since the next line may be the last that is carried out
        await committed(self._journal.finish(result, seconds))
        how = "failed" if result.error else "ready"
        _log.info("round %d: result %s: %s (%.1f s)", execute.number, how, call.name, seconds)
        self._tell(ResultReady(call, result, seconds))

    async def _consented(
        self, planned: Planned, executable: Executable, context: CallContext, execute: Execute
    ) -> None:
        why, unmarked = execute.doubt(planned), execute.tainted and execute.unmarked
        if why or (planned.side_effects and self._manner.approval is not None):
            # A call that is not known to be the same again does no new kind of harm where it stays in the sandbox.
            yes_counts = planned.beside and not unmarked
            await consented(self._manner.approval, executable, planned.call.arguments, context, why, yes_counts)

    def _context(self, planned: Planned, tainted: bool) -> CallContext:
        def emit(text: str) -> None:
            self._loop.call_soon_threadsafe(self._tell, OutputPiece(planned.call.id, text))

        session = self._journal.session
        return CallContext(planned.call.id, call_key(session, planned.key), tainted, emit, session)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _log_reply(ask: Ask, reply: TracedReply) -> None:
    if reply.calls or ask.summary:
        return
    why = reply.record.why_no_call if reply.record is not None else ""
    _log.info("round %d: no calls: %s", ask.number, one_line(why, _MOST_LOGGED) or "the answer is complete")
