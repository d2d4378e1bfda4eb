"""The phases of a turn, as data.

A plan is a walk through phases: each phase is one kind of request and one way to read its answer. This table
is all there is to know about the order; `engine` only follows it.

    plan      first phase   the answer holds no call   it went wrong      native calling is refused
    pass      relay         done
    plain     final         done
    native    native        done                       native, again      inline
    inline    inline        done                       inline, again
    decision  decision      final                      decision, again
    envelope  envelope      done                       envelope, again
    fallback  trial         the second plan            the second plan    the second plan

An answer with a call ends every plan.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .output_gate import TextPolicy

PhaseName = Literal["relay", "final", "native", "trial", "inline", "decision", "envelope"]


class Phase(msgspec.Struct, frozen=True):
    """One kind of request."""

    name: PhaseName
    #: Which reading its answer gets.
    reads: Literal["relay", "plain", "answer", "envelope"]
    #: What happens to its text.
    text: TextPolicy
    #: The model is asked to write its calls as text: the reply says so.
    emulates: bool = False
    #: An answer that went wrong is asked for again.
    recovers: bool = False
    #: `tool_choice` is enforced.
    enforces: bool = True
    #: What comes when the answer holds no call; "" ends the turn, `second` asks the plan.
    otherwise: PhaseName | Literal["", "second"] = ""
    #: What comes when the upstream does not take tools.
    unsupported: PhaseName | Literal["", "second"] = ""


PHASES: dict[PhaseName, Phase] = {
    phase.name: phase
    for phase in (
        Phase("relay", "relay", "live", enforces=False),
        Phase("final", "plain", "live"),
        Phase("native", "answer", "opening", recovers=True, unsupported="inline"),
        Phase("trial", "answer", "until_call", otherwise="second", unsupported="second"),
        Phase("inline", "answer", "opening", emulates=True, recovers=True),
        Phase("decision", "answer", "never", emulates=True, recovers=True, otherwise="final"),
        Phase("envelope", "envelope", "opening", emulates=True, recovers=True),
    )
}

#: The first phase of each plan.
FIRST: dict[str, PhaseName] = {
    "pass": "relay",
    "plain": "final",
    "native": "native",
    "inline": "inline",
    "decision": "decision",
    "envelope": "envelope",
    "fallback": "trial",
}
