"""What people say when they have what they wanted, and how it is answered: in a few friendly words, without a call.

`closings.txt` is made of blocks: a line with `=` holds replies, the lines with `>` behind it are closings that any of them answers. Lines with
`+` are no closings though they begin like one: a request follows in place of `{A.}` or, within the sentence, of `{a.}`.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .different import put
from .held_out import is_held_out

__all__ = ["CLOSINGS", "Closing", "closings", "followed", "thanks_first"]

CLOSINGS = Path(__file__).parent / "closings.txt"
#: One closing in so many is never trained on.
_HELD_OUT = 14


class Closing(NamedTuple):
    """What is said, and what may be replied."""

    said: str
    replies: tuple[str, ...]


@cache
def _all() -> tuple[tuple[Closing, ...], tuple[str, ...]]:
    found: list[Closing] = []
    forms: list[str] = []
    replies: tuple[str, ...] = ()
    for line in CLOSINGS.read_text(encoding="utf-8").splitlines():
        mark, _, text = line.partition(" ")
        if mark == "=":
            replies = tuple(each.strip() for each in text.split(" | "))
        elif mark == ">":
            found.append(Closing(text, replies))
        elif mark == "+":
            forms.append(text)
    return tuple(found), tuple(forms)


def closings(held_out: bool = False) -> tuple[Closing, ...]:
    """The closings to train on, or the others."""
    return tuple(each for each in _all()[0] if is_held_out(each.said, _HELD_OUT) == held_out)


def thanks_first(held_out: bool = False) -> tuple[str, ...]:
    """The ways to thank before another request that are trained on, or the others."""
    return tuple(each for each in _all()[1] if is_held_out(each, _HELD_OUT) == held_out)


def followed(forms: tuple[str, ...], request: str, rng: random.Random) -> str:
    """Thanks, and then this request."""
    return put(rng.choice(forms), [request])
