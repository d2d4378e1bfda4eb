"""The threshold for calls: what is asked to choose it, and which bias is chosen."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.cases import check_each
from toolspeak.engine.prompting.history import is_answered
from training.closings import closings
from training.family import families
from training.recorded import Record, Recorded, record_of
from training.scenes import Scenes, nearest
from training.threshold import Margin, best, later_turns, shares


def recorded(request: str, name: str, about: str) -> Record:
    found = record_of(
        request, [{"name": name, "description": about, "parameters": {}}], [{"name": name, "arguments": {}}]
    )
    assert found is not None
    return found


TIDES = recorded("When is high water in the harbor of Brest?", "tide_table", "Times of high and low water in a harbor.")
BERTHS = recorded("Is a berth free in the harbor?", "free_berths", "Free berths for boats, by harbor.")
KNITTING = recorded("How many rows do I knit?", "row_counter", "Counts the rows of a knitted scarf.")


def test_the_nearest_is_what_has_most_words_in_common_and_does_something_else():
    assert nearest(TIDES, [KNITTING, BERTHS]) is BERTHS
    assert nearest(TIDES, [TIDES]) is None


def test_a_bias_makes_calls_where_none_was_hardly_likelier():
    margins = [Margin("one", -0.5), Margin("recorded", 3.0), Margin("recorded_near", -2.0), Margin("near_miss", 0.2)]
    assert shares(margins, 0.0) == (0.5, 0.5)
    assert shares(margins, 1.0) == (1.0, 0.5)
    assert shares(margins, -1.0) == (0.5, 1.0)
    assert shares(margins, 3.0) == (1.0, 0.0)


@check_each(
    ("calls", "nones", "chosen"),
    [
        ((2.0, 3.0), (-2.0, -3.0), 0.0),
        ((2.0, -0.9), (-2.0, -3.0), 1.0),
        ((5.0, 6.0), (1.8, -3.0), -2.0),
        ((1.0, 6.0), (1.8, -3.0), -2.0),
    ],
)
def test_the_bias_is_chosen_that_decides_most_right_and_changes_least_where_an_unasked_call_counts_twice(
    calls: tuple[float, ...], nones: tuple[float, ...], chosen: float
):
    margins = [*(Margin("one", each) for each in calls), *(Margin("near_miss", each) for each in nones)]
    assert best(margins) == chosen


def test_later_an_answer_stands_before_and_half_of_the_families_say_thanks_in_place_of_a_request(tmp_path: Path):
    tool = {"name": "tide_table", "description": "High water", "parameters": {"harbor": {"type": "str"}}}
    rows = [
        {
            "query": f"High water in {at}?",
            "tools": [tool],
            "answers": [{"name": "tide_table", "arguments": {"harbor": at}}],
        }
        for at in ("Brest", "Vigo", "Cuxhaven", "Leith")
    ]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    asked = later_turns(Recorded(tmp_path), Scenes(families(), None, []), 4, random.Random(1))
    assert all(is_answered(turn.messages) for _, turn in asked)
    said = {set_: [turn.messages[-1].text for each, turn in asked if each == set_] for set_, _ in asked}
    assert len(said["next_request"]) == len(said["ended"]) >= 2
    unseen = {each.said for each in closings(held_out=True)}
    assert set(said["ended"]) <= unseen
    assert not set(said["next_request"]) & unseen
    assert all(text.startswith("High water") for text in said["recorded"])
