"""What tasks of several rounds are made of: more than a hundred tools that find a number, and two dozen that compute with one.

A lookup is a thing with one of its quantities. A computation has several ways to be asked for, in which `{it}` is what was found
and `{n}` a number. Above: `chains`, `unseen`. Below: nothing but the kinds of `values`, by their names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from toolspeak.core.types import JSONObject, Tool

__all__ = ["TRAINED", "Compute", "Kinds", "Lookup", "Task", "one_string"]


_TYPES: dict[str, JSONObject] = {
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "string": {"type": "string"},
    "numbers": {"type": "array", "items": {"type": "number"}},
}


class Lookup(NamedTuple):
    """A tool that finds a number, and how it is asked for."""

    names: str
    about: str
    param: str
    spec: str
    told: str
    #: Ways to name what is found, with ` / ` between them.
    thing: str
    key: str
    low: float
    high: float
    digits: int

    def tool(self, name: str, param: str) -> Tool:
        """It, with one of its names and one of its parameter's."""
        return one_string(name, self.about, param, self.told)

    def tools(self) -> Iterator[Tool]:
        """It, once with each of its names."""
        return (self.tool(name, self.param.split()[0]) for name in self.names.split())


class Compute(NamedTuple):
    """A tool that computes with a number, and how it is asked for."""

    names: str
    about: str
    #: Name, type and description of each parameter.
    params: tuple[tuple[str, str, str], ...]
    #: Ways to ask for it, with ` / ` between them.
    said: str
    #: The values of the parameters, with `|` between them: of what was found and of the number in the request, if it has one.
    formula: str
    spec: str
    key: str

    def tool(self, name: str) -> Tool:
        """It, with one of its names."""
        return _tool(name, self.about, self.params)

    def tools(self) -> Iterator[Tool]:
        """It, once with each of its names."""
        return map(self.tool, self.names.split())

    def shuffled(self, rng: random.Random) -> Compute:
        """It, with its parameters in another order: where one stands says nothing about what belongs there."""
        both = list(zip(self.params, self.formula.split("|"), strict=True))
        rng.shuffle(both)
        return self._replace(params=tuple(param for param, _ in both), formula="|".join(value for _, value in both))


def _tool(name: str, about: str, params: tuple[tuple[str, str, str], ...]) -> Tool:
    properties = {key: {**_TYPES[type_], "description": told} for key, type_, told in params}
    return Tool(name, about, {"type": "object", "properties": properties, "required": list(properties)})


def one_string(name: str, about: str, param: str, told: str) -> Tool:
    """A tool that takes a string and nothing else."""
    return _tool(name, about, ((param, "string", told),))


class Task(NamedTuple):
    """A lookup, a computation, and how both are asked for at once and answered."""

    look: Lookup
    calc: Compute
    #: With {id} for what is looked up and {n} for the number.
    requests: tuple[str, ...]
    #: With {it} for what was found and {r} for the result besides.
    answers: tuple[str, ...]
    #: How the lookup alone is asked for, with {id}.
    alone: tuple[str, ...]

    def tools(self) -> Iterator[Tool]:
        """Both, once with each of their names."""
        return chain(self.look.tools(), self.calc.tools())


#: What was found, in the words of who asks for more.
_IT = ("it", "it", "it", "that", "that number", "this value", "the result")
#: How often one sentence asks for both: what is computed with has its whole name there.
_NESTED = 0.25
_POLITE = ("{0}.", "Please {0}.", "Can you {0}?", "I want you to {0}.", "{0}, please.")
#: How a lookup alone is asked for: {0} is what is found.
_ALONE = (
    "Tell me {0}.",
    "Find out {0}.",
    "I'd like to know {0}.",
    "Please look up {0}.",
    "Can you tell me {0}?",
    "I need {0}, nothing more.",
)
#: So many ways to ask are made for a task.
_WAYS = 4


class Kinds(NamedTuple):
    """Lookups, computations, and sentences that ask for one of each."""

    lookups: tuple[Lookup, ...]
    computes: tuple[Compute, ...]
    #: With {0} for what is looked up and {1} for what is computed.
    requests: tuple[str, ...]

    def tools(self) -> Iterator[Tool]:
        """Every tool, once with each of its names."""
        return chain.from_iterable(each.tools() for each in (*self.lookups, *self.computes))

    def task(self, rng: random.Random) -> Task:
        """One of them with another."""
        look, calc = rng.choice(self.lookups), rng.choice(self.computes)
        thing = rng.choice(look.thing.split(" / ")).replace("{v}", "{id}")
        requests = tuple(self._request(thing, calc, rng) for _ in range(_WAYS))
        both = f"{thing[:1].upper()}{thing[1:]} is {{it}}, and the result is {{r}}."
        alone = tuple(each.replace("{0}", thing) for each in _ALONE)
        return Task(look, calc, requests, ("The result is {r}.", "It is {r}.", both, "The answer is {r}."), alone)

    def _request(self, thing: str, calc: Compute, rng: random.Random) -> str:
        how = rng.choice(calc.said.split(" / "))
        if "{it}" in how and rng.random() < _NESTED:
            return rng.choice(_POLITE).replace("{0}", how.replace("{it}", thing))
        how = how.replace("{it}", rng.choice(_IT))
        return rng.choice(self.requests).replace("{0}", thing).replace("{1}", how)


#: noun | kind of value | parameters | how one of them is said | its quantities
_THINGS = """
depot | city | city location | the depot in {v} | pallets, forklifts, floor area, rent
crate | product | good product | a crate with a {v} | weight, volume, value
meter | sku | meter meter_id | meter {v} | reading, age, voltage
hall | hotel | hall venue | the hall at the {v} | seats, exits, rent, height
freelancer | person | name person | {v} | hourly fee, finished projects, years of work
candidate | person | candidate who | candidate {v} | votes, donations, age
orchard | food | crop fruit | the {v} orchard | harvest, trees, ladders
cable car | mountain | mountain station | the cable car to {v} | climb, cabins, ride time
job | job | job role | the job of a {v} | yearly salary, applicants, vacancies
account | person | owner holder | the account of {v} | balance, credit limit, interest paid
order | orderid | order order_no | order {v} | pieces, shipping cost, discount
parcel | tracking | parcel tracking_number | parcel {v} | weight, postage, stops
server | ip | host ip_address | the server at {v} | free memory, load, connections, uptime
project | slug | project project_key | the project {v} | budget, tasks, milestones, lines of code
branch | city | branch town | the branch in {v} | staff, turnover, customers
course | subject | course topic | the course on {v} | participants, lessons, fee
device | sku | device serial | device {v} | battery level, power draw, restarts
flat | address | address flat | the flat at {v} | floor space, heating cost, deposit
table | table | table table_name | the table {v} | rows, columns, size
file | path | path file | the file {v} | size, lines, versions
channel | channel | channel room | the channel {v} | members, posts, uploads
playlist | playlist | playlist list_name | the playlist {v} | tracks, followers, length
conference | event | event conference | the {v} | speakers, ticket price, talks
package | package | package library | the package {v} | dependencies, open bugs, releases
room | room | room space | the {v} | window area, lamps, sockets
shelf | casenum | shelf shelf_no | shelf {v} | boxes, load limit, width
truck | sku | truck plate | truck {v} | payload, fuel, axles
well | state | region state | the well in {v} | output, depth, pressure
ship | casenum | ship registration | ship {v} | cabins, draught, crew
field | casenum | field field_no | field {v} | sacks, furrows, seed used
machine | sku | machine machine_id | machine {v} | cycles, scrap, oil pressure, idle hours
locker | code | locker locker_code | locker {v} | keys, monthly rent
beehive | slug | hive beehive | the beehive {v} | frames, honey, drones
vineyard | city | place vineyard | the vineyard near {v} | barrels, vines, bottles
ferry | river | crossing ferry | the ferry across the {v} | vehicles, crossings, fare
camp | mountain | camp site | the camp below {v} | tents, guests, stoves
choir | artist | choir name | the choir {v} | singers, rehearsals, gowns
workshop | city | workshop town | the workshop in {v} | benches, apprentices, repairs
printer | slug | printer queue | the printer {v} | sheets left, jobs, toner level
volunteer | person | volunteer helper | {v} | shifts, hours helped, badges
backup | domain | site backup | the backup of {v} | snapshots, size, failures
"""

#: quantity: lowest, highest, digits; all others are whole numbers from 2 to 900
_RANGES: dict[str, tuple[float, float, int]] = {
    **dict.fromkeys(("weight", "volume", "height", "depth", "width", "draught"), (1, 900, 1)),
    **dict.fromkeys(("rent", "balance", "turnover", "budget", "deposit"), (120, 95000, 2)),
    **dict.fromkeys(("yearly salary", "donations"), (9000, 480000, 0)),
    **dict.fromkeys(("hourly fee", "fee", "shipping cost", "postage"), (2, 240, 2)),
    **dict.fromkeys(("load", "pressure"), (1, 99, 1)),
}
_USUAL = (2.0, 900.0, 0)

_FIGURE = ("figure", "number", "What is taken")
_COMPUTES = (
    Compute("scale_up figures.scale", "Take a figure several times.", (_FIGURE, ("times", "number", "How many times")), "take {it} {n} times / make {it} {n} times as large", "{it}|{n}", "int(2,40)", "scaled"),
    Compute("raise_by figures.raise", "Raise a figure by a fixed amount.", (_FIGURE, ("amount", "number", "By how much")), "raise {it} by {n} / increase {it} by {n}", "{it}|{n}", "int(2,900)", "raised"),
    Compute("share_out figures.share", "Share a figure out among people.", (_FIGURE, ("people", "number", "Among how many")), "share {it} out among {n} people / tell me what each of {n} people gets of {it}", "{it}|{n}", "int(2,30)", "share"),
    Compute("percentage_of math.percent", "Compute a percentage of a value.", (("value", "number", "The value"), ("percent", "number", "Percentage, e.g. 15")), "tell me what {n} percent of {it} is / give me {n}% of {it}", "{it}|{n}", "int(1,90)", "result"),
    Compute("calculator desk.reckon", "Evaluate an arithmetic expression.", (("expression", "string", "Expression, e.g. 2 * 3"),), "multiply {it} by {n} / calculate {it} times {n}", "{it} * {n}", "int(2,40)", "result"),
    Compute("reckon desk.calculator", "Evaluate what a desk calculator could.", (("expression", "string", "What is typed in"),), "add {n} to {it} / calculate {it} plus {n}", "{it} + {n}", "int(2,900)", "result"),
    Compute("compute_term terms.compute", "Work out a term.", (("term", "string", "The term, with + - * /"),), "divide {it} by {n} / compute {it} divided by {n}", "{it} / {n}", "int(2,30)", "value"),
    Compute("minus numbers.minus", "Difference of two numbers.", (("left", "number", "Number on the left"), ("right", "number", "Number on the right")), "subtract {n} from {it} / calculate {it} minus {n} / reduce {it} by {n} / take {n} off {it}", "{it}|{n}", "int(1,300)", "difference"),
    Compute("running_total cash.total", "Put amounts together.", (("amounts", "numbers", "The amounts"),), "put {it} and {n} together / give me {it} and {n} in one sum", "[{it}, {n}]", "int(2,700)", "together"),
    Compute("span_of figures.span", "Distance between the smallest and the greatest of some figures.", (("figures", "numbers", "The figures"),), "tell me how far {it} and {n} are apart / give me the span between {it} and {n}", "[{it}, {n}]", "int(2,700)", "span"),
    Compute("relabel notes.relabel", "Write a number with its unit.", (("quantity", "number", "The number"), ("unit", "string", "Its unit")), "write {it} with the unit pieces / relabel {it} as pieces", "{it}|pieces", "int(2,3)", "text"),
    Compute("times_over figures.repeat", "What a figure comes to when it is there several times.", (("single", "number", "The figure"), ("count", "number", "How often it is there")), "tell me what {it} comes to {n} times over / multiply {it} by {n}", "{it}|{n}", "int(2,60)", "all"),
    Compute("top_up funds.top_up", "Add money or goods to what is there.", (("present", "number", "What is there"), ("extra", "number", "What is added")), "top {it} up with {n} / add {n} to {it}", "{it}|{n}", "int(2,600)", "now"),
    Compute("grow_by growth.project", "Let a value grow by a share.", (("start", "number", "Value at the beginning"), ("growth_percent", "number", "Growth in percent, e.g. 8 for 8 %")), "let {it} grow by {n} percent / project {it} with {n}% growth", "{it}|{n}", "int(1,60)", "grown"),
    Compute("rebate shop.rebate", "Take a rebate off a price.", (("full", "number", "Price without rebate"), ("rebate_percent", "number", "Rebate in percent")), "take a rebate of {n} percent off {it} / give {it} a rebate of {n}%", "{it}|{n}", "int(2,70)", "reduced"),
    Compute("round_off numbers.round", "Round a number off to some digits.", (("number", "number", "What is rounded"), ("digits", "number", "Digits behind the point")), "round {it} off to {n} digits / give {it} with {n} digits behind the point", "{it}|{n}", "int(1,5)", "rounded"),
    Compute("remainder numbers.rest", "What is left when a number is divided.", (("number", "number", "What is divided"), ("by", "number", "What it is divided by")), "find the remainder of {it} divided by {n} / tell me what is left of {it} in groups of {n}", "{it}|{n}", "int(2,30)", "rest"),
    Compute("gap_to goals.gap", "How far a figure is from a goal.", (("current", "number", "Where it stands"), ("goal", "number", "Where it should be")), "tell me how far {it} is from {n} / compare {it} with a goal of {n}", "{it}|{n}", "int(50,900)", "gap"),
    Compute("per_unit prices.each", "Price of one piece.", (("price", "number", "Price of all"), ("pieces", "number", "How many pieces")), "tell me what one of {n} pieces costs when {it} is the price of all / break {it} down to {n} pieces", "{it}|{n}", "int(2,60)", "each"),
    Compute("spread_over plans.spread", "Spread a figure over months.", (("total", "number", "The figure"), ("months", "number", "Over how many months")), "spread {it} over {n} months / tell me what {it} is a month over {n} months", "{it}|{n}", "int(2,36)", "monthly"),
    Compute("ratio figures.ratio", "Ratio of two figures.", (("numerator", "number", "Upper figure"), ("denominator", "number", "Lower figure")), "give me the ratio of {it} to {n} / divide {it} by {n} / work out {it} over {n}", "{it}|{n}", "int(2,400)", "ratio"),
    Compute("store_value notes.store", "Keep a number under a label.", (("label", "string", "What it is called"), ("number", "number", "The number")), "store {it} as total_{n} / keep {it} under the label total_{n}", "total_{n}|{it}", "int(1,90)", "stored"),
    Compute("is_above checks.above", "Whether a figure is above a limit.", (("observed", "number", "The figure"), ("limit", "number", "The limit")), "check whether {it} is above {n} / tell me if {it} exceeds {n}", "{it}|{n}", "int(5,800)", "excess"),
)  # fmt: skip

_REQUESTS = (
    "Look up {0} and {1}.",
    "Find {0}, then {1}.",
    "Get {0} and {1}, please.",
    "I need {0}. After that, {1}.",
    "What is {0}? Then {1}.",
    "First find {0}, then {1}.",
    "Find out {0} and then {1}.",
    "Take {0} and {1}.",
    "{0}: look it up and {1}.",
    "What's {0}? When you have it, {1}.",
    "Use the tools to find {0}, and {1}.",
    "hey, get {0} then {1}",
    "Step one: find {0}. Step two: {1}.",
    "I want to know {0}, and I want you to {1}.",
    "Give me {0}. With the result, {1}.",
    "Start with {0}; next, {1}.",
    "Retrieve {0}, and with that value {1}.",
    "Can you look up {0} and {1}?",
    "My boss needs {0}. Would you also {1}?",
)


def _lookups() -> tuple[Lookup, ...]:
    """Every thing with each of its quantities."""
    found: list[Lookup] = []
    for line in _THINGS.strip().splitlines():
        noun, spec, params, said, quantities = (part.strip() for part in line.split("|"))
        for quantity in quantities.split(", "):
            of, key = noun.replace(" ", "_"), quantity.replace(" ", "_")
            names = (
                f"get_{of}_{key} {of}.{key} {key}_of_{of} fetch_{key} {of}s.fetch_{key} lookup_{of}_{key} read_{key}"
            )
            about = f"{quantity[0].upper()}{quantity[1:]} of a {noun}."
            low, high, digits = _RANGES.get(quantity, _USUAL)
            thing = f"the {quantity} of {said}"
            if quantity.endswith("s") and not digits:
                thing += f" / the number of {quantity} of {said} / how many {quantity} {said} has"
            found.append(Lookup(names, about, params, spec, f"Which {noun}", thing, key, low, high, digits))
    return tuple(found)


#: Those that are trained on.
TRAINED = Kinds(_lookups(), _COMPUTES, _REQUESTS)
