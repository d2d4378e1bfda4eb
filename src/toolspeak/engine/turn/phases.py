"""The phases of a turn, as a table.

A plan is a sequence of phases. Each phase has one kind of request and one way to parse the answer. The table
defines the order of the phases; `engine` follows it.

    plan      first phase   answer without a call   faulty answer     upstream rejects tools
    pass      relay         done
    plain     final         done
    native    native        done                    retry native      inline
    inline    inline        done                    retry inline
    inline    both          done                    retry inline      inline
    decision  decision      final                   retry decision
    envelope  envelope      done                    retry envelope
    fallback  trial         the second plan         the second plan   the second plan

In every plan, an answer with a call ends the turn. A retry may use another phase. `both` sends the tools natively and
in the prompt, if nothing is known about the upstream. `interpretation` asks the interpreter, not the upstream, about an
answer; if that yields no call, the turn goes on as if it had not been asked.
"""

from typing import Literal

import msgspec

from .output_gate import TextPolicy

PhaseName = Literal["relay", "final", "native", "trial", "both", "inline", "decision", "envelope", "interpretation"]


class Phase(msgspec.Struct, frozen=True):
    """One kind of upstream request, and how its answer is handled."""

    name: PhaseName
    #: How the answer is parsed.
    reads: Literal["relay", "plain", "answer", "envelope"]
    #: Whether the text of the answer is streamed, held back or discarded.
    text: TextPolicy
    #: Whether the model is asked to write its calls as text. The reply then carries a warning.
    emulates: bool = False
    #: Whether a faulty answer is retried.
    recovers: bool = False
    #: Whether `tool_choice` is enforced.
    enforces: bool = True
    #: The next phase after an answer without a call. "" ends the turn; `second` stands for the plan's second choice.
    otherwise: PhaseName | Literal["", "second"] = ""
    #: The next phase if the upstream rejects tools.
    unsupported: PhaseName | Literal["", "second"] = ""


PHASES: dict[PhaseName, Phase] = {
    phase.name: phase
    for phase in (
        Phase("relay", "relay", "live", enforces=False),
        Phase("final", "plain", "live"),
        Phase("native", "answer", "opening", recovers=True, unsupported="inline"),
        Phase("trial", "answer", "until_call", otherwise="second", unsupported="second"),
        Phase("both", "answer", "opening", emulates=True, recovers=True),
        Phase("inline", "answer", "opening", emulates=True, recovers=True),
        Phase("decision", "answer", "never", emulates=True, recovers=True, otherwise="final"),
        Phase("envelope", "envelope", "opening", emulates=True, recovers=True),
        Phase("interpretation", "envelope", "never"),
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
