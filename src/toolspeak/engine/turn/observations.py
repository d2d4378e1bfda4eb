"""What a turn shows about a model: with which profile fields its call would have come at the first try.

`observe` sees one turn. What follows from several turns is decided in `runtime.learning`.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from ...core.events import Candidate
from ...core.types import JSONObject, ToolCall
from ...dialects.registry import dialects, render_calls
from ..planning.capabilities import native_capability
from ..planning.strategy import Plan
from .trace import AttemptTrace, Trace, mark_of

#: Dialects that belong to a plan of their own, or to no text at all.
_NOT_INLINE = frozenset({"native", "decision", "envelope"})
#: Number of characters of an answer in which its call is searched.
_MAX_SEARCHED_CHARS = 16_384


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
        return Observation({"capability": native_capability(protocol)}, "calls came natively")
    if answer.phase in ("decision", "envelope"):
        return Observation({"capability": "none", "plan": answer.phase}, f"calls came with the plan {answer.phase}")
    dialect = _dialect(call, answer.raw, trace.nonce)
    if not dialect:
        return None
    marks = "optional" if plan.profile.marks == "optional" or _drops_nonce(plan, trace) else "auto"
    fields: JSONObject = {"capability": "none", "plan": "inline", "dialect": dialect, "marks": marks}
    without = " without the nonce" if marks == "optional" else ""
    return Observation(fields, f"calls came as text in the dialect {dialect}{without}")


def _drops_nonce(plan: Plan, trace: Trace) -> bool:
    """Whether the first answer had a call in the dialect that was asked for, but not the nonce."""
    calls = trace.attempts[0].candidates
    return any(each.dialect == plan.dialect and mark_of(each) in ("omitted", "changed") for each in calls)


def written_dialect(candidates: Iterable[Candidate], raw: str, nonce: str, other_than: str) -> str:
    """Return the dialect in which a model wrote a call by itself, instead of the one it was asked for; else empty."""
    strong = (each for each in candidates if each.evidence.get("wrapper") == "strong")
    written = (_dialect(each, raw, nonce) for each in strong)
    return next((name for name in written if name not in ("", other_than)), "")


def _dialect(candidate: Candidate, raw: str, nonce: str) -> str:
    """Return the dialect of a call in which a model can be asked for calls; empty if there is none.

    A candidate names the dialect of its opening mark. Several dialects may have the same mark, so the text up to the
    name of the tool decides.
    """
    if candidate.dialect not in dialects() or candidate.dialect in _NOT_INLINE:
        return ""
    text = raw[:_MAX_SEARCHED_CHARS]
    text = "".join((text.replace(nonce, "") if nonce else text).split())
    accepts = dialects()[candidate.dialect].accepts
    similar = (name for name, row in dialects().items() if row.accepts & accepts and name not in _NOT_INLINE)
    for name in (candidate.dialect, *similar):
        example = "".join(render_calls(name, [ToolCall(candidate.name, {})]).split())
        if example[: example.find(candidate.name) + len(candidate.name)] in text:
            return name
    return candidate.dialect


def marks_in(attempts: tuple[AttemptTrace, ...]) -> Counter[str]:
    """Count what the model did with the nonce, in all calls of all answers."""
    marks = (mark_of(candidate) for attempt in attempts for candidate in attempt.candidates)
    return Counter(mark for mark in marks if mark is not None)
