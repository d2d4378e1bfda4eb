"""Ways to call by name."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak.errors import UsageError
from toolspeak.evaluation.variants import VARIANTS, CallVariant, parse_variants


@check_each(
    ("text", "ways"),
    [
        ("native", (CallVariant("off"),)),
        ("auto,fallback", (CallVariant(), CallVariant("fallback"))),
        ("inline, inline+grammar", (CallVariant("force", "inline", False), CallVariant("force", "inline", True))),
        (
            "decision@5,envelope+grammar@100",
            (CallVariant("force", "decision", False, 5), CallVariant("force", "envelope", True, 100)),
        ),
        ("native,,native", (CallVariant("off"),)),
        ("", ()),
    ],
)
def test_a_list_is_read_in_its_order_each_way_once(text: str, ways: tuple[CallVariant, ...]):
    assert parse_variants(text) == ways


@check_each("text", ["quick", "native+grammar", "inline@", "inline@0", "inline@-1", "inline@x", "@4"])
def test_what_is_no_way_is_told(text: str):
    with pytest.raises(UsageError) as caught:
        parse_variants(text)
    assert caught.value.hint


def test_every_way_is_another():
    assert len(set(VARIANTS.values())) == len(VARIANTS)
