"""Aligning: what a model wrote almost right is read as it was meant, and everything else is left alone."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.time_growth import assert_linear
from toolspeak.core.schema import json_values
from toolspeak.core.schema.argument_schema import ArgumentSchema

pytestmark = pytest.mark.requirement("B5")

DRAFT_4 = "http://json-schema.org/draft-04/schema#"

WHOLE = {"type": "integer"}
NUMBER = {"type": "number"}
TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
NOTHING = {"type": "null"}
MAYBE_WHOLE = {"anyOf": [WHOLE, NOTHING]}


def texts(**more: Any) -> dict[str, Any]:
    return {"type": "array", "items": TEXT, **more}


def numbers(**more: Any) -> dict[str, Any]:
    return {"type": "array", "items": NUMBER, **more}


def closed(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def exact(value: Any) -> str:
    """The value with its types: 1, 1.0 and true differ here, as they do in JSON."""
    return json.dumps(value)


def codes(coerced: Any) -> list[str]:
    return [note.code for note in coerced.notes]


def coerce_one(schema: Any, value: Any) -> Any:
    return ArgumentSchema.of({"type": "object", "properties": {"it": schema}}).coerce({"it": value})


READ = [
    # numbers in strings
    (WHOLE, "42", 42, "string_to_number"),
    (WHOLE, " -7\n", -7, "string_to_number"),
    (WHOLE, "+7", 7, "string_to_number"),
    (WHOLE, "007", 7, "string_to_number"),
    (WHOLE, "3.0", 3, "string_to_number"),
    (WHOLE, "1e3", 1000, "string_to_number"),
    (WHOLE, "12345678901234567890123", 12345678901234567890123, "string_to_number"),
    (NUMBER, "1.23e3", 1230.0, "string_to_number"),
    (NUMBER, "42", 42, "string_to_number"),
    (NUMBER, ".5", 0.5, "string_to_number"),
    ({"type": ["number", "null"]}, "5", 5, "string_to_number"),
    ({"enum": [1, 2, 3]}, "2", 2, "string_to_number"),
    # booleans, null
    (FLAG, "true", True, "string_to_boolean"),
    (FLAG, " FALSE ", False, "string_to_boolean"),
    (FLAG, "yes", True, "string_to_boolean"),
    (FLAG, "NO", False, "string_to_boolean"),
    (NOTHING, "null", None, "string_to_null"),
    ({"type": ["integer", "null"]}, "None", None, "string_to_null"),
    (MAYBE_WHOLE, "null", None, "string_to_null"),
    (MAYBE_WHOLE, "8", 8, "string_to_number"),
    # texts
    (TEXT, 42, "42", "number_to_string"),
    (TEXT, 1.5, "1.5", "number_to_string"),
    (TEXT, True, "true", "number_to_string"),
    ({"type": ["string", "null"]}, 42, "42", "number_to_string"),
    ({"type": ["string", "array"]}, 42, "42", "number_to_string"),
    ({"enum": ["1", "2"]}, 2, "2", "number_to_string"),
    # JSON in a string
    (closed(a=WHOLE), '{"a": 1}', {"a": 1}, "json_in_string"),
    (texts(), ' ["x", "y"] ', ["x", "y"], "json_in_string"),
    ({"type": "object"}, '"{\\"a\\": 1}"', {"a": 1}, "json_in_string json_in_string"),
    (closed(a=WHOLE), '{"a": "1"}', {"a": 1}, "json_in_string string_to_number"),
    ({"type": "array", "items": {"type": "object"}}, '{"a": 1}', [{"a": 1}], "json_in_string single_to_array"),
    # a text for an array
    (numbers(), "1, 2, 3", [1, 2, 3], "text_to_array" + 3 * " string_to_number"),
    (numbers(), "10\n20\n\n 30", [10, 20, 30], "text_to_array" + 3 * " string_to_number"),
    (numbers(), "5", [5], "text_to_array string_to_number"),
    ({"type": "array", "items": FLAG}, "true\nfalse", [True, False], "text_to_array" + 2 * " string_to_boolean"),
    (texts(), "echo hi", ["echo hi"], "text_to_array"),
    (texts(), "a, b", ["a, b"], "text_to_array"),
    (texts(), "first\nsecond", ["first\nsecond"], "text_to_array"),
    ({"type": "array"}, "1\n2", ["1\n2"], "text_to_array"),
    (texts(), "", [], "text_to_array"),
    (texts(), '{"a": 1}', ['{"a": 1}'], "text_to_array"),
    (texts(), "[broken", ["[broken"], "text_to_array"),
    # arrays and single values
    (texts(), 5, ["5"], "single_to_array number_to_string"),
    (numbers(), 5, [5], "single_to_array"),
    ({"type": "array", "items": {"type": "object"}}, {"a": 1}, [{"a": 1}], "single_to_array"),
    (TEXT, ["x"], "x", "array_of_one"),
    (WHOLE, ["4"], 4, "array_of_one string_to_number"),
    ({"type": "object"}, [{"a": 1}], {"a": 1}, "array_of_one"),
    # options
    ({"enum": ["celsius", "kelvin"]}, "Celsius", "celsius", "enum_case"),
    ({"enum": ["north-west", "north-east"]}, " north_west ", "north-west", "enum_case"),
    ({"const": "READ_ONLY"}, "read only", "READ_ONLY", "enum_case"),
    ({"enum": ["auto", 1, 2]}, "2", 2, "enum_case"),
    ({"enum": ["auto", True, None]}, "True", True, "enum_case"),
    ({"enum": ["name", "-name"]}, "-Name", "-name", "enum_case"),
    # objects that wrap
    (texts(), {"0": "a", "1": "b"}, ["a", "b"], "indexed_object"),
    (texts(), {"1": "b", "0": "a"}, ["a", "b"], "indexed_object"),
    (texts(), {"item": ["a", "b"]}, ["a", "b"], "indexed_object"),
    (texts(), {"command": ["a", "b"]}, ["a", "b"], "indexed_object"),
    (texts(), {"item": "a"}, ["a"], "indexed_object"),
    (numbers(), {"entry": "1"}, [1], "indexed_object string_to_number"),
    (TEXT, {"value": "a"}, "a", "indexed_object"),
    ({"type": "array", "items": {"type": "object"}}, {"tags": [1]}, [{"tags": [1]}], "single_to_array"),
    ({"type": "array", "items": {"type": "object"}}, {"a": 1, "b": 2}, [{"a": 1, "b": 2}], "single_to_array"),
    # keys
    (closed(targetLanguage=TEXT), {"target_language": "fr"}, {"targetLanguage": "fr"}, "key_spelling"),
    (closed(target_id=WHOLE), {"Target-ID": "5"}, {"target_id": 5}, "key_spelling string_to_number"),
    ({"properties": {"filePath": {}}, "required": ["filePath"]}, {"file_path": "x"}, {"filePath": "x"}, "key_spelling"),
    (closed(a=TEXT), {"a": "x", "debug": 1}, {"a": "x"}, "unknown_dropped"),
    (closed(a=TEXT), {"a": "x", "A": "y"}, {"a": "x"}, "unknown_dropped"),
    ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}]}, {"a": 1, "b": 2}, {"a": 1}, "unknown_dropped"),
    ({"properties": {"secret": False}}, {"a": 1, "secret": 2}, {"a": 1}, "unknown_dropped"),
    ({"patternProperties": {"^x-": False}}, {"a": 1, "x-b": 2}, {"a": 1}, "unknown_dropped"),
    ({"additionalProperties": NUMBER}, {"a": "1"}, {"a": 1}, "string_to_number"),
    ({"patternProperties": {"^x-": NUMBER}}, {"x-a": "1", "b": "2"}, {"x-a": 1, "b": "2"}, "string_to_number"),
    ({"patternProperties": {"^x-": {}}, "additionalProperties": False}, {"x-a": "1", "b": "2"}, {"x-a": "1"}, "unknown_dropped"),
    # parts of a schema
    ({"allOf": [WHOLE, {"minimum": 3}]}, "5", 5, "string_to_number"),
    ({"allOf": [{"properties": {"a": WHOLE}}, {"properties": {"b": FLAG}}]}, {"a": "1", "b": "true"}, {"a": 1, "b": True}, "string_to_number string_to_boolean"),
    ({"type": "array", "prefixItems": [WHOLE, FLAG], "items": NUMBER}, ["1", "true", "2.5"], [1, True, 2.5], "string_to_number string_to_boolean string_to_number"),
    ({"oneOf": [closed(("a",), a=WHOLE), TEXT]}, {"a": "1"}, {"a": 1}, "string_to_number"),
    ({"anyOf": [{"const": "x"}, {"type": "array", "items": WHOLE}]}, ["1"], [1], "string_to_number"),
    ({"oneOf": [closed(("k", "n"), k={"const": "a"}, n=WHOLE), closed(("k", "n"), k={"const": "b"}, n=FLAG)]}, {"k": "b", "n": "true"}, {"k": "b", "n": True}, "string_to_boolean"),
    ({"anyOf": [closed(("a",), a=TEXT), closed(("b",), b=TEXT)]}, {"a": "x", "stray": 1}, {"a": "x"}, "unknown_dropped"),
    ({"oneOf": [closed(("k", "a"), k={"const": "a"}, a={}), closed(("k", "b"), k={"const": "b"}, b={})]}, {"k": "b", "a": 1, "b": 2}, {"k": "b", "b": 2}, "unknown_dropped"),
    (TEXT, {"a": ["é", None]}, '{"a": ["é", null]}', "object_to_string"),
    (TEXT, {"value": "a", "more": 1}, '{"value": "a", "more": 1}', "object_to_string"),
]  # fmt: skip


@check_each(("schema", "value", "expected", "how"), READ)
def test_what_was_written_almost_right_is_read_as_it_was_meant(schema: Any, value: Any, expected: Any, how: str):
    coerced = coerce_one(schema, value)
    assert exact(coerced.value) == exact({"it": expected})
    assert codes(coerced) == how.split()
    assert coerced.problems == ()
    assert all(note.detail.startswith("`it") for note in coerced.notes)


LEFT = [
    (WHOLE, "4.5"),
    (WHOLE, "1,000"),
    (WHOLE, "0x10"),
    (WHOLE, "1e400"),
    (WHOLE, "1e30"),
    (WHOLE, "9" * 65),
    (WHOLE, "٣"),
    (NUMBER, "NaN"),
    (NUMBER, "Infinity"),
    (NUMBER, "1e999"),
    (NUMBER, ""),
    (NUMBER, True),
    (FLAG, "on"),
    (FLAG, "y"),
    (FLAG, 1),
    (NOTHING, "nil"),
    (NOTHING, 0),
    (TEXT, ["a", "b"]),
    (TEXT, []),
    (texts(), {"a": {"b": 1}}),
    (texts(), [{"a": "b"}]),
    (TEXT, {}),
    (closed(("a",), a=TEXT), {"a": None}),
    ({"allOf": [{"properties": {"a": TEXT}}, {"required": ["a"]}]}, {"a": None}),
    ({"additionalProperties": TEXT}, {"a": None}),
    (numbers(), "1, two"),
    (numbers(), "one"),
    (numbers(), "1\ntwo"),
    (numbers(), {"0": 1, "2": 2}),
    (texts(minItems=2), ["a"]),
    (texts(minItems=1), " "),
    ({"type": "object"}, "[1"),
    ({"type": "object"}, "text"),
    ({"type": "object"}, "5"),
    ({"type": "object"}, '"text"'),
    ({"type": "object"}, "[" * 2000 + "]" * 2000),
    ({"type": "object"}, '{"a": ' + "[" * 70 + "]" * 70 + "}"),
    ({"type": ["object", "array"], "maxProperties": 0, "maxItems": 0}, {"a": 1}),
    ({"enum": ["a-b", "a_b"]}, "a b"),
    ({"enum": ["-1"]}, "1"),
    ({"enum": ["a"], "not": {"const": "a"}}, "a"),
    (closed(ab=TEXT), {"a_b": "x", "a-b": "y"}),
    (closed(a_b=TEXT, ab=TEXT), {"A-B": "x"}),
    ({"anyOf": [closed(("a",), a=TEXT), closed(("b",), b=TEXT)]}, {"a": "x", "b": "y"}),
    ({"allOf": [closed(a={}), closed(b={})]}, {"a": 1, "b": 2}),
    ({"oneOf": [WHOLE, NUMBER]}, 5),
    ({"minimum": 5}, 3),
]


@check_each(("schema", "value"), LEFT)
def test_what_is_not_clear_is_left_alone_and_reported(schema: Any, value: Any):
    coerced = coerce_one(schema, value)
    assert exact(coerced.value) == exact({"it": value})
    assert coerced.notes == ()
    assert coerced.problems


LEFT_OUT = [
    ({"it": TEXT}, {"it": None}, {}),
    ({"it": texts(), "a": WHOLE}, {"it": None, "a": "1"}, {"a": 1}),
    ({"it": closed(a=TEXT)}, {"it": {"a": None}}, {"it": {}}),
    ({"it": {"allOf": [{"properties": {"a": TEXT}}]}}, {"it": {"a": None}}, {"it": {}}),
    ({"it": {"anyOf": [closed(("b",), a=TEXT, b=TEXT), NOTHING]}}, {"it": {"a": None, "b": "x"}}, {"it": {"b": "x"}}),
    ({"it": MAYBE_WHOLE, "a": TEXT}, {"it": None, "a": None}, {"it": None}),
]


@pytest.mark.requirement("B5")
@check_each(("properties", "value", "expected"), LEFT_OUT)
def test_null_for_what_may_be_left_out_is_left_out(properties: Any, value: Any, expected: Any):
    schema = ArgumentSchema.of({"type": "object", "properties": properties})
    coerced = schema.coerce(value)
    assert exact(coerced.value) == exact(expected)
    assert "null_dropped" in codes(coerced)
    assert coerced.problems == ()
    assert schema.coerce(coerced.value).notes == ()


VALID = [
    (TEXT, "42"),
    (TEXT, "null"),
    ({"type": ["string", "null"]}, "null"),
    ({"type": ["string", "integer"]}, "42"),
    (WHOLE, 3.0),
    ({"type": ["array", "string"], "items": WHOLE}, "[1]"),
    ({"enum": ["a", "A"]}, "A"),
    ({"type": "object", "properties": {"filePath": TEXT}}, {"file_path": "x", "more": 1}),
    ({"properties": {"a": {}}, "additionalProperties": True}, {"b": 1}),
    ({}, "anything"),
]


@check_each(("schema", "value"), VALID)
def test_what_is_valid_is_never_touched(schema: Any, value: Any):
    arguments = {"it": value}
    coerced = ArgumentSchema.of({"type": "object", "properties": {"it": schema}}).coerce(arguments)
    assert coerced.value is arguments
    assert coerced.notes == coerced.problems == ()


PART = [
    (WHOLE | {"maximum": 3}, "150", 150, "`it` breaks `maximum` 3"),
    ({"enum": [1, 2]}, "5", 5, "`it` must be one of 1, 2"),
    ({"enum": [5]}, "-5", -5, "`it` must be 5"),
    (closed(("b",), a=WHOLE), '{"a": "1"}', {"a": 1}, "`it.b` is required"),
    (closed(("b",), a=WHOLE), {"a": "1"}, {"a": 1}, "`it.b` is required"),
    ({"anyOf": [closed(("b",), a=WHOLE), NOTHING]}, {"a": "1"}, {"a": 1}, "`it.b` is required"),
    ({"anyOf": [closed(("b",), a=WHOLE), NOTHING]}, '{"a": 1}', {"a": 1}, "`it.b` is required"),
    (numbers(maxItems=1), ["1", "2"], [1, 2], "`it` breaks `maxItems` 1"),
]


@check_each(("schema", "value", "expected", "problem"), PART)
def test_what_can_be_read_is_read_so_that_only_the_real_problem_is_told(
    schema: Any, value: Any, expected: Any, problem: str
):
    coerced = coerce_one(schema, value)
    assert exact(coerced.value) == exact({"it": expected})
    assert coerced.notes
    assert coerced.problems == (problem,)


def test_a_whole_number_loses_its_fraction_where_the_draft_wants_that():
    schema = ArgumentSchema.of({"$schema": DRAFT_4, "type": "object", "properties": {"n": WHOLE}})
    coerced = schema.coerce({"n": 3.0})
    assert exact(coerced.value) == exact({"n": 3})
    assert codes(coerced) == ["integral_float"]
    assert schema.coerce({"n": 3.5}).problems == ("`n` must be integer, not number",)
    assert schema.coerce({"n": 1e300}).value == {"n": 1e300}


def test_an_older_array_of_items_is_aligned_place_by_place():
    schema = ArgumentSchema.of(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"l": {"items": [WHOLE], "additionalItems": FLAG}, "m": {"items": [WHOLE]}},
        }
    )
    assert exact(schema.coerce({"l": ["1", "true"], "m": ["1", "2"]}).value) == exact({"l": [1, True], "m": [1, "2"]})


# ---------------------------------------------------------------------------------------------- the root


@check_each("parameters", [None, True, {}, {"type": "object"}, {"properties": {"a": WHOLE}}])
@check_each(
    ("arguments", "expected", "how"),
    [
        ('{"a": 1}', {"a": 1}, "json_in_string"),
        ('"{\\"a\\": 1}"', {"a": 1}, "json_in_string json_in_string"),
        ([{"a": 1}], {"a": 1}, "array_of_one"),
        (None, {}, "null_arguments"),
        ("  ", {}, "null_arguments"),
    ],
)
def test_arguments_become_an_object_where_nothing_else_is_asked_for(
    parameters: Any, arguments: Any, expected: Any, how: str
):
    coerced = ArgumentSchema.of(parameters).coerce(arguments)
    assert coerced.value == expected
    assert codes(coerced) == how.split()
    assert coerced.notes[0].detail.startswith("`arguments`")
    assert coerced.problems == ()


@check_each("arguments", [None, "", "text", 5, [], [1], [{}, {}]])
def test_arguments_that_are_no_object_stay_and_are_reported(arguments: Any):
    coerced = ArgumentSchema.of({"type": "object", "required": ["a"]}).coerce(arguments)
    assert coerced.value == arguments
    assert coerced.notes == ()
    assert coerced.problems


def test_a_root_that_wants_something_else_gets_it():
    assert ArgumentSchema.of(NUMBER).coerce("42").value == 42
    assert ArgumentSchema.of({"type": ["object", "null"]}).coerce(None).notes == ()


def test_a_reader_of_broken_json_can_be_plugged_in():
    def parse(text: str) -> Any:
        return json.loads(text.replace("'", '"'))

    schema = ArgumentSchema.of(closed(l=texts(), o=closed(a=WHOLE)))
    given_text = {"l": "['a', 'b']", "o": "{'a': 1}"}
    assert schema.coerce(given_text, parse).value == {"l": ["a", "b"], "o": {"a": 1}}
    assert schema.coerce(given_text).value == {"l": ["['a', 'b']"], "o": "{'a': 1}"}
    assert schema.value.member("l").coerce("['a']", ("l",), parse)[0] == ["a"]


def test_what_a_reader_returns_is_not_trusted():
    def parse(text: str) -> Any:
        return {"n": float("nan")}

    coerced = ArgumentSchema.of(closed(o={"type": "object"})).coerce({"o": "{}"}, parse)
    assert coerced.value == {"o": "{}"}
    assert coerced.problems


def test_one_property_is_aligned_by_itself():
    schema = ArgumentSchema.of(
        {"properties": {"n": WHOLE}, "patternProperties": {"^n": {"maximum": 3}}, "required": ["z"]}
    )
    number = schema.value.member("n")
    value, notes = number.coerce("2", ("n",))
    assert (value, [note.code for note in notes]) == (2, ["string_to_number"])
    assert notes[0].detail.startswith("`n`")
    assert number.coerce("5", ("n",))[0] == 5
    assert schema.value.member("other").coerce("5") == ("5", ())
    assert math.isnan(number.coerce(float("nan"))[0])


def test_a_deep_value_is_aligned_to_its_end():
    schema = ArgumentSchema.of(
        {"$ref": "#/$defs/node", "$defs": {"node": closed(next={"$ref": "#/$defs/node"}, n=WHOLE)}}
    )
    value: Any = {"n": "1"}
    for _ in range(61):
        value = {"next": value}
    coerced = schema.coerce(value)
    assert coerced.problems == ()
    assert codes(coerced) == ["string_to_number"]


def test_a_value_that_would_become_too_deep_is_left_alone():
    value: Any = 1
    for _ in range(json_values.MAX_DEPTH):
        value = {"a": value}
    schema = ArgumentSchema.of({"properties": {"a": {"type": "array"}}})
    coerced = schema.coerce(value)
    assert coerced.value is value
    assert coerced.notes == ()
    assert coerced.problems == ("`a` must be array, not object",)


def test_references_in_a_circle_end():
    schema = ArgumentSchema.of({"allOf": [{"$ref": "#"}], "properties": {"a": WHOLE}})
    assert schema.coerce({"a": "1"}).value == {"a": 1}
    assert ArgumentSchema.of({"allOf": [{"$ref": "#"}], "required": ["a"]}).coerce({}).problems == ("`a` is required",)


def test_values_that_never_come_to_rest_come_back_as_they_were():
    schema = ArgumentSchema.of({"allOf": [{"properties": {"a": TEXT}}, {"properties": {"a": WHOLE}}]})
    coerced = schema.coerce({"a": "1"})
    assert coerced.value == {"a": "1"}
    assert coerced.notes == ()
    assert coerced.problems == ("`a` must be integer, not string",)


@pytest.mark.requirement("R-T12")
def test_alternatives_inside_alternatives_give_up_in_bounded_time():
    forms = [{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": [f"k{n}"]} for n in range(8)]
    schema = ArgumentSchema.of({"anyOf": forms})

    def nested(depth: int) -> Callable[[], object]:
        value: Any = {"a": 1}
        for _ in range(depth):
            value = {"a": value}

        def coerce() -> None:
            coerced = schema.coerce(value)
            assert coerced.value is value
            assert coerced.problems

        return coerce

    assert_linear(nested, 40, factor=4)  # eight alternatives at each of forty levels would never end


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
def test_many_small_mistakes_take_linear_time():
    schema = ArgumentSchema.of(
        {"properties": {"l": {"type": "array", "items": {"anyOf": [closed(("n",), n=WHOLE), NOTHING]}}}}
    )

    def mistaken(size: int) -> Callable[[], object]:
        def coerce() -> None:
            coerced = schema.coerce({"l": [{"n": str(n), "x" * 2000: 1} for n in range(size)]})
            assert coerced.problems == ()
            assert len(coerced.notes) == 2 * size

        return coerce

    assert_linear(mistaken, 2000)


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
def test_many_spellings_of_one_key_take_linear_time():
    schema = ArgumentSchema.of(closed(("ab",), ab=TEXT))

    def spelled(size: int) -> Callable[[], object]:
        # Of equal length, so that the text grows as the number of keys does.
        value = {"a" + "_" * 1000 + "b" + "_" * n + "-" * (size - n): "x" for n in range(size)}

        def coerce() -> None:
            assert schema.coerce(value).value == value

        return coerce

    assert_linear(spelled, 1000, factor=4)


# ------------------------------------------------------------------------------------------------- laws


KEYS = st.sampled_from(["a", "b", "a_b", "aB", "A", "0", "1", "item", "x-y"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.sampled_from(
        ["", "a", "A", "a b", "null", "true", "1", "2.0", "1, 2", "1\n2", "[1]", '["a"]', '{"a": 1}', '"1"']
    ),
    st.text(max_size=4),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


def without_nothing(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if value is not None}


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.fixed_dictionaries(
        {
            "type": st.sampled_from(["object", None]),
            "properties": st.dictionaries(KEYS, inner, max_size=3),
            "required": st.one_of(st.none(), st.lists(KEYS, max_size=2, unique=True)),
            "additionalProperties": st.one_of(st.none(), st.just(False), inner),
            "patternProperties": st.one_of(
                st.none(), st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1)
            ),
            "unevaluatedProperties": st.sampled_from([None, None, False]),
        }
    ).map(without_nothing)
    arrays = st.fixed_dictionaries({"type": st.just("array"), "items": inner, "maxItems": st.sampled_from([3, 1])})
    unions = st.tuples(st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3))
    references = st.sampled_from(["#", "#/$defs/d"]).map(lambda target: {"$ref": target})
    mixed = st.tuples(objects, unions.map(lambda pair: {pair[0]: pair[1]})).map(lambda pair: pair[0] | pair[1])
    return st.one_of(objects, arrays, unions.map(lambda pair: {pair[0]: pair[1]}), references, mixed)


TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
LEAVES = st.one_of(
    st.booleans(),
    TYPES.map(lambda name: {"type": name}),
    st.lists(TYPES, min_size=1, max_size=2, unique=True).map(lambda names: {"type": names}),
    st.lists(SCALARS, min_size=1, max_size=3, unique_by=json.dumps).map(lambda options: {"enum": options}),
    SCALARS.map(lambda option: {"const": option}),
    st.just({"type": "integer", "minimum": 3}),
    st.just({"type": "string", "maxLength": 1}),
)
SCHEMAS = st.recursive(LEAVES, schemas, max_leaves=8)
ROOTS = st.tuples(SCHEMAS, SCHEMAS).map(
    lambda pair: {**pair[0], "$defs": {"d": pair[1]}} if isinstance(pair[0], dict) else pair[0]
)


@given(ROOTS, VALUES)
def test_aligning_keeps_its_laws(parameters: Any, arguments: Any):
    schema = ArgumentSchema.of(parameters)
    before = copy.deepcopy(arguments)
    coerced = schema.coerce(arguments)
    assert exact(arguments) == exact(before), "the arguments given are never changed"
    if not schema.problems(arguments):
        assert coerced.value is arguments, "what is valid is not touched"
    assert bool(coerced.notes) == (exact(coerced.value) != exact(arguments)), "every change has a note"
    assert coerced.problems == schema.problems(coerced.value), "the problems are those of the result"
    again = schema.coerce(coerced.value)
    assert exact(again.value) == exact(coerced.value), "coercing twice changes nothing more"
    assert again.notes == ()


@given(ROOTS, VALUES)
def test_problems_are_found_exactly_where_the_validator_finds_some(parameters: Any, arguments: Any):
    value = {"a": arguments} if isinstance(parameters, dict) else arguments
    valid = jsonschema_rs.validator_for(parameters).is_valid(value)
    schema = ArgumentSchema.of(parameters)
    if valid and schema.problems(value):
        assert schema.problems(value)[0].startswith("`arguments` must be object")
    else:
        assert valid == (not schema.problems(value))


@given(SCHEMAS, VALUES)
def test_a_property_that_is_valid_by_itself_is_not_touched_inside_an_invalid_object(part: Any, value: Any):
    parameters = {
        "type": "object",
        "properties": {"it": part, "$defs": True},
        "required": ["missing"],
        "$defs": {"d": {}},
    }
    schema = ArgumentSchema.of(parameters)
    if schema.problems({"it": value}) == ("`missing` is required",):
        coerced = schema.coerce({"it": value})
        assert exact(coerced.value) == exact({"it": value})
        assert coerced.notes == ()


@given(st.recursive(st.just({}) | st.sampled_from([{"$ref": "#"}, {"$ref": "#/$defs/x"}]), schemas), VALUES)
def test_whatever_compiles_never_raises(parameters: Any, arguments: Any):
    schema = ArgumentSchema.of({**parameters, "$defs": {"x": {"$ref": "#/$defs/d"}, "d": {}}})
    schema.coerce(arguments)
    for name in ("a", "aB", "nowhere"):
        for question in (schema.property_types, schema.declares, schema.value.forbids):
            question(name)
        schema.value.member(name).coerce(arguments, (name,))
