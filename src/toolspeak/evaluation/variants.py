"""Calling variants as written on the command line: `native,inline,inline+grammar,decision+grammar@100`.

A variant selects a mode, a plan, and whether to use constrained output for calls. The number after `@` is the number
of cases per category.
"""

from typing import Literal, NamedTuple, TypeAlias

from ..core.text import suggestion
from ..engine.planning.strategy import Mode
from ..errors import UsageError

Plan: TypeAlias = Literal["", "inline", "decision", "envelope"]

_ENFORCED = "+grammar"
_MAX_CASES = 10_000


class CallVariant(NamedTuple):
    mode: Mode = "auto"
    plan: Plan = ""
    constrain: bool = True  # whether to request constrained output if the upstream supports it
    each: int | None = None  # cases per category; None for the default


#: Variants by name. `native` is the upstream's own tool calling. A plan without `+grammar` is not constrained.
VARIANTS: dict[str, CallVariant] = {
    "auto": CallVariant(),
    "native": CallVariant("off"),
    "fallback": CallVariant("fallback"),
    **{plan: CallVariant("force", plan, constrain=False) for plan in ("inline", "decision", "envelope")},
    **{f"{plan}{_ENFORCED}": CallVariant("force", plan) for plan in ("inline", "decision", "envelope")},
}


def parse_variants(text: str) -> tuple[CallVariant, ...]:
    """Parse a comma-separated list of variants and remove duplicates. Raises UsageError if one is invalid."""
    return tuple(dict.fromkeys(_parse_variant(part.strip()) for part in text.split(",") if part.strip()))


def _parse_variant(text: str) -> CallVariant:
    name, at, count = text.partition("@")
    variant = VARIANTS.get(name)
    if variant is None:
        raise UsageError(f"unknown setting `{name:.80}`", hint=suggestion(name, VARIANTS))
    if not at:
        return variant
    if not (count.isascii() and count.isdigit() and 0 < int(count[:6]) <= _MAX_CASES):
        raise UsageError(f"invalid number of cases in `{text:.80}`", hint=f"use a number such as {name}@40")
    return variant._replace(each=int(count))
