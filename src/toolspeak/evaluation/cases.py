"""What a suite is: cases, each with a conversation and tools, and a judge that says whether an answer is right.

Pure. A case has one round or more: behind a right round, the judge may hand out results of the calls, and the
conversation goes on. To add a suite: a class with these members.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from ..core.types import Message, Tool, ToolCall


class Case(msgspec.Struct, frozen=True):
    """One task."""

    id: str
    category: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]


class Answer(msgspec.Struct, frozen=True):
    """What a model answered in one round."""

    calls: tuple[ToolCall, ...] = ()
    text: str = ""


class Judgement(msgspec.Struct, frozen=True):
    """What an answer is worth."""

    correct: bool
    #: What is wrong, in a word for machines, and in words for people; both empty when nothing is.
    fault: str = ""
    detail: str = ""
    #: What the calls return, one text a call in the order of the calls; empty: the case is over.
    results: tuple[str, ...] = ()


class Suite(Protocol):
    """Cases, and the judge of their answers."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def version(self) -> str:
        """Which cases these are: answers to other cases must not be mixed with them."""
        ...

    @property
    def cases(self) -> Sequence[Case]:
        """All of them."""
        ...

    def judge(self, case: Case, round_: int, answer: Answer) -> Judgement:
        """Whether an answer is right. Rounds are counted from 0."""
        ...


def choose(cases: Iterable[Case], limit: int | None, seed: int) -> list[Case]:
    """At most `limit` cases, taken from the categories in turn; the same ones for the same seed.

    A larger limit only adds cases, so that a small run can be made larger without asking again.
    """
    waiting: dict[str, list[Case]] = {}
    for case in cases:
        waiting.setdefault(case.category, []).append(case)
    for each in waiting.values():
        each.sort(key=lambda case: _lot(seed, case.id))
    found: list[Case] = []
    most = sum(map(len, waiting.values())) if limit is None else limit
    turn = 0
    while len(found) < most and any(len(each) > turn for each in waiting.values()):
        found += [each[turn] for each in waiting.values() if len(each) > turn]
        turn += 1
    return found[:most]


def _lot(seed: int, name: str) -> bytes:
    """A number that only seed and name decide, in every version of Python."""
    return hashlib.sha256(f"{seed}\n{name}".encode()).digest()
