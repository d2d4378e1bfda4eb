"""Which parts of a value are final before it is complete: coercion never changes what has been streamed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import ArgumentSchema, ValueSchema
from toolspeak.core.schema.coercion import MAX_NUMBER_CHARS

pytestmark = pytest.mark.requirement("B11")

TEXT: dict[str, Any] = {"type": "string"}
SHORT: dict[str, Any] = {"type": "string", "maxLength": 3}
WHOLE: dict[str, Any] = {"type": "integer"}
NULL: dict[str, Any] = {"type": "null"}
LIST: dict[str, Any] = {"type": "array", "items": TEXT}
PAIR: dict[str, Any] = {"type": "object", "properties": {"a": TEXT, "n": WHOLE}, "required": ["a"]}
DEFS: dict[str, Any] = {
    "name": TEXT,
    "age": {"$ref": "#/$defs/whole"},
    "whole": WHOLE,
    "pair": PAIR,
    "loop": {"$ref": "#/$defs/loop"},
}


def value(schema: Any, **root: Any) -> ValueSchema:
    parameters = {"$defs": DEFS, "type": "object", "properties": {"it": schema}, **root}
    return ArgumentSchema.of(parameters).value.member("it")


FINAL: list[Any] = [
    TEXT,
    {"type": ["string"], "description": "d", "default": "x", "title": "T", "examples": ["a"], "x-order": 3},
    {"$ref": "#/$defs/name"},
    {"$ref": "#/$defs/name", "description": "d"},
    {"$ref": "#/$defs/name", "maxLength": 3},
    {},
    True,
    {"type": ["string", "null"]},
    {"type": ["string", "integer", "array"]},
    SHORT,
    {"type": ["string", "null"], "minLength": 1},
    {"type": "string", "pattern": "^a"},
    {"type": "string", "format": "date"},
    {"type": "string", "contentEncoding": "base64"},
    {"type": "string", "not": {"maxLength": 3}},
    {"anyOf": [TEXT]},
    {"anyOf": [TEXT, NULL]},
    {"anyOf": [WHOLE, LIST, TEXT]},
    {"anyOf": [{"enum": ["a", "b"]}, TEXT]},
    {"anyOf": [{"$ref": "#/$defs/name"}, NULL]},
    {"oneOf": [TEXT, NULL, LIST]},
    {"anyOf": [SHORT, {"type": "string", "pattern": "x"}]},
    {"allOf": [TEXT, {"minLength": 3}]},
    {"minLength": 3},
    False,
]
FINAL_IF_LONG: list[Any] = [
    {"anyOf": [SHORT, NULL]},
    {"anyOf": [SHORT, WHOLE, {"type": "boolean"}]},
    {"oneOf": [{"type": "string", "minLength": 3}, {"type": "number"}]},
    {"anyOf": [TEXT, NULL], "minLength": 3},
    {"anyOf": [TEXT, NULL], "oneOf": [{"minLength": 3}, {"maxLength": 1}]},
    {"anyOf": [TEXT], "oneOf": [WHOLE, NULL]},
    {"$ref": "#/$defs/age", "type": "string"},
]
NEVER_FINAL: list[Any] = [
    WHOLE,
    LIST,
    PAIR,
    {"type": "string", "enum": ["a"]},
    {"type": "string", "const": "a"},
    {"anyOf": [{"enum": ["a"]}, NULL]},
    {"anyOf": [SHORT, LIST]},
    {"anyOf": [SHORT, PAIR]},
    {"oneOf": [TEXT, {"enum": ["a"]}]},
    {"$ref": "#/$defs/age"},
]


@check_each(
    ("schema", "delay"),
    [
        *((schema, 0) for schema in FINAL),
        *((schema, MAX_NUMBER_CHARS) for schema in FINAL_IF_LONG),
        *((schema, None) for schema in NEVER_FINAL),
    ],
)
def test_a_text_is_final_once_nothing_can_change_it(schema: Any, delay: int | None):
    assert value(schema).text_delay == delay


def test_a_text_for_a_schema_that_refers_to_itself_is_final():
    assert value({"$ref": "#/$defs/loop"}).text_delay == 0


def test_every_schema_of_a_property_must_leave_its_text_alone():
    assert value(TEXT, patternProperties={"^i": {"enum": ["a"]}}).text_delay is None
    assert value({"anyOf": [SHORT, NULL]}, patternProperties={"^i": SHORT}).text_delay == MAX_NUMBER_CHARS


WORDS = ["", "null", " None ", "true", "12", "-1.5e3", "abc", "a", "x" * 80, "7" * 80, '["a"]', '{"a": "b"}', "1,2"]


@check_each("schema", [*FINAL, *FINAL_IF_LONG])
@check_each("text", WORDS)
def test_no_coercion_changes_a_text_that_is_final(schema: Any, text: str):
    place = value(schema)
    if place.text_delay is not None and len(text) >= place.text_delay:
        assert place.coerce(text)[0] == text


@given(st.sampled_from([*FINAL, *FINAL_IF_LONG]), st.text(max_size=100))
def test_no_text_that_is_final_changes(schema: Any, text: str):
    place = value(schema)
    if place.text_delay is not None and len(text.strip()) > place.text_delay:
        assert place.coerce(text)[0] == text


# ---- arrays and objects


@check_each(
    ("schema", "items", "members"),
    [
        ({}, True, True),
        (True, True, True),
        (False, False, False),
        (LIST, True, False),
        (PAIR, False, True),
        (TEXT, False, False),
        ({"type": ["array", "string"]}, True, False),
        ({"anyOf": [LIST, NULL], "default": None}, True, False),
        ({"anyOf": [PAIR, NULL]}, False, True),
        ({"$ref": "#/$defs/pair"}, False, True),
        ({"anyOf": [{"$ref": "#/$defs/pair"}, NULL], "title": "T"}, False, True),
        ({"allOf": [LIST]}, True, False),
        ({"allOf": [LIST], "maxItems": 3}, False, False),
        ({"anyOf": [LIST, TEXT]}, False, False),
        ({"anyOf": [LIST, PAIR]}, False, False),
        ({"type": "array", "anyOf": [{"maxItems": 1}, {"minItems": 3}]}, False, False),
        ({"enum": [["a"]]}, False, False),
        ({**PAIR, "patternProperties": {"^x": TEXT}}, False, False),
        ({**PAIR, "dependentRequired": {"n": ["a"]}}, False, False),
        ({"$ref": "#/$defs/loop"}, False, False),
    ],
)
def test_a_container_is_streamed_part_by_part_if_its_parts_are_judged_on_their_own(
    schema: Any, items: bool, members: bool
):
    assert (value(schema).streams_items, value(schema).streams_members) == (items, members)


def test_the_items_of_an_array_have_their_own_schemas():
    row = value({"type": "array", "prefixItems": [WHOLE], "items": {"enum": ["a"]}})
    assert [row.item(index).text_delay for index in range(3)] == [None, None, None]
    assert row.item(0).coerce("5", ("it", 0))[0] == 5
    assert row.item(1).coerce("A", ("it", 1))[0] == "a"
    assert row.item(1) is row.item(2)
    assert value({"type": "array"}).item(7).text_delay == 0


def test_the_properties_of_an_object_have_their_own_schemas():
    pair = value({"anyOf": [{"$ref": "#/$defs/pair"}, NULL]})
    assert pair.member("n").coerce("5", ("it", "n"))[0] == 5
    assert pair.member("a") is pair.member("a")
    assert pair.member("other").text_delay == 0
    assert pair.forbids("A")
    assert not pair.forbids("other")
    assert pair.drops_null("n")
    assert not pair.drops_null("a")


def test_names_that_a_model_makes_up_are_not_kept():
    open_object = ArgumentSchema.of({"type": "object", "additionalProperties": WHOLE}).value
    assert open_object.member("x").text_delay is None
    assert open_object.member("x") is not open_object.member("x")
