"""The end of tolerant JSON: cut off, at a stop mark, hopeless, unsafe, too large; and its tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each, size
from tests.core.parsing_helpers import codes, names, read, read_chunks, written
from toolspeak.core.json_repair.containers import MAX_DEPTH, MAX_REPAIRS, MAX_SIZE
from toolspeak.core.json_repair.parser import UNSAFE_NOTES, VALUE_CHANGING_NOTES, JSONParser
from toolspeak.core.json_repair.tokens import (
    ARRAY,
    END_ARRAY,
    END_OBJECT,
    END_STRING,
    KEY,
    OBJECT,
    PART,
    SCALAR,
    STRING,
    Writer,
)

pytestmark = pytest.mark.requirement("B4")


CUT: list[tuple[str, Any]] = [
    ("{", {}),
    ("[", []),
    ("(", []),
    ("(1", 1),
    ("(1, ", [1]),
    ("[[1\n\n]", [[1]]),
    ('{"a', {}),
    ('{"a"', {}),
    ('{"a:b"', {}),
    ("{a", {}),
    ('{"a":', {"a": None}),
    ('{"a": ', {"a": None}),
    ('{"a": "', {"a": ""}),
    ('{"a": "x', {"a": "x"}),
    ('{"a": "x"', {"a": "x"}),
    ('{"a": "x\\', {"a": "x"}),
    ('{"a": "x\\u00', {"a": "x"}),
    ('{"a": 1', {"a": 1}),
    ('{"a": 1,', {"a": 1}),
    ('{"a": tr', {"a": "tr"}),
    ('{"a": 1, "b', {"a": 1}),
    ('{"a": 1, b', {"a": 1}),
    ('{"a": 1, "b"', {"a": 1}),
    ('{"a": Paris, Fr', {"a": "Paris"}),
    ('{"a": "x,', {"a": "x,"}),
    ('{"a": "x, "', {"a": "x, "}),
    ('{"a": "x", ', {"a": "x"}),
    ('{"a": "say "hi', {"a": 'say "hi'}),
    ('{"a": [1, {"b": [2', {"a": [1, {"b": [2]}]}),
    ('["', []),
    ('["a', ["a"]),
    ('["a"', ["a"]),
    ('[""', [""]),
    ('[1, "a:b', [1, "a:b"]),
    ('["a":', [{"a": None}]),
    ('{"a:', {"a": None}),
    ('{"a:1', {"a": 1}),
    ('{"a: b c', {"a": "b c"}),
    ('{"a: b:c', {"a": "b:c"}),
    ('{"a": 1 // x', {"a": 1}),
    ('{"a": 1 /* x', {"a": 1}),
    ('{"a": /', {"a": "/"}),
    ('{"a": // x', {"a": None}),
    ('{"a": 1 /', {"a": "1 /"}),
    ('{"a": """x""', {"a": 'x""'}),
    ('{"a": <|"|>x<|"', {"a": 'x<|"'}),
    (r"{\"a\": \"x\\", {"a": "x"}),
    (r"{\"a\": \"x\\\\", {"a": "x\\"}),
    (r"{\"a\": \"x\\\\"[:-1], {"a": "x\\"}),
    ('{"a": \\"x\\', {"a": "x"}),
    ('{"a": r"x\\', {"a": "x\\"}),
    ('{"a": b', {"a": "b"}),
    ('{"a": x"', {"a": "x"}),
    ('{"a": <', {"a": "<"}),
    ("{{", {}),
    ('{{"a": 1}', {"a": 1}),
    ('{"a": "x", ..', {"a": "x"}),
    ('{"a": (', {"a": []}),
    ('{"a": ("x', {"a": "x"}),
    ('"x', "x"),
    ('"', ""),
    ('{"a": [1]', {"a": [1]}),
    ('{"a": [1],', {"a": [1]}),
    ("[[1}", [[1]]),
]


@pytest.mark.requirement("B6")
@check_each(("text", "value"), CUT, ids=names(CUT))
def test_a_cut_value_is_closed_and_never_complete(text: str, value: Any):
    reading = read(text)
    assert (reading.status, reading.end) == ("truncated", len(text))
    assert json.loads(reading.text) == value
    assert read_chunks(text) == reading


@check_each("text", ['{"a:', '{"a:1', '{"a: b c'])
def test_a_cut_key_that_holds_its_value_lost_a_quote(text: str):
    assert "missing_quote" in codes(read(text))


@pytest.mark.requirement("B6")
@check_each(
    ("text", "value"),
    [
        ('("a', {"#0": "a"}),
        ('("a"', {"#0": "a"}),
        ('("', {}),
        ("(a=", {"a": None}),
        ("(a=1", {"a": 1}),
        ("(abc", {"#0": "abc"}),
    ],
)
def test_a_cut_argument_list_is_closed_and_never_complete(text: str, value: Any):
    reading = read(text, call=True)
    assert reading.status == "truncated"
    assert json.loads(reading.text) == value


@pytest.mark.requirement("B6")
@check_each(("text", "value"), [("12", 12), ("-1.5", -1.5), ("true", True), ("null", None), ("12 ", 12)])
def test_a_word_at_the_root_is_complete_when_the_text_ends(text: str, value: Any):
    reading = read(text)
    assert (reading.status, json.loads(reading.text), reading.notes) == ("complete", value, ())


@pytest.mark.requirement("B6")
def test_every_prefix_of_an_object_is_truncated():
    text = '{"a": [1, {"b": "c\\n\\u00e9"}], "d": {"e": null, "f": "g, \\"h\\""}}'
    for end in range(1, len(text)):
        reading = read(text[:end])
        assert reading.status == "truncated"
        json.loads(reading.text)
    assert read(text).status == "complete"


@check_each(("text", "value"), CUT, ids=names(CUT))
def test_a_mark_that_ends_the_block_makes_a_cut_value_complete_with_a_note(text: str, value: Any):
    reading = read(text, close=True)
    assert reading.status == "complete"
    assert json.loads(reading.text) == value
    assert "missing_closer" in codes(reading)


def test_closing_a_complete_value_changes_nothing():
    assert read('{"a": 1}', close=True) == read('{"a": 1}')


#: text that stands before a stop mark, what it means
STOPPED: list[tuple[str, Any]] = [
    ('{"a": 1', {"a": 1}),
    ('{"a": 1,', {"a": 1}),
    ('{"a": 1}', {"a": 1}),
    ('{"a":', {"a": None}),
    ('{"a": "x"', {"a": "x"}),
    ('{"a": ["x"', {"a": ["x"]}),
    ('{"a": foo', {"a": "foo"}),
    ('{"a": a<b', {"a": "a<b"}),
    ('{"a": 1 // comment', {"a": 1}),
    ('{"a": 1 // a < b', {"a": 1}),
    ('{"a": {"b": "say "hi" now"', {"a": {"b": 'say "hi" now'}}),
    ("[1, 2", [1, 2]),
    ("12", 12),
]


@check_each(("text", "value"), STOPPED, ids=names(STOPPED))
@check_each("space", ["", " ", "\n"])
def test_a_stop_mark_ends_the_value_wherever_it_stands_outside_quotes(text: str, value: Any, space: str):
    stops = ("</call>", "[/X]")
    reading = read(text + space + "</call> more", stops=stops)
    assert reading.status == "complete"
    assert json.loads(reading.text) == value
    closed = text.endswith("}") or text == "12"
    assert ("missing_closer" in codes(reading)) is not closed
    assert reading.end == len(text if text.endswith("}") or (text == "12" and space == "\n") else text + space)
    assert read_chunks(text + space + "</call> more", stops=stops) == reading


def test_a_stop_mark_inside_quotes_is_text():
    assert json.loads(read('{"a": "</call> x"}', stops=("</call>",)).text) == {"a": "</call> x"}


def test_the_beginning_of_a_stop_mark_is_not_one():
    assert codes(read('{"a": "x" </b', stops=("</call>",))) == {"inner_quotes"}
    assert read("</call>", stops=("</call>",)).status == "hopeless"


@check_each(
    ("text", "value"),
    [
        ('{"a": 1', {"a": 1}),
        ('{"a": "x"', {"a": "x"}),
        ('{"a": "x",', {"a": "x"}),
        ('{"a": {"b": [1', {"a": {"b": [1]}}),
        ("{", {}),
    ],
)
@check_each("space", ["", "\n", " \n\n"])
def test_a_mark_that_begins_with_a_line_break_ends_the_value(text: str, value: Any, space: str):
    stops = ("\nResult:",)
    whole = text + space + "\nResult: 4"
    reading = read(whole, stops=stops)
    assert (json.loads(reading.text), reading.status) == (value, "complete")
    assert codes(reading) == {"missing_closer"}
    assert read_chunks(whole, stops=stops) == reading


@check_each("space", ["\n", "\n\n ", "\nRe"])
def test_other_lines_do_not_end_it(space: str):
    stops = ("\nResult:",)
    whole = '{"a":\n1 // Re\n,\n"b":\n2\n}'
    assert json.loads(read(whole, stops=stops).text) == {"a": 1, "b": 2}
    assert read('{"a": 1' + space, stops=stops).status == "truncated"
    assert read_chunks(whole, stops=stops) == read(whole, stops=stops)


#: text, why it is hopeless, and where that was seen
HOPELESS: list[tuple[str, str, int]] = [
    ("", "no_value", 0),
    ("  \n", "no_value", 3),
    ("// x", "no_value", 4),
    ("}", "no_value", 0),
    (",", "no_value", 0),
    ("{x}", "not_an_object", 2),
    ("{the quick brown fox", "not_an_object", 5),
    ("{x, y}", "not_an_object", 2),
    ("{{ name }}", "not_an_object", 8),
    ("{<b>}", "not_json", 1),
    ("{|x|}", "not_an_object", 1),
    ("{*}", "not_an_object", 1),
    ("{: 1}", "not_an_object", 1),
    ("{.5: 1}", "not_an_object", 1),
    ("{[1]}", "not_an_object", 1),
    ('{"a": 1, [2]}', "not_an_object", 9),
    ('{"a": 1, {"b": 2}}', "not_an_object", 9),
    ('{{"a": 1}, {"b": 2}}', "not_an_object", 10),
    ('{"a": [1] : 2}', "not_json", 10),
    ("<b>", "not_json", 0),
    ("\\x", "not_json", 0),
    ("[\\x]", "not_json", 1),
    ("{" + "k" * 257 + ": 1}", "not_an_object", 1),
]


@check_each(("text", "code", "end"), HOPELESS, ids=names(HOPELESS))
def test_what_is_no_json_is_hopeless_as_soon_as_that_is_certain(text: str, code: str, end: int):
    reading = read(text)
    assert (reading.status, reading.end) == ("hopeless", end)
    assert code in codes(reading)
    assert read_chunks(text) == reading


def test_a_bare_key_may_be_as_long_as_the_lookahead():
    key = "k" * 256
    assert json.loads(read(f"{{{key}: 1}}").text) == {key: 1}
    assert read_chunks(f"{{{key}: 1}}") == read(f"{{{key}: 1}}")


@pytest.mark.requirement("R-E6")
@check_each(
    ("text", "code", "value"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "duplicate_key", {"a": 3, "b": 2}),
        ('{"a": 1, a: 3}', "duplicate_key", {"a": 3}),
        ('{"a": {"b": 1, "b": 2}}', "duplicate_key", {"a": {"b": 2}}),
        ('{"a": NaN}', "nan", {"a": None}),
        ('{"a": -Infinity}', "nan", {"a": None}),
        ('{"a": 1e999}', "nan", {"a": None}),
        ('{"a": "\\ud800"}', "lone_surrogate", {"a": "\ufffd"}),
        ('{"a": "\ud800"}', "lone_surrogate", {"a": "\ufffd"}),
        ('{"\\udfff": 1}', "lone_surrogate", {"\ufffd": 1}),
        ('{"a": x\ud800}', "lone_surrogate", {"a": "x\ufffd"}),
        ("{x\ud800: 1}", "lone_surrogate", {"x\ufffd": 1}),
        ('{"a": """\ud800"""}', "lone_surrogate", {"a": "\ufffd"}),
        ('{"a": <escape>\ud800<escape>}', "lone_surrogate", {"a": "\ufffd"}),
    ],
)
def test_what_must_not_be_used_is_readable_and_noted_as_refused(text: str, code: str, value: Any):
    reading = read(text)
    assert reading.status == "complete"
    assert code in codes(reading) & UNSAFE_NOTES
    assert json.loads(reading.text) == value


@pytest.mark.requirement("R-E6")
def test_equal_keys_in_different_objects_are_no_duplicates():
    assert read('{"a": {"a": 1}, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}]}').notes == ()


@pytest.mark.requirement("R-E6")
def test_a_duplicate_key_is_named_in_its_note_and_cut_when_long():
    notes = read(f'{{"{"k" * 100}": 1, "{"k" * 100}": 2}}').notes
    assert [(note.code, note.detail) for note in notes] == [("duplicate_key", f"`{'k' * 64}` occurs twice")]


@pytest.mark.requirement("R-E6")
@check_each(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("(", ")")])
def test_nesting_is_limited(opening: str, closing: str):
    deepest = opening * MAX_DEPTH + "1" + closing * MAX_DEPTH
    assert read(deepest).status == "complete"
    reading = read(opening + deepest)
    assert (reading.status, codes(reading)) == ("hopeless", {"too_deep"})
    assert MAX_DEPTH == 64


@pytest.mark.requirement("R-E6")
def test_size_is_limited():
    frame = '{"a": ""}'
    largest = '{"a": "' + "x" * (MAX_SIZE - len(frame)) + '"}'
    assert read(largest).status == "complete"
    for text in (largest.replace("x", "xx", 1), '{"a": "' + "x" * 2 * MAX_SIZE, "[" + " " * MAX_SIZE + "]"):
        reading = read(text)
        assert (reading.status, codes(reading)) == ("hopeless", {"too_large"})
    assert MAX_SIZE == 1 << 20


@pytest.mark.no_cover
@pytest.mark.requirement("R-E6")
@pytest.mark.parametrize("tail", ['"}', 'x"}', '" }', '"' + " " * 300 + "}", '", "b": 1}', '\\n"}', "\\", '"y" z"}'])
@pytest.mark.parametrize("size", size([1000], [1000, 4096, 77]))
def test_size_is_limited_at_the_same_place_however_the_text_is_cut(tail: str, size: int):
    for length in range(MAX_SIZE - 12 - len(tail), MAX_SIZE + 3, 5 + len(tail) // 8):
        text = '{"a": "' + "x" * (length - 7) + tail
        assert read_chunks([text[at : at + size * 16] for at in range(0, len(text), size * 16)]) == read(text)


@pytest.mark.requirement("R-E6")
def test_what_lies_beyond_the_limit_is_not_waited_for():
    parser = JSONParser()
    parser.feed('{"a": "x')
    parser.count_chars(parser.remaining_chars - 3)
    assert parser.status == "open"
    assert parser.feed('" , "b"', 0, False) == 0
    assert (parser.status, parser.codes) == ("hopeless", {"too_large"})


@pytest.mark.requirement("R-E6")
def test_a_long_text_behind_the_value_does_not_count():
    assert read("[1]" + " " * 2 * MAX_SIZE).status == "complete"


@pytest.mark.requirement("R-E6")
def test_text_taken_past_the_reader_counts_for_the_size():
    parser = JSONParser()
    parser.feed('{"a": "x')
    assert parser.remaining_chars == MAX_SIZE - 8
    parser.count_chars(MAX_SIZE - 8)
    assert parser.status == "open"
    parser.count_chars(1)
    assert parser.status == "hopeless"
    assert parser.codes == {"too_large"}


def test_a_text_that_needs_too_many_repairs_is_hopeless():
    assert read("[" + "," * MAX_REPAIRS + "]").status == "complete"
    reading = read("[" + "," * (MAX_REPAIRS + 1) + "]")
    assert (reading.status, codes(reading)) == ("hopeless", {"extra_comma", "too_many_repairs"})
    assert MAX_REPAIRS == 10_000


def test_line_breaks_and_escapes_in_a_long_text_are_not_too_many_repairs():
    text = "\n\\d" * (MAX_REPAIRS + 1)
    assert read(f'{{"a": "{text}"}}').status == "complete"


def test_a_key_is_limited():
    key = "k" * 1024
    assert json.loads(read(f'{{"{key}": 1}}').text) == {key: 1}
    reading = read(f'{{"{key}k": 1}}')
    assert (reading.status, codes(reading)) == ("hopeless", {"key_too_long"})


def test_a_key_in_raw_quotes_is_limited():
    key = "k<" * 512
    assert json.loads(read(f'{{<|"|>{key}<|"|>: 1}}').text) == {key: 1}
    reading = read(f'{{<|"|>{key}k<|"|>: 1}}')
    assert (reading.status, codes(reading)) == ("hopeless", {"raw_quotes", "key_too_long"})


def test_notes_come_once_in_the_order_of_the_repairs_and_with_details():
    reading = read("{a: b, c: d e, 'f': g,}")
    assert [(note.code, note.detail) for note in reading.notes] == [
        ("unquoted_key", ""),
        ("unquoted_value", "b"),
        ("single_quotes", ""),
        ("trailing_comma", ""),
    ]
    long = "w" * 100
    assert read(f'{{"a": {long}}}').notes[0].detail == "w" * 64
    assert read(f'{{"a": [], {long} "b": 2}}').notes[1].detail == "w" * 64
    assert read('{"a": 1_0}').notes[0].detail == ""


def test_what_may_change_a_value_and_what_is_refused_are_named():
    assert {"duplicate_key", "nan", "lone_surrogate"} == UNSAFE_NOTES
    assert {
        "ellipsis",
        "inner_quotes",
        "missing_closer",
        "missing_opener",
        "missing_quote",
        "missing_value",
        "object_to_string",
        "python_set",
        "spelling_lost",
        "split_array",
        "stray_text",
        "triple_quote_escape",
        "wrong_closer",
    } == VALUE_CHANGING_NOTES


@check_each("text", ['{"a": [1} and so on', '{"a": {"b": [1}} and so on', '{"a": {"b": [1}}\n```'])
def test_a_bracket_that_ends_the_text_of_the_value_closes_what_is_open(text: str):
    reading = read(text)
    assert reading.text in ('{"a":[1]}', '{"a":{"b":[1]}}')
    assert (codes(reading), text[reading.end - 1]) == ({"missing_closer"}, "}")


# ---- tokens


@pytest.mark.requirement("B8")
def test_tokens_say_what_the_value_is_made_of():
    parser = JSONParser()
    assert parser.feed('{"a\\n": ["x", {}], "b": "y', 0, False) == 26
    assert parser.tokens == [
        (OBJECT, ""),
        (KEY, "a\n"),
        (ARRAY, ""),
        (STRING, ""),
        (PART, "x"),
        (END_STRING, ""),
        (OBJECT, ""),
        (END_OBJECT, ""),
        (END_ARRAY, ""),
        (KEY, "b"),
        (STRING, ""),
        (PART, "y"),
    ]
    parser.tokens = []
    assert parser.feed('\\n", "c": 1}', 0, True) == 12
    assert parser.tokens == [(PART, "\\n"), (END_STRING, ""), (KEY, "c"), (SCALAR, "1"), (END_OBJECT, "")]


def test_the_writer_separates_what_stands_beside_each_other():
    string = [(STRING, ""), (PART, "x"), (PART, "y"), (END_STRING, "")]
    pairs = [(OBJECT, ""), (KEY, 'a"'), (SCALAR, "2"), (KEY, "b"), *string, (END_OBJECT, "")]
    empty = [(OBJECT, ""), (END_OBJECT, ""), (ARRAY, ""), (END_ARRAY, ""), (STRING, ""), (END_STRING, "")]
    tokens = [(ARRAY, ""), *empty, (SCALAR, "1"), *pairs, (END_ARRAY, "")]
    assert written(tokens) == '[{},[],"",1,{"a\\"":2,"b":"xy"}]'
    assert Writer().write((SCALAR, "1")) == "1"


@pytest.mark.requirement("B8")
def test_a_tuple_is_held_until_it_is_known_to_be_one():
    parser = JSONParser()
    parser.feed('{"a": ((1), "x')
    assert written(parser.tokens) == '{"a":[1'
    parser = JSONParser()
    parser.feed('{"a": (("x')
    assert written(parser.tokens) == '{"a":'
    assert not parser.in_plain_string
    parser.feed('y"), ')
    assert written(parser.tokens) == '{"a":["xy"'


@pytest.mark.requirement("B8")
def test_a_string_in_an_array_is_held_only_as_long_as_a_key_might_be():
    parser = JSONParser()
    parser.feed('["' + "x" * 64)
    assert written(parser.tokens) == "["
    assert not parser.in_plain_string
    parser.feed("x")
    assert written(parser.tokens) == '["' + "x" * 65
    assert parser.in_plain_string


# ---- the shortcut through plain text


@pytest.mark.requirement("B8")
def test_plain_text_in_a_string_may_bypass_the_reader():
    parser = JSONParser()
    assert not parser.in_plain_string
    parser.feed('{"key')
    assert not parser.in_plain_string
    assert (parser.in_quotes, parser.in_string) == (True, False)
    parser.feed('": ')
    assert (parser.in_quotes, parser.in_string) == (False, False)
    parser.feed('"x')
    assert (parser.in_quotes, parser.in_string) == (True, True)
    assert parser.in_plain_string


@pytest.mark.requirement("B8")
@check_each("text", ['{"a": """x', '{"a": <|"|>x', '{"a": \\"x', "{'a': 'x", '{"a": r"x', '{"a": “x'])
def test_unusual_strings_take_no_shortcut(text: str):
    parser = JSONParser()
    parser.feed(text)
    assert parser.in_string
    assert not parser.in_plain_string


def test_the_open_containers_can_be_seen():
    parser = JSONParser()
    parser.feed('{"a": [({"b": ')
    assert parser.closers == "}])}"


def test_nothing_is_read_after_the_end():
    parser = JSONParser()
    assert parser.feed("[1] [2]", 0, True) == 3
    assert parser.feed("[2]", 0, True) == 0
    parser.finish()
    assert (parser.status, written(parser.tokens)) == ("complete", "[1]")


@pytest.mark.requirement("B8")
def test_reading_pauses_when_there_are_tokens_for_a_caller_who_may_not_want_the_rest():
    parser = JSONParser()
    text = '{"a": 1, "b": 2}'
    assert parser.feed(text, 0, True, pause=True) == 5
    assert written(parser.tokens) == '{"a":'
    parser.tokens = []
    assert parser.feed(text, 5, True) == len(text)
    assert parser.status == "complete"


def test_reading_begins_where_it_is_told():
    parser = JSONParser()
    assert parser.feed('x {"a": 1} y', 2) == 10
    assert written(parser.tokens) == '{"a":1}'
