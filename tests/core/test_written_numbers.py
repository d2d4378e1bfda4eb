"""Numbers where the schema wants a string: the text stays as the model wrote it, or the call is doubtful."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import check_each
from toolspeak import Reply, Scanner, Tool, fold, parse
from toolspeak.core.types import JSONValue

pytestmark = pytest.mark.requirement("B4", "B5")

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
NULLABLE = {"anyOf": [{"type": "object", "properties": {"q": TEXT}}, {"type": "null"}]}


def read(value: str, schema: Any, side_effects: bool = True, **more: Any) -> Reply:
    """What is read from a call whose argument `v` is written like this."""
    parameters = {"type": "object", "properties": {"v": schema}, **more}
    tool = Tool("ship", parameters=parameters, side_effects=side_effects)
    text = f'<tool_call>{{"name": "ship", "arguments": {{"v": {value}}}}}</tool_call>'
    whole = parse(text, [tool])
    scanner = Scanner([tool])
    pieces = fold([*(event for letter in text for event in scanner.feed(letter)), *scanner.close()])
    assert [call.arguments for call in pieces.calls] == [call.arguments for call in whole.calls]
    return whole


def codes(reply: Reply) -> set[str]:
    return {note.code for candidate in reply.candidates for note in candidate.notes}


@check_each("written", ["02134", "-007", "00", "+4915", "1_000", ".5", "5.", "1e3", "1.10", "1.0", "0x10", "12", "1e"])
def test_a_string_keeps_the_text_of_a_number(written: str):
    for value, schema, expected in (
        (written, TEXT, written),
        (f"[{written}, {written}]", {"type": "array", "items": TEXT}, [written] * 2),
        (f'{{"q": {written}}}', {"type": "object", "properties": {"q": TEXT}}, {"q": written}),
        (f'{{"q": {written}}}', NULLABLE, {"q": written}),
    ):
        assert [call.arguments for call in read(value, schema).calls] == [{"v": expected}]


@check_each(
    ("written", "value"), [("+5", 5), ("1_000", 1000), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("1.10", 1.1)]
)
def test_a_number_has_the_same_value_in_every_spelling(written: str, value: JSONValue):
    assert [call.arguments for call in read(written, NUMBER).calls] == [{"v": value}]


def test_leading_zeros_of_a_number_are_doubtful():
    reply = read("02134", NUMBER)
    assert (reply.calls, codes(reply) >= {"leading_zeros", "unsafe_repair"}) == ((), True)
    assert [call.arguments for call in read("02134", NUMBER, side_effects=False).calls] == [{"v": 2134}]
    assert [call.arguments for call in read("02134", {}).calls] == [{"v": "02134"}]


@check_each(
    ("value", "schema", "more"),
    [
        ("+4915", TEXT, {"anyOf": [{"required": ["v"]}]}),
        ("1.10", TEXT, {"anyOf": [{"required": ["v"]}]}),
        ("1.10", {"type": "array", "items": TEXT}, {}),
        ("+4915", {"type": "array", "items": TEXT}, {}),
        ("[null, 1.10]", {"type": "array", "items": TEXT}, {}),
        ("[null, +4915]", {"type": "array", "items": TEXT}, {}),
        (
            '{"q": {"V": 1.10}}',
            {"type": "object", "properties": {"q": {"properties": {"v": TEXT}, "required": ["v"]}}},
            {},
        ),
    ],
)
def test_where_the_text_of_a_number_is_lost_the_call_is_doubtful(value: str, schema: Any, more: Any):
    reply = read(value, schema, **more)
    assert (reply.calls, codes(reply) >= {"spelling_lost", "unsafe_repair"}) == ((), True)


@check_each("value", ["1.5", "12", "true"])
def test_a_number_with_its_usual_text_is_not_doubtful(value: str):
    for schema in (TEXT, {"type": "array", "items": TEXT}):
        assert read(value, schema).calls
    assert read(value, TEXT, anyOf=[{"required": ["v"]}]).calls
