"""What is said beside a request: an option that holds for its one call, for all of its calls, or for one of them.

"The weather in Rome, and could you give it in Fahrenheit" is one call, and "the weather in Rome and Oslo, in Fahrenheit"
is two that both have the unit. Above: `family`, `several`. Below: `values`, `wording`. The seed decides all.
"""

from __future__ import annotations

import random
import re
from typing import Protocol

from toolspeak.core.types import ToolCall

from .values import Drawn, Kind
from .wording import lowered

#: Words in front of the thing that a switch is about.
_DOING = re.compile(r"^(?:include|show|with|return|add|use|send|allow|enable) ")
_ON = ("with {0} enabled", "with {0} on", "with {0} set to true", "with {0} turned on")
_ON_THING = ("including {1}", "with {1}", "with {1} included", *_ON)
_OFF = ("with {0} disabled", "with {0} off", "with {0} set to false", "without {1}")
_WITH = (
    "with {0} {1}",
    "with a {0} of {1}",
    "using {0} {1}",
    "with the {0} {1}",
    "with {1} as the {0}",
    "with the {0} set to {1}",
)
#: What something is in: "in metric units", "in EUR".
_IN = frozenset(("unit", "units", "format", "currency", "language", "output format", "temperature unit"))

#: An option at the end of a request for one call, and in front of it.
_ONE = (
    "{0}, {1}.", "{0}, and could you do that {1}?", "{0}. Please do it {1}.", "{0}, and make sure to do it {1}.",
    "{0}. And {1}, please.", "{0} {1}.", "{0}. I want it {1}.", "{0}, and please {1}.", "{0}; {1}.", "{1}, {2}.", "{1}: {2}.",
)  # fmt: skip
#: The same with several calls: for all of them, for two, and for one by its place.
_ALL = (
    "{0}, {1}.", "{0}, {1}.", "{0} {1}.", "{0}, all {1}.", "{0}, {1} for all of them.", "{0}, each {1}.", "{0}, {1} in each case.",
    "{0}. Do it {1} for all of them.", "{0}. In every case {1}.", "{0}. I want all of that {1}.", "{1}, {2}.", "{0}. All {1}, please.",
)  # fmt: skip
_BOTH = (*_ALL, "{0}, both {1}.", "{0}, {1} for both.", "{0}. Both {1}, please.")
_PLACED = (
    ("{0}, the last one {1}.", -1), ("{0}, but only the last {1}.", -1), ("{0}. The first one {1}, please.", 0),
    ("{0}. Do the last one {1}.", -1), ("{0}. For the first one {1}, not for the rest.", 0),
)  # fmt: skip
#: How often a request has an option beside it, and how often that is for one of several calls.
_OFTEN, _FOR_ONE = 0.3, 0.12


class Optional(Protocol):
    """A tool with parameters that a request may leave out."""

    def spare(self, calls: list[ToolCall]) -> list[str]:
        """The optional parameters of simple values that none of these calls has."""
        ...

    def label(self, key: str, rng: random.Random) -> str:
        """What a parameter may be called by a person."""
        ...

    def kind_of(self, key: str) -> Kind | None:
        """The kind of value of a slot; None for objects."""
        ...

    def merged(self, shared: dict[str, Drawn], call: ToolCall) -> ToolCall:
        """The call with values that all calls share."""
        ...


def with_option(tool: Optional, rng: random.Random, said: str, call: ToolCall) -> tuple[str, ToolCall]:
    """The request for one call, now and then with an option beside it."""
    found = _drawn(tool, rng, [call]) if rng.random() < _OFTEN / 2 else {}
    return (_put(rng.choice(_ONE), said, _told(tool, found, rng)), tool.merged(found, call)) if found else (said, call)


def with_options(tool: Optional, rng: random.Random, said: str, calls: list[ToolCall]) -> tuple[str, list[ToolCall]]:
    """The request for several calls, now and then with an option for all of them or for one."""
    found = _drawn(tool, rng, calls) if rng.random() < _OFTEN and len(calls) > 1 else {}
    if not found:
        return said, calls
    clause = _told(tool, found, rng)
    if rng.random() < _FOR_ONE:
        form, place = rng.choice(_PLACED)
        chosen = calls[place]
        return _put(form, said, clause), [tool.merged(found, each) if each is chosen else each for each in calls]
    form = rng.choice(_BOTH if len(calls) == 2 else _ALL)
    return _put(form, said, clause), [tool.merged(found, each) for each in calls]


def _drawn(tool: Optional, rng: random.Random, calls: list[ToolCall]) -> dict[str, Drawn]:
    """One value or two for what the calls leave open."""
    spare = tool.spare(calls)
    found: dict[str, Drawn] = {}
    for key in rng.sample(spare, min(len(spare), rng.choice([1, 1, 1, 2]))):
        kind = tool.kind_of(key)
        assert kind is not None
        found[key] = Drawn(rng.random() < 0.75, "") if kind.name == "bool" else kind.draw(rng)
    return found


def _told(tool: Optional, found: dict[str, Drawn], rng: random.Random) -> str:
    return " and ".join(_clause(tool.label(key, rng), drawn, rng) for key, drawn in found.items())


def _clause(label: str, drawn: Drawn, rng: random.Random) -> str:
    """An option as it is said behind a request."""
    if isinstance(drawn.value, bool):
        thing = _DOING.sub("", label)
        forms = (_ON if thing == label else _ON_THING) if drawn.value else _OFF
        return rng.choice(forms).format(label, thing)
    return rng.choice(("in {1}", *_WITH) if label in _IN else _WITH).format(label, drawn.said)


def _put(form: str, said: str, clause: str) -> str:
    """The request and the clause in this form, which ends as the request did, or in a line of its own."""
    end = said[-1:] if said[-1:] in ("?", "!") else ""
    bare = said.rstrip(".?! ")
    if "\n" in bare:
        return (
            f"{said}\n{clause[:1].upper()}{clause[1:]}" + ("" if form.startswith("{1}") else " for all of them") + "."
        )
    told = form.format(bare, clause, lowered(bare))
    told = told[:1].upper() + told[1:] if form.startswith("{1}") else told
    return told[:-1] + end if end and told.endswith(".") and ". " not in form else told
