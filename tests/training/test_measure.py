"""What adapters are measured on: nothing of it was trained on, and no set is too small to tell."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

for _needed in ("numpy", "gguf", "tokenizers", "torch"):
    pytest.importorskip(_needed, reason=f"training needs {_needed}")


def test_every_new_set_has_enough_cases():
    from training.dataset import Sources
    from training.measure import held_out

    counts = Counter(each.set for each in held_out(Sources(Path("none")), 60))
    for set_ in (
        "different errand closing thanks_first in_full one_field empty failed worked_out interpreted left_alone".split()
    ):
        assert counts[set_] >= 60, set_


def test_recorded_requests_of_different_people_are_measured_together(tmp_path: Path):
    from training.measure import joined
    from training.recorded import Recorded

    rows = [
        {
            "query": f"{request} {at}.",
            "tools": [{"name": name, "description": about, "parameters": {"value": {"type": "int"}}}],
            "answers": [{"name": name, "arguments": {"value": at}}],
        }
        for name, about, request in (
            ("tide_table", "Times of high water in a harbor", "High water in the harbor"),
            ("knit_rows", "Counts rows of a scarf", "Knit the row"),
        )
        for at in range(120)
    ]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    asked = joined(Recorded(tmp_path, held_out=True))
    assert len(asked) > 3
    assert all({call.name for call in each.answer.calls} == {"tide_table", "knit_rows"} for each in asked)
