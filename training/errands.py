"""Requests for several tools that were written by hand, as people say them in one breath.

A block of `errands.txt` begins with the names of the families that it takes; lines with `>` are requests. `{0.city}` is a value of the first
family, `{0.date&1.start}` one value that two of them take, and `[0.unread=true]` at the end fixes a value that is said without a slot.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.types import JSONObject, ToolCall

from .different import Asked
from .family import Family, Offer, families
from .held_out import is_held_out
from .values import Drawn

__all__ = ["ERRANDS", "Errand", "errands"]

ERRANDS = Path(__file__).parent / "errands.txt"
#: One errand in so many is never trained on.
_HELD_OUT = 14
_SLOT = re.compile(r"\{(\d\.\w+)(?:&(\d\.\w+))?\}")
_FIXED = re.compile(r"\s*\[(\d\.\w+=.*)\]$")


class Errand(NamedTuple):
    """The families whose tools an errand takes, and ways to ask for it."""

    families: tuple[Family, ...]
    requests: tuple[str, ...]

    def ask(self, offers: Sequence[Offer], rng: random.Random, request: str = "") -> Asked:
        """A request for all of these tools, one of each family."""
        text, fixed = _split(request or rng.choice(self.requests))
        drawn: list[dict[str, Drawn]] = [{} for _ in offers]

        def said(slot: re.Match[str]) -> str:
            places = [(int(at), key) for at, _, key in (each.partition(".") for each in slot.groups() if each)]
            at, key = places[0]
            value = drawn[at][key] if key in drawn[at] else _drawn(offers[at], key, rng)
            for at, key in places:
                drawn[at][key] = _for(offers[at], key, value)
            kind = offers[at].family.params[key].kind
            # Options may be called by number and are said in words; other numbers stand beside letters and signs.
            number = (
                isinstance(value.value, int | float) and kind is not None and not kind.name.startswith(("enum", "pick"))
            )
            return str(value.value) if number and not value.said[:1].isdigit() else value.said

        told = _SLOT.sub(said, text)
        return Asked(
            told[:1].upper() + told[1:],
            tuple(_call(offer, drawn[at], fixed.get(at, {})) for at, offer in enumerate(offers)),
        )


def _drawn(offer: Offer, key: str, rng: random.Random) -> Drawn:
    """A value for a slot; one, also where the tool takes a list."""
    kind, own = offer.kind_of(key), offer.family.params[key].kind
    assert kind is not None and own is not None
    return (own if kind.name == "list" else kind).draw(rng)


def _for(offer: Offer, key: str, drawn: Drawn) -> Drawn:
    kind = offer.kind_of(key)
    takes_many = kind is not None and kind.name == "list" and not isinstance(drawn.value, list)
    return Drawn([drawn.value], drawn.said) if takes_many else drawn


def _call(offer: Offer, drawn: dict[str, Drawn], fixed: JSONObject) -> ToolCall:
    slots = " ".join(f"{{{key}}}" for key in drawn)
    return offer.fill(slots, fixed, random.Random(0), drawn)[1]


def _split(request: str) -> tuple[str, dict[int, JSONObject]]:
    """A request, and the values that it fixes for each tool."""
    found = _FIXED.search(request)
    if not found:
        return request, {}
    fixed: dict[int, JSONObject] = {}
    for name, _, value in (each.partition("=") for each in found.group(1).split(";")):
        fixed.setdefault(int(name[0]), {})[name[2:]] = json.loads(value)
    return request[: found.start()], fixed


@cache
def _all() -> tuple[Errand, ...]:
    known = {family.key: family for family in families()}
    found: list[Errand] = []
    for block in ERRANDS.read_text(encoding="utf-8").strip().split("\n\n"):
        names, *lines = block.splitlines()
        requests = tuple(line.removeprefix("> ") for line in lines)
        found.append(Errand(tuple(known[name] for name in names.split()), requests))
    return tuple(found)


def errands(trained: Iterable[Family], held_out: bool = False) -> tuple[Errand, ...]:
    """Those that take families which are trained on and nothing else, but for one in so many; or the others."""
    known = {family.key for family in trained}

    def is_apart(errand: Errand) -> bool:
        name = " ".join(family.key for family in errand.families)
        return is_held_out(name, _HELD_OUT) or any(family.key not in known for family in errand.families)

    return tuple(errand for errand in _all() if is_apart(errand) == held_out)
