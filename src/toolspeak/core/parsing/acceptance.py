"""Table of acceptance rules, which decide whether a candidate is a call.

A candidate carries its evidence; a policy decides how much evidence is enough. The first matching rule decides, and its
name is the reason shown to users.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import msgspec

Policy = Literal["strict", "standard", "eager"]
#: `strong`: marks used only for calls. `weak`: marks with other uses, such as a JSON code block. `bare`: no marks.
Wrapper = Literal["strong", "weak", "bare"]
#: Places where a call is only an example: after an opening quote, in a line that begins with `>`, in a table row, in an
#: HTML comment, in an example element, in program code, in an indented code block (after a blank line).
Example = Literal["quotes", "quoted_line", "table", "comment", "element", "code", "indented"]


class Evidence(msgspec.Struct, frozen=True):
    """Evidence for and against a candidate call."""

    dialect: str
    wrapper: Wrapper
    #: Whether a tool has this name; None if the tools are unknown.
    known: bool | None = None
    #: Whether the arguments match the tool's schema; None until they are complete.
    fits: bool | None = None
    #: Whether only white space or calls precede the candidate on its line.
    line_start: bool = True
    #: Whether only white space, reasoning or other calls precede the candidate in the answer.
    answer_start: bool = True
    #: Whether only white space, closing punctuation or other calls follow the candidate; None until that is known.
    answer_end: bool | None = None
    in_fence: bool = False
    in_code: bool = False
    in_reasoning: bool = False
    #: The kind of example that contains the candidate, if any.
    example: Example | None = None
    #: Whether the opening mark carries the nonce; None if no nonce is required.
    nonce: bool | None = None
    #: Whether the call may count without the nonce; None if not, or if a wrong word is in its place.
    unmarked_counts: Literal[True] | None = None
    #: Whether an untrusted text contains the same call.
    echo: bool = False
    #: Whether the caller asked for calls of this dialect only; None if not.
    asked: Literal[True] | None = None

    #: Whether the mark consists of words that prose uses as well, so that a sentence may go on behind it; None if not.
    in_prose: Literal[True] | None = None

    def to_dict(self) -> dict[str, bool | str]:
        """Return the evidence that is not None, as shown to users."""
        return _to_dict(self).copy()


@lru_cache(maxsize=1024)
def _to_dict(evidence: Evidence) -> dict[str, bool | str]:
    return {name: value for name, value in msgspec.structs.asdict(evidence).items() if value is not None}


class Acceptance(msgspec.Struct, frozen=True):
    """A decision: stream the call (`live`), wait until it is complete (`hold`) or treat it as text (`reject`)."""

    action: Literal["live", "hold", "reject"]
    reason: str


_Rule = tuple[str, Callable[[Evidence, Policy], bool]]

#: Reasons that apply to the whole block, so the rest of the block need not be read.
REGION_REASONS = frozenset({"reasoning", "in_fence", "in_code", "example", "no_nonce", "inline"})

_REJECT_AT_NAME: tuple[_Rule, ...] = (
    ("reasoning", lambda e, p: e.in_reasoning and not _may_end_reasoning(e, p)),
    ("no_nonce", lambda e, p: e.nonce is False and not e.unmarked_counts),
    ("in_fence", lambda e, p: e.in_fence and p != "eager"),
    ("in_code", lambda e, p: e.in_code),
    ("example", lambda e, p: e.example is not None and (p == "strict" or (p == "standard" and not _may_end(e)))),
    ("unknown_tool", lambda e, p: e.known is False),
    ("not_wrapped", lambda e, p: e.wrapper != "strong" and p == "strict"),
    ("inline", lambda e, p: not e.line_start and p == "strict"),
    ("not_whole_answer", lambda e, p: e.wrapper == "bare" and e.known is None and not e.answer_start),
)

_REJECT_AT_END: tuple[_Rule, ...] = (
    ("echo", lambda e, p: e.echo),
    ("reasoning", lambda e, p: e.in_reasoning and e.answer_end is False),
    ("does_not_fit", lambda e, p: e.wrapper != "strong" and e.fits is False),
    ("not_whole_answer", lambda e, p: e.wrapper == "bare" and e.known is None and e.answer_end is False),
    ("more_follows", lambda e, p: _needs_tail(e, p) and e.answer_end is False),
)


def _may_end(evidence: Evidence) -> bool:
    """Whether an example counts as a call if the answer ends with it: some models indent everything."""
    return evidence.example == "indented"


def _may_end_reasoning(evidence: Evidence, policy: Policy) -> bool:
    """Whether a call inside the reasoning counts if the answer ends with it: some models never close the reasoning."""
    return evidence.wrapper == "strong" and not evidence.in_fence and policy != "strict"


def _needs_tail(evidence: Evidence, policy: Policy) -> bool:
    """Whether the call counts only at the end of the answer, where the model waits for a result."""
    if evidence.in_reasoning:
        return True
    if policy == "eager":
        return False
    bare = evidence.wrapper == "bare"
    weak = evidence.wrapper == "weak" or _may_end(evidence)
    named = bare and evidence.dialect == "name"  # prose shows such calls, too, on lines of their own
    return weak or named or (bare and not evidence.line_start) or needs_line(evidence)


def needs_line(evidence: Evidence) -> bool:
    """Whether the call counts only at the end of a line or sentence: a Python list, a mark made of words."""
    is_list = evidence.wrapper == "bare" and evidence.dialect == "pythonic"
    return is_list or bool(evidence.in_prose)


def is_certain_with_argument(evidence: Evidence) -> bool:
    """Whether a call without marks is certain as soon as its first argument begins, because it was asked for."""
    return bool(evidence.asked and evidence.known and evidence.line_start) and evidence.example is None


@lru_cache(maxsize=1024)
def judge_name(evidence: Evidence, policy: Policy) -> Acceptance:
    """Decide once the name is known: stream the call, hold it, or treat it as text."""
    for reason, applies in _REJECT_AT_NAME:
        if applies(evidence, policy):
            return Acceptance("reject", reason)
    live = evidence.wrapper == "strong" and not _needs_tail(evidence, policy)
    return Acceptance("live", "accepted") if live else Acceptance("hold", "held")


@lru_cache(maxsize=1024)
def judge_end(evidence: Evidence, policy: Policy) -> Acceptance:
    """Decide once the call is complete. `hold`: the decision depends on the text that follows."""
    for reason, applies in _REJECT_AT_END:
        if applies(evidence, policy):
            return Acceptance("reject", reason)
    undecided = evidence.answer_end is None and (
        _needs_tail(evidence, policy) or (evidence.wrapper == "bare" and evidence.known is None)
    )
    return Acceptance("hold", "held") if undecided else Acceptance("live", "accepted")
