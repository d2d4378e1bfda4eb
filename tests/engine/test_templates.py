"""The worked example fits its tool's schema and can be told from a real call; templates are checked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import check_each, size
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.types import Tool
from toolspeak.engine.prompting.templates import TEMPLATES, copied_placeholders, example_of, fill, template_text
from toolspeak.errors import UsageError


def tool(required: Any = None, name: str = "f", **properties: Any) -> Tool:
    wanted = list(properties) if required is None else required
    return Tool(name, parameters={"type": "object", "properties": properties, "required": wanted})


TEXT = {"type": "string"}
NUMBER = {"type": "integer"}

#: The schema of one required parameter `x`, its value, and whether nobody writes it by accident.
VALUES: dict[str, tuple[Any, Any, bool]] = {
    "a text": (TEXT, "example x", True),
    "a short text": ({"type": "string", "maxLength": 4}, "exam", False),
    "a date": ({"type": "string", "format": "date"}, "2001-02-03", False),
    "an unknown format": ({"type": "string", "format": "colour"}, "example x", True),
    "a choice": ({"enum": ["b", "a"]}, "b", False),
    "a constant": ({"const": 7}, 7, False),
    "a default": ({"type": "integer", "default": 9}, 9, False),
    "a number": (NUMBER, 1, False),
    "a number from two": ({"type": "number", "minimum": 2}, 2, False),
    "a number above two": ({"type": "integer", "exclusiveMinimum": 2}, 3, False),
    "a number up to nought": ({"type": "integer", "maximum": 0}, 0, False),
    "a boolean": ({"type": "boolean"}, True, False),
    "nothing": ({"type": "null"}, None, False),
    "an array": ({"type": "array", "items": TEXT}, ["example x"], True),
    "several types": ({"type": ["integer", "string"]}, 1, False),
    "a union": ({"anyOf": [NUMBER, TEXT]}, 1, False),
    "anything": ({}, "example x", True),
    "an object": (
        {"type": "object", "properties": {"y_z": TEXT, "o": TEXT}, "required": ["y_z"]},
        {"y_z": "example y z"},
        True,
    ),
    "an object of anything": ({"type": "object"}, {}, False),
}


@pytest.mark.requirement("C1")
@check_each("case", VALUES)
def test_an_example_is_the_smallest_call_that_fits(case: str):
    schema, value, distinct = VALUES[case]
    example = example_of([tool(x=schema)])
    assert example is not None
    assert example.call.arguments == {"x": value}
    assert example.distinct is distinct


def test_references_are_followed():
    odd = Tool("f", parameters={"properties": {"x": {"$ref": "#/$defs/X"}}, "required": ["x"], "$defs": {"X": NUMBER}})
    example = example_of([odd])
    assert example is not None
    assert example.call.arguments == {"x": 1}


@pytest.mark.requirement("R-E4")
def test_an_optional_text_is_added_where_nothing_else_tells_the_example_from_a_call():
    example = example_of([tool([], n=NUMBER, s={"type": "string", "enum": ["a"]}, city=TEXT, more=TEXT)])
    assert example is not None
    assert example.call.arguments == {"city": "example city"}
    assert example.distinct


@pytest.mark.requirement("R-E4")
def test_a_tool_that_gives_a_distinct_example_comes_first():
    example = example_of(
        [Tool("ping", parameters={"type": "object"}), tool(name="add", a=NUMBER), tool(name="say", text=TEXT)]
    )
    assert example is not None
    assert example.call.name == "say"
    plain = example_of([Tool("ping", parameters={"type": "object"}), tool(name="add", a=NUMBER)])
    assert plain is not None
    assert (plain.call.name, plain.distinct) == ("ping", False)


def test_a_tool_whose_schema_gives_no_example_is_passed_over():
    hopeless = tool(x={"type": "string", "pattern": "^[0-9]{9}$"})
    broken = Tool("broken", parameters="nonsense")
    assert example_of([hopeless, broken]) is None
    assert example_of([]) is None
    example = example_of([hopeless, tool(name="add", a=NUMBER)])
    assert example is not None
    assert example.call.name == "add"


def test_only_the_first_tools_are_tried():
    assert example_of([tool(x={"type": "string", "pattern": "^[0-9]{9}$"})] * 8 + [tool(x=TEXT)]) is None


@check_each("keyword", ["array", "object"])
def test_an_example_does_not_go_deep(keyword: str):
    schema: Any = {"type": keyword}
    for _ in range(8):
        inner: Any = {"items": schema} if keyword == "array" else {"properties": {"a": schema}, "required": ["a"]}
        schema = {"type": keyword, **inner}
    example_of([tool(x=schema)])  # whether it fits or not, it comes back


PROPERTIES = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.sampled_from([schema for schema, _, _ in VALUES.values()]), max_size=3
)


@pytest.mark.requirement("C1")
@settings(max_examples=size(12, 50))
@given(properties=PROPERTIES, nested=PROPERTIES)
def test_every_example_fits_its_schema(properties: dict[str, Any], nested: dict[str, Any]):
    made = tool(o=tool(**nested).parameters, **properties)
    example = example_of([made])
    if example is not None:
        assert ArgumentSchema.of(made.parameters).problems(example.call.arguments) == ()


def test_odd_schemas_give_no_example_or_one_that_fits():
    assert example_of([Tool("f", parameters={"properties": [], "required": "x"})]) is not None
    assert example_of([Tool("f", parameters={"required": ["x"]})]) is not None
    assert example_of([Tool("f", parameters={"type": "object", "anyOf": []})]) is not None
    assert example_of([Tool("f", parameters={"type": "object", "not": {}})]) is None


@check_each(
    ("given", "copied"),
    [
        ({"city": "example city"}, ["example city"]),
        ({"city": "example city", "unit": "c", "to": {"name": "example name"}}, ["example city", "example name"]),
        ({"to": {"name": "example name"}}, ["example name"]),
        ({"city": "Oslo", "unit": "c"}, []),
        ({"city": "example city", "unit": "f"}, []),
        ({"city": "example city", "note": "example note"}, []),
        ({"to": {}}, []),
        ({"unit": "c"}, []),
        ({}, []),
    ],
)
def test_a_call_is_a_copy_if_all_its_arguments_are_those_of_the_example(given: Any, copied: list[str]):
    person = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
    weather = tool(None, "get_weather", city=TEXT, unit={"enum": ["c", "f"]}, to=person)
    assert copied_placeholders(weather, given) == copied


# ---- templates


@pytest.mark.requirement("C1")
def test_a_text_can_be_replaced_and_its_other_braces_are_text():
    assert template_text("continuation", None) == TEMPLATES["continuation"].text
    assert template_text("continuation", {"continuation": 'Weiter: {"a": {}}'}) == 'Weiter: {"a": {}}'


@pytest.mark.requirement("C1")
@check_each(
    ("templates", "message"),
    [
        ({"inline": "Tools: {tool}"}, "template `inline` has the unknown placeholder `{tool}`"),
        ({"inline": "no tools"}, "template `inline` lacks the placeholder `{tools}`"),
        ({"required": "call {name}"}, "use none"),
        ({"greeting": "hello"}, "unknown template `greeting`"),
    ],
)
def test_a_bad_template_is_the_callers_mistake_and_says_which_placeholder(templates: dict[str, str], message: str):
    with pytest.raises(UsageError) as caught:
        template_text("inline", templates)
    assert message in str(caught.value)


@check_each("name", TEMPLATES)
def test_our_own_templates_are_good(name: str):
    assert template_text(name, {name: TEMPLATES[name].text})


def test_what_is_put_in_is_never_read_as_a_template():
    assert fill("{tools} {x}", {"tools": "{call}", "call": "no"}) == "{call} {x}"
