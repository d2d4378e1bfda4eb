"""What happened in one turn, for people: what was sent, what came back, what was made of it.

The engine fills it in, the client hands it out with the reply, the inspector shows it. Values only.
"""

from __future__ import annotations

import msgspec

from ...core.events import Candidate, FinishReason, Reply
from ...core.types import Message, Note, Request, TextPart, Usage
from .faults import Fault

#: How much of a prompt and of an answer `lines` shows; `attempts` holds the whole.
_MAX_QUOTED = 240


class AttemptTrace(msgspec.Struct, frozen=True):
    """One request that went upstream, and its answer."""

    phase: str
    request: Request
    #: The text of the answer as it came, before anything was read out of it.
    raw: str
    reasoning: str
    candidates: tuple[Candidate, ...]
    notes: tuple[Note, ...]
    finish_reason: FinishReason
    usage: Usage
    #: What was wrong with the answer; None when it was taken.
    fault: Fault | None = None


class Trace(msgspec.Struct, frozen=True):
    """One turn."""

    plan: str
    rule: str
    why: str
    attempts: tuple[AttemptTrace, ...] = ()
    #: How many tokens the contract costs, as estimated.
    contract_tokens: int = 0
    #: Why there is no call, in one line for people; empty when there is one.
    why_no_call: str = ""
    #: How answers were read: the policy, and the nonce that marks had to carry. Who reads them again needs both.
    policy: str = ""
    nonce: str = ""
    #: The same as `why_no_call`, for programs: the rule or the fault that decided.
    no_call_code: str = ""

    def lines(self) -> list[str]:
        """The turn as a person reads it."""
        told = [f"plan {self.plan}: {self.why} [{self.rule}]"]
        for number, attempt in enumerate(self.attempts, 1):
            told.append(f"request {number} ({attempt.phase}): {attempt.finish_reason}, {len(attempt.raw)} characters")
            told += _quoted(attempt)
            told += [f"  {each.verdict} `{each.name}`: {each.reason}" for each in attempt.candidates]
            told += [f"  {note.code}: {note.detail}" for note in attempt.notes]
            if attempt.fault is not None:
                following = self.attempts[number : number + 1]
                again = bool(following) and following[0].phase == attempt.phase
                what = "asked again" if again else "given up"
                told.append(f"  {what}: {attempt.fault.kind} {attempt.fault.detail}".rstrip())
        if self.why_no_call:
            told.append(f"no call: {self.why_no_call}")
        return told


def _quoted(attempt: AttemptTrace) -> list[str]:
    """The last thing that was said to the model, and what it said."""
    said = attempt.request.messages[-1:]
    lines = [f"  {message.role}: {_short(message.text)}" for message in said]
    return lines + ([f"  answer: {_short(attempt.raw)}"] if attempt.raw else [])


def _short(text: str) -> str:
    """The head and the tail of a text, on one line: what matters stands at either end."""
    if len(text) > _MAX_QUOTED:
        text = f"{text[: _MAX_QUOTED // 2]} [...] {text[-_MAX_QUOTED // 2 :]}"
    return " ".join(text.split())


class TracedReply(Reply, frozen=True):
    """A reply that can tell how it came to be."""

    record: Trace | None = None
    #: What was said, with parts that only the upstream's own protocol has words for; None where there are none.
    own: Message | None = None

    @property
    def message(self) -> Message:
        """The answer as a message, to be put into the next request as it is."""
        if self.own is not None:
            return self.own
        parts = (TextPart(self.text),) if self.text.strip() else ()
        return Message("assistant", parts, self.reasoning, self.calls)

    def trace(self) -> Trace:
        """What was sent, what came back, and what was decided."""
        return self.record or Trace("", "", "nothing was recorded")
