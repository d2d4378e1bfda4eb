"""Tasks of several rounds: look something up, compute with it, answer. Each round is a turn to train on.

Above: `scenes`, `unseen`, `served`. Below: `values`, `render`.
"""

from __future__ import annotations

import json
import random
from typing import NamedTuple

from toolspeak.core.model import JSONObject, Message, TextPart, Tool, ToolCall, ToolResult

from .family import Style
from .render import Answer
from .values import kind


class Round(NamedTuple):
    """The conversation up to the model's turn, and what it should say."""

    messages: tuple[Message, ...]
    answer: Answer


class Lookup(NamedTuple):
    """A tool that finds a number, and how it is asked for."""

    names: str
    about: str
    param: str
    spec: str
    told: str
    thing: str
    key: str
    low: float
    high: float
    digits: int


_LOOKUPS = (
    Lookup("meter_reading energy.meter", "Reading of a meter in kilowatt hours.", "meter sku", "sku", "Number of the meter", "the reading of meter {v}", "reading", 100, 90000, 0),
    Lookup("seats_of venue.seats", "Number of seats of a house.", "venue house", "hotel", "Name of the house", "the number of seats at the {v}", "seats", 40, 4000, 0),
    Lookup("hourly_fee freelancers.fee", "Fee for an hour of somebody's work.", "name person", "person", "Who works", "the hourly fee of {v}", "fee", 18, 240, 2),
    Lookup("depot_pallets depot.pallets", "Pallets that a depot holds.", "city depot", "city", "City of the depot", "the number of pallets in the depot of {v}", "pallets", 12, 5200, 0),
    Lookup("freight_weight cargo.weight", "Weight of one crate of a good in kilograms.", "good product", "product", "What is in the crate", "the weight of a crate with a {v}", "kilograms", 3, 800, 1),
    Lookup("harvest_of orchard.harvest", "Tons of a fruit or vegetable that came in this week.", "crop food", "food", "What was picked", "the harvest of {v} in tons", "tons", 1, 420, 1),
    Lookup("votes_for board.votes", "Votes that somebody got in the board.", "candidate", "person", "Who stood for it", "the votes for {v}", "votes", 0, 180, 0),
    Lookup("lift_height lifts.climb", "Height difference of a cable car in meters.", "mountain station", "mountain", "Mountain it goes up to", "the climb of the cable car to {v} in meters", "climb", 120, 2300, 0),
    Lookup("get_salary hr.salary", "Yearly salary for a job.", "job role", "job", "Title of the job", "the yearly salary of a {v}", "salary", 25000, 190000, 0),
    Lookup("account_balance bank.balance", "Balance of an account.", "owner name", "person", "Owner of the account", "the account balance of {v}", "balance", 50, 90000, 2),
    Lookup("river_length geo.river", "Length of a river in kilometers.", "river", "river", "Name of the river", "the length of the {v} in km", "length", 300, 6650, 0),
    Lookup("hotel_rate hotels.price", "Price of a night in a hotel.", "hotel", "hotel", "Name of the hotel", "the nightly rate of the {v}", "rate", 45, 700, 0),
)  # fmt: skip


class Compute(NamedTuple):
    """A tool that computes with a number, and how it is asked for."""

    names: str
    about: str
    params: tuple[tuple[str, str, str], ...]
    said: str
    #: Of the value that was looked up and the number in the request.
    formula: str
    spec: str
    key: str


_COMPUTES = (
    Compute("scale_up figures.scale", "Take a figure several times.", (("figure", "number", "What is taken"), ("times", "number", "How many times")), "take it {n} times", "{v}|{n}", "int(2,40)", "scaled"),
    Compute("raise_by figures.raise", "Raise a figure by a fixed amount.", (("figure", "number", "What is raised"), ("amount", "number", "By how much")), "raise it by {n}", "{v}|{n}", "int(2,900)", "raised"),
    Compute("share_out figures.share", "Share a figure out among people.", (("figure", "number", "What is shared"), ("people", "number", "Among how many")), "share it out among {n} people", "{v}|{n}", "int(2,30)", "share"),
    Compute("subtract math.subtract", "Subtract the second number from the first.", (("minuend", "number", "Number to subtract from"), ("subtrahend", "number", "Number to subtract")), "subtract {n} from it", "{v}|{n}", "int(1,90)", "difference"),
    Compute("divide math.divide", "Divide one number by another.", (("dividend", "number", "Number to divide"), ("divisor", "number", "Number to divide by")), "divide it by {n}", "{v}|{n}", "int(2,20)", "quotient"),
    Compute("percentage_of math.percent", "Compute a percentage of a value.", (("value", "number", "The value"), ("percent", "number", "Percentage, e.g. 15")), "tell me what {n} percent of it is", "{v}|{n}", "int(1,90)", "result"),
    Compute("calculator evaluate", "Evaluate an arithmetic expression.", (("expression", "string", "Expression, e.g. 2 * 3"),), "multiply it by {n}", "{v} * {n}", "int(2,40)", "result"),
    Compute("calculate math.evaluate", "Evaluate a mathematical expression.", (("expression", "string", "Expression to evaluate"),), "add {n} to it", "{v} + {n}", "int(2,900)", "result"),
)  # fmt: skip


_TYPES: dict[str, JSONObject] = {
    "number": {"type": "number"},
    "string": {"type": "string"},
    "numbers": {"type": "array", "items": {"type": "number"}},
}


class Kinds(NamedTuple):
    """What tasks are made of: a lookup, a computation, and a sentence that asks for both."""

    lookups: tuple[Lookup, ...]
    computes: tuple[Compute, ...]
    requests: tuple[str, ...]


#: Those that are trained on.
TRAINED = Kinds(
    _LOOKUPS,
    _COMPUTES,
    (
        "Look up {0} and {1}.",
        "Find {0}, then {1}.",
        "Get {0} and {1}, please.",
        "I need {0}. After that, {1}.",
        "What is {0}? Then {1}.",
        "First find {0}, then {1}.",
    ),
)


class Chain:
    """One task of three rounds."""

    def __init__(self, rng: random.Random, style: Style, kinds: Kinds = TRAINED) -> None:
        self._look, self._calc = rng.choice(kinds.lookups), rng.choice(kinds.computes)
        self._requests = kinds.requests
        name = rng.choice(self._look.param.split())
        schema = {
            "type": "object",
            "properties": {name: {"type": "string", "description": self._look.told}},
            "required": [name],
        }
        first = Tool(style.named(rng.choice(self._look.names.split())), self._look.about, schema)
        properties = {key: {**_TYPES[type_], "description": about} for key, type_, about in self._calc.params}
        second = Tool(
            style.named(rng.choice(self._calc.names.split())),
            self._calc.about,
            {"type": "object", "properties": properties, "required": list(properties)},
        )
        self.tools = (first, second)
        self._param = name

    def rounds(self, rng: random.Random) -> list[Round]:
        """The three turns."""
        look, calc = self._look, self._calc
        asked, number = kind(look.spec).draw(rng), kind(calc.spec).draw(rng)
        found = (
            round(rng.uniform(look.low, look.high), look.digits)
            if look.digits
            else rng.randint(int(look.low), int(look.high))
        )
        thing = look.thing.replace("{v}", asked.said)
        how = calc.said.replace("{n}", number.said)
        request = rng.choice(self._requests).format(thing, how)
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
        ]
    )
    return Message("tool", results=(ToolResult(call.id, text, call.name),))
