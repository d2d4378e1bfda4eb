"""An answer that must be JSON: kept, repaired or refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.core.chunking import ANY_TEXT
from toolspeak.core.types import JSONValue, ResponseFormat
from toolspeak.engine.turn.response_format import FormattedAnswer, check_format
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


def test_halves_of_surrogate_pairs_are_repaired():
    formatted = check_format('{"city": "\ud800"}', CITY)
    assert json.loads(formatted.text) == {"city": "\ufffd"}
    assert formatted.notes


def test_a_schema_that_is_none_is_the_callers_mistake():
    with pytest.raises(SchemaError):
        check_format("{}", ResponseFormat({"description": "\ud800"}))


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
