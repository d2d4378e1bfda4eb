"""The little of YAML that is read: mappings, lists, block text, scalars; everything else is no mapping."""

from __future__ import annotations

from typing import Any

import pytest

from toolspeak.dialects.yaml_like import read_yaml

MAPPINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "one key": ("a: b", {"a": "b"}),
    "blank lines around it": ("\n\na: b\n\n", {"a": "b"}),
    "several keys": ("a: b\n\nc: d", {"a": "b", "c": "d"}),
    "quoted keys": ("\"a b\": 1\n'c d': 2", {"a b": 1, "c d": 2}),
    "numbers": ("a: 1\nb: -2\nc: 1.5\nd: .5", {"a": 1, "b": -2, "c": 1.5, "d": 0.5}),
    "words": ("a: true\nb: FALSE\nc: null\nd: ~", {"a": True, "b": False, "c": None, "d": None}),
    "text that begins like a number": ("a: 2 apples\nb: 3rd\nc: -x", {"a": "2 apples", "b": "3rd", "c": "-x"}),
    "quoted text": ("a: \"x: y\"\nb: 'z'", {"a": "x: y", "b": "z"}),
    "a colon inside": ("a: http://x.y", {"a": "http://x.y"}),
    "flow values": ('a: [1, "x"]\nb: {"c": 2}', {"a": [1, "x"], "b": {"c": 2}}),
    "flow values without quotes": ("a: [x, y]", {"a": ["x", "y"]}),
    "a nested mapping": ("a:\n  b: 1\n  c:\n    d: 2\ne: 3", {"a": {"b": 1, "c": {"d": 2}}, "e": 3}),
    "an indented mapping": ("  a: 1\n  b: 2", {"a": 1, "b": 2}),
    "a list": ("a:\n  - 1\n  - x y\n\n  - null", {"a": [1, "x y", None]}),
    "a list that is not indented": ("a:\n- 1\n- 2\nb: 3", {"a": [1, 2], "b": 3}),
    "a list of mappings": ("a:\n  - b: 1\n    c: 2\n  - b: 3", {"a": [{"b": 1, "c": 2}, {"b": 3}]}),
    "a list of quoted texts with colons": ("a:\n  - \"b: c\"\n  - 'd'", {"a": ["b: c", "d"]}),
    "nothing": ("a:\nb: 1", {"a": None, "b": 1}),
    "nothing at the end": ("a: 1\nb:", {"a": 1, "b": None}),
    "nothing at the end of something nested": ("a:\n  b:\nc: 1", {"a": {"b": None}, "c": 1}),
    "block text": ("a: |\n  one\n   two\n\n  three\nb: 1", {"a": "one\n two\n\nthree\n", "b": 1}),
    "block text without its last line break": ("a: |-\n  one\n  two", {"a": "one\ntwo"}),
    "block text that keeps its line breaks": ("a: |+\n  one\nb: 1", {"a": "one\n", "b": 1}),
    "folded text": ("a: >\n  one\n  two\nb: >-\n  three\n  four", {"a": "one two\n", "b": "three four"}),
    "empty block text": ("a: |\nb: 1", {"a": "", "b": 1}),
    "block text at the end": ("a: |", {"a": ""}),
}


@pytest.mark.parametrize(("text", "value"), MAPPINGS.values(), ids=MAPPINGS)
def test_a_mapping_is_read(text: str, value: dict[str, Any]):
    read = read_yaml(text)
    assert read == value
    assert repr(read) == repr(value)


NO_MAPPINGS = {
    "nothing": "",
    "blank": " \n ",
    "prose": "just some words",
    "prose behind a mapping": "a: 1\nand then more",
    "a list": "- a\n- b",
    "a key without a space": "a:b",
    "a key twice": "a: 1\na: 2",
    "a line that is indented too far": "a: 1\n  b: 2",
    "a line that is indented too little": "  a: 1\nb: 2",
    "an open bracket": "a: [1,",
    "an open brace": "a: {x",
    "an item that is no value": "a:\n  - [1",
    "a list that goes on as a mapping": "a:\n  - 1\n  b: 2",
    "too deep": "\n".join("  " * depth + "k:" for depth in range(40)),
    "too long": "a: 1\n" + "\n" * 20_000 + "b: 2",
}


@pytest.mark.parametrize("text", NO_MAPPINGS.values(), ids=NO_MAPPINGS)
def test_anything_else_is_no_mapping(text: str):
    assert read_yaml(text) is None


def test_depth_is_bounded_well_above_what_models_write():
    text = "\n".join("  " * depth + "k:" for depth in range(20)) + " 1"
    value = read_yaml(text)
    for _ in range(20):
        assert isinstance(value, dict)
        value = value["k"]
    assert value == 1
