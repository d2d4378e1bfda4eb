"""Values that are sent again are decoded and encoded once."""

from __future__ import annotations

import pytest

from toolspeak.protocols.shared import resent_values
from toolspeak.protocols.shared.resent_values import ResentValues


class Counted:
    """A table of texts that counts what it decodes and encodes."""

    def __init__(self) -> None:
        self.decoded: list[bytes] = []
        self.encoded: list[list[str]] = []
        self.table = ResentValues(self._decode, self._encode)

    def _decode(self, data: bytes) -> list[str] | None:
        self.decoded.append(data)
        return [data.decode()] if data != b"invalid" else None

    def _encode(self, value: list[str]) -> bytes:
        self.encoded.append(value)
        return value[0].encode() * 2


def test_a_value_that_comes_again_is_the_same_object():
    counted = Counted()
    first = counted.table.get(b"one")
    assert first == ["one"] and counted.table.get(b"one") is first
    assert counted.decoded == [b"one"]


def test_the_bytes_of_a_value_are_kept():
    counted = Counted()
    value = counted.table.get(b"one")
    assert value is not None
    assert [counted.table.wire(value) for _ in range(3)] == [b"oneone"] * 3
    assert counted.encoded == [value]


def test_what_cannot_be_decoded_is_not_kept():
    counted = Counted()
    assert counted.table.get(b"invalid") is counted.table.get(b"invalid") is None
    assert counted.decoded == [b"invalid"] * 2


def test_what_is_used_stays_and_what_is_not_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resent_values, "MAX_BYTES", 20)
    monkeypatch.setattr(resent_values, "ENTRY_BYTES", 0)
    counted = Counted()
    kept = counted.table.get(b"used")
    counted.table.get(b"once")
    for number in range(20):
        counted.table.get(b"new%d" % number)
        assert counted.table.get(b"used") is kept
    assert counted.decoded.count(b"used") == 1
    counted.table.get(b"once")
    assert counted.decoded.count(b"once") == 2


def test_the_bytes_of_a_value_survive_one_generation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resent_values, "MAX_BYTES", 16)
    monkeypatch.setattr(resent_values, "ENTRY_BYTES", 0)
    counted = Counted()
    kept = counted.table.get(b"used")
    assert kept is not None
    counted.table.wire(kept)
    counted.table.get(b"another")
    assert counted.table.wire(kept) == b"usedused"
    assert counted.encoded == [kept]


def test_a_large_value_is_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resent_values, "MAX_VALUE_BYTES", 3)
    counted = Counted()
    first = counted.table.get(b"large")
    assert first is not None and counted.table.get(b"large") is not first
    assert counted.table.wire(first) == counted.table.wire(first) == b"largelarge"
    assert len(counted.encoded) == 2


def test_small_values_take_more_than_their_texts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resent_values, "MAX_BYTES", 10 * resent_values.ENTRY_BYTES)
    counted = Counted()
    for number in range(30):
        counted.table.get(b"%d" % number)
    assert counted.table.get(b"0") == ["0"]
    assert counted.decoded.count(b"0") == 2
