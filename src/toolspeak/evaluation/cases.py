"""Test suites: cases, each with a conversation and tools, and a judge for the answers. No I/O.

A case has one or more rounds: after a correct round, the judge may return results for the calls, and the conversation
continues. To add a suite, implement `Suite`.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from ..core.types import Message, Tool, ToolCall


class EvalCase(msgspec.Struct, frozen=True):
    id: str
    category: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]


class ModelAnswer(msgspec.Struct, frozen=True):
    calls: tuple[ToolCall, ...] = ()
    text: str = ""


class Judgement(msgspec.Struct, frozen=True):
    correct: bool
    #: Fault code and explanation; both empty for a correct answer.
    fault: str = ""
    detail: str = ""
    results: tuple[str, ...] = ()  # results of the calls, in order; empty if the case is over


class Suite(Protocol):
    """A collection of cases that can judge the answers to them."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Version of the cases. Results of different versions must not be mixed."""
        ...

    @property
    def cases(self) -> Sequence[EvalCase]: ...

    def judge(self, case: EvalCase, round_: int, answer: ModelAnswer) -> Judgement:
        """Judge an answer. Rounds are counted from 0."""
        ...


def choose(cases: Iterable[EvalCase], limit: int | None, seed: int) -> list[EvalCase]:
    """Select at most `limit` cases, taking one from each category in turn. The selection depends only on the seed.

    A larger limit only adds cases, so a small run can be extended.
    """
    waiting: dict[str, list[EvalCase]] = {}
    for case in cases:
        waiting.setdefault(case.category, []).append(case)
    for each in waiting.values():  # in a pseudo-random order that is the same in every version of Python
        each.sort(key=lambda case: hashlib.sha256(f"{seed}\n{case.id}".encode()).digest())
    chosen: list[EvalCase] = []
    most = sum(map(len, waiting.values())) if limit is None else limit
    turn = 0
    while len(chosen) < most and any(len(each) > turn for each in waiting.values()):
        chosen += [each[turn] for each in waiting.values() if len(each) > turn]
        turn += 1
    return chosen[:most]
