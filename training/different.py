"""Requests that ask for several different tools in one breath, and how people join what they ask for.

`joints.txt` holds the joints, one in a line: a mood (`any`; `do`: all parts are orders; `ask`: all are questions), then what is written for
the first part, for each part between, and for the last, with ` :: ` between; a joint without ` :: ` joins two parts. `{A}` is a part as a
sentence begins, `{a}` as it goes on, `{b}` the second of two; with a full stop behind the letter the part keeps the mark at its end. `#` counts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from toolspeak.core.types import Tool, ToolCall

from .family import Offer
from .held_out import is_held_out
from .values import Kind
from .wording import ASKING, lowered, sentence

__all__ = ["JOINTS", "Asked", "Joint", "Part", "can_share", "join", "joints", "put", "together"]

JOINTS = Path(__file__).parent / "joints.txt"
#: One joint in so many is never trained on.
_HELD_OUT = 14
#: How often two neighbours share a value, and how often the second then says it with a word such as "there".
_SHARED, _REFERRED = 0.45, 0.5
#: How often nothing English joins parts in other languages.
_AS_IT_IS = 0.85
#: How often one of the tools is asked for twice.
_TWICE = 0.35
#: Words that begin an order.
_ORDERS = frozenset(
    "find show add put give set make create send tell check run search get book start log save write order compute take calculate reserve "
    "record open share throw look print list request turn move file block publish recommend count estimate compare offer call register switch "
    "apply ask buy merge remember schedule release roll fence water use split pass read remind post reply invoice limit extend sell scan sum "
    "convert generate combine transcribe commit test ping restart claim unlock plan transfer note free change alert pay freeze export keep "
    "quote swap suggest define conjugate delay lay tighten bend weigh invert interpolate prorate retrieve look locate translate cancel rent "
    "deploy encode replace format train draw insert buy resize cut delete deal mix track measure analyze design build solve rate describe "
    "predict select sort rank filter update upload download fetch play stop pause close launch verify evaluate generate provide identify".split()
)
_SLOT = re.compile(r"\{([ABab])(\.?)\}")
_PLACE = re.compile(r" (?:in|at) \{(\w+)\}")
#: How a value is said that was said before: {0} is what it is called.
_SAME = ("the same {0}", "that same {0}", "the same {0} as before")
#: Kinds of values that are places, where "there" may stand for one.
_PLACES = frozenset(("city", "country", "place", "uscity", "state"))
_NUMBERS = frozenset(("int", "num", "big", "id", "pct", "pctn", "prob", "cents", "durations", "freq", "day"))
_THERE = (" there", " there as well", " in the same place")


class Asked(NamedTuple):
    """A request and the calls that it takes."""

    request: str
    calls: tuple[ToolCall, ...]


class Part(NamedTuple):
    """One of the things that are asked for."""

    said: str
    calls: tuple[ToolCall, ...]


class Joint(NamedTuple):
    """A way to join parts."""

    mood: str
    #: What is written for the first part, for those between and for the last; one text alone takes two parts.
    pieces: tuple[str, ...]

    @property
    def key(self) -> str:
        """What it is known by."""
        return f"{self.mood} {' :: '.join(self.pieces)}"

    @property
    def is_bare(self) -> bool:
        """Whether it has no words of its own."""
        return not any(re.search(r"[A-Za-z]", _SLOT.sub("", piece)) for piece in self.pieces)


class Askable(Protocol):
    """A tool that can be asked for."""

    tool: Tool

    def short(self, rng: random.Random) -> tuple[str, ToolCall]:
        """A request for one call, with nothing around it."""
        ...

    def ask_several(self, rng: random.Random, count: int) -> tuple[str, list[ToolCall]]:
        """A request for so many calls."""
        ...


@cache
def _all() -> tuple[Joint, ...]:
    rows = (line.partition(" ") for line in JOINTS.read_text(encoding="utf-8").splitlines())
    return tuple(Joint(mood, tuple(text.replace("\\n", "\n").split(" :: "))) for mood, _, text in rows)


def joints(held_out: bool = False) -> tuple[Joint, ...]:
    """The joints to train on, or the others."""
    return tuple(joint for joint in _all() if is_held_out(joint.key, _HELD_OUT) == held_out)


def together(offers: Sequence[Askable], chosen: Sequence[Joint], rng: random.Random) -> Asked:
    """A request that takes a call of each of these tools, and of one of them two now and then."""
    parts = [each for offer in offers for each in _parts(offer, rng, rng.random() < _TWICE / len(offers))]
    if len(offers) > 1 and rng.random() < _SHARED:
        at = rng.randrange(len(offers) - 1)
        one, other = offers[at], offers[at + 1]
        shared = _sharing(one, other, rng) if isinstance(one, Offer) and isinstance(other, Offer) else None
        if shared is not None:
            parts = [
                *(Part(*_short(each, rng)) for each in offers[:at]),
                *shared,
                *(Part(*_short(each, rng)) for each in offers[at + 2 :]),
            ]
    if len(offers) > 2 and rng.random() < 0.3:
        rng.shuffle(parts)
    request, calls = join(parts, chosen, rng)
    return Asked(sentence(request, rng, value_first=not _is_common(request)), calls)


def join(parts: Sequence[Part], chosen: Sequence[Joint], rng: random.Random) -> Asked:
    """Several requests as one."""
    mood, count = _mood([each.said for each in parts]), len(parts)
    able = [
        joint for joint in chosen if joint.mood in ("any", mood) and (len(joint.pieces) > 1 or count == 2)
    ] or _fallback()
    if any(_is_foreign(part.said) for part in parts) and rng.random() < _AS_IT_IS:
        able = [joint for joint in able if joint.is_bare] or _fallback()
    # What suits these parts alone is said as often as what suits any.
    apt = [joint for joint in able if joint.mood == mood]
    joint = rng.choice(apt if apt and rng.random() < 0.5 else able)
    if len(joint.pieces) == 1:
        told = put(joint.pieces[0], [part.said for part in parts])
    else:
        first, between, last = joint.pieces
        forms = [first, *[between] * (count - 2), last]
        told = ""
        for at, (form, part) in enumerate(zip(forms, parts, strict=True), 1):
            piece = put(form.replace("#", str(at), 1), [part.said])
            told += piece if not told or piece[0] in ",;.\n" else f" {piece}"
    return Asked(told, tuple(call for part in parts for call in part.calls))


def _is_foreign(text: str) -> bool:
    return sum(not each.isascii() for each in text if each.isalpha()) > 1


def _fallback() -> list[Joint]:
    return [joint for joint in _all() if joint.pieces == ("{A.}", "{A.}", "{A.}")]


def _mood(requests: Sequence[str]) -> str:
    if all(each.endswith("?") for each in requests):
        return "ask"
    orders = all(each.split(" ", 1)[0].rstrip(",:").lower() in _ORDERS and "?" not in each for each in requests)
    return "do" if orders and not any(re.search(r"[.!] \w", each) for each in requests) else "any"


def put(form: str, requests: Sequence[str]) -> str:
    """The form with one request or two in its slots."""
    return _SLOT.sub(lambda slot: _put(requests[slot.group(1) in "bB"], slot), form)


def _put(said: str, slot: re.Match[str]) -> str:
    letter, ended = slot.group(1), bool(slot.group(2))
    bare = said.rstrip(" .?!") if not ended or said[-1:] not in "?!" else said
    if ended and bare[-1:] not in ("?", "!", "…", "。", "？"):
        bare += "."
    return bare[:1].upper() + bare[1:] if letter.isupper() and _begins_with_a_word(bare) else _going_on(bare, letter)


def _begins_with_a_word(text: str) -> bool:
    return text.split(" ", 1)[0].rstrip(",.:;?!'\"").isalpha()


def _going_on(text: str, letter: str) -> str:
    return lowered(text) if letter.islower() and _is_common(text) else text


def _is_common(text: str) -> bool:
    """Whether the first word surely is no name."""
    first = text.split(" ", 1)[0].rstrip(",.:;")
    return first.lower() in _ORDERS or first in ASKING or first in _SMALL


_SMALL = frozenset("The A An My Our Please For On In At With From By It Is If When Every Could Would Can There".split())


def _short(offer: Askable, rng: random.Random) -> tuple[str, tuple[ToolCall, ...]]:
    said, call = offer.short(rng)
    return said, (call,)


def _parts(offer: Askable, rng: random.Random, twice: bool) -> list[Part]:
    """What is asked of a tool: one thing, or two in one part or in two."""
    if not twice:
        return [Part(*_short(offer, rng))]
    if rng.random() < 0.5:
        said, calls = offer.ask_several(rng, 2)
        return [Part(said, tuple(calls))]
    one, other = _short(offer, rng), _short(offer, rng)
    return [Part(*one)] if one[1] == other[1] or one[0] == other[0] else [Part(*one), Part(*other)]


def _sharing(one: Offer, other: Offer, rng: random.Random) -> list[Part] | None:
    """Two requests in which one value is the same; the second says it once more, or says that it is the same."""
    for _ in range(4):
        (first, fixed), (second, also_fixed) = one.template(rng), other.template(rng)
        ours, theirs = one.names_in(first), other.names_in(second)
        able = [(mine, their) for mine in ours for their in theirs if _alike(mine, ours[mine], their, theirs[their])]
        if able:
            break
    else:
        return None
    mine, their = rng.choice(able)
    drawn = ours[mine].draw(rng)
    said, call = one.fill(first, fixed, rng, {mine: drawn})
    again, values = second, {their: drawn}
    if rng.random() < _REFERRED and second.isascii():
        place = _PLACE.search(second)
        if place and place.group(1) == their and theirs[their].name in _PLACES:
            again = second[: place.start()] + rng.choice(_THERE) + second[place.end() :]
        elif re.search(rf"(?<= )\{{{their}\}}(?=[ .?!,]|$)", second) and isinstance(drawn.value, str):
            again = second.replace(f"{{{their}}}", rng.choice(_SAME).format(mine.replace("_", " ")))
    told, called = other.fill(again, also_fixed, rng, dict(values))
    return [Part(said, (call,)), Part(told, (other.merged(values, called),))]


def _alike(mine: str, one: Kind, their: str, other: Kind) -> bool:
    """Whether a value of one parameter may be one of the other."""
    return one.name == other.name and one.schema == other.schema and (one.name not in _NUMBERS or mine == their)


def can_share(one: Offer, other: Offer) -> bool:
    """Whether a request for each could speak of the same thing."""
    ours, theirs = (
        {kind.name for text in each.family.requests for kind in each.names_in(text).values()} - _NUMBERS
        for each in (one, other)
    )
    return bool(ours & theirs)
