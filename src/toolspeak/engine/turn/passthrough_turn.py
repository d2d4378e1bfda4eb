"""Passthrough turn: forwards a request unchanged, because it has no tools or because the settings say so.

`PassthroughTurn` has the methods of `Engine` and returns the same actions as its `pass` plan. It is cheaper because it
loads no tool prompt, scanner or diagnosis. Most requests through a proxy are of this kind.
"""

from typing import TYPE_CHECKING

from ...core.events import (
    PLAIN_EVENTS,
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    FinishReason,
    Noted,
    Reply,
    TextDelta,
    UsageSeen,
    fold,
)
from ...core.types import Note, Request, ToolChoice, Usage
from ..planning.strategy import Plan
from .actions import Action, AskUpstream, Done, Emit, StopAttempt, TurnOutcome
from .trace import NOT_CALLED, AttemptTrace, Trace

if TYPE_CHECKING:
    from .output_gate import OutputGate

_ANY = ToolChoice()
#: The number of the only attempt.
_FIRST = 1
_CALL = (CallStart, CallArgs, CallEnd)


def is_passthrough(request: Request, plan: Plan) -> bool:
    """Whether this request only needs to be forwarded."""
    return plan.kind == "pass" and (plan.rule != "no_tools" or request.tool_choice == _ANY)


class PassthroughTurn:
    """A turn that forwards its request unchanged."""

    #: Always empty: a passthrough turn has one attempt, and its end is the end of the turn.
    completed_attempts: tuple[AttemptTrace, ...] = ()

    def __init__(self, request: Request, plan: Plan, *, stamp: int, notes: tuple[Note, ...] = ()) -> None:
        self._request = request
        self._plan = plan
        self._stamp = stamp
        self._notes = notes
        self._over = False
        self._raw: list[str] = []
        self._other_events: list[Event] = []  # all events except text
        self._gate: OutputGate | None = None
        self._usage = Usage()
        self._reason: FinishReason = "unknown"
        self._failure: Failure | None = None

    def start(self) -> list[Action]:
        ask = AskUpstream(_FIRST, self._request)
        return [Emit([Noted(note) for note in self._notes]), ask] if self._notes else [ask]

    def feed(self, attempt: int, event: Event) -> list[Action]:
        if self._over or attempt != _FIRST:
            return []
        if type(event) is TextDelta:
            self._raw.append(event.text)
        elif type(event) is UsageSeen:
            self._usage = event.usage
            return []
        elif type(event) is Finish:
            self._reason = event.reason
            return []
        elif isinstance(event, Failure):
            self._failure = event
            return [StopAttempt(_FIRST), *self.end(_FIRST)]
        else:
            self._other_events.append(event)
            if isinstance(event, _CALL):
                return self._call(event)
        return [Emit([event])]

    def read_whole(self, attempt: int, events: list[Event]) -> list[Action]:
        """Process a complete answer or the rest of one, as `feed` and `end` do, and return the resulting actions."""
        is_usual = attempt == _FIRST and self._gate is None and not self._over
        if not is_usual or not PLAIN_EVENTS.issuperset(map(type, events)):
            return [action for event in events for action in self.feed(attempt, event)] + self.end(attempt)
        emitted: list[Event] = []
        for event in events:
            if type(event) is TextDelta:
                self._raw.append(event.text)
                emitted.append(event)
            elif type(event) is UsageSeen:
                self._usage = event.usage
            else:
                assert type(event) is Finish
                self._reason = event.reason
        self._over = True
        emitted += (UsageSeen(self._usage), Finish(self._reason))
        return [Emit(emitted), Done(self._outcome())]

    def _call(self, event: Event) -> list[Action]:
        if self._gate is None:
            # Imported on demand, because the gate loads the refusal classifier.
            from .output_gate import OutputGate

            self._gate = OutputGate(_ANY, lambda index: f"emulated_{self._stamp}_{index}", trims=False)
        out = self._gate.take([event])
        return [Emit(out)] if out else []

    def end(self, attempt: int) -> list[Action]:
        if self._over or attempt != _FIRST:
            return []
        self._over = True
        events: list[Event] = self._gate.finish() if self._gate is not None else []
        events.append(UsageSeen(self._usage))
        if self._failure is not None:
            events += (self._failure, Finish("error"))
        else:
            called = self._called and self._reason in ("stop", "unknown")
            events.append(Finish("tool_calls" if called else self._reason))
        return [Emit(events), Done(self._outcome())]

    @property
    def _called(self) -> bool:
        return self._gate is not None and self._gate.emitted_calls > 0

    def _why_no_call(self) -> Note:
        request = self._request
        if request.tools and request.tool_choice.mode == "none":
            return Note("tool_choice_none", "`tool_choice` is none")
        if not request.tools:
            return Note("no_tools", "no tools reached the model")
        if self._failure is not None:
            return Note("upstream_failed", f"the upstream failed: {self._failure.message}")
        if self._reason == "length":
            return Note("length", "the answer was cut off by the token limit")
        return NOT_CALLED

    def _outcome(self) -> TurnOutcome:
        plan = self._plan
        reply, raw = fold(self._other_events) if self._other_events else Reply(), "".join(self._raw)
        attempt = AttemptTrace(
            "relay", self._request, raw, reply.reasoning, reply.candidates, reply.notes, self._reason, self._usage
        )
        no_call = Note("") if self._called else self._why_no_call()
        trace = Trace(
            plan.kind,
            plan.rule,
            plan.why,
            (attempt,),
            why_no_call=no_call.detail,
            policy=plan.policy,
            no_call_code=no_call.code,
        )
        return TurnOutcome(_FIRST, (), self._failure, trace)
