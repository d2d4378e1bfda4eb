"""The thirty tasks, and the rules by which answers to them are right."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.cases import check_each
from toolspeak import ToolCall
from toolspeak.errors import UsageError
from toolspeak.evaluation.builtin import Builtin, ExpectedCall, ExpectedRound, judge_round, same_value
from toolspeak.evaluation.cases import ModelAnswer

SUITE = Builtin()
WEATHER = ExpectedCall("get_weather", {"city": ["Oslo", "Oslo, Norway"], "days": [1, None]}, "cold")
TIME = ExpectedCall("get_time", {"city": ["Oslo"]}, "noon")


def made(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


def test_there_are_thirty_tasks_of_five_kinds():
    kinds = Counter(case.category for case in SUITE.cases)
    assert kinds == {"single": 8, "choice": 7, "parallel": 5, "none": 5, "rounds": 5}
    assert len({case.id for case in SUITE.cases}) == 30
    assert len({case.messages[0].text for case in SUITE.cases}) == 30


@check_each("case", SUITE.cases, ids=lambda case: case.id)
def test_what_is_expected_fits_the_tools_and_is_right(case: Any):
    rounds = SUITE.rounds[case.id]
    schemas = {tool.name: tool.parameters for tool in case.tools}
    for number, each in enumerate(rounds):
        calls: list[ToolCall] = []
        for wanted in each.calls:
            # The plainest and the fullest call that is accepted are both valid.
            plainest = {name: values[0] for name, values in wanted.arguments.items() if None not in values}
            fullest = {name: values[0] for name, values in wanted.arguments.items()}
            for arguments in (plainest, fullest):
                jsonschema_rs.validate(schemas[wanted.name], arguments)
            calls.append(ToolCall(wanted.name, plainest))
        found = SUITE.judge(case, number, ModelAnswer(tuple(calls), f"Well: {' '.join(each.says)}"))
        assert found.correct
        last = number == len(rounds) - 1
        assert bool(found.results) is not last
        assert all(bool(wanted.result) is not last for wanted in each.calls)


@check_each(
    ("calls", "fault"),
    [
        ([made("get_weather", city="Oslo")], ""),
        ([made("get_weather", city=" oslo, norway ", days=1)], ""),
        ([made("get_weather", city="Oslo", days=1.0)], ""),
        ([], "no_call"),
        ([made("get_time", city="Oslo")], "wrong_tool"),
        ([made("get_weather", city="Rome")], "wrong_arguments"),
        ([made("get_weather", city="Oslo", days=2)], "wrong_arguments"),
        ([made("get_weather", city="Oslo", days=True)], "wrong_arguments"),
        ([made("get_weather", city="Oslo", days="1")], "wrong_arguments"),
        ([made("get_weather", days=1)], "wrong_arguments"),
        ([made("get_weather", city="Oslo", unit="C")], "wrong_arguments"),
        ([made("get_weather", city="Oslo")] * 2, "wrong_count"),
    ],
)
def test_one_call_is_right_by_its_name_and_every_argument(calls: list[ToolCall], fault: str):
    found = judge_round(ExpectedRound((WEATHER,)), ModelAnswer(tuple(calls)))
    assert (found.correct, found.fault) == (not fault, fault)
    assert bool(found.detail) is bool(fault)


def test_several_calls_may_come_in_any_order_and_get_their_own_results():
    wanted = ExpectedRound((WEATHER, TIME))
    found = judge_round(wanted, ModelAnswer((made("get_time", city="Oslo"), made("get_weather", city="Oslo"))))
    assert (found.correct, found.results) == (True, ("noon", "cold"))
    twice = judge_round(wanted, ModelAnswer((made("get_time", city="Oslo"), made("get_time", city="Oslo"))))
    assert twice.fault == "wrong_tool"


def test_calls_of_one_tool_are_matched_whatever_fits_first():
    either = ExpectedCall("f", {"x": [1, 2]}, "either")
    one = ExpectedCall("f", {"x": [1]}, "one")
    found = judge_round(ExpectedRound((either, one)), ModelAnswer((made("f", x=1), made("f", x=2))))
    assert (found.correct, found.results) == (True, ("one", "either"))
    same = judge_round(
        ExpectedRound((one, ExpectedCall("f", {"x": [3]}))), ModelAnswer((made("f", x=1), made("f", x=1)))
    )
    assert (same.fault, same.detail) == ("wrong_arguments", "two calls match the same expected call")


def test_many_calls_of_one_tool_are_not_tried_in_every_order():
    accepted = [ExpectedCall("f", {"x": list(range(at, 100))}, str(at)) for at in range(100)]
    answer = ModelAnswer(tuple(made("f", x=99 - at) for at in range(100)))
    assert judge_round(ExpectedRound(tuple(accepted)), answer).results == tuple(str(99 - at) for at in range(100))
    repeated = ModelAnswer((*[made("f", x=99)] * 99, made("f", x=-1)))
    assert judge_round(ExpectedRound(tuple(accepted)), repeated).fault == "wrong_arguments"


@check_each(
    ("answer", "says", "fault"),
    [
        (ModelAnswer(text="Bonjour!"), ("bonjour", "salut"), ""),
        (ModelAnswer(text="Anything."), (), ""),
        (ModelAnswer(text="Hello!"), ("bonjour", "salut"), "wrong_text"),
        (ModelAnswer(text=" \n"), (), "no_text"),
        (ModelAnswer((made("get_time", city="Oslo"),), "Bonjour!"), ("bonjour",), "needless_call"),
    ],
)
def test_where_no_call_is_expected_there_must_be_a_text_and_no_call(
    answer: ModelAnswer, says: tuple[str, ...], fault: str
):
    found = judge_round(ExpectedRound(says=says), answer)
    assert (found.correct, found.fault) == (not fault, fault)


@check_each(
    ("value", "wanted", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (0, False, False),
        (True, True, True),
        (None, None, True),
        ("Ä ", "ä", True),
        ("1", 1, False),
        (["A", 1], ["a", 1.0], True),
        (["a", "b"], ["b", "a"], False),
        (["a"], ["a", "a"], False),
        ({"k": "A"}, {"k": "a"}, True),
        ({"k": 1}, {"k": 1, "l": 2}, False),
        ({"k": 1}, [1], False),
    ],
)
def test_values_are_the_same_by_exact_rules(value: Any, wanted: Any, same: bool):
    assert same_value(value, wanted) is same
    assert same_value(wanted, value) is same


def test_a_suite_is_read_from_a_file(tmp_path: Path):
    tools = {"ping": {"description": "Ping.", "parameters": {"type": "object"}}}
    task = {
        "id": "one",
        "category": "imported",
        "ask": "Ping.",
        "tools": ["ping"],
        "rounds": [{"calls": [{"name": "ping"}]}],
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"version": "1", "tools": tools, "tasks": [task]}), encoding="utf-8")
    suite = Builtin(path)
    assert (suite.name, suite.version, suite.cases[0].messages[0].text) == ("mine", "1", "Ping.")
    assert suite.judge(suite.cases[0], 0, ModelAnswer((made("ping"),))).correct


@check_each("text", [None, "{", "[]", '{"version": "1", "tools": {}, "tasks": [{"id": "1"}]}', "\udcff"])
def test_a_file_that_is_no_suite_is_told(text: str | None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.json"
        if text is not None:
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(UsageError, match="cannot read the suite"):
            Builtin(path)
