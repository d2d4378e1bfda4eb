"""The engine against the rules, cell by cell: every plan, choice and scenario, whole and streamed in pieces."""

from __future__ import annotations

from functools import cache

import pytest

from tests.cases import check_each
from tests.matrix import rules
from tests.matrix.rules import Cell, Expected, expected
from tests.matrix.scripts import Model, first_text
from tests.offline_turn import STAMP, Play, carry_out, engine_for, user
from tests.requirements import REQUIREMENTS
from toolspeak.core.events import Finish, Reply, UsageSeen, fold
from toolspeak.core.types import Request, Tool, ToolChoice, Usage
from toolspeak.engine.planning.capabilities import Profile
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import TurnOutcome

CELLS = [cell for cell in rules.cells() if cell not in rules.VOID]

_TOOLS = (
    Tool(
        "get_weather",
        "The weather in a city.",
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    ),
    Tool(
        "search",
        "Search the web.",
        {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    ),
    Tool("get_time", "The time.", {"type": "object", "properties": {}}),
)
_NATIVE = Profile(capability="openai")
_PLANS: dict[str, tuple[Settings, Profile]] = {
    "native": (Settings(), _NATIVE),
    "leaking": (Settings(), _NATIVE),
    "inline": (Settings(mode="force"), Profile()),
    "decision": (Settings(mode="force", plan="decision"), Profile()),
    "envelope": (Settings(mode="force", plan="envelope"), Profile(constraint="json_schema")),
    "fallback": (Settings(mode="fallback"), _NATIVE),
}
_CHOICES = {
    "auto": ToolChoice(),
    "none": ToolChoice("none"),
    "required": ToolChoice("required"),
    "named": ToolChoice("named", (rules.NAMED,)),
    "subset": ToolChoice("required", rules.SUBSET),
    "single": ToolChoice(parallel=False),
}
#: How streams are cut: not at all, character by character, and through the middle of every mark.
_CHUNKS = {False: (0,), True: (0, 1, 7)}


class Played:
    """One turn of a cell."""

    def __init__(self, cell: Cell, model: Play) -> None:
        settings, profile = _PLANS[cell.plan]
        choice = _CHOICES[cell.choice]
        engine = engine_for(
            [user("How is it in Oslo today?")], _TOOLS, settings, choice=choice, stream=cell.stream, profile=profile
        )
        events, outcome, asked = carry_out(engine, model, 0)
        self.events = events
        self.outcome: TurnOutcome = outcome
        self.asked: list[Request] = asked
        self.reply: Reply = fold(events)

    def seen(self) -> Expected:
        """What the caller sees, in the words of the rules."""
        reply = self.reply
        return Expected(
            calls=tuple((call.name, call.arguments) for call in reply.calls),
            text=reply.text.strip(),
            finish=reply.finish_reason,
            requests=len(self.asked),
            warnings=self.outcome.warnings,
            error=reply.failure.kind if reply.failure else "",
            reasoning="weather" in reply.reasoning,
        )


def _played(cell: Cell, chunk: int) -> Played:
    return Played(cell, Model(cell, chunk))


@cache
def wanted(cell: Cell) -> Expected:
    said = expected(cell)
    return rules.replace(said, text=first_text(cell).strip()) if said.text == rules.AS_WRITTEN else said


def test_the_rules_cover_every_cell_of_the_matrix():
    assert len(list(rules.cells())) == len(rules.PLANS) * 2 * len(rules.CHOICES) * len(rules.SCENARIOS) == 576
    assert all(any(rule.matches(cell) for rule in rules.RULES) for cell in CELLS)
    assert all(any(rule.matches(cell) for cell in CELLS) for rule in rules.RULES)
    assert {each for rule in rules.RULES for each in rule.ids} <= set(REQUIREMENTS)


@pytest.mark.requirement("A3", "A9", "A10", "A12", "A14", "B5", "B6", "B7", "B8", "B9", "B10", "B11", "D7", "E1", "E3")
@check_each("cell", CELLS, ids=str)
def test_a_turn_comes_to_what_the_rules_say(cell: Cell):
    for chunk in _CHUNKS[cell.stream]:
        played = _played(cell, chunk)
        assert played.seen() == wanted(cell), f"in pieces of {chunk}"
        assert played.outcome.requests == len(played.asked)


@pytest.mark.requirement("B8", "B11")
@check_each("cell", [cell for cell in CELLS if cell.stream], ids=str)
def test_a_stream_comes_to_the_same_however_it_is_cut_and_as_if_it_had_not_been_streamed(cell: Cell):
    whole, *cut = [_played(cell, chunk).reply for chunk in _CHUNKS[True]]
    for other in cut:
        assert (other.text, other.calls, other.reasoning) == (whole.text, whole.calls, whole.reasoning)
        assert (other.candidates, other.finish_reason) == (whole.candidates, whole.finish_reason)
        assert sorted(note.code for note in other.notes) == sorted(note.code for note in whole.notes)
    unstreamed = _played(cell._replace(stream=False), 0).reply
    assert (whole.text, whole.calls, whole.reasoning) == (unstreamed.text, unstreamed.calls, unstreamed.reasoning)


@pytest.mark.requirement("A4", "A9", "A11")
@check_each("cell", CELLS, ids=str)
def test_every_turn_ends_once_counts_its_tokens_and_numbers_its_calls(cell: Cell):
    played = _played(cell, 0)
    ends = [event for event in played.events if isinstance(event, Finish)]
    assert len(ends) == 1
    assert played.events[-1] is ends[0]
    counted = [event.usage for event in played.events if isinstance(event, UsageSeen)]
    used = len(played.asked)
    attempts = [each for each in played.outcome.trace.attempts if each.request.stream]  # only these can be stopped
    stopped = sum(any(note.code == "invented_result" for note in each.notes) for each in attempts)
    assert counted == [Usage(10 * (used - stopped), 5 * (used - stopped))]
    emulated = cell.plan not in ("native",)
    ids = [f"emulated_{STAMP}_{at}" if emulated else f"call_{at}" for at in range(len(played.reply.calls))]
    assert [call.id for call in played.reply.calls] == ids
    if cell.plan in ("inline", "decision", "envelope"):
        assert not any(request.tools or request.tool_choice != ToolChoice() for request in played.asked)
