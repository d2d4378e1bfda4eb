"""Shapes as JSON schemas, plain and strict, and the way back from strict arguments."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.enforcing import PARAMETERS, values
from toolspeak.core.schema import ArgumentSchema
from toolspeak.core.shapes import Ledger, shape_of
from toolspeak.core.strict import plain, strict, strict_schema, unstrict


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


@pytest.mark.parametrize(("schema", "expected"), PLAIN, ids=str)
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


@pytest.mark.parametrize(("schema", "expected", "word"), LOOSENED, ids=str)
def test_what_not_every_engine_knows_is_left_out_with_a_note(schema: Any, expected: Any, word: str):
    assert written(schema) == (expected, [f"`{word}` of `f.a` is checked afterwards"])


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
    assert [note.detail for note in notes] == ["`maxLength` of `arguments.city` is checked afterwards"]


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
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
@pytest.mark.parametrize(
    "schema", [None, {"type": "object"}, {"anyOf": [of({}), of({})]}, LARGE], ids=lambda each: str(each)[:30]
)
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
    assert [note.detail for note in notes] == ["`arguments.big` is written as JSON in a string"]


def test_names_and_properties_are_limited_too():
    names = {"type": "object", "properties": {"x" * 200 + str(n): {"type": "null"} for n in range(601)}}
    assert strict_schema(names)[1][-1].code == "not_strict"
    count = {"type": "object", "properties": {f"{n:02}": of({"type": "null"}) for n in range(99)}}
    assert strict_schema(count)[1] == ()


def test_the_frame_of_a_document_stays_an_object():
    ledger = Ledger()
    assert strict(shape_of(of(LARGE), "f", ledger), "f", ledger, levels=2) is None
    assert [note.code for note in ledger.all()] == ["not_strict"]


RESTORED: list[tuple[Any, Any, Any]] = [
    (WEATHER, {"city": "x", "days": None, "unit": None, "note": None}, {"city": "x", "note": None}),
    (WEATHER, {"city": None, "extra": None}, {"city": None, "extra": None}),
    (WEATHER, "not an object", "not an object"),
    (of({"type": "object"}), {"a": '{"k": [1]}'}, {"a": {"k": [1]}}),
    (of({"type": "object"}), {"a": "[1]"}, {"a": "[1]"}),
    (of({"type": "array", "items": of({"type": "null"}, required=[])}), {"a": [{"a": None}, 5]}, {"a": [{"a": None}, 5]}),
    (of({"type": "array", "items": of({"type": "string"}, required=[])}), {"a": [{"a": None}]}, {"a": [{}]}),
    (of({"type": "array", "prefixItems": [{"type": "object"}]}), {"a": ["{}", "{}"]}, {"a": [{}, "{}"]}),
    (of({"type": "array"}), {"a": "text"}, {"a": "text"}),
    (of({"anyOf": [{"type": "string"}, of({"type": "string"}, required=[])]}), {"a": {"a": None}}, {"a": {}}),
    (of({"anyOf": [{"type": "object"}, {"type": "null"}]}), {"a": "{}"}, {"a": {}}),
    (of({"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "object"}}]}), {"a": ["{}"]}, {"a": [{}]}),
    (
        of({"anyOf": [{"properties": {"k": {"const": kind}, "v": {"type": value}}, "required": ["k"]} for kind, value in (("x", ["string", "null"]), ("y", "string"))]}),
        {"a": {"k": "y", "v": None}},
        {"a": {"k": "y"}},
    ),
    (of({"anyOf": [{"properties": {"k": {}}, "additionalProperties": True}, {"type": "null"}]}), {"a": {"z": 1}}, {"a": {"z": 1}}),
]  # fmt: skip


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(("schema", "given_", "expected"), RESTORED)
def test_strict_arguments_are_restored(schema: Any, given_: Any, expected: Any):
    assert unstrict(given_, schema) == expected
    assert unstrict(expected, schema) == expected


def without_lengths(schema: Any) -> Any:
    """The schema without the bounds that strict mode lacks: they are checked afterwards. No name is such a word."""
    if isinstance(schema, list):
        return [without_lengths(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_lengths(value) for key, value in schema.items() if key not in ("minLength", "maxLength")}


def an_object(name: str, inner: Any) -> Any:
    return {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": False}


def optional(kind: str) -> Any:
    return {"type": "object", "properties": {"b": {"type": kind}}, "additionalProperties": False}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_fits_the_strict_schema_fits_the_real_one_when_restored(data: st.DataObject):
    parameters = data.draw(PARAMETERS)
    schema, _ = strict_schema(parameters)
    fits_when_restored(parameters, data.draw(values(schema)))


def fits_when_restored(parameters: Any, written: Any) -> None:
    arguments = unstrict(written, parameters)
    assert ArgumentSchema.of(without_lengths(parameters)).problems(arguments) == ()
    assert unstrict(arguments, parameters) == arguments


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"anyOf": [{"enum": [False, False]}]}, False),
        ({"anyOf": [{"type": "string", "minLength": 1}, {"enum": [0, 1, None]}]}, ""),
        ({"anyOf": [{"type": "string", "minLength": 3}, of({"type": "object"})]}, ""),
        ({"anyOf": [{"anyOf": [optional("integer"), optional("string")]}, {"type": "array"}]}, {"b": None}),
        ({"anyOf": [an_object("b", {"type": "string", "minLength": 1}), of({"type": "string"})]}, {"b": ""}),
    ],
)
def test_what_was_once_written_under_a_strict_schema_fits_the_real_one_when_restored(schema: Any, value: Any):
    parameters = an_object("a", schema)
    assert jsonschema_rs.is_valid(strict_schema(parameters)[0], {"a": value})
    fits_when_restored(parameters, {"a": value})
