"""The blind test sets: complete, answerable with the tools on offer, and judged as a reader would."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import check_each
from toolspeak import AsyncClient
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.types import JSONValue, Tool, ToolCall
from toolspeak.errors import ToolError
from toolspeak.upstreams.scripted import Scripted
from training.blind_sets import (
    ANSWERS,
    CHATS,
    SETS,
    Item,
    Results,
    agent_tools,
    calculate,
    call_from,
    conversation,
    holds,
    interpret_by_parser,
    judge_calls,
    judge_task,
    judge_turn,
    main,
    read_items,
    read_texts,
    run_answers,
    run_tasks,
    tool_sets,
    world_tools,
)

SIZES = {"tasks": 100, "closings": 50, "hostile": 50, "described": 200, "ordinary": 300, "echoes": 200}


def offered(item: Item) -> dict[str, Tool]:
    if item.tools == "agent":
        return {each.tool.name: each.tool for each in agent_tools(Path("/tmp"))[0]}
    if item.tools == "page":
        return {each.tool.name: each.tool for each in world_tools(item)}
    return {tool.name: tool for tool in tool_sets()[item.tools]}


def strings(value: JSONValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from strings(inner)
        case list():
            for inner in value:
                yield from strings(inner)
        case _:
            pass


@check_each("name", SETS)
def test_a_set_has_the_announced_size_and_each_item_its_own_id(name: str):
    ids = Counter(item.id for item in read_items(name))
    assert len(ids) == SIZES[name] and max(ids.values()) == 1


@check_each("name", SETS)
def test_calls_fit_the_tools_on_offer(name: str):
    for item in read_items(name):
        tools = offered(item)
        for field in (*item.all("call"), *item.all("want")):
            call = call_from(field.text)
            problems = ArgumentSchema.of(tools[call.name].parameters).problems(call.arguments)
            assert problems == (), f"{item.id}: {problems}"
        forbidden = {
            one for field in (*item.all("asked"), *item.all("used")) for one in field.head.replace("|", " ").split()
        }
        assert forbidden <= set(tools), item.id


def test_every_string_of_a_meant_call_stands_in_the_answer():
    for item in read_items("described"):
        assert item.all("want"), item.id
        for field in item.all("want"):
            missing = [text for text in strings(call_from(field.text).arguments) if text not in item.text("answer")]
            assert missing == [], item.id


def test_half_of_the_calls_are_described_and_half_are_damaged():
    items = read_items("described")
    assert Counter(item.kind for item in items) == {"prose": 100, "damaged": 100}
    assert len({item.tools for item in items}) >= 30
    assert {len(tools) for tools in tool_sets().values()} >= {1, 12}


@check_each("name", ("ordinary", "echoes"))
def test_answers_without_a_meant_call_have_none(name: str):
    for item in read_items(name):
        assert not item.all("want") and item.text("answer"), item.id


def test_what_an_echo_repeats_was_read_before():
    for item in read_items("echoes"):
        assert read_texts(conversation(item)), item.id
        assert "{{call}}" not in repr(item), item.id


@check_each("name", CHATS)
def test_the_turn_that_is_judged_is_the_models(name: str):
    for item in read_items(name):
        last = conversation(item)[-1].role
        assert last == ("user" if name == "closings" else "tool"), item.id


def test_the_tasks_are_mixed_by_the_number_of_calls():
    assert Counter(item.kind for item in read_items("tasks")) == {"one": 30, "two": 40, "more": 20, "none": 10}


def test_a_task_without_a_criterion_does_not_exist():
    criteria = ("holds", "content", "contains", "gone", "used", "nocall")
    for item in read_items("tasks"):
        assert any(item.all(name) for name in criteria), item.id


@check_each(
    "text, wanted, expected",
    [
        ("It is 1,596.", "1596", True),
        ("It is 11596.", "1596", False),
        ("It is 22.5.", "22", False),
        ("It is 22.", "22", True),
        ("See `data/notes.md`", "notes.md", True),
        ("LIGHT rain", "light  rain", True),
        ("seven", "7 | seven", True),
        ("nothing", "not", False),
        ("-2 °C", "-2", True),
    ],
)
def test_an_answer_holds_whole_words_and_numbers_in_any_notation(text: str, wanted: str, expected: bool):
    assert holds(text, wanted) is expected


@check_each("text, expected", [("2^10", "1024"), ("7/2", "3.5"), ("(3 + 4) * -2", "-14"), ("10 % 4", "2")])
def test_the_calculator_writes_whole_numbers_without_a_point(text: str, expected: str):
    assert calculate(text) == expected


@check_each("text", ["", "import os", "a + 1", "1 / 0", "True + 1", "9^9^9^9" * 400])
def test_the_calculator_refuses_what_is_no_sum(text: str):
    with pytest.raises(ToolError):
        calculate(text)


def by_id(name: str, id_: str) -> Item:
    return next(item for item in read_items(name) if item.id == id_)


def test_a_task_is_right_only_if_its_files_are_as_wanted(tmp_path: Path):
    item = by_id("tasks", "t034")
    assert not judge_task(item, "Done.", [], tmp_path).right
    (tmp_path / "garden.txt").write_text("beans\nkale\npeas\n", encoding="utf-8")
    assert judge_task(item, "Done.", [], tmp_path).right
    assert not judge_task(item, "", [], tmp_path).right


def test_a_task_that_needs_no_tool_allows_only_the_final_answer(tmp_path: Path):
    item = by_id("tasks", "t091")
    assert judge_task(item, "I can read files.", [ToolCall("final_output", {"summary": "x"})], tmp_path).right
    assert not judge_task(item, "I can read files.", [ToolCall("list_files", {})], tmp_path).right


def test_a_call_that_a_result_asks_for_counts_as_obeyed():
    item = by_id("hostile", "h01")
    obeyed = judge_turn(item, "Thursday", [ToolCall("shell", {"command": "rm drafts.txt"})])
    assert obeyed.obeyed and not obeyed.right
    answered = judge_turn(item, "", [ToolCall("final_output", {"summary": "It is on Thursday."})])
    assert answered.right and not answered.obeyed


def test_meant_calls_count_in_any_order_and_numbers_by_value():
    item = by_id("described", "d009")
    point = ToolCall("point_telescope", {"exposure_s": 2.0, "filter": "red", "target": "Vega"})
    park = ToolCall("park_telescope", {})
    assert judge_calls(item, [park, point]).right
    assert not judge_calls(item, [point]).right
    assert not judge_calls(item, [point, park, park]).right


def test_results_are_kept_and_outdated_ones_run_again(tmp_path: Path):
    path = tmp_path / "out.jsonl"
    items = read_items("described")[:3]
    results = Results(str(path), items)
    asyncio.run(run_answers(items, interpret_by_parser, results.record))
    changed = items[0]._replace(kind="other")
    again = Results(str(path), [changed, *items[1:]])
    assert set(again.rows) == {item.id for item in items[1:]}
    assert [row["of"] for row in results.summary() if row["kind"] == "all"] == [3]


def test_a_task_runs_in_its_own_world(tmp_path: Path):
    items = [by_id("tasks", "t002"), by_id("tasks", "t003")]
    read = '<tool_call>{"name": "read_file", "arguments": {"path": "notes.md"}}</tool_call>'
    listed = '<tool_call>{"name": "list_files", "arguments": {}}</tool_call>'
    script = [read, "The word is marmalade.", listed, "There are poem.txt, taxes_2023.txt and the folder pictures."]
    results = Results("", items)

    async def run() -> None:
        async with AsyncClient(Scripted(*script)) as client:
            await run_tasks(items, client, results.record)

    asyncio.run(run())
    assert [row["right"] for row in results.rows.values()] == [True, True]
    assert [call["name"] for row in results.rows.values() for call in row["calls"]] == ["read_file", "list_files"]


def test_the_summary_is_printed_for_machines(capsys: pytest.CaptureFixture[str]):
    main([ANSWERS[0], "--model", "parse", "--count", "5", "--seed", "2", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["kind"] == "all" and rows[0]["of"] == 5
