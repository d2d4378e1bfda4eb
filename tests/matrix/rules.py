"""What each cell of the matrix must come to, written by hand. Nothing of toolspeak is imported here.

A cell is a plan, streamed or not, a tool choice and a scenario. The rules are read from top to bottom: each one
that matches a cell sets what it names, and a later one overrides an earlier one. `ids` are the lines of the
mission that decide. A field left empty in `Rule` matches everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

PLANS = ("native", "leaking", "inline", "decision", "envelope", "fallback")
CHOICES = ("auto", "none", "required", "named", "subset", "single")
SCENARIOS = ("one", "two", "no_call", "refusal", "bad_arguments", "truncated", "invented", "reasoning")

#: What the model says beside its call, at first and when it is asked again; its answer; and its refusal.
FIRST = "Let me check."
AGAIN = "Trying again."
ANSWER = "Oslo is the capital of Norway."
REFUSAL = "I'm sorry, but I don't have access to any tools."
#: The text of the reply is the text of the first answer, marks and all, without its reasoning.
AS_WRITTEN = "(as written)"

#: The calls: the first is allowed by every choice but `none`, the second only where nothing is said.
WEATHER = ("get_weather", {"city": "Oslo"})
SEARCH = ("search", {"query": "Oslo"})
#: What `named` names, and what `subset` allows (it demands a call out of these).
NAMED = "get_weather"
SUBSET = ("get_weather", "get_time")

EMULATED = "tool calls emulated"
RESCUED = "tool calls read from text"
EMPTY = "The model returned an empty answer. For details, see `reply.trace()`."

#: Choices that demand a call.
DEMANDING = ("required", "named", "subset")
#: Choices under which a streamed call flows before it is known to be valid.
LIVE = ("auto", "single")


class Cell(NamedTuple):
    plan: str
    stream: bool
    choice: str
    scenario: str

    def __str__(self) -> str:
        return f"{self.plan}-{'stream' if self.stream else 'whole'}-{self.choice}-{self.scenario}"


@dataclass(frozen=True)
class Expected:
    """What a caller sees at the end of a turn."""

    calls: tuple[tuple[str, dict[str, str]], ...] = ()
    text: str = ""
    finish: str = "stop"
    requests: int = 1
    warnings: tuple[str, ...] = ()
    #: The kind of the failure that ends the turn.
    error: str = ""
    #: The model's thinking reaches the caller as such.
    reasoning: bool = False


@dataclass(frozen=True)
class Rule:
    ids: tuple[str, ...]
    says: str
    then: dict[str, Any]
    plan: tuple[str, ...] = ()
    stream: tuple[bool, ...] = ()
    choice: tuple[str, ...] = ()
    scenario: tuple[str, ...] = ()
    #: Added to the requests.
    more: int = 0

    def matches(self, cell: Cell) -> bool:
        wanted = (self.plan, self.stream, self.choice, self.scenario)
        return all(not allowed or value in allowed for allowed, value in zip(wanted, cell, strict=True))


_CALLED: dict[str, Any] = {"calls": (WEATHER,), "text": FIRST, "finish": "tool_calls", "requests": 1}

RULES: tuple[Rule, ...] = (
    # ---- what the scenario comes to by itself
    Rule(("A9", "B8"), "a call is returned with the text before it", _CALLED, scenario=("one",)),
    Rule(
        ("B1", "A10"),
        "several calls are returned in their order",
        {**_CALLED, "calls": (WEATHER, SEARCH)},
        scenario=("two",),
    ),
    Rule(("A14",), "an answer without a call is the answer", {"text": ANSWER}, scenario=("no_call",)),
    Rule(
        ("E1", "E2", "B11"),
        "a refusal is held, dropped and asked for again",
        {**_CALLED, "text": AGAIN, "requests": 2},
        scenario=("refusal",),
    ),
    Rule(
        ("B5", "E1", "B11"),
        "wrong arguments are asked for again; the text that has left stays, the new one is dropped",
        {**_CALLED, "requests": 2},
        scenario=("bad_arguments",),
    ),
    Rule(
        ("B6",),
        "a call cut off by the token limit is no call, is not asked for again, and the reason stays",
        {"text": FIRST, "finish": "length"},
        scenario=("truncated",),
    ),
    Rule(("B9",), "what follows an invented result is cut off with it", _CALLED, scenario=("invented",)),
    Rule(
        ("B7", "B10", "E1"),
        "a call inside reasoning is none; when nothing follows, the model is asked again",
        {**_CALLED, "text": AGAIN, "requests": 2, "reasoning": True},
        scenario=("reasoning",),
    ),
    # ---- what the choice forbids or demands
    Rule(
        ("A10",),
        "a second call is dropped where one is allowed, and one that is not among those allowed likewise",
        {"calls": (WEATHER,)},
        choice=("named", "subset", "single"),
        scenario=("two",),
    ),
    Rule(
        ("B11",),
        "text is held until a call where one is demanded, so that of the answer with the call leaves",
        {"text": AGAIN},
        choice=DEMANDING,
        scenario=("bad_arguments",),
    ),
    Rule(
        ("A10", "E2", "E3"),
        "a call that is demanded and does not come after two retries is a typed error",
        {"text": "", "finish": "error", "requests": 3, "error": "tool_choice"},
        choice=DEMANDING,
        scenario=("no_call",),
    ),
    # ---- what the plan changes
    Rule(("A12",), "the reply says that emulation shaped it", {"warnings": (EMULATED,)}, plan=("inline", "envelope")),
    Rule(
        ("A7",),
        "an envelope holds its calls before its reply: what is cut off in a call says nothing",
        {"text": ""},
        plan=("envelope",),
        scenario=("truncated",),
    ),
    Rule(
        ("A12",),
        "in two phases calls come without text",
        {"warnings": (EMULATED,), "text": ""},
        plan=("decision", "fallback"),
    ),
    Rule(
        ("A7", "A9"),
        "a decision for no tool is followed by the final request, whose text is the answer",
        {"text": ANSWER, "requests": 2},
        plan=("decision", "fallback"),
        choice=LIVE,
        scenario=("no_call",),
    ),
    Rule(
        ("D7",),
        "a native answer's call is rescued from its text, and the reply says so",
        {"warnings": (RESCUED,)},
        plan=("leaking",),
        scenario=("one", "two", "refusal", "bad_arguments", "invented", "reasoning"),
    ),
    Rule(
        ("A12", "E4"),
        "the last retry of a native call asks for a decision",
        {"warnings": (EMULATED,)},
        plan=("native", "leaking"),
        choice=DEMANDING,
        scenario=("no_call",),
    ),
    Rule(("A3", "A9"), "a fallback asks natively first", {}, plan=("fallback",), more=1),
    # ---- none: one request, no call, nothing emulated
    Rule(
        ("A9", "A10", "A12"),
        "no call is allowed: one request, and the text is what the model wrote",
        {
            "calls": (),
            "text": AS_WRITTEN,
            "finish": "stop",
            "requests": 1,
            "warnings": (),
            "error": "",
        },
        choice=("none",),
    ),
    Rule(("B6",), "the reason stays", {"finish": "length"}, choice=("none",), scenario=("truncated",)),
    Rule(("E3",), "a turn never ends without words", {"text": EMPTY}, choice=("none",), scenario=("reasoning",)),
)

#: Cells that cannot happen, with the reason. There are none: what looks impossible can be brought about by an upstream
#: that does not keep its word, and then this is how:
#: - envelope, invented: the constraint is ignored, and the result stands behind the document;
#: - envelope, reasoning: the thinking comes in its own field, which no constraint covers, and the document stays empty;
#: - native, invented: the upstream goes on writing text after the call;
#: - any plan, none: the model calls in the form it was trained on, although nobody offered it anything.
VOID: dict[Cell, str] = {}


def cells() -> Iterator[Cell]:
    for values in product(PLANS, (False, True), CHOICES, SCENARIOS):
        yield Cell(*values)


def expected(cell: Cell) -> Expected:
    """What the rules say about a cell."""
    result = Expected()
    for rule in RULES:
        if rule.matches(cell):
            result = replace(result, **rule.then)
            result = replace(result, requests=result.requests + rule.more)
    return result
