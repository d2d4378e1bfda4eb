"""The threshold for calls: what is asked to choose it, and which bias is chosen."""

from __future__ import annotations

import pytest

from training.recorded import Record, record_of
from training.scenes import nearest
from training.threshold import Margin, best, shares


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


@pytest.mark.parametrize(
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
