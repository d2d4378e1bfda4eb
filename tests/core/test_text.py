"""Texts from outside, as people may see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspeak.core.text import UNSEEN, printable


@pytest.mark.parametrize(
    ("text", "instead", "kept", "seen"),
    [
        ("plain, wie Grüße", None, "", "plain, wie Grüße"),
        ("\x1b[2J\u202eevil\ud800", None, "", "\\x1b[2J\\u202eevil\\ud800"),
        ("a\nb\tc", None, "\n", "a\nb\\tc"),
        ("a\nb\x00", UNSEEN, "\n", "a\nb\ufffd"),
        ("a\nb", " ", "", "a b"),
        ("a\x07b\n", "", "\n", "ab\n"),
    ],
)
def test_what_cannot_be_seen_is_written_out_or_replaced(text: str, instead: str | None, kept: str, seen: str):
    assert printable(text, instead, kept) == seen


@given(st.text())
def test_nothing_is_left_that_steers(text: str):
    assert printable(text).isprintable()
