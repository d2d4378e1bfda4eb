"""Shapes as JSON schemas, plain and strict, and the way back from strict arguments."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import check_each, size
from tests.engine.enforced_schemas import PARAMETERS, values, without_lengths, without_nulls
from toolspeak import Tool, parse
from toolspeak.engine.constraints.schema_writer import plain, strict, strict_schema
from toolspeak.engine.constraints.shapes import Ledger, shape_of


def of(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


def written(schema: Any) -> tuple[Any, list[str]]:
    ledger = Ledger()
    return plain(shape_of(of(schema), "f", ledger), "f", ledger)["properties"]["a"], [
        note.detail for note in ledger.all()
    ]


PLAIN = [
    ({"type": "string", "minLength": 1, "maxLength": 9}, {"type": "string", "minLength": 1, "maxLength": 9}),
    ({"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"}, {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"}),
    ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
    ({"type": "integer", "minimum": 1, "exclusiveMaximum": 5}, {"type": "integer", "minimum": 1, "maximum": 4}),
    ({"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}, {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}),
    ({"type": "boolean"}, {"type": "boolean"}),
    ({"enum": [True]}, {"type": "boolean", "enum": [True]}),
    ({"enum": [False, False]}, {"type": "boolean", "enum": [False]}),
    ({"enum": [1, 1.0, True, 0, False]}, {"enum": [1, True, 0, False]}),
    ({"type": "null"}, {"type": "null"}),
    ({"const": "x", "description": "fixed"}, {"type": "string", "enum": ["x"], "description": "fixed"}),
    ({"enum": [1, "x"]}, {"enum": [1, "x"]}),
    ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ({"type": "array", "items": {"type": "null"}, "minItems": 1}, {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 256}),
    ({"type": "object", "additionalProperties": {"type": "null"}}, {"type": "object", "additionalProperties": {"type": "null"}}),
    ({"type": "object", "properties": {}}, {"type": "object", "properties": {}, "required": [], "additionalProperties": False}),
]  # fmt: skip


@check_each(("schema", "expected"), PLAIN, ids=str)
def test_plain_schemas_use_few_keywords(schema: Any, expected: Any):
    assert written(schema) == (expected, [])


LOOSENED = [
    ({"type": "string", "pattern": "a(?=b)"}, {"type": "string"}, "pattern"),
    ({"type": "string", "pattern": "^a(?=b)$"}, {"type": "string"}, "pattern"),
    ({"type": "string", "format": "uri"}, {"type": "string"}, "format"),
    ({"type": "string", "maxLength": 5000}, {"type": "string"}, "maxLength"),
    ({"type": "string", "minLength": 5000}, {"type": "string", "minLength": 1999}, "minLength"),
    (
        {"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": {"type": "null"}},
        {"type": "array", "items": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "maxItems": 256},
        "prefixItems",
    ),
    (
        {"type": "array", "prefixItems": [{"type": "null"}], "items": False},
        {"type": "array", "items": {"type": "null"}, "maxItems": 1},
        "prefixItems",
    ),
]


@check_each(("schema", "expected", "word"), LOOSENED, ids=str)
def test_what_not_every_engine_knows_is_left_out_with_a_note(schema: Any, expected: Any, word: str):
    assert written(schema) == (expected, [f"`{word}` of `f.a` is only validated afterwards"])


def test_anything_is_a_nest_of_bounded_depth():
    schema, _ = written({})
    assert jsonschema_rs.is_valid(schema, [{"k": [1, "x", None]}])
    assert not jsonschema_rs.is_valid(schema, [[[[]]]])


# ---- strict


WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "where", "maxLength": 80},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["c", "f"]},
        "note": {"type": ["string", "null"]},
    },
    "required": ["city"],
}


@pytest.mark.requirement("D3")
def test_strict_schemas_close_every_object_and_make_optional_properties_nullable():
    schema, notes = strict_schema(WEATHER)
    assert schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where"},
            "days": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "unit": {"anyOf": [{"type": "string", "enum": ["c", "f"]}, {"type": "null"}]},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["city", "days", "unit", "note"],
        "additionalProperties": False,
    }
    assert [note.detail for note in notes] == ["`maxLength` of `arguments.city` is only validated afterwards"]


@pytest.mark.requirement("D3")
@check_each(
    ("schema", "expected", "code"),
    [
        (of({"type": "object"}), {"type": "string", "description": "A JSON object, written as text."}, "object_as_text"),
        (of({}), {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]}, "value_narrowed"),
        (of({}, required=[]), {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]}, "value_narrowed"),
        (of({"type": "null"}, additionalProperties=True), {"type": "null"}, "keys_closed"),
        (of({"type": "string", "minLength": 1}), {"type": "string"}, "constraint_loosened"),
    ],
)  # fmt: skip
def test_what_strict_mode_lacks_is_noted(schema: Any, expected: Any, code: str):
    found, notes = strict_schema(schema)
    assert found["properties"]["a"] == expected
    assert [note.code for note in notes] == [code]


def nested(levels: int) -> Any:
    schema: Any = {"type": "null"}
    for _ in range(levels):
        schema = of(schema)
    return schema


LARGE = {"type": "object", "properties": {f"p{n}": {"enum": [f"{n}-{k}" for k in range(10)]} for n in range(101)}}


@pytest.mark.requirement("D3")
@check_each("schema", [None, {"type": "object"}, {"anyOf": [of({}), of({})]}, LARGE], ids=lambda each: str(each)[:30])
def test_a_schema_that_cannot_be_strict_comes_back_as_it_was(schema: Any):
    found, notes = strict_schema(schema)
    assert found is schema
    assert notes[-1].code == "not_strict"


def test_objects_below_ten_levels_and_objects_over_the_limits_become_text():
    schema, notes = strict_schema(nested(11))
    assert [note.code for note in notes] == ["object_as_text"]
    assert strict_schema(nested(10))[1] == ()
    schema, notes = strict_schema(
        {"type": "object", "properties": {"big": LARGE, "small": {"enum": ["x"]}}, "required": ["big"]}
    )
    assert schema["properties"]["big"]["type"] == "string"
    assert [note.detail for note in notes] == ["`arguments.big` is sent as a string that contains JSON"]


def test_names_and_properties_are_limited_too():
    names = {"type": "object", "properties": {"x" * 200 + str(n): {"type": "null"} for n in range(601)}}
    assert strict_schema(names)[1][-1].code == "not_strict"
    count = {"type": "object", "properties": {f"{n:02}": of({"type": "null"}) for n in range(99)}}
    assert strict_schema(count)[1] == ()


def test_the_frame_of_a_document_stays_an_object():
    ledger = Ledger()
    assert strict(shape_of(of(LARGE), "f", ledger), "f", ledger, levels=2) is None
    assert [note.code for note in ledger.all()] == ["not_strict"]


# ---- what is written under a strict schema


def optional(kind: str) -> Any:
    return {"type": "object", "properties": {"b": {"type": kind}}, "additionalProperties": False}


#: A schema, what a model writes under its strict form, and the arguments of the call.
READ: list[tuple[Any, Any, Any]] = [
    (WEATHER, {"city": "x", "days": None, "unit": None, "note": None}, {"city": "x", "note": None}),
    (of({"type": "object"}), {"a": '{"k": [1]}'}, {"a": {"k": [1]}}),
    (of({"type": "array", "items": of({"type": "string"}, required=[])}), {"a": [{"a": None}]}, {"a": [{}]}),
    (of({"type": "array", "items": of({"type": "null"}, required=[])}), {"a": [{"a": None}]}, {"a": [{"a": None}]}),
    (of({"anyOf": [{"type": "string"}, of({"type": "string"}, required=[])]}), {"a": {"a": None}}, {"a": {}}),
    (of({"anyOf": [{"anyOf": [optional("integer"), optional("string")]}, {"type": "array"}]}), {"a": {"b": None}}, {"a": {}}),
    (of({"anyOf": [{"type": "object"}, {"type": "null"}]}), {"a": "{}"}, {"a": {}}),
    (of({"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "object"}}]}), {"a": ["{}"]}, {"a": [{}]}),
    (
        of({"anyOf": [{"properties": {"k": {"const": kind}, "v": {"type": value}}, "required": ["k"]} for kind, value in (("x", ["string", "null"]), ("y", "string"))]}),
        {"a": {"k": "y", "v": None}},
        {"a": {"k": "y"}},
    ),
]  # fmt: skip


def read(parameters: Any, arguments: Any) -> list[Any]:
    """The arguments of the calls that an answer of these arguments holds."""
    document = json.dumps({"tools": [{"name": "f", "arguments": arguments}]})
    return [call.arguments for call in parse(document, [Tool("f", parameters=parameters)], dialect="decision").calls]


@pytest.mark.requirement("D3")
@check_each(("schema", "written", "expected"), READ)
def test_strict_arguments_are_read_as_the_schema_wants_them(schema: Any, written: Any, expected: Any):
    assert jsonschema_rs.is_valid(strict_schema(schema)[0], written)
    assert read(schema, written) == [expected]


@settings(max_examples=size(15, 60), deadline=None)
@given(st.data())
def test_what_fits_the_strict_schema_is_a_call_that_fits_the_real_one(data: st.DataObject):
    parameters = without_lengths(data.draw(PARAMETERS))
    schema, _ = strict_schema(parameters)
    written = data.draw(values(schema))
    assert [without_nulls(each) for each in read(parameters, written)] == [without_nulls(written)]
