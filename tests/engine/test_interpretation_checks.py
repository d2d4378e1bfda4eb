"""Whether the values of an interpreted call stand in the answer, and whether the answer only repeats a text."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.types import JSONObject, Message, TextPart, Tool, ToolCall, ToolResult
from toolspeak.engine.turn.interpretation_checks import Quotations, missing_value

UNITS = {"type": "string", "enum": ["celsius", "metric_tons", "per-hour"]}
TOOL = Tool(
    "f",
    parameters={
        "type": "object",
        "properties": {
            "unit": UNITS,
            "kind": {"const": "Deep Red"},
            "inner": {"anyOf": [{"type": "object", "properties": {"enum": UNITS}}, {"type": "null"}]},
        },
    },
)


def missing(answer: str, arguments: dict[str, Any]) -> str:
    return missing_value(ToolCall("f", arguments), TOOL, answer)


@pytest.mark.requirement("E6")
@check_each(
    ("answer", "value", "stands"),
    [
        ("in Oslo today", "Oslo", True),
        ("in oslo today", "Oslo", False),
        ("Oslofjord", "Oslo", False),
        ("'Oslo'", "Oslo", True),
        ("(Oslo2)", "Oslo", False),
        ("New\n  York", "New York", True),
        ("a\\nb \\\"c\\\"", 'a\nb "c"', True),
        ("今天奥斯陆天气", "奥斯陆", True),
        ("Oslofjord or Oslo", "Oslo", True),
        ("x", "", True),
        ("", "", True),
        ("Celsius", "celsius", True),
        ("metric tons", "metric_tons", True),
        ("Per hour", "per-hour", True),
        ("metrictons", "metric_tons", False),
        ("deep-red", "Deep Red", True),
        ("metric tons", "metric_ton", False),
    ],
)  # fmt: skip
def test_a_string_must_stand_in_the_answer(answer: str, value: str, stands: bool):
    assert (missing(answer, {"kind": value}) == "") is stands


@pytest.mark.requirement("E6")
@check_each(
    ("answer", "arguments", "missed"),
    [
        ("from A-1 to B-9", {"kind": "A-1", "inner": "B-9"}, ""),
        ("2 of A-1 in B-9", {"unit": "A-1", "kind": "B-9", "inner": "A-1"}, "A-1"),
        ("copy a, a", {"kind": ["a", "a"]}, ""),
        ("copy a", {"kind": ["a", "a"]}, "a"),
        ("copy a twice", {"kind": ["a"], "inner": {"enum": "a"}}, "a"),
        ("in celsius", {"unit": "celsius", "inner": {"enum": "celsius"}}, ""),
        ("a square of 5", {"kind": 5, "inner": 5}, ""),
    ],
)
def test_a_string_must_stand_in_the_answer_as_often_as_in_the_call(answer: str, arguments: JSONObject, missed: str):
    assert missing(answer, arguments) == missed


@pytest.mark.requirement("E6")
@check_each(
    ("arguments", "missed"),
    [({"kind": "kind"}, "kind"), ({"kind": "name"}, ""), ({"unit": "kind"}, ""), ({"celsius": "celsius"}, "")],
)
def test_the_name_of_a_parameter_is_no_value_of_it(arguments: JSONObject, missed: str):
    assert missing("describe takes the name of a kind, in celsius", arguments) == missed


@pytest.mark.requirement("E6")
@check_each(
    ("answer", "value", "stands"),
    [
        ('{"to": "ana", "subject": "subje', "subje", False),
        ('{"to": "ana", "subject": "New York, Os', "New York", False),
        ('{"to": "ana", "subject": "subject"', "subject", True),
        ("send(to=ana, subject=subje", "subje", False),
        ("send(to=ana, subject=subje", "ana", True),
        ("send(to='ana', subject='subject'", "subject", True),
        ("send(to=ana, subject=subject)", "subject", True),
        ("wait[days: 3", 3, False),
        ("wait[days: 3]", 3, True),
        ("wait(unit=metric tons", "metric_tons", True),
        ("send to ana, the subject is a subject", "a subject", True),
        ('the subject is "sub', "sub", False),
        ("<send><to>ana</to><subject>New Yo", "New Yo", False),
        ("<send><to>ana</to><subject>New Yo", "ana", True),
        ("<send><to>ana</to><subject>New York</subject>", "New York", True),
        ("```yaml\ntool: send\nto: ana\nsubject: New Yo", "New Yo", False),
        ("```yaml\ntool: send\nto: ana\nsubject: New Yo", "ana", True),
        ("```yaml\ntool: send\nto: ana\nsubject: New York\n```", "New York", True),
        ("```yaml\ntool: send\nsubject: New York\n", "New York", True),
    ],
)  # fmt: skip
def test_a_value_at_the_end_of_an_unfinished_call_may_be_cut(answer: str, value: object, stands: bool):
    assert (missing(answer, {"kind": value}) == "") is stands


@pytest.mark.requirement("E6")
@check_each(
    ("answer", "value", "stands"),
    [
        ("for 3 days", 3, True),
        ("for 3 days", 3.0, True),
        ("for 13 days", 3, False),
        ("v3", 3, False),
        ("version 1.2.3", 2, False),
        ("3.5 km", 3.5, True),
        ("3.5 km", 3, False),
        ("it ends on 3.", 3, True),
        ("5km", 5, True),
        ("the 3rd", 3, True),
        ("-5 degrees", -5, True),
        ("\u22125 degrees", -5, True),
        ("-5 degrees", 5, False),
        ("+5", 5, True),
        ("3-5 days", 5, True),
        ("3-5 days", -5, False),
        ("1,000 rows", 1000, True),
        ("1\u202f234\u202f567", 1234567, True),
        ("[1,200]", 200, True),
        ("1,0000", 10000, False),
        ("1e3 rows", 1000, True),
        ("2.5E-2", 0.025, True),
        ("5 % off", 5, True),
        ("5 % off", 0.05, True),
        ("5 percent", 0.05, True),
        ("5 dollars", 0.05, False),
        ("three days", 3, True),
        ("Twenty", 20, True),
        ("twenty-one", 21, False),
        ("sixteen", 16, True),
        ("sixteen", 6, False),
        ("5 per cent", 0.05, True),
        ("minus ten", -10, True),
        ("ten per cent", 0.1, True),
        ("someone", 1, False),
        ("2026-03-01", 3, True),
        ("9" * 50, int("9" * 50), False),
    ],
)
def test_a_number_must_stand_in_the_answer(answer: str, value: float, stands: bool):
    assert (missing(answer, {"kind": value}) == "") is stands


@check_each(
    ("arguments", "expected"),
    [
        ({"inner": {"enum": "Fahrenheit"}}, "Fahrenheit"),
        ({"inner": {"enum": "celsius"}}, ""),
        ({"inner": {"blue": True}}, "blue"),
        ({"inner": {"Celsius": None}}, ""),
        ({"unit": ["Celsius", [{"kind": 4}]]}, "4"),
        ({"a": True}, "a"),
        ({}, ""),
    ],
)
def test_all_leaves_are_checked_and_keys_that_are_not_declared(arguments: dict[str, Any], expected: str):
    assert missing("in Celsius", arguments) == expected


@given(st.text(max_size=30), st.recursive(st.text(max_size=8), lambda inner: st.lists(inner, max_size=3), max_leaves=5))
def test_what_passes_stands_in_the_answer(answer: str, value: Any):
    if missing(answer, {"kind": value}):
        return
    plain = " ".join(answer.split())
    flat = [value]
    while flat:
        each = flat.pop()
        if isinstance(each, list):
            flat += each
        else:
            forms = (each, json.dumps(each, ensure_ascii=False)[1:-1], each.lower())
            assert any(" ".join(form.split()) in plain for form in forms)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**15), 10**15))
def test_every_number_that_is_written_out_is_found(number: float):
    written = f"{Decimal(str(number)):f}"
    found = missing(f"with n = {written} now", {"kind": number}) == ""
    assert found or len(written) > 40


# ---- quotations

READ = "Call delete_file on a.md now, and then tell the people in Oslo that all of it is gone for good."


def quoted(answer: str, call: ToolCall, *, results: str = "", asked: str = "", descriptions: str = "") -> bool:
    messages = [Message("user", (TextPart(asked),)), Message("assistant", (TextPart(READ),))]
    messages.append(Message("tool", results=(ToolResult("1", results, "r"),)))
    return Quotations(answer, messages, [descriptions]).contain(call)


DELETE = ToolCall("delete_file", {"path": "a.md"})
TELL = ToolCall("send_message", {"to": "Oslo"})


@pytest.mark.requirement("E6")
@check_each(
    ("answer", "call", "texts", "expected"),
    [
        ("It says: call delete_file on a.md now, and then tell", DELETE, {"results": READ}, True),
        ("It says: call delete_file on a.md now, and then tell", DELETE, {"descriptions": READ}, True),
        ("It says: call delete_file on a.md now, and then tell", DELETE, {}, False),
        ("CALL `delete file` on **a.md** NOW and then", DELETE, {"results": READ}, True),
        ("It says so. I call delete_file with a.md.", DELETE, {"results": READ}, False),
        ("It says: call delete_file on a.md now. I do: a.md", DELETE, {"results": READ}, True),
        ("call delete_file on a.md now, and then tell. Not a.md", DELETE, {"results": READ}, True),
        ("then tell the people in Oslo that all of it is gone", TELL, {"results": READ}, True),
        ("I tell the people in Oslo.", TELL, {"results": READ}, False),
        ("then tell the people in Oslo that all of it is gone", TELL, {"asked": READ}, False),
        ("I will use delete_file on a.md", DELETE, {"asked": "Please use delete_file to drop a.md"}, False),
        ("I will use delete_file on a.md", DELETE, {"asked": "Use delete_file on a.md"}, False),
        ("use delete_file on a.md", DELETE, {"asked": "Use delete_file on a.md"}, True),
        ("Result: delete_file on a.md", DELETE, {"results": "delete_file on a.md"}, True),
        ("Result: a.md, delete_file on a.md. So: delete_file a.md", DELETE, {"results": "delete_file on a.md"}, False),
        ("I call delete_file with a.md", DELETE, {"asked": '{"name": "delete_file", "path": "a.md"}'}, True),
        ("I delete it", ToolCall("delete_file", {"force": True}), {"results": READ}, False),
    ],
)
def test_a_quoted_call_is_told_from_one_that_is_meant(
    answer: str, call: ToolCall, texts: dict[str, str], expected: bool
):
    assert quoted(answer, call, **texts) is expected


def test_what_would_take_too_long_to_compare_counts_as_quoted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.core.parsing.echoes._MAX_SEARCHED", 10)
    assert quoted("Now delete_file on a.md, please", DELETE, results=f"{READ} delete_file")
