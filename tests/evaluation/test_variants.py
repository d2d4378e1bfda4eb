"""Ways to call by name."""

from __future__ import annotations

import pytest

from toolspeak.errors import UsageError
from toolspeak.evaluation.variants import WAYS, Way, ways_of


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("native", (Way("off"),)),
        ("auto,fallback", (Way(), Way("fallback"))),
        ("inline, inline+grammar", (Way("force", "inline", False), Way("force", "inline", True))),
        ("decision@5,envelope+grammar@100", (Way("force", "decision", False, 5), Way("force", "envelope", True, 100))),
        ("native,,native", (Way("off"),)),
        ("", ()),
    ],
)
def test_a_list_is_read_in_its_order_each_way_once(text: str, ways: tuple[Way, ...]):
    assert ways_of(text) == ways


@pytest.mark.parametrize("text", ["quick", "native+grammar", "inline@", "inline@0", "inline@-1", "inline@x", "@4"])
def test_what_is_no_way_is_told(text: str):
    with pytest.raises(UsageError) as caught:
        ways_of(text)
    assert caught.value.hint


def test_every_way_is_another():
    assert len(set(WAYS.values())) == len(WAYS)
