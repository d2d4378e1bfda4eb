"""Turn engine: the state machine of one turn. It takes upstream events and returns actions.

    engine = Engine(request, plan, settings, stamp=unix_ns, nonces=..., see="`toolspeak explain 3f2a9c`")
    actions = engine.start()                  # [AskUpstream(1, request)]
    actions = engine.feed(1, event)           # [Emit([...])], [StopAttempt(1), AskUpstream(2, ...)], ...
    actions = engine.end(1)                   # the answer has ended: [Emit, Done] or [AskUpstream(2, ...)]

`phases` defines the order of requests. `answer_readers` parses answers. `output_gate` decides which events are
emitted and when. `diagnosis` finds faults. Events of a stopped attempt are ignored.
The engine is deterministic: it uses no clock and no randomness. The caller passes in the id stamp and the nonces.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import groupby

import msgspec

from ...core.events import (
    CallArgs,
    CallEnd,
    CallStart,
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
from ...core.parsing.copied_values import is_cut_whole
from ...core.parsing.tool_index import TEACHABLE, toolkit
from ...core.plugin_hook import depends_on_dialects
from ...core.text import counted
from ...core.types import Note, Request, ToolChoice, Usage
from ...dialects.mark_tables import mark_tables
from ...errors import UsageError
from ...parsing import parse
from ..context.complaints import context_complaint
from ..planning.strategy import Plan, Settings, carries_nonce
from ..prompting.escaping import display_name, is_plain_name, restore
from ..prompting.tool_use_detection import has_tool_history
from ..refusals.classifier import may_decline
from ..refusals.unknown_language import MAX_ANSWER, has_known_language, may_become_unknown
from . import answer_readers as readers
from .actions import EMULATED, INTERPRETED, Action, AskUpstream, Done, Emit, StopAttempt, TurnOutcome
from .diagnosis import diagnose, is_doubtful, is_mistaken, may_be_interpreted
from .faults import SEE_TRACE, Fault, closing_sentence, fault_text, reason_text
from .interpretation import MAX_ANSWER as MAX_INTERPRETED
from .interpretation import Interpretation, Interpreter
from .observations import written_dialect
from .output_gate import CHECKED, LIVE, MAX_HELD_CHARS, OutputGate, TextPolicy
from .phases import FIRST_PHASE, PHASES, Phase, PhaseName
from .request_builder import RequestBuilder
from .response_format import REFUSAL, check_format, is_refusal
from .trace import NOT_CALLED, AttemptTrace, Trace
from .upstream_limits import (
    NO_NATIVE_TOOLS,
    TOOL_REJECTION_STATUSES,
    UpstreamLimitation,
    demands_alternation,
    detect_limitation,
    names_tools,
    native_tools_limitation,
)
from .whole_calls import ENVELOPE, form_learner, read_native

RESCUED = "tool calls read from text"
SPOILED = "a call was streamed, but its arguments are unusable"
_UNUSABLE = "no usable tool call"
_CHOICE_DROPPED = "`tool_choice` was dropped: it requires a call, but chat-only mode allows none"
_ANY = ToolChoice()
#: Maximum length of an upstream error message quoted in notes and warnings.
_MAX_MESSAGE_CHARS = 200
#: Faults that a server may cause by removing a call that it could not parse, but only if tools are sent natively.
_SWALLOWED = frozenset({"empty", "described"})
#: Finish reasons after which the last call may be incomplete.
_CUTTING = frozenset({"length", "content_filter", "error"})
#: Plans that send tools of every type to the upstream.
_NATIVE = frozenset({"pass", "native", "fallback"})
#: A word where a call carries its nonce: in a tag. The pattern begins with a literal, which makes the search fast.
_WORD_IN_TAG = re.compile(r"(<[\w:.|-]{1,64})\s{1,4}[^\s<>/=]{1,64}(?=\s{0,4}>)")
#: Kinds of opaque parts, in all protocols, that describe an answer, a call or reasoning but are no content themselves.
_METADATA = re.compile(
    r"\w+_(?:timings|usage|candidate|prompt|call|answer)|(?:redacted_)?thinking|citations|tool_use|stop|usage|logprobs"
    r"|response|phase|start:.*|annotation:.*|item:reasoning"
).fullmatch
#: How much of a call is held back, by the plan's `stream_calls`.
_MAX_HELD = {"live": LIVE, "held": MAX_HELD_CHARS, "checked": CHECKED}
#: Phases in which the prompt shows the model how to write a call in its answer.
_TAUGHT = frozenset({"both", "inline", ENVELOPE})
#: The events of a call that comes whole, and those that follow it if it is all of the answer.
_CALL_EVENTS, _AFTER_CALL = (CallStart, CallArgs, CallEnd), frozenset({UsageSeen, Finish})
#: Events that describe an answer but carry none of its content.
_FRAME = (UsageSeen, Finish, Failure)


class _Attempt(msgspec.Struct, eq=False):
    """One upstream request and its answer so far."""

    number: int
    phase: Phase
    request: Request
    reader: readers.AnswerReader | None = None  # created with the first piece of the answer
    flow: readers.Flow | None = None
    raw: list[str] = []  # the pieces of its text
    events: list[Event] = []  # the output of the reader
    reason: FinishReason = "unknown"
    usage: Usage = Usage()
    failure: Failure | None = None
    fault: Fault | None = None
    over: bool = False  # whether the rest of the answer is discarded
    _folded: tuple[int, Reply] | None = None  # the number of events folded, and the result

    @property
    def cut(self) -> bool:
        """Whether the answer was cut off, which makes an open call incomplete."""
        return self.reason in _CUTTING or self.failure is not None or self.over

    def reply(self) -> Reply:
        """Combine the events received so far into a reply."""
        if self._folded is None or self._folded[0] != len(self.events):
            reply = fold([*self.events, UsageSeen(self.usage), Finish(self.reason)])
            self._folded = (len(self.events), reply)
        return self._folded[1]


@depends_on_dialects
@cache
def _word_in_fence() -> re.Pattern[str]:
    """Return the pattern of a word where a call carries its nonce: after the info string of a fence."""
    fences = "|".join(sorted(mark_tables().action_fences, reverse=True))
    return re.compile(rf"(```(?:{fences})|~~~(?:{fences}))[ \t]{{1,4}}[^\s`]{{1,64}}(?=[ \t]{{0,4}}\n)")


def _without_calls(builder: RequestBuilder, text: str) -> str:
    """Remove the markup of calls from the text of an answer whose calls were rejected."""
    # Without a nonce, any word in its place is a mistake.
    text = _WORD_IN_TAG.sub(r"\1", _word_in_fence().sub(r"\1", text))
    text = parse(text, builder.readable_tools, policy="eager").text
    return parse(text).text


def _may_be_checked(streams: bool, opening: str) -> bool:
    """Whether to hold the opening of an answer because the answer may have to be checked."""
    if streams:
        return may_become_unknown(opening)
    return len(opening) <= MAX_ANSWER and (has_known_language(opening) is False or may_decline(opening))


class Engine:
    """The state machine of one turn."""

    #: The answer that a decision request checks, because no or few rules cover its language.
    _checked: _Attempt | None = None
    #: The request to the interpreter, which is none of the attempts, and the answer that it is about.
    _interpretation: _Attempt | None = None
    _interpreted: tuple[_Attempt, Reply, Fault | None] | None = None

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
        see: str = SEE_TRACE,
        interpreter: Interpreter | None = None,
    ) -> None:
        self._interpreter = interpreter
        self._warnings: list[str] = [plan.warning] if plan.warning else []
        self._see = see
        if settings.chat_only and request.tool_choice.demands:
            self._warn(_CHOICE_DROPPED)
            request = msgspec.structs.replace(request, tool_choice=_ANY)
        _check_choice(request, plan)
        self._request = request
        self._plan = plan
        self._builder = RequestBuilder(request, plan, settings, nonces=nonces, protocol=protocol, templates=templates)
        self._builder.notes.extend(notes)
        choice = request.tool_choice if PHASES[FIRST_PHASE[plan.kind]].enforces else _ANY
        relays = plan.kind == "pass"
        self._drops_text = settings.text_before_calls == "drop" and not relays
        self._checks_languages = (
            settings.check_other_languages and choice.mode == "auto" and self._builder.has_teachable_tools
        )
        # The gate must not refer to the engine: only a garbage collection would free the two.
        self._without_calls = partial(_without_calls, self._builder)
        self._gate = OutputGate(
            choice,
            lambda index: f"emulated_{stamp}_{index}",
            LIVE if relays else _MAX_HELD[plan.stream_calls],
            self._builder.nonce,
            trims=not relays,
            without_calls=self._without_calls,
            holds=partial(_may_be_checked, request.stream) if self._checks_languages else None,
        )
        self._attempts: list[_Attempt] = []
        self._attempt: _Attempt | None = None
        self._retries = 0
        self._limitations: list[UpstreamLimitation] = []
        #: State saved before a retry: the held text, whether text was emitted, and how many calls were announced.
        self._fallback = ("", False, 0)
        self._climbed = False  # whether retries have reached another plan
        self._emitted_notes = 0  # number of request builder notes already emitted

    # ---- input

    def start(self) -> list[Action]:
        """Send the first request."""
        return self._enter("both" if self._plan.tries_native else FIRST_PHASE[self._plan.kind])

    def feed(self, attempt: int, event: Event) -> list[Action]:
        current = self._attempt
        if current is None or current.number != attempt:
            return []
        if type(event) is TextDelta:
            flow = current.flow
            if flow is None and current.reader is None:
                if not current.raw and not current.request.stream and (actions := self._read_call(current, event.text)):
                    return actions
                self._open_reader(current)
            current.raw.append(event.text)
            piece = None if flow is None else flow(event)
            if piece is not None:
                # Fast path for nearly every event: nothing to parse, usually nothing to hold back.
                current.events.append(piece)
                gate = self._gate
                if (
                    gate.text_streams
                    if type(piece) is TextDelta
                    else type(piece) is CallArgs and piece.index == gate.streaming_call
                ):
                    return [Emit([piece])]
                return [Emit(out)] if (out := gate.take([piece])) else []
        elif isinstance(event, _FRAME):
            return self._frame(current, event)
        return self._read(current, event)

    def read_whole(self, attempt: int, events: list[Event]) -> list[Action]:
        """Process a complete answer, as `feed` and `end` do, and return the resulting actions."""
        actions: list[Action] = []
        if tuple(map(type, events[:3])) == _CALL_EVENTS and _AFTER_CALL.issuperset(map(type, events[3:])):
            actions = self._read_native_call(*events[:2])
        for event in events[3:] if actions else events:
            actions += self.feed(attempt, event)
        return actions + self.end(attempt)

    def _read_native_call(self, start: Event, arguments: Event) -> list[Action]:
        """Read the only call of an answer at once. Returns an empty list if it has to be examined more closely."""
        plan, current, gate = self._plan, self._attempt, self._gate
        assert current is not None and type(start) is CallStart and type(arguments) is CallArgs
        doubtful = plan.tries_native or plan.rule == "learned" or plan.unmarked == "confirm" or gate.restores
        kit = toolkit(self._builder.readable_tools)
        if self._attempts or doubtful or current.phase.name != "native" or not kit.is_kept:
            return []
        events = read_native(start, arguments.fragment, kit, plan.policy)
        out = gate.take_first_call(start.name, events[1].fragment, start.id) if events is not None else []
        if events is None or not out:
            return []
        current.events += events
        return [Emit([*out, events[-1]])]

    def _read_call(self, current: _Attempt, text: str) -> list[Action]:
        """Read an answer that is one call at once. Returns an empty list if it is not, or not certainly."""
        plan, builder, gate = self._plan, self._builder, self._gate
        nonce = builder.nonce
        if self._attempts or nonce is None or current.phase.name not in _TAUGHT or plan.unmarked == "confirm":
            return []
        kit = toolkit(builder.readable_tools)
        if gate.restores or not kit.is_kept:
            return []
        dialect = ENVELOPE if current.phase.name == ENVELOPE else plan.dialect
        form = kit.derive(form_learner(dialect, plan.policy, plan.unmarked != "never"))
        events = form.read(text, nonce, kit) if form is not None else None
        if events is None:
            return []
        start, arguments, _, judged = events
        candidate = judged.candidate
        if is_cut_whole(text, candidate.arguments, builder.copyable_texts) or builder.is_example(candidate):
            return []
        out = gate.take_first_call(start.name, arguments.fragment)
        if not out:
            return []
        current.raw.append(text)
        current.events += events
        return [Emit([*out, judged])]

    def _read(self, current: _Attempt, event: Event) -> list[Action]:
        if current.over:
            return []
        reader = current.reader or self._open_reader(current)
        events = reader.feed(event)
        current.flow = reader.flow
        if not events:
            return []
        current.events += events
        out = self._take(current, events)
        actions: list[Action] = [Emit(out)] if out else []
        if (len(events) > 1 or type(events[0]) is Noted) and self._is_over(events):
            current.over = True
            current.flow = None
            current.reason = "stop"
            if current.request.stream:  # an unstreamed answer is already complete; its usage follows
                actions += [StopAttempt(current.number), *self.end(current.number)]
        return actions

    def _take(self, current: _Attempt, events: list[Event]) -> list[Event]:
        """Pass events to the gate. Text is held from the point where the model seems to have made a faulty call."""
        out: list[Event] = []
        start = 0
        for at, event in enumerate(events):
            if type(event) is Judged and current.phase.recovers and self._is_mistaken(event.candidate):
                out += self._gate.take(events[start:at])
                self._gate.hold_text()
                start = at
        return out + self._gate.take(events[start:] if start else events)

    def _is_mistaken(self, candidate: Candidate) -> bool:
        builder, request = self._builder, self._request
        return is_mistaken(candidate, request.tool_choice, builder.offered_tools, request.messages)

    def _frame(self, current: _Attempt, event: UsageSeen | Finish | Failure) -> list[Action]:
        if isinstance(event, UsageSeen):
            current.usage = event.usage
        elif isinstance(event, Finish):
            current.reason = current.reason if current.over else event.reason
        else:
            current.failure = None if current.over else event
            return [StopAttempt(current.number), *self.end(current.number)]
        return []

    @staticmethod
    def _is_over(events: list[Event]) -> bool:
        """Whether the model has started to invent tool results. The rest of the answer is then discarded."""
        return any(isinstance(event, Noted) and event.note.code == "invented_result" for event in events)

    def end(self, attempt: int) -> list[Action]:
        """End the answer of this attempt: finish the turn, retry or start the next phase."""
        current = self._attempt
        if current is None or current.number != attempt:
            return []
        events = current.reader.close(current.cut) if current.reader is not None else []
        current.events += events
        if current is self._interpretation:
            return self._conclude_interpretation(current, events)
        out = (self._take(current, events) if events else []) + self._gate.settle()
        self._attempt = None
        self._attempts.append(current)
        conclude = self._conclude if self._checked is None else self._conclude_check
        actions = conclude(current, out)
        return [Emit(out), *actions] if out else actions

    # ---- conclusions

    def _conclude(self, current: _Attempt, out: list[Event]) -> list[Action]:
        if current.failure is not None:
            return self._failed(current, current.failure)
        if self._gate.emitted_calls:
            return self._done_with_calls(current)
        reply = current.reply()
        described = None if self._gate.spoiled else self._builder.describe_tools(reply)
        if described is not None:
            return self._ask_with_descriptions(current, described)
        fault = self._fault(current, reply, out)
        return self._interpret(current, reply, fault) or self._conclude_without_call(current, reply, fault, out)

    def _conclude_without_call(
        self, current: _Attempt, reply: Reply, fault: Fault | None, out: list[Event]
    ) -> list[Action]:
        phase = current.phase
        if fault is not None and (phase.recovers or fault.kind == "bad_format") and self._may_retry(fault):
            return self._retry(current, fault)
        following = None if self._climbed else self._following(phase.otherwise)
        if following and self._goes_on(following, current, reply):
            if fault is not None and phase.recovers:  # retries are used up, and the next phase makes no calls
                current.fault = fault
                self._warn(f"{_UNUSABLE} {self._after(fault)}")
            return self._enter(following)
        fault = fault or self._missing_call(current)
        if fault is not None:
            return self._give_up(current, fault, out)
        if phase.enforces and self._gate.spoiled and current.reason != "length":
            self._warn(SPOILED)
        return self._check(current, reply) or self._done(current)

    # ---- answers that describe a call

    def _interpret(self, current: _Attempt, reply: Reply, fault: Fault | None) -> list[Action]:
        """Ask the interpreter, once per turn, if the answer may describe a call or contain one that cannot be read."""
        interpreter, builder, request = self._interpreter, self._builder, self._request
        if interpreter is None or self._interpretation is not None or not current.phase.recovers:
            return []
        text = restore(reply.text if not reply.candidates else "".join(current.raw))
        if not 0 < len(text) <= MAX_INTERPRETED or self._gate.announced_calls or request.options.response_format:
            return []
        if not may_be_interpreted(reply, fault, request.tool_choice, builder.offered_tools, request.messages):
            return []
        current.fault = fault
        reader = Interpretation(interpreter, text, request.messages, builder)
        attempt = _Attempt(len(self._attempts) + 1, PHASES["interpretation"], reader.request)
        attempt.reader = reader
        self._attempt = self._interpretation = attempt
        self._interpreted = (current, reply, fault)
        return [AskUpstream(attempt.number, attempt.request, interpreter=True)]

    def _conclude_interpretation(self, attempt: _Attempt, events: list[Event]) -> list[Action]:
        """End the turn with the calls of the interpreter. Without one, go on as if it had not been asked."""
        assert self._interpreted is not None
        self._attempt = None
        names = [event.name for event in events if type(event) is CallStart]
        if names:
            self._warn(INTERPRETED)
            self._gate.begin("never")
            listed = ", ".join(f"`{name}`" for name in names)
            note = Note("call_interpreted", f"read from the text of the answer: {listed}")
            return [Emit([Noted(note), *self._gate.take(events), *self._gate.settle()]), *self._done(attempt)]
        notes = [event for event in events if type(event) is Noted]
        if attempt.failure is not None:
            notes.append(Noted(Note("interpretation_failed", attempt.failure.message[:_MAX_MESSAGE_CHARS])))
        out: list[Event] = [*notes]
        actions = self._conclude_without_call(*self._interpreted, out)
        return [Emit(out), *actions] if out else actions

    # ---- answers in languages with no or few rules

    def _check(self, current: _Attempt, reply: Reply) -> list[Action]:
        """Ask the model to decide whether to call a tool, if an answer of which nothing was emitted is doubtful."""
        holds_text = current.phase.text == "opening" and not self._gate.text_emitted
        offered, messages = self._builder.offered_tools, self._request.messages
        if not self._checks_languages or not holds_text or not is_doubtful(reply, offered, messages):
            return []
        self._checked = current
        note = Note("answer_checked", "a decision request follows: refusals in this language are hard to recognise")
        return [Emit([Noted(note)]), *self._ask(PHASES["decision"], self._builder.build("decision"), "never")]

    def _conclude_check(self, decision: _Attempt, out: list[Event]) -> list[Action]:
        """End the turn with the call that was decided on, or with the checked answer."""
        if self._checked is None or self._gate.emitted_calls:
            self._warn(EMULATED)
            return self._done(decision)
        if decision.failure is not None:
            self._warn(f"the check of the answer failed: {decision.failure.message[:_MAX_MESSAGE_CHARS]}")
        return [Emit(self._gate.fall_back()), *self._done(self._checked)]

    def _missing_call(self, current: _Attempt) -> Fault | None:
        """Return the fault of an answer that should contain a call, but does not."""
        if self._is_unmet(current):
            return Fault("no_call", "an unusable call was streamed" if self._gate.spoiled else "the model declined")
        declined = self._climbed and current.phase.name == "decision"
        return self._attempts[-2].fault if declined else None

    def _ask_with_descriptions(self, current: _Attempt, note: Note) -> list[Action]:
        phase = current.phase
        actions = self._ask(phase, self._builder.build(phase.name), self._text_policy(phase))
        if self._gate.text_emitted:
            self._gate.take([TextDelta("\n\n")])  # the gate keeps it until other text follows
        return [Emit([Noted(note)]), *actions]

    def _done_with_calls(self, current: _Attempt) -> list[Action]:
        """End the turn with the calls of an answer. A request for descriptions beside them is not answered."""
        if not current.phase.emulates and self._was_text(current):
            self._warn(RESCUED)
        inner = self._builder.describe
        if inner and any(call.name == inner for call in current.reply().calls):
            note = Note(
                "description_call_dropped", f"a call of `{inner}` was dropped, because other calls came with it"
            )
            return [Emit([Noted(note)]), *self._done(current)]
        return self._done(current)

    def _may_retry(self, fault: Fault) -> bool:
        """Whether another retry is allowed. A second empty answer is not retried."""
        mute = fault.kind == "empty" and any(
            each.fault is not None and each.fault.kind == "empty" for each in self._attempts
        )
        return self._retries < self._plan.retries and not mute

    def _goes_on(self, following: PhaseName, current: _Attempt, reply: Reply) -> bool:
        """Whether to continue with the next phase after an answer without a usable call.

        The turn ends instead if part of a call was already emitted, if a call was cut off by the token limit (the
        caller must see this), or if `tool_choice` requires a call and the next phase makes none.
        """
        cut = current.reason == "length" and any(each.verdict == "truncated" for each in reply.candidates)
        call_required = following == "final" and self._request.tool_choice.demands
        return not (cut or call_required or self._gate.spoiled)

    def _is_unmet(self, current: _Attempt) -> bool:
        """Whether `tool_choice` required this answer to contain a call. Always false if the answer was cut off."""
        call_required = self._request.tool_choice.demands and current.phase.reads in ("answer", "envelope")
        return call_required and current.reason not in ("length", "content_filter")

    def _was_text(self, current: _Attempt) -> bool:
        """Whether the answer contains a call written as text."""
        judged = [event.candidate for event in current.events if type(event) is Judged]
        return any(each.verdict == "call" and each.dialect != "native" for each in judged)

    def _fault(self, current: _Attempt, reply: Reply, out: list[Event]) -> Fault | None:
        """Return the fault of an answer from which no call was emitted, or None."""
        choice = self._request.tool_choice
        if not current.phase.enforces or self._gate.spoiled:
            return None
        if current.phase.reads in ("answer", "envelope"):
            in_reasoning = self._calls_in_reasoning(current.phase, reply)
            out.extend(in_reasoning)
            current.events += in_reasoning
            diagnosed = reply
            if in_reasoning or reply.calls:
                candidates = (*reply.candidates, *(each.candidate for each in in_reasoning))
                diagnosed = msgspec.structs.replace(reply, calls=(), candidates=candidates)
            fault = diagnose(diagnosed, choice, self._builder.offered_tools, self._request.messages)
            fault = fault or self._empty(current, reply)
            if fault is not None:
                return fault
        return self._formatted(current, out)

    def _empty(self, current: _Attempt, reply: Reply) -> Fault | None:
        """Return a fault if the answer has no text, reasoning, calls or opaque parts."""
        text = reply.text if current.phase.reads == "envelope" else "".join(current.raw)
        text += reply.reasoning
        cut = current.reason in _CUTTING or self._request.tool_choice.mode == "none"
        if cut or text.strip() or reply.calls or reply.candidates or _has_content(reply):
            return None
        return Fault("empty", "the model returned no content")

    def _formatted(self, current: _Attempt, out: list[Event]) -> Fault | None:
        """Check the held text against the response format, if needed. Emit it, or return the fault."""
        response_format = self._request.options.response_format
        if response_format is None or not self._checks_format(current.phase) or current.reason in _CUTTING:
            return None
        formatted = check_format(self._gate.held_text, response_format)
        if formatted.problem and not any(note.code == REFUSAL for note in current.reply().notes):
            if not is_refusal(formatted.text):
                return Fault("bad_format", formatted.problem)
            out.append(Noted(Note(REFUSAL, "the model declined instead of answering in the requested format")))
        out.extend(Noted(note) for note in formatted.notes)
        out.extend(self._gate.release(formatted.text))
        return None

    def _checks_format(self, phase: Phase) -> bool:
        """Whether the engine must check the response format because the upstream does not fully enforce it.

        OpenAI's strict mode has no optional properties. It sends null instead, which the caller's schema may forbid.
        """
        if phase.name in ("final", "native"):
            return self._builder.teaches_format
        strict = phase.name == "envelope" and self._plan.profile.constraint == "openai_strict"
        return (phase.name in ("both", "inline") or strict) and self._request.options.response_format is not None

    def _calls_in_reasoning(self, phase: Phase, reply: Reply) -> list[Judged]:
        """Find calls, in any dialect, inside the reasoning of an answer that has no text."""
        if not reply.reasoning or reply.text.strip() or reply.candidates:
            return []
        readable = self._builder.readable_tools
        candidates = parse(reply.reasoning, readable, nonce=self._nonce(phase)).candidates
        return [
            Judged(msgspec.structs.replace(each, verdict="reasoning", reason="reasoning"))
            for each in candidates
            if each.verdict == "call" or (each.reason == "no_nonce" and each.name in toolkit(readable).by_name)
        ]

    def _nonce(self, phase: Phase) -> str | None:
        return None if phase.name in ("native", "trial") else self._builder.nonce

    def _following(self, name: str) -> PhaseName | None:
        return (self._plan.second or "decision") if name == "second" else (name or None)  # type: ignore[return-value]

    def _retry(self, current: _Attempt, fault: Fault) -> list[Action]:
        current.fault = fault
        text = self._gate.held_text or self._fallback[0]
        self._fallback = (text, self._gate.text_emitted, self._gate.announced_calls)
        self._retries += 1
        notes = [Note(f"retry_{fault.kind}", fault.detail)]
        phase, base = self._climb(current, fault, notes)
        request = self._builder.retry_request(phase.name, base, "".join(current.raw), fault, self._retries)
        # Emitted text cannot be retracted, and the text of the new answer would only repeat it.
        policy: TextPolicy = "never" if self._gate.text_emitted else self._text_policy(phase)
        return [Emit([Noted(note) for note in notes]), *self._ask(phase, request, policy)]

    def _climb(self, current: _Attempt, fault: Fault, notes: list[Note]) -> tuple[Phase, Request]:
        """Choose how to ask again, and build the request without the complaint.

        The second try uses the dialect that the model wrote by itself, and the third another plan. If that would change
        nothing, the request is repeated.
        """
        phase = current.phase
        if fault.kind == "bad_format" or self._request.options.response_format is not None:
            return phase, current.request
        if self._retries == 1 and phase.name in ("both", "inline") and (variant := self._variant(current, notes)):
            request = self._builder.build(variant)
            if variant == "both" and not request.tools:  # there is no room for both copies of the tools
                return PHASES["native"], self._builder.build("native")
            return PHASES[variant], request
        following = self._step(phase) if self._builder.has_teachable_tools else phase.name
        if following == phase.name:
            return phase, current.request
        self._climbed = self._climbed or following != "inline"
        self._warn(EMULATED)
        notes.append(Note("retry_plan", f"asked again with the plan {following}"))
        return PHASES[following], self._builder.build(following)

    def _variant(self, current: _Attempt, notes: list[Note]) -> PhaseName | None:
        """Change how the second try asks for calls. Return the kind of its request, or None if nothing changes."""
        plan = self._plan
        raw, nonce = "".join(current.raw), self._builder.nonce or ""
        candidates = current.reply().candidates
        dialect = written_dialect(candidates, raw, nonce, plan.dialect)
        if dialect and carries_nonce(dialect):
            self._plan = self._builder.change_plan(dialect=dialect)
            notes.append(Note("retry_dialect", f"asked again in the model's own dialect, {dialect}"))
            return "inline"
        if current.request.tools:
            swallowed = current.fault is not None and current.fault.kind in _SWALLOWED
            return "inline" if swallowed else None
        refused = any(each.code == NO_NATIVE_TOOLS.code for each in self._limitations)
        if candidates or refused or plan.unmarked == "never" or not (plan.tries_native or plan.rule == "learned"):
            return None
        notes.append(Note("retry_native", "asked again with native tools as well"))  # the upstream may have changed
        return "both"

    def _step(self, phase: Phase) -> PhaseName:
        if self._retries == 1:
            return "inline" if phase.name == "native" and self._plan.rule in ("probe", "learned") else phase.name
        if phase.name in ("decision", "envelope"):
            return phase.name
        return "envelope" if self._plan.profile.constraint else "decision"

    def _failed(self, current: _Attempt, failure: Failure) -> list[Action]:
        phase = current.phase
        empty = not current.raw and not current.events
        situation = (current.request, self._plan.profile, self._builder.teaches_format)
        limitation = detect_limitation(failure, *situation) if empty else None
        if limitation is None and empty and phase.emulates and current.request.tools:
            limitation = native_tools_limitation(failure, current.request.tool_choice)
            phase = PHASES["inline"]
        if limitation is not None and phase.reads != "relay":
            self._plan = self._builder.apply_limitation(limitation)
            self._limitations.append(limitation)
            return [
                Emit([Noted(Note(limitation.code, failure.message[:_MAX_MESSAGE_CHARS]))]),
                *self._enter(phase.name),
            ]
        following = self._following(phase.unsupported)
        # If merging roles does not help, those of calls and results are the problem.
        rejects_tools = (
            failure.status in TOOL_REJECTION_STATUSES
            and (names_tools(failure) or demands_alternation(failure))
            and context_complaint(failure) is None
        )
        # If a call is required but no prompt can teach the tools, report the upstream's rejection to the caller.
        askable = self._builder.has_teachable_tools or not self._request.tool_choice.demands
        if following and empty and rejects_tools and askable:
            return [
                Emit([Noted(Note("native_unsupported", failure.message[:_MAX_MESSAGE_CHARS]))]),
                *self._enter(following),
            ]
        return self._answered_before(current, failure) or self._done(current, failure)

    def _answered_before(self, current: _Attempt, failure: Failure) -> list[Action]:
        """After a failed retry, fall back to the previous answer unless part of the retry was already emitted."""
        previous = self._attempts[-2] if self._retries and len(self._attempts) > 1 else None
        fault = previous.fault if previous is not None else None
        if previous is None or fault is None or fault.kind == "bad_format" or self._request.tool_choice.demands:
            return []
        _, *emitted = self._fallback
        if previous.phase.text != "opening" or emitted != [self._gate.text_emitted, self._gate.announced_calls]:
            return []
        self._warn(f"{_UNUSABLE} {self._after(fault)}; the retry failed: {failure.message[:_MAX_MESSAGE_CHARS]}")
        events = self._fall_back()
        return [Emit(events), *self._done(previous)] if events else self._done(previous)

    def _fall_back(self) -> list[Event]:
        """Emit the text of the answer before the last retry, without the markup of its rejected calls."""
        return self._gate.fall_back(self._without_calls(self._fallback[0]))

    def _give_up(self, current: _Attempt, fault: Fault, out: list[Event]) -> list[Action]:
        """End the turn with a faulty answer because no retries remain."""
        if not self._request.tool_choice.demands:
            fault = self._formatted(current, out) or fault
        current.fault = fault
        after = self._after(fault)
        if fault.kind == "bad_format":
            return self._done(current, Failure(f"no answer in the requested format {after}", "format"))
        if self._request.tool_choice.demands:
            return self._done(current, Failure(f"no call that `tool_choice` allows {after}", "tool_choice"))
        self._warn(f"{_UNUSABLE} {after}")
        return self._done(current)

    def _after(self, fault: Fault) -> str:
        problem = f"{fault.kind.replace('_', ' ')}{': ' if fault.detail else ''}{fault.detail}"
        return f"after {counted(len(self._attempts), 'request')}: {problem}"

    # ---- requests

    def _enter(self, name: PhaseName) -> list[Action]:
        phase = PHASES[name]
        untaught = phase.emulates and not self._builder.has_teachable_tools
        if untaught:  # with an empty tool list in the prompt, models invent tools
            phase = PHASES["final"]
        if phase.emulates:
            self._warn(EMULATED)
        if phase.emulates or untaught or (self._plan.rule == "no_functions" and self._plan.kind == "plain"):
            self._warn_dropped()
        request = self._builder.build(phase.name)
        return self._ask(phase, request, self._text_policy(phase))

    def _warn_dropped(self) -> None:
        """Warn about each tool that cannot be described in a prompt."""
        for tool in self._builder.dropped_tools:
            self._warn(f"the tool `{tool.name}` of type `{tool.kind}` was dropped: it cannot be emulated")
        for tool in self._builder.unshowable_tools:
            self._warn(f"the tool `{display_name(tool.name)}` was dropped: its name cannot appear in a prompt")

    def _text_policy(self, phase: Phase) -> TextPolicy:
        if phase.text != "opening":
            return "to_end" if self._checks_format(phase) else phase.text
        if self._drops_text:
            return "without_call"
        if self._request.tool_choice.demands:
            return "until_call"
        if self._checks_format(phase):
            return "to_end"
        if self._interpreter is not None and not self._request.stream:
            return "until_call"  # an interpreted text is replaced by its calls
        return "live" if self._request.tool_choice.mode == "none" else phase.text

    def _ask(self, phase: Phase, request: Request, text: TextPolicy) -> list[Action]:
        number = len(self._attempts) + 1 + (self._interpretation is not None)
        self._gate.restores = any(note.code == "specials_neutralised" for note in self._builder.notes)
        self._gate.inner_tool = self._builder.describe
        self._gate.begin(text)
        self._attempt = _Attempt(number, phase, request)
        fresh = [Noted(note) for note in self._builder.notes[self._emitted_notes :]]
        self._emitted_notes += len(fresh)
        actions: list[Action] = [AskUpstream(number, request)]
        return [Emit(list(fresh)), *actions] if fresh else actions

    def _open_reader(self, attempt: _Attempt) -> readers.AnswerReader:
        """Create the reader of an answer. It reads again what was read without it."""
        phase, request = attempt.phase, attempt.request
        reader = self._reader(phase, whole=not request.stream)
        if phase.reads in ("answer", "envelope"):
            reader = readers.CopiedValueFilter(
                reader, attempt.raw, self._builder.copyable_texts, self._builder.is_example
            )
        repeats = self._plan.profile.repeats
        if phase.enforces and (not repeats or (phase.reads == "answer" and request.tools and self._scans(phase))):
            reader = readers.DuplicateCallFilter(reader, repeats)
        attempt.reader = reader
        if attempt.raw:
            reader.feed(TextDelta(attempt.raw[0]))
        return reader

    def _reader(self, phase: Phase, *, whole: bool) -> readers.AnswerReader:
        if phase.reads == "relay":
            return readers.RelayReader()
        builder, policy = self._builder, self._plan.policy
        if phase.reads == "plain":
            return readers.NativeAndTextReader(readers.ReadingRules((), policy), thinking=True)
        rules = readers.ReadingRules(
            builder.readable_tools,
            policy,
            self._nonce(phase),
            self._plan.unmarked != "never",
            self._plan.unmarked == "confirm" and not self._retries and has_tool_history(self._request.messages),
            builder.untrusted_texts(phase.name),
            builder.copyable_texts,
            builder.declared_texts,
            self._plan.dialect if phase.name in ("both", "inline") else "",
            self._plan.tries_native or self._plan.rule == "learned",
        )
        if phase.reads == "envelope":
            return readers.EnvelopeOrTextReader(rules)
        if phase.name == "decision":
            return readers.DecisionReader(rules)
        scan = self._scans(phase)
        thinking = not scan and self._plan.profile.leaks
        return readers.NativeAndTextReader(rules, scan=scan, thinking=thinking, whole=whole)

    def _scans(self, phase: Phase) -> bool:
        """Whether the text of an answer is searched for calls."""
        return phase.name not in ("native", "trial") or self._plan.rescue or self._plan.kind == "inline"

    # ---- outcome

    def _warn(self, warning: str) -> None:
        if warning not in self._warnings:
            self._warnings.append(warning)

    def _done(self, current: _Attempt, failure: Failure | None = None) -> list[Action]:
        # The caller gets the partial text of an interrupted answer, but not the text of an unusable one.
        releases_text = failure is None or (failure is current.failure and not self._request.tool_choice.demands)
        events: list[Event] = []
        if releases_text:
            decided = self._climbed and current.phase.text == "never" and not self._gate.emitted_calls
            events = self._fall_back() if decided else self._gate.release()
        if failure is None and self._ends_silent(current):
            events += self._fall_back() or [TextDelta(closing_sentence(current.fault, self._see))]
        events += self._gate.finish()
        first, *others = (each.usage for each in self._attempts)
        usage = sum(others, first) if others else first
        events.append(UsageSeen(usage))
        if failure is not None:
            events.append(failure)
        reason = current.reason
        if self._gate.emitted_calls and reason in ("stop", "unknown"):
            reason = "tool_calls"
        elif reason == "tool_calls" and not self._gate.emitted_calls and current.phase.enforces:
            reason = "stop"
        events.append(Finish("error" if failure is not None else reason))
        return [Emit(events), Done(self._outcome(failure))]

    def _ends_silent(self, current: _Attempt) -> bool:
        """Whether the turn would end with neither a call nor words, and without a finish reason that explains it."""
        gate = self._gate
        if gate.emitted_calls or gate.text_emitted or gate.spoiled or not current.phase.enforces:
            return False
        return current.reason not in _CUTTING and not _has_content(current.reply())

    @property
    def completed_attempts(self) -> tuple[AttemptTrace, ...]:
        """Traces of the attempts so far. They provide the token usage of an abandoned turn, which has no outcome."""
        ended = [*self._attempts]
        if self._interpretation is not None and self._interpretation is not self._attempt:
            ended.insert(self._interpretation.number - 1, self._interpretation)
        return tuple(map(_traced, ended))

    def _outcome(self, failure: Failure | None) -> TurnOutcome:
        no_call = Note("") if self._gate.emitted_calls else self._why_no_call()
        trace = Trace(
            plan=self._plan.kind,
            rule=self._plan.rule,
            why=self._plan.why,
            attempts=self.completed_attempts,
            contract_tokens=self._builder.contract_tokens,
            why_no_call=no_call.detail,
            policy=self._plan.policy,
            nonce="" if self._plan.kind == "pass" else self._builder.nonce or "",
            no_call_code=no_call.code,
        )
        # If the turn still failed after a workaround, the detected limitation was not the cause.
        limitations = () if failure is not None else tuple(self._limitations)
        return TurnOutcome(len(self._attempts), tuple(self._warnings), failure, trace, limitations)

    def _why_no_call(self) -> Note:
        """Return the reason why the turn has no call, as a code and a human-readable line."""
        last = self._attempts[-1]
        if self._request.tools and self._request.tool_choice.mode == "none":
            return Note("tool_choice_none", "`tool_choice` is none")
        if not any(attempt.request.tools or attempt.phase.emulates for attempt in self._attempts):
            return Note("no_tools", "no tools reached the model")
        if last.failure is not None:
            return Note("upstream_failed", f"the upstream failed: {last.failure.message}")
        fault = last.fault or self._undecided()
        if fault is not None:
            earlier = [fault_text(each.fault) for each in self._attempts[:-1] if each.fault is not None]
            return Note(fault.kind, "; then ".join(text for text, _ in groupby([*earlier, fault_text(fault)])))
        rejected = [each for attempt in self._attempts for each in attempt.reply().candidates if each.verdict != "call"]
        if rejected:
            reason = rejected[-1].reason
            return Note(reason, f"`{rejected[-1].name}` was not accepted as a call: {reason_text(reason)}")
        if last.reason == "length":
            return Note("length", "the answer was cut off by the token limit")
        return NOT_CALLED

    def _undecided(self) -> Fault | None:
        """Return the fault of the decision phase that preceded the final answer, if any."""
        last_two = self._attempts[-2:]
        return last_two[0].fault if last_two[0].phase.otherwise == "final" else None


def _check_choice(request: Request, plan: Plan) -> None:
    """Reject a `tool_choice` that no answer can satisfy. In passthrough, the upstream decides."""
    choice = request.tool_choice
    untouched = plan.kind == "pass" and plan.rule != "no_tools"
    if untouched or plan.rule == "chat_only" or not (choice.demands or (choice.allowed and choice.mode != "none")):
        return
    names = {
        tool.name
        for tool in request.tools
        if plan.kind in _NATIVE or (tool.kind in TEACHABLE and is_plain_name(tool.name))
    }
    missing = [name for name in choice.allowed if name not in names]
    if missing:
        unknown = ", ".join(f"`{name}`" for name in missing)
        raise UsageError(f"`tool_choice` names unknown tools: {unknown}", hint="list them in `tools`")
    if choice.demands and not names:
        raise UsageError("`tool_choice` requires a call, but no usable tool is listed", hint="add tools to `tools`")


def _has_content(reply: Reply) -> bool:
    """Whether opaque parts carry content, such as an image or the result of a hosted tool."""
    return any(_METADATA(part.kind) is None for part in reply.opaque)


def _traced(attempt: _Attempt) -> AttemptTrace:
    reasoning, candidates, notes = _summary(attempt)
    return AttemptTrace(
        phase=attempt.phase.name,
        request=attempt.request,
        raw="".join(attempt.raw),
        reasoning=reasoning,
        candidates=candidates,
        notes=notes,
        finish_reason=attempt.reason,
        usage=attempt.usage if attempt.phase.name != "interpretation" else Usage(),  # it costs nothing
        fault=attempt.fault,
    )


def _summary(attempt: _Attempt) -> tuple[str, tuple[Candidate, ...], tuple[Note, ...]]:
    """Return the reasoning, candidates and notes of an answer, without the cost of assembling its calls."""
    if attempt.phase.reads == "relay":  # only folding reveals faulty calls
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
