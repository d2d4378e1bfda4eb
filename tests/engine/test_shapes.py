"""Schemas reduced to shapes: what is understood, what is loosened, what is bounded."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cases import check_each
from tests.time_growth import assert_cheap_beside
from toolspeak.engine.constraints.shapes import (
    MAX_EXACT_RECURSION,
    MAX_ITEMS,
    MAX_NESTING,
    MAX_NOTES,
    MAX_RECURSION,
    MAX_TOTAL_CHARS,
    NULL,
    AnyValue,
    Array,
    Fixed,
    Ledger,
    Member,
    Number,
    Object,
    Shape,
    Text,
    Union,
    shape_of,
)
from toolspeak.errors import SchemaError

FREE = Object(extra=AnyValue())
BOOL = Fixed((True, False))


def read(schema: Any, exact: bool = False) -> tuple[Shape, list[str]]:
    ledger = Ledger()
    return shape_of(schema, "f", ledger, exact), [note.code for note in ledger.all()]


def one(shape: Shape, required: bool = True) -> Object:
    return Object((Member("a", shape, required),))


def of(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


EXACT: list[tuple[str, Any, Shape]] = [
    ("no schema", None, FREE),
    ("any object", {"type": "object"}, FREE),
    ("no arguments", {"type": "object", "properties": {}}, Object()),
    ("a closed object", {"type": "object", "additionalProperties": False}, Object()),
    ("a map", {"type": "object", "additionalProperties": {"type": "string"}}, Object(extra=Text())),
    ("declared keys only", {"properties": {"a": {"type": "string"}}}, one(Text(), False)),
    (
        "declared keys and others",
        {"properties": {"a": {"type": "string"}}, "additionalProperties": True},
        Object((Member("a", Text(), False),), AnyValue()),
    ),
    ("a property that is never there", {"properties": {"a": False, "b": True}}, Object((Member("b", AnyValue(), False),))),
    ("a required key without a schema", {"type": "object", "required": ["a"]}, one(AnyValue())),
    ("a description", of({"type": "string", "description": "where"}), one(Text(about="where"))),
    ("lengths", of({"type": "string", "minLength": 1, "maxLength": 9.0}), one(Text(1, 9))),
    ("pattern and format", of({"type": "string", "pattern": "^a$", "format": "date"}), one(Text(0, None, "^a$", "date"))),
    ("whole bounds", of({"type": "integer", "minimum": 0.5, "maximum": 9.5}), one(Number(True, 1, 9))),
    ("open bounds", of({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9}), one(Number(True, 1, 8))),
    ("a number", of({"type": "number", "minimum": 0, "exclusiveMaximum": 2.5}), one(Number(False, 0, below=2.5))),
    ("an enumeration", of({"enum": ["a", 1, None]}), one(Fixed(("a", 1, None)))),
    ("only values of the type", of({"type": ["integer", "string"], "enum": ["a", 1, 2.0, 2.5, None]}), one(Fixed(("a", 1, 2.0)))),
    ("numbers of any kind", of({"type": "number", "enum": [1, 2.5, "x"]}), one(Fixed((1, 2.5)))),
    ("a constant object", of({"const": {"k": [1]}}), one(Object((Member("k", Array(AnyValue(), 1, 1, (Fixed((1,)),))),)))),
    ("values of all kinds", of({"enum": [1, []]}), one(Union((Fixed((1,)), Array(AnyValue(), 0, 0))))),
    ("several types", of({"type": ["string", "null"]}), one(Union((Text(), NULL)))),
    ("alternatives", of({"anyOf": [{"type": "string"}, {"type": "boolean"}]}), one(Union((Text(), BOOL)))),
    ("a lone alternative", of({"anyOf": [{"type": "string"}, False]}), one(Text())),
    ("any of anything", of({"anyOf": [True, {"type": "null"}]}), one(Union((AnyValue(), NULL)))),
    ("alternatives beside a type", of({"type": "string", "anyOf": [True]}), one(Text())),
    ("exclusive alternatives of other kinds", of({"oneOf": [{"type": "string"}, {"type": "integer"}]}), one(Union((Text(), Number(True))))),
    ("exclusive values", of({"oneOf": [{"enum": [1, True]}, {"type": "string"}]}), one(Union((Fixed((1, True)), Text())))),
    ("a list", of({"type": "array", "items": {"type": "string"}, "minItems": 1}), one(Array(Text(), 1))),
    ("a list without a type", of({"items": {"type": "null"}}), one(Array(NULL))),
    ("no more items", of({"type": "array", "prefixItems": [{"type": "null"}], "items": False}), one(Array(AnyValue(), 0, 1, (NULL,)))),
    ("old tuples", {"$schema": "http://json-schema.org/draft-07/schema#", **of({"items": [{"type": "null"}], "additionalItems": {"type": "string"}})}, one(Array(Text(), prefix=(NULL,)))),
    ("old open bounds", {"$schema": "http://json-schema.org/draft-04/schema#", **of({"type": "number", "minimum": 1, "exclusiveMinimum": False})}, one(Number(False, 1))),
    ("a string by its bounds", of({"minLength": 2}), one(Text(2))),
    ("a number by its bounds", of({"minimum": 2}), one(Number(low=2))),
    ("a reference", {**of({"$ref": "#/$defs/x~1y~0"}), "$defs": {"x/y~": {"type": "null"}}}, one(NULL)),
    ("a reference into a list", of({"anyOf": [{"type": "null"}, {"$ref": "#/properties/a/anyOf/0"}]}), one(Union((NULL, NULL)))),
    ("a described reference", {**of({"$ref": "#/$defs/x", "description": "mine"}), "$defs": {"x": {"type": "null", "description": "its"}}}, one(Fixed((None,), "mine"))),
    ("merged objects", {"allOf": [of({"type": "string", "minLength": 1}), {"properties": {"a": {"maxLength": 3}, "b": {"type": "null"}}, "required": ["b"]}]}, Object((Member("a", Text(1, 3)), Member("b", NULL)))),
    ("merged values", of({"allOf": [{"type": ["number", "string"], "minimum": 1}, {"type": "integer", "minimum": 2}, True]}), one(Number(True, 2))),
    ("merged enumerations", of({"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]}), one(Fixed((2,)))),
    ("merged lists", of({"allOf": [{"items": {"type": "integer"}, "maxItems": 5}, {"items": {"minimum": 0}, "maxItems": 3}]}), one(Array(Number(True, 0), 0, 3))),
    ("merged types the other way", of({"allOf": [{"type": "integer"}, {"type": "number"}]}), one(Number(True))),
    ("closed by one of two", {"allOf": [{"type": "object", "additionalProperties": False}, {"additionalProperties": {"type": "null"}}]}, Object()),
    ("equal words twice", {"allOf": [of({"type": "null"}), of({"type": "null"})]}, one(NULL)),
    ("values that fit what else is said", of({"allOf": [{"enum": ["a", "bb", 1, 9]}, {"minLength": 2, "minimum": 2}]}), one(Fixed(("bb", 9)))),
    ("values of an old draft", {"$schema": "http://json-schema.org/draft-04/schema#", **of({"enum": [1, 2], "minimum": 1, "exclusiveMinimum": True})}, one(Fixed((2,)))),
    ("other types beside a type", of({"type": "string", "anyOf": [{"type": "boolean"}, {"maxLength": 3}]}), one(Text(0, 3))),
    ("a type without values", of({"type": ["boolean", "string"], "anyOf": [{"enum": [1]}, {"type": "string"}]}), one(Text())),
    ("an alternative that demands the impossible", of({"anyOf": [{"properties": {"b": False}, "required": ["b"]}, {"type": "null"}]}), one(NULL)),
    ("keys that another part forbids", {"allOf": [{**of({"type": "null"}), "additionalProperties": False}, {"properties": {"b": {"type": "null"}}}]}, one(NULL)),
    ("keys that another part judges", {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"additionalProperties": {"maxLength": 3}}]}, Object((Member("a", Text(0, 3)),), Text(0, 3))),
    ("items that another part judges", of({"allOf": [{"prefixItems": [{"type": "string"}, True], "maxItems": 3}, {"prefixItems": [{"minLength": 1}], "items": {"type": "null"}}]}), one(Array(NULL, 0, 3, (Text(1), NULL)))),
    ("a list that ends before the impossible", of({"type": "array", "prefixItems": [{"type": "null"}, False, True]}), one(Array(AnyValue(), 0, 1, (NULL,)))),
    ("a list without possible items", of({"type": "array", "items": {"enum": []}}), one(Array(AnyValue(), 0, 0))),
    ("no possible further keys", of({"type": "object", "additionalProperties": {"allOf": [{}], "enum": []}}), one(Object())),
    ("alternatives beside properties", {"properties": {"a": {"type": "null"}}, "anyOf": [{"required": ["a"]}, {"properties": {"b": {"type": "null"}}}]}, Union((one(NULL), Object((Member("a", NULL, False), Member("b", NULL, False)))))),
]  # fmt: skip


@check_each(("schema", "shape"), [case[1:] for case in EXACT], ids=[case[0] for case in EXACT])
def test_what_shapes_can_say_is_said_without_a_note(schema: Any, shape: Shape):
    assert read(schema) == (shape, [])


LOOSE: list[tuple[str, Any, Shape, str]] = [
    ("unique items", of({"type": "array", "uniqueItems": True}), one(Array(AnyValue())), "constraint_loosened"),
    ("negation", of({"type": "string", "not": {"minLength": 9}}), one(Text()), "constraint_loosened"),
    ("counted keys", {"type": "object", "minProperties": 1}, FREE, "constraint_loosened"),
    ("keys by pattern", {"type": "object", "patternProperties": {"^x": {}}}, FREE, "constraint_loosened"),
    ("two patterns", of({"type": "string", "pattern": "^a", "allOf": [{"pattern": "b$"}]}), one(Text(0, None, "^a")), "constraint_loosened"),
    ("very many items", of({"type": "array", "minItems": 5000}), one(Array(AnyValue(), MAX_ITEMS)), "constraint_loosened"),
    ("exclusive alternatives that overlap", of({"oneOf": [{"type": "string"}, {"minLength": 3}]}), one(Union((Text(), Text(3)))), "one_of_loosened"),
    ("exclusive alternatives of anything", of({"oneOf": [{"type": "string"}, {}]}), one(Union((Text(), AnyValue()))), "one_of_loosened"),
    ("nothing at all", of({"type": "array", "items": {"not": {}, "allOf": [False]}}), one(Array(AnyValue())), "constraint_loosened"),
    ("different types", of({"allOf": [{"type": "string"}, {"type": "null"}]}), one(AnyValue()), "impossible"),
    ("a forbidden key that is required", {"allOf": [{"type": "object", "additionalProperties": False}, of({"type": "null"})]}, one(AnyValue()), "impossible"),
    ("keys by patterns of another part", {"allOf": [of({"type": "null"}), {"patternProperties": {}, "additionalProperties": False}]}, one(NULL), "constraint_loosened"),
    ("no possible alternative", of({"anyOf": [False]}), one(AnyValue()), "impossible"),
    ("alternatives of fixed values", of({"enum": ["a", "b"], "anyOf": [{"minLength": 2}, {"const": "a"}]}), one(Fixed(("a", "b"))), "constraint_loosened"),
    ("an impossible length", of({"type": "string", "minLength": 3, "maxLength": 1}), one(Text(3, 3)), "impossible"),
    ("an impossible alternative", of({"anyOf": [{"type": "string", "enum": [1]}]}), one(AnyValue()), "impossible"),
    ("nothing fits", of({"type": "array", "items": False, "minItems": 1}), one(Array(AnyValue(), 1, 1)), "impossible"),
    ("an anchor", {**of({"$ref": "#here"}), "$defs": {"x": {"$anchor": "here", "type": "null"}}}, one(AnyValue()), "reference_loosened"),
    ("an escaped reference", {**of({"$ref": "#/$defs/a%20b"}), "$defs": {"a b": {"type": "null"}}}, one(AnyValue()), "reference_loosened"),
]  # fmt: skip


@pytest.mark.requirement("A7")
@check_each(("schema", "shape", "code"), [case[1:] for case in LOOSE], ids=[case[0] for case in LOOSE])
def test_what_shapes_cannot_say_is_loosened_with_a_note(schema: Any, shape: Shape, code: str):
    assert read(schema) == (shape, [code])


def test_alternatives_told_apart_by_a_fixed_member_need_no_note():
    options = [{**of({"const": kind}), "additionalProperties": False} for kind in ("circle", "square")]
    shape, codes = read({"type": "object", "properties": {"s": {"oneOf": options}}})
    assert codes == []
    assert shape == Object((Member("s", Union((one(Fixed(("circle",))), one(Fixed(("square",))))), False),))


def test_a_reference_that_leads_back_is_followed_a_few_times_then_loosened():
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    shape, codes = read(tree)
    depth = 0
    while isinstance(shape, Object):
        depth += 1
        shape = shape.members[0].shape
    assert (depth, shape, codes) == (4, AnyValue(), ["recursion_loosened"])


LABEL = {"label": {"type": "null"}}
LEADING_BACK = [
    ("an optional member", {"within": {"$ref": "#/$defs/n"}}, []),
    ("a list", {"within": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, ["within"]),
    ("a tuple", {"within": {"type": "array", "prefixItems": [{"$ref": "#/$defs/n"}], "items": False}}, ["within"]),
    ("alternatives", {"within": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, ["within"]),
    ("a map", {"within": {"type": "object", "additionalProperties": {"$ref": "#/$defs/n"}}}, ["within"]),
]


@check_each(("table", "required"), [row[1:] for row in LEADING_BACK], ids=[row[0] for row in LEADING_BACK])
def test_what_leads_back_to_itself_is_left_out_in_the_end_where_all_must_be_exact(table: Any, required: list[str]):
    node = {"type": "object", "properties": {**LABEL, **table}, "required": ["label", *required]}
    schema = {**of({"$ref": "#/$defs/n"}), "$defs": {"n": node}}
    shape, codes = read(schema, exact=True)
    assert codes == ["recursion_narrowed"]
    text = str(shape)
    assert "AnyValue" not in re.sub(r"Array\(items=AnyValue\(about=''\), low=0, high=[01]", "", text)
    assert text.count("name='label'") == MAX_EXACT_RECURSION
    assert "AnyValue" in str(read(schema)[0])


def test_what_always_leads_back_to_itself_is_impossible():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}, "required": ["next"]}
    schema = {**of({"$ref": "#/$defs/n"}), "$defs": {"n": node}}
    shape, codes = read(schema, exact=True)
    assert set(codes) == {"recursion_narrowed", "impossible"}
    assert "AnyValue" in str(shape)


def test_what_leads_back_and_grows_too_large_is_followed_less_often():
    table = {**LABEL, **{f"p{number}": {"$ref": "#/$defs/n"} for number in range(8)}}
    shape, codes = read({**of({"$ref": "#/$defs/n"}), "$defs": {"n": {"properties": table}}}, exact=True)
    assert str(shape).count("name='label'") == sum(8**level for level in range(MAX_RECURSION))
    assert set(codes) == {"recursion_narrowed"}


def test_what_leads_back_through_many_levels_is_left_out_at_the_deepest():
    deep: Any = {"$ref": "#/$defs/n"}
    for _ in range(8):
        deep = {"type": "array", "items": deep}
    shape, codes = read({**of({"$ref": "#/$defs/n"}), "$defs": {"n": deep}}, exact=True)
    assert codes == ["recursion_narrowed"]
    assert str(shape).count("Array(") < 2 * MAX_NESTING


def test_recursion_through_alternatives_beside_other_keywords_is_bounded_too():
    node = {"type": "object", "anyOf": [{"$ref": "#/$defs/n"}, {"type": "object"}]}
    _, codes = read(
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"properties": {"x": node}}}}
    )
    assert codes == ["recursion_loosened"]


def test_a_schema_nested_too_deep_is_loosened_at_its_depth():
    schema: Any = {"type": "string"}
    for _ in range(28):
        schema = {"type": "array", "items": schema}
    _, codes = read(of(schema))
    assert codes == ["recursion_loosened"]


def bomb(levels: int = 25) -> Any:
    """Definitions that refer twice to the next one."""
    pair = {f"l{n}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(levels)}
    return {**of({"$ref": "#/$defs/l0"}), "$defs": {**pair, f"l{levels}": {"type": "null"}}}


def all_of_bomb(levels: int = 25) -> Any:
    pair = {
        f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}, {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}]}]}
        for n in range(levels)
    }
    return {**of({"$ref": "#/$defs/l0"}), "$defs": {**pair, f"l{levels}": {"type": "null"}}}


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
def test_a_schema_that_multiplies_is_loosened_to_any_object_in_no_time():
    wide = {"enum": ["x" * 1000 + str(n) for n in range(50)]}
    shared = {
        "type": "object",
        "properties": {f"p{n}": {"$ref": "#/$defs/e"} for n in range(500)},
        "$defs": {"e": wide},
    }
    assert read(shared) == (FREE, ["schema_too_large"])
    # Each level doubles what it stands for, so that eleven more would take two thousand times as long.
    assert_cheap_beside(lambda: read(bomb(22)), lambda: read(bomb(11)), most=20)
    assert read(bomb(22)) == read(bomb(11)) == (FREE, ["schema_too_large"])


def test_definitions_merged_twice_are_merged_once():
    assert read(all_of_bomb(8)) == (one(NULL), [])


def test_all_schemas_of_a_constraint_share_one_budget():
    ledger = Ledger()
    large = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": "x" * 100} for n in range(500)},
    }
    shapes = [shape_of(large, f"t{n}", ledger) for n in range(12)]
    assert [shape == FREE for shape in shapes] == [False] * 5 + [True] * 7
    assert 5 * 91_000 < MAX_TOTAL_CHARS < 6 * 91_000
    assert {note.code for note in ledger.all()} == {"schema_too_large"}


def test_notes_are_bounded_and_told_once():
    ledger = Ledger()
    properties = {f"p{n}": {"type": "array", "uniqueItems": True, "items": {"type": "null"}} for n in range(100)}
    shape_of({"type": "object", "properties": properties}, "f", ledger)
    assert len(ledger.all()) == MAX_NOTES
    again = Ledger()
    again.loosen("not", "f")
    again.loosen("not", "f")
    assert len(again.all()) == 1


@check_each("schema", [7, {"description": "\ud800"}], ids=["a number", "no text"])
def test_what_is_no_schema_is_refused(schema: Any):
    with pytest.raises(SchemaError):
        shape_of(schema, "f", Ledger())


@check_each("schema", [{"$ref": "https://example.invalid/x"}, {"type": "any"}, {"$ref": "#/$defs/missing"}], ids=str)
def test_what_is_not_understood_in_a_schema_has_no_shape(schema: Any):
    whole, plain = ({"type": "object", "properties": {"a": inner}} for inner in (schema, {}))
    assert shape_of(whole, "f", Ledger()) == shape_of(plain, "f", Ledger())
