"""Whether an answer of the model is right, and the rule by which adapters are chosen.

The best mean of two shares that are right: of the cases that take a call and of those that take none. Where something was to be told, whatever
tells it must hold it. Above: `measure`. Below: `compare`, toolspeak's reader.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

from toolspeak.core.types import Tool, ToolCall
from toolspeak.parsing import parse

from .compare import plain, stands
from .render import Answer

__all__ = ["Asked", "Counted", "counted", "judged", "score"]


class Asked(NamedTuple):
    """A scene as it is asked."""

    set: str
    prompt: str
    answer: Answer
    tools: tuple[Tool, ...]
    #: What must stand in an answer in words.
    holds: tuple[str, ...] = ()


def calls_in(text: str, tools: tuple[Tool, ...]) -> list[ToolCall]:
    """The calls of an answer, as toolspeak reads them."""
    try:
        whole = json.loads(text)
        return [ToolCall(each["name"], each["arguments"]) for each in whole["calls"]]
    except (ValueError, KeyError, TypeError):
        return [ToolCall(each.name, each.arguments or {}) for each in parse(text, tools).calls]


def once(calls: list[ToolCall]) -> list[ToolCall]:
    """Each call once: as served, what an answer has called already is dropped."""
    return list({json.dumps([call.name, call.arguments]): call for call in calls}.values())


def judged(asked: Asked, text: str) -> tuple[bool, bool]:
    """Whether the right tools are called, and whether all is right."""
    found = once(calls_in(text, asked.tools))
    names = Counter(call.name for call in found) == Counter(call.name for call in asked.answer.calls)
    key = lambda call: json.dumps([call.name, plain(call.arguments)], sort_keys=True)  # noqa: E731
    alike = sorted(map(key, found)) == sorted(map(key, asked.answer.calls))
    return names, alike and stands(asked.holds, words_in(text))


def words_in(text: str) -> str:
    """What an answer says, without the envelope around it."""
    try:
        return str(json.loads(text)["reply"])
    except (ValueError, KeyError, TypeError):
        return text


class Counted(NamedTuple):
    """What adds up over the cases of a set."""

    cases: int = 0
    right_names: int = 0
    right: int = 0


def counted(cases: list[Asked], answers: list[str]) -> tuple[dict[str, Counted], list[dict[str, object]]]:
    """How often each set is answered rightly, and the answers that are wrong."""
    counts: dict[str, Counted] = {}
    wrong: list[dict[str, object]] = []
    for case, text in zip(cases, answers, strict=True):
        right_names, right = judged(case, text)
        so_far = counts.get(case.set, Counted())
        counts[case.set] = Counted(so_far.cases + 1, so_far.right_names + right_names, so_far.right + right)
        if not right:
            wrong.append(
                {
                    "set": case.set,
                    "prompt": case.prompt[-400:],
                    "said": text,
                    "right": [(call.name, call.arguments) for call in case.answer.calls],
                }
            )
    return counts, wrong


def score(cases: list[Asked], answers: list[str]) -> float:
    """The mean of two shares that are right: of the cases that take a call, and of those that take none."""
    sides: dict[bool, list[bool]] = {True: [], False: []}
    for case, text in zip(cases, answers, strict=True):
        sides[bool(case.answer.calls)].append(judged(case, text)[1])
    return sum(sum(side) / max(1, len(side)) for side in sides.values()) / len(sides)
