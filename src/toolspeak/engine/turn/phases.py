"""The phases of a turn, as data.

A plan is a sequence of phases: each phase is one kind of request and one way to parse its answer. This table
defines the order; `engine` only follows it.

    plan      first phase   answer without a call   faulty answer     upstream rejects tools
    pass      relay         done
    plain     final         done
    native    native        done                    retry native      inline
    inline    inline        done                    retry inline
    decision  decision      final                   retry decision
    envelope  envelope      done                    retry envelope
    fallback  trial         the second plan         the second plan   the second plan

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
    #: How its answer is parsed.
    reads: Literal["relay", "plain", "answer", "envelope"]
    #: What happens to its text.
    text: TextPolicy
    #: The model is asked to write its calls as text; the reply carries a warning.
    emulates: bool = False
    #: A faulty answer is retried.
    recovers: bool = False
    #: `tool_choice` is enforced.
    enforces: bool = True
    #: Next phase after an answer without a call; "" ends the turn, `second` is the plan's second choice.
    otherwise: PhaseName | Literal["", "second"] = ""
    #: Next phase if the upstream rejects tools.
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
FIRST_PHASE: dict[str, PhaseName] = {
    "pass": "relay",
    "plain": "final",
    "native": "native",
    "inline": "inline",
    "decision": "decision",
    "envelope": "envelope",
    "fallback": "trial",
}
