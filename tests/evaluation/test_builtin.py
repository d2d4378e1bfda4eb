"""The thirty tasks, and the rules by which answers to them are right."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jsonschema_rs
import pytest

from toolspeak import ToolCall
from toolspeak.evaluation.builtin import Builtin, Expected, Round, judge_round, same_value
from toolspeak.evaluation.cases import Answer

SUITE = Builtin()
WEATHER = Expected("get_weather", {"city": ["Oslo", "Oslo, Norway"], "days": [1, None]}, "cold")
TIME = Expected("get_time", {"city": ["Oslo"]}, "noon")


def made(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


def test_there_are_thirty_tasks_of_five_kinds():
    kinds = Counter(case.category for case in SUITE.cases)
    assert kinds == {"single": 8, "choice": 7, "parallel": 5, "none": 5, "rounds": 5}
    assert len({case.id for case in SUITE.cases}) == 30
    assert len({case.messages[0].text for case in SUITE.cases}) == 30


@pytest.mark.parametrize("case", SUITE.cases, ids=lambda case: case.id)
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
        found = SUITE.judge(case, number, Answer(tuple(calls), f"Well: {' '.join(each.says)}"))
        assert found.correct
        last = number == len(rounds) - 1
        assert bool(found.results) is not last
        assert all(bool(wanted.result) is not last for wanted in each.calls)


@pytest.mark.parametrize(
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
    found = judge_round(Round((WEATHER,)), Answer(tuple(calls)))
    assert (found.correct, found.fault) == (not fault, fault)
    assert bool(found.detail) is bool(fault)


def test_several_calls_may_come_in_any_order_and_get_their_own_results():
    wanted = Round((WEATHER, TIME))
    found = judge_round(wanted, Answer((made("get_time", city="Oslo"), made("get_weather", city="Oslo"))))
    assert (found.correct, found.results) == (True, ("noon", "cold"))
    twice = judge_round(wanted, Answer((made("get_time", city="Oslo"), made("get_time", city="Oslo"))))
    assert twice.fault == "wrong_tool"


def test_calls_of_one_tool_are_matched_whatever_fits_first():
    either = Expected("f", {"x": [1, 2]}, "either")
    one = Expected("f", {"x": [1]}, "one")
    found = judge_round(Round((either, one)), Answer((made("f", x=1), made("f", x=2))))
    assert (found.correct, found.results) == (True, ("one", "either"))
    same = judge_round(Round((one, Expected("f", {"x": [3]}))), Answer((made("f", x=1), made("f", x=1))))
    assert (same.fault, same.detail) == ("wrong_arguments", "two calls are the same one")


@pytest.mark.parametrize(
    ("answer", "says", "fault"),
    [
        (Answer(text="Bonjour!"), ("bonjour", "salut"), ""),
        (Answer(text="Anything."), (), ""),
        (Answer(text="Hello!"), ("bonjour", "salut"), "wrong_text"),
        (Answer(text=" \n"), (), "no_text"),
        (Answer((made("get_time", city="Oslo"),), "Bonjour!"), ("bonjour",), "needless_call"),
    ],
)
def test_where_no_call_is_expected_there_must_be_a_text_and_no_call(answer: Answer, says: tuple[str, ...], fault: str):
    found = judge_round(Round(says=says), answer)
    assert (found.correct, found.fault) == (not fault, fault)


@pytest.mark.parametrize(
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
