"""The seam between scanner and dialects: what an opening is unless its row says otherwise."""

from __future__ import annotations

from toolspeak.core.parsing.dialect_interface import NONE, Opening


def test_an_opening_is_strong_and_takes_any_number_of_calls_unless_its_row_says_otherwise():
    opening = Opening("hermes")
    assert opening.wrapper == "strong"
    assert not (opening.stops or opening.at_mark or opening.name or opening.single or opening.one_call)
    assert opening.preamble == ""


def test_no_mark_is_no_position():
    assert NONE < 0
