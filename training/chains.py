"""Tasks of several rounds: look something up, compute with it, answer. Each round is a turn to train on.

Above: `scenes`, `served`. Below: `chain_kinds`, `values`, `render`.
"""

from __future__ import annotations

import json
import random
from typing import NamedTuple

from toolspeak.core.model import Message, TextPart, ToolCall, ToolResult

from . import pools
from .chain_kinds import TRAINED, Kinds
from .family import Style
from .render import Answer
from .values import kind


class Round(NamedTuple):
    """The conversation up to the model's turn, and what it should say."""

    messages: tuple[Message, ...]
    answer: Answer


#: What was found, in the words of who asks for more.
_IT = ("it", "it", "it", "that", "that number", "this value", "the result")
#: How often one sentence asks for both: what is computed with has its whole name there.
_NESTED = 0.25
_POLITE = ("{0}.", "Please {0}.", "Can you {0}?", "I want you to {0}.", "{0}, please.")


class Chain:
    """One task of three rounds."""

    def __init__(self, rng: random.Random, style: Style, kinds: Kinds = TRAINED) -> None:
        self._look, self._calc = rng.choice(kinds.lookups), rng.choice(kinds.computes)
        self._requests = kinds.requests
        self._param = rng.choice(self._look.param.split())
        first = self._look.tool(style.named(rng.choice(self._look.names.split())), self._param)
        self.tools = (first, self._calc.tool(style.named(rng.choice(self._calc.names.split()))))

    def rounds(self, rng: random.Random) -> list[Round]:
        """The three turns."""
        look, calc = self._look, self._calc
        asked, number = kind(look.spec).draw(rng), kind(calc.spec).draw(rng)
        found = (
            round(rng.uniform(look.low, look.high), look.digits)
            if look.digits
            else rng.randint(int(look.low), int(look.high))
        )
        thing = rng.choice(look.thing.split(" / ")).replace("{v}", asked.said)
        how = rng.choice(calc.said.split(" / ")).replace("{n}", number.said)
        if "{it}" in how and rng.random() < _NESTED:
            request = rng.choice(_POLITE).format(how.replace("{it}", thing))
        else:
            request = rng.choice(self._requests).format(thing, how.replace("{it}", rng.choice(_IT)))
        request = request[:1].upper() + request[1:] if rng.random() < 0.9 else request
        values = [each.replace("{v}", str(found)).replace("{n}", str(number.value)) for each in calc.formula.split("|")]
        given = {
            key: value if type_ == "string" else json.loads(value)
            for (key, type_, _), value in zip(calc.params, values, strict=True)
        }
        answer = round(rng.uniform(2, 99999), rng.choice([0, 1, 2]))
        answer = int(answer) if answer == int(answer) else answer
        one, two = (
            ToolCall(self.tools[0].name, {self._param: asked.value}, "c1"),
            ToolCall(self.tools[1].name, given, "c2"),
        )
        user = Message("user", (TextPart(request),))
        told = (Message("assistant", calls=(one,)), _result(one, look.key, found, rng))
        done = (Message("assistant", calls=(two,)), _result(two, calc.key, answer, rng))
        final = rng.choice(
            ["The result is {0}.", "It is {0}.", "{1} is {2}, and the result is {0}.", "The answer is {0}."]
        )
        final = final.format(answer, thing[:1].upper() + thing[1:], found)
        return [
            Round((user,), Answer((ToolCall(one.name, one.arguments),))),
            Round((user, *told), Answer((ToolCall(two.name, two.arguments),))),
            Round((user, *told, *done), Answer((), final)),
        ]


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
