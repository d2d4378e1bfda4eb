"""Where a mark may begin: never missed, wherever the text ends, and seldom said in vain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspeak.core.parsing.context import Desk
from toolspeak.core.types import Tool
from toolspeak.dialects.mark_finder import place_finder
from toolspeak.dialects.openings import LINES, LITERALS, Marks

pytestmark = pytest.mark.requirement("B8")

PLACE = Marks(Desk((Tool("ping"),))).place


def at(text: str) -> int | None:
    """Where the first mark of a text may begin."""
    found = PLACE(text, 0)
    return None if found is None else found.start()


@pytest.mark.parametrize("mark", sorted(LITERALS))
def test_every_beginning_of_a_literal_mark_is_a_place_where_the_text_ends(mark: str):
    assert [at("a " + mark[:length]) for length in range(1, len(mark) + 1)] == [2] * len(mark)


@pytest.mark.parametrize("word", sorted({*LINES, "call:f{", "ping(", "ping {", "Action k7:"}))
def test_every_beginning_of_a_line_mark_makes_its_line_break_a_place(word: str):
    assert [at("a\n  " + word[:length]) for length in range(len(word) + 1)] == [1] * (len(word) + 1)
    assert at("a " + word.rstrip("[{(\n")) is None, "in the middle of a line it is nothing"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("plain text, with 1 < 2 and a > b", None),
        ("a <b", 2),
        ("a </b", 2),
        ("a <", 2),
        ("`code` and ``more``.", None),
        ("a ```", 2),
        ("a `", 2),
        ('a {"name": 1}', 2),
        ("a {name = 1}", 2),
        ("a { ", 2),
        ("a{name: 1}", None),
        ("a {1: 2}", None),
        ('a {"name", 1}', None),
        ('a [{"name": 1}]', 2),
        ("a [f(x=1)]", 2),
        ("a [f", 2),
        ("a [1, 2] b", None),
        ("a [ ] b", None),
        ("a[f(x)] b", None),
        ("[TOOL_CALL is no mark", None),
        ("a\nb\nc d", None),
        ("a\n\n\nb c", None),
        ("a\n", 1),
        ("a\n ~~~", 1),
        ("a\n ~ b", None),
        ("a\nb (c)", 1),
        ("a\nword and (c)", None),
    ],
)
def test_a_place_is_where_something_goes_on_like_a_mark(text: str, place: int | None):
    assert at(text) == place


def test_a_mark_that_begins_another_one_is_enough():
    place = place_finder(["[A]", "[A]B"], ["x", "xy"])
    found = place("a [A]C", 0)
    assert found is not None and found.start() == 2
    found = place("a\nxz.", 0)
    assert found is not None and found.start() == 1


@given(st.text('<`{[]\n ~aA:("T/', max_size=30), st.text("ab<[{\n", max_size=8))
def test_a_place_that_is_none_stays_none_when_the_text_goes_on(text: str, more: str):
    """So that what was passed over need not be looked at again."""
    if at(text) is None:
        found = at(text + more)
        assert found is None or found >= len(text)
