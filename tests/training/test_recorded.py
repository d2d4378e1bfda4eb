"""Recorded requests: what of public data can be trained on, and in which form."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.cases import check_each
from toolspeak.core.types import JSONObject, JSONValue, ToolCall
from training.family import Style
from training.recorded import Record, Recorded, name_of, record_of

WEATHER: JSONObject = {
    "name": "Weather Forecast",
    "description": "Forecast for a city",
    "parameters": {
        "city": {"type": "str", "description": "Name of the city"},
        "days": {"type": "int, optional", "description": "How many days", "default": 3},
        "units": {"type": "str", "description": "Units", "default": "metric"},
        "hours": {"type": "List[int], optional", "description": "Hours of the day"},
    },
}


def recorded(request: str, *arguments: JSONObject, tool: JSONObject = WEATHER) -> Record | None:
    return record_of(request, [tool], [{"name": tool["name"], "arguments": each} for each in arguments])


def calls(record: Record | None) -> list[JSONValue]:
    assert record is not None
    return [call.arguments for call in record.calls]


def test_the_short_form_of_parameters_becomes_a_schema():
    record = recorded("What will the weather be in Oslo?", {"city": "Oslo"})
    assert record is not None
    (tool,) = record.tools
    assert tool.name == "Weather_Forecast"
    assert tool.parameters["required"] == ["city"]
    kinds = {name: each["type"] for name, each in tool.parameters["properties"].items()}
    assert kinds == {"city": "string", "days": "integer", "units": "string", "hours": "array"}
    assert tool.parameters["properties"]["hours"]["items"] == {"type": "integer"}
    assert tool.parameters["properties"]["days"]["default"] == 3


@check_each(
    ("given", "kept"),
    [
        ({"city": "Oslo"}, {"city": "Oslo"}),
        ({"city": "Oslo", "days": 3}, {"city": "Oslo"}),
        ({"city": "Oslo", "units": "metric", "days": 5}, {"city": "Oslo", "days": 5}),
        ({"days": "5", "city": "Oslo"}, {"city": "Oslo", "days": 5}),
        ({"city": "Oslo", "units": ""}, {"city": "Oslo"}),
    ],
)
def test_an_option_that_only_repeats_its_default_goes_and_values_get_their_types(given: JSONObject, kept: JSONObject):
    assert calls(recorded("The weather in Oslo for the next 5 days, please", given)) == [kept]


@check_each(
    "given",
    [
        {"city": "Bergen"},
        {"city": "Oslo", "days": 12},
        {"days": 5},
        {"city": "Oslo", "planet": "Mars"},
        {"city": None},
        {"city": "Oslo", "hours": [7, 9]},
    ],
)
def test_what_the_request_does_not_say_is_not_trained_on(given: JSONObject):
    assert recorded("The weather in Oslo for the next 5 days, please", given) is None


def test_values_within_lists_and_objects_must_stand_in_the_request_too():
    tool: JSONObject = {
        "name": "f",
        "parameters": {"type": "dict", "properties": {"at": {"type": "dict"}}, "required": ["at"]},
    }
    assert recorded("a place at 3.5 and 7", {"at": {"x": 3.5, "y": 7}}, tool=tool) is not None
    assert recorded("a place at 3.5 and 7", {"at": {"x": 3.5, "y": 8}}, tool=tool) is None


def test_one_of_the_values_that_a_schema_lists_may_be_said_in_other_words():
    tool: JSONObject = {
        "name": "f",
        "parameters": {"unit": {"type": "str", "enum": ["celsius", "fahrenheit"]}},
    }
    assert calls(recorded("How warm is it, in degrees C?", {"unit": "celsius"}, tool=tool)) == [{"unit": "celsius"}]


@check_each(
    ("request_", "answers"),
    [("Oslo", [{"city": "Oslo"}]), ("Oslo " * 300, [{"city": "Oslo"}]), ("Weather in Oslo", [{"city": "Oslo"}] * 2)],
)
def test_what_is_too_short_too_long_or_asked_for_twice_is_left_out(request_: str, answers: list[JSONObject]):
    assert recorded(request_, *answers) is None


def test_a_call_of_a_tool_that_is_not_listed_is_left_out():
    assert record_of("What time is it in Oslo?", [WEATHER], [{"name": "time", "arguments": {}}]) is None
    assert record_of("What time is it in Oslo?", [], []) is None


def test_a_record_with_a_tool_whose_parameters_are_no_schema_is_left_out():
    fine: JSONObject = {"type": "object", "properties": {"counts": {"additionalProperties": {"type": "number"}}}}
    odd: JSONObject = {"type": "object", "properties": {"counts": {"additionalProperties": {"type": "float"}}}}
    deep: JSONObject = {"type": "object"}
    for _ in range(70):
        deep = {"properties": {"a": deep}}
    request, called = "The weather in Oslo, please", [{"name": "Weather Forecast", "arguments": {"city": "Oslo"}}]
    other: JSONObject = {"name": "count", "parameters": fine}
    assert record_of(request, [WEATHER, other], called) is not None
    assert record_of(request, [WEATHER, other | {"parameters": odd}], called) is not None
    assert record_of(request, [WEATHER, other | {"parameters": deep}], called) is None


@check_each(("given", "name"), [("Get User", "Get_User"), (" a/b (c) ", "a_b_c"), ("x.y-z", "x.y-z"), ("???", "tool")])
def test_names_become_such_as_tools_have(given: str, name: str):
    assert name_of(given) == name


def test_names_follow_the_style_of_a_list():
    record = recorded("What will the weather be in Oslo?", {"city": "Oslo"})
    assert record is not None
    found = {record.styled(random.Random(seed), Style(True, "camel")).tools[0].name for seed in range(20)}
    assert found == {"Weather_Forecast", "weatherForecast"}
    for seed in range(20):
        styled = record.styled(random.Random(seed), Style(False, "dash"))
        assert styled.calls == (ToolCall(styled.tools[0].name, {"city": "Oslo"}),)


def test_names_that_would_become_one_stay_as_they_are():
    tools = [{**WEATHER, "name": "getIt"}, {**WEATHER, "name": "get_it"}]
    record = record_of("Weather in Oslo", tools, [{"name": "getIt", "arguments": {"city": "Oslo"}}])
    assert record is not None
    assert all(record.styled(random.Random(seed), Style(False, "under")) is record for seed in range(20))


def test_a_folder_is_split_and_drawn_from_by_its_tools(tmp_path: Path):
    rows = [
        {
            "query": f"Weather in Oslo, number {at}",
            "tools": [WEATHER],
            "answers": answers,
            "reply": "" if answers else "No.",
        }
        for at in range(200)
        for answers in [[{"name": WEATHER["name"], "arguments": {"city": "Oslo"}}] if at % 4 else []]
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    trained, held = Recorded(tmp_path), Recorded(tmp_path, held_out=True)
    assert len(trained.calling) + len(held.calling) == 150
    assert len(trained.declining) + len(held.declining) == 50
    assert 5 <= len(held.calling) + len(held.declining) <= 40
    assert not {record.request for record in trained.calling} & {record.request for record in held.calling}
    rng = random.Random(2)
    drawn = [trained.draw(rng) for _ in range(300)]
    assert 10 <= sum(not record.calls for record in drawn) <= 80
    assert {record.reply for record in drawn if not record.calls} == {"No."}


def test_requests_that_take_several_calls_are_drawn_more_often_than_they_come(tmp_path: Path):
    call: JSONObject = {"name": WEATHER["name"], "arguments": {"city": "Oslo"}}
    other: JSONObject = {"name": WEATHER["name"], "arguments": {"city": "Rome"}}
    rows = [
        {
            "query": f"Weather in Oslo and Rome, number {at}",
            "tools": [WEATHER],
            "answers": [call] if at % 50 else [call, other],
        }
        for at in range(400)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found, rng = Recorded(tmp_path), random.Random(3)
    assert 60 <= sum(len(found.draw(rng).calls) > 1 for _ in range(300)) <= 130


@pytest.mark.parametrize(
    "broken",
    [
        {"query": "Weather in Oslo", "tools": [{"name": "f", "parameters": "city"}], "answers": []},
        {"query": "Weather in Oslo", "tools": [WEATHER], "answers": [{"name": 5, "arguments": {}}]},
        {"query": "Weather in Oslo", "tools": [WEATHER]},
    ],
)
def test_a_row_that_makes_no_sense_is_left_out_and_the_rest_is_read(tmp_path: Path, broken: JSONObject):
    fine = {
        "query": "Weather in Oslo, please",
        "tools": [WEATHER],
        "answers": [{"name": WEATHER["name"], "arguments": {"city": "Oslo"}}],
    }
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, [broken, fine])), encoding="utf-8")
    assert len(Recorded(tmp_path).calling) + len(Recorded(tmp_path, held_out=True).calling) == 1


def test_a_folder_without_requests_is_not_taken_for_one(tmp_path: Path):
    with pytest.raises(SystemExit, match="with a request that can be used"):
        Recorded(tmp_path)
