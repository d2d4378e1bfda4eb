"""Arguments that came whole and plain: what is read at once, what is not, and that it is what the tolerant reader reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.core.test_json_repair_properties import FORMATS, VALID, VALID_TEXT
from tests.time_growth import assert_linear
from toolspeak.core.json_repair.containers import MAX_SIZE, Allowance
from toolspeak.core.json_repair.parser import JSONParser
from toolspeak.core.json_repair.tokens import Writer
from toolspeak.core.parsing.fast_paths import whole_object

pytestmark = [pytest.mark.requirement("B4"), pytest.mark.requirement("B8")]

#: The text, the value, and how it is written again.
PLAIN: dict[str, tuple[str, dict[str, Any], str]] = {
    "nothing": ("{}", {}, "{}"),
    "spaces": ("{ \t\r\n}", {}, "{}"),
    "a text": ('{"a": "x"}', {"a": "x"}, '{"a":"x"}'),
    "an empty text": ('{"a": "", "b": ""}', {"a": "", "b": ""}, '{"a":"","b":""}'),
    "words": ('{"a":true,"b" : null , "c":-1.50}', {"a": True, "b": None, "c": -1.5}, '{"a":true,"b":null,"c":-1.5}'),
    "escapes": (r'{"a": "\"\\\b\f\n\r\t"}', {"a": '"\\\b\f\n\r\t'}, r'{"a":"\"\\\b\f\n\r\t"}'),
    "a comma in a text": ('{"a:": "x, y: z"}', {"a:": "x, y: z"}, '{"a:":"x, y: z"}'),
    "letters": ('{"é": "🌍\x7f\u2028"}', {"é": "🌍\x7f\u2028"}, '{"é":"🌍\x7f\u2028"}'),
    "arrays": (
        '{"a": ["x", "y,"], "b": [1, 2], "c": [], "d": [{"e": "f"}, {}], "g": [true, "x"]}',
        {"a": ["x", "y,"], "b": [1, 2], "c": [], "d": [{"e": "f"}, {}], "g": [True, "x"]},
        '{"a":["x","y,"],"b":[1,2],"c":[],"d":[{"e":"f"},{}],"g":[true,"x"]}',
    ),
    "objects": ('{"a": {"b": "c", "d": [1]}}', {"a": {"b": "c", "d": [1]}}, '{"a":{"b":"c","d":[1]}}'),
    "lines": ('{\n  "a": [\n    "x"\n  ]\n}', {"a": ["x"]}, '{"a":["x"]}'),
}

NOT_PLAIN = {
    "no object": '["a"]',
    "cut": '{"a": "x"',
    "cut in a text": '{"a": "x',
    "a trailing comma": '{"a": 1,}',
    "a trailing comma in an array": '{"a": [1,]}',
    "a key twice": '{"a": 1, "a": 1}',
    "a key twice inside": '{"a": {"b:": 1, "b:": 2}}',
    "an escaped slash": r'{"a": "\/"}',
    "an escaped letter": r'{"a": "\u0041"}',
    "half a surrogate pair": '{"a": "\ud800"}',
    "an escaped half": r'{"a": "\ud800"}',
    "an escaped key": r'{"a\n": 1}',
    "no key": '{"": 1}',
    "a long key": f'{{"{"k" * 65}": 1}}',
    "a raw line break": '{"a": "x\ny"}',
    "no number": '{"a": NaN}',
    "a large number": '{"a": 1e5}',
    "a long number": '{"a": 1234567890123456}',
    "a leading zero": '{"a": 01}',
    "single quotes": "{'a': 1}",
    "a comment": '{"a": 1 /* one */}',
    "a doubled quote": '{"a": ""x""}',
    "an empty element": '{"a": [""]}',
    "a number behind a text": '{"a": ["x", 1]}',
    "three levels": '{"a": {"b": {"c": 1}}}',
    "a comma before the closing quote": '{"a": "x,"}',
    "a comma before a key": '{"a": "x, "b": 1}',
    "an inner quote": '{"a": "x" y"}',
    "no colon": '{"a" 1}',
    "two values": '{"a": 1 2}',
    "no comma": '{"a": "x" "b": 1}',
    "a space of another kind": '{\u00a0"a": 1}',
}


def read(text: str, stops: tuple[str, ...]) -> tuple[str, Any, int, tuple[Any, ...]]:
    """What the tolerant reader makes of the text."""
    parser = JSONParser(stops=stops)
    end = parser.feed(text)
    return parser.status, "".join(map(Writer().write, parser.tokens)), end, parser.notes


@check_each("name", PLAIN)
def test_a_plain_object_is_read_at_once(name: str):
    text, value, written = PLAIN[name]
    whole = whole_object(f"x{text}\n```", 1, ("```",))
    assert whole is not None
    assert whole[:3] == (value, written, len(text) + 1)
    allowance = Allowance()
    allowance.remaining = whole.values + 1
    assert whole_object(f"x{text}\n```", 1, ("```",), allowance, 1) == whole
    assert whole_object(f"x{text}\n```", 1, ("```",), allowance, 2) is None, "more than may still be read"


@check_each("text", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_tolerant_reader(text: str):
    assert whole_object(text + "\n```", 0, ()) is None


@check_each("behind", ["", " ", '"', "x", " x", "\u00a0é", "\ufeff1", "\n_"])
def test_a_text_at_the_end_is_doubted_when_nothing_or_more_text_follows(behind: str):
    assert whole_object('{"a": "x"}' + behind, 0, ()) is None
    assert whole_object('{"a": 1}' + behind, 0, ()) is not None


@check_each("stop", ['"', "}", "]", ",", "\n1", " {", "true", "-", "[", "[1]", "[ ", ":", "9", "\n", ""])
def test_a_mark_that_could_stand_in_json_forbids_it(stop: str):
    assert whole_object('{"a": 1}<', 0, ("</t>", stop)) is None


@check_each("stop", ["</t>", "```", "~~~", "[/TOOL_CALLS]", "[END_TOOL_REQUEST]", "\nObservation:", "/TOOL"])
def test_other_marks_do_not(stop: str):
    assert whole_object('{"a": 1}<', 0, ("</t>", stop)) is not None


@given(st.dictionaries(VALID_TEXT, VALID, max_size=4), FORMATS, st.sampled_from(["\n```", "</t>", "}", ", x", ""]))
@example({"a": ["x" * 70, '\\"' * 40]}, {}, "}")
@example({"a": {"b": -0.0, "c": 0}}, {}, "}")
def test_what_is_read_at_once_is_what_the_tolerant_reader_reads(
    value: dict[str, Any], formats: dict[str, Any], behind: str
):
    stops = ("</t>", "```")
    text = json.dumps(value, **formats) + behind
    whole = whole_object(text, 0, stops)
    if whole is not None:
        status, strict, end, notes = read(text, stops)
        assert (status, json.loads(strict), end, notes) == ("complete", value, whole.end, ())
        assert json.dumps(json.loads(whole.text)) == json.dumps(whole.value) == json.dumps(value)


def test_arguments_that_are_too_large_are_left_to_the_tolerant_reader():
    assert whole_object(f'{{"a": "{"x" * (MAX_SIZE - 9)}"}}\n<', 0, ()) is not None
    assert whole_object(f'{{"a": "{"x" * (MAX_SIZE - 8)}"}}\n<', 0, ()) is None


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
@check_each("piece", ['"a":1,', '"a":[1,1,', '"a":"x","b', '":1,":1,', '"a":{"b":"', r"\n", ", ", '["x",', " "])
def test_time_is_linear_in_a_text_that_never_ends(piece: str):
    def make(count: int):
        text = "{" + piece * count
        return lambda: whole_object(text, 0, ())

    assert_linear(make, 20_000)
