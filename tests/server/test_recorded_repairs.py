"""The recorded failures that the start view of the page shows: they are what the engine does with them today."""

from __future__ import annotations

import pytest

from scripts.record_repairs import PLACE, recordings, text


@pytest.mark.requirement("H2")
def test_the_recorded_repairs_are_what_happens_today():
    assert PLACE.read_text(encoding="utf-8") == text(), "run `python scripts/record_repairs.py`"
    assert all(each["calls"] for each in recordings())
