"""The trace of a turn: the upstream requests, the answers, and the decisions of the engine. Values only."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from ...core.events import Candidate, FinishReason, Reply
from ...core.types import Message, Note, Request, TextPart, Usage
from .faults import Fault

#: What a model did with the nonce that it was asked for.
Mark: TypeAlias = Literal["copied", "omitted", "changed"]
#: How many characters of a prompt or answer `Trace.lines` quotes. The full texts are in `Trace.attempts`.
_MAX_QUOTED = 240
_INTERPRETATION = "interpretation"
#: Why a turn made no call, if nothing suggests that one was wanted.
NOT_CALLED = Note("not_called", "the model answered without calling a tool")


class AttemptTrace(msgspec.Struct, frozen=True, gc=False):
    """One upstream request and its answer."""

    phase: str
    request: Request
    #: The raw text of the answer, before parsing.
    raw: str
    reasoning: str
    candidates: tuple[Candidate, ...]
    notes: tuple[Note, ...]
    finish_reason: FinishReason
    usage: Usage
    #: Why the answer was rejected; None if it was accepted.
    fault: Fault | None = None


class Trace(msgspec.Struct, frozen=True, gc=False):
    """The record of one turn."""

    plan: str
    rule: str
    why: str
    attempts: tuple[AttemptTrace, ...] = ()
    #: Estimated size of the tool prompt, in tokens.
    contract_tokens: int = 0
    #: Why the turn made no call, in one human-readable line. Empty if it made one.
    why_no_call: str = ""
    #: The policy and nonce used to parse the answers. Both are needed to parse them again.
    policy: str = ""
    nonce: str = ""
    #: Machine-readable form of `why_no_call`: a reason or fault code.
    no_call_code: str = ""

    def lines(self) -> list[str]:
        """Render the trace as human-readable lines."""
        lines = [f"plan {self.plan}: {self.why} [{self.rule}]"]
        for number, attempt in enumerate(self.attempts, 1):
            lines.append(f"request {number} ({attempt.phase}): {attempt.finish_reason}, {len(attempt.raw)} characters")
            lines += _quoted(attempt)
            lines += [f"  {each.verdict} `{each.name}`: {each.reason}" for each in attempt.candidates]
            lines += [f"  {note.code}: {note.detail}" for note in attempt.notes]
            if attempt.fault is not None:
                following = self.attempts[number : number + 1]
                retried = bool(following) and was_retried(attempt, following[0])
                action = "asked the interpreter" if following and not of_model(following) else "gave up"
                action = "retried" if retried else action
                lines.append(f"  {action}: {attempt.fault.kind} {attempt.fault.detail}".rstrip())
        if self.why_no_call:
            lines.append(f"no call: {self.why_no_call}")
        return lines


def mark_of(candidate: Candidate) -> Mark | None:
    """Return what the model did with the nonce in a call; None if it was not asked for one."""
    nonce = candidate.evidence.get("nonce")
    if nonce is None or candidate.dialect == "native":
        return None
    if nonce:
        return "copied"
    return "omitted" if candidate.evidence.get("unmarked_counts") or candidate.verdict == "call" else "changed"


def of_model(attempts: Sequence[AttemptTrace]) -> list[AttemptTrace]:
    """Return the attempts without that of the interpreter, which says nothing about the model."""
    return [attempt for attempt in attempts if attempt.phase != _INTERPRETATION]


def without_interpretation(trace: Trace) -> Trace:
    """Return the trace of what the model itself has done. It made no call if only the interpreter did."""
    attempts = tuple(of_model(trace.attempts))
    interpreted = trace.attempts[-1:] != attempts[-1:] and not trace.why_no_call
    why = "the call was only described" if interpreted else trace.why_no_call
    return msgspec.structs.replace(trace, attempts=attempts, why_no_call=why)


def was_retried(attempt: AttemptTrace, following: AttemptTrace) -> bool:
    return attempt.fault is not None and following.phase not in ("final", _INTERPRETATION)


def count_retries(attempts: Sequence[AttemptTrace]) -> int:
    """Count the retries among the attempts of a turn, without those of an interpreter."""
    return sum(was_retried(one, two) for one, two in pairwise(of_model(attempts)))


def _quoted(attempt: AttemptTrace) -> list[str]:
    """Quote the last message sent to the model, and the model's answer."""
    lines = [f"  {message.role}: {_short(message.text)}" for message in attempt.request.messages[-1:]]
    return lines + ([f"  answer: {_short(attempt.raw)}"] if attempt.raw else [])


def _short(text: str) -> str:
    """Put a text on one line. If it is long, keep the beginning and the end, because the middle matters least."""
    if len(text) > _MAX_QUOTED:
        text = f"{text[: _MAX_QUOTED // 2]} [...] {text[-_MAX_QUOTED // 2 :]}"
    return " ".join(text.split())


class TracedReply(Reply, frozen=True):
    """A reply with the trace of its turn."""

    record: Trace | None = None
    #: The original assistant message, if it has parts that only the upstream's protocol can express, otherwise None.
    own: Message | None = None

    @property
    def message(self) -> Message:
        """The answer as an assistant message to append to the next request."""
        if self.own is not None:
            return self.own
        parts = (TextPart(self.text),) if self.text.strip() else ()
        return Message("assistant", parts, self.reasoning, self.calls)

    def trace(self) -> Trace:
        """Return the trace of the turn, or an empty trace if none was recorded."""
        return self.record or Trace("", "", "nothing was recorded")
