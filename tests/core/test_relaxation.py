"""Schemas that are not valid in draft 2020-12: what is understood holds, what is not constrains nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.schema.argument_schema import MAX_CHANGES, ArgumentSchema
from toolspeak.core.schema.relaxation import relax
from toolspeak.core.types import Note

pytestmark = pytest.mark.requirement("B5", "B15")

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
ANYTHING = ("x", 1, 1.5, True, None, [], {})

#: the schema of the property `a`; values that fit; values that do not
PROPERTIES: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "any": ({"type": "any"}, ANYTHING, ()),
    "an unknown type": ({"type": "strng"}, ANYTHING, ()),
    "no type": ({"type": None}, ANYTHING, ()),
    "a number as type": ({"type": 5}, ANYTHING, ()),
    "an empty list of types": ({"type": []}, ANYTHING, ()),
    "a list with an unknown type": ({"type": ["string", "file"]}, ANYTHING, ()),
    "capitals": ({"type": "STRING"}, ("x",), ([], None)),
    "int": ({"type": "int"}, (1,), ("x", 1.5)),
    "str": ({"type": "str"}, ("x",), ([],)),
    "float": ({"type": "float"}, (1, 1.5), ("x",)),
    "bool": ({"type": "bool"}, (True,), (3,)),
    "list": ({"type": "list", "items": {"type": "int"}}, ([1], []), (["x"],)),
    "dict": ({"type": "dict"}, ({},), (1, "x")),
    "a list of aliases": ({"type": ["str", "int", "string", "none"]}, ("x", 1, None), ([], True)),
    "an exclusive limit of draft 4": ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, (2,), (1,)),
    "an inclusive limit of draft 4": ({"maximum": 9, "exclusiveMaximum": False}, (9,), (10,)),
    "an exclusive limit of draft 6": ({"type": "int", "exclusiveMinimum": 1}, (2,), (1,)),
    "an exclusive limit without a limit": ({"exclusiveMaximum": True}, ANYTHING, ()),
    "a tuple": ({"items": [{"type": "string"}, {"type": "int"}]}, (["x", 1], ["x", 1, None]), ([1, 1],)),
    "a closed tuple": ({"items": [{"type": "string"}], "additionalItems": False}, (["x"],), (["x", 1],)),
    "a broken pattern": ({"type": "string", "pattern": "("}, ("x", ""), ([],)),
    "an explosive pattern": ({"pattern": "(a{1000}){1000}{1000}"}, ANYTHING, ()),
    "a broken pattern of names": (
        {"patternProperties": {"(": {"type": "int"}, "^n": {"type": "int"}}},
        ({"n": 1},),
        (),
    ),
    "options that are no list": ({"type": "string", "enum": "x"}, ("x", "y"), ([],)),
    "a negative length": ({"type": "string", "minLength": -1}, ("",), ([],)),
    "two faults in one keyword": ({"type": "string", "minLength": -1.5}, ("",), ([],)),
    "a fault in a list": ({"type": "object", "dependentRequired": {"x": [1], "y": ["z"]}}, ({"x": 1},), ({"y": 1},)),
    "required that is no list": ({"type": "object", "required": "n"}, ({}, {"n": 1}), ([],)),
    "required twice": ({"type": "object", "required": ["n", "n", 3]}, ({"n": 1},), ({},)),
    "no description": ({"type": "string", "description": None}, ("x",), ([],)),
    "a property that is no schema": ({"properties": {"n": "string", "m": False}}, ({"n": 1},), ({"m": 1},)),
    "properties that are no table": ({"type": "object", "properties": ["n"]}, ({"n": 1},), (3,)),
    "an alternative that is no schema": ({"anyOf": [{"type": "string"}, "integer"]}, ANYTHING, ()),
    "a reference to nothing": ({"$ref": "#/$defs/missing"}, ANYTHING, ()),
    "a reference to no schema": ({"$ref": "#/properties/a/$ref"}, ANYTHING, ()),
    "a reference into a list": ({"anyOf": [{"type": "str"}, {"$ref": "#/properties/a/anyOf/0"}]}, ("x",), ([],)),
    "a reference to another document": ({"$ref": "http://127.0.0.1:9/x.json"}, ANYTHING, ()),
    "a reference to no anchor": ({"$ref": "#nowhere"}, ANYTHING, ()),
    "a reference to an anchor": ({"$ref": "#n", "$defs": {"x": {"$anchor": "n", "type": "int"}}}, (1,), ("x",)),
    "an identifier that is no URI": ({"$id": "::bad", "type": "integer"}, (1,), ("x",)),
    "an old definition": ({"$ref": "#/definitions/n"}, (1,), ("x",)),
}


def of(schema: Any, **more: Any) -> ArgumentSchema:
    definitions = {"n": {"type": "INTEGER"}}
    return ArgumentSchema.of({"type": "object", "properties": {"a": schema}, "definitions": definitions, **more})


@check_each(("schema", "good", "bad"), PROPERTIES.values(), ids=PROPERTIES)
def test_what_is_understood_holds_and_the_rest_constrains_nothing(schema: Any, good: Any, bad: Any):
    compiled = of(schema)
    assert compiled.notes[0].code == "schema_relaxed"
    assert [value for value in good if not compiled.accepts({"a": value})] == []
    assert [value for value in bad if compiled.accepts({"a": value})] == []
    assert compiled.names == ("a",)


NULLABLE = [
    ({"type": "string", "nullable": True}, (None, "x"), (1.5,)),
    ({"type": "null", "nullable": True}, (None,), ("x",)),
    ({"enum": ["x"], "nullable": True}, (None, "x"), ("y",)),
    ({"$ref": "#/$defs/n", "nullable": True}, (None, 1), ("x",)),
    ({"nullable": True}, ANYTHING, ()),
    ({"type": "string", "nullable": False}, ("x",), (None,)),
]


@check_each(("schema", "good", "bad"), NULLABLE)
def test_nullable_is_understood_and_needs_no_note(schema: Any, good: Any, bad: Any):
    compiled = ArgumentSchema.of({"properties": {"a": schema}, "$defs": {"n": {"type": "integer"}}, "nullable": True})
    assert compiled.notes == ()
    assert [value for value in good if not compiled.accepts({"a": value})] == []
    assert [value for value in bad if compiled.accepts({"a": value})] == []


def test_a_property_may_say_itself_that_it_is_required():
    schema = ArgumentSchema.of(
        {"required": ["c"], "properties": {"a": {"required": True}, "b": {"required": False}, "c": {"type": "string"}}}
    )
    assert schema.problems({}) == ("`a` is required", "`c` is required")
    assert schema.notes == (Note("schema_relaxed", "not valid in draft 2020-12, translated or ignored: `properties`"),)


def test_dependencies_of_old_drafts_hold():
    schema = ArgumentSchema.of({"dependencies": {"a": ["b"], "b": {"required": ["c"]}, "c": 3}})
    assert [schema.accepts(dict.fromkeys(keys, 1)) for keys in ("", "a", "ab", "abc", "c")] == [
        True,
        False,
        False,
        True,
        True,
    ]
    assert ArgumentSchema.of({"dependencies": 3}).accepts({"a": 1})


def test_a_declared_draft_is_used_as_long_as_the_schema_is_valid_in_it():
    valid = ArgumentSchema.of({"$schema": DRAFT_4, "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}})
    assert (valid.notes, valid.accepts({"a": 1}), valid.accepts({"a": 2})) == ((), False, True)
    invalid = ArgumentSchema.of(
        {
            "$schema": DRAFT_4,
            "id": "x",
            "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}, "b": {"type": "any"}},
        }
    )
    assert (invalid.accepts({"a": 1}), invalid.accepts({"a": 2, "b": 3})) == (False, True)
    unknown = ArgumentSchema.of({"$schema": "https://example.com/mine", "properties": {"a": {"type": "integer"}}})
    assert not unknown.accepts({"a": "x"})


def test_a_schema_that_stays_unusable_keeps_the_names_of_its_properties():
    schema = ArgumentSchema.of({"properties": {"a": {"type": "integer"}}, "then": {"$ref": "#/%FF"}, "ÿ": {}})
    assert (schema.names, schema.accepts({"a": "x"})) == (("a",), True)
    assert schema.notes[0].detail.endswith("`parameters`")
    assert ArgumentSchema.of({"then": {"$ref": "#/%FF"}, "ÿ": {}}).accepts({"a": "x"})


def test_a_note_names_the_first_places():
    schema = ArgumentSchema.of({"properties": {f"p{n}": {"type": "any"} for n in range(MAX_CHANGES + 2)}})
    assert "`properties.p0.type`" in schema.notes[0].detail
    assert schema.notes[0].detail.endswith("`properties.p4.type` and 2 more")


def test_the_schema_of_the_caller_is_not_changed():
    parameters = {"properties": {"a": {"type": "any", "items": [{"type": "int"}]}}, "required": True}
    before = json.dumps(parameters)
    relax(parameters)
    assert json.dumps(parameters) == before


KEYWORDS = st.sampled_from(
    "type properties required items enum const pattern $ref anyOf nullable dependencies exclusiveMinimum minimum "
    "patternProperties $defs additionalProperties format $anchor $schema $id then not minLength".split()
)
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from(["string", "int", "any", "#/$defs/a", "#a", "a", "("]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | st.sampled_from("ab"), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYWORDS, ODD, max_size=5))
def test_every_object_is_a_schema_that_can_be_used(parameters: dict[str, Any]):
    schema = ArgumentSchema.of(parameters)
    for arguments in ({}, {"a": 1, "b": "x"}):
        assert schema.accepts(arguments) == (not schema.problems(arguments))
        schema.coerce(arguments)
