"""Ways to call, as a person writes them: `native,inline,inline+grammar,decision+grammar@100`.

A way is a mode, a plan, and whether the upstream enforces the form of calls; behind `@` stands how many cases of each
category it is asked. Pure.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from ..engine.planning.strategy import Mode
from ..errors import UsageError

Plan: TypeAlias = Literal["", "inline", "decision", "envelope"]

#: What ends the name of a way in which the form is enforced.
_ENFORCED = "+grammar"
#: More cases than any category has.
_MOST_CASES = 10_000


class Way(NamedTuple):
    """One way to call."""

    mode: Mode = "auto"
    plan: Plan = ""
    #: Whether the upstream is asked to enforce the form, if it can.
    constrain: bool = True
    #: Cases of each category; None: as many as of the others.
    each: int | None = None


#: By name. `native` is the upstream's own calling; a plan without `+grammar` is left to the model's good will.
WAYS: dict[str, Way] = {
    "auto": Way(),
    "native": Way("off"),
    "fallback": Way("fallback"),
    **{plan: Way("force", plan, constrain=False) for plan in ("inline", "decision", "envelope")},
    **{f"{plan}{_ENFORCED}": Way("force", plan) for plan in ("inline", "decision", "envelope")},
}


def ways_of(text: str) -> tuple[Way, ...]:
    """The ways that are listed, in their order, each once.

    Raises:
        UsageError: one of them is none.
    """
    return tuple(dict.fromkeys(_way(part.strip()) for part in text.split(",") if part.strip()))


def _way(text: str) -> Way:
    name, at, count = text.partition("@")
    way = WAYS.get(name)
    if way is None:
        raise UsageError(f"there is no way to call `{name:.80}`", hint=f"use {', '.join(WAYS)}")
    if not at:
        return way
    if not (count.isascii() and count.isdigit() and 0 < int(count[:6]) <= _MOST_CASES):
        raise UsageError(f"`{text:.80}` does not say how many cases", hint=f"write it as {name}@40")
    return way._replace(each=int(count))
