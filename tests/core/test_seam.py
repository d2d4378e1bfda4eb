"""The seam between scanner and dialects: the shortcut, and what an opening is unless its row says otherwise."""

from __future__ import annotations

import sys

import pytest

from toolspeak.core.events import TextDelta
from toolspeak.core.reading.seam import NONE, Opening, Run


@pytest.mark.requirement("B8")
def test_a_run_has_all_the_room_there_is_unless_it_is_told():
    run = Run(str.isalpha, TextDelta)
    assert (run.left, run.sure("a "), run.grow, run.silent) == (sys.maxsize, "a ", None, False)
    assert Run(str.isalpha, TextDelta, 5).left == 5


def test_a_run_tells_in_the_end_how_much_came_its_way():
    grown: list[int] = []
    run = Run(str.isalpha, TextDelta, 5, str, grown.append)
    run.left -= 3
    run.end()
    assert grown == [3]


def test_a_run_that_nobody_counts_ends_all_the_same():
    run = Run(str.isalpha, TextDelta)
    run.end()
    assert run.left == sys.maxsize


def test_an_opening_is_strong_and_takes_any_number_of_calls_unless_its_row_says_otherwise():
    opening = Opening("hermes")
    assert opening.wrapper == "strong"
    assert not (opening.stops or opening.at_mark or opening.name or opening.single or opening.one_call)
    assert opening.preamble == ""


def test_no_mark_is_no_position():
    assert NONE < 0
