"""Tasks of several rounds: look something up, compute with it, answer. Each round is a turn to train on.

Above: `scenes`, `served`. Below: `chain_kinds`, `values`, `render`.
"""

from __future__ import annotations

import json
import random
from typing import NamedTuple

from toolspeak.core.model import Message, TextPart, ToolCall, ToolResult

from . import pools
from .chain_kinds import Task
from .family import Style
from .render import Answer
from .values import Drawn, kind


class Round(NamedTuple):
    """The conversation up to the model's turn, and what it should say."""

    messages: tuple[Message, ...]
    answer: Answer
    #: What must stand in the answer.
    result: str = ""


class Chain:
    """The tools of a task, and its three rounds."""

    def __init__(self, rng: random.Random, style: Style, task: Task) -> None:
        self._task = task = task._replace(calc=task.calc.shuffled(rng))
        self._param = rng.choice(task.look.param.split())
        first = task.look.tool(style.named(rng.choice(task.look.names.split())), self._param)
        self.tools = (first, task.calc.tool(style.named(rng.choice(task.calc.names.split()))))

    def rounds(self, rng: random.Random) -> list[Round]:
        """The three turns."""
        look, calc = self._task.look, self._task.calc
        asked = kind(look.spec).draw(rng)
        number = kind(calc.spec).draw(rng) if calc.spec else Drawn("", "")
        found = (
            round(rng.uniform(look.low, look.high), look.digits)
            if look.digits
            else rng.randint(int(look.low), int(look.high))
        )
        answer = round(rng.uniform(2, 99999), rng.choice([0, 1, 2]))
        answer = int(answer) if answer == int(answer) else answer
        said = {"{id}": asked.said, "{n}": number.said, "{it}": str(found), "{r}": str(answer)}
        request = _filled(rng.choice(self._task.requests), said)
        request = request[:1].upper() + request[1:] if rng.random() < 0.9 else request
        called = {"{it}": str(found), "{n}": str(number.value)}
        given = {
            key: _filled(value, called) if type_ == "string" else json.loads(_filled(value, called))
            for (key, type_, _), value in zip(calc.params, calc.formula.split("|"), strict=True)
        }
        one, two = (
            ToolCall(self.tools[0].name, {self._param: asked.value}, "c1"),
            ToolCall(self.tools[1].name, given, "c2"),
        )
        user = Message("user", (TextPart(request),))
        told = (Message("assistant", calls=(one,)), _result(one, look.key, found, rng))
        done = (Message("assistant", calls=(two,)), _result(two, calc.key, answer, rng))
        final = _filled(rng.choice(self._task.answers), said)
        return [
            Round((user,), Answer((ToolCall(one.name, one.arguments),))),
            Round((user, *told), Answer((ToolCall(two.name, two.arguments),))),
            Round((user, *told, *done), Answer((), final), str(answer)),
        ]


def _filled(text: str, values: dict[str, str]) -> str:
    for slot, value in values.items():
        text = text.replace(slot, value)
    return text


def _result(call: ToolCall, key: str, value: object, rng: random.Random) -> Message:
    text = rng.choice(
        [
            json.dumps({key: value}),
            json.dumps({key: value}),
            str(value),
            f"{key}: {value}",
            json.dumps({"ok": True, key: value}),
            json.dumps({"data": {key: value}, "status": "ok"}),
            json.dumps({"result": value}),
            _record(call, key, value, rng),
        ]
    )
    return Message("tool", results=(ToolResult(call.id, text, call.name),))


def _record(call: ToolCall, key: str, value: object, rng: random.Random) -> str:
    """A long result: what is asked for among other things."""
    fields: dict[str, object] = {**call.arguments, key: value}
    for _ in range(rng.randint(2, 9)):
        fields.setdefault(rng.choice(pools.WORDS), " ".join(rng.sample(pools.WORDS, rng.randint(1, 7))))
    names = rng.sample(list(fields), len(fields))
    return json.dumps({name: fields[name] for name in names}, indent=rng.choice([None, None, 1]))
