"""Tasks of several rounds: look something up, compute with it, answer. Each round is a turn to train on.

Above: `scenes`. Below: `values`, `render`.
"""

from __future__ import annotations

import json
import random
from typing import NamedTuple

from toolspeak.core.model import Message, TextPart, Tool, ToolCall, ToolResult

from .family import Style
from .render import Answer
from .values import kind


class Round(NamedTuple):
    """The conversation up to the model's turn, and what it should say."""

    messages: tuple[Message, ...]
    answer: Answer


class _Lookup(NamedTuple):
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
    _Lookup("get_stock_price stocks.price", "Get the current price of a share.", "symbol ticker", "ticker", "Ticker symbol", "the price of {v} stock", "price", 20, 600, 2),
    _Lookup("get_population population.of", "Number of inhabitants of a city.", "city place", "city", "Name of the city", "the population of {v}", "population", 50000, 9000000, 0),
    _Lookup("product_price shop.get_price", "Price of a product in the shop.", "product item", "product", "Name of the product", "the price of a {v}", "price", 5, 900, 2),
    _Lookup("get_temperature weather.temperature", "Current temperature of a place in Celsius.", "location city", "city", "City", "the temperature in {v}", "temperature", -5, 38, 0),
    _Lookup("get_salary hr.salary", "Yearly salary for a job.", "job role", "job", "Title of the job", "the yearly salary of a {v}", "salary", 25000, 190000, 0),
    _Lookup("mountain_height geo.height", "Height of a mountain in meters.", "mountain name", "mountain", "Name of the mountain", "the height of {v} in meters", "height", 800, 8848, 0),
    _Lookup("account_balance bank.balance", "Balance of an account.", "owner name", "person", "Owner of the account", "the account balance of {v}", "balance", 50, 90000, 2),
    _Lookup("river_length geo.river", "Length of a river in kilometers.", "river", "river", "Name of the river", "the length of the {v} in km", "length", 300, 6650, 0),
    _Lookup("calories food.calories", "Calories of 100 grams of a food.", "food", "food", "Name of the food", "the calories of 100 g of {v}", "calories", 20, 600, 0),
    _Lookup("hotel_rate hotels.price", "Price of a night in a hotel.", "hotel", "hotel", "Name of the hotel", "the nightly rate of the {v}", "rate", 45, 700, 0),
    _Lookup("team_points sports.points", "Points of a team this season.", "team", "team", "Name of the team", "the points of {v} this season", "points", 3, 110, 0),
    _Lookup("stock_level inventory.level", "Units of an article in stock.", "sku article", "sku", "Article number", "the stock level of {v}", "units", 0, 900, 0),
)  # fmt: skip


class _Compute(NamedTuple):
    names: str
    about: str
    params: tuple[tuple[str, str, str], ...]
    said: str
    #: Of the value that was looked up and the number in the request.
    formula: str
    spec: str
    key: str


_COMPUTES = (
    _Compute("multiply math.multiply", "Multiply two numbers.", (("a", "number", "First number"), ("b", "number", "Second number")), "multiply it by {n}", "{v}|{n}", "int(2,40)", "result"),
    _Compute("add_numbers math.add", "Add two numbers.", (("a", "number", "First number"), ("b", "number", "Second number")), "add {n} to it", "{v}|{n}", "int(2,900)", "sum"),
    _Compute("subtract math.subtract", "Subtract the second number from the first.", (("minuend", "number", "Number to subtract from"), ("subtrahend", "number", "Number to subtract")), "subtract {n} from it", "{v}|{n}", "int(1,90)", "difference"),
    _Compute("divide math.divide", "Divide one number by another.", (("dividend", "number", "Number to divide"), ("divisor", "number", "Number to divide by")), "divide it by {n}", "{v}|{n}", "int(2,20)", "quotient"),
    _Compute("percentage_of math.percent", "Compute a percentage of a value.", (("value", "number", "The value"), ("percent", "number", "Percentage, e.g. 15")), "tell me what {n} percent of it is", "{v}|{n}", "int(1,90)", "result"),
    _Compute("calculator evaluate", "Evaluate an arithmetic expression.", (("expression", "string", "Expression, e.g. 2 * 3"),), "multiply it by {n}", "{v} * {n}", "int(2,40)", "result"),
    _Compute("calculate math.evaluate", "Evaluate a mathematical expression.", (("expression", "string", "Expression to evaluate"),), "add {n} to it", "{v} + {n}", "int(2,900)", "result"),
    _Compute("convert_currency fx.convert", "Convert dollars to another currency.", (("amount", "number", "Amount in dollars"), ("to", "string", "Currency code")), "convert it to {n}", "{v}|{n}", "currency", "converted"),
)  # fmt: skip


class Chain:
    """One task of three rounds."""

    def __init__(self, rng: random.Random, style: Style) -> None:
        self._look, self._calc = rng.choice(_LOOKUPS), rng.choice(_COMPUTES)
        name = rng.choice(self._look.param.split())
        schema = {
            "type": "object",
            "properties": {name: {"type": "string", "description": self._look.told}},
            "required": [name],
        }
        first = Tool(style.named(rng.choice(self._look.names.split())), self._look.about, schema)
        properties = {key: {"type": type_, "description": about} for key, type_, about in self._calc.params}
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
        request = rng.choice(
            [
                "Look up {0} and {1}.",
                "Find {0}, then {1}.",
                "Get {0} and {1}, please.",
                "I need {0}. After that, {1}.",
                "What is {0}? Then {1}.",
                "First find {0}, then {1}.",
            ]
        ).format(thing, how)
        values = [each.replace("{v}", str(found)).replace("{n}", str(number.value)) for each in calc.formula.split("|")]
        given = (
            dict(zip([key for key, _, _ in calc.params], map(_number, values), strict=True))
            if len(values) > 1
            else {calc.params[0][0]: values[0]}
        )
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


def _number(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


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
