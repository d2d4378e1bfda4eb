"""The agent loop: a machine that is told what happened and says what to do next.

A round is an answer with calls, the calls run, and their results. Rounds follow each other until an answer holds no
call, a tool ends the work, somebody cancels, something breaks, or a limit is reached: then one last request, without
tools, asks for a summary.

    state        told                   says
    asking       Reply with calls       Execute
    asking       Reply without          Finished
    asking       TimeUp                 Ask for a summary
    running      Executed               Ask; Ask for a summary; Finished
    summarising  Reply                  Finished
    any          Cancelled, Failed      Finished, with what there is

A call that must not run (no such tool, wrong arguments, cut off) is answered with an error result, where the model sees
it. Rounds that bring nothing new are told to the model and then ended. Pure: the time comes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Literal, TypeAlias

import msgspec

from ...core.events import Reply
from ...core.types import Message, Note, TextPart, Tool, ToolCall, ToolChoice, ToolResult, Usage
from ...errors import UsageError
from ..prompting.past_tools import has_tool_history
from ..turn.trace import TracedReply
from .call_checks import Judge, Unsure, answered_with, key_of, unmarked
from .expansion import messages_of
from .transcript import Answer, AnswerStatus, CallRecord, Entry, Round, answered

#: So many rounds end every honest task; a model that needs more goes in circles.
MOST_ROUNDS = 50
#: A round that only repeats is an accident, two are a habit: then the model is told, and with the next it is over.
REPEATS_TOLD, REPEATS_ENDED = 2, 3

_REPEATED = (
    "Note: this has been called before with the same arguments and gave the same result. "
    "Calling it again will not change that. Do something else, or answer with what is known."
)
_TIME = "the time is over"
_SUMMARISE = (
    "Stop here: {why}. No tool can be used any more. "
    "Say in a few sentences what was done, what was found, and what is still open."
)


class Limits(msgspec.Struct, frozen=True):
    """When to stop. None: no limit."""

    rounds: int = MOST_ROUNDS
    #: Input and output of all requests together.
    tokens: int | None = None
    seconds: float | None = None


# ---- what the machine is told


class Ran(msgspec.Struct, frozen=True):
    """A call has a result. `final`: its content is the answer, and nothing follows."""

    result: ToolResult
    seconds: float = 0.0
    final: bool = False


class Executed(msgspec.Struct, frozen=True):
    """The calls of the round are over. What is not in `ran`, and was not told before, was interrupted."""

    ran: tuple[Ran, ...] = ()


class Cancelled(msgspec.Struct, frozen=True):
    """Somebody wants no more. `reply`: what had come of the answer under way."""

    reply: Reply | None = None
    why: str = "cancelled"


class TimeUp(msgspec.Struct, frozen=True):
    """The time is over in the middle of an answer, which comes to nothing. `reply`: what there was of it."""

    reply: Reply | None = None


class Failed(msgspec.Struct, frozen=True):
    """It cannot go on. `reply`: what had come of the answer under way."""

    message: str
    reply: Reply | None = None


Heard: TypeAlias = Reply | Executed | TimeUp | Cancelled | Failed


# ---- what the machine says


class Ask(msgspec.Struct, frozen=True):
    """Send this to the model and tell its reply."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    choice: ToolChoice
    #: The round that it may begin, from 1.
    number: int
    #: The last request: without tools.
    summary: bool = False


class Planned(msgspec.Struct, frozen=True):
    """A call that may run."""

    call: ToolCall
    side_effects: bool
    #: The same for a call that is made again after it was interrupted.
    key: str
    #: It may have been carried out before: somebody has to consent.
    again: bool = False
    #: Another call of its tool may have been carried out, and this may be the same in other words.
    beside: bool = False


class Execute(msgspec.Struct, frozen=True):
    """Run these calls and tell how each ended."""

    #: The round with all its calls; those that must not run have their result already.
    made: Round
    calls: tuple[Planned, ...]
    number: int
    #: Whether content that nobody vouches for was before the model when it made them.
    tainted: bool
    #: Whether they stood in its text without a mark that no document knows: such a call may be a quotation.
    unmarked: bool = False

    def doubt(self, planned: Planned) -> str:
        """Why one of the calls may run only if somebody consents; empty where nothing speaks against it."""
        if planned.again:
            return "it may have been carried out before it was interrupted"
        if planned.side_effects and self.tainted and self.unmarked:
            return "it changes something, foreign text was read, and the call has no mark that tells it from that"
        if planned.beside:
            return "a call of this tool was interrupted and may have been carried out, and this may be the same again"
        return ""


class Finished(msgspec.Struct, frozen=True):
    """It is over. `handed`: calls of tools that are not ours, for whoever asked."""

    answer: Answer
    handed: tuple[ToolCall, ...] = ()


Action: TypeAlias = Ask | Execute | Finished
_State = Literal["new", "asking", "running", "summarising", "over"]


class Rounds:
    """One answer in the making.

    Args:
        entries: the conversation so far; what was said last is what is answered.
        tools: what the model may call here.
        instructions: text of the system, put before the conversation.
        limits: when to stop.
        tainted: whether what the tools say about themselves comes from somebody whom nobody vouches for.
        theirs: tools that whoever asked runs himself; a call of one ends the loop and is handed over.
        now: the time at which it begins, in seconds of any clock.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        tools: Iterable[Tool],
        *,
        instructions: str = "",
        limits: Limits | None = None,
        tainted: bool = False,
        theirs: Iterable[Tool] = (),
        now: float = 0.0,
    ) -> None:
        system = (Message("system", (TextPart(instructions),)),) if instructions else ()
        self._history = (*system, *messages_of(entries))
        self._tools = tuple(tools)
        self._theirs = tuple(theirs)
        self._judge = Judge(self._tools, self._theirs)
        self._limits = limits or Limits()
        self._tainted = tainted or has_tool_history(self._history)
        self._began = now
        self._ids = {call.id for message in self._history for call in message.calls}
        self._unsure = Unsure(entries, self._tools)
        self._state: _State = "new"
        self._rounds: list[Round] = []
        self._shown: list[Round] = []  # as the model sees them
        self._records: dict[str, CallRecord] = {}  # of the round under way, by id, in order
        self._open: Round | None = None
        self._final: str | None = None
        self._handed: tuple[ToolCall, ...] = ()
        self._seen: set[tuple[str, str]] = set()
        self._repeats = 0
        self._notes: list[Note] = []
        self._usage = Usage()
        self._requests = 0

    # ---- the machine

    @property
    def made(self) -> tuple[Round, ...]:
        """The rounds that are over."""
        return tuple(self._rounds)

    @property
    def deadline(self) -> float | None:
        """When the time is over, on the clock that `now` is of."""
        return None if self._limits.seconds is None else self._began + self._limits.seconds

    def start(self) -> Ask:
        """The first request."""
        self._expect("new")
        return self._ask()

    def started(self, call_id: str) -> None:
        """A call is about to run: from now on it may have changed the world."""
        self._expect("running")
        self._records[call_id] = msgspec.structs.replace(self._records[call_id], state="started")

    def ran(self, ran: Ran) -> None:
        """A call has a result."""
        self._expect("running")
        before = self._records[ran.result.id]
        record = msgspec.structs.replace(before, state="finished", result=ran.result, seconds=ran.seconds)
        self._records[ran.result.id] = record
        self._unsure.settle(record)
        if ran.final and self._final is None:
            self._final = ran.result.content

    def feed(self, heard: Heard, now: float = 0.0) -> Action:
        """What to do next."""
        match heard:
            case Cancelled(reply, why):
                return self._stopped("interrupted", Note("interrupted", why), reply)
            case Failed(message, reply):
                return self._stopped("failed", Note("failed", message), reply)
            case Executed(ran):
                for each in ran:
                    self.ran(each)
                return self._executed(now)
            case TimeUp(reply):
                self._expect("asking")
                self._account(reply)
                return self._ask(self._stop_for("limit_seconds", _TIME))
            case _ if heard.failure is not None:
                return self._stopped("failed", Note("failed", heard.failure.message), heard)
            case _:
                return self._replied(heard)

    def _expect(self, *states: _State) -> None:
        if self._state not in states:
            raise UsageError(f"the loop is {self._state}, not {' or '.join(states)}")

    # ---- asking

    def _ask(self, why: str = "") -> Ask:
        self._state = "summarising" if why else "asking"
        messages = (*self._history, *messages_of([Answer(rounds=tuple(self._shown))]))
        number = len(self._rounds) + 1
        if not why:
            return Ask(messages, (*self._tools, *self._theirs), ToolChoice(), number)
        last = Message("user", (TextPart(_SUMMARISE.format(why=why)),))
        return Ask((*messages, last), (), ToolChoice("none"), number, summary=True)

    def _replied(self, reply: Reply) -> Action:
        self._expect("asking", "summarising")
        self._account(reply)
        records = [] if self._state == "summarising" else self._records_of(reply)
        if not records:  # no calls, or only those of others
            return self._finished(reply)
        self._state = "running"
        self._records = {record.call.id: record for record in records}
        self._open = Round(reply.text, tuple(records), reply.reasoning, _carried(reply))
        allowed = tuple(self._planned(record) for record in records if record.result is None)
        return Execute(self._open, allowed, len(self._rounds) + 1, self._tainted, unmarked(reply))

    def _account(self, reply: Reply | None) -> None:
        if reply is not None:
            self._usage += reply.usage
            self._requests += reply.requests
            self._notes += reply.notes

    def _planned(self, record: CallRecord) -> Planned:
        call, first = record.call, self._unsure.first_id(record.call)
        beside = first is None and record.side_effects and self._unsure.has(call.name)
        return Planned(call, record.side_effects, first or call.id, first is not None, beside)

    # ---- calls

    def _records_of(self, reply: Reply) -> list[CallRecord]:
        """The calls of a reply that are ours, those that must not run with the reason as their result."""
        calls = [msgspec.structs.replace(call, id=self._fresh(call.id)) for call in reply.calls]
        self._handed = tuple(filter(self._judge.is_foreign, calls))
        places = [
            (2 * at + 1, self._judge.record(call)) for at, call in enumerate(calls) if not self._judge.is_foreign(call)
        ]
        for at, call, why in self._judge.refused(reply):
            record = CallRecord(msgspec.structs.replace(call, id=self._fresh("")))
            places.append((2 * at, answered_with(record, why)))
        return [record for _, record in sorted(places, key=itemgetter(0))]

    def _fresh(self, given: str) -> str:
        """An id that no call of the conversation has."""
        name = made = given or f"call_{len(self._rounds) + 1}"
        number = 1
        while made in self._ids:
            number += 1
            made = f"{name}_{number}"
        self._ids.add(made)
        return made

    # ---- results

    def _executed(self, now: float) -> Action:
        self._expect("running")
        self._close_round()
        if self._handed or self._final is not None:
            return self._finished(None)
        why = self._limit(now)
        return self._ask(why)

    def _close_round(self) -> None:
        """The round under way is over; what it lacks was interrupted."""
        if self._open is None:
            return
        calls = tuple(map(answered, self._records.values()))
        made = msgspec.structs.replace(self._open, calls=calls)
        self._open, self._records = None, {}
        self._tainted = True
        self._rounds.append(made)
        self._shown.append(self._told_of_repeats(made))

    def _told_of_repeats(self, made: Round) -> Round:
        """The round as the model sees it: with a remark, where it goes in circles."""
        steps = {(key_of(record.call), record.result.content if record.result else "") for record in made.calls}
        self._repeats = self._repeats + 1 if steps <= self._seen else 0
        self._seen |= steps
        if self._repeats < REPEATS_TOLD:
            return made
        self._notes.append(Note("repeated_call", f"round {len(self._rounds)} brought nothing that is new"))
        *before, last = made.calls
        assert last.result is not None
        told = msgspec.structs.replace(last.result, content=f"{last.result.content}\n\n{_REPEATED}")
        return msgspec.structs.replace(made, calls=(*before, msgspec.structs.replace(last, result=told)))

    def _limit(self, now: float) -> str:
        """Why to stop, or nothing."""
        limits, deadline = self._limits, self.deadline
        spent = self._usage.input_tokens + self._usage.output_tokens
        reached = [
            (self._repeats >= REPEATS_ENDED, "loop_broken", "the same calls gave the same results again and again"),
            (len(self._rounds) >= limits.rounds, "limit_rounds", f"{limits.rounds} rounds have been made"),
            (limits.tokens is not None and spent >= limits.tokens, "limit_tokens", f"{spent} tokens are used up"),
            (deadline is not None and now >= deadline, "limit_seconds", _TIME),
        ]
        return next((self._stop_for(code, why) for is_reached, code, why in reached if is_reached), "")

    def _stop_for(self, code: str, why: str) -> str:
        self._notes.append(Note(code, f"{why}; a summary was asked for"))
        return why

    # ---- the end

    def _finished(self, reply: Reply | None) -> Finished:
        content, reasoning, said = self._final or "", "", None
        if reply is not None:
            content, reasoning, said = reply.text, reply.reasoning, _carried(reply)
            self._notes += () if self._handed else _remarks(reply, called=bool(self._rounds))
        return self._over("complete", content, reasoning, said)

    def _stopped(self, status: AnswerStatus, note: Note, reply: Reply | None) -> Finished:
        self._expect("new", "asking", "running", "summarising")
        self._account(reply)
        self._close_round()
        self._notes.append(note)
        content, reasoning = (reply.text, reply.reasoning) if reply is not None else ("", "")
        return self._over(status, self._final or content, reasoning, None)

    def _over(self, status: AnswerStatus, content: str, reasoning: str, said: Message | None) -> Finished:
        self._state = "over"
        answer = Answer(
            content,
            tuple(self._rounds),
            status,
            reasoning,
            said,
            self._usage,
            tuple(dict.fromkeys(self._notes)),
            self._requests,
        )
        return Finished(answer, self._handed if status == "complete" else ())


def _carried(reply: Reply) -> Message | None:
    """The message of a reply, if it holds what only its upstream can read."""
    return reply.own if isinstance(reply, TracedReply) else None


def _remarks(reply: Reply, *, called: bool) -> Iterable[Note]:
    """What a reader of the final answer should know about it."""
    if reply.finish_reason == "length":
        yield Note("cut_by_length", "the answer was cut off by its length limit")
    elif not reply.text.strip():
        # Calls are left over only where a summary was asked for, and nothing could be called any more.
        called_on = "the model made calls in place of an answer, and they were not run"
        yield Note("empty_answer", called_on if reply.calls else "the model ended without a word")
    if not called and isinstance(reply, TracedReply) and reply.record is not None and reply.record.why_no_call:
        yield Note("no_call", reply.record.why_no_call)
