"""What a turn shows about a model: with which profile fields its call would have come at the first try.

`observe` sees one turn. What follows from several turns is decided in `runtime.learning`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from ...core.events import Candidate
from ...core.types import JSONObject
from ...dialects.registry import DIALECTS
from ..planning.strategy import Plan
from .trace import AttemptTrace, Trace

#: What a model did with the nonce that it was asked for.
Mark: TypeAlias = Literal["copied", "omitted", "changed"]

#: Dialects that belong to a plan of their own, or to no text at all.
_NOT_INLINE = frozenset({"native", "decision", "envelope"})
#: Protocols with a tool format of their own.
OWN_TOOL_FORMAT = frozenset({"anthropic", "gemini"})


class Observation(msgspec.Struct, frozen=True):
    """What one turn with a call has shown."""

    #: The profile fields with which the call would have come at the first try.
    fields: JSONObject
    #: The same in words, for people.
    why: str


def observe(plan: Plan, trace: Trace, protocol: str) -> Observation | None:
    """Return what a turn has shown, or None if it made no call."""
    if trace.why_no_call or not trace.attempts:
        return None
    answer = trace.attempts[-1]
    call = next((each for each in answer.candidates if each.verdict == "call"), None)
    if call is None:
        return None
    if call.dialect == "native":
        capability = "advanced" if protocol in OWN_TOOL_FORMAT else "openai"
        return Observation({"capability": capability}, "calls came natively")
    if answer.phase in ("decision", "envelope"):
        return Observation({"capability": "none", "plan": answer.phase}, f"calls came with the plan {answer.phase}")
    if call.dialect not in DIALECTS or call.dialect in _NOT_INLINE:
        return None
    marks = "optional" if plan.profile.marks == "optional" or _drops_nonce(plan, trace) else "auto"
    fields: JSONObject = {"capability": "none", "plan": "inline", "dialect": call.dialect, "marks": marks}
    without = " without the nonce" if marks == "optional" else ""
    return Observation(fields, f"calls came as text in the dialect {call.dialect}{without}")


def _drops_nonce(plan: Plan, trace: Trace) -> bool:
    """Whether the first answer had a call in the dialect that was asked for, but not the nonce."""
    calls = trace.attempts[0].candidates
    return any(each.dialect == plan.dialect and mark_of(each) in ("omitted", "changed") for each in calls)


def written_dialect(candidates: Iterable[Candidate], other_than: str) -> str:
    """Return the dialect in which a model wrote a call by itself, instead of the one it was asked for; else empty."""
    written = (
        each.dialect
        for each in candidates
        if each.evidence.get("wrapper") == "strong" and each.dialect in DIALECTS and each.dialect not in _NOT_INLINE
    )
    return next((name for name in written if name != other_than), "")


def mark_of(candidate: Candidate) -> Mark | None:
    """Return what the model did with the nonce in a call; None if it was not asked for one."""
    nonce = candidate.evidence.get("nonce")
    if nonce is None or candidate.dialect == "native":
        return None
    if nonce:
        return "copied"
    return "omitted" if candidate.evidence.get("unmarked_counts") or candidate.verdict == "call" else "changed"


def marks_in(attempts: tuple[AttemptTrace, ...]) -> dict[Mark, int]:
    """Count what the model did with the nonce, in all calls of all answers."""
    counts: dict[Mark, int] = {}
    for attempt in attempts:
        for candidate in attempt.candidates:
            if (mark := mark_of(candidate)) is not None:
                counts[mark] = counts.get(mark, 0) + 1
    return counts
