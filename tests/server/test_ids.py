"""Ids that nobody can guess."""

from __future__ import annotations

import os
import re

import pytest

from toolspeak.server.observe import ids
from toolspeak.server.observe.ids import new_id


def test_ids_are_128_bits_and_never_the_same():
    found = [new_id() for _ in range(300)]
    assert len(set(found)) == 300
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in found)


def test_a_child_process_does_not_go_on_with_the_ids_of_its_parent(monkeypatch: pytest.MonkeyPatch):
    blocks = iter([b"a" * 1024, b"b" * 1024])
    monkeypatch.setattr(os, "urandom", lambda size: next(blocks))
    drawn = ids._ids()  # pyright: ignore[reportPrivateUsage]
    assert next(drawn) == "61" * 16
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert next(drawn) == "62" * 16
