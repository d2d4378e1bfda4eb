"""What is said of a body that is no JSON."""

from __future__ import annotations

import pytest

from toolspeak.errors import UsageError
from toolspeak.protocols.common import parse_object

HALF = "half of a surrogate pair"


@pytest.mark.parametrize(
    "body",
    [rb'{"a":"\ud800"}', rb'{"a":"\ud83d x"}', rb'{"a":"\udc00 and more text"}', rb'{"\ud800A":1}', '{"a":"\ud800"}'],
)
def test_half_a_surrogate_pair_is_called_by_its_name(body: bytes | str):
    with pytest.raises(UsageError, match=HALF):
        parse_object(body)


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"a":"x', b'{"a":NaN}', b'{"a":"\xff"}', rb'{"a":"\ud83d\ude00"', b"[" * 5000 + b'{"a":x']
)
def test_nothing_else_is(body: bytes):
    with pytest.raises(UsageError) as caught:
        parse_object(body)
    assert HALF not in str(caught.value)


def test_a_whole_pair_is_a_character():
    assert parse_object(rb'{"a":"\ud83d\ude00"}') == {"a": "\N{GRINNING FACE}"}
