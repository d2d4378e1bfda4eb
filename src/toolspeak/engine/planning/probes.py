"""Probe a model's capabilities with a series of requests. The module itself performs no I/O and reads no clock.

    probe = ProbeRun(ProbeRoute(model, protocol), profile, nonce)
    while (question := probe.pending) is not None:
        probe.submit(events_of(question.request))
    result = probe.result()

Later questions depend on earlier answers: dialects, for example, are only tried if the model has no native tool
calling. Most findings need more than one answer; see the thresholds below.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import TypeAlias

import msgspec

from ...core.events import Event
from ...core.types import JSONObject, ToolChoice, Usage
from ..constraints.build import Flavour
from . import probe_questions as ask
from .capabilities import Profile, native_capability
from .probe_questions import ProbeAnswer, ProbeQuestion, ProbeRoute, Trait
from .probe_results import DialectScore, ProbeFinding, ProbeResult
from .server_hints import ServerHints

#: Attempts per question. If an upstream fails half of the time, one question in eight stays unanswered.
_ATTEMPTS = 3
#: Attempts for the first question. The probe ends if it stays unanswered.
_FIRST_ATTEMPTS = 5
#: Maximum number of requests per probe, because requests cost money and time.
MAX_REQUESTS = 64
#: Required successes out of three, for native calls and for each dialect. A model that calls the tool 90 % of the time
#: passes with a probability of 97 %, one that calls it 10 % of the time with 3 %.
_MAJORITY = 2
#: Minimum number of answers. With fewer, the trait stays unknown and the profile unchanged.
_MIN_ANSWERS = 2
#: One dialect of each kind: code fence, tag around JSON, XML, single line, Python code, lines of text.
_DIALECT_SAMPLES = ("action", "hermes", "invoke", "tool_line", "pythonic", "react")
#: Number of dialects that are tested with further questions.
_FINALISTS = 3
#: Minimum length, in characters, of an answer that a streaming upstream sends in several chunks.
_MIN_STREAMED_LENGTH = 40
#: Constraint flavours to try for each protocol, most widely supported first. Lark is not tried, because servers that
#: support it also support GBNF or a schema.
_FLAVOURS: dict[str, tuple[Flavour, ...]] = {
    "openai_chat": ("json_schema", "openai_strict", "gbnf"),
    "openai_responses": ("json_schema", "openai_strict"),
    "anthropic": ("json_schema",),
    "gemini": ("json_schema",),
    "ollama": ("json_schema",),
}
#: Protocols without `tool_choice`.
_WITHOUT_TOOL_CHOICE = frozenset({"ollama"})

_Script: TypeAlias = Generator[ProbeQuestion, ProbeAnswer, None]


class ProbeRun:
    """One probe of one model.

    Args:
        route: the model and its protocol.
        profile: the current profile; its dialect is tried first.
        nonce: the nonce that emulated calls must carry.
        hints: metadata from the server.
        full: try dialects even if the model has native tool calling.
    """

    def __init__(
        self, route: ProbeRoute, profile: Profile, nonce: str, hints: ServerHints | None = None, *, full: bool = False
    ) -> None:
        self.requests = 0
        self.usage = Usage()
        self.unreachable = ""
        self._route = route
        self._profile = profile
        self._nonce = nonce
        self._hints = hints or ServerHints()
        self._full = full
        self._answers: dict[Trait, list[ProbeAnswer]] = {}
        self._dialect_answers: dict[str, list[ProbeAnswer]] = {}
        self._fields: JSONObject = {}
        self._findings: list[ProbeFinding] = []
        self._script = self._battery()
        #: The next question to send; None when the probe is complete.
        self.pending: ProbeQuestion | None = next(self._script, None)

    def submit(self, events: Sequence[Event]) -> ProbeAnswer:
        """Submit the answer to `pending`. If the request failed, the last event is a `Failure`."""
        assert self.pending is not None
        answer = ask.read_answer(self.pending, events)
        self.requests += 1
        self.usage += answer.usage
        try:
            self.pending = self._script.send(answer)
        except StopIteration:
            self.pending = None
        return answer

    def result(self) -> ProbeResult:
        """Return the findings so far."""
        return ProbeResult(
            self._fields, tuple(self._findings), self._ranked(), self.requests, self.usage, self.unreachable
        )

    def _battery(self) -> _Script:
        yield from self._reach()
        if self.unreachable:
            return
        self._apply_hints()
        yield from self._system_role()
        yield from self._native()
        calls = self._fields.get("capability", "none") != "none"
        if calls:
            yield from self._required()
        if not calls or self._full:
            yield from self._dialects()
        yield from self._parallel(calls)
        yield from self._constraint()
        if not calls and self._best() is None and self._fields.get("constraint"):
            yield from self._envelope(self._fields["constraint"])
        yield from self._streams()

    def _ask(
        self, question: ProbeQuestion, times: int = _ATTEMPTS
    ) -> Generator[ProbeQuestion, ProbeAnswer, ProbeAnswer]:
        """Ask a question; retry if the upstream fails."""
        answer = ProbeAnswer("failed", detail="skipped: the probe reached its request limit")
        for _ in range(times):
            if self.requests >= MAX_REQUESTS:
                break
            answer = yield question
            if answer.kind != "failed":
                break
        self._answers.setdefault(question.trait, []).append(answer)
        return answer

    def _ask_all(self, questions: Iterable[ProbeQuestion]) -> Generator[ProbeQuestion, ProbeAnswer, list[ProbeAnswer]]:
        answers: list[ProbeAnswer] = []
        for question in questions:
            answers.append((yield from self._ask(question)))
        return answers

    def _record(self, trait: str, value: str, evidence: str, **fields: object) -> None:
        self._findings.append(ProbeFinding(trait, value, evidence))
        self._fields |= fields

    def _reach(self) -> _Script:
        """Find out whether the upstream accepts streaming and `max_tokens`."""
        answer = ProbeAnswer("failed")
        for stream, capped in ((True, True), (True, False), (False, True), (False, False)):
            self._route = msgspec.structs.replace(self._route, stream=stream, capped=capped)
            answer = yield from self._ask(ask.plain_question(self._route, "reach", ask.OBEY_PROMPT), _FIRST_ATTEMPTS)
            if answer.kind != "rejected":
                break
        if answer.kind != "answered":
            self.unreachable = answer.detail or "no answer"

    def _apply_hints(self) -> None:
        hints = self._hints
        if hints.media is not None:
            media = ", ".join(hints.media) or "text only"
            self._record("media", media, f"reported by {hints.server}", media=list(hints.media))
        if hints.context is not None:
            self.record_context(hints.context)

    def record_context(self, tokens: int) -> None:
        """Record the size of the context window, as reported by the server."""
        self._findings = [finding for finding in self._findings if finding.trait != "context_window"]
        self._record("context_window", f"{tokens} tokens", f"reported by {self._hints.server}", context_window=tokens)

    def _system_role(self) -> _Script:
        answers = yield from self._ask_all(
            ask.plain_question(self._route, "system_role", greeting.text, ask.OBEY_PROMPT) for greeting in ask.GREETINGS
        )
        answered = [each for each in answers if each.kind == "answered"]
        rejected = [each for each in answers if each.kind == "rejected"]
        if len(rejected) >= _MIN_ANSWERS:
            self._route = msgspec.structs.replace(self._route, system_role=False)
            self._record("system_role", "no", f"rejected: {rejected[0].detail}", system_role=False)
        elif len(answered) < _MIN_ANSWERS:
            self._record("system_role", "unknown", _failure_summary(answers))
        elif any(map(_obeys, answered)):
            self._record("system_role", "yes", "follows system messages", system_role=True)
        else:
            yield from self._dropped_system()

    def _dropped_system(self) -> _Script:
        """Check whether a model that ignored a system message obeys the same text in a user message."""
        yield from self._ask(ask.plain_question(self._route, "reach", f"{ask.OBEY_PROMPT}\n\n{ask.GREETINGS[0].text}"))
        control = [each for each in self._answers["reach"] if each.kind == "answered"]
        if len(control) >= _MIN_ANSWERS and all(map(_obeys, control)):
            self._route = msgspec.structs.replace(self._route, system_role=False)
            self._record("system_role", "no", "ignores system messages, follows user messages", system_role=False)
        else:
            self._record("system_role", "unknown", "follows neither system nor user messages")

    def _native(self) -> _Script:
        if self._hints.refuses_tools:
            self._record("native", "no", f"{self._hints.server} reports no tool support", capability="none")
            return
        answers: list[ProbeAnswer] = []
        for task in ask.LOOKUPS:
            answers.append((yield from self._ask(ask.native_question(self._route, "native", task))))
            if sum(each.kind == "rejected" for each in answers) >= _MIN_ANSWERS:
                break
        self._judge_native(answers)

    def _judge_native(self, answers: list[ProbeAnswer]) -> None:
        answered = [each for each in answers if each.kind == "answered"]
        rejected = [each for each in answers if each.kind == "rejected"]
        called, leaked = (sum(flags) for flags in zip(*[(h.native_call, h.text_call) for h in answers], strict=True))
        evidence = f"{called} of {len(answered)} answers called the tool"
        if leaked:
            evidence += f", {leaked} wrote the call as text"
            self._fields["leaks"] = True
        own = native_capability(self._route.protocol)
        if len(rejected) >= _MIN_ANSWERS:
            self._record("native", "no", f"rejected: {rejected[0].detail}", capability="none")
        elif len(answered) < _MIN_ANSWERS:
            self._record("native", "unknown", _failure_summary(answers))
        elif called and called + leaked >= _MAJORITY:
            # A model that writes calls only as text gets emulation instead, where the nonce can be checked.
            self._record("native", "yes, but leaks" if leaked else "yes", evidence, capability=own)
        else:
            self._record(
                "native", "no", evidence if called or leaked else f"{evidence}: tools are ignored", capability="none"
            )

    def _required(self) -> _Script:
        if self._route.protocol in _WITHOUT_TOOL_CHOICE:
            self._record("required", "no", "the protocol has no `tool_choice`", required=False)
            return
        answers = yield from self._ask_all(
            ask.native_question(self._route, "required", task, ToolChoice("required")) for task in ask.GREETINGS
        )
        usable = [each for each in answers if each.kind in ("answered", "rejected")]
        obeyed = sum(each.any_call for each in usable)
        if len(usable) < _MIN_ANSWERS:
            self._record("required", "unknown", _failure_summary(answers))
        else:
            # The upstream must enforce this, so a single answer without a call means that it does not.
            value = "yes" if obeyed == len(usable) else "no"
            details = "".join({f"; {each.detail}" for each in usable if each.detail})
            evidence = f"{obeyed} of {len(usable)} answers called the tool{details}"
            self._record("required", value, evidence, required=obeyed == len(usable))

    def _parallel(self, calls: bool) -> _Script:
        best = self._best()
        if not calls and best is None:
            return
        answers = yield from self._ask_all(
            ask.native_question(self._route, "parallel", task)
            if calls or best is None
            else ask.inline_question(self._route, "parallel", task, best.dialect, self._nonce)
            for task in ask.DOUBLE_LOOKUPS
        )
        answered = [each for each in answers if each.kind == "answered"]
        successes = sum(each.native_call or each.text_call or each.unmarked_call for each in answered)
        evidence = f"{successes} of {len(answered)} answers made two calls"
        if len(answered) < _MIN_ANSWERS:
            self._record("parallel", "unknown", _failure_summary(answers))
        elif successes:  # one success is enough, because two calls do not happen by chance
            self._record("parallel", "yes", evidence, parallel=True)
        elif calls and all(each.any_call for each in answered):
            # The calls are intact, so parallel calls stay enabled; some upstreams reject the field that disables them.
            self._record("parallel", "one at a time", evidence)
        else:
            self._record("parallel", "no", evidence, parallel=False)

    def _dialects(self) -> _Script:
        leaked = [each.dialect for each in self._answers.get("native", ()) if each.dialect]
        tried = list(dict.fromkeys([self._profile.dialect, *leaked, *_DIALECT_SAMPLES]))
        for dialect in tried:
            yield from self._try_dialect(dialect, 0)
        if not any(map(_has_text_call, (each for answers in self._dialect_answers.values() for each in answers))):
            for dialect in tried:
                yield from self._try_dialect(dialect, 1)
        finalists = [each.dialect for each in self._ranked() if each.won][:_FINALISTS]
        for dialect in finalists:
            for at in range(len(self._dialect_answers[dialect]), len(ask.LOOKUPS)):
                yield from self._try_dialect(dialect, at)
        self._judge_dialects()

    def _try_dialect(self, dialect: str, at: int) -> _Script:
        answer = yield from self._ask(
            ask.inline_question(self._route, "dialects", ask.LOOKUPS[at], dialect, self._nonce)
        )
        self._dialect_answers.setdefault(dialect, []).append(answer)

    def _ranked(self) -> tuple[DialectScore, ...]:
        """Return the dialects, best first; ties keep the order in which they were tried."""
        scores = [
            DialectScore(
                dialect,
                sum(map(_has_text_call, answers)),
                sum(each.kind == "answered" for each in answers),
                sum(each.text_call for each in answers),
                sum(_has_text_call(each) and each.as_requested for each in answers),
            )
            for dialect, answers in self._dialect_answers.items()
        ]
        return tuple(sorted(scores, key=lambda score: (-score.won, -score.marked, -score.own)))

    def _best(self) -> DialectScore | None:
        return next((each for each in self._ranked() if each.won >= _MAJORITY), None)

    def _judge_dialects(self) -> None:
        best = self._best()
        evidence = ", ".join(f"{each.dialect} {each.won} of {each.tried}" for each in self._ranked())
        if best is None:
            self._record("dialects", "none", evidence)
            return
        self._record("dialects", best.dialect, evidence, dialect=best.dialect)
        if best.marked < _MAJORITY:
            self._record("marks", "fixed", f"{best.marked} of {best.won} calls carried the nonce", marks="fixed")

    def _constraint(self) -> _Script:
        evidence: list[str] = []
        unknown = False
        for flavour in _FLAVOURS.get(self._route.protocol, ()):
            answers: list[ProbeAnswer] = []
            for _ in range(_MIN_ANSWERS):
                answers.append((yield from self._ask(ask.constrained_question(self._route, flavour))))
                if not _is_code(answers[-1]):
                    break
            if all(map(_is_code, answers)):
                evidence.append(f"{flavour} enforced {len(answers)} of {len(answers)} times")
                self._record("constraint", flavour, "; ".join(evidence), constraint=flavour)
                return
            unknown = unknown or answers[-1].kind == "failed"
            how = {"rejected": "rejected", "answered": "not enforced"}.get(answers[-1].kind, "failed")
            evidence.append(f"{flavour} {how}")
        if unknown:
            self._record("constraint", "unknown", "; ".join(evidence))
        elif evidence:
            self._record("constraint", "none", "; ".join(evidence), constraint="")

    def _envelope(self, flavour: Flavour) -> _Script:
        """Check whether a model that cannot write any dialect makes calls in a constrained envelope."""
        questions = (ask.envelope_question(self._route, task, flavour, self._nonce) for task in ask.LOOKUPS)
        answers = yield from self._ask_all(questions)
        successes = sum(map(_has_text_call, answers))
        evidence = f"{successes} of {len(answers)} documents contained the call"
        fields = {"plan": "envelope"} if successes >= _MAJORITY else {}
        self._record("plan", fields.get("plan", "none"), evidence, **fields)

    def _streams(self) -> _Script:
        """Determine from earlier answers whether the upstream streams; ask for long ones if there are too few."""
        if not self._route.stream:
            self._record("streams", "no", "requests with `stream` are rejected", streams=False)
            return
        while len(self._long_answers()) < _MIN_ANSWERS and len(self._answers.get("streams", ())) < _MIN_ANSWERS:
            yield from self._ask(ask.plain_question(self._route, "streams", ask.COUNT_PROMPT))
        answers = self._long_answers()
        flowing = sum(each.pieces > 1 for each in answers)
        if flowing:
            self._record("streams", "yes", f"{flowing} of {len(answers)} longer answers were streamed", streams=True)
        elif len(answers) >= _MIN_ANSWERS:
            self._record("streams", "no", f"all {len(answers)} longer answers came in one chunk", streams=False)
        else:
            self._record("streams", "unknown", "no answer was long enough to tell")

    def _long_answers(self) -> list[ProbeAnswer]:
        return [each for answers in self._answers.values() for each in answers if each.length >= _MIN_STREAMED_LENGTH]


def _obeys(answer: ProbeAnswer) -> bool:
    return ask.CONTROL_WORD in answer.text.lower()


def _has_text_call(answer: ProbeAnswer) -> bool:
    return answer.text_call or answer.unmarked_call


def _is_code(answer: ProbeAnswer) -> bool:
    try:
        return msgspec.json.decode(answer.text) == ask.EXPECTED_CODE
    except msgspec.DecodeError:
        return False


def _failure_summary(answers: Iterable[ProbeAnswer]) -> str:
    """Summarise why a trait stays unknown."""
    return "; ".join(dict.fromkeys(each.detail or each.kind for each in answers))
