"""Schemas of native tools, as a host wants them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import check_each, size
from tests.engine.enforced_schemas import PARAMETERS, values
from toolspeak.core.types import Note, Tool
from toolspeak.engine.constraints import native_tool_schemas as module
from toolspeak.engine.constraints.native_tool_schemas import TRANSFORMS, transform_tools


def of(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


def through(name: str, schema: Any) -> tuple[Any, list[str]]:
    (tool,), notes = transform_tools([Tool("f", parameters=schema)], name)
    return tool.parameters, [note.detail for note in notes]


GEMINI: list[tuple[Any, Any, list[str]]] = [
    ({"type": "string", "pattern": "^a$"}, {"type": "string"}, ["pattern"]),
    ({"type": "string", "minLength": 1, "maxLength": 5}, {"type": "string"}, ["maxLength", "minLength"]),
    ({"type": "number", "exclusiveMinimum": 0}, {"type": "number"}, ["exclusiveMinimum"]),
    ({"const": "x"}, {"type": "string", "enum": ["x"]}, []),
    ({"enum": [True]}, {"type": "boolean"}, ["enum"]),
    ({"enum": [None, "x"]}, {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}]}, []),
    ({"enum": ["a", 1, None, True, False]}, {"anyOf": [{"enum": ["a", 1]}, {"type": "boolean"}, {"type": "null"}]}, []),
    ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, {"type": "integer", "minimum": 2}, []),
    ({"allOf": [{"type": "array", "items": {}}]}, {"type": "array", "items": {}}, []),
    ({"allOf": [{"type": "array", "maxItems": 3, "items": {"type": "null"}}]}, {"type": "array", "items": {"type": "null"}, "maxItems": 3}, []),
]  # fmt: skip


@pytest.mark.requirement("D3")
@check_each(("schema", "expected", "lost"), GEMINI, ids=str)
def test_gemini_gets_the_keywords_that_it_documents(schema: Any, expected: Any, lost: list[str]):
    found, notes = through("gemini", of(schema))
    assert found["properties"]["a"] == expected
    assert sorted(notes) == [f"`f`: `{word}` of `arguments.a` is only validated afterwards" for word in lost]


TAKEN = [
    ("gemini", of({"type": "string", "enum": ["a"], "format": "date", "title": "A"}, propertyOrdering=["a"])),
    ("gemini", of({"$ref": "#/$defs/pattern"}, **{"$defs": {"pattern": {"anyOf": [{"type": "null"}, {"type": "array", "items": True}]}}})),
    ("plain", of({"type": "string", "pattern": "^a$", "default": {"x": 1}})),
    ("plain", of({"enum": [{"$ref": "x"}]})),
    ("", of({"$ref": "#/$defs/x"})),
]  # fmt: skip


@pytest.mark.requirement("D3")
@check_each(("name", "schema"), TAKEN, ids=str)
def test_what_a_host_takes_goes_as_it_came(name: str, schema: Any):
    tool = Tool("f", parameters=schema)
    found, notes = transform_tools([tool], name)
    assert found[0] is tool
    assert notes == ()


def test_plain_schemas_hold_no_references():
    schema = of({"$ref": "#/$defs/x"}, **{"$defs": {"x": {"type": "string", "minLength": 2}}})
    assert through("plain", schema) == (
        of({"type": "string", "minLength": 2}, additionalProperties=False),
        [],
    )


@pytest.mark.requirement("D3")
def test_strict_tools_say_so_and_others_do_not():
    tools = (Tool("f", parameters=of({"type": "null"}), extra={"x": 1}), Tool("g", parameters={"type": "object"}))
    (one, other), notes = transform_tools(tools, "openai_strict")
    assert one.parameters == of({"type": "null"}, additionalProperties=False)
    assert one.extra == {"x": 1, "strict": True}
    assert other is tools[1]
    assert [note.code for note in notes] == ["not_strict"]
    assert notes[0].detail.startswith("`g`: ")


def test_tools_without_a_schema_of_theirs_stay():
    tools = (Tool("f"), Tool("web", parameters={"allOf": []}, kind="web_search"))
    assert transform_tools(tools, "gemini") == (tools, ())


def test_a_schema_that_nobody_can_use_stays_with_a_note():
    tool = Tool("f", parameters={"const": object()})
    found, notes = transform_tools([tool], "gemini")
    assert found[0] is tool
    assert [note.code for note in notes] == ["not_transformed"]


def test_what_nobody_understands_is_not_sent():
    parameters = {"type": "object", "properties": {"a": {"$ref": "https://example.invalid/x"}}}
    (tool,), _ = transform_tools([Tool("f", parameters=parameters)], "plain")
    assert "example.invalid" not in str(tool.parameters)


def test_an_unknown_name_changes_nothing():
    tool = Tool("f", parameters=of({}))
    assert transform_tools([tool], "acme") == (
        (tool,),
        (Note("unknown_transform", "unknown transform `acme`; tools are sent unchanged"),),
    )


def test_equal_schemas_are_transformed_once_and_large_ones_are_not_kept():
    cached = module._transform_encoded.cache  # pyright: ignore[reportPrivateUsage]
    cached.clear()
    for _ in range(2):
        through("gemini", of({"const": "kept once"}))
        through("gemini", of({"const": "x", "description": "x" * 70_000}))
    assert len(cached) == 1


@pytest.mark.parametrize("name", sorted(TRANSFORMS.keys() - {"openai_strict"}))
@settings(max_examples=size(10, 40), deadline=None)
@given(data=st.data())
def test_what_fits_the_real_schema_fits_the_transformed_one(name: str, data: st.DataObject):
    parameters = data.draw(PARAMETERS)
    found, _ = through(name, parameters)
    value = data.draw(values(parameters))
    assert jsonschema_rs.is_valid(found, json.loads(json.dumps(value)))
