"""Whole texts: one value, several documents, prose around them, and the corpus of broken JSON."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.core.parsing_helpers import names
from toolspeak.core.json_repair.whole_text import ParseResult, complete_documents, loads, parse_value
from toolspeak.core.types import Note

pytestmark = pytest.mark.requirement("B4")


def test_one_value_is_read_where_it_begins():
    text = 'x {"a": 1} y'
    assert parse_value(text, 2) == ParseResult({"a": 1}, "complete", (), 10, '{"a":1}')
    assert parse_value(text, 2).strict


def test_a_repaired_value_is_not_strict():
    read = parse_value("{'a': 1}")
    assert read == ParseResult({"a": 1}, "complete", (Note("single_quotes"),), 8, '{"a":1}')
    assert not read.strict


@pytest.mark.requirement("B6")
def test_a_cut_value_says_so():
    read = parse_value('{"a": [1, "b')
    assert (read.value, read.status, read.strict) == ({"a": [1, "b"]}, "truncated", False)


@pytest.mark.requirement("B6")
def test_the_last_character_of_a_cut_value_belongs_to_it():
    assert parse_value('{"a": 1 /') == ParseResult(
        {"a": "1 /"}, "truncated", (Note("unquoted_value", "1 /"),), 9, '{"a":"1 /"}'
    )


def test_a_hopeless_text_has_no_value():
    read = parse_value("{see below}")
    assert (read.value, read.status, read.strict) == (None, "hopeless", False)
    assert [note.code for note in read.notes] == ["unquoted_key", "not_an_object"]


#: text, what `loads` makes of it
TEXTS: list[tuple[str, Any]] = [
    # one value
    ('{"a": 1}', {"a": 1}),
    (" \n[1, 2] ", [1, 2]),
    ("12", 12),
    ("true", True),
    ("True", True),
    ("null", None),
    ('"text"', "text"),
    ("'text'", "text"),
    ('("text")', "text"),
    ("(1, 2)", [1, 2]),
    ("(1, 2", [1, 2]),
    ('{"a": 1},', {"a": 1}),
    ('{"a": }', {"a": ""}),
    ('{"a:', {"a": ""}),
    ('{"a":', {"a": ""}),
    # prose and fences
    ('Here you are: {"a": 1}', {"a": 1}),
    ('Here you are: {"a": "b', {"a": "b"}),
    ('- {"a": 1}', {"a": 1}),
    ('5 {"a": 1}', {"a": 1}),
    ('"x" {"a": 1}', {"a": 1}),
    ('{see below} {"a": 1}', {"a": 1}),
    ('{{ x }} {"a": 1}', {"a": 1}),
    ("(some clarification) [1]", [1]),
    ("(1, 2) [1]", [1]),
    ('```json\n{"a": 1}\n```', {"a": 1}),
    ('```json\n{"a": 1\n```', {"a": 1}),
    ('````{ "a": 1 }```', {"a": 1}),
    ('{"a": "x, y"```', {"a": "x, y"}),
    ('{"a": "```json', {"a": "```json"}),
    ('{"a": "```json{}"', {"a": "```json{}"}),
    ("Tuple:\n```json\n  (1, 2)\n```", [1, 2]),
    ("Tuple:\n```(1, 2)```", [1, 2]),
    ('{"a": 1} and so on', {"a": 1}),
    ('{"a": 1}}}', {"a": 1}),
    ('<x>{"a": 1}</x>', {"a": 1}),
    # several documents
    ('{"a": 1} {"b": 2}', [{"a": 1}, {"b": 2}]),
    ('{"a": 1}{"b": 2}\n[3]', [{"a": 1}, {"b": 2}, [3]]),
    ('text {"a": 1} more {"b": 2} end', [{"a": 1}, {"b": 2}]),
    ('```json\n{"a": 1}\n``` and ```\n[1, True]\n``` 42', [{"a": 1}, [1, True]]),
    ('{"a": 1}, {"a": 2}', [{"a": 1}, {"a": 2}]),
    ("[1], [1]", [[1], [1]]),
    ('{"a": 1} {"a": 2}', {"a": 2}),
    ('{"a": 1}\n{"a": 2}\n{"b": 3}', [{"a": 2}, {"b": 3}]),
    ('{"a": {"b": 1}} {"a": {"b": 2}}', {"a": {"b": 2}}),
    ('{"a": {"b": 1}} {"a": 2}', [{"a": {"b": 1}}, {"a": 2}]),
    ('{"a": 1} {"a": "x"}', [{"a": 1}, {"a": "x"}]),
    ("[1] [2]", [2]),
    ("[[1]] [[2]]", [[2]]),
    ("[[1]] [[2, 3]]", [[[1]], [[2, 3]]]),
    ("[1, 2] [3]", [[1, 2], [3]]),
    ("[1] {}", [1]),
    ("[] {}", []),
    ("[] [1]", [1]),
    ("{}, {}, [1]", [1]),
    ('{"a": 1}, [], {"b": 2}', [{"a": 1}, {"b": 2}]),
    # pairs behind an object, or without one
    ('{"a": 1}, "b": 2}', {"a": 1, "b": 2}),
    ('{"a": 1}, "b": 2', {"a": 1, "b": 2}),
    ('{"a": 1}, "b": 2, "c": 3} tail', {"a": 1, "b": 2, "c": 3}),
    ('{"a": 1}, "b": 2}, "c": 3}', {"a": 1, "b": 2, "c": 3}),
    ('{"a": 1}, "b" "c"}', {"a": 1, "b": "c"}),
    ('{"a": 1}, "b"', {"a": 1}),
    ('{"a": 1}, "b", "c"', {"a": 1}),
    ('{"a": 1}, "b" "c: 1 {', {"a": 1, "b": "c: 1 {"}),
    ('{"a": 1}, "b": [1] : 2', [{"a": 1}, [1]]),
    ('[1], "b": 2', [1]),
    ('"a": 1}', {"a": 1}),
    ('"a": 1} [2]', [2]),
    ('"a b": 1}', {"a b": 1}),
    # strings that swallowed the end
    ('{"a": "b}', {"a": "b"}),
    ('{"a": ["b]}', {"a": ["b"]}),
    ('{"a": ["b ] } ', {"a": ["b"]}),
    ('{"a": ["b]', {"a": ["b"]}),
    ('{"a": ["b}', {"a": ["b}"]}),
    ('{"a": "b}```', {"a": "b"}),
    ('{"a": "b]', {"a": "b]"}),
    ('{"a": "b}}', {"a": "b}"}),
    ('{"a: b}', {"a": "b"}),
    ('{"a: 1}', {"a": 1}),
    ('{"a": 1}, "b": "c}', {"a": 1, "b": "c"}),
    ('{"a": "b} X', {"a": "b} X"}),
    ('{"a": foo(1}', {"a": "foo(1}"}),
]


@check_each(("text", "value"), TEXTS, ids=names(TEXTS))
def test_the_json_in_a_text_is_found_and_repaired(text: str, value: Any):
    assert loads(text) == value
    assert type(loads(text)) is type(value)


NO_JSON = [
    "",
    " ",
    "text",
    "a: 1",
    "1, 2, 3",
    '"a": 1, "b": 2',
    '"text',
    "}",
    "]",
    "{see below}",
    "(1, 2) x",
    "(x",
    '"a" b',
]


@check_each("text", NO_JSON)
def test_a_text_without_json_is_refused(text: str):
    with pytest.raises(ValueError, match="no JSON"):
        loads(text)


def test_the_number_of_documents_is_bounded():
    found = loads("[1],[2]," * 100)
    assert len(found) == 64
    assert len(loads("[1]," * 64)) == 64
    assert loads('{"a0": 0}' + "".join(f', "a{n}": {n}}}' for n in range(1, 100)))["a64"] == 64


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    )
)
def test_valid_json_is_loaded_as_it_is(value: Any):
    assert loads(json.dumps(value)) == value


@given(st.text("{}[]()\"':,` \nabc1\\", max_size=40))
def test_loading_gives_a_value_or_a_value_error(text: str):
    try:
        value = loads(text)
    except ValueError:
        return
    json.dumps(value)


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
@check_each("piece", ["{", "[", "{}", '{"a":1},"b"', "```", "{x} ", '{"a": "b} ', "{'", '"a":1,', "(", "```json ("])
def test_loading_a_hostile_text_ends_soon(piece: str):
    with contextlib.suppress(ValueError):
        loads(piece * (40_000 // len(piece)))


# ---- the corpus: what the tests of json_repair expect

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "json_malformed.jsonl"

#: Where we read something else, and why.
DIFFERENT = {
    "jsonrepair-046": "rows are not wrapped to look like their neighbours: the split array is joined as it stands",
    "jsonrepair-053": "a key that was cut is nothing, not an array of its own",
    "jsonrepair-102": "the last quote closes the string; it is not repeated inside",
    "jsonrepair-125": "four quotes are not taken for the end of one object and the beginning of the next",
    "jsonrepair-128": "an array where a key should stand does not become a key with an empty value",
    "jsonrepair-136": "a word behind a set is an element that lost its comma; nothing is dropped",
    "jsonrepair-191": "`True` means true",
    "jsonrepair-192": "`False` means false",
    "jsonrepair-193": "`Null` means null",
}


@pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not beside this checkout")
def test_broken_json_is_read_as_repair_tools_read_it():
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    different = set()
    for row in rows:
        try:
            value = loads(row["text"])
        except ValueError:
            value = ""
        if value != row["expected_json"]:
            different.add(row["id"])
    assert different == set(DIFFERENT)
    assert len(different) <= 0.08 * len(rows)


@check_each(
    "text, values",
    [
        ('Sure! {"a": 1} and [2, 3].', [{"a": 1}, [2, 3]]),
        ('```json\n{"a": [1, 2,],}\n```', [{"a": [1, 2]}]),
        ("```python\n(1, 2)\n```", [[1, 2]]),
        ('Use {x}, then {"a": 5}.', [{"a": 5}]),
        ('{"a": 1} {"a": 2}', [{"a": 1}, {"a": 2}]),
        ('{"a": {"b": 1}, "c": [', []),
        ("nothing here", []),
        ("[1]" * 100, [[1]] * 64),
    ],
)
def test_documents_in_a_text_count_only_if_they_are_complete(text: str, values: list[Any]):
    assert [document.value for document in complete_documents(text)] == values
