"""The trace of a turn: what was sent upstream, what came back, and what was decided. Values only."""

from __future__ import annotations

import msgspec

from ...core.events import Candidate, FinishReason, Reply
from ...core.types import Message, Note, Request, TextPart, Usage
from .faults import Fault

#: How much of a prompt or an answer `Trace.lines` quotes; `attempts` has the full texts.
_MAX_QUOTED = 240


class AttemptTrace(msgspec.Struct, frozen=True):
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


class Trace(msgspec.Struct, frozen=True):
    """One turn."""

    plan: str
    rule: str
    why: str
    attempts: tuple[AttemptTrace, ...] = ()
    #: Estimated size of the contract (the tool prompt).
    contract_tokens: int = 0
    #: Why there is no call, in one line for people; empty if there is one.
    why_no_call: str = ""
    #: The policy and the nonce that answers were parsed with. Parsing them again needs both.
    policy: str = ""
    nonce: str = ""
    #: `why_no_call` for programs: the reason or fault code that decided.
    no_call_code: str = ""

    def lines(self) -> list[str]:
        """Render the turn for people."""
        lines = [f"plan {self.plan}: {self.why} [{self.rule}]"]
        for number, attempt in enumerate(self.attempts, 1):
            lines.append(f"request {number} ({attempt.phase}): {attempt.finish_reason}, {len(attempt.raw)} characters")
            lines += _quoted(attempt)
            lines += [f"  {each.verdict} `{each.name}`: {each.reason}" for each in attempt.candidates]
            lines += [f"  {note.code}: {note.detail}" for note in attempt.notes]
            if attempt.fault is not None:
                following = self.attempts[number : number + 1]
                retried = bool(following) and following[0].phase == attempt.phase
                action = "retried" if retried else "gave up"
                lines.append(f"  {action}: {attempt.fault.kind} {attempt.fault.detail}".rstrip())
        if self.why_no_call:
            lines.append(f"no call: {self.why_no_call}")
        return lines


def _quoted(attempt: AttemptTrace) -> list[str]:
    """The last message to the model, and its answer."""
    lines = [f"  {message.role}: {_short(message.text)}" for message in attempt.request.messages[-1:]]
    return lines + ([f"  answer: {_short(attempt.raw)}"] if attempt.raw else [])


def _short(text: str) -> str:
    """The head and the tail of a text on one line; the middle matters least."""
    if len(text) > _MAX_QUOTED:
        text = f"{text[: _MAX_QUOTED // 2]} [...] {text[-_MAX_QUOTED // 2 :]}"
    return " ".join(text.split())


class TracedReply(Reply, frozen=True):
    """A reply with the trace of its turn."""

    record: Trace | None = None
    #: The assistant message with parts that only the upstream's own protocol can express; None if it has none.
    own: Message | None = None

    @property
    def message(self) -> Message:
        """The answer as a message, ready to be put into the next request."""
        if self.own is not None:
            return self.own
        parts = (TextPart(self.text),) if self.text.strip() else ()
        return Message("assistant", parts, self.reasoning, self.calls)

    def trace(self) -> Trace:
        """What was sent, what came back, and what was decided."""
        return self.record or Trace("", "", "nothing was recorded")
