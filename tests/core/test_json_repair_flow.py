"""Tolerant JSON as it comes: what is certain is read at once, and what is kept is only what the next text may change."""

from __future__ import annotations

import pytest

from tests.core.parsing_helpers import read, written
from toolspeak.core.json_repair.parser import Transducer
from toolspeak.core.json_repair.tokens import PART

pytestmark = pytest.mark.requirement("B8")

LINE = ("\nResult:",)


@pytest.mark.parametrize(
    ("text", "kept", "out"),
    [
        # comments
        ('{"a": {} /* long', "", '{"a":{}'),
        ('{"a": {} /* long *', "*", '{"a":{}'),
        ('{"a": {} /* long **', "*", '{"a":{}'),
        ('{"a": {} // long', "", '{"a":{}'),
        ('{"a": {} # long', "", '{"a":{}'),
        ('{"a": {} /', " /", '{"a":{}'),
        # quotes
        ('{"a": ""x"", "b": ', "", '{"a":"x","b":'),
        ("{'a': 'x', 'b': ", "", '{"a":"x","b":'),
        ("{'a': 'x', ", "', ", '{"a":"x'),
        # words
        ('{"a": x, y, "b": ', "", '{"a":"x, y","b":'),
        # escapes that were escaped once more
        (r"{\"a\": \"x\n y", "", r'{"a":"x\n y'),
        (r"{\"a\": \"x\\n y", "", r'{"a":"x\n y'),
        (r"{\"a\": \"x\\\\ y", "", r'{"a":"x\\ y'),
        (r"{\"a\": \"x\\\" y", "", r'{"a":"x\" y'),
        (r"{\"a\": \"x\\", "\\\\", '{"a":"x'),
    ],
)
def test_what_is_certain_is_read_at_once(text: str, kept: str, out: str):
    transducer = Transducer()
    assert (text[transducer.feed(text) :], written(transducer.tokens)) == (kept, out)


@pytest.mark.parametrize(
    ("text", "kept", "out"),
    [
        ('{"a": [1, 2, ', "", '{"a":[1,2'),
        ('{"a": {} \n', "\n", '{"a":{}'),
        ('{"a": {} \n \nRes', "\nRes", '{"a":{}'),
        ('{"a": {} \n \nRest', "Rest", '{"a":{}'),
        ('{"a": {} \n Result:', "", '{"a":{},"Result":'),
        ('{"a": {} \nResult:', "\nResult:", '{"a":{}}'),
    ],
)
def test_only_what_may_be_a_mark_at_a_line_is_waited_for(text: str, kept: str, out: str):
    transducer = Transducer(stops=LINE)
    assert (text[transducer.feed(text) :], written(transducer.tokens)) == (kept, out)


def test_a_mark_at_a_line_inside_quotes_is_text():
    assert read('{"a": "x\nResult: y" , "b": 1}', stops=LINE).text == '{"a":"x\\nResult: y","b":1}'


def test_escapes_in_a_row_go_out_in_one_piece():
    transducer = Transducer()
    transducer.feed('{"a": "x\\n\\t\\"y')
    assert [text for kind, text in transducer.tokens if kind == PART] == ["x", '\\n\\t\\"', "y"]


@pytest.mark.parametrize("text", ['"""x"""', '""x""', "'''x'''"])
def test_quotes_around_the_whole_value_are_single_ones(text: str):
    reading = read(text)
    assert (reading.text, reading.status, reading.end) == ('""', "complete", 2)


@pytest.mark.parametrize("text", ["{'a': 'x', 'b': ", "{'a", '{\'a\': """x"""', "[('x'", "{'a': r'x"])
def test_outside_a_string_that_flows_there_is_no_shortcut(text: str):
    transducer = Transducer()
    transducer.feed(text)
    assert transducer.text_run() is None
