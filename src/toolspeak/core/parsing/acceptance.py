"""Is this candidate a call? The rules, as a table.

A candidate carries its evidence; a policy says which evidence is enough. Each rule is one row: the first
row that matches decides and its name is the reason that people see.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import msgspec

Policy = Literal["strict", "standard", "eager"]
#: `strong`: marks that exist only for calls. `weak`: marks that also hold other things, such as a JSON code
#: block. `bare`: no marks at all.
Wrapper = Literal["strong", "weak", "bare"]
#: Where people show what a call looks like: right behind an opening quote, in a line that begins with `>`, in a row of
#: a table, in an HTML comment, in an element that is called so, in a paragraph of code, which is indented and stands
#: behind an empty line.
Example = Literal["quotes", "quoted_line", "table", "comment", "element", "indented"]


class Evidence(msgspec.Struct, frozen=True):
    """What speaks for and against a candidate."""

    dialect: str
    wrapper: Wrapper
    #: Whether the name is one of the tools; None when no tools were given.
    known: bool | None = None
    #: Whether the arguments fit the tool's schema; None until they are complete.
    fits: bool | None = None
    #: The opener stands at the start of a line, or only calls stand before it on its line.
    line_start: bool = True
    #: Only white space, reasoning or other calls stand before it.
    answer_start: bool = True
    #: Only white space, closing punctuation or other calls stand behind it; None until that is known.
    answer_end: bool | None = None
    in_fence: bool = False
    in_code: bool = False
    in_reasoning: bool = False
    #: It stands where examples do; None elsewhere.
    example: Example | None = None
    #: Whether the opener carries the nonce; None when none was asked for.
    nonce: bool | None = None
    #: The same call stands in text that nobody vouches for.
    echo: bool = False

    def shown(self) -> dict[str, bool | str]:
        """What is known, as people see it."""
        return _shown(self).copy()


@lru_cache(maxsize=1024)
def _shown(evidence: Evidence) -> dict[str, bool | str]:
    return {name: value for name, value in msgspec.structs.asdict(evidence).items() if value is not None}


class Decision(msgspec.Struct, frozen=True):
    """`live`: a call, now. `hold`: wait for its end. `reject`: not a call; the reason says why."""

    action: Literal["live", "hold", "reject"]
    reason: str


_Rule = tuple[str, Callable[[Evidence, Policy], bool]]

#: Reasons that hold for everything inside the same marks: there is no use in reading on.
REGION_REASONS = frozenset({"reasoning", "in_fence", "in_code", "example", "no_nonce", "inline"})

_REJECT_AT_NAME: tuple[_Rule, ...] = (
    ("reasoning", lambda e, p: e.in_reasoning),
    ("no_nonce", lambda e, p: e.nonce is False),
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
    ("does_not_fit", lambda e, p: e.wrapper != "strong" and e.fits is False),
    ("not_whole_answer", lambda e, p: e.wrapper == "bare" and e.known is None and e.answer_end is False),
    ("more_follows", lambda e, p: _needs_tail(e, p) and e.answer_end is False),
)


def _may_end(evidence: Evidence) -> bool:
    """Code that is indented is a call where the answer ends with it: some models indent everything."""
    return evidence.example == "indented"


def _needs_tail(evidence: Evidence, policy: Policy) -> bool:
    """Weak evidence counts only where the model stopped to wait for a result."""
    if policy == "eager":
        return False
    bare = evidence.wrapper == "bare"
    weak = evidence.wrapper == "weak" or _may_end(evidence)
    return weak or (bare and not evidence.line_start) or needs_line(evidence)


def needs_line(evidence: Evidence) -> bool:
    """A bare Python call counts only if its line holds nothing else: sentences begin with such examples."""
    return evidence.wrapper == "bare" and evidence.dialect in ("name", "pythonic")


@lru_cache(maxsize=1024)
def judge_name(evidence: Evidence, policy: Policy) -> Decision:
    """The name is known: stream the call, hold it, or leave it in the text."""
    for reason, applies in _REJECT_AT_NAME:
        if applies(evidence, policy):
            return Decision("reject", reason)
    live = evidence.wrapper == "strong" and not _needs_tail(evidence, policy)
    return Decision("live", "accepted") if live else Decision("hold", "held")


@lru_cache(maxsize=1024)
def judge_end(evidence: Evidence, policy: Policy) -> Decision:
    """The call is complete. `hold` means that what follows it must be seen first."""
    for reason, applies in _REJECT_AT_END:
        if applies(evidence, policy):
            return Decision("reject", reason)
    undecided = evidence.answer_end is None and (
        _needs_tail(evidence, policy) or (evidence.wrapper == "bare" and evidence.known is None)
    )
    return Decision("hold", "held") if undecided else Decision("live", "accepted")
