"""Compiling a tool's parameters: what is refused, what is known of a property, what is wrong with a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cases import check_each
from tests.time_growth import assert_cheap_beside, assert_linear
from toolspeak.core.schema import argument_schema as module
from toolspeak.core.schema import json_values
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.errors import SchemaError

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def of(**properties: Any) -> ArgumentSchema:
    return ArgumentSchema.of({"type": "object", "properties": properties})


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"not": schema}
    return schema


def forever() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["not"] = loop
    return loop


# ----------------------------------------------------------------------------------------------- compiling


def test_an_empty_list_is_no_schema_and_noted():
    schema = ArgumentSchema.of([])
    assert schema.parameters is None
    assert schema.accepts({"a": 1})
    assert not schema.accepts([])
    assert [note.code for note in schema.notes] == ["schema_relaxed"]


@check_each(
    "parameters",
    [
        pytest.param(["a"], id="a list"),
        pytest.param("object", id="a text"),
        pytest.param(3, id="a number"),
        pytest.param({"description": "\ud800"}, id="half of a surrogate pair"),
        pytest.param({"default": object()}, id="something that is not JSON"),
        pytest.param(forever(), id="a schema that holds itself"),
        pytest.param(nested(65), id="too deep"),
        pytest.param({"description": "x" * module.MAX_SCHEMA_BYTES}, id="too large"),
    ],
)
def test_what_is_no_usable_schema_is_refused(parameters: Any):
    with pytest.raises(SchemaError):
        ArgumentSchema.of(parameters)


@check_each("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
@check_each("target", ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "other.json", ""])
def test_a_reference_to_another_document_is_never_followed(keyword: str, target: str):
    for name in ("a", "default"):
        schema = of(**{name: {"items": [{keyword: target}]}})
        assert f"`properties.{name}.items`" in schema.notes[0].detail
        assert schema.accepts({name: ["x", 1]})


def test_a_reference_inside_data_is_only_data():
    schema = of(a={"default": {"$ref": "http://127.0.0.1:9/x.json"}, "const": {"$ref": "x.json"}})
    assert schema.problems({"a": {"$ref": "x.json"}}) == ()


def test_an_error_names_the_fault_in_one_short_line():
    with pytest.raises(SchemaError) as caught:
        ArgumentSchema.of({"description": "\ud800" + "t" * 5000})
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@check_each(
    "parameters",
    [
        pytest.param(nested(64), id="as deep as allowed"),
        pytest.param({"jsonSchema": {"type": "x"}, "strict": True}, id="unknown keywords"),
        pytest.param({"$ref": "#"}, id="a reference to itself"),
        pytest.param({"$recursiveRef": "x.json"}, id="a reference to another document in a place without effect"),
        pytest.param({"$id": "https://example.com/tool", "$defs": {"n": {"$id": "inner"}}}, id="identifiers"),
        pytest.param({"$id": "::::"}, id="an identifier that is no URI"),
        pytest.param({"$schema": DRAFT_4, "id": "x", "properties": {"a": {"type": "integer"}}}, id="an old draft"),
        pytest.param({"maximum": 10**30}, id="a large number"),
    ],
)
def test_odd_but_usable_schemas_compile(parameters: Any):
    assert ArgumentSchema.of(parameters).problems({}) in ((), ("`arguments` does not fit its schema",))


def test_the_draft_is_read_from_the_schema():
    old = {"$schema": DRAFT_4, "type": "object", "properties": {"n": {"type": "integer"}}}
    assert ArgumentSchema.of(old).problems({"n": 3.0})
    assert not of(n={"type": "integer"}).problems({"n": 3.0})


def test_equal_schemas_are_compiled_once_and_keep_no_tie_to_the_callers_object():
    parameters: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    first = ArgumentSchema.of(parameters)
    assert ArgumentSchema.of({"type": "object", "properties": {"a": {"type": "string"}}}) is first
    parameters["properties"]["a"]["type"] = "integer"
    assert ArgumentSchema.of(parameters) is not first
    assert first.parameters == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_schemas_that_differ_only_in_the_order_of_properties_keep_their_order():
    assert of(b={}, a={}).names == ("b", "a")
    assert of(a={}, b={}).names == ("a", "b")


def test_large_schemas_cannot_fill_the_memory():
    text = "x" * (module.MAX_CACHED_BYTES // 10)
    assert of(a={"description": text}) is of(a={"description": text})
    for index in range(12):
        of(a={"description": text + str(index)})
    cached = module._compile.cache  # pyright: ignore[reportPrivateUsage]
    assert 0 < cached.size <= module.MAX_CACHED_BYTES


def test_no_schema_accepts_any_object_and_streams_everything():
    schema = ArgumentSchema.of(None)
    assert schema.parameters is None
    assert schema.value.member("any").text_delay == 0
    assert schema.piecewise
    assert schema.names == ()
    assert schema.problems({"anything": [1]}) == ()
    assert schema.problems([1]) == ("`arguments` must be object, not array",)


def test_boolean_schemas_accept_every_object_or_none():
    assert ArgumentSchema.of(True).problems({"a": 1}) == ()
    assert ArgumentSchema.of(True).problems(1) == ("`arguments` must be object, not integer",)
    assert ArgumentSchema.of(False).problems({"a": 1}) == ("`arguments` does not fit its schema",)


# ------------------------------------------------------------------------------------- what is known of names


PEOPLE = {
    "$defs": {"name": {"type": "string"}, "age": {"$ref": "#/$defs/whole"}, "whole": {"type": "integer"}},
    "type": "object",
}


@check_each(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({}, set()),
        (True, set()),
        ({"minimum": 3}, set()),
        ({"enum": ["a", 1, None, 1.5]}, {"string", "integer", "null", "number"}),
        ({"const": True}, {"boolean"}),
        ({"type": "number", "enum": [1, "a"]}, {"integer"}),
        ({"type": "integer", "enum": [1.0]}, {"integer"}),
        ({"$ref": "#/$defs/age"}, {"integer"}),
        ({"$ref": "#/%24defs/name"}, {"string"}),
        ({"anyOf": [{"$ref": "#/$defs/name"}, {"type": "null"}]}, {"string", "null"}),
        ({"oneOf": [{"type": "string"}, {}]}, set()),
        ({"allOf": [{"type": ["string", "integer", "null"]}, {"type": ["number", "string"]}]}, {"integer", "string"}),
        ({"allOf": [{"type": ["number", "null"]}, {"type": "number"}]}, {"number"}),
        ({"allOf": [{"type": ["integer", "number"]}, {"type": ["string", "null", "number"]}]}, {"number"}),
        ({"allOf": [{"type": "string"}, {"$ref": "#/properties/it"}]}, {"string"}),
    ],
)
def test_the_types_wanted_follow_references_and_alternatives(schema: Any, expected: set[str]):
    assert ArgumentSchema.of({**PEOPLE, "properties": {"it": schema}}).property_types("it") == expected


def test_a_long_chain_of_references_says_nothing_and_does_no_harm():
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(500)} | {"d500": {"type": "integer"}}
    schema = ArgumentSchema.of({"$defs": chain, "properties": {"a": {"$ref": "#/$defs/d0"}, "b": {"type": "string"}}})
    assert schema.property_types("a") == frozenset()
    assert schema.problems({"a": "x"}) == ("`a` does not fit its schema",)
    assert schema.coerce({"a": "5"}).value == {"a": "5"}


def fan(keyword: str, levels: int, **around: Any) -> dict[str, Any]:
    """A schema whose parts refer to the next one twice, on every level."""

    def twice(n: int) -> list[Any]:
        return [{**around, "properties": {"a": {"$ref": f"#/$defs/d{n}"}}} if around else {"$ref": f"#/$defs/d{n}"}] * 2

    parts = {f"d{n}": {keyword: twice(n + 1)} for n in range(levels)}
    return {"$defs": {**parts, f"d{levels}": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}


@check_each("keyword", ["anyOf", "oneOf", "allOf"])
def test_references_that_fan_out_are_followed_once(keyword: str):
    schema = ArgumentSchema.of(fan(keyword, 10))
    assert schema.property_types("a") == {"integer"}
    assert schema.problems({"a": "x"}) == ("`a` must be integer, not string",)


@check_each("keyword", ["anyOf", "oneOf", "allOf"])
@check_each("around", [{}, {"type": "object"}])
def test_references_that_would_keep_the_validator_busy_for_ever_are_refused(keyword: str, around: dict[str, Any]):
    with pytest.raises(SchemaError, match="too many nested alternatives"):
        ArgumentSchema.of(fan(keyword, 40, **around))


def test_references_to_shared_parts_of_an_object_do_not_multiply():
    parts = {f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "abcdefgh"}} for n in range(40)}
    assert ArgumentSchema.of({"$ref": "#/$defs/d0", "$defs": {**parts, "d40": {}}}).problems({}) == ()


def test_a_property_is_found_through_references_and_parts_of_the_root():
    schema = ArgumentSchema.of(
        {
            "$ref": "#/$defs/args",
            "$defs": {"args": {"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}},
            "allOf": [{"properties": {"a": {"type": ["integer", "null"]}}}],
            "anyOf": [{"properties": {"b": {"type": "string"}}}, {"properties": {"b": {"type": "null"}}}],
            "dependentSchemas": {"a": {"properties": {"c": {"type": "boolean"}}}},
            "if": {"properties": {"d": {"const": 1}}},
            "properties": {"e": False},
        }
    )
    assert schema.names == ("a", "b", "d", "c")
    assert schema.property_types("a") == {"integer"}
    assert schema.property_types("b") == {"string", "null"}
    assert schema.property_types("c") == {"boolean"}
    assert schema.property_types("unknown") == frozenset()
    assert [schema.declares(name) for name in ("a", "d", "e", "unknown")] == [True, True, False, False]


def test_a_name_waits_if_it_is_not_allowed_or_may_mean_a_required_property():
    open_schema = {
        "properties": {"filePath": {}, "no": False},
        "patternProperties": {"^x": {}},
        "required": ["filePath"],
    }
    schema = ArgumentSchema.of(open_schema)
    waits = {name: schema.value.forbids(name) for name in ("filePath", "file_path", "no", "x1", "other")}
    assert waits == {"filePath": False, "file_path": True, "no": True, "x1": False, "other": False}
    closed = ArgumentSchema.of({**open_schema, "additionalProperties": False})
    assert closed.value.forbids("other")
    assert not closed.value.forbids("x1")


# ---------------------------------------------------------------------------------------------- streaming


@check_each(
    "keyword",
    [
        {"anyOf": [{}]},
        {"oneOf": [{}]},
        {"allOf": [{}]},
        {"not": {"required": ["z"]}},
        {"if": {}},
        {"patternProperties": {"^i": {"maxLength": 3}}},
        {"propertyNames": {"maxLength": 9}},
        {"dependentRequired": {"it": ["z"]}},
        {"dependentSchemas": {"it": {}}},
        {"dependencies": {"it": ["z"]}},
        {"$ref": "#/$defs/name"},
        {"enum": [{"it": "x"}]},
        {"type": "string"},
    ],
)
def test_nothing_is_streamed_where_the_root_judges_the_object_as_a_whole(keyword: dict[str, Any]):
    schema = ArgumentSchema.of({**PEOPLE, "properties": {"it": {"type": "string"}}, **keyword})
    assert not schema.piecewise


def test_closing_or_limiting_an_object_does_not_stop_the_stream():
    schema = ArgumentSchema.of(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["a"],
            "additionalProperties": False,
            "minProperties": 1,
        }
    )
    assert schema.value.member("a").text_delay == 0
    assert schema.piecewise


# ----------------------------------------------------------------------------------------------- problems


SAID = [
    ({"properties": {"n": {"type": "integer"}}}, {"n": "x"}, "`n` must be integer, not string"),
    ({"properties": {"n": {"type": ["null", "array"]}}}, {"n": True}, "`n` must be array or null, not boolean"),
    ({"properties": {"n": {"enum": ["a", 1]}}}, {"n": "x"}, '`n` must be one of "a", 1'),
    ({"properties": {"n": {"const": "é"}}}, {"n": "x"}, '`n` must be "é"'),
    ({"properties": {"n": {"enum": [1]}}}, {"n": True}, "`n` does not fit its schema"),
    ({"required": ["a", "b"]}, {"b": 1}, "`a` is required"),
    ({"properties": {"o": {"required": ["k"]}}}, {"o": {}}, "`o.k` is required"),
    ({"properties": {"l": {"items": {"type": "null"}}}}, {"l": [None, 1]}, "`l[1]` must be null, not integer"),
    ({"properties": {"l": {"prefixItems": [{}]}}, "maxProperties": 0}, {"l": [1]}, "`arguments` breaks `maxProperties` 0"),
    ({"additionalProperties": False}, {"x": 1}, "`x` is not allowed"),
    ({"properties": {"x": False}}, {"x": 1}, "`x` is not allowed"),
    ({"patternProperties": {"^x": False}}, {"xy": 1}, "`xy` is not allowed"),
    ({"additionalProperties": {"type": "null"}}, {"x": 1}, "`x` must be null, not integer"),
    ({"properties": {"n": {"minimum": 3}}}, {"n": 1}, "`n` breaks `minimum` 3"),
    ({"properties": {"n": {"pattern": "^a"}}}, {"n": "b"}, '`n` breaks `pattern` "^a"'),
    ({"properties": {"n": {"not": {}}}}, {"n": "b"}, "`n` does not fit its schema"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"required": ["k"]}}}, {}, "`k` is required"),
    ({"allOf": [{"required": ["k"]}, {"required": ["k"]}]}, {}, "`k` is required"),
    ({"properties": {"n": {"anyOf": [{"type": "null"}, {"minimum": 3, "type": "number"}]}}}, {"n": 1}, "`n` breaks `minimum` 3"),
    ({"properties": {"n": {"anyOf": [{"type": "null"}, {"type": "integer"}]}}}, {"n": "x"}, "`n` must be integer or null, not string"),
    ({"properties": {"n": {"anyOf": [{"maximum": 1}, {"minimum": 3}]}}}, {"n": 2}, "`n` fits none of the 2 allowed forms"),
    ({"properties": {"n": {"oneOf": [{}, {"minimum": 3}]}}}, {"n": 4}, "`n` does not fit its schema"),
    ({"$schema": DRAFT_4, "properties": {"n": {"minimum": 3, "exclusiveMinimum": True}}}, {"n": 3}, "`n` does not fit its schema"),
    ({"$ref": "#", "not": {}}, {}, "`arguments` does not fit its schema"),
    ({"required": ["a`b"]}, {}, "`a'b` is required"),
    ({"required": ["k" * 500]}, {}, f"`{'k' * 120}…` is required"),
]  # fmt: skip


@check_each(("schema", "value", "sentence"), SAID)
def test_a_problem_is_one_sentence_that_names_the_place(schema: Any, value: Any, sentence: str):
    assert ArgumentSchema.of(schema).problems(value) == (sentence,)
    assert not ArgumentSchema.of(schema).accepts(value)


def test_what_has_no_problem_is_accepted():
    schema = ArgumentSchema.of({"properties": {"n": {"type": "integer"}}})
    for value in ({}, {"n": 1}, {"n": 1, "more": ["x"]}):
        assert schema.accepts(value)
        assert schema.problems(value) == ()
    assert not schema.accepts([])


def test_many_options_are_cut_short():
    (sentence,) = of(n={"enum": [f"option-{n}" for n in range(1000)]}).problems({"n": "x"})
    assert len(sentence) < 250


def test_at_most_so_many_problems_are_told_and_at_least_one():
    schema = ArgumentSchema.of({"required": [f"k{n}" for n in range(9)]})
    assert len(schema.problems({})) == 5
    assert len(schema.problems({}, limit=2)) == 2
    assert len(schema.problems({}, limit=0)) == 1


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.requirement("R-E6")
@check_each(
    ("value", "words"),
    [
        (deep(64), "deeper"),
        (float("nan"), "not finite"),
        (float("inf"), "not finite"),
        (2**1025, "too large"),
        ("\ud83d", "surrogate"),
        ({"\ud83d": 1}, "surrogate"),
        ({1: 2}, "key"),
        ({1, 2}, "`set`"),
        ((1, 2), "`tuple`"),
        (b"x", "`bytes`"),
    ],
)
def test_what_is_not_json_is_a_problem_whatever_the_schema_says(value: Any, words: str):
    schema = ArgumentSchema.of(None)
    (problem,) = schema.problems({"a": value})
    assert words in problem
    assert not schema.accepts({"a": value})
    coerced = schema.coerce({"a": value})
    assert coerced.problems == (problem,)
    assert coerced.notes == ()


def test_too_many_values_are_a_problem(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_values, "MAX_VALUES", 100)
    assert ArgumentSchema.of(None).problems({"a": [0] * 97}) == ()
    assert ArgumentSchema.of(None).problems({"a": [0] * 98}) == ("`arguments` hold more than 100 values",)


def test_the_deepest_arguments_allowed_are_judged():
    schema = ArgumentSchema.of(
        {"additionalProperties": {"$ref": "#/$defs/l"}, "$defs": {"l": {"items": {"$ref": "#/$defs/l"}}}}
    )
    assert schema.problems({"a": deep(63)}) == ()
    numbers = ArgumentSchema.of(
        {
            "additionalProperties": {"$ref": "#/$defs/l"},
            "$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}},
        }
    )
    value: Any = "x"
    for _ in range(62):
        value = [value]
    assert numbers.problems({"a": value}) == (f"`a{'[0]' * 39}[0…` must be array, not string",)


@pytest.mark.no_cover
def test_problems_of_alternatives_inside_alternatives_are_found_in_no_time():
    form: dict[str, Any] = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    schema = ArgumentSchema.of({"anyOf": [{**form, "minProperties": 1}, {**form, "required": ["a"]}]})

    def nested(depth: int) -> Callable[[], object]:
        value: Any = {"a": 1}
        for _ in range(depth):
            value = {"a": value}
        return lambda: schema.problems(value)

    assert nested(40)()
    assert_linear(nested, 40, factor=4)  # two alternatives at each of forty levels would never end


@pytest.mark.no_cover
def test_many_rules_against_a_large_value_are_told_in_no_time():
    schema = ArgumentSchema.of({"allOf": [{"required": [f"k{n}"]} for n in range(2000)]})
    large, small = {"text": "x" * 1_000_000}, {"text": "x"}
    assert len(schema.problems(large)) == 5
    # The size of the value hardly counts: nobody writes it out for each rule.
    assert_cheap_beside(lambda: schema.problems(large), lambda: schema.problems(small), most=20)


def test_anchors_and_escaped_pointers_are_followed():
    schema = ArgumentSchema.of(
        {
            "$defs": {
                "a/b~c %é": {"type": "integer"},
                "n": {"$anchor": "note", "type": "null"},
                "many": {"anyOf": [{"type": "boolean"}]},
            },
            "properties": {
                "odd": {"$ref": "#/$defs/a~1b~0c%20%25%C3%A9"},
                "anchored": {"$ref": "#note"},
                "dynamic": {"$dynamicRef": "#note"},
                "listed": {"$ref": "#/$defs/many/anyOf/0"},
                "a/b~c %é": {"type": "integer"},
            },
        }
    )
    wanted = [schema.property_types(name) for name in schema.names]
    assert wanted == [{"integer"}, {"null"}, {"null"}, {"boolean"}, {"integer"}]
    assert schema.problems(dict.fromkeys(schema.names, "x"), 9) == tuple(
        f"`{name}` must be {kind}, not string"
        for name, kind in zip(schema.names, ["integer", "null", "null", "boolean", "integer"], strict=True)
    )


@check_each("reference", ["#/nowhere", "#/prefixItems/7", "#/type/x", "#nowhere"])
def test_what_the_validator_ignores_cannot_break_anything(reference: str):
    # The keyword stands in a draft that does not know it, so nobody compiled what it holds.
    schema = {"$schema": DRAFT_7, "type": "array", "prefixItems": [{"$ref": reference}], "maxItems": 0}
    held = ArgumentSchema.of({"$schema": DRAFT_7, "type": "object", "properties": {"a": schema}})
    assert held.problems({"a": ["x"]}) == ("`a` breaks `maxItems` 0",)
    assert held.coerce({"a": ["x"]}).value == {"a": ["x"]}


def test_a_broken_pattern_where_the_validator_does_not_look_matches_nothing():
    schema = ArgumentSchema.of({"then": {"patternProperties": {"(": {}}}, "additionalProperties": False})
    assert schema.value.forbids("x")
