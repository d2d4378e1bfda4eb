"""Several calls of one tool in one request: which values differ between the calls, and how that is said.

Each form takes a tool that can fill its requests with values, and gives what is said and the calls that it asks for; a
form that does not suit gives nothing. Above: `family`. Below: `options`, `values`, `wording`. The seed decides all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Protocol

from toolspeak.core.types import JSONObject, ToolCall

from .options import Optional, with_options
from .values import Drawn, listed
from .wording import ASKING, sentence, strung

SLOT = re.compile(r"\{([\w.]+)!?\}")
#: Where a value is said that the call does not hold.
UNMEANT = re.compile(r"\{([\w.]+)~\}")
#: Kinds of values that cannot be counted up in a sentence.
_WHOLE = frozenset(("list", "bool", "matrix", "sentence", "review", "expr", "sql"))
Asked = tuple[str, list[ToolCall]]


class Asking(Optional, Protocol):
    """A tool with requests that have slots."""

    def template(self, rng: random.Random) -> tuple[str, JSONObject]:
        """A request with slots, and values that it fixes."""
        ...

    @property
    def joint(self) -> tuple[str, str] | None:
        """How several calls begin to be asked for, and how each of them is told."""
        ...

    def fill(self, text: str, fixed: JSONObject, rng: random.Random, drawn: dict[str, Drawn]) -> tuple[str, ToolCall]:
        """The text with values in its slots, those that are drawn already among them, and its call."""
        ...


def several(tool: Asking, rng: random.Random, count: int) -> Asked:
    """A request that takes so many calls of this tool."""
    for form in rng.choices(_FORMS, _OFTEN, k=3):
        found = form(tool, rng, count)
        if found is not None:
            return found
    return _strung(tool, rng, count)


def _strung(tool: Asking, rng: random.Random, count: int) -> Asked:
    """One request after the other."""
    told = dict(tool.fill(*tool.template(rng), rng, {}) for _ in range(count))
    return strung(told, rng), list(told.values())


def _fragments(tool: Asking, rng: random.Random, count: int) -> Asked | None:
    """A head, and a fragment for each call."""
    if tool.joint is None:
        return None
    opening, fragment = tool.joint
    shared: dict[str, Drawn] = {}
    head, _ = tool.fill(opening, {}, rng, shared)
    slots = SLOT.findall(fragment)
    if len(slots) > 1 and rng.random() < 0.3:  # all but one value, or only one, is the same in all fragments
        # Where a list alone differs, one call could have taken it all.
        lists = [key for key in slots if "." in key or ((kind := tool.kind_of(key)) and kind.name == "list")]
        kept = lists[:1] or rng.sample(slots, rng.choice([1, len(slots) - 1]))
        for key in kept:
            if (kind := tool.kind_of(key)) is not None:
                shared.setdefault(key, kind.draw(rng))
    told: dict[str, ToolCall] = {}
    for _ in range(count * 4):
        if len(told) < count:
            said, call = tool.fill(fragment, {}, rng, dict(shared))
            told[said] = tool.merged(shared, call)
    return _ended(tool, rng, enumerated(head, list(told), rng), list(told.values()), False)


def enumerated(head: str, fragments: list[str], rng: random.Random) -> str:
    """A head and what belongs to it, as one request."""
    if len(fragments) > 1 and rng.random() < 0.15:
        mark = rng.choice(["- ", "* ", "", "• "])
        return f"{head.rstrip(':')}:\n" + "\n".join(mark + each for each in fragments)
    chained = ["; ", ", then ", ", for "] if "for" in head.split()[-2:] else ["; "]
    between = rng.choice([", ", ", ", *chained])
    last = rng.choice([" and ", " and ", ", and ", " and also ", " as well as ", "; and ", ", and then "])
    body = f"{between.join(fragments[:-1])}{last}{fragments[-1]}" if len(fragments) > 1 else fragments[0]
    return f"{head} {body}" + ("?" if head.split(maxsplit=1)[0] in ASKING else ".")


def _ended(tool: Asking, rng: random.Random, said: str, calls: list[ToolCall], value_first: bool) -> Asked:
    """A request as people type it, with options for all of its calls now and then."""
    said, calls = with_options(tool, rng, said, calls)
    return sentence(said, rng, value_first), calls


def _varying(tool: Asking, text: str) -> list[str]:
    """The slots of a request whose values can be counted up: in English, and not where one is quoted."""
    if not text.isascii():
        return []
    slots = [
        slot
        for slot in SLOT.finditer(text)
        if text[: slot.start()][-1:] not in ("'", '"') and not slot.group().endswith("!}")
    ]
    found = [(key, tool.kind_of(key)) for key in dict.fromkeys(slot.group(1) for slot in slots) if "." not in key]
    return [key for key, kind in found if kind is not None and kind.name not in _WHOLE]


def _draws(tool: Asking, key: str, rng: random.Random, count: int) -> list[Drawn]:
    """Different values for a slot."""
    kind = tool.kind_of(key)
    assert kind is not None
    drawn = {str(each.value): each for each in (kind.draw(rng) for _ in range(count * 3))}
    return list(drawn.values())[:count]


def _counted(values: list[Drawn], rng: random.Random) -> Drawn:
    """Several values as they are said in one place."""
    return Drawn(values[0].said, listed(rng, [each.said for each in values]))


def _one_varies(tool: Asking, rng: random.Random, count: int) -> Asked | None:
    """One value differs: "for Paris, Rome and Oslo"."""
    text, fixed = tool.template(rng)
    able = _varying(tool, text)
    if not able:
        return None
    key = rng.choice(able)
    values = _draws(tool, key, rng, count)
    shared = {key: _counted(values, rng)}
    said, _ = tool.fill(text, fixed, rng, shared)
    calls = [tool.fill(text, fixed, rng, {**shared, key: each})[1] for each in values]
    return _ended(tool, rng, said, calls, text.startswith("{"))


def _in_step(tool: Asking, rng: random.Random, count: int) -> Asked | None:
    """Two or three values differ together: "from Paris and Rome to Oslo and Lima, respectively"."""
    text, fixed = tool.template(rng)
    able = _varying(tool, text)
    if len(able) < 2:
        return None
    keys = rng.sample(able, rng.choice([2, 2, min(3, len(able))]))
    columns = {key: _draws(tool, key, rng, count) for key in keys}
    count = min(len(values) for values in columns.values())
    if count < 2:
        return None
    shared = {key: _counted(values[:count], rng) for key, values in columns.items()}
    said, _ = tool.fill(text, fixed, rng, shared)
    calls = [
        tool.fill(text, fixed, rng, {**shared, **{key: values[at] for key, values in columns.items()}})[1]
        for at in range(count)
    ]
    return _ended(tool, rng, _respectively(said, rng), calls, text.startswith("{"))


def _respectively(said: str, rng: random.Random) -> str:
    """Said so: without it, each goes with each."""
    end = said[-1] if said[-1:] in ".?!" else ""
    return said.removesuffix(end) + rng.choice([" respectively", ", respectively", " (in that order)"]) + end


#: How it is said that each value goes with each; often it is not.
_EACH = ("", "", "", "Do all combinations.", "I need every combination.", "Each with each, please.")


def _all_pairs(tool: Asking, rng: random.Random, count: int) -> Asked | None:
    """Two values with each other: "for Rome and Oslo on Monday and Friday"."""
    text, fixed = tool.template(rng)
    able = _varying(tool, text)
    if len(able) < 2:
        return None
    one, other = rng.sample(able, 2)
    firsts, seconds = _draws(tool, one, rng, 3 if count > 3 else 2), _draws(tool, other, rng, 2)
    if len(firsts) < 2 or len(seconds) < 2:
        return None
    shared = {one: _counted(firsts, rng), other: _counted(seconds, rng)}
    said, _ = tool.fill(text, fixed, rng, shared)
    calls = [tool.fill(text, fixed, rng, {**shared, one: a, other: b})[1] for a in firsts for b in seconds]
    ending = rng.choice(_EACH)
    told = f"{said if said[-1:] in '.?!' else said + '.'} {ending}" if ending else said
    return _ended(tool, rng, told, calls, text.startswith("{"))


_AGAIN = (
    "Do the same with {0} {1}.", "And once more for {0} {1}.", "Then again with {0} {1}.", "Also with {0} {1}.",
    "Now the same thing, but {0} {1}.", "I also need it for {0} {1}.", "Repeat that with {0} {1}.", "And what about {0} {1}?",
)  # fmt: skip


def _once_more(tool: Asking, rng: random.Random, count: int) -> Asked | None:
    """A request, and then the same with another value."""
    text, fixed = tool.template(rng)
    able = _varying(tool, text)
    if not able:
        return None
    key = rng.choice(able)
    first, *others = _draws(tool, key, rng, min(count, 3))
    if not others:
        return None
    shared = {key: first}
    said, call = tool.fill(text, fixed, rng, shared)
    label = tool.label(key, rng)
    more = [rng.choice(_AGAIN).format(label, each.said.rstrip(".?!")) for each in others]
    calls = [call, *(tool.fill(text, fixed, rng, {**shared, key: each})[1] for each in others)]
    told = " ".join([said if said[-1:] in ".?!" else f"{said}.", *more])
    return sentence(told, rng, text.startswith("{")), calls


_FORMS: tuple[Callable[[Asking, random.Random, int], Asked | None], ...] = (
    _fragments, _one_varies, _in_step, _strung, _once_more, _all_pairs,
)  # fmt: skip
_OFTEN = (37, 20, 14, 13, 7, 9)
