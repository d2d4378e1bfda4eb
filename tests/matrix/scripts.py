"""What the model behind the upstream answers in each cell of the matrix.

An answer is a list of parts (text, thinking, native calls) and a finish reason, told in the form that the plan asks
for; `events` cuts it into pieces as a stream would. A model that was asked more often than its script has answers
repeats the last one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.matrix.rules import AGAIN, ANSWER, FIRST, REFUSAL, SEARCH, WEATHER, Cell
from tests.offline_turn import NONCE
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
)
from toolspeak.core.types import Request, Usage

Call = tuple[str, dict[str, Any]]

#: Fits nothing: the city is missing. The value that is there leaves before that is known.
BAD: Call = ("get_weather", {"days": 3})
THOUGHT = "They want the weather."
#: Where the first call is cut off, counted from its end.
_CUT = 4
_INVENTED = "18 degrees and sunny"
#: What the native half of a fallback answers where the emulation plays the scenario.
_NATIVE_HALF = "I would have to look that up."


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Thinking:
    text: str


@dataclass(frozen=True)
class Native:
    """A native call; `cut`: the answer ends in its middle."""

    call: Call
    cut: bool = False


Part = Text | Thinking | Native


@dataclass(frozen=True)
class Answer:
    parts: Sequence[Part] = field(default_factory=tuple)
    finish: FinishReason = "stop"

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))


# ---- the forms


def _hermes(calls: Sequence[Call]) -> str:
    return "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>" for name, arguments in calls
    )


def _action(calls: Sequence[Call]) -> str:
    return "\n".join(
        f"```json action {NONCE}\n{json.dumps({'tool': name, 'parameters': arguments})}\n```"
        for name, arguments in calls
    )


def _listed(calls: Sequence[Call]) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments} for name, arguments in calls]


def _decision(calls: Sequence[Call]) -> str:
    return json.dumps({"nonce": NONCE, "tools": _listed(calls)})


def _envelope(calls: Sequence[Call], reply: str) -> str:
    return json.dumps({"nonce": NONCE, "calls": _listed(calls), "reply": reply})


_RESULT = {
    "hermes": f"<tool_response>\n{_INVENTED}\n</tool_response>",
    "action": f"```json result\n{_INVENTED}\n```",
}


class _Form:
    """How a model tells its calls where they are asked for in this form."""

    def __init__(self, name: str) -> None:
        self.name = name

    def say(self, text: str, calls: Sequence[Call]) -> Answer:
        match self.name:
            case "native":
                finish: FinishReason = "tool_calls" if calls else "stop"
                return Answer([Text(text), *(Native(call) for call in calls)], finish)
            case "decision":
                return Answer([Text(_decision(calls))])
            case "envelope":
                return Answer([Text(_envelope(calls, text))])
            case _:
                return Answer([Text("\n".join(filter(None, [text, self._marked(calls)])))])

    def _marked(self, calls: Sequence[Call]) -> str:
        return _action(calls) if self.name == "action" else _hermes(calls)

    def refuse(self) -> Answer:
        return Answer([Text(REFUSAL)]) if self.name == "decision" else self.say(REFUSAL, [])

    def cut(self) -> Answer:
        if self.name == "native":
            return Answer([Text(FIRST), Native(WEATHER, cut=True)], "length")
        whole = self.say(FIRST, [WEATHER]).text
        return Answer([Text(whole[: whole.index("Oslo") + len("Oslo") - _CUT // 2])], "length")

    def invent(self) -> Answer:
        called = self.say(FIRST, [WEATHER])
        result = _RESULT["action" if self.name == "action" else "hermes"]
        return Answer([*called.parts, Text(f"\n{result}\nIt is sunny in Oslo.")], called.finish)

    def think(self) -> Answer:
        called = "".join(part.text for part in self.say("", [WEATHER]).parts if isinstance(part, Text))
        thought = f"{THOUGHT}\n{called or _hermes([WEATHER])}\n"
        if self.name in ("native", "envelope"):
            return Answer([Thinking(thought)])
        return Answer([Text(f"<think>\n{thought}</think>\n")])


def _answers(form: _Form, scenario: str) -> list[Answer]:
    again = form.say(AGAIN, [WEATHER])
    match scenario:
        case "one":
            return [form.say(FIRST, [WEATHER])]
        case "two":
            return [form.say(FIRST, [WEATHER, SEARCH])]
        case "no_call":
            return [form.say(ANSWER, [])]
        case "refusal":
            return [form.refuse(), again]
        case "bad_arguments":
            return [form.say(FIRST, [BAD]), again]
        case "truncated":
            return [form.cut()]
        case "invented":
            return [form.invent()]
        case "reasoning":
            return [form.think(), again]
        case _:
            raise AssertionError(scenario)


#: The form in which a plan's model calls, and the one in which it does so although nobody offered it anything.
_FORMS = {
    "native": ("native", "native"),
    "leaking": ("hermes", "hermes"),
    "inline": ("action", "hermes"),
    "decision": ("decision", "hermes"),
    "envelope": ("envelope", "hermes"),
    "fallback": ("decision", "native"),
}


def first_text(cell: Cell) -> str:
    """The text of the first answer where no call is allowed, without its reasoning."""
    return _answers(_Form(_FORMS[cell.plan][1]), cell.scenario)[0].text.split("</think>")[-1]


class Model:
    """Plays the upstream of one cell."""

    def __init__(self, cell: Cell, chunk: int) -> None:
        self._cell = cell
        self._chunk = chunk
        form = _FORMS[cell.plan][cell.choice == "none"]
        self._script = _answers(_Form(form), cell.scenario)
        self._told = 0

    def __call__(self, request: Request) -> list[Event]:
        return events(self._answer(request), self._chunk)

    def _answer(self, request: Request) -> Answer:
        if self._cell.choice != "none":
            if request.tools and self._cell.plan == "fallback":
                return Answer([Text(_NATIVE_HALF)])
            if not request.tools and not any(message.role == "system" for message in request.messages):
                return Answer([Text(ANSWER)])  # the final request: nothing in it speaks of tools
        answer = self._script[min(self._told, len(self._script) - 1)]
        self._told += 1
        return answer


def events(answer: Answer, chunk: int) -> list[Event]:
    """The answer as an upstream tells it, in pieces of so many characters; 0: whole."""
    told: list[Event] = []
    index = 0
    for part in answer.parts:
        match part:
            case Text(text):
                told += [TextDelta(piece) for piece in _pieces(text, chunk)]
            case Thinking(text):
                told += [ReasoningDelta(piece) for piece in _pieces(text, chunk)]
            case Native((name, arguments), cut):
                written = json.dumps(arguments)
                told.append(CallStart(index, name, f"call_{index}"))
                pieces = _pieces(written[:-_CUT] if cut else written, chunk)
                told += [CallArgs(index, piece) for piece in pieces]
                told += [] if cut else [CallEnd(index)]
                index += 1
    return [*told, UsageSeen(Usage(10, 5)), Finish(answer.finish)]


def _pieces(text: str, chunk: int) -> list[str]:
    size = chunk or len(text) or 1
    return [text[at : at + size] for at in range(0, len(text), size)]
