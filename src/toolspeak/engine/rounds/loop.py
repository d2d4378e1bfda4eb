"""The agent loop as a pure state machine: it takes inputs and returns actions.

A round consists of an answer with tool calls, and their results. The loop ends when an answer has no calls, when a tool
returns a final result, or when the task is cancelled or fails. At a limit, it asks for a summary, without tools.

    state        input                  action
    asking       Reply with calls       Execute
    asking       Reply without calls    Finished
    asking       TimeUp                 AskModel for a summary
    running      Executed               AskModel; AskModel for a summary; Finished
    summarising  Reply                  Finished
    any          Cancelled, Failed      Finished, with a partial answer

A call that must not run gets an error result. If rounds only repeat earlier calls, the model is warned, then stopped.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Literal, TypeAlias

import msgspec

from ...core.events import Reply
from ...core.text import counted
from ...core.types import Message, Note, TextPart, Tool, ToolCall, ToolChoice, ToolResult, Usage
from ...errors import UsageError
from ...protocols.generated_images import generated_images
from ..prompting.tool_use_detection import has_tool_history
from ..turn.actions import INTERPRETED_CALL
from ..turn.trace import TracedReply
from .call_checks import CallChecker, UncertainCalls, call_key, has_unmarked_call, reject_call
from .expansion import messages_of
from .transcript import Answer, AnswerStatus, CallRecord, Entry, FileDiff, Round, with_result

#: Enough for every real task. A model that needs more rounds is stuck in a loop.
MAX_ROUNDS = 50
#: After how many consecutive rounds that only repeat earlier calls and results to warn or stop. One may be an accident.
WARN_AFTER_REPEATS, STOP_AFTER_REPEATS = 2, 3

_REPEATED = (
    "Note: this has been called before with the same arguments and gave the same result. "
    "Calling it again will not change that. Do something else, or answer with what is known."
)
_TIME_LIMIT = "the time limit was reached"
_STUCK = "the same calls gave the same results again and again"
_SUMMARISE = (
    "Stop here: {why}. No tool can be used any more. "
    "Say in a few sentences what was done, what was found, and what is still open."
)


class RoundLimits(msgspec.Struct, frozen=True):
    """Limits for one answer. None means no limit."""

    rounds: int = MAX_ROUNDS
    #: Maximum number of input and output tokens of all requests together.
    tokens: int | None = None
    seconds: float | None = None


# ---- inputs


class CallOutcome(msgspec.Struct, frozen=True):
    """The result of a call. `final`: the content is the answer, and the loop ends."""

    result: ToolResult
    seconds: float = 0.0
    final: bool = False
    diffs: tuple[FileDiff, ...] = ()


class Executed(msgspec.Struct, frozen=True):
    """The calls of the round have ended. A call whose outcome was never reported counts as interrupted."""

    outcomes: tuple[CallOutcome, ...] = ()


class Cancelled(msgspec.Struct, frozen=True):
    """The task was cancelled. `reply`: the partial reply, if any."""

    reply: Reply | None = None
    why: str = "cancelled"


class TimeUp(msgspec.Struct, frozen=True):
    """The time limit was reached during a request. `reply`: the partial reply, used only to count tokens."""

    reply: Reply | None = None


class Failed(msgspec.Struct, frozen=True):
    """The task failed. `reply`: the partial reply, if any."""

    message: str
    reply: Reply | None = None


RoundInput: TypeAlias = Reply | Executed | TimeUp | Cancelled | Failed


# ---- actions


class AskModel(msgspec.Struct, frozen=True):
    """Send this request, then feed the reply."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    choice: ToolChoice
    #: The number of the round, starting at 1.
    number: int
    #: Whether this is the last request, which has no tools and asks for a summary.
    summary: bool = False


class PlannedCall(msgspec.Struct, frozen=True):
    """A call that passed the checks and may run."""

    call: ToolCall
    #: Whether the call is known to have side effects, so it may need consent.
    side_effects: bool
    #: The idempotency key, which stays the same when an interrupted call is repeated.
    key: str
    #: Whether an interrupted run of this call may have taken effect. A repetition needs consent.
    may_have_run: bool = False
    #: Whether an interrupted call to the same tool, possibly equivalent to this one, may have taken effect.
    sibling_may_have_run: bool = False
    #: Whether the call may run in parallel with others, because it only reads.
    read_only: bool = False

    @property
    def was_interpreted(self) -> bool:
        """Whether a call with side effects was read from a description. Only a person may allow it."""
        return self.side_effects and any(note.code == INTERPRETED_CALL for note in self.call.notes)


class Execute(msgspec.Struct, frozen=True):
    """Run these calls, then feed their outcomes."""

    #: The round with all its calls. Rejected calls already have an error result.
    round: Round
    calls: tuple[PlannedCall, ...]
    number: int
    #: Whether the model had already seen untrusted content.
    tainted: bool
    #: Whether a call was parsed from text and carries no nonce. Such a call may be a quotation.
    unmarked: bool = False

    def consent_reason(self, call: PlannedCall) -> str:
        """Return the reason why a call needs consent, or an empty string."""
        if call.may_have_run:
            return "it may have been carried out before it was interrupted"
        if call.was_interpreted:
            return "it changes something, and the model only described it: another model read it from the answer"
        if call.side_effects and self.tainted and self.unmarked:
            return "it changes something, foreign text was read, and the call has no mark that tells it from that"
        if call.sibling_may_have_run:
            return "a call of this tool was interrupted and may have been carried out, and this may be the same again"
        return ""


class Finished(msgspec.Struct, frozen=True):
    """The answer is complete. `client_calls`: calls that the client must run."""

    answer: Answer
    client_calls: tuple[ToolCall, ...] = ()


Action: TypeAlias = AskModel | Execute | Finished
_State = Literal["new", "asking", "running", "summarising", "over"]


class Rounds:
    """The agent loop for one answer.

    Args:
        entries: the conversation, ending with the message to answer.
        tools: the tools that run in this process.
        instructions: a system message to put before the conversation.
        limits: limits on rounds, tokens and time.
        tainted: whether the tool descriptions come from an untrusted source.
        client_tools: the tools that the client runs. A call to one of them ends the loop.
        now: the start time in seconds, on any clock.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        tools: Iterable[Tool],
        *,
        instructions: str = "",
        limits: RoundLimits | None = None,
        tainted: bool = False,
        client_tools: Iterable[Tool] = (),
        now: float = 0.0,
    ) -> None:
        system = (Message("system", (TextPart(instructions),)),) if instructions else ()
        self._history = (*system, *messages_of(entries))
        self._tools = tuple(tools)
        self._client_tools = tuple(client_tools)
        self._checker = CallChecker(self._tools, self._client_tools)
        self._limits = limits or RoundLimits()
        self._tainted = tainted or has_tool_history(self._history)
        self._began = now
        self._ids = {call.id for message in self._history for call in message.calls}
        self._uncertain = UncertainCalls(entries, self._tools)
        self._state: _State = "new"
        self._rounds: list[Round] = []
        self._visible_rounds: list[Round] = []  # including warnings to the model
        self._records: dict[str, CallRecord] = {}  # calls of the current round by id, in order
        self._open: Round | None = None
        self._final: str | None = None
        self._client_calls: tuple[ToolCall, ...] = ()
        self._previous_steps: set[tuple[str, str]] = set()
        self._repeats = 0
        self._notes: list[Note] = []
        self._usage = Usage()
        self._requests = 0

    # ---- the machine

    @property
    def completed(self) -> tuple[Round, ...]:
        return tuple(self._rounds)

    @property
    def deadline(self) -> float | None:
        """The time at which the time limit ends, on the same clock as `now`, or None."""
        return None if self._limits.seconds is None else self._began + self._limits.seconds

    def start(self) -> AskModel:
        self._expect("new")
        return self._ask()

    def mark_started(self, call_id: str, at: float = 0.0) -> None:
        """Record that a call is about to run, so it counts as having run if it is interrupted. `at` is a Unix time."""
        self._expect("running")
        self._records[call_id] = msgspec.structs.replace(self._records[call_id], state="started", started=at)

    def record_outcome(self, outcome: CallOutcome) -> None:
        self._expect("running")
        before = self._records[outcome.result.id]
        record = msgspec.structs.replace(
            before, state="finished", result=outcome.result, seconds=outcome.seconds, diffs=outcome.diffs
        )
        self._records[outcome.result.id] = record
        self._uncertain.discard_if_done(record)
        if outcome.final and self._final is None:
            self._final = outcome.result.content

    def feed(self, event: RoundInput, now: float = 0.0) -> Action:
        match event:
            case Cancelled(reply, why):
                return self._abort("interrupted", Note("interrupted", why), reply)
            case Failed(message, reply):
                return self._abort("failed", Note("failed", message), reply)
            case Executed(ran):
                for each in ran:
                    self.record_outcome(each)
                return self._handle_results(now)
            case TimeUp(reply):
                self._expect("asking")
                self._account(reply)
                return self._ask(self._stop_for("limit_seconds", _TIME_LIMIT))
            case _ if event.failure is not None:
                return self._abort("failed", Note("failed", event.failure.message), event)
            case _:
                return self._handle_reply(event)

    def _expect(self, *states: _State) -> None:
        if self._state not in states:
            raise UsageError(f"the loop is in state `{self._state}`, expected {' or '.join(states)}")

    # ---- asking

    def _ask(self, why: str = "") -> AskModel:
        self._state = "summarising" if why else "asking"
        messages = (*self._history, *messages_of([Answer(rounds=tuple(self._visible_rounds))]))
        number = len(self._rounds) + 1
        if not why:
            return AskModel(messages, (*self._tools, *self._client_tools), ToolChoice(), number)
        last = Message("user", (TextPart(_SUMMARISE.format(why=why)),))
        return AskModel((*messages, last), (), ToolChoice("none"), number, summary=True)

    def _handle_reply(self, reply: Reply) -> Action:
        self._expect("asking", "summarising")
        self._account(reply)
        records = [] if self._state == "summarising" else self._records_of(reply)
        if not records:  # no calls, or only client calls
            return self._complete(reply)
        self._state = "running"
        self._records = {record.call.id: record for record in records}
        self._open = Round(reply.text, tuple(records), reply.reasoning, _opaque_message(reply))
        allowed = tuple(self._plan_call(record) for record in records if record.result is None)
        return Execute(self._open, allowed, len(self._rounds) + 1, self._tainted, has_unmarked_call(reply))

    def _account(self, reply: Reply | None) -> None:
        if reply is not None:
            self._usage += reply.usage
            self._requests += reply.requests
            self._notes += reply.notes

    def _plan_call(self, record: CallRecord) -> PlannedCall:
        call, first = record.call, self._uncertain.first_id(record.call)
        sibling_may_have_run = first is None and record.side_effects and self._uncertain.has_call_of(call.name)
        read_only, key = self._checker.is_read_only(call), first or call.id
        return PlannedCall(call, record.side_effects, key, first is not None, sibling_may_have_run, read_only)

    # ---- calls

    def _records_of(self, reply: Reply) -> list[CallRecord]:
        """Return records of the calls that the client does not run. Rejected calls already have an error result."""
        calls = [msgspec.structs.replace(call, id=self._unique_id(call.id)) for call in reply.calls]
        self._client_calls = tuple(filter(self._checker.is_client_call, calls))
        places = [
            (2 * at + 1, self._checker.check(call))
            for at, call in enumerate(calls)
            if not self._checker.is_client_call(call)
        ]
        for at, call, why in self._checker.rejected_calls(reply):
            record = CallRecord(msgspec.structs.replace(call, id=self._unique_id("")))
            places.append((2 * at, reject_call(record, why)))
        return [record for _, record in sorted(places, key=itemgetter(0))]

    def _unique_id(self, proposed: str) -> str:
        name = candidate = proposed or f"call_{len(self._rounds) + 1}"
        number = 1
        while candidate in self._ids:
            number += 1
            candidate = f"{name}_{number}"
        self._ids.add(candidate)
        return candidate

    # ---- results

    def _handle_results(self, now: float) -> Action:
        self._expect("running")
        self._close_round()
        if self._client_calls or self._final is not None:
            return self._complete(None)
        return self._ask(self._limit(now))

    def _close_round(self) -> None:
        """Complete the current round. Calls without a result are recorded as interrupted."""
        if self._open is None:
            return
        calls = tuple(map(with_result, self._records.values()))
        closed = msgspec.structs.replace(self._open, calls=calls)
        self._open, self._records = None, {}
        self._tainted = True
        self._rounds.append(closed)
        self._visible_rounds.append(self._with_repeat_warning(closed))

    def _with_repeat_warning(self, closed: Round) -> Round:
        """Return the round as the model sees it, with a warning if it only repeats earlier calls and results."""
        steps = {(call_key(record.call), record.result.content if record.result else "") for record in closed.calls}
        self._repeats = self._repeats + 1 if steps <= self._previous_steps else 0
        self._previous_steps |= steps
        if self._repeats < WARN_AFTER_REPEATS:
            return closed
        self._notes.append(Note("repeated_call", f"round {len(self._rounds)} only repeated earlier calls"))
        *before, last = closed.calls
        assert last.result is not None
        result = msgspec.structs.replace(last.result, content=f"{last.result.content}\n\n{_REPEATED}")
        return msgspec.structs.replace(closed, calls=(*before, msgspec.structs.replace(last, result=result)))

    def _limit(self, now: float) -> str:
        """Return the reason to stop, or an empty string if no limit is reached."""
        limits, deadline = self._limits, self.deadline
        spent = self._usage.input_tokens + self._usage.output_tokens
        rounds = counted(limits.rounds, "round has", "rounds have")
        reached = [
            (self._repeats >= STOP_AFTER_REPEATS, "loop_broken", _STUCK),
            (len(self._rounds) >= limits.rounds, "limit_rounds", f"{rounds} been made"),
            (limits.tokens is not None and spent >= limits.tokens, "limit_tokens", f"{spent} tokens are used up"),
            (deadline is not None and now >= deadline, "limit_seconds", _TIME_LIMIT),
        ]
        return next((self._stop_for(code, why) for is_reached, code, why in reached if is_reached), "")

    def _stop_for(self, code: str, why: str) -> str:
        self._notes.append(Note(code, f"{why}; requested a summary"))
        return why

    # ---- the end

    def _complete(self, reply: Reply | None) -> Finished:
        content, reasoning, message = self._final or "", "", None
        if reply is not None:
            content, reasoning, message = reply.text, reply.reasoning, _opaque_message(reply)
            self._notes += () if self._client_calls else _final_notes(reply, called=bool(self._rounds))
        return self._build_result("complete", content, reasoning, message)

    def _abort(self, status: AnswerStatus, note: Note, reply: Reply | None) -> Finished:
        self._expect("new", "asking", "running", "summarising")
        self._account(reply)
        self._close_round()
        self._notes.append(note)
        content, reasoning = (reply.text, reply.reasoning) if reply is not None else ("", "")
        return self._build_result(status, self._final or content, reasoning, None)

    def _build_result(self, status: AnswerStatus, content: str, reasoning: str, message: Message | None) -> Finished:
        self._state = "over"
        rounds, notes = tuple(self._rounds), tuple(dict.fromkeys(self._notes))
        answer = Answer(content, rounds, status, reasoning, message, self._usage, notes, self._requests)
        return Finished(answer, self._client_calls if status == "complete" else ())


def _opaque_message(reply: Reply) -> Message | None:
    """Return the original message of a reply if it contains opaque parts that the upstream needs back."""
    return reply.own if isinstance(reply, TracedReply) else None


def _has_image(reply: Reply) -> bool:
    own = _opaque_message(reply)
    return own is not None and bool(generated_images(own))


def _final_notes(reply: Reply, *, called: bool) -> Iterable[Note]:
    """Yield notes about problems of the final answer."""
    if reply.finish_reason == "length":
        yield Note("cut_by_length", "the answer was cut off by its length limit")
    elif not reply.text.strip() and not _has_image(reply):
        # Only the reply to a summary request can still contain calls here.
        ignored = "the model made calls instead of answering; they were not run"
        yield Note("empty_answer", ignored if reply.calls else "the model returned an empty answer")
    if not called and isinstance(reply, TracedReply) and reply.record is not None and reply.record.why_no_call:
        yield Note("no_call", reply.record.why_no_call)
