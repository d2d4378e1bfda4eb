"""What counts as the same, and as told."""

from __future__ import annotations

from tests.cases import check_each
from training.compare import same, stands


@check_each(
    ("wanted", "text", "told"),
    [
        ("1234.5", "The total is 1,234.5 euros.", True),
        ("1,234,567", "That makes 1234567.", True),
        ("New York", "It is in new  york.", True),
        ("35", "There are 3, 5 of them.", False),
        ("35", "There are 3,5 of them.", False),
        ("1200", "Room 1, 200 seats", False),
        ("12", "The result is 112.5.", False),
        ("12", "The result is 12.5.", False),
        ("5", "It is 1.5", False),
        ("12", "It is 12.", True),
        ("12", "It is 12.00 now", True),
        ("59", "The prefix is 059.", True),
        ("59", "The number is 1059.", False),
        ("12.5", "It is 12.50 euros", True),
        ("12.5", "It is 12.55 euros", False),
        ("14:05", "It is 14:05 there", True),
    ],
)
def test_an_answer_holds_a_value_but_for_case_wide_spaces_and_the_commas_of_thousands(
    wanted: str, text: str, told: bool
) -> None:
    assert stands((wanted,), text) is told


def test_everything_wanted_must_stand_there() -> None:
    assert stands(("one", "two"), "Two and one")
    assert not stands(("one", "three"), "Two and one")


def test_case_spaces_a_full_stop_and_the_kind_of_number_make_no_difference() -> None:
    assert same({"a": " Berlin. ", "b": 1}, {"b": 1.0, "a": "berlin"})
    assert not same({"a": True}, {"a": 1})
