"""Tolerant JSON as it comes: what is certain is read at once, and what is kept is only what the next text may change."""

from __future__ import annotations

import pytest

from tests.core.reading import read, written
from toolspeak.core.lenient_json import Transducer

pytestmark = pytest.mark.requirement("B8")

LINE = ("\nResult:",)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"a": 1 /* long', ""),
        ('{"a": 1 /* long *', "*"),
        ('{"a": 1 /* long **', "*"),
        ('{"a": 1 // long', ""),
        ('{"a": 1 # long', ""),
    ],
)
def test_a_comment_is_read_as_it_comes(text: str, kept: str):
    assert text[Transducer().feed(text) :] == kept


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


@pytest.mark.parametrize(
    ("text", "kept", "out"),
    [
        (r"{\"a\": \"x\n y", "", r'{"a":"x\n y'),
        (r"{\"a\": \"x\\n y", "", r'{"a":"x\n y'),
        (r"{\"a\": \"x\\\\ y", "", r'{"a":"x\\ y'),
        (r"{\"a\": \"x\\\" y", "", r'{"a":"x\" y'),
        (r"{\"a\": \"x\\", "\\\\", '{"a":"x'),
    ],
)
def test_a_string_that_was_escaped_twice_flows_out_as_it_comes(text: str, kept: str, out: str):
    transducer = Transducer()
    assert (text[transducer.feed(text) :], written(transducer.tokens)) == (kept, out)


def test_a_mark_at_a_line_inside_quotes_is_text():
    assert read('{"a": "x\nResult: y" , "b": 1}', stops=LINE).text == '{"a":"x\\nResult: y","b":1}'


@pytest.mark.parametrize("text", ["{'a': 'x', 'b': ", "{'a", '{\'a\': """x"""', "[('x'", "{'a': r'x"])
def test_outside_a_string_that_flows_there_is_no_shortcut(text: str):
    transducer = Transducer()
    transducer.feed(text)
    assert transducer.text_run() is None
