"""Arguments: fragments that can no longer change go out, everything else waits, and all of it is one object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.json_repair.parser import JSONParser
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
    Token,
)
from toolspeak.core.parsing.arguments import MAX_STREAMED_DEPTH, Arguments, FinalArguments, fits_as_it_is, to_json
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.schema.coercion import MAX_NUMBER_CHARS
from toolspeak.core.types import Note

pytestmark = pytest.mark.requirement("B11")

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def schema(*, required: Sequence[str] = (), closed: bool = False, **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    return {**found, "additionalProperties": False} if closed else found


FILE = schema(path=TEXT, content=TEXT, lines=WHOLE, required=("content",), closed=True)


def stream(text: str, parameters: Any = None, *, size: int = 1, call: bool = False) -> tuple[list[str], FinalArguments]:
    """The fragments as the text comes in chunks of some size, and what the whole settles to."""
    arguments, reader = Arguments(ArgumentSchema.of(parameters)), JSONParser(call=call)
    fragments: list[str] = []
    unread = ""
    for start in range(0, len(text), size):
        buf = unread + text[start : start + size]
        unread = buf[reader.feed(buf, 0, start + size >= len(text)) :]
        if start + size >= len(text):
            reader.finish()
        for token in reader.tokens:
            arguments.token(token)
        reader.tokens = []
        fragments.append(arguments.take())
    settled = arguments.settle()
    fragments.append(arguments.take())
    return [fragment for fragment in fragments if fragment], settled


def codes(settled: FinalArguments) -> list[str]:
    return [note.code for note in settled.notes]


# ---- what flows


A_STRING = [(STRING, ""), (PART, "x"), (PART, "\\n"), (END_STRING, "")]


def pieces(parameters: Any, *tokens: Token) -> list[str]:
    """What each token makes certain."""
    arguments = Arguments(ArgumentSchema.of(parameters))
    found: list[str] = []
    for token in tokens:
        arguments.token(token)
        found.append(arguments.take())
    arguments.settle()
    return [*found, arguments.take()]


def test_a_string_that_is_wanted_as_a_string_flows_as_it_comes():
    tokens = [(OBJECT, ""), (KEY, "path"), *A_STRING, (KEY, "content"), *A_STRING, (END_OBJECT, "")]
    strings = ['{"path":"', "x", "\\n", '"'], [',"content":"', "x", "\\n", '"']
    assert pieces(FILE, *tokens) == ["", "", *strings[0], "", *strings[1], "", "}"]
    assert pieces(None, *tokens) == ["", "", *strings[0], "", *strings[1], "", "}"]


def test_a_value_that_may_still_change_is_held_to_its_end_and_aligned():
    number = [(STRING, ""), (PART, "1"), (PART, "2"), (END_STRING, "")]
    tokens = [(OBJECT, ""), (KEY, "lines"), *number, (END_OBJECT, "")]
    assert pieces(FILE, *tokens) == ["", "", "", "", "", '{"lines":12', "", "}"]
    fragments, settled = stream('{"lines": "12", "content": "x"}', FILE)
    assert "".join(fragments) == '{"lines":12,"content":"x"}'
    assert settled == FinalArguments({"lines": 12, "content": "x"}, settled.notes, (), {"lines": "12", "content": "x"})
    assert codes(settled) == ["string_to_number"]


# ---- arrays and objects

EDIT = schema(old=TEXT, new=TEXT, count=WHOLE, required=("old",), closed=True)
EDITS = schema(path=TEXT, edits={"type": "array", "items": EDIT}, options=EDIT)


def test_the_parts_of_an_array_or_object_flow_one_by_one():
    fragments, settled = stream('{"a": {"b": [1, {"c": "d"}], "e": {}}, "f": []}')
    assert fragments == ['{"a":{', '"b":[1', ",{", '"c":"d', '"}', "]", ',"e":{}', "}", ',"f":[]', "}"]
    assert settled.value == {"a": {"b": [1, {"c": "d"}], "e": {}}, "f": []}


def test_a_string_inside_an_element_flows_as_it_comes():
    tokens = [(OBJECT, ""), (KEY, "edits"), (ARRAY, ""), (OBJECT, ""), (KEY, "new"), *A_STRING, (END_OBJECT, "")]
    assert pieces(EDITS, *tokens, (END_ARRAY, ""), (END_OBJECT, "")) == [
        *["", "", "", '{"edits":[{', "", '"new":"', "x", "\\n", '"', "}", "]", "", "}"]
    ]


def test_a_part_that_may_still_change_is_held_to_its_end_and_aligned():
    text = '{"edits": [{"old": "a", "count": "2"}, {"old": 7}], "options": {"old": "b", "count": "3"}}'
    fragments, settled = stream(text, EDITS)
    assert '"count":2' in "".join(fragments)
    assert settled.value == {"edits": [{"old": "a", "count": 2}, {"old": "7"}], "options": {"old": "b", "count": 3}}
    assert settled.written == json.loads(text)
    assert [(note.code, note.detail.partition(":")[0]) for note in settled.notes] == [
        ("string_to_number", "`edits[0].count`"),
        ("number_to_string", "`edits[1].old`"),
        ("string_to_number", "`options.count`"),
    ]
    assert settled.problems == ()


def test_keys_of_an_element_that_are_forbidden_or_misspelt_wait_for_its_end():
    text = '{"edits": [{"Old": "a", "more": 1, "count": "2", "new": "b"}, {"old": "c"}], "path": "p"}'
    fragments, settled = stream(text, EDITS)
    assert settled.value == {"edits": [{"count": 2, "new": "b", "old": "a"}, {"old": "c"}], "path": "p"}
    assert json.loads("".join(fragments)) == settled.value
    assert codes(settled) == ["string_to_number", "key_spelling", "unknown_dropped"]
    assert settled.problems == ()
    assert settled.written == json.loads(text)


def test_a_key_that_comes_twice_in_an_element_is_sent_once():
    fragments, settled = stream('{"edits": [{"old": "a", "old": "b", "new": "c"}]}', EDITS)
    assert json.loads("".join(fragments)) == settled.value == {"edits": [{"old": "a", "new": "c"}]}


def test_null_for_an_optional_key_of_an_element_is_dropped():
    fragments, settled = stream('{"edits": [{"old": "a", "new": null, "more": 1}, null]}', EDITS)
    assert settled.value == {"edits": [{"old": "a"}, None]}
    assert json.loads("".join(fragments)) == settled.value
    assert codes(settled) == ["null_dropped", "unknown_dropped"]
    assert settled.problems


def test_an_array_that_begins_with_null_is_held_because_it_may_mean_null():
    names = {"anyOf": [{"type": "array", "items": TEXT}, {"type": "null"}]}
    for text, meant, problems in (("[null]", None, 0), ('[null, "a"]', [None, "a"], 1), ('["a"]', ["a"], 0)):
        fragments, settled = stream(f'{{"n": {text}}}', schema(n=names))
        assert json.loads("".join(fragments)) == settled.value == {"n": meant}
        assert len(settled.problems) == problems


def test_an_array_for_something_else_is_held_and_aligned():
    fragments, settled = stream('{"path": ["p"], "edits": {"0": {"old": "a"}}}', EDITS)
    assert fragments == ['{"path":"p"', ',"edits":[{"old":"a"}]', "}"]
    assert settled.problems == ()


def test_an_object_that_is_judged_as_a_whole_is_held_inside_the_arguments_too():
    choice = {"anyOf": [EDIT, schema(name=TEXT, required=("name",))]}
    fragments, settled = stream(
        '{"it": {"old": "a"}, "all": [{"name": "b"}]}', schema(it=choice, all={"items": choice})
    )
    assert fragments == ['{"it":{"old":"a"}', ',"all":[', '{"name":"b"}', "]", "}"]
    assert settled.problems == ()


def test_deep_containers_are_held():
    text = "[" * 9 + '"x"' + "]" * 9
    fragments, settled = stream(f'{{"a": {text}}}')
    depth = MAX_STREAMED_DEPTH  # a bracket is emitted with what follows it
    assert fragments == ['{"a":[', *["["] * (depth - 1), text[depth : 9 + 3 + 9 - depth], *["]"] * depth, "}"]
    assert settled.value == {"a": json.loads(text)}


LINE = {"anyOf": [{"type": "string", "minLength": 5, "maxLength": 100}, {"type": "null"}, WHOLE]}
#: Where a line may stand in the arguments, and how it looks there.
PLACES: dict[str, tuple[Any, str]] = {
    "property": (schema(a=LINE), '{"a":%s}'),
    "element": (schema(a={"type": "array", "items": LINE}), '{"a":[%s]}'),
    "property of an object": (schema(a=schema(b=LINE)), '{"a":{"b":%s}}'),
}


@check_each("place", PLACES)
@check_each(("text", "meant"), [("12", "12"), ("null", "null"), ("seven", '"seven"'), ("y" * 64, f'"{"y" * 64}"')])
def test_a_text_that_may_be_a_word_of_another_type_waits(place: str, text: str, meant: str):
    parameters, around = PLACES[place]
    fragments, settled = stream(around % json.dumps(text), parameters)
    assert "".join(fragments) == around % meant
    assert any(meant in fragment for fragment in fragments)
    assert settled.problems == ()


@check_each("place", PLACES)
@check_each("text", ["x" * 90, "7" * 90, "x" * 101])
def test_a_text_that_is_too_long_for_such_a_word_flows(place: str, text: str):
    parameters, around = PLACES[place]
    fragments, settled = stream(around % json.dumps(text), parameters)
    assert "".join(fragments) == around % json.dumps(text)
    assert len(fragments) > len(text) - MAX_NUMBER_CHARS
    assert bool(settled.problems) is (len(text) > 100)


def test_what_a_caller_has_sent_past_us_counts_inside_an_element():
    arguments = Arguments(ArgumentSchema.of(EDITS))
    for token in [(OBJECT, ""), (KEY, "edits"), (ARRAY, ""), (OBJECT, ""), (KEY, "old"), (STRING, "")]:
        arguments.token(token)
    assert arguments.take() == '{"edits":[{"old":"'
    arguments.record("a\\n")
    keep = arguments.keep
    assert keep is not None
    keep("b")
    for token in [(END_STRING, ""), (KEY, "more"), (SCALAR, "1"), (END_OBJECT, ""), (END_ARRAY, ""), (END_OBJECT, "")]:
        arguments.token(token)
    assert arguments.settle().value == {"edits": [{"old": "a\nb"}]}
    assert arguments.take() == 'b"}]}'


def test_keys_are_escaped():
    fragments, settled = stream('{"a\\"b": "c", "d\\ne": 1}')
    assert "".join(fragments) == '{"a\\"b":"c","d\\ne":1}'
    assert settled.value == {'a"b': "c", "d\ne": 1}


def test_whether_text_flows_now_can_be_asked():
    arguments = Arguments(ArgumentSchema.of(FILE))
    seen: list[bool] = []
    for token in [(OBJECT, ""), (KEY, "lines"), *A_STRING, (KEY, "path"), *A_STRING, (END_OBJECT, "")]:
        arguments.token(token)
        seen.append(arguments.live)
    assert [at for at, live in enumerate(seen) if live] == [7, 8, 9]


def test_what_a_caller_has_sent_past_us_counts():
    arguments = Arguments(ArgumentSchema.of(None))
    reader = JSONParser()
    reader.feed('{"a": "b', 0, False)
    for token in reader.tokens:
        arguments.token(token)
    assert arguments.take() == '{"a":"b'
    arguments.record("c\\nd")
    reader.tokens = []
    reader.feed('"}', 0, True)
    for token in reader.tokens:
        arguments.token(token)
    assert arguments.settle().value == {"a": "bc\nd"}
    assert arguments.take() == '"}'
    assert arguments.take() == ""


# ---- what waits


def test_what_the_schema_forbids_waits_for_the_whole_and_is_dropped():
    fragments, settled = stream('{"colour": "red", "content": "x"}', FILE)
    assert "".join(fragments) == '{"content":"x"}'
    assert settled.value == {"content": "x"}
    assert settled.problems == ()
    assert codes(settled) == ["unknown_dropped"]


def test_a_key_that_means_a_required_one_waits_and_takes_its_name():
    fragments, settled = stream('{"Content": "x", "path": "p"}', FILE)
    assert "".join(fragments) == '{"path":"p","content":"x"}'
    assert settled.value == {"path": "p", "content": "x"}
    assert settled.problems == ()


def test_a_key_that_comes_twice_is_sent_once():
    fragments, settled = stream('{"a": "x", "a": "y"}')
    assert "".join(fragments) == '{"a":"x"}'
    assert settled.value == {"a": "x"}


def test_an_object_that_is_judged_as_a_whole_is_held_as_a_whole():
    parameters = {**schema(a=TEXT, b=WHOLE), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    fragments, settled = stream('{"a": "x", "b": "2"}', parameters)
    assert fragments == ['{"a":"x","b":2}']
    assert settled.value == {"a": "x", "b": 2}


def test_what_does_not_fit_is_said_and_the_fragments_stay_one_object():
    fragments, settled = stream('{"path": "p"}', FILE)
    assert "".join(fragments) == '{"path":"p"}'
    assert settled.value == {"path": "p"}
    assert len(settled.problems) == 1
    assert "content" in settled.problems[0]


def test_no_properties_are_an_empty_object():
    assert stream("{}") == (["{}"], FinalArguments({}, (), ()))
    fragments, settled = stream("{}", FILE)
    assert fragments == ["{}"]
    assert settled.problems


def test_nothing_at_all_is_an_empty_object():
    arguments = Arguments(ArgumentSchema.of(None))
    assert arguments.settle() == FinalArguments({}, (), ())
    assert arguments.take() == "{}"


# ---- values in another notation


TABLE = schema(rows={"type": "array", "items": {"type": "object"}})


@check_each(
    "text, rows",
    [
        ("[{'a': 'b'}]", [{"a": "b"}]),
        ("[{'a': None, 'b': True}]", [{"a": None, "b": True}]),
        ('[{"a": "b"}]', [{"a": "b"}]),
        ("[]", []),
    ],
)
def test_an_array_written_as_text_is_parsed_even_in_python(text: str, rows: list[Any]):
    _, settled = stream(json.dumps({"rows": text}), TABLE)
    assert settled.value == {"rows": rows}
    assert [note.code for note in settled.notes] == ["json_in_string"]


@check_each("text", ["[{'a': 'b'}", "[{'a': 'b'}] and more", "[{a: b}]", "[{'a': 'it's'}]", "rows"])
def test_text_that_is_no_array_of_the_schema_is_a_problem(text: str):
    _, settled = stream(json.dumps({"rows": text}), TABLE)
    assert settled.problems


def test_an_object_for_a_text_is_written_as_json():
    _, settled = stream('{"content": {"x":1}}', FILE)
    assert settled.value == {"content": '{"x": 1}'}
    assert [note.code for note in settled.notes] == ["object_to_string"]


def test_an_empty_list_of_arguments_is_no_arguments():
    _, settled = stream("[]", schema())
    assert settled.value == {}
    assert [note.code for note in settled.notes] == ["null_arguments"]


# ---- positional arguments


def test_positional_values_take_the_names_of_the_schema_in_order():
    fragments, settled = stream('("a.py", "text")', FILE, call=True)
    assert "".join(fragments) == '{"path":"a.py","content":"text"}'
    assert settled.value == {"path": "a.py", "content": "text"}
    assert [note for note in settled.notes if note.code == "positional_argument"] == [
        Note("positional_argument", "path"),
        Note("positional_argument", "content"),
    ]


def test_a_positional_value_skips_names_that_are_taken():
    _, settled = stream('("text", path="a.py")', FILE, call=True)
    assert settled.value == {"path": "a.py", "content": "text"}


@check_each(
    "text, schema, kept",
    [
        ('("x", 2)', None, {}),
        ('("x")', {"type": "object"}, {}),
        ('("a", "b", 3, 4)', FILE, {"path": "a", "content": "b", "lines": 3}),
        ('("b", 3, 4, path="a")', FILE, {"path": "a", "content": "b", "lines": 3}),
    ],
)
def test_a_positional_value_without_a_parameter_is_a_problem(text: str, schema: Any, kept: dict[str, Any]):
    fragments, settled = stream(text, schema, call=True)
    assert settled.problems
    assert settled.value == kept
    assert json.loads("".join(fragments)) == kept


def test_one_positional_object_is_the_arguments():
    fragments, settled = stream('({"content": "x", "lines": 3})', FILE, call=True)
    assert settled.value == {"content": "x", "lines": 3}
    assert "".join(fragments) == '{"content":"x","lines":3}'
    assert settled.problems == ()


def test_one_positional_object_among_others_is_a_value():
    _, settled = stream("({}, 1)", schema(a={}, b={}), call=True)
    assert settled.value == {"a": {}, "b": 1}


# ---- roots that are no object


def test_arguments_in_a_string_are_read():
    fragments, settled = stream(json.dumps('{"content": "x",}'), FILE)
    assert fragments == ['{"content":"x"}']
    assert settled.value == {"content": "x"}
    assert codes(settled) == ["string_arguments", "trailing_comma"]


def test_text_for_a_tool_without_a_schema_is_its_input():
    fragments, settled = stream('"just words"')
    assert fragments == ['{"input":"just words"}']
    assert settled == FinalArguments({"input": "just words"}, (Note("text_arguments"),), ())


def test_cut_arguments_in_a_string_are_not_guessed():
    _, settled = stream(json.dumps('{"content": "x'), FILE)
    assert settled.problems
    assert "string_arguments" not in codes(settled)


@check_each("text", ["[1, 2]", "7", "true", '"words"'])
def test_what_is_no_object_is_refused_and_sent_as_an_empty_one(text: str):
    fragments, settled = stream(text, schema(a=TEXT, b=TEXT))
    assert fragments == ["{}"]
    assert settled.value == json.loads(text)
    assert settled.problems


def test_a_schema_that_takes_no_object_is_still_answered_with_one():
    fragments, settled = stream("[1]", {"type": "array"})
    assert fragments == ["{}"]
    assert settled.problems == ("the arguments are not an object",)


# ---- giving up


@check_each(
    ("text", "sent"),
    [
        ("", "{}"),
        ("{", "{}"),
        ('{"n": [1, ', '{"n":[1]}'),
        ('{"n": [{"a": "b', '{"n":[{"a":"b"}]}'),
        ('{"a": "b', '{"a":"b"}'),
        ('{"a": "b", "n": [1, ', '{"a":"b","n":[1]}'),
        ('{"a": "b", "c": "d', '{"a":"b","c":"d"}'),
        ('"te', "{}"),
    ],
)
def test_what_has_gone_out_is_closed_when_the_rest_is_given_up(text: str, sent: str):
    arguments, reader = Arguments(ArgumentSchema.of(None)), JSONParser()
    reader.feed(text, 0, False)
    for token in reader.tokens:
        arguments.token(token)
    arguments.abandon()
    assert arguments.take() == sent


def test_json_text_is_strict_and_short():
    assert to_json({"a": [1, None, True, "é\n"]}) == '{"a":[1,null,true,"é\\n"]}'


# ---- for any object


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\é\n😀', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", max_size=3), TREES, max_size=4), st.integers(1, 9))
def test_the_fragments_joined_are_the_arguments(value: dict[str, Any], size: int):
    fragments, settled = stream(json.dumps(value), None, size=size)
    assert json.loads("".join(fragments)) == settled.value == value
    assert settled.problems == ()


@given(st.dictionaries(st.sampled_from(["path", "content", "lines", "Content", "more"]), TREES, max_size=5))
def test_with_a_schema_the_fragments_joined_are_what_was_settled(value: dict[str, Any]):
    fragments, settled = stream(json.dumps(value), FILE, size=3)
    assert json.loads("".join(fragments)) == settled.value
    assert ArgumentSchema.of(FILE).problems(settled.value) == settled.problems


# ---- arguments that come whole

OPEN = schema(path=TEXT, content=TEXT, lines=WHOLE, required=("content",))
WHOLE_SCHEMAS: dict[str, Any] = {
    "closed": FILE,
    "open": OPEN,
    "judged as a whole": {"anyOf": [OPEN, {"required": ["path"]}]},
    "null is allowed": schema(path={"type": ["string", "null"]}, content={}),
    "none": None,
    "anything": True,
}


def test_arguments_that_came_whole_go_out_as_they_are():
    arguments = Arguments(ArgumentSchema.of(FILE))
    arguments.take_whole({"content": "x"}, '{"content":"x"}')
    assert arguments.take() == '{"content":"x"}'
    assert arguments.settle() == FinalArguments({"content": "x"}, (), ())
    assert arguments.take() == ""


@check_each(
    ("value", "parameters", "fits"),
    [
        ({"content": "x", "lines": 3}, FILE, True),
        ({"content": "x", "lines": "3"}, FILE, False),
        ({"lines": 3}, FILE, False),
        ({"content": "x", "lines": None}, FILE, False),
        ({"content": "x", "Content": "y"}, OPEN, False),
        ({"content": "x", "more": 1}, OPEN, False),
        ({"content": "\ud800"}, FILE, False),
        ({"a": None}, None, True),
        ({}, None, True),
        ({}, FILE, False),
    ],
)
def test_what_would_be_changed_dropped_moved_or_judged_wrong_does_not_fit_as_it_is(
    value: Any, parameters: Any, fits: bool
):
    assert fits_as_it_is(ArgumentSchema.of(parameters), value) is fits


@given(
    st.dictionaries(
        st.sampled_from(["path", "content", "lines", "Content", "more"]),
        st.text('ab, \n"é', max_size=3) | st.integers(0, 3) | TREES,
        max_size=4,
    ),
    st.sampled_from(sorted(WHOLE_SCHEMAS)),
)
def test_arguments_that_fit_as_they_are_come_out_of_their_tokens_as_they_are(value: dict[str, Any], name: str):
    parameters = WHOLE_SCHEMAS[name]
    if fits_as_it_is(ArgumentSchema.of(parameters), value):
        fragments, settled = stream(to_json(value), parameters, size=3)
        assert "".join(fragments) == to_json(value)
        assert settled == FinalArguments(value, (), ())
