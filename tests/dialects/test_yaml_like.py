"""The little of YAML that models use for arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspeak.dialects.yaml_like import read_yaml

pytestmark = pytest.mark.requirement("B3")

MAPPINGS: list[tuple[str, str, dict[str, Any]]] = [
    ("plain scalars", "city: New York\nunit: celsius", {"city": "New York", "unit": "celsius"}),
    ("typed scalars", "n: 3\nx: -1.5\nt: true\nf: False\nz: null\ntilde: ~", {"n": 3, "x": -1.5, "t": True, "f": False, "z": None, "tilde": None}),
    ("a number with letters is text", "id: 3abc\nv: .x", {"id": "3abc", "v": ".x"}),
    ("quoted texts", "a: \"x: y\"\nb: 'it is'", {"a": "x: y", "b": "it is"}),
    ("quoted keys", "\"a b\": 1\n'c d': 2", {"a b": 1, "c d": 2}),
    ("an unfinished quote is text", 'a: "x', {"a": '"x'}),
    ("flow values", "l: [1, two]\no: {k: v}", {"l": [1, "two"], "o": {"k": "v"}}),
    ("indented as a whole", "    a: 1\n    b: 2", {"a": 1, "b": 2}),
    ("blank lines around and between", "\n\na: 1\n\nb: 2\n\n", {"a": 1, "b": 2}),
    ("a literal block keeps its lines", "text: |\n  one\n    two\n\n  three\nn: 1", {"text": "one\n  two\n\nthree\n", "n": 1}),
    ("a stripped block", "text: |-\n  one\n  two", {"text": "one\ntwo"}),
    ("a folded block", "text: >\n  one\n  two", {"text": "one two\n"}),
    ("an empty block", "text: |\nn: 1", {"text": "", "n": 1}),
    ("a nested mapping", "o:\n  a: 1\n  p:\n    b: 2\nc: 3", {"o": {"a": 1, "p": {"b": 2}}, "c": 3}),
    ("a list of scalars", "l:\n  - 1\n  - two\nn: 3", {"l": [1, "two"], "n": 3}),
    ("a list at the indent of its key", "l:\n- 1\n- 2\nn: 3", {"l": [1, 2], "n": 3}),
    ("a list of mappings", "l:\n  - name: a\n    n: 1\n  - name: b", {"l": [{"name": "a", "n": 1}, {"name": "b"}]}),
    ("a quoted item is a text, not a mapping", "l:\n  - \"a: b\"", {"l": ["a: b"]}),
    ("a key without a value is null", "a:\nb: 1\nc:", {"a": None, "b": 1, "c": None}),
    ("a key whose value would stand further left", "o:\n  a:\nb: 1", {"o": {"a": None}, "b": 1}),
]

NOT_MAPPINGS = [
    ("prose", "just a sentence"),
    ("a list", "- just\n- a list"),
    ("nothing", "  \n "),
    ("a broken flow value", "[invalid: yaml: syntax:"),
    ("a flow value that never closes", "a: [1, 2"),
    ("a key twice", "a: 1\na: 2"),
    ("a line that belongs to nothing", "a: 1\n    b: 2"),
    ("a list that stops being one", "l:\n  - 1\n  x"),
    ("too deep", "\n".join(" " * depth + "k:" for depth in range(40)) + " 1"),
    ("too many lines", "a: 1\n" * 20_001),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in MAPPINGS], ids=[case[0] for case in MAPPINGS])
def test_mappings_are_read(text: str, expected: dict[str, Any]):
    assert read_yaml(text) == expected


@pytest.mark.parametrize("text", [case[1] for case in NOT_MAPPINGS], ids=[case[0] for case in NOT_MAPPINGS])
def test_anything_else_is_not_a_mapping(text: str):
    assert read_yaml(text) is None


@given(st.text(alphabet="ab:-|>[]{}\"' \n0~", max_size=60))
def test_no_text_breaks_the_reader(text: str):
    found = read_yaml(text)
    assert found is None or isinstance(found, dict)
