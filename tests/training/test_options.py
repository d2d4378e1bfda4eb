"""Options beside a request: whom they are for, and that they are said once."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from toolspeak.core.types import ToolCall
from training.family import Family, Style, families
from training.options import with_option, with_options
from training.wording import fronted

TOLD = """## air
== weather.now
@ The weather.
city : pick(Oslo|Lima|Bonn|Kyiv) ! City
day : pick(Monday|Tuesday|Friday) ! Day
unit : enum(C=celsius|F=fahrenheit) ? Unit. Default is 'C'.
include_wind : bool ? Whether to tell the wind
> weather in {city} on {day}
"""


@pytest.fixture
def weather(tmp_path: Path) -> Family:
    (tmp_path / "air.txt").write_text(TOLD, encoding="utf-8")
    return families(tmp_path)[0]


def asked(weather: Family, seed: int, count: int) -> tuple[str, list[ToolCall]]:
    """A request for several calls with nothing but a city, with an option or without."""
    rng = random.Random(seed)
    offer = next(
        each
        for each in (weather.offer(rng, Style()) for _ in range(500))
        if {"city", "unit", "include_wind"} <= set(each.tool.parameters["properties"])
        and {each.tool.parameters["properties"][name]["type"] for name in ("city", "unit")} == {"string"}
    )
    cities = ("Oslo", "Lima", "Bonn")[:count]
    calls = [ToolCall(offer.tool.name, {"city": city}) for city in cities]
    said = f"weather in {' and '.join(cities)}."
    if count == 1:
        said, call = with_option(offer, rng, said, calls[0])
        return said, [call]
    return with_options(offer, rng, said, calls)


def options(call: ToolCall) -> dict[str, object]:
    return {name: value for name, value in call.arguments.items() if name != "city"}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_option_is_said_once_and_held_by_every_call_unless_it_is_for_one_by_its_place(weather: Family, count: int):
    seen: set[bool] = set()
    for seed in range(300):
        said, calls = asked(weather, seed, count)
        held = [call for call in calls if options(call)]
        seen.add(bool(held))
        if "the last" in said or "the first" in said.lower():
            assert len(held) == 1
            assert held[0] is calls[0 if "the first" in said.lower() else -1]
        else:
            assert all(options(call) == options(calls[0]) for call in calls)
        for call in held:
            unit = options(call).get("unit")
            assert unit is None or said.lower().count({"C": "celsius", "F": "fahrenheit"}[str(unit)]) == 1
            assert "include_wind" not in options(call) or "wind" in said.lower()
    assert seen == {True, False}


def test_a_list_in_lines_gets_its_options_in_a_line_of_their_own(weather: Family):
    rng = random.Random(4)
    offer = weather.offer(rng, Style())
    calls = [ToolCall(offer.tool.name, {}) for _ in range(3)]
    told = [with_options(offer, rng, "Weather:\n- Oslo\n- Lima\n- Bonn", calls)[0] for _ in range(200)]
    assert {each.count("\n") for each in told} == {3, 4}


def test_where_each_goes_with_each_there_are_as_many_calls_and_in_step_is_said_so(weather: Family):
    rng = random.Random(2)
    pairs = 0
    for _ in range(400):
        offer = weather.offer(rng, Style())
        said, calls = offer.ask_several(rng, 2)
        if {"array", "integer"} & {str(each["type"]) for each in offer.tool.parameters["properties"].values()}:
            continue
        found = {tuple(str(value) for value in call.arguments.values()) for call in calls}
        assert len(found) == len(calls)
        pairs += len(calls) == 4
        if (
            said.lower().count("weather") == 1
            and len(calls) == 2
            and len({call.arguments.get("city") for call in calls}) == 2
        ):
            days = {
                value for call in calls for value in call.arguments.values() if value in ("Monday", "Tuesday", "Friday")
            }
            assert len(days) < 2 or "respectively" in said or "in that order" in said
    assert pairs > 10


def test_options_by_number_are_told_in_the_description_and_called_with_it(weather: Family):
    rng = random.Random(3)
    called: set[object] = set()
    for _ in range(3000):
        offer = weather.offer(rng, Style())
        _, call = offer.ask(rng)
        for name, schema in offer.tool.parameters["properties"].items():
            if re.search(r"\d: C, ", str(schema.get("description"))) and name in call.arguments:
                assert schema["type"] == "integer"
                assert "default" not in schema
                assert f"{call.arguments[name]}: " in schema["description"]
                called.add(call.arguments[name])
    assert len(called) > 2


def test_what_a_request_is_about_may_stand_in_front_of_it_and_is_said_once():
    rng = random.Random(1)
    told = {fronted("What is the weather in {city}?", rng) for _ in range(400)}
    assert len(told) > 5
    assert all(each.count("{city}") == 1 for each in told)
    assert fronted("{city} now", rng) == "{city} now"
