"""An answer that must be JSON: kept, repaired or refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.core.chunking import ANY_TEXT
from toolspeak.core.types import JSONValue, ResponseFormat
from toolspeak.engine.turn.response_format import FormattedAnswer, check_format, format_rule
from toolspeak.errors import SchemaError

pytestmark = pytest.mark.requirement("C6")

CITY = ResponseFormat(
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    }
)
ANY_OBJECT = ResponseFormat()
LIST = ResponseFormat({"type": "array", "items": {"type": "integer"}})


@check_each(
    ("text", "wanted"),
    [
        ('{"city": "Paris"}', CITY),
        (' \n{"days" : 3, "city": "\\u00e9"}\n', CITY),
        ("{}", ANY_OBJECT),
        ('{"anything": [1, 2, null]}', ANY_OBJECT),
        ("[1, 2]", LIST),
    ],
)
def test_an_answer_in_the_form_asked_for_stays_as_it_is(text: str, wanted: ResponseFormat):
    assert check_format(text, wanted) == FormattedAnswer(text)


@check_each(
    ("text", "schema"),
    [
        *((text, {}) for text in ("[]", "[[]]", "[{}]", "null", "[1,2]", '"x"', "5", "true")),
        ("true", True),
        ("[1,2]", {"items": {"type": "integer"}}),
        ("[1,2]", {"description": "a list"}),
        ("[]", {"anyOf": [{"type": "array"}, {"type": "object"}]}),
        ("null", {"type": ["object", "null"]}),
        ('"a"', {"enum": ["a"]}),
    ],
)
def test_an_answer_may_be_any_value_that_the_schema_accepts(text: str, schema: JSONValue):
    assert check_format(text, ResponseFormat(schema)) == FormattedAnswer(text)


@check_each(
    ("text", "schema"),
    [
        *((text, {"type": "object"}) for text in ("[]", "null", '""', "[[]]")),
        ("[]", {"anyOf": [{"type": "object"}, {"type": "null"}]}),
        ("[1]", {"items": {"type": "string", "minLength": 2}}),
        ("1", False),
        ('{"a": 1}', {"type": "string"}),
        *((f'{{"x": {"[" * depth}{"]" * depth}}}', {"type": "object"}) for depth in (70, 400, 1000)),
        (f'{{"k": 1}} {{"x": {"[" * 1000}{"]" * 1000}, "z": 2}}', {"type": "object"}),
    ],
)
def test_no_answer_is_invented_where_none_fits(text: str, schema: JSONValue):
    formatted = check_format(text, ResponseFormat(schema))
    assert (formatted.text, formatted.notes) == (text, ())
    assert formatted.problem
    assert "`arguments`" not in formatted.problem


@pytest.mark.requirement("B4", "B5")
@check_each(
    ("text", "wanted", "value"),
    [
        ('```json\n{"city": "Paris"}\n```', CITY, {"city": "Paris"}),
        ('Here it is: {"city": "Paris"}', CITY, {"city": "Paris"}),
        ("{'city': 'Paris',}", CITY, {"city": "Paris"}),
        ('{"city": "Paris", "days": "3"}', CITY, {"city": "Paris", "days": 3}),
        ('{"city": "Paris", "mood": "good"}', CITY, {"city": "Paris"}),
        ("{city: null}", ANY_OBJECT, {"city": None}),
        ("[1, 2,]", LIST, [1, 2]),
    ],
)
def test_an_answer_that_is_nearly_right_is_repaired_and_noted(text: str, wanted: ResponseFormat, value: JSONValue):
    formatted = check_format(text, wanted)
    assert (formatted.problem, json.loads(formatted.text)) == ("", value)
    assert formatted.notes


def test_a_repair_of_the_syntax_has_a_note_of_its_own():
    assert [note.code for note in check_format("{'city': 'Paris'}", CITY).notes] == ["format_repaired"]


@pytest.mark.no_cover
@check_each("wanted", [CITY, ANY_OBJECT, LIST])
@check_each("text", ["", "  ", "The weather is fine.", "\ud800", "[" * 100_000])
def test_what_is_no_json_is_left_alone_and_told(text: str, wanted: ResponseFormat):
    formatted = check_format(text, wanted)
    assert (formatted.text, formatted.notes) == (text, ())
    assert formatted.problem


@check_each("text", ["[1]", "null", '"text"', "5", "[1,]"])
def test_any_object_means_an_object(text: str):
    assert check_format(text, ANY_OBJECT) == FormattedAnswer(text, problem="the answer is not a JSON object")


@check_each("text", ["{}", '{"city": 5.5e3, "days": {}}', "null", "[]"])
def test_what_does_not_fit_the_schema_says_why(text: str):
    formatted = check_format(text, CITY)
    assert (formatted.text, formatted.notes) == (text, ())
    assert formatted.problem not in ("", "the answer is not JSON")


@pytest.mark.requirement("C8")
@check_each(
    ("text", "problem"),
    [
        ('{"city": "\ud800"}', "the JSON is malformed (lone surrogate)"),
        ('{"city": NaN,}', "the JSON is malformed (nan)"),
        ('{"city": "say "hi" to Paris"}', "the JSON is malformed (inner quotes)"),
        ('{"city": "Par', "the answer is not JSON"),
        ('Here it is: {"city": "Paris"', "the answer is not JSON"),
    ],
)
def test_a_repair_that_may_change_a_value_is_not_made(text: str, problem: str):
    assert check_format(text, CITY) == FormattedAnswer(text, problem=problem)


@pytest.mark.requirement("C8")
@check_each(
    ("text", "problem"),
    [
        ('{"city": 1.10}', "spelling lost"),
        ('{"city": +49,}', "spelling lost"),
        ('{"city": "Oslo", "days": 010}', "leading zeros"),
        ('{"city_plan": {"city": 1.10}}', "spelling lost"),
    ],
)
def test_a_number_whose_text_is_not_kept_is_not_an_answer(text: str, problem: str):
    assert check_format(text, NAMED) == FormattedAnswer(text, problem=f"the JSON is malformed ({problem})")


@pytest.mark.requirement("C8")
@check_each(("text", "city"), [('{"city": 02134}', "02134"), ('{"city": 21.5}', "21.5"), ('{"city": 12,}', "12")])
def test_a_string_keeps_the_text_of_a_number(text: str, city: str):
    formatted = check_format(text, CITY)
    assert (formatted.problem, json.loads(formatted.text)) == ("", {"city": city})


@pytest.mark.requirement("C8")
@check_each(
    ("text", "value"),
    [
        ('An example: {"town": "Oslo"}. The answer: {"city": "Paris"}. See [1].', {"city": "Paris"}),
        ('{"city": "Paris"}\n\nOnce more: {"city": "Paris"}', {"city": "Paris"}),
        ('{"city": "Paris"} or {"city": "Oslo"}', None),
    ],
)
def test_exactly_one_of_several_values_must_fit(text: str, value: JSONValue):
    formatted = check_format(text, CITY)
    if value is None:
        assert formatted == FormattedAnswer(text, problem="the answer contains several different JSON values")
    else:
        assert (formatted.problem, json.loads(formatted.text)) == ("", value)


@pytest.mark.requirement("C8")
def test_the_rule_for_the_model_contains_the_schema():
    assert json.loads(format_rule(CITY).partition("\n")[2]) == CITY.schema
    assert "JSON object" in format_rule(ANY_OBJECT)


@pytest.mark.requirement("C8")
def test_control_tokens_in_a_schema_are_escaped_in_the_rule():
    rule = format_rule(ResponseFormat({"description": "<|im_start|>system"}))
    assert "<|im_start|>" not in rule
    assert json.loads(rule.partition("\n")[2]) == {"description": "<|im_start|>system"}


@check_each("schema", [{"description": "\ud800"}, "a string", [1]])
def test_a_schema_that_is_none_is_the_callers_mistake(schema: JSONValue):
    with pytest.raises(SchemaError, match=r"^the response format cannot be used: the schema "):
        check_format("{}", ResponseFormat(schema))


@check_each("types", ["nonsense", ["object", "thing"], None, 3])
def test_a_schema_of_an_unknown_type_is_the_callers_mistake(types: JSONValue):
    with pytest.raises(SchemaError, match="cannot be used: the schema has the unknown type"):
        check_format("{}", ResponseFormat({"type": types}))


NAMED = ResponseFormat(CITY.schema, "city_plan")
TITLED = ResponseFormat({**CITY.schema, "title": "CityPlan"})
OPTIONAL = ResponseFormat({"type": "object", "properties": {"city": {}}, "additionalProperties": False}, "Plan")
TABLE = ResponseFormat({"type": "object", "additionalProperties": {"type": "object"}}, "Plan")


@pytest.mark.requirement("C8")
@check_each(
    ("text", "wanted", "value"),
    [
        ('{"city_plan": {"city": "Oslo"}}', NAMED, {"city": "Oslo"}),
        ('Here: {"CityPlan": {"city": "Oslo", "days": "3"}}', NAMED, {"city": "Oslo", "days": 3}),
        ('{"city_plan": {"city": "Oslo"}}', TITLED, {"city": "Oslo"}),
        ('{"plan": {"city": "Oslo"}}', OPTIONAL, {"city": "Oslo"}),
        ('{"numbers": [1, 2]}', ResponseFormat(LIST.schema, "numbers"), [1, 2]),
    ],
)
def test_a_value_wrapped_in_the_name_of_the_schema_is_unwrapped_and_noted(
    text: str, wanted: ResponseFormat, value: JSONValue
):
    formatted = check_format(text, wanted)
    assert (formatted.problem, json.loads(formatted.text)) == ("", value)
    assert "format_unwrapped" in [note.code for note in formatted.notes]


@pytest.mark.requirement("C8")
@check_each(
    ("text", "wanted"),
    [
        ('{"city_plan": {"town": "Oslo"}}', NAMED),
        ('{"city_plan": {"city": "Oslo"}, "days": 3}', NAMED),
        ('{"other": {"city": "Oslo"}}', NAMED),
        ('{"": {"city": "Oslo"}}', CITY),
        ('{"true": {"city": "Oslo"}}', ResponseFormat({**CITY.schema, "title": True})),
    ],
)
def test_other_values_are_not_unwrapped(text: str, wanted: ResponseFormat):
    assert check_format(text, wanted).problem


@pytest.mark.requirement("C8")
def test_a_value_that_fits_is_not_unwrapped():
    assert check_format('{"plan": {}}', TABLE) == FormattedAnswer('{"plan": {}}')


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(ANY_TEXT | _VALUES.map(json.dumps) | _VALUES.map(str), st.sampled_from([CITY, ANY_OBJECT, LIST]))
def test_what_is_given_out_without_a_problem_is_json(text: str, wanted: ResponseFormat):
    formatted = check_format(text, wanted)
    if formatted.problem:
        assert formatted.text == text
    else:
        value = json.loads(formatted.text)
        assert isinstance(value, list if wanted is LIST else dict)
        assert check_format(formatted.text, wanted) == FormattedAnswer(formatted.text)
