"""Shapes as grammars: what engines accept by them, and that they accept the grammars themselves."""

from __future__ import annotations

import json
import re
from calendar import monthrange
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from tests.cases import check_each, size
from tests.engine.enforced_schemas import CHARS, PARAMETERS, TOKENIZER, llguidance_accepts, values
from tests.engine.gbnf_matcher import Gbnf
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.engine.constraints.grammars import gbnf, lark
from toolspeak.engine.constraints.shapes import MAX_ITEMS, MAX_STRING, Ledger, shape_of


def grammars(schema: Any) -> tuple[Gbnf, str, list[str]]:
    ledger = Ledger()
    shape = shape_of(schema, "f", ledger)
    pair = Gbnf(gbnf(shape, ledger)), lark(shape, ledger)
    assert LLMatcher.validate_grammar(pair[1], TOKENIZER) == ""
    return *pair, [note.detail for note in ledger.all()]


def check(schema: Any, document: str, accepted: bool) -> None:
    matcher, text, _ = grammars(schema)
    assert matcher.accepts(document) is accepted, "gbnf"
    assert llguidance_accepts(text, document) is accepted, "lark"


def of(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


FLAGS = {"type": "object", "properties": {name: {"type": "boolean"} for name in "xyz"}}
MIDDLE = {**FLAGS, "required": ["y"]}
PAIR = of({"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "minItems": 1, "maxItems": 3})
EXTRA = {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "boolean"}}

#: name, schema, accepted documents, refused documents
TABLE: list[tuple[str, Any, list[str], list[str]]] = [
    ("one space at most", of({"type": "null"}), ['{"a":null}', '{"a": null}'], ['{"a":  null}', '{ "a":null}', '{"a":null }', '{"a":null}\n']),
    ("strings", of({"type": "string"}), [r'{"a":"é \" \\ \/ \n \u00e9 😀"}', '{"a":""}', '{"a":"\x7f"}'], ['{"a":"\n"}', r'{"a":"\x"}', r'{"a":"\ud83d\ude00"}', '{"a":"', '{"a":1}']),
    ("lengths", of({"type": "string", "minLength": 1, "maxLength": 2}), ['{"a":"é"}', r'{"a":"\n\u00e9"}'], ['{"a":""}', '{"a":"abc"}']),
    ("empty strings", of({"type": "string", "maxLength": 0}), ['{"a":""}'], ['{"a":"b"}']),
    ("whole numbers", of({"type": "integer"}), ['{"a":0}', '{"a":-12}', '{"a":9223372036854775807}'], ['{"a":1.5}', '{"a":01}', '{"a":-0}', '{"a":1e3}', '{"a":+1}']),
    ("bounded whole numbers", of({"type": "integer", "minimum": 1, "maximum": 14}), ['{"a":1}', '{"a":14}'], ['{"a":0}', '{"a":15}', '{"a":140}']),
    ("numbers", of({"type": "number"}), ['{"a":0}', '{"a":-1.5e-07}', '{"a":1E5}', '{"a":0.25}'], ['{"a":.5}', '{"a":1.}', '{"a":1e999}', '{"a":NaN}']),
    ("numbers that are not negative", of({"type": "number", "minimum": 0}), ['{"a":0.5}'], ['{"a":-0.5}']),
    ("fixed values", of({"enum": ["a\"b", 1, None, True]}), ['{"a":"a\\"b"}', '{"a":1}', '{"a":null}', '{"a":true}'], ['{"a":"1"}', '{"a":false}']),
    ("fixed objects", of({"const": {"k": [1, "x"]}}), ['{"a": {"k": [1, "x"]}}', '{"a":{"k":[1,"x"]}}'], ['{"a":{}}', '{"a":{"k":[1]}}']),
    ("dates", of({"type": "string", "format": "date"}), ['{"a":"2024-02-29"}'], ['{"a":"2024-13-01"}', '{"a":"soon"}']),
    ("times", of({"type": "string", "format": "date-time"}), ['{"a":"2024-02-29T23:59:00Z"}', '{"a":"2024-02-29T09:59:00.25+01:00"}'], ['{"a":"2024-02-29T24:00:00Z"}', '{"a":"2024-02-29"}']),
    ("identifiers", of({"type": "string", "format": "uuid"}), ['{"a":"123e4567-e89b-12d3-a456-426614174000"}'], ['{"a":"123e4567"}']),
    ("lists", of({"type": "array", "items": {"type": "null"}, "maxItems": 2}), ['{"a":[]}', '{"a":[null]}', '{"a":[null, null]}'], ['{"a":[null,null,null]}', '{"a":[,]}', '{"a":[null,]}']),
    ("lists that must not be empty", of({"type": "array", "items": {"type": "null"}, "minItems": 2}), ['{"a":[null,null,null]}'], ['{"a":[]}', '{"a":[null]}']),
    ("empty lists", of({"type": "array", "maxItems": 0}), ['{"a":[]}'], ['{"a":[1]}']),
    ("tuples", PAIR, ['{"a":[null]}', '{"a":[null,true]}', '{"a":[null,true,"x"]}'], ['{"a":[]}', '{"a":[true]}', '{"a":[null,"x"]}', '{"a":[null,true,1,1]}']),
    ("tuples that may be empty", of({"type": "array", "prefixItems": [{"type": "null"}], "items": False}), ['{"a":[]}', '{"a":[null]}'], ['{"a":[null,null]}']),
    ("optional members", FLAGS, ['{}', '{"x":true}', '{"y":true}', '{"x":true,"z":false}', '{"x":true,"y":true,"z":true}'], ['{"y":true,"x":true}', '{,"y":true}', '{"x":true,}', '{"w":true}', '{"x":true"z":true}']),
    ("a required member between optional ones", MIDDLE, ['{"y":true}', '{"x":true,"y":true}', '{"y":true,"z":true}'], ['{}', '{"x":true}', '{"x":true,"z":true}']),
    ("no members", {"type": "object", "properties": {}}, ["{}"], ['{"a":1}', "{ }"]),
    ("any members", {"type": "object"}, ["{}", '{"k": [1, {"m": {"n": null}}], "l": "x"}'], ['{"k":{"l":{"m":{"n":{}}}}}', "[]", '{"k"}']),
    ("members of one kind", {"additionalProperties": {"type": "boolean"}}, ["{}", '{"k":true,"l":false}'], ['{"k":1}']),
    ("further members", EXTRA, ["{}", '{"a":null}', '{"k":true}', '{"a":null,"k":true,"l":true}'], ['{"k":true,"a":null}', '{"k":null}', '{"a":null,"a":true}', '{"a":true}']),
    ("further members behind a required one", {**EXTRA, "required": ["a"]}, ['{"a":null,"k":true}'], ["{}", '{"k":true}', '{"a":null,"a":true}']),
    ("alternatives", of({"type": ["boolean", "null"]}), ['{"a":true}', '{"a":null}'], ['{"a":1}']),
]  # fmt: skip


@pytest.mark.requirement("A7")
@check_each(("schema", "accepted", "refused"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_grammars_accept_what_fits_and_nothing_else(schema: Any, accepted: list[str], refused: list[str]):
    for document in accepted:
        check(schema, document, True)
    for document in refused:
        check(schema, document, False)


LONG = [
    ({"type": "string", "maxLength": 1024}, 1024),
    ({"type": "string", "maxLength": 2000}, 2000),
    ({"type": "string", "minLength": 900, "maxLength": 1100}, 1100),
]


@check_each(("schema", "most"), LONG, ids=str)
def test_long_strings_are_bounded_exactly(schema: Any, most: int):
    least = schema.get("minLength", 0)
    for length in {least, most // 2 + least // 2, most - 1, most}:
        check(of(schema), f'{{"a":"{"y" * length}"}}', True)
    for length in {least - 1, most + 1} - {-1}:
        check(of(schema), f'{{"a":"{"y" * length}"}}', False)


@pytest.mark.no_cover
def test_a_string_without_a_bound_ends_too():
    check(of({"type": "string"}), f'{{"a":"{"y" * MAX_STRING}"}}', True)
    check(of({"type": "string"}), f'{{"a":"{"y" * (MAX_STRING + 1)}"}}', False)
    assert grammars(of({"type": "string", "maxLength": 10**9})) == grammars(of({"type": "string"}))


def test_lists_and_free_objects_end():
    items, keys = ",".join(["1"] * MAX_ITEMS), ",".join(['"k":1'] * MAX_ITEMS)
    check({"type": "object"}, f'{{"a":[{items}]}}', True)
    check({"type": "object"}, f'{{"a":[{items},1]}}', False)
    check({"type": "object"}, f"{{{keys}}}", True)
    check({"type": "object"}, f'{{{keys},"k":1}}', False)


LOOSENED = [
    ({"type": "string", "pattern": "^a+$"}, "pattern"),
    ({"type": "string", "format": "email"}, "format"),
    ({"type": "string", "minLength": MAX_STRING + 1}, "minLength"),
    ({"type": "integer", "multipleOf": 5}, "multipleOf"),
    ({"type": "integer", "minimum": 10**30}, "minimum and maximum"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "minimum and maximum"),
    ({"type": "number", "minimum": 1}, "minimum and maximum"),
    ({"type": "number", "exclusiveMinimum": 0}, "minimum and maximum"),
    ({"type": "number", "minimum": -5, "maximum": 5}, "minimum and maximum"),
]


@check_each(("schema", "word"), LOOSENED, ids=str)
def test_what_a_grammar_cannot_say_is_noted(schema: Any, word: str):
    _, _, details = grammars(of(schema))
    assert details == [f"`{word}` of `answer.a` is only validated afterwards"]


def test_numbers_with_an_open_lower_bound_keep_only_a_sign_that_may_stand():
    check(of({"type": "number", "exclusiveMinimum": 0}), '{"a":-1}', False)
    check(of({"type": "number", "exclusiveMinimum": -1}), '{"a":-0.5}', True)


@pytest.mark.parametrize("year", [1900, 2000, 2023, 2024])
def test_a_date_is_a_day_that_there_is(year: int):
    matcher, text, _ = grammars({"type": "string", "format": "date"})
    for month, day in product(range(14), range(33)):
        there_is = 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]
        document = f'"{year}-{month:02}-{day:02}"'
        assert matcher.accepts(document) is there_is, document
        if day > 27:
            assert llguidance_accepts(text, document) is there_is, document


@check_each("bounds", [{"minLength": 11}, {"maxLength": 9}], ids=str)
def test_a_format_that_a_bound_of_its_length_cuts_is_noted(bounds: Any):
    date = {"type": "string", "format": "date"}
    assert grammars({**date, "minLength": 10, "maxLength": 10})[2] == []
    assert grammars({**date, **bounds})[2] == ["`minLength and maxLength` of `answer` is only validated afterwards"]


DECLARED = ("a", "ab", "", 'quo"te', "back\\slash", "a/b", "line\nbreak", "\x01", "ü", "名前", "😀", "😀x")
#: May hold values of another kind than the declared members have.
DECLARING = {
    "type": "object",
    "properties": {name: {"type": "null"} for name in DECLARED},
    "additionalProperties": {"type": "boolean"},
}


@check_each("name", DECLARED, ids=ascii)
def test_no_spelling_of_a_declared_name_is_a_further_key(name: str):
    matcher, text, notes = grammars(DECLARING)
    assert notes == []
    escaped = "".join(f"\\u{ord(char):04x}" for char in name if ord(char) < 0x10000)
    spellings = {json.dumps(name), json.dumps(name, ensure_ascii=False), json.dumps(name).replace("/", "\\/")}
    for key in spellings | ({f'"{escaped}"'} if escaped and "😀" not in name else set()):
        assert not matcher.accepts(f"{{{key}:true}}"), key
        assert not llguidance_accepts(text, f"{{{key}:true}}"), key


@settings(max_examples=size(20, 80), deadline=None)
@given(st.one_of(st.text(CHARS, max_size=5), st.sampled_from(DECLARED).flatmap(lambda name: st.text(CHARS, max_size=2).map(name.__add__))))  # fmt: skip
def test_every_other_name_is_a_further_key(name: str):
    matcher, text, _ = grammars(DECLARING)
    # Of the characters that JSON cannot hold as they are, only those with a short escape.
    wanted = name not in DECLARED and re.search(r"\\u00[01]", json.dumps(name, ensure_ascii=False)) is None
    document = f"{{{json.dumps(name, ensure_ascii=False)}:true}}"
    assert matcher.accepts(document) >= wanted
    assert llguidance_accepts(text, document) >= wanted
    if name in DECLARED:
        assert not matcher.accepts(document)


def test_a_declared_name_among_further_keys_is_noted_where_there_are_very_many():
    names = [f"{number:0256}" for number in range(9)]
    schema = {"type": "object", "properties": dict.fromkeys(names, True), "additionalProperties": True}
    assert grammars(schema)[2] == ["an additional key of `answer` may repeat a declared one"]


@pytest.mark.requirement("R-T12")
def test_grammars_grow_with_the_schema_and_not_faster():
    def length(count: int) -> int:
        schema = {"type": "object", "properties": {f"p{n:04}": {"type": "boolean"} for n in range(count)}}
        ledger = Ledger()
        return len(gbnf(shape_of(schema, "f", ledger), ledger))

    most = size(200, 800)
    assert length(most) / length(most // 2) < 2.3


def test_names_of_rules_suit_both_languages():
    matcher, text, _ = grammars(of({"type": "string", "format": "date-time"}))
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", name) for name in matcher.rules)
    assert all(re.match(r"[a-z_0-9]+: |[A-Z_0-9]+: ", line) for line in text.removesuffix("\n").split("\n"))


@settings(max_examples=size(15, 60), deadline=None)
@given(st.data())
def test_everything_that_the_grammar_produces_fits_the_schema(data: st.DataObject):
    schema = data.draw(PARAMETERS)
    matcher, text, details = grammars(schema)
    assert details == []
    document = matcher.produce(lambda low, high: data.draw(st.integers(low, high)))
    assert ArgumentSchema.of(schema).problems(json.loads(document)) == ()
    assert matcher.accepts(document)
    assert llguidance_accepts(text, document)


@settings(max_examples=size(15, 60), deadline=None)
@given(st.data())
def test_every_value_that_fits_is_accepted(data: st.DataObject):
    schema = data.draw(PARAMETERS)
    value = data.draw(values(schema))
    matcher, text, _ = grammars(schema)
    for document in (
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, ensure_ascii=False, separators=(",", ":")),
    ):
        assert matcher.accepts(document)
        assert llguidance_accepts(text, document)
