"""One turn, as a state machine: upstream events in, actions out.

    engine = Engine(request, plan, settings, stamp=unix_ns, nonces=...)
    actions = engine.start()                  # [Ask(1, request)]
    actions = engine.feed(1, event)           # [Emit([...])], [Stop(1), Ask(2, ...)], ...
    actions = engine.end(1)                   # the answer is over: [Emit, Done] or [Ask(2, ...)]

The order of requests is the table in `phases`; what an answer means is `readings`; what may leave, and when, is
`gate`; what went wrong and how to ask again is `recovery`. Events of an attempt that has been stopped are
ignored. No clock, no chance: the stamp of the ids and the nonces come in as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ...core.events import (
    CallArgs,
    CallEnd,
    Candidate,
    Event,
    Failure,
    Finish,
    FinishReason,
    Judged,
    Noted,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageSeen,
    fold,
)
from ...core.parsing.tool_index import TEACHABLE, toolkit
from ...core.types import Note, Request, ToolChoice, Usage
from ...errors import UsageError
from ...parsing import parse
from ..planning.strategy import Plan, Settings
from ..prompting.escaping import plain_name, shown_name
from ..prompting.response_format import checked_format
from .actions import EMULATED, Action, Ask, Done, Emit, Outcome, Stop
from .answer_readers import Answer, Envelope, Reading, Relay
from .decision_reader import Decision
from .duplicate_calls import Once
from .explanations import because, in_words
from .faults import Fault
from .output_gate import Gate, TextPolicy
from .phases import FIRST, PHASES, Phase, PhaseName
from .recovery import diagnose
from .request_builder import Asking
from .trace import AttemptTrace, Trace
from .upstream_limits import Concession, concession

RESCUED = "tool calls read from text"
SPOILED = "a call was streamed whose arguments cannot be used"
_UNUSABLE = "no usable tool call"
_CHOICE_DROPPED = "`tool_choice` was dropped: it demands a call, and chat only allows none"
#: HTTP statuses with which upstreams say that they do not take tools.
_REFUSING = frozenset({400, 404, 405, 415, 422, 500, 501})
_ANY = ToolChoice()
#: How much of an upstream's message is shown.
_SHOWN = 200
#: Reasons to finish that may cut a call in its middle.
_CUTTING = frozenset({"length", "content_filter", "error"})
#: Plans in which the upstream sees the tools as they are, whatever their kind.
_NATIVE = frozenset({"pass", "native", "fallback"})


#: What is said about an answer rather than in it.
_FRAME = (UsageSeen, Finish, Failure)


class _Attempt:
    """One request, and what has come back so far."""

    def __init__(self, number: int, phase: Phase, request: Request, reading: Reading) -> None:
        self.number = number
        self.phase = phase
        self.request = request
        self.reading = reading
        self.flow = reading.flow
        self.raw: list[str] = []
        self.events: list[Event] = []  # what the reading made of it
        self.reason: FinishReason = "unknown"
        self.usage = Usage()
        self.failure: Failure | None = None
        self.fault: Fault | None = None
        self.over = False  # whatever else it says is thrown away
        self._folded: tuple[int, Reply] | None = None  # and how many events it is made of

    @property
    def cut(self) -> bool:
        """Whether it did not end by itself, so that a call in its middle is not whole."""
        return self.reason in _CUTTING or self.failure is not None or self.over

    def reply(self) -> Reply:
        """What the answer says, once it is over."""
        if self._folded is None or self._folded[0] != len(self.events):
            reply = fold([*self.events, UsageSeen(self.usage), Finish(self.reason)])
            self._folded = (len(self.events), reply)
        return self._folded[1]


class Engine:
    """One turn."""

    def __init__(
        self,
        request: Request,
        plan: Plan,
        settings: Settings,
        *,
        stamp: int,
        nonces: Callable[[int], str],
        protocol: str = "openai_chat",
        templates: Mapping[str, str] | None = None,
        notes: tuple[Note, ...] = (),
    ) -> None:
        self._warnings: list[str] = []
        if settings.chat_only and request.tool_choice.demands:
            self._warn(_CHOICE_DROPPED)
            request = msgspec.structs.replace(request, tool_choice=_ANY)
        _check_choice(request, plan)
        self._request = request
        self._plan = plan
        self._asking = Asking(request, plan, settings, nonces=nonces, protocol=protocol, templates=templates)
        self._asking.notes.extend(notes)
        choice = request.tool_choice if PHASES[FIRST[plan.kind]].enforces else _ANY
        checked = plan.stream_calls == "checked" and plan.kind != "pass"
        self._gate = Gate(choice, lambda index: f"emulated_{stamp}_{index}", checked, self._asking.nonce)
        self._attempts: list[_Attempt] = []
        self._attempt: _Attempt | None = None
        self._retries = 0
        self._conceded: list[Concession] = []
        self._aside = ("", False, 0)  # of the answer before: the text that has not left, and how much had by then
        self._reply_notes = 0  # notes about the requests that have been told

    # ---- what comes in

    def start(self) -> list[Action]:
        """The first request."""
        return self._enter(FIRST[self._plan.kind])

    def feed(self, attempt: int, event: Event) -> list[Action]:
        """An event of the answer to an attempt."""
        current = self._attempt
        if current is None or current.number != attempt:
            return []
        if type(event) is TextDelta:
            current.raw.append(event.text)
            flow = current.flow
            piece = None if flow is None else flow(event)
            if piece is not None:
                # The way of nearly every event: nothing to be read, nothing to be held back.
                current.events.append(piece)
                gate = self._gate
                if gate.flows if type(piece) is TextDelta else type(piece) is CallArgs and piece.index == gate.flowing:
                    return [Emit([piece])]
                return [Emit(out)] if (out := gate.take([piece])) else []
        elif isinstance(event, _FRAME):
            return self._frame(current, event)
        return self._read(current, event)

    def _read(self, current: _Attempt, event: Event) -> list[Action]:
        if current.over:
            return []
        events = current.reading.feed(event)
        if not events:
            return []
        current.events += events
        out = self._gate.take(events)
        actions: list[Action] = [Emit(out)] if out else []
        if (len(events) > 1 or type(events[0]) is Noted) and self._is_over(events):
            current.over = True
            current.flow = None
            current.reason = "stop"
            if current.request.stream:  # one that is not streamed has been written already, and tells its tokens
                actions += [Stop(current.number), *self.end(current.number)]
        return actions

    def _frame(self, current: _Attempt, event: UsageSeen | Finish | Failure) -> list[Action]:
        if isinstance(event, UsageSeen):
            current.usage = event.usage
        elif isinstance(event, Finish):
            current.reason = current.reason if current.over else event.reason
        else:
            current.failure = None if current.over else event
            return [Stop(current.number), *self.end(current.number)]
        return []

    @staticmethod
    def _is_over(events: list[Event]) -> bool:
        """Whether the model has begun to invent results: whatever follows would be thrown away."""
        return any(isinstance(event, Noted) and event.note.code == "invented_result" for event in events)

    def end(self, attempt: int) -> list[Action]:
        """The answer to an attempt is over."""
        current = self._attempt
        if current is None or current.number != attempt:
            return []
        events = current.reading.close(current.cut)
        current.events += events
        out = (self._gate.take(events) if events else []) + self._gate.settle()
        self._attempt = None
        self._attempts.append(current)
        actions = self._conclude(current, out)
        return [Emit(out), *actions] if out else actions

    # ---- what follows an answer

    def _conclude(self, current: _Attempt, out: list[Event]) -> list[Action]:
        phase = current.phase
        if current.failure is not None:
            return self._failed(current, current.failure)
        if self._gate.passed:
            if not phase.emulates and self._was_text(current):
                self._warn(RESCUED)
            return self._done(current)
        reply = current.reply()
        fault = self._fault(current, reply, out)
        if fault is not None and phase.recovers and self._may_retry(fault):
            return self._retry(current, fault)
        following = self._following(phase.otherwise)
        if following and self._goes_on(following, current, reply):
            if fault is not None and phase.recovers:  # the retries are spent, and what follows brings no call
                current.fault = fault
                self._warn(f"{_UNUSABLE} {self._after(fault)}")
            return self._enter(following)
        if fault is None and self._is_unmet(current):
            fault = Fault("no_call", "a call has left that cannot be used" if self._gate.spoiled else "it was declined")
        if fault is not None:
            return self._give_up(current, fault, out)
        if phase.enforces and self._gate.spoiled and current.reason != "length":
            self._warn(SPOILED)
        return self._done(current)

    def _may_retry(self, fault: Fault) -> bool:
        """Whether to ask again. Who has nothing to say twice is not asked a third time."""
        mute = fault.kind == "empty" and any(
            each.fault is not None and each.fault.kind == "empty" for each in self._attempts
        )
        return self._retries < self._plan.retries and not mute

    def _goes_on(self, following: PhaseName, current: _Attempt, reply: Reply) -> bool:
        """Whether another phase may make up for an answer without a call that can be used.

        It cannot where a call has left in part, where the model was cut off in the middle of one, since the caller
        must learn that, nor where a call is demanded and none can come.
        """
        cut = current.reason == "length" and any(each.verdict == "truncated" for each in reply.candidates)
        demanded = following == "final" and self._request.tool_choice.demands
        return not (cut or demanded or self._gate.spoiled)

    def _is_unmet(self, current: _Attempt) -> bool:
        """Whether a call was due and nothing but the choice itself says that it is missing."""
        asked = self._request.tool_choice.demands and current.phase.reads in ("answer", "envelope")
        return asked and current.reason not in ("length", "content_filter")

    def _was_text(self, current: _Attempt) -> bool:
        """Whether a call stood in the text of the answer."""
        judged = [event.candidate for event in current.events if type(event) is Judged]
        return any(each.verdict == "call" and each.dialect != "native" for each in judged)

    def _fault(self, current: _Attempt, reply: Reply, out: list[Event]) -> Fault | None:
        """What is wrong with an answer of which no call has left."""
        choice = self._request.tool_choice
        if not current.phase.enforces or self._gate.spoiled:
            return None
        if current.phase.reads in ("answer", "envelope"):
            thought = self._thought(current.phase, reply)
            out.extend(thought)
            current.events += thought
            said = reply
            if thought or reply.calls:
                candidates = (*reply.candidates, *(each.candidate for each in thought))
                said = msgspec.structs.replace(reply, calls=(), candidates=candidates)
            fault = diagnose(said, choice, self._asking.offered, self._request.messages)
            fault = fault or self._empty(current, reply)
            if fault is not None:
                return fault
        return self._formatted(current, out)

    def _empty(self, current: _Attempt, reply: Reply) -> Fault | None:
        """Nothing at all was answered, nor thought."""
        said = reply.text if current.phase.reads == "envelope" else "".join(current.raw)
        said += reply.reasoning
        cut = current.reason in _CUTTING or self._request.tool_choice.mode == "none"
        if cut or said.strip() or reply.calls or reply.candidates or reply.opaque:
            return None
        return Fault("empty", "the model answered with nothing")

    def _formatted(self, current: _Attempt, out: list[Event]) -> Fault | None:
        """Let an answer go in the form that the caller wants, if it has one that the upstream was not told of."""
        wanted = self._request.options.response_format
        if wanted is None or not self._forms(current.phase) or current.reason == "length":
            return None
        formatted = checked_format(self._gate.held_text, wanted)
        if formatted.problem:
            return Fault("bad_format", formatted.problem)
        out.extend(Noted(note) for note in formatted.notes)
        out.extend(self._gate.release(formatted.text))
        return None

    def _forms(self, phase: Phase) -> bool:
        """Whether the form of an answer is ours to see to: the upstream was not told of it, or only of a looser one.

        Strict mode knows no optional property: what may be missing comes as null, which the caller may not take.
        """
        strict = phase.name == "envelope" and self._plan.profile.constraint == "openai_strict"
        return (phase.name == "inline" or strict) and self._request.options.response_format is not None

    def _thought(self, phase: Phase, reply: Reply) -> list[Judged]:
        """Calls that a model made in its thinking, in whatever form, where it then said nothing at all."""
        if not reply.reasoning or reply.text.strip() or reply.candidates:
            return []
        readable = self._asking.readable
        found = parse(reply.reasoning, readable, nonce=self._nonce(phase)).candidates
        return [
            Judged(msgspec.structs.replace(each, verdict="reasoning", reason="reasoning"))
            for each in found
            if each.verdict == "call" or (each.reason == "no_nonce" and each.name in toolkit(readable).by_name)
        ]

    def _nonce(self, phase: Phase) -> str | None:
        return None if phase.name in ("native", "trial") else self._asking.nonce

    def _following(self, name: str) -> PhaseName | None:
        return (self._plan.second or "decision") if name == "second" else (name or None)  # type: ignore[return-value]

    def _retry(self, current: _Attempt, fault: Fault) -> list[Action]:
        current.fault = fault
        self._aside = (self._gate.held_text, self._gate.text_left, self._gate.started)
        self._retries += 1
        note = Noted(Note(f"retry_{fault.kind}", fault.detail))
        request = self._asking.again(current.phase.name, current.request, "".join(current.raw), fault, self._retries)
        # What has been streamed stays; the text of the new answer would only say it again.
        text: TextPolicy = "never" if self._gate.text_left else self._text_policy(current.phase)
        return [Emit([note]), *self._ask(current.phase, request, text)]

    def _failed(self, current: _Attempt, failure: Failure) -> list[Action]:
        phase = current.phase
        untouched = not current.raw and not current.events
        following = self._following(phase.unsupported)
        refused = failure.status in _REFUSING and "tool" in f"{failure.message} {failure.body}".lower()
        # Where a call is demanded that no prompt can ask for, the upstream's refusal is the answer.
        askable = self._asking.teachable or not self._request.tool_choice.demands
        if following and untouched and refused and askable:
            return [Emit([Noted(Note("native_unsupported", failure.message[:_SHOWN]))]), *self._enter(following)]
        conceded = concession(failure, current.request, self._plan.profile) if phase.emulates and untouched else None
        if conceded is not None:
            self._plan = self._asking.concede(conceded)
            self._conceded.append(conceded)
            return [Emit([Noted(Note(conceded.code, failure.message[:_SHOWN]))]), *self._enter(phase.name)]
        return self._answered_before(current, failure) or self._done(current, failure)

    def _answered_before(self, current: _Attempt, failure: Failure) -> list[Action]:
        """Asking again has failed, but there is an answer, if not the one hoped for: the caller gets that."""
        before = next((each for each in self._attempts[-2:-1] if each.phase is current.phase), None)
        fault = before.fault if before is not None else None
        if before is None or fault is None or fault.kind == "bad_format" or self._request.tool_choice.demands:
            return []
        held, *left = self._aside
        if current.phase.text != "opening" or left != [self._gate.text_left, self._gate.started]:
            return []  # the caller has seen something of the answer that broke off
        self._warn(f"{_UNUSABLE} {self._after(fault)}; asking again failed: {failure.message[:_SHOWN]}")
        kept = self._gate.release(held)
        return [Emit(kept), *self._done(before)] if kept else self._done(before)

    def _give_up(self, current: _Attempt, fault: Fault, out: list[Event]) -> list[Action]:
        """The retries are spent."""
        if not self._request.tool_choice.demands:
            fault = self._formatted(current, out) or fault
        current.fault = fault
        after = self._after(fault)
        if fault.kind == "bad_format":
            return self._done(current, Failure(f"no answer in the form asked for {after}", "format"))
        if self._request.tool_choice.demands:
            return self._done(current, Failure(f"no call that `tool_choice` allows {after}", "tool_choice"))
        self._warn(f"{_UNUSABLE} {after}")
        return self._done(current)

    def _after(self, fault: Fault) -> str:
        told = f"{fault.kind.replace('_', ' ')}{': ' if fault.detail else ''}{fault.detail}"
        return f"after {len(self._attempts)} request{'s'[len(self._attempts) == 1 :]}: {told}"

    # ---- requests

    def _enter(self, name: PhaseName) -> list[Action]:
        phase = PHASES[name]
        untaught = phase.emulates and not self._asking.teachable
        if untaught:  # a prompt that lists no tool only makes the model speak of some
            phase = PHASES["final"]
        if phase.emulates:
            self._warn(EMULATED)
        if phase.emulates or untaught or (self._plan.rule == "no_functions" and self._plan.kind == "plain"):
            self._warn_dropped()
        request = self._asking.request(phase.name)
        return self._ask(phase, request, self._text_policy(phase))

    def _warn_dropped(self) -> None:
        """Say which tools no prompt can teach."""
        for tool in self._asking.dropped:
            self._warn(f"the tool `{tool.name}` of type `{tool.kind}` was dropped: it cannot be emulated")
        for tool in self._asking.unnamed:
            self._warn(f"the tool `{shown_name(tool.name)}` was dropped: no prompt can show its name")

    def _text_policy(self, phase: Phase) -> TextPolicy:
        if phase.text != "opening":
            return phase.text
        if self._request.tool_choice.demands:
            return "until_call"
        if self._forms(phase):
            return "to_end"
        return "live" if self._request.tool_choice.mode == "none" else phase.text

    def _ask(self, phase: Phase, request: Request, text: TextPolicy) -> list[Action]:
        number = len(self._attempts) + 1
        self._gate.begin(text)
        reading = self._reading(phase, whole=not request.stream)
        if not self._plan.profile.repeats and phase.enforces:
            reading = Once(reading)
        self._attempt = _Attempt(number, phase, request, reading)
        fresh = [Noted(note) for note in self._asking.notes[self._reply_notes :]]
        self._reply_notes += len(fresh)
        asking: list[Action] = [Ask(number, request)]
        return [Emit(list(fresh)), *asking] if fresh else asking

    def _reading(self, phase: Phase, *, whole: bool) -> Reading:
        if phase.reads == "relay":
            return Relay()
        asking, policy = self._asking, self._plan.policy
        if phase.reads == "plain":
            return Answer((), policy, thinking=True)
        untrusted, copied = asking.untrusted(phase.name), asking.copied
        if phase.reads == "envelope":
            return Envelope(asking.readable, policy, asking.nonce, untrusted, copied)
        if phase.name == "decision":
            return Decision(asking.readable, policy, asking.nonce, untrusted, copied)
        native = phase.name in ("native", "trial")
        scan = not native or self._plan.rescue
        thinking = not scan and self._plan.profile.leaks
        return Answer(
            asking.readable,
            policy,
            nonce=self._nonce(phase),
            untrusted=untrusted,
            copied=copied,
            scan=scan,
            thinking=thinking,
            whole=whole,
        )

    # ---- the end

    def _warn(self, warning: str) -> None:
        if warning not in self._warnings:
            self._warnings.append(warning)

    def _done(self, current: _Attempt, failure: Failure | None = None) -> list[Action]:
        # Where an answer breaks off, what has come of it is the caller's; where none could be used, it is not.
        kept = failure is None or (failure is current.failure and not self._request.tool_choice.demands)
        events: list[Event] = self._gate.release() if kept else []
        events += self._gate.finish()
        usage = current.usage if len(self._attempts) == 1 else sum((each.usage for each in self._attempts), Usage())
        events.append(UsageSeen(usage))
        if failure is not None:
            events.append(failure)
        reason = current.reason
        if self._gate.passed and reason in ("stop", "unknown"):
            reason = "tool_calls"
        elif reason == "tool_calls" and not self._gate.passed and current.phase.enforces:
            reason = "stop"
        events.append(Finish("error" if failure is not None else reason))
        return [Emit(events), Done(self._outcome(failure))]

    @property
    def answered(self) -> tuple[AttemptTrace, ...]:
        """The requests whose answers are over: of a turn that somebody leaves there is no outcome that tells them."""
        return tuple(map(_traced, self._attempts))

    def _outcome(self, failure: Failure | None) -> Outcome:
        no_call = Note("") if self._gate.passed else self._why_no_call()
        trace = Trace(
            plan=self._plan.kind,
            rule=self._plan.rule,
            why=self._plan.why,
            attempts=self.answered,
            contract_tokens=self._asking.contract_tokens,
            why_no_call=no_call.detail,
            policy=self._plan.policy,
            nonce="" if self._plan.kind == "pass" else self._asking.nonce or "",
            no_call_code=no_call.code,
        )
        # What did not help was not what the upstream refused.
        learned = () if failure is not None else tuple(self._conceded)
        return Outcome(len(self._attempts), tuple(self._warnings), failure, trace, learned)

    def _why_no_call(self) -> Note:
        """As a code, and in one line for people."""
        last = self._attempts[-1]
        if self._request.tools and self._request.tool_choice.mode == "none":
            return Note("tool_choice_none", "`tool_choice` is none")
        if not any(attempt.request.tools or attempt.phase.emulates for attempt in self._attempts):
            return Note("no_tools", "no tools reached the model")
        if last.failure is not None:
            return Note("upstream_failed", f"the upstream failed: {last.failure.message}")
        fault = last.fault or self._undecided()
        if fault is not None:
            return Note(fault.kind, in_words(fault))
        rejected = [each for attempt in self._attempts for each in attempt.reply().candidates if each.verdict != "call"]
        if rejected:
            reason = rejected[-1].reason
            return Note(reason, f"`{rejected[-1].name}` was not taken for a call: {because(reason)}")
        if last.reason == "length":
            return Note("length", "the answer was cut off by its length limit")
        return Note("not_called", "the model answered without calling a tool")

    def _undecided(self) -> Fault | None:
        """What was wrong with the decision, where an answer without tools had to follow it."""
        behind = self._attempts[-2:]
        return behind[0].fault if behind[0].phase.otherwise == "final" else None


def _check_choice(request: Request, plan: Plan) -> None:
    """Refuse what no answer can meet. Where tools are not ours to offer, the choice is not ours to judge."""
    choice = request.tool_choice
    untouched = plan.kind == "pass" and plan.rule != "no_tools"
    if untouched or plan.rule == "chat_only" or not (choice.demands or (choice.allowed and choice.mode != "none")):
        return
    names = {
        tool.name
        for tool in request.tools
        if plan.kind in _NATIVE or (tool.kind in TEACHABLE and plain_name(tool.name))
    }
    missing = [name for name in choice.allowed if name not in names]
    if missing:
        told = ", ".join(f"`{name}`" for name in missing)
        raise UsageError(f"`tool_choice` names tools that are not there: {told}", hint="list them in `tools`")
    if choice.demands and not names:
        raise UsageError("`tool_choice` demands a call, but there is no tool to call", hint="add tools")


def _traced(attempt: _Attempt) -> AttemptTrace:
    reasoning, candidates, notes = _told(attempt)
    return AttemptTrace(
        phase=attempt.phase.name,
        request=attempt.request,
        raw="".join(attempt.raw),
        reasoning=reasoning,
        candidates=candidates,
        notes=notes,
        finish_reason=attempt.reason,
        usage=attempt.usage,
        fault=attempt.fault,
    )


def _told(attempt: _Attempt) -> tuple[str, tuple[Candidate, ...], tuple[Note, ...]]:
    """What was thought, judged and noted in an answer, without putting its calls together."""
    if attempt.phase.reads == "relay":  # nobody has looked at its calls but whoever folds them
        reply = attempt.reply()
        return reply.reasoning, reply.candidates, reply.notes
    reasoning: list[str] = []
    candidates: list[Candidate] = []
    notes: list[Note] = []
    for event in attempt.events:
        if type(event) is ReasoningDelta:
            reasoning.append(event.text)
        elif type(event) is Judged:
            candidates.append(event.candidate)
        elif type(event) is Noted:
            notes.append(event.note)
        elif type(event) is CallEnd:
            notes.extend(event.notes)
    return "".join(reasoning), tuple(candidates), tuple(notes)
